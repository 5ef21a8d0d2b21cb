#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2086  # test bodies are evaluated by sharness, variables too; lists of words
test_description='jobs that mds_launch submits to Flux'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by tests/flux/run}/tests/cli/setup.sh"

for name in MACHINE HOSTFILE NHOSTS NGPU_PER_HOST NGPUS QUEUE PROJECT DURATION NUM_NODES; do
    unset "$name"
done
for _ in $(seq 300); do
    echo 'GATTACA, GATTACA, GATTACA: seven letters of a strand.'
done > text
mds_data make --tokenizer bytes --output tokens.h5 text
echo 'TINY: {layers: 2, hidden: 32, heads: 4}' > tiny.yaml
flux queue list > /dev/null && echo '[queues.debug]' | flux config load && flux queue start --all > /dev/null
# A login shell of a job may not find it.
sed -e "s,^batch:,batch:\\n  init: PATH=$(dirname "$(command -v flux)"):\$PATH," -e 's/^  kind: srun/  kind: flux/; s/^  command: .*/  command: flux run/' \
    -e '/^  flags:/d; /^  binding:/d; s/scheduler: slurm/scheduler: flux/; /^  directives:/,/--mem=0/d' "$srcdir/tests/slurm/cluster.yaml" > cluster.yaml
MACHINE=$PWD/cluster.yaml DATA_PATH=$PWD/tokens.h5
export MACHINE DATA_PATH
tiny='--device cpu --model-table tiny.yaml --threads 1 --eval-iters 0 --log-interval 1 --lr 3e-3 --global-batch-size 8'

nodes=1 # of a job
if [ "$(flux getattr size)" -gt 1 ]; then test_set_prereq NODES; fi

# submit RUNS STEPS WORDS... -- OPTIONS...: WORDS are of mds_launch; its jobs in $jobs
submit() {
    runs=$1 steps=$2
    shift 2
    words=
    while [ "$1" != -- ]; do words="$words $1"; shift; done
    shift
    MODEL_SIZE_KEY=TINY SEQ_LEN=64 NGPU_PER_HOST=2 MPSIZE=1 TRAIN_ITERS=$steps mds_launch submit --runs "$runs" --name j \
        $words debug $nodes 0:10:00 me -- $tiny "$@" >submitted && cat submitted && jobs=$(sed -n 's/.*: //p' submitted | tr -d ,)
}
# ends SECONDS: no job is left
ends() {
    for _ in $(seq "$1"); do
        test -n "$(flux jobs -no '{id}')" || return 0
        sleep 1
    done
    flux jobs
    return 1
}
# rank N: its process
rank() {
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm" 2> /dev/null)" = mds_pretrain ] && tr '\0' '\n' 2> /dev/null < "$process/environ" > environ &&
            grep -qx "FLUX_TASK_RANK=$1" environ && echo "${process#/proc/}"
    done
}
# shellcheck source=tests/batch.sh
. "$srcdir/tests/batch.sh"

test_expect_success 'a job trains on the node that Flux gave it' '
    submit runs 30 -- && ends 60 && logs runs && test -e runs/j/done && logs runs | grep "ranks 2 " &&
    grep "\"hosts\":.*\"job\":\"$jobs\"" runs/j/events.jsonl && steps runs >got && seq 30 >want && test_cmp want got
'
test_expect_success 'a job that is out of time submits itself, and goes on where it was' '
    submit again 30 -- --exit-interval 10 && ends 90 && logs again | grep -v "^ iteration" && test "$(ls again/j/job-*.log | wc -l)" -eq 3 &&
    steps again >got && test_cmp want got && test -e again/j/done
'
test_expect_success NODES 'a job on two of four nodes, each with its ranks' '
    nodes=2 && submit two 30 -- && nodes=1 && ends 60 && logs two && logs two | grep "flux run .*-N 2 -n 4 " &&
    steps two >got && test_cmp want got && grep "\"hosts\":.*n1.*n2" two/j/events.jsonl
'
test_expect_success NODES 'kill -9 of a rank: the same job goes on with a spare node, and the next of its chain is not given the bad one' '
    submit spare 1000000 --chain 2 --spare-nodes 1 -- --save-interval 20 --exit-interval 3000 && appears spare/j/checkpoints/latest . 60 &&
    lost=$(sed -n "/launched/s/.*\"host\":\"\([^\"]*\)\".*/\1/p" spare/j/events.jsonl) && kill -9 $(rank 1) &&
    appears spare/j/events.jsonl restarted 60 && logs spare | grep -v "^ iteration" && logs spare | grep "warn: node $lost is left out: rank 1 " &&
    logs spare | grep "flux run .*--requires=hosts:n[1-4] " && grep "^$lost # " spare/j/exclude &&
    set -- $jobs && test "$(flux jobs -no "{status_abbrev}" $1)" = R && appears spare/j/metrics.jsonl "\"iteration\":3000," 120 && appears spare/j/job-$2.log . 60 &&
    mds_launch cancel --runs spare j && ends 60 && ! flux jobs -no "{nodelist}" $2 | grep $lost
'
test_expect_success '--chain: one job after the other' '
    submit chain 20 --chain 2 -- --exit-interval 10 && ends 90 && test "$(ls chain/j/job-*.log | wc -l)" -eq 2 &&
    steps chain >got && seq 20 >want && test_cmp want got && test -e chain/j/done
'
test_expect_success 'a chain that would fail in the same way is cancelled' '
    submit lost 20 --chain 2 --program false -- && ends 60 && logs lost && test "$(ls lost/j/job-*.log | wc -l)" -eq 1 &&
    logs lost | grep "so they are cancelled"
'
test_expect_success 'status and cancel: what waits, what runs' '
    submit long 1000000 --chain 2 -- --save-interval 20 && set -- $jobs && mds_launch status long >got && cat got && grep "^j  *[qs][ut][ea]" got &&
    appears long/j/metrics.jsonl "\"iteration\":50," 60 && mds_launch status long >got && cat got && grep "^j  *running " got &&
    mds_launch cancel --runs long j >out && cat out && grep "^flux cancel $2" out && ends 60 && logs long | tail -n 5 &&
    mds_launch status long >got && cat got && grep "^j  *saved " got
'
test_expect_success 'flux cancel: job.sh goes on with the run' '
    submit cut 1000000 -- --save-interval 20 && appears cut/j/metrics.jsonl "\"iteration\":50," 60 && flux cancel $jobs && ends 60 && logs cut | tail -n 8 &&
    test ! -e cut/j/done && mds_ckpt verify cut/j/checkpoints && saved=$(sed "s/iter_0*//" cut/j/checkpoints/latest) && test "$saved" -ge 20 &&
    mds_launch continue --runs cut j && appears cut/j/metrics.jsonl "\"iteration\":$((saved + 500))," 60 && mds_launch cancel --runs cut j && ends 60 &&
    test "$(steps cut | grep -c -x 1)" -eq 1
'

test_done
