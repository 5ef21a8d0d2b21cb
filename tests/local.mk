# SPDX-License-Identifier: BSD-3-Clause
TEST_EXTENSIONS = .sh .t
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/tests/timed \
    $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
T_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_DRIVER = $(LOG_DRIVER)
# Unit tests (cmocka) speak TAP; tests/tap mends cmocka's skip lines.
LOG_COMPILER = $(top_srcdir)/tests/tap
EXTRA_DIST += tests/batch.sh tests/release tests/sample.h tests/tap tests/timed tests/slowest tests/unit/none.sh

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

# What quickstart.sh check leaves to check-all: tests of the sources' style, and those of more than five
# seconds that do not show anything about a machine which the others do not.
slow_tests = tests/ckpt/crash.sh tests/ckpt/damage.t tests/ckpt/hf.t tests/ckpt/onesided.t \
  tests/ckpt/reshard.sh tests/ckpt/resume.t tests/ckpt/tools.t tests/ckpt/vocabulary.t \
  tests/cli/batches.t tests/cli/bench.t tests/cli/configure.t tests/cli/docs.t tests/cli/errors.t \
  tests/cli/events.t tests/cli/faults.t tests/cli/layouts.t tests/cli/limits.t \
  tests/cli/mds_data.t tests/cli/memory.t tests/cli/nonfinite.t tests/cli/noroom.t \
  tests/cli/onesided.t tests/cli/preflight.t tests/cli/walltime.t tests/fuzz/replay.sh \
  tests/infer/embed.t tests/infer/generate.t tests/infer/score.t tests/infer/tutorial.t \
  tests/infer/variants.t tests/kernels/attention tests/kernels/experts tests/kernels/fp8 \
  tests/launch/ahead.t tests/launch/golden.sh tests/launch/jobs.sh tests/launch/localhost.t \
  tests/launch/module.t tests/launch/restart.t tests/launch/status.t tests/launch/submit.t \
  tests/launch/sweep.t tests/launch/variables.sh tests/mpi/deaths.sh tests/mpi/late.sh \
  tests/mpi/zero.sh tests/parity/megatron.t tests/parity/parity.t \
  tests/unit/engine_memory tests/unit/lists tests/unit/plan tests/unit/plan_best
check-quick:
	PARITY_ROWS='gpt-tp2-drop gpt-u2-drop llama-ring4-tile gpt-pp2-drop llama-dp2-z3 gpt+fp8dx-tp2-sp' \
	  $(MAKE) check TESTS='$(filter-out $(slow_tests) tests/style/%,$(TESTS))'
.PHONY: check-quick

# Before a version is published: HACKING.md.
release-check: all
	. tests/env.sh; $(srcdir)/tests/release
.PHONY: release-check
