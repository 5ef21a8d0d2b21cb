#!/bin/sh
# The fuzzers' corpus as a regression test.
exec "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/fuzz/run" replay
