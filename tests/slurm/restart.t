#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='jobs whose ranks are killed, that are preempted, or out of time go on where they were'
# shellcheck source=tests/slurm/setup.sh
. "${srcdir:?run by tests/slurm/run}/tests/slurm/setup.sh"

iterations=200
# run FOLDER VARIABLES...: submit what takes some seconds and saves often
run() {
    folder=$1
    shift
    submit "$folder" TRAIN_ITERS=$iterations SAVE_INTERVAL=20 MICRO_BATCH=8 "$@" \
        -- --global-batch-size 32
}
# rank N: the process of the job that is this rank
rank() {
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm" 2> /dev/null)" = mds_pretrain ] &&
            tr '\0' '\n' 2> /dev/null < "$process/environ" > environ &&
            grep -qx "SLURM_JOB_ID=$job" environ && grep -qx "SLURM_PROCID=$1" environ &&
            echo "${process#/proc/}"
    done
}
# says WORDS: the job's log, which is shown if it does not
says() {
    grep -e "$1" "$runs"/*/job-"$job".log || ! grep -v 'iteration  ' "$runs"/*/job-"$job".log
}
# ends_as_whole TIMES: after that many restarts, with the losses of the run that nothing happened to, to the bit
ends_as_whole() {
    becomes "$job" COMPLETED 90 && about "$job" | grep -x "Restarts=$1" &&
        test -e "$runs/TINY-64-2n/done" &&
        first_step_once "$runs/TINY-64-2n" &&
        losses "$runs/TINY-64-2n" > got &&
        test_cmp whole.losses got
}

test_expect_success 'a run that nothing happens to' '
    run whole && becomes $job COMPLETED 90 &&
    losses whole/TINY-64-2n >whole.losses && test "$(wc -l <whole.losses)" -eq $iterations
'
test_expect_success 'kill -9 of a rank: the job ends, is requeued, and goes on from its last checkpoint' '
    run killed && appears killed/TINY-64-2n/checkpoints/latest 60 &&
    kill -9 $(rank 2) && ends_as_whole 1 &&
    says "error: rank 2 .* \(was killed by signal 9\|died\)"
'
test_expect_success 'a warning before the limit: the ranks save, and the job goes on' '
    run warned && appears warned/TINY-64-2n/checkpoints/latest 60 &&
    scancel --batch --signal=USR1 $job && ends_as_whole 1 &&
    says "ended by signal"
'
test_expect_success 'kill -9 of a rank: the same job goes on with a spare node, and the next of its chain is not given the bad one' '
    queue=wide launch_options="--chain 2 --spare-nodes 1" && run spare MDS_EXIT_INTERVAL=100 &&
    set -- $(echo $job | tr -d ,) && job=$1 && appears spare/TINY-64-2n/checkpoints/latest 60 &&
    kill -9 $(rank 2) && becomes $1 COMPLETED 90 && says "warn: node n2 is left out: rank 2 .*\(was killed by signal 9\|died\)" &&
    says "^srun.* -w n1,n3 " && grep "^n2 # " spare/TINY-64-2n/exclude && job=$2 && ends_as_whole 0 &&
    about $2 | grep -x ExcNodeList=n2 && about $2 | grep -x "NodeList=n\[1,3-4\]" &&
    mds_launch report spare | grep "UTC rank 2 on .* \(was killed by signal 9\|died\)"
'
test_expect_success 'a rank that is silent: the same job goes on with a spare node' '
    queue=wide launch_options="--spare-nodes 1" && run silent MDS_DISTRIBUTED_TIMEOUT_MINUTES=3s && queue=debug launch_options= &&
    appears silent/TINY-64-2n/checkpoints/latest 60 && kill -STOP $(rank 2) && ends_as_whole 0 &&
    says "warn: node n2 is left out: rank 2 has been silent for 3 s" && says "^srun.* -w n1,n3 "
'
# exits JOB STATUS
exits() {
    becomes "$1" FAILED 60 && about "$1" | grep -x "ExitCode=$2:0" || ! about "$1"
}
test_expect_success 'the status of a job: 1 after a mistake, 75 after a crash, 85 before the limit' '
    nodes=1 queue=wide launch_options=--no-requeue && run mistake DATA_PATH=gone.h5 && mistake=$job &&
    run limit TRAIN_ITERS=2000 && limit=$job && run crash TRAIN_ITERS=2000 && nodes=2 queue=debug launch_options= &&
    appears limit/TINY-64-1n/checkpoints/latest 60 && scancel --batch --signal=USR1 $limit &&
    appears crash/TINY-64-1n/checkpoints/latest 60 && kill -9 $(rank 1) && exits $job 75 &&
    runs=limit && exits $limit 85 && runs=mistake && exits $mistake 1
'
test_expect_success 'a job that is preempted saves in its time of grace, and goes on' '
    run preempted && appears preempted/TINY-64-2n/checkpoints/latest 60 &&
    sbatch --partition=urgent --nodes=4 --exclusive --output=/dev/null --wrap=true && ends_as_whole 1 &&
    says "ended by signal" && says "Exited with exit code 86"
'
test_expect_success 'mds_launch cancel: the ranks save, and no job follows until mds_launch continue' '
    run asked && appears asked/TINY-64-2n/checkpoints/latest 60 && mds_launch status asked | grep "^TINY-64-2n  *running " &&
    mds_launch cancel --runs asked TINY-64-2n && exits $job 86 && about $job | grep -x Restarts=0 && test ! -e asked/TINY-64-2n/done &&
    mds_launch status asked | grep "^TINY-64-2n  *saved " && mds_launch continue --runs asked TINY-64-2n >continued && cat continued &&
    job=$(sed -n "s/.*: //p" continued) && ends_as_whole 0 && mds_launch status asked | grep "^TINY-64-2n  *done  *$iterations/$iterations "
'
# One node each from here on: there is half a minute to wait for.
# Each evaluation would take minutes, ten times what is left of the walltime then.
test_expect_success 'a limit of a minute: the run leaves in time, also if there is an evaluation' '
    nodes=1 walltime=0:01:00 && run limited TRAIN_ITERS=1000000 && limited=$job &&
    for _ in $(seq 500000); do echo "words of a text that is long enough for minutes of evaluation"; done >words &&
    mds_data make --tokenizer bytes --output long.h5 words &&
    submit held TRAIN_ITERS=1000000 DATA_PATH=long.h5 -- --global-batch-size 2 --split 1,99,0 --eval-iters 1e12 --eval-interval 1 &&
    held=$job &&
    grep -x "#SBATCH --signal=B:USR1@30" limited/*/job.sh
'
test_expect_success 'scancel: the job is not started again' '
    nodes=1 walltime=0:10:00 && run cancelled && appears cancelled/TINY-64-1n/checkpoints/latest 60 &&
    scancel $job && becomes $job CANCELLED 30 && sleep 2 && test "$(state $job)" = CANCELLED &&
    test ! -e cancelled/TINY-64-1n/done
'
test_expect_success 'the run that was to leave in time was requeued, and goes on' '
    for i in $(seq 60); do
        about $limited | grep -x Restarts=1 && test "$(state $limited)" = RUNNING && break
        sleep 1
    done &&
    log=limited/TINY-64-1n/job-$limited.log && grep "ended by \(signal\|duration\)" $log &&
    for i in $(seq 20); do
        test "$(grep -c "^mds 0" $log)" -lt 2 || break
        sleep 1
    done &&
    scancel $limited && first_step_once limited/TINY-64-1n
'
test_expect_success 'and the other, too, to begin with its evaluation' '
    log=held/TINY-64-1n/job-$held.log && grep "evaluation at iteration 1 is left to the next job: \(duration\|signal\)" $log &&
    grep "^done: iteration 1 of 1000000 .*(ended by \(duration\|signal\))" $log && about $held | grep -x "Restarts=[1-9]" &&
    grep "warn: no evaluation at iteration 1: it would take longer than the whole time" $log && test ! -e held/TINY-64-1n/done &&
    scancel $held
'

test_done
