#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collectives and messages on 1 to 4 ranks.  The hashes are of all results: they are the
# same for every MPI, processor and run, because sums are made in rank order.
progs=${builddir:?source tests/env.sh first}/tests/mpi

echo 1..16
t=0
while read -r prog n want; do
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(timeout 120 $MPIEXEC -n "$n" "$progs/$prog" 2>&1 < /dev/null)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    t=$((t + 1))
    [ $rc -eq 0 ] && printf '%s\n' "$out" | grep -q '^1\.\.' || printf 'not '
    echo "ok $t - $prog on $n ranks"
    t=$((t + 1))
    printf '%s\n' "$out" | grep -qx "hash $want" || printf 'not '
    echo "ok $t - the same bits as ever from $prog on $n ranks"
done <<EOF
collectives 1 f219f4e93cac6904
collectives 2 f4c1954e042edc42
collectives 3 b5125660190efc3e
collectives 4 8043afcf3ba34302
requests 1 1e1e2691521bbbb8
requests 2 0412d2ae1e0d3584
requests 3 08f55aff2db119f6
requests 4 ee7fde9c26c5ecf8
EOF
