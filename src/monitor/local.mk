# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += src/monitor/libmds_monitor.a
src_monitor_libmds_monitor_a_SOURCES = \
  src/monitor/abort_notice.c \
  src/monitor/call.h \
  src/monitor/monitor.h \
  src/monitor/proxy.c \
  src/monitor/monitor_process.c \
  src/monitor/signals.c \
  src/monitor/peer_timeout.c \
  src/monitor/watch.c \
  src/monitor/watchdog.c

unit_tests += tests/unit/monitor_process
tests_unit_monitor_process_SOURCES = tests/unit/monitor_process.c
tests_unit_monitor_process_LDADD = src/monitor/libmds_monitor.a $(base_libs) $(CMOCKA_LIBS)
