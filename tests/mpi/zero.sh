#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ZeRO's stages, places and types on 1 to 4 ranks; sums along the axes of a grid on 8;
# Muon with tensor ranks, too, on 1 to 6; generation in layouts of 4.
prog=${builddir:?source tests/env.sh first}/tests/mpi/zero
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

echo 1..11
try() { # try TEST NAME RANKS PROGRAM...
    test=$1 name=$2 n=$3
    shift 3
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(OMP_NUM_THREADS=1 timeout 300 $MPIEXEC -n "$n" "$@" 2>&1 < /dev/null)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    [ $rc -eq 0 ] && printf '%s\n' "$out" | grep -q '^1\.\.' || printf 'not '
    echo "ok $test - $name on $n ranks"
}
for ranks in 1 2 3 4; do
    try $ranks zero $ranks "$prog" "$tmp"
done
for ranks in 1 2 4 6; do
    try $((5 + ranks / 2)) Muon $ranks "${prog%zero}muon" "$tmp"
done
[ -z "$(ls -A "$tmp")" ] || printf 'not '
echo "ok 9 - no file is left"
try 10 axes 8 "${prog%zero}axes"
try 11 generation 4 "${prog%zero}decode"
