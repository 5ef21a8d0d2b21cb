# SPDX-License-Identifier: BSD-3-Clause
# The man page comes from the program's table of options (no MPI is started for that);
# not where what is built does not run.
if !CROSS
nodist_man_MANS += docs/mds_pretrain.1
endif
CLEANFILES += docs/mds_pretrain.1

docs/mds_pretrain.1: src/programs/mds_pretrain$(EXEEXT) docs/man.awk
	$(AM_V_GEN)$(MKDIR_P) docs && \
	{ src/programs/mds_pretrain$(EXEEXT) --help && src/programs/mds_pretrain$(EXEEXT) --option-table; } > $@.table && \
	$(AWK) -v version=$(PACKAGE_VERSION) -f $(srcdir)/docs/man.awk $@.table > $@.tmp && \
	rm $@.table && mv $@.tmp $@

# For MANPATH=BUILD/docs: without an installation.
if !CROSS
all-local: docs/man1/mds_pretrain.1
endif
docs/man1/mds_pretrain.1: docs/mds_pretrain.1 $(dist_man_MANS)
	$(AM_V_GEN)$(MKDIR_P) docs/man1 && \
	for page in $(dist_man_MANS); do cp -f $(srcdir)/$$page docs/man1/ || exit 1; done && \
	cp -f docs/mds_pretrain.1 docs/man1/
clean-local-man:
	rm -rf docs/man1
.PHONY: clean-local-man

EXTRA_DIST += \
  docs/adr/0001-memory-by-dry-run.md \
  docs/adr/0002-sums-in-rank-order.md \
  docs/adr/0003-samples-without-an-index.md \
  docs/adr/0004-libraries.md \
  docs/adr/0005-sequence-major-rows.md \
  docs/adr/0006-parameter-units-and-shards.md \
  docs/adr/0007-monitor-process-per-rank.md \
  docs/adr/0008-threads-write-hdf5-data.md \
  docs/adr/0009-hugging-face-by-one-table.md \
  docs/adr/0010-sequence-tiles.md \
  docs/adr/0011-streams-and-overlap.md \
  docs/adr/0012-direct-io-for-loads.md \
  docs/adr/0013-gpu-memory-of-libraries.md \
  docs/adr/0014-tensor-parallel-chunks.md \
  docs/adr/0015-unfused-attention.md \
  docs/adr/0016-activation-offload-ring.md \
  docs/adr/0017-gemm-autotuning-under-load.md \
  docs/adr/0018-dlopen-of-libraries.md \
  docs/adr/0019-one-transformer.md \
  docs/adr/0020-code-kept-and-deleted.md \
  docs/adr/0021-attention-in-query-blocks.md \
  docs/adr/0022-packed-documents.md \
  docs/adr/0023-head-groups.md \
  docs/adr/0024-windows.md \
  docs/adr/0025-restarts-on-spare-nodes.md \
  docs/adr/0026-fp8-products.md \
  docs/adr/0027-fp8-attention.md \
  docs/adr/0028-hopper-attention.md \
  docs/adr/0029-hopper-attention-backward.md \
  docs/adr/0030-blocks-as-lists.md \
  docs/adr/0032-beside-flashattention-4.md \
  docs/adr/0033-scores-by-evaluation.md \
  docs/adr/0034-update-rules.md \
  docs/adr/0035-events-of-a-run.md \
  docs/adr/0036-kv-cache.md \
  docs/adr/0037-experts-as-steps.md \
  docs/adr/0038-install-anywhere.md \
  docs/adr/0039-batch-size-schedule.md \
  docs/adr/0040-experts-on-hopper.md \
  docs/adr/0042-what-is-made-of-tables.md \
  docs/adr/0043-muon-in-every-layout.md \
  docs/adr/0044-results-that-go-on.md \
  docs/adr/0045-a-smaller-house.md \
  docs/adr/0046-experts-on-several-ranks.md \
  docs/adr/0047-alibi.md \
  docs/adr/0048-norms-after-sublayers.md \
  docs/adr/0049-time-is-a-clock.md \
  docs/adr/0050-biases-that-balance-experts.md \
  docs/adr/0051-shared-experts.md \
  docs/adr/0052-mup-as-megatrons.md \
  docs/adr/0053-inference-in-jobs.md \
  docs/adr/0054-a-batch-system-is-a-row.md \
  docs/adr/0055-words-of-activation-memory.md \
  docs/adr/0056-dropout-and-split-keys-on-hopper.md \
  docs/adr/0057-tokens-by-graphs.md \
  docs/adr/0058-a-cache-on-several-ranks.md \
  docs/adr/0059-rounds-that-are-saved.md \
  docs/adr/0060-clipping-by-log-sum-exp.md \
  docs/adr/0061-experts-within-other-axes.md \
  docs/adr/0062-windows-share-what-they-begin-with.md \
  docs/adr/0063-products-in-tiles-of-one-team.md \
  docs/architecture.md \
  docs/benchmarks.md \
  docs/img/beside-peers.svg docs/img/genome-loss.svg docs/img/quickstart-loss.svg \
  docs/img/scaling.svg docs/img/tflops-by-length.svg \
  docs/containers.md docs/html docs/inference.md docs/install.md docs/man.awk docs/options.awk docs/start-developer.md docs/start-laptop.md \
  docs/start-polaris.md
# What manual pages and messages refer to is installed, and what that refers to.
dist_doc_DATA += docs/context-extension.md docs/events.md docs/experts.md docs/running.md docs/data.md docs/fp8.md docs/genome-corpus.md docs/genome-stages.md docs/glossary.md docs/from-megatron-deepspeed.md docs/long-sequences.md docs/options.md docs/parallelism.md \
  docs/profiling.md
docimgdir = $(docdir)/img
dist_docimg_DATA = docs/img/context-extension.svg docs/img/fp8-curves.svg docs/img/genome-species.svg docs/img/mup-rates.svg docs/img/time-to-loss.svg

# The documentation as a web site, in html/ of the build directory.
html-local:
	$(top_srcdir)/docs/html html
.PHONY: html-local
