#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2094  # test bodies are evaluated by sharness, variables too
test_description='mds_launch plan, run and submit of mds_infer'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"

# pretrain FOLDER OPTIONS...: a model of codons
pretrain() {
    folder=$1
    shift
    mds_pretrain --hidden-size 32 --num-attention-heads 4 --num-layers 2 --lr 1e-2 --eval-iters 0 --threads 1 \
        --global-batch-size 4 --train-iters 2 --seq-length 64 --save "$folder" "$@" </dev/null >trained 2>&1
}
pretrain model --use-rotary-position-embeddings
pretrain learned
gzip -dc "$srcdir/tests/data/lambda.fna.gz" | grep -v '>' | tr -d '\n' >bases
# records N CODONS
records() {
    awk -v n="$1" -v codons="$2" '{ for (i = 0; i < n; i++) printf ">r%d\n%s\n", i + 1, substr($0, 1 + 200 * i, 3 * codons) }' bases
}
records 40 60 >short.fa
records 1 4000 >long.fa
# 12 MB, so that what a rank holds of it is much beside NCCL's buffers.
awk '{ print ">chromosome"; for (i = 0; i < 250; i++) print }' bases >genome.fa
cp "$srcdir/tests/slurm/cluster.yaml" large.yaml
sed 's/^  memory: 4GiB/  memory: 512MiB/' large.yaml >small.yaml
# plan MACHINE WORDS...
plan() {
    machine=$1
    shift
    mds_launch plan --program mds_infer --rows 20 --machine "$machine.yaml" --nodes 2 -- "$@" >plan 2>err
    status=$?
    cat plan err
    return $status
}
# first: data, tensor, Ulysses, ring and pipeline ranks of the first row
first() {
    sed -n 3p plan | awk '{ print $1, $2, $3, $4, $5 }'
}

test_expect_success 'many sequences: each rank has a copy of the model' '
    plan large score --load model short.fa && test "$(first)" = "8 1 1 1 1" &&
    grep "^mds_infer score, 1 file, 8 ranks: 2 nodes of cluster" plan &&
    grep "^2\.4.* k tokens = .* node-hours" plan && ! grep "error\|warn" err
'
test_expect_success 'a sequence that does not fit is shared by as few ranks as it needs' '
    plan large score --load model genome.fa genome.fa genome.fa genome.fa genome.fa genome.fa genome.fa genome.fa &&
    set -- $(first) && test "$1" -eq 4 && test $(($2 * $3 * $4 * $5)) -eq 2 &&
    grep "^ *8 .* of 4\.00 GiB .*does not fit" plan
'
test_expect_success 'few sequences: ranks share them where that is faster' '
    plan large score --load model long.fa && set -- $(first) && test "$1" -lt 8 && test $(($1 * $2 * $3 * $4 * $5)) -eq 8
'
test_expect_success 'a rank takes what the plan says' '
    for options in "" "--ds-sequence-parallel-size 2" "--context-parallel-size 2" "--tensor-model-parallel-size 2 --sequence-parallel"; do
        rm -f x.tsv* && mds_launch plan --program mds_infer --machine localhost --layout given --ranks 2 -- score --load model \
            --output x.tsv short.fa --threads 1 $options >plan && cat plan &&
        $MPIEXEC -n 2 mds_infer score --load model --output x.tsv short.fa --threads 1 --log-level debug $options </dev/null >log 2>&1 &&
        was=$(sed -n "3s/.* \([0-9.]* [KM]iB\) of .*/\1/p" plan) && is=$(sed -n "s/^  all.* \([0-9.]* [KM]iB\)  *[0-9.]* %\$/\1/p" log | head -n 1) &&
        echo "$was, $is" && test -n "$is" && test "$was" = "$is" || return 1
    done
'
test_expect_success 'what the user fixes stays' '
    plan large score --load model short.fa --tensor-model-parallel-size 2 && test "$(first)" = "4 2 1 1 1" &&
    test "$(wc -l <plan)" -eq 4 &&
    mds_launch plan --program mds_infer --machine large.yaml --nodes 2 --layout plan -- score --load model genome.fa \
        --context-parallel-size 2 >plan && cat plan && test "$(sed 1,2d plan | grep -c "^ ")" -gt 1 &&
    ! sed 1,2d plan | grep "^ " | awk "\$4 != 2" | grep .
'
test_expect_success 'hidden states and generation' '
    plan large embed --load model --output x.h5 short.fa && test "$(first)" = "8 1 1 1 1" &&
    plan large generate --load model --max-new-tokens 8 short.fa && test "$(first)" = "8 1 1 1 1"
'
test_expect_success 'one prompt: ranks share it where that is faster, or where it does not fit on one' '
    plan large generate --load model --max-new-tokens 8 genome.fa && set -- $(first) && test "$1" -lt 8 &&
    test $(($1 * $2 * $3 * $4 * $5)) -eq 8 && ! grep "error\|warn" err &&
    for options in "" "--context-parallel-size 2" "--ds-sequence-parallel-size 2" "--tensor-model-parallel-size 2"; do
        mds_launch plan --program mds_infer --machine localhost --layout given --ranks 2 -- generate --load model --max-new-tokens 8 \
            short.fa --threads 1 $options >plan && cat plan &&
        $MPIEXEC -n 2 mds_infer generate --load model --max-new-tokens 8 short.fa --threads 1 --log-level debug $options </dev/null \
            >x.fa 2>log &&
        was=$(sed -n "3s/.* \([0-9.]* [KM]iB\) of .*/\1/p" plan) && is=$(sed -n "s/^  all.* \([0-9.]* [KM]iB\)  *[0-9.]* %\$/\1/p" log | head -n 1) &&
        echo "$was, $is" && test -n "$is" && test "$was" = "$is" || return 1
    done
'
# seconds: those of a step, or a token, of the first row
seconds() {
    sed -n 3p plan | awk '{ for (i = 1; i < NF; i++) if ($i == "of") { s = $(i + 3); print $(i + 4) == "ms" ? s / 1000 : s } }'
}
# less A B FACTOR
less() {
    echo "$1, $2" && awk -v a="$1" -v b="$2" -v f="$3" 'BEGIN { exit !(a > 0 && a < f * b) }'
}
share="--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2"
test_expect_success 'generation: seconds a token, and of all; stages of a pipeline among the layouts' '
    plan large generate --load model --max-new-tokens 800 long.fa && grep "ring pipeline .* a token in all$" plan &&
    grep "^800 new tokens, or fewer = .* node-hours" plan && grep "^ *1  *1  *1  *4  *2 " plan &&
    ! sed 1,2d plan | grep "^ " | awk "\$3 != 1 || \$5 > 2" | grep . &&
    plan large generate --load model --max-new-tokens 8 genome.fa $share && grep "^ *1 *4 *1 *1 *2 " plan && long=$(seconds) &&
    plan large generate --load model --max-new-tokens 8 short.fa $share && less "$(seconds)" "$long" 0.1
'
test_expect_success 'generation: as many new tokens as prompts ask for' '
    plan large generate --load model --max-new-tokens 80 short.fa short.fa && grep "^6.40 k new tokens, or fewer" plan &&
    plan large generate --load model --temperature 1 --num-samples 3 --max-new-tokens 80 short.fa && grep "^9.60 k new tokens" plan &&
    plan large generate --load model --complete 0.25 short.fa && grep "^600 new tokens" plan
'
test_expect_success '--vcf: attention is counted in windows, not in whole rows' '
    printf "##fileformat=VCFv4.2\n##contig=<ID=chromosome>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n" >v.vcf &&
    cut -c 5000 bases | awk "{ print \"chromosome\t5000\t.\t\" \$1 \"\t\" (\$1 == \"A\" ? \"C\" : \"A\") \"\t.\t.\t.\" }" >>v.vcf &&
    plan large score --load model --fasta genome.fa --vcf v.vcf --window 6000 --tensor-model-parallel-size 1 &&
    grep " 2 x 6032 " plan && windows=$(seconds) && records 2 6033 >row.fa &&
    plan large score --load model row.fa --micro-batch-size 2 --tensor-model-parallel-size 1 && grep " 2 x 6032 " plan &&
    less "$windows" "$(seconds)" 0.6
'
test_expect_success '--vcf: time of all alleles, if the file was read to its end' '
    for i in $(seq 2000); do cat v.vcf; done | awk "/^#/ { if (NR > 3) next } { print }" >all.vcf &&
    plan large score --load model --fasta genome.fa --vcf all.vcf --window 6000 --strand both &&
    grep "^2.00 k alleles = .* node-hours" plan && sed -n 3p plan | grep "[0-9] s\$\|min\$" &&
    plan large score --load model --fasta genome.fa --vcf v.vcf --window 6000 && grep "^1 allele = " plan
'
# fails WORDS...: the error
fails() {
    plan large "$@"
    test $? -eq 1 && test "$(grep -c error err)" -eq 1
}
mds_data make --tokenizer bytes --output bytes.h5 "$srcdir/README.md" >/dev/null 2>&1
test_expect_success 'what is wrong is said on the login node' '
    fails && grep "behind -- write score, embed or generate" err &&
    fails scores --load model short.fa && grep "not scores" err &&
    fails score short.fa && grep "load is missing" err &&
    fails score --load gone short.fa && grep "gone: there is no checkpoint" err &&
    fails score --load model gone.fa && grep "gone.fa: No such file" err &&
    fails score --load model bytes.h5 && grep "bytes.h5: is of tokenizer bytes, and the model was trained on tokens of codon" err &&
    fails score --load learned short.fa long.fa && grep "long.fa: r1 has 4000 tokens, and learned/iter_0000002 takes 65" err &&
    fails score --load model short.fa --pool mean && grep "error.*pool" err &&
    fails score --load model short.fa --train-iters 3 && grep "train-iters does not concern" err &&
    fails score --load model short.fa --tensor-model-parallel-size 8 && grep "does not divide --num-attention-heads 4" err &&
    fails score --load model short.fa --dry-run && grep "mds_launch plan" err &&
    echo old >old.tsv && fails score --load model --overwrite=0 --per-token p --output old.tsv short.fa && grep "old.tsv: exists already" err
'
test_expect_success 'nothing fits: which layout needs least, and how much' '
    ! plan small score --load model genome.fa && grep "error: a sequence of .* tokens does not fit on 8 ranks of cluster: with .*a rank needs .* of 512.00 MiB" err
'
test_expect_success 'nothing fits, and --no-check-memory starts what needs least' '
    mds_launch run --program mds_infer --machine small.yaml --nodes 2 --no-check-memory --print -- score --load model genome.fa >out 2>err;
    cat out err && grep "mds_infer score --load model genome.fa .*-size 8" out && ! grep error err
'
test_expect_success 'files that are not read to the end in --plan-seconds' '
    for i in $(seq 60); do cat short.fa short.fa short.fa short.fa; done >big.fa && cat big.fa big.fa big.fa big.fa >huge.fa &&
    mds_launch plan --program mds_infer --plan-seconds 0.1 --machine large.yaml --nodes 2 -- score --load model huge.fa huge.fa huge.fa huge.fa \
        >plan 2>err; cat plan err && grep "0.1 s were enough for .* of .*: their longest sequence has 60 tokens so far" err &&
    grep "^about .* tokens = " plan
'

run() {
    timeout 60 mds_launch run --program mds_infer --machine localhost "$@" </dev/null >log 2>&1
}
test_expect_success 'run: ranks start, share and score; once more does no harm' '
    mds_infer score --load model short.fa --threads 1 >want 2>/dev/null &&
    run --ranks 2 -- score --load model --output is.tsv short.fa --threads 1 && cat log &&
    grep "mpiexec.* -n 2 .*mds_infer score --load model --output is.tsv --resume short.fa --threads 1" log &&
    cut -f 1-3 want >a && cut -f 1-3 is.tsv >b && test_cmp a b &&
    run --ranks 2 -- score --load model --output is.tsv short.fa --threads 1 && grep "is.tsv has the scores of 40 sequences already" log &&
    test -z "$(ls -A | grep mds_events)"
'
test_expect_success 'run: a signal ends it with 85, and the next goes on' '
    mds_infer score --load model big.fa --threads 1 >want 2>/dev/null &&
    { mds_launch run --program mds_infer --machine localhost --ranks 2 -- score --load model --batch-tokens 500 --output part.tsv \
        big.fa --threads 1 </dev/null >log 2>&1 & } && pid=$! &&
    for i in $(seq 200); do test "$(cat part.tsv 2>/dev/null | wc -l)" -lt 3 || break; sleep 0.05; done && kill -USR1 $pid &&
    { wait $pid; status=$?; cat log; test $status -eq 85; } && test "$(wc -l <part.tsv)" -lt "$(wc -l <want)" &&
    grep "info: a signal ended it; the same command with --resume goes on with part.tsv" log &&
    run --ranks 1 -- score --load model --output part.tsv big.fa --threads 1 && cut -f 1-3 want >a && cut -f 1-3 part.tsv >b && test_cmp a b
'
test_expect_success 'on a terminal a signal is answered at once, before the step has ended' '
    printf "%s\n" "echo \$\$ >pid" "exec mds_infer score --load model --batch-tokens 500 --output tty.tsv big.fa --threads 1" >score.sh &&
    { script -qefc "sh score.sh" /dev/null >log </dev/null & } &&
    for i in $(seq 200); do test "$(cat tty.tsv 2>/dev/null | wc -l)" -lt 3 || break; sleep 0.05; done && kill -TERM "$(cat pid)" &&
    { wait $!; status=$?; cat log; test $status -eq 85; } &&
    grep "info: leaving after this step; a second Ctrl-C leaves at once" log && grep "info: a signal ended it; .* with tty.tsv" log
'

# submit MACHINE OPTIONS... -- WORDS...
submit() {
    machine=$1
    shift
    mds_launch submit --program mds_infer --machine "$machine" "$@" >out 2>err
    status=$?
    cat out err
    return $status
}
test_expect_success 'submit: a job whose script goes on; run.yaml says what it is' '
    submit h200 batch 2 1:00:00 me -- score --load model --output s.tsv short.fa long.fa --dtype bf16 &&
    grep "^runs/score-2n: 1" out && job=runs/score-2n/job.sh && cat $job && bash -n $job &&
    grep "score .*$" $job && grep -e "--resume short.fa long.fa" $job && grep -e "--device cuda" $job &&
    grep -e "--program mds_infer" $job && grep "^before=.(stat -c %s -- s.tsv 2" $job && grep "scontrol requeue" $job &&
    grep "info: .* tokens = .*, 1 job of 01:00:00" err &&
    grep "^asked: \"score --load model --output s.tsv short.fa long.fa --dtype bf16\"" runs/score-2n/run.yaml &&
    ! grep checkpoints $job
'
test_expect_success 'submit: an array shares the files by size; a chain of it' '
    mkdir in && for i in 1 2 3 4 5 6 7; do head -n $((2 * i)) short.fa >in/g$i.fa; done &&
    mkdir -p t && submit h200 --array 3 --chain 2 --name many batch 1 1:00:00 me -- score --load model --output "t/{}.tsv" in/*.fa &&
    job=runs/many/job.sh && cat $job && bash -n $job && grep "^#SBATCH --array=0-2" $job &&
    for i in 7 6 5 4 3 2 1; do echo in/g$i.fa; done >want && test_cmp want runs/many/files &&
    grep "info: .* tokens in 3 jobs of an array: each = " err && grep "^runs/many: 2, 3" out &&
    for i in 7 6 5 4 3 2 1; do echo t/g$i.tsv; done >want && test_cmp want runs/many/outputs && ! grep "are cancelled" $job && ! grep "sbatch.*array" $job
'
test_expect_success 'progress of a job of the array is that of its own outputs' '
    sed -n "/^run=/p; /^task=/p; /^mapfile/p; /^before=/p" runs/many/job.sh >state.sh && echo "echo \$before" >>state.sh && cat state.sh &&
    progress() { SLURM_ARRAY_TASK_ID=$1 bash state.sh; } &&
    echo a >t/g5.tsv && test "$(progress 0)" = 2 && test -z "$(progress 1)" && echo bc >t/g2.tsv &&
    test "$(progress 0)" = "2 3" && rm t/g5.tsv t/g2.tsv
'
# What the job starts is in its place.
printf '#!/bin/sh\nfor w; do echo "$w"; done >args$SLURM_ARRAY_TASK_ID$PBS_ARRAY_INDEX\n' >bin/mds_launch.args
test_expect_success 'each job of the array has its files, its events, and its end' '
    chmod +x bin/mds_launch.args && sed "s/^mds_launch /mds_launch.args /; /^PATH=/d" runs/many/job.sh >task.sh &&
    for task in 0 1 2; do SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_JOB_ID=2 SLURM_JOB_ID=9 bash task.sh || return 1; done &&
    grep -x "in/g.*" args0 >files && printf "in/g%d.fa\n" 5 2 >want && test_cmp want files &&
    grep -x "in/g.*" args1 >files && printf "in/g%d.fa\n" 7 4 1 >want && test_cmp want files &&
    grep -x "in/g.*" args2 >files && printf "in/g%d.fa\n" 6 3 >want && test_cmp want files &&
    grep -x runs/many/1/events.jsonl args1 && test -e runs/many/2/done && ! test -e runs/many/done &&
    rm args0 && SLURM_ARRAY_TASK_ID=0 bash task.sh && ! test -e args0 && ! bash task.sh
'
test_expect_success 'a chained array: out of time, the next goes on; the last says so' '
    printf "#!/bin/sh\nexit 85\n" >bin/mds_launch.args && rm -rf runs/many/[0-9] &&
    SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_JOB_ID=2 SLURM_JOB_ID=9 bash task.sh &&
    { SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_JOB_ID=3 SLURM_JOB_ID=9 bash task.sh 2>err; test $? -eq 85; } && cat err &&
    grep "go on with: mds_launch continue runs/many" err
'
test_expect_success 'PBS: its array, and its own number for the chain' '
    submit polaris --array 2 --chain 2 --name pbs debug 2 0:30:00 me -- score --load model --output "t/{}.tsv" in/*.fa &&
    cat runs/pbs/job.sh && grep "^#PBS -J 0-1" runs/pbs/job.sh && sed -i "s/^jobs: .*/jobs: [1[].polaris, 2[].polaris]/" runs/pbs/run.yaml &&
    sed "s/mds_launch /mds_launch.args /; /^PATH=/d; s/^timeout .* mds/mds/" runs/pbs/job.sh >task.sh &&
    PBS_O_WORKDIR=$PWD PBS_ARRAY_INDEX=1 PBS_ARRAY_ID="1[].polaris" PBS_JOBID="1[1].polaris" bash task.sh &&
    { PBS_O_WORKDIR=$PWD PBS_ARRAY_INDEX=1 PBS_ARRAY_ID="2[].polaris" PBS_JOBID="2[1].polaris" bash task.sh; test $? -eq 85; } &&
    grep "this was the last job" "runs/pbs/job-2[1].log"
'
# refused OPTIONS...: with one error, and no folder
refused() {
    rm -rf none && ! submit h200 --runs none "$@" && test "$(grep -c error err)" -eq 1 && ! test -e none
}
test_expect_success 'what cannot be submitted' '
    refused --array 3 batch 1 1:00:00 me -- score --load model --output t.tsv in/*.fa && grep "give one with a {}" err &&
    refused --array 8 batch 1 1:00:00 me -- score --load model --output "t/{}.tsv" in/*.fa && grep "give 7 at most" err &&
    refused --chain 2 batch 1 1:00:00 me -- generate --load model --output t.fa short.fa && grep "chain: another job goes on only with score" err &&
    refused --chain 2 batch 1 1:00:00 me -- embed --load model --output t.h5 short.fa && grep "embed of several files into an --output with a {}" err &&
    refused batch 1 1:00:00 me -- score --load model --output t.tsv - && grep "error: -: a job has no standard input" err &&
    mds_infer score --load model --output begun.tsv short.fa --threads 1 &&
    refused batch 1 1:00:00 me -- score --load model --output begun.tsv long.fa &&
    grep "begun.tsv: was begun with .input: short.fa, .*, and this is .input: long.fa" err &&
    refused batch 1 1:00:00 me -- score --load gone --output t.tsv short.fa && grep "gone: there is no checkpoint" err &&
    refused --machine large.yaml debug 2 0:10:00 me -- score --load model --output t.tsv genome.fa &&
    grep "error: results of sequences of .* tokens are written after .*, and a job of 00:10:00" err &&
    refused nonesuch 1 1:00:00 me -- score --load model short.fa && grep "queue nonesuch" err &&
    ! mds_launch submit --program mds_infer --machine thetagpu --array 2 full-node 1 1:00:00 me -- score --load model \
        --output "t/{}.tsv" in/*.fa 2>err && grep "has no arrays of jobs" err &&
    ! MODEL_SIZE_KEY=TINY mds_launch submit --machine h200 --array 2 batch 1 1:00:00 me 2>err && grep "array is for --program mds_infer" err
'
test_expect_success 'without a batch system: here and now' '
    submit localhost --name here -- score --load model --output here.tsv short.fa --threads 1 && cat runs/here/job.log &&
    test "$(wc -l <here.tsv)" -eq 41 && test -e runs/here/done && grep "\"finished\",\"reason\":\"done\",\"status\":0" runs/here/events.jsonl &&
    mds_launch status runs | tee out && grep "^here  *done" out
'
test_expect_success 'sweep, check, models and lr-find are for trainings' '
    for command in "sweep tiny.yaml" check models "lr-find x.svg"; do
        ! mds_launch $command --program mds_infer -- score --load model short.fa 2>err && cat err &&
        grep "program mds_infer: plan, run and submit" err || return 1
    done
'
test_done
