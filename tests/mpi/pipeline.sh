#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Pipelines of 1 to 4 stages, plain and interleaved, over real messages.
prog=${builddir:?source tests/env.sh first}/tests/mpi/pipeline

echo 1..4
for n in 1 2 3 4; do
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(timeout 120 $MPIEXEC -n $n "$prog" 2>&1 < /dev/null)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    [ $rc -eq 0 ] && printf '%s\n' "$out" | grep -q '^1\.\.' || printf 'not '
    echo "ok $n - pipelines of $n stages"
done
