# SPDX-License-Identifier: BSD-3-Clause
# compare compares two runs for matrix.t.
check_PROGRAMS += tests/parity/compare
tests_parity_compare_SOURCES = tests/parity/compare.c
tests_parity_compare_LDADD = $(ckpt_libs) -lm

# train_rows trains many rows of matrix.t with one mpiexec.
check_PROGRAMS += tests/parity/train_rows
tests_parity_train_rows_SOURCES = tests/parity/train_rows.c src/programs/finish.c
tests_parity_train_rows_LDADD = $(src_programs_mds_pretrain_LDADD)

TESTS += tests/parity/matrix.t tests/parity/parity.t tests/parity/hf.t \
  tests/parity/megatron.t
dist_check_SCRIPTS += tests/parity/matrix.t tests/parity/parity.t tests/parity/hf.t \
  tests/parity/megatron.t
EXTRA_DIST += tests/parity/layouts.awk tests/parity/quick.list tests/parity/setup.sh \
  tests/parity/hf.py tests/parity/hf_tokens.py tests/parity/tokens.pl tests/parity/megatron.py tests/parity/reference.py tests/parity/stfile.py

# Every layout: two hours on two cores.  PARITY_SHARD=3/20 runs the third of twenty parts.
check-parity: all tests/parity/compare tests/parity/train_rows
	. tests/env.sh; $(SHELL) $(srcdir)/tests/parity/matrix.t all
.PHONY: check-parity
