# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/metrics/libmds_metrics.a
src_metrics_libmds_metrics_a_SOURCES = \
  src/metrics/console.c src/metrics/console.h \
  src/metrics/experts.c src/metrics/experts.h src/metrics/expert_records.c \
  src/metrics/flops.c src/metrics/flops.h \
  src/metrics/metrics.c src/metrics/metrics.h src/metrics/metrics_impl.h \
  src/metrics/outputs.c src/metrics/outputs.h \
  src/metrics/preflight.c src/metrics/preflight.h \
  src/metrics/profile.c src/metrics/profile_records.c \
  src/metrics/spikes.c src/metrics/spikes.h \
  src/metrics/stragglers.c src/metrics/stragglers.h \
  src/metrics/tensorboard.c src/metrics/tensorboard.h
metrics_libs = src/metrics/libmds_metrics.a $(io_libs) $(config_libs)

unit_tests += tests/unit/metrics
tests_unit_metrics_SOURCES = tests/unit/metrics.c tests/unit/scratch.h
tests_unit_metrics_LDADD = $(metrics_libs) $(CMOCKA_LIBS)


bin_SCRIPTS += scripts/mds_plot scripts/mds_track
dist_man_MANS += docs/mds_plot.1 docs/mds_track.1
TESTS += tests/cli/plot.t tests/cli/track.t
dist_check_SCRIPTS += tests/cli/plot.t tests/cli/track.t
EXTRA_DIST += scripts/mds_plot scripts/mds_track
