#!/bin/sh
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
collectives 1 9f80de66bda443e4
collectives 2 4110d7bad70db996
collectives 3 9a09df43ce56d122
collectives 4 de586378652092f2
requests 1 50b9ff89e409e599
requests 2 3aa7815895160d30
requests 3 604e32ff5103225a
requests 4 5906f145a05cbd2a
EOF
