#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2086,SC2153  # test bodies are evaluated by sharness, variables too; lists of words; names of PBS
test_description='jobs that mds_launch submits to PBS'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by tests/pbs/run}/tests/cli/setup.sh"

queue=${QUEUE:?run by tests/pbs/run} project=$PROJECT nodes=$NODES
for name in MACHINE HOSTFILE NHOSTS NGPU_PER_HOST NGPUS QUEUE PROJECT DURATION NUM_NODES NODES; do
    unset "$name"
done
cd "${PBS_SCRATCH:?run by tests/pbs/run}" || exit 1
for _ in $(seq 300); do
    echo 'GATTACA, GATTACA, GATTACA: seven letters of a strand.'
done > text
mds_data make --tokenizer bytes --output tokens.h5 text
echo 'TINY: {layers: 2, hidden: 32, heads: 4}' > tiny.yaml
kind=hydra
${MPIEXEC%% *} --version 2>&1 | grep -q 'Open MPI' && kind=openmpi
# On a node a shell may find another qsub, such as Slurm's.
sed -e "s,^batch:,batch:\\n  init: PATH=$(dirname "$(command -v qsub)"):\$PATH," -e "s/^  kind: srun/  kind: $kind/; s,^  command: .*,  command: ${MPIEXEC%% *},; /^  flags: /d" \
    -e "/^  binding:/d; s/count: 2/count: $nodes/; s/^  debug: .*/  $queue: {min_nodes: 1, max_nodes: $nodes, walltime: 1h}/" \
    -e 's/scheduler: slurm/scheduler: pbs/; s/^    - --gpus-per-node.*/    - -l select={nodes}:ncpus=1/' \
    -e '/^    - --exclusive/d; s/^    - --mem=0/    - -l place=scatter/' "$srcdir/tests/slurm/cluster.yaml" > cluster.yaml
MACHINE=$PWD/cluster.yaml DATA_PATH=$PWD/tokens.h5
export MACHINE DATA_PATH
tiny='--device cpu --model-table tiny.yaml --threads 1 --eval-iters 0 --log-interval 1 --lr 3e-3 --global-batch-size 8'

# submit RUNS STEPS WORDS... -- OPTIONS...: WORDS are of mds_launch; its jobs in $jobs
submit() {
    runs=$1 steps=$2
    shift 2
    words=
    while [ "$1" != -- ]; do words="$words $1"; shift; done
    shift
    MODEL_SIZE_KEY=TINY SEQ_LEN=64 NGPU_PER_HOST=2 MPSIZE=1 TRAIN_ITERS=$steps mds_launch submit --runs "$runs" --name j \
        $words "$queue" "$nodes" 0:10:00 "$project" -- $tiny "$@" >submitted && cat submitted &&
        jobs=$(sed -n 's/.*: //p' submitted | tr -d ,)
}
# ends SECONDS: no job of this folder is left
ends() {
    for _ in $(seq $(($1 * 5))); do
        qstat -f 2>/dev/null | tr -d '\n\t' | grep -q "PBS_O_WORKDIR=$PWD" || return 0
        sleep 0.2
    done
    qstat
    return 1
}
# shellcheck source=tests/batch.sh
. "$srcdir/tests/batch.sh"

test_expect_success 'a job trains on the nodes that PBS gave it' '
    submit runs 30 -- && ends 120 && logs runs && test -e runs/j/done &&
    logs runs | grep "ranks $((2 * nodes)) " && logs runs | grep "^done: iteration 30 of 30" && steps runs >got && seq 30 >want && test_cmp want got
'
test_expect_success 'a job that is out of time submits itself, and goes on where it was' '
    submit again 30 -- --exit-interval 10 && ends 120 && logs again | grep -v "^ iteration" && test "$(ls again/j/job-*.log | wc -l)" -eq 3 &&
    steps again >got && test_cmp want got && test -e again/j/done
'
test_expect_success '--chain: one job after the other' '
    submit chain 20 --chain 2 -- --exit-interval 10 && ends 120 && test "$(ls chain/j/job-*.log | wc -l)" -eq 2 &&
    steps chain >got && seq 20 >want && test_cmp want got && test -e chain/j/done
'
test_expect_success 'qdel: the run saves, is not submitted again, and job.sh goes on with it' '
    submit cut 1000000 -- && appears cut/j/metrics.jsonl "\"iteration\":20," 60 && qdel $jobs && ends 60 && logs cut | tail -n 5 &&
    saved=$(sed "s/iter_0*//" cut/j/checkpoints/latest) && test ! -e cut/j/done && mds_ckpt verify cut/j/checkpoints &&
    job=$(qsub cut/j/job.sh) && appears cut/j/metrics.jsonl "\"iteration\":$((saved + 20))," 60 && qdel $job && ends 60 &&
    test "$(steps cut | sort -n | uniq -d | wc -l)" -eq 0 &&
    test "$(steps cut | grep -c -x 1)" -eq 1
'
test_expect_success 'qrerun: the job starts again, and goes on where it was' '
    submit rerun 1000000 -- --save-interval 20 && appears rerun/j/metrics.jsonl "\"iteration\":50," 60 && qrerun $jobs && sleep 3 &&
    appears rerun/j/metrics.jsonl "\"iteration\":9[0-9][0-9]," 60 && qdel $jobs && ends 60 &&
    steps rerun | awk "NR > 1 && \$1 != last + 1 { again++; if (\$1 % 20 != 1 || \$1 > last + 1) bad = 1 } { last = \$1 }
        END { exit bad || again > 1 }" && test "$(grep -c "\"event\":\"run\"" rerun/j/metrics.jsonl)" -eq 2
'
test_expect_success 'a sweep of four runs' '
    printf "SEQ_LEN: [32, 64]\nMPSIZE: [1, 2]\n" >sweep.yaml && MODEL_SIZE_KEY=TINY NGPU_PER_HOST=2 TRAIN_ITERS=5 mds_launch sweep --runs cells \
        --queue "$queue" --job-nodes 1 --walltime 5min --project "$project" sweep.yaml -- $tiny >out && cat out &&
    grep "4 of 4 runs submitted" out && ends 120 && mds_launch report cells && cat cells/report.csv &&
    awk -F, "NR > 1 && (\$3 != 2 || \$5 != 5) { exit 1 } END { exit NR != 5 }" cells/report.csv
'

test_done
