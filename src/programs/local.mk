# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += src/programs/mds_pretrain
src_programs_mds_pretrain_SOURCES = src/programs/mds_pretrain.c \
  src/programs/finish.c src/programs/finish.h src/programs/ranks.c src/programs/ranks.h \
  src/programs/start.c src/programs/start.h
src_programs_mds_pretrain_LDADD = $(plan_libs) $(train_libs)

# Of programs with subcommands.
programs_with_subcommands = src/programs/finish.c src/programs/finish.h \
  src/programs/start.c src/programs/start.h \
  src/programs/subcommands.c src/programs/subcommands.h

unit_tests += tests/unit/subcommands
tests_unit_subcommands_SOURCES = tests/unit/subcommands.c $(programs_with_subcommands)
tests_unit_subcommands_LDADD = $(config_libs) $(CMOCKA_LIBS)

include src/programs/mds_data.mk
include src/programs/mds_launch.mk
include src/programs/mds_ckpt.mk
include src/programs/mds_infer.mk

TESTS += tests/cli/faults.t tests/cli/events.t tests/cli/onesided.t tests/cli/noroom.t tests/cli/limits.t tests/cli/walltime.t tests/cli/memory.t tests/cli/nonfinite.t tests/cli/genome.t tests/cli/resume.t tests/cli/batches.t tests/cli/pretrain.t tests/cli/docs.t tests/cli/errors.t tests/cli/layouts.t
dist_check_SCRIPTS += tests/cli/faults.t tests/cli/events.t tests/cli/onesided.t tests/cli/noroom.t tests/cli/limits.t tests/cli/walltime.t tests/cli/memory.t tests/cli/nonfinite.t tests/cli/genome.t tests/cli/resume.t tests/cli/batches.t tests/cli/pretrain.t tests/cli/docs.t tests/cli/errors.t tests/cli/layouts.t
EXTRA_DIST += tests/cli/setup.sh tests/cli/megatron.sh tests/cli/tworanks.sh tests/forget.sh

# Preloaded and attached as sites' tools are.
TESTS += tests/cli/tools.t
dist_check_SCRIPTS += tests/cli/tools.t
EXTRA_DIST += tests/cli/tools.c
check_DATA += tests/cli/tools.so
CLEANFILES += tests/cli/tools.so
tests/cli/tools.so: tests/cli/tools.c
	$(AM_V_CC)$(MKDIR_P) tests/cli && \
	$(CC) -D_GNU_SOURCE -O1 -fPIC -shared -o $@ $(srcdir)/tests/cli/tools.c -ldl

TESTS += tests/cli/steps.t tests/cli/spellings.t tests/cli/examples.t
dist_check_SCRIPTS += tests/cli/steps.t tests/cli/spellings.t tests/cli/examples.t
EXTRA_DIST += tests/cli/steps.golden

# An installed program takes the installed model table.
installcheck-local:
	$(DESTDIR)$(bindir)/mds_pretrain --model-size-key GPT13B --show-config | \
	  grep 'layers: 40 .* $(DESTDIR)$(pkgdatadir)/models.yaml'

# What failed tests leave behind.
clean-local: clean-local-man
	rm -rf tests/*/trash*
