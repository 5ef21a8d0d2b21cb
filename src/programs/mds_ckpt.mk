# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += src/programs/mds_ckpt
src_programs_mds_ckpt_SOURCES = src/programs/mds_ckpt.c src/programs/mds_ckpt.h \
  src/programs/mds_ckpt_diff.c src/programs/mds_ckpt_export.c \
  src/programs/mds_ckpt_import.c src/programs/mds_ckpt_make.c \
  src/programs/mds_ckpt_merge.c src/programs/mds_ckpt_open.c src/programs/mds_ckpt_upcycle.c \
  src/programs/mds_ckpt_reshard.c \
  $(programs_with_subcommands)
src_programs_mds_ckpt_LDADD = $(engine_libs) $(ckpt_libs) $(data_libs)

bin_SCRIPTS += scripts/mds_from_megatron
EXTRA_DIST += scripts/mds_from_megatron

dist_man_MANS += docs/mds_ckpt.1 docs/mds_from_megatron.1
dist_doc_DATA += docs/checkpoints.md
TESTS += tests/ckpt/crash.sh tests/ckpt/damage.t tests/ckpt/hf.t tests/ckpt/merge.t tests/ckpt/onesided.t \
  tests/ckpt/reshard.sh tests/ckpt/resume.t tests/ckpt/tools.t tests/ckpt/upcycle.t tests/ckpt/vocabulary.t
dist_check_SCRIPTS += tests/ckpt/crash.sh tests/ckpt/damage.t tests/ckpt/hf.t tests/ckpt/merge.t tests/ckpt/onesided.t \
  tests/ckpt/reshard.sh tests/ckpt/resume.t tests/ckpt/tools.t tests/ckpt/upcycle.t tests/ckpt/vocabulary.t
EXTRA_DIST += tests/ckpt/run.sh tests/ckpt/faultfs.c

# A file system that fails, to be preloaded: not by AM_CFLAGS, which may want libraries
# that have to come first.
check_DATA += tests/ckpt/faultfs.so
CLEANFILES += tests/ckpt/faultfs.so
tests/ckpt/faultfs.so: tests/ckpt/faultfs.c
	$(AM_V_CC)$(MKDIR_P) tests/ckpt && \
	$(CC) -D_GNU_SOURCE -O1 -fPIC -shared -o $@ $(srcdir)/tests/ckpt/faultfs.c -ldl

# Many more moments, and every layout by every other.
check-crash: all
	. tests/env.sh; CRASH_ROUNDS=200 $(SHELL) $(srcdir)/tests/ckpt/crash.sh
check-reshard: all
	. tests/env.sh; $(SHELL) $(srcdir)/tests/ckpt/reshard.sh all
.PHONY: check-crash check-reshard
