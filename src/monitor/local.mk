# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/monitor/libmds_monitor.a
src_monitor_libmds_monitor_a_SOURCES = \
  src/monitor/alarm.c \
  src/monitor/call.h \
  src/monitor/monitor.h \
  src/monitor/proxy.c \
  src/monitor/sentinel.c \
  src/monitor/signals.c \
  src/monitor/silence.c \
  src/monitor/watch.c \
  src/monitor/watchdog.c

unit_tests += tests/unit/sentinel
tests_unit_sentinel_SOURCES = tests/unit/sentinel.c
tests_unit_sentinel_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_unit_sentinel_LDADD = src/monitor/libmds_monitor.a $(base_libs) $(CMOCKA_LIBS)
