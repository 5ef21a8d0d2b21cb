# SPDX-License-Identifier: BSD-3-Clause
TEST_EXTENSIONS = .sh .t
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/tests/timed \
    $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
T_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_DRIVER = $(LOG_DRIVER)
# Unit tests (cmocka) speak TAP; tests/tap mends cmocka's skip lines.
LOG_COMPILER = $(top_srcdir)/tests/tap
EXTRA_DIST += tests/release tests/tap tests/timed tests/slowest tests/unit/none.sh

check-local: check-TESTS
	@$(top_srcdir)/tests/slowest $(TEST_LOGS:.log=.trs)
AM_TESTS_ENVIRONMENT = . tests/env.sh;
TESTS += tests/cli/configure.t
dist_check_SCRIPTS += tests/cli/configure.t
include tests/style/local.mk
include tests/fuzz/local.mk
include tests/parity/local.mk

# Last, as what is left for one core while the other ends a long test.
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
else
TESTS += tests/unit/none.sh
endif

# Before a version is published: HACKING.md.
release-check: all
	. tests/env.sh; $(srcdir)/tests/release
.PHONY: release-check
