#!/bin/sh
# A rank that dies, leaves or falls silent: the job ends within seconds, not with 0.
prog=${builddir:?source tests/env.sh first}/tests/mpi/collectives

# run NAME WANT ARGS...: WANT is an exit status, "failure", or "any" but a hang.
t=0
run() {
    name=$1 want=$2
    shift 2
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(timeout 30 $MPIEXEC -n 3 "$prog" "$@" 2>&1 < /dev/null)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    case $want in
        failure) [ $rc -ne 0 ] ;;
        any) true ;;
        *) [ $rc -eq "$want" ] ;;
    esac && [ $rc -ne 124 ] || printf 'not ' # 124: timeout's
    t=$((t + 1))
    echo "ok $t - $name (status $rc)"
}

echo 1..5
run "a silent rank is named, and the group refuses to go on" 42 silent
run "a rank is killed" failure die kill
run "a rank calls exit(0)" failure die exit
printf '%s\n' "$out" | grep -q 'exits in the middle of the run' || printf 'not '
t=$((t + 1))
echo "ok $t - the rank says so"
# MPICH's mpiexec ends the others, but may report the 0 of the rank that left.
run "a rank calls _exit(0)" any die _exit
