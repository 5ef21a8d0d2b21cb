#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank is stopped while others block in NCCL calls: the job ends within seconds, and the error
# names the call.  (Without a GPU: NCCL is a stand-in.)
prog=${builddir:?source tests/env.sh first}/tests/mpi/late

# run NAME WANT WORDS WHERE: WANT is an exit status, or "failure"
t=0
run() {
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(timeout -k 5 15 $MPIEXEC -n 2 "$prog" "$4" 2>&1 < /dev/null)
    rc=$?
    printf '%s\n' "$out" | sed 's/^/# /'
    case $2 in
        failure) [ $rc -ne 0 ] && [ $rc -ne 42 ] && [ $rc -ne 124 ] ;;
        *) [ $rc -eq "$2" ] ;;
    esac && printf '%s\n' "$out" | grep -q "$3" || printf 'not '
    t=$((t + 1))
    echo "ok $t - $1 (status $rc)"
}

echo 1..5
says='mds: error: an NCCL call has not returned within .*: rank 0 has waited [0-9]* s in pair'
run "when a communicator is made" failure "$says broadcast #1 of 128 bytes .* at .*src/comm/comm.c" init
run "in a pair's first message" failure "$says send of 128 bytes to its rank 1 .* for rank 1," send
run "in a call that connects" failure "$says all_reduce #2 of 8 f32 at .*late.c" sum
run "when a group is closed" failure \
    "error: ncclCommDestroy has not returned within .*: rank 0, last completed: " close
run "nobody is stopped: no timer is left running" 42 "" nowhere
