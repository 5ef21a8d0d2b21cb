#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ZeRO's stages, places and types on 1 to 4 ranks.
prog=${builddir:?source tests/env.sh first}/tests/mpi/zero
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

echo 1..5
for n in 1 2 3 4; do
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(OMP_NUM_THREADS=1 timeout 300 $MPIEXEC -n "$n" "$prog" "$tmp" 2>&1 < /dev/null)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    [ $rc -eq 0 ] && printf '%s\n' "$out" | grep -q '^1\.\.' || printf 'not '
    echo "ok $n - zero on $n ranks"
done
[ -z "$(ls -A "$tmp")" ] || printf 'not '
echo "ok 5 - no file is left"
