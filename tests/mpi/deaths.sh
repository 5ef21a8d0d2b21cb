#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank that dies, leaves, falls silent or does something else: the job ends within
# seconds, not with 0, and what happened is said.
prog=${builddir:?source tests/env.sh first}/tests/mpi/faults

# run NAME WANT ARGS...: WANT is an exit status, "failure", or "any" but a hang.  (mpiexec
# itself may hang once all ranks are gone: Open MPI 4.1 did, in PMIx; that one is killed.)
t=0
run() {
    name=$1 want=$2
    shift 2
    # shellcheck disable=SC2086 # MPIEXEC may carry options
    out=$(timeout -k 5 10 $MPIEXEC -n 3 "$prog" "$@" 2>&1 < /dev/null)
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

# says NAME COUNT PATTERN: so many lines of the last run have it.
says() {
    [ "$(printf '%s\n' "$out" | grep -c "$3")" -eq "$2" ] || printf 'not '
    t=$((t + 1))
    echo "ok $t - $1"
}

echo 1..31
run "a silent rank is named, and the group refuses to go on" 42 silent collective
says "all ranks that wait for it write where" 2 \
    'rank [01] has waited 0 s in all all_reduce #2 of 100 f32 at .*faults.c:[0-9]* for rank 2, last completed: all barrier #1 at'
run "a message that never comes" 42 silent message
says "all ranks that wait for it write where" 2 \
    'rank [01] has waited 0 s in all recv of 400 bytes from its rank 2 tag 7 at .*for rank 2'
run "a silent rank, when a group is made" failure inside group
says "rank 0 says so" 1 \
    'error: MPI_Comm_create_group has not returned within .*: rank 0, last completed: all barrier #1 at'
run "a silent rank, when MPI ends" failure inside end
says "rank 0 says so" 1 'error: MPI_Finalize has not returned within .*: rank 0, last completed: all barrier #1 at'
run "all ranks are stopped for longer than the limit" 42 stopped
run "a rank that waits for one that timed out is told" 42 chain
says "each writes what it waits for" 3 'rank [012] has waited [0-9]* s in .* all_reduce_f64 #1'
run "the rank that holds up the others is named, not one that waits for it, too" 42 relay
run "another collective is called" 42 differ kind
says "both calls and call sites are named" 3 \
    'rank 0: all_reduce of 100 f32 at .*faults.c:[0-9]*; rank 2: barrier at .*faults.c:'
run "another count" 42 differ count
says "both counts are named" 3 'rank 0: all_reduce of 100 f32.*rank 2: all_reduce of 99 f32'
run "a collective is left out" 42 differ skip
says "both calls are named" 3 'rank 0: all_reduce_f64 of 1 f64 (max) at .*rank 2: all_reduce of'
run "a message of another length" 42 length
run "a rank is killed" failure die kill
says "which rank, and its last collective, in one line" 1 \
    'rank 2 (.*) was killed by signal 9 .* its last collective: all all_reduce #3 of 100 f32 at .*faults.c:[0-9]*$'
says "no other rank is reported dead" 1 'its last collective'
# Launchers that send SIGTERM first give the others time to write.
case $MPIEXEC in
    *openmpi*)
        says "those that wait write where" 2 \
            'ended by SIGTERM: rank [01] has waited [0-9]* s in all all_reduce #4 .*for rank 2.*last completed: all all_reduce #3'
        ;;
    *)
        t=$((t + 1))
        echo "ok $t # SKIP this launcher may not send SIGTERM"
        ;;
esac
run "a rank calls exit(0)" failure die exit
says "the rank reports it, and nothing else is" 1 'mds: error: this rank exits in the middle of the run'
run "a rank fails" failure die fail
says "nothing else is reported" 0 'its last collective'
# MPICH's mpiexec ends the others, but may report the 0 of the rank that left.
run "a rank calls _exit(0)" any die _exit
says "which one" 1 'rank 2 (.*) \(died\|exited with status 0\) .* its last collective: all all_reduce #3 of'
run "a rank is interrupted" any die interrupt
says "a deliberate end: nothing about collectives" 0 'its last collective'
