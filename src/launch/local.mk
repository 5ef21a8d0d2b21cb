# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/launch/libmds_launch.a
src_launch_libmds_launch_a_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
src_launch_libmds_launch_a_SOURCES = \
  src/launch/answer.c \
  src/launch/arguments.c \
  src/launch/capture.c src/launch/capture.h \
  src/launch/batch_nodes.c \
  src/launch/check.c \
  src/launch/command.c \
  src/launch/folder.c src/launch/folder.h \
  src/launch/gpus.c \
  src/launch/hosts.c src/launch/hosts.h \
  src/launch/infer.c src/launch/infer.h \
  src/launch/infer_layout.c src/launch/infer_impl.h \
  src/launch/infer_print.c \
  src/launch/job.c src/launch/job.h \
  src/launch/length.c \
  src/launch/retention.c \
  src/launch/models.c \
  src/launch/run_events.c src/launch/run_events.h \
  src/launch/run_folder.c src/launch/run_folder.h \
  src/launch/launch.c src/launch/launch.h \
  src/launch/launchers.c \
  src/launch/layout.c \
  src/launch/options.c src/launch/options.h \
  src/launch/placement.c src/launch/placement.h \
  src/launch/placement_find.c \
  src/launch/pmix.c \
  src/launch/restart.c \
  src/launch/script.c \
  src/launch/scripts.c \
  src/launch/submit.c src/launch/submit.h \
  src/launch/supervise.c src/launch/supervise.h \
  src/launch/sweep.c \
  src/launch/events.c src/launch/events.h \
  src/launch/data_facts.c \
  src/launch/argv.c src/launch/argv.h
# What src/launch/scripts.c starts.
dist_pkgdata_SCRIPTS = scripts/lr-find scripts/report scripts/status
dist_pkgdata_DATA += scripts/json.awk scripts/lr-find.awk scripts/report.awk scripts/status.awk

launch_libs = src/launch/libmds_launch.a $(infer_libs) $(ckpt_libs) $(plan_libs) $(data_libs) \
  $(PMIX_LIBS)

check_PROGRAMS += tests/unit/launch tests/unit/events
TESTS += tests/unit/launch tests/unit/events
tests_unit_events_SOURCES = tests/unit/events.c tests/unit/scratch.h
tests_unit_events_LDADD = $(launch_libs) $(CMOCKA_LIBS)
tests_unit_launch_SOURCES = tests/unit/launch.c tests/unit/scratch.h
tests_unit_launch_LDADD = $(launch_libs) $(CMOCKA_LIBS)
