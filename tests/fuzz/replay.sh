#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fuzzers' corpus as a regression test.
exec "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/fuzz/run" replay
