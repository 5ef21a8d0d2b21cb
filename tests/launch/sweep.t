#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_launch sweep and report, with and without a batch system'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"

test_expect_success 'a sweep without a batch system runs one after the other, and skips faulty runs' '
    cat >sweep.yaml <<-EOF &&
	MODEL_SIZE_KEY: [TINY, WIDE]
	SEQ_LEN: [32, 64]
	MPSIZE: [1, 4]
	EOF
    MACHINE=localhost NGPUS=2 TRAIN_ITERS=3 mds_launch sweep --runs here sweep.yaml \
        -- $tiny >out 2>err && cat out err &&
    grep "run 8 of 8: MODEL_SIZE_KEY=WIDE SEQ_LEN=64 MPSIZE=4" out &&
    grep "4 of 8 runs submitted" out &&
    test "$(grep -c "is skipped" err)" -eq 4 &&
    test -s here/TINY-32-1n-MPSIZE1/metrics.jsonl && test -s here/WIDE-64-1n-MPSIZE1/job.log &&
    mds_launch report here | grep "TINY-64-1n-MPSIZE1 | TINY"
'
test_expect_success 'the operands of submit' '
    echo "SEQ_LEN: [2048, 4096]" >two.yaml && rm -f sbatch.log &&
    MACHINE=h200 MODEL_SIZE_KEY=GPT6_7B TRAIN_ITERS=5 MPSIZE=8 \
        mds_launch sweep --runs ops two.yaml batch 2 0:40:00 me >out 2>err && cat out err && grep "2 of 2 runs submitted" out &&
    for option in "--partition=batch" "--nodes=2" "--time=00:40:00" "--account=me"; do
        test "$(grep -l "^#SBATCH $option" ops/*/job.sh | wc -l)" -eq 2 || return 1
    done &&
    test_must_fail mds_launch sweep two.yaml batch 2 0:40:00 me more 2>err && grep "one operand too many" err
'
test_expect_success 'a job for each run; of a chain several; with --write none' '
    rm -f sbatch.log qsub.log && cat >grid.yaml <<-EOF &&
	SEQ_LEN: [2048, 4096]
	NUM_NODES: [1, 2]
	EOF
    export QUEUE=preemptable DURATION=1:00:00 PROJECT=me MACHINE=polaris &&
    export MODEL_SIZE_KEY=GPT1_5B TRAIN_ITERS=5 MPSIZE=4 &&
    mds_launch sweep --runs pbs grid.yaml >out 2>err && cat out err qsub.log && grep "4 of 4 runs submitted" out &&
    test "$(grep -c "^pbs/GPT1_5B-.*/job.sh" qsub.log)" -eq 4 && grep "^jobs: \[[1-4]\.polaris-pbs\]" pbs/GPT1_5B-4096-1n/run.yaml &&
    rm -f qsub.log && mds_launch sweep --chain 2 --runs two grid.yaml >out && test "$(wc -l <qsub.log)" -eq 8 &&
    rm -f qsub.log && mds_launch sweep --write --runs three grid.yaml >out && test ! -e qsub.log &&
    grep "4 of 4 runs written" out && test -x three/GPT1_5B-4096-2n/job.sh &&
    unset QUEUE DURATION PROJECT MACHINE MODEL_SIZE_KEY TRAIN_ITERS MPSIZE
'
test_expect_success 'a job that cannot be written down is submitted all the same' '
    mkdir lossy && cat >lossy/qsub <<-EOF && chmod +x lossy/qsub &&
	#!/bin/sh
	for f in lost/GPT*/run.yaml; do rm -rf "\$f"; mkdir "\$f"; done
	exec "$PWD/bin/qsub" "\$@"
	EOF
    cat >call <<-EOF &&
	QUEUE=preemptable DURATION=1:00:00 PROJECT=me MACHINE=polaris MODEL_SIZE_KEY=GPT1_5B
	TRAIN_ITERS=5 MPSIZE=4
	EOF
    rm -f qsub.log && PATH=$PWD/lossy:$PATH env $(cat call) \
        mds_launch sweep --runs lost grid.yaml >out 2>err && cat out err &&
    grep "4 of 4 runs submitted" out &&
    ! grep "was not submitted" err &&
    grep "lost/GPT1_5B-4096-1n: job 3\.polaris-pbs is submitted, but .*run.yaml" err &&
    PATH=$PWD/lossy:$PATH env $(cat call) SEQ_LEN=2048 NUM_NODES=1 \
        mds_launch submit --runs lost >out 2>err && cat out err &&
    grep "^lost/GPT1_5B-2048-1n-2: 5.polaris-pbs" out && grep "is submitted, but" err
'
test_expect_success 'each run of a sweep has its own number of ranks' '
    rm -f sbatch.log && echo "NGPUS: [8, 16]" >ranks.yaml &&
    MACHINE=h200 MODEL_SIZE_KEY=GPT6_7B TRAIN_ITERS=5 MPSIZE=8 SEQ_LEN=2048 mds_launch sweep \
        --write --runs ranks --queue batch --walltime 1h --project me ranks.yaml >out && cat out &&
    SLURM_JOB_NODELIST=n1 NGPUS=16 NHOSTS=2 \
        sh -c "$(sed -n "/mds_launch .$/,/^    --exit-dur/{ s/.*mds_launch/mds_launch --print/; s/&$//; p; }" \
        ranks/GPT6_7B-2048-1n-NGPUS8/job.sh)" >line && grep -e "-N 1 -n 8 " line
'
test_expect_success 'a report of them' '
    mds_launch report here >out && cat out &&
    test "$(wc -l <here/report.csv)" -eq 5 &&
    grep "^TINY-32-1n-MPSIZE1,TINY,2,32,3," here/report.csv &&
    awk -F, "NR > 1 && !(\$6 > 0 && \$7 > 0 && \$8 > 0 && \$9 > 0) { exit 1 }" \
        here/report.csv &&
    grep "^| WIDE-64-1n-MPSIZE1 | WIDE | 2 | 64 | 3 |" here/report.md &&
    if command -v gnuplot; then
        grep "</svg>" here/longest.svg && grep "</svg>" here/speed.svg
    fi
'
test_expect_success 'a report survives a run that was killed in a line' '
    printf "{\"event\":\"step\",\"elap" >>here/TINY-32-1n-MPSIZE1/metrics.jsonl &&
    mds_launch report here >out && grep "TINY-32-1n" out &&
    test_must_fail mds_launch report nowhere 2>err && grep "nowhere is not a folder" err &&
    test_must_fail mds_launch report here/TINY-32-1n-MPSIZE1 2>err && grep "is a run; give the folder it is in" err
'
# a run folder of one step, with fewer FLOPs than rows without documents have:
# NAME MODEL RANKS SEQ SECONDS [FLOP/S]
made() {
    mkdir -p "made/$1" &&
        printf '{"event":"run","model_size_key":"%s","ranks":%d,"seq_length":%d,"global_batch_size":1,"megatron_flops_per_step":9e12}\n' \
            "$2" "$3" "$4" >"made/$1/metrics.jsonl" &&
        printf '{"event":"step","iteration":1,"elapsed_s":%s,"lm_loss":1,"megatron_flops_per_s_per_rank":%s}\n' \
            "$5" "${6:-5e11}" >>"made/$1/metrics.jsonl"
}
test_expect_success 'plots: a line for each model and number of ranks, the fastest of each length' '
    made a A 2 64 1 && made b A 2 32 1 && made c A 4 32 1 25e10 && made d A 2 32 0.5 1e12 && made e B 2 32 1 &&
    mkdir made/none && printf "{\"event\":\"run\",\"model_size_key\":\"B\",\"ranks\":8,\"seq_length\":9}\n" \
        >made/none/metrics.jsonl &&
    mds_launch report made >out && cat made/report.gp &&
    grep "^[0-9]" made/report.gp >got &&
    printf "%s\n" "2 0.064 0.032" "4 0.032 0" "8 0 0" "32 1" "64 0.5" "32 0.25" "32 0.5" >want &&
    test_cmp want got &&
    grep -o "title .A, [24] ranks\|title .B, 2 ranks" made/report.gp >got && test "$(wc -l <got)" -eq 3 &&
    rm -r made/[a-e] made/report.gp && mds_launch report made 2>err && grep "no plots: no run in made finished a step" err
'
test_expect_success 'runs without a step, and one whose loss is not finite' '
    rm -rf made && made nan A 2 64 1 && sed -i "s/\"lm_loss\":1/\"lm_loss\":null/" made/nan/metrics.jsonl &&
    made none A 2 32 1 && sed -i 2d made/none/metrics.jsonl && mkdir made/empty && : >made/empty/metrics.jsonl &&
    mds_launch report made >out 2>err && cat out made/report.csv err &&
    if command -v gnuplot; then test_must_fail test -s err; fi &&
    grep "^| nan | A | 2 | 64 | 1 | 1 | 32 | 0.5 | nan | | |$" out &&
    grep "^| none | A | 2 | 32 | no step yet | | | | | | |$" out && grep "^| empty |.* no step yet |" out &&
    grep "^none,A,2,32,0,,,,,,$" made/report.csv && grep "^nan,.*,nan,,$" made/report.csv &&
    rm -r made
'
test_expect_success 'a step takes what most steps do, the first of each job left out' '
    rm -rf made && made a A 2 64 9 && made b A 2 64 9 &&
    for s in 5 1 1.5 1.25; do
        printf "{\"event\":\"step\",\"iteration\":2,\"elapsed_s\":%s,\"lm_loss\":1}\n" $s
    done >>made/a/metrics.jsonl &&
    cat made/b/metrics.jsonl made/b/metrics.jsonl made/a/metrics.jsonl >b && sed 1d b >>made/b/metrics.jsonl &&
    mds_launch report made >out && cat out &&
    grep "^| a | A | 2 | 64 | 2 | 1.375 |" out && grep "^| b | A | 2 | 64 | 2 | 1.5 |" out &&
    rm -r made b
'
test_expect_success 'names that CSV, Markdown and gnuplot would read something into' '
    mkdir -p "odd, it'"'"'s" && cd "odd, it'"'"'s" && made "x,1|\"y" "A'"'"'; print 1 #" 2 32 1 && cd .. &&
    mds_launch report "odd, it'"'"'s/made" >out && cat out &&
    grep "^| x_1__y | A_; print 1 # | 2 |" out && test -s "odd, it'"'"'s/made/longest.svg" &&
    grep "^x_1__y,A_; print 1 #,2,32,1," "odd, it'"'"'s/made/report.csv"
'
test_expect_success 'a rank that was slow in most steps is named, and plotted' '
    rm -rf made && made a A 2 64 1 && made b A 2 32 1 &&
    for slow in 3:0.5 1:0.3 3:0.7 3:0.06 3:0.6; do
        printf "{\"event\":\"straggler\",\"iteration\":7,\"rank\":%d,\"host\":\"n5\",\"excess\":%s}\n" ${slow%:*} ${slow#*:}
    done >>made/a/metrics.jsonl &&
    mds_launch report made >out 2>err && cat out err made/report.gp && ! grep "empty x range" err &&
    grep "^a: the other ranks waited for rank 3 on n5 in 3 of 5 measured steps; it took 60 %" made/report.md &&
    test "$(grep -c "the other ranks" out)" -eq 1 &&
    grep "^7 30$" made/report.gp && grep "stragglers.svg" made/report.gp &&
    if command -v gnuplot; then grep "</svg>" made/stragglers.svg; fi &&
    rm -r made
'
test_expect_success 'sweeps that are none' '
    echo "SEQ_LEN: []" >bad.yaml &&
    test_must_fail mds_launch sweep bad.yaml 2>err && grep "bad.yaml:1: SEQ_LEN must be" err &&
    echo "seq: [1]" >bad.yaml &&
    test_must_fail mds_launch sweep bad.yaml 2>err && grep "seq is not a variable" err &&
    echo "SEQLEN: [1k, 2k]" >bad.yaml &&
    test_must_fail mds_launch sweep bad.yaml 2>err &&
    grep "bad.yaml:1: no program reads SEQLEN; did you mean SEQ_LEN?" err &&
    echo "NUM_NODE: [1, 2]" >bad.yaml &&
    test_must_fail mds_launch sweep bad.yaml 2>err && grep "did you mean NUM_NODES?" err &&
    echo "NCCL_ALGO: [Ring, Tree]" >bad.yaml &&
    test_must_fail mds_launch sweep bad.yaml 2>err && grep "no program reads NCCL_ALGO; see" err
'
test_expect_success 'what the command line sets does not vary' '
    echo "LR: [1e-3, 2e-3]" >lr.yaml && echo "NUM_NODES: [1, 2]" >nodes.yaml &&
    for word in "--lr 1e-4" --lr=1e-4; do
        test_must_fail mds_launch sweep lr.yaml -- $word 2>err && cat err &&
        grep "lr.yaml:1: LR would not vary, as .--lr.* is on the command line" err || return 1
    done &&
    test_must_fail mds_launch sweep nodes.yaml --job-nodes 2 2>err && grep "nodes.yaml:1: NUM_NODES would not vary" err &&
    test_must_fail mds_launch sweep nodes.yaml debug 2 2>err && grep "would not vary, as .2. is on" err
'

# A model of one layer learns which tokens there are, best at a rate of some hundredths.
lr_find() {
    MACHINE=localhost mds_launch lr-find --ranks 1 "$@" -- --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
        --micro-batch-size 8 --global-batch-size 8 --threads 1 --data-path tokens.h5
}
test_expect_success 'lr-find: a rate, how sure it is, and a drawing' '
    lr_find rates.svg 100 --runs none >out 2>err && cat out && test ! -e none &&
    sed -n "s/^--lr \([-0-9.e]*\): lowest loss [0-9.]* at [-0-9.e]*, the same within its noise ([0-9.]*) from [-0-9.e]* to \1$/\1/p" out >rate &&
    awk "{ exit !(\$1 > 1e-3 && \$1 < 0.5) }" rate && test "$(grep -c "\"event\":\"step\"" rates.jsonl)" -eq 100 &&
    test_must_fail lr_find rates.svg 2>err && grep "rates.jsonl: exists" err && rm -f few.jsonl &&
    test_must_fail env MACHINE=localhost mds_launch lr-find few.png 2>err && grep "few.png: the name must end in .svg" err &&
    { ! command -v gnuplot || grep "</svg>" rates.svg; }
'
test_expect_success 'lr-find: what is wrong is said before the run' '
    for steps in 0 20 -5 20x; do
        test_must_fail lr_find few.svg $steps 2>err && grep "lr-find: $steps: the number of steps must be a whole one from 60" err || return 1
    done &&
    test_must_fail lr_find .svg 2>err && grep "the name must end in" err &&
    test_must_fail lr_find nowhere/few.svg 2>err && grep "lr-find: nowhere/few.jsonl: cannot be written" err &&
    lr_find few.svg 80 --print >out && grep "mds_pretrain .*--train-iters 80" out && test ! -e few.jsonl &&
    grep -e "--loss-spike-sigma 0" out
'
test_expect_success 'lr-find: its own schedule and length, and a loss that only falls' '
    MACHINE=localhost mds_launch lr-find own.svg 60 --ranks 1 -- --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
        --micro-batch-size 8 --global-batch-size 8 --threads 1 --data-path tokens.h5 --train-samples 80 --lr-decay-samples 40 --lr-warmup-samples 20 &&
    sed -n "s/.*\"learning_rate\":\([^,]*\),.*/\1/p" own.jsonl | tail -n 1 >rate && echo 1 >want && test_cmp want rate &&
    awk "BEGIN { for (i = 1; i <= 60; i++) printf \"{\\\"event\\\":\\\"step\\\",\\\"learning_rate\\\":%g,\\\"lm_loss\\\":%g}\\n\", 10 ^ (i / 10 - 6), 9 - i / 10 }" >falls.jsonl &&
    awk -f "$srcdir/scripts/json.awk" -f "$srcdir/scripts/lr-find.awk" -v metrics=falls.jsonl -v tmp=. </dev/null &&
    grep "no rate found: the loss did not rise up to the highest, 1.0e+00" said
'

test_done
