# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/base/libmds_base.a
src_base_libmds_base_a_SOURCES = \
  src/base/alloc.c src/base/alloc.h \
  src/base/clock.c src/base/clock.h \
  src/base/events.c src/base/events.h \
  src/base/exit_status.h \
  src/base/host.c src/base/host.h \
  src/base/log.c src/base/log.h \
  src/base/minmax.h \
  src/base/progress.c src/base/progress.h \
  src/base/scheduler.c src/base/scheduler.h \
  src/base/stream.c src/base/stream.h \
  src/base/status.c src/base/status.h \
  src/base/str.c src/base/str.h \
  src/base/units.c src/base/units.h
base_libs = src/base/libmds_base.a

unit_tests += tests/unit/base
tests_unit_base_SOURCES = tests/unit/base.c
tests_unit_base_LDADD = $(base_libs) $(CMOCKA_LIBS)
