# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/config/libmds_config.a
src_config_libmds_config_a_CFLAGS = $(AM_CFLAGS) $(YAML_CFLAGS)
src_config_libmds_config_a_SOURCES = \
  src/config/activation_rules.c \
  src/config/activation_text.c \
  src/config/activations.c src/config/activations.h \
  src/config/batches.c src/config/batches.h \
  src/config/build.h \
  src/config/config.h \
  src/config/config_batch.c \
  src/config/config_impl.h \
  src/config/config_layout.c \
  src/config/config_length.c \
  src/config/config_memory.c \
  src/config/config_read.c src/config/options.h \
  src/config/config_resolve.c \
  src/config/deepspeed.c \
  src/config/diag.c src/config/diag.h \
  src/config/examples.c \
  src/config/experts.c \
  src/config/extent.c src/config/extent.h \
  src/config/fp8.c \
  src/config/kinds.c src/config/kinds.h \
  src/config/layer_list.c src/config/layer_list.h \
  src/config/megatron.c \
  src/config/model_size.c \
  src/config/model_table.c \
  src/config/mup.c \
  src/config/names.c \
  src/config/options.c src/config/options_run.h \
  src/config/optset.c src/config/optset.h src/config/optset_impl.h \
  src/config/optset_foreign.c \
  src/config/optset_print.c \
  src/config/optset_read.c \
  src/config/optset_table.c \
  src/config/optset_value.c \
  src/config/pairs.c src/config/pairs.h \
  src/config/rope.c src/config/rope.h \
  src/config/saved.c \
  src/config/shipped.c \
  src/config/tree.c src/config/tree.h \
  src/config/window.c
nodist_src_config_libmds_config_a_SOURCES = src/config/commit.c
EXTRA_DIST += src/config/commit.sh
CLEANFILES += src/config/commit.c
# Its time changes only when the commit does, so that nothing is linked again.
src/config/commit.c: commit-of-now
	@$(MKDIR_P) src/config && $(srcdir)/src/config/commit.sh $@
commit-of-now:
.PHONY: commit-of-now
config_libs = src/config/libmds_config.a $(topo_libs) $(YAML_LIBS)

dist_pkgdata_DATA += ALCF/models.yaml

config_test_headers = tests/unit/reading.h tests/unit/scratch.h
unit_tests += tests/unit/optset tests/unit/config tests/unit/config_compat \
  tests/unit/config_layout tests/unit/config_resolve
tests_unit_optset_SOURCES = tests/unit/optset.c $(config_test_headers)
tests_unit_optset_LDADD = $(config_libs) $(CMOCKA_LIBS)
tests_unit_config_SOURCES = tests/unit/config.c $(config_test_headers)
tests_unit_config_LDADD = $(config_libs) $(CMOCKA_LIBS)
tests_unit_config_compat_SOURCES = tests/unit/config_compat.c $(config_test_headers)
tests_unit_config_compat_LDADD = $(config_libs) $(CMOCKA_LIBS)
tests_unit_config_layout_SOURCES = tests/unit/config_layout.c $(config_test_headers)
tests_unit_config_layout_LDADD = $(config_libs) $(CMOCKA_LIBS)
tests_unit_config_resolve_SOURCES = tests/unit/config_resolve.c $(config_test_headers)
tests_unit_config_resolve_LDADD = $(config_libs) $(CMOCKA_LIBS)

TESTS += tests/cli/options.t
dist_check_SCRIPTS += tests/cli/options.t
EXTRA_DIST += tests/data/megatron.flags
