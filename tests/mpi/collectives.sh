#!/bin/sh
# Collectives on 1 to 4 ranks.  The hashes are of all results: they are the same for every
# MPI, processor and run, because sums are made in rank order.
prog=${builddir:?source tests/env.sh first}/tests/mpi/collectives

echo 1..8
t=0
while read -r n want; do
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(timeout 120 $MPIEXEC -n "$n" "$prog" 2>&1 < /dev/null)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    t=$((t + 1))
    [ $rc -eq 0 ] && printf '%s\n' "$out" | grep -q '^1\.\.' || printf 'not '
    echo "ok $t - collectives on $n ranks"
    t=$((t + 1))
    printf '%s\n' "$out" | grep -qx "hash $want" || printf 'not '
    echo "ok $t - the same bits as ever on $n ranks"
done <<EOF
1 9f80de66bda443e4
2 4110d7bad70db996
3 9a09df43ce56d122
4 de586378652092f2
EOF
