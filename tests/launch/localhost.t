#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_launch on this host: what it prints runs'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"
unset MDS_OVERWRITE

for name in MACHINE HOSTFILE NHOSTS NGPU_PER_HOST NGPUS QUEUE PROJECT DURATION NUM_NODES \
    CUDA_VISIBLE_DEVICES; do
    unset "$name"
done
MACHINE=localhost
DATA_PATH=tokens.h5
mkdir none && printf '#!/bin/sh\nexit 1\n' >none/nvidia-smi && chmod +x none/nvidia-smi
PATH=$PWD/none:$PATH # this host's GPUs, if it has any, are not meant
export MACHINE DATA_PATH PATH
mds_data make --tokenizer codon --output tokens.h5 "$srcdir/tests/data/lambda.fna.gz"
cat > tiny.yaml << 'EOF'
TINY: {layers: 2, hidden: 32, heads: 2}
EOF
tiny='--model-table tiny.yaml --eval-iters 0 --threads 1 --log-interval 1'
# train VARIABLES... : ALCF/train-gpt3.sh with the launcher of this build

# shellcheck disable=SC2086  # a list of words
train() {
    env MODEL_SIZE_KEY=TINY SEQ_LEN=64 "$@" "$srcdir/ALCF/train-gpt3.sh" \
        --launcher-command "$MPIEXEC" -- $tiny >out 2>err </dev/null
}
says() {
    words=$1
    shift
    test_must_fail "$@" 2>err && grep -e "$words" err && test "$(grep -c error: err)" -eq 1
}

test_expect_success 'ALCF/train-gpt3.sh trains on two ranks: all of them tensor ranks' '
    train SP_TYPE=megatron TRAIN_ITERS=3 && cat out err &&
    grep "mpiexec.*-n 2 .*--tensor-model-parallel-size 2 --sequence-parallel" out &&
    grep "iteration  *3/" out
'
# A run that nobody told where to save.
tiny_run() {
    env MODEL_SIZE_KEY=TINY SEQ_LEN=64 NGPUS=2 mds_launch --launcher-command "$MPIEXEC" "$@" >out 2>err </dev/null
}
test_expect_success 'without --save a run has a folder: checkpoints, metrics, log, and a script to go on' '
    rm -rf runs && test_expect_code 85 tiny_run -- $tiny --train-iters 4 --exit-interval 2 && cat out err &&
    folder=runs/TINY-64-1n && grep "info: $folder has checkpoints, metrics.jsonl and job.log; to go on later: sh $folder/job.sh" err &&
    test "$(cat $folder/checkpoints/latest)" = iter_0000002 && grep "iteration  *2/" $folder/job.log &&
    grep "mds_pretrain .*--keep-last 3" $folder/job.log && grep "^machine: .localhost" $folder/run.yaml &&
    sed -i "/--exit-interval/d" $folder/job.sh && sh $folder/job.sh >out 2>&1 </dev/null &&
    grep "loaded $folder/checkpoints/iter_0000002" out && test_must_fail grep -e "ignored without" -e --moe- out &&
    test "$(grep -c event.:.step $folder/metrics.jsonl)" -eq 4 &&
    mds_launch report runs && grep TINY runs/report.csv
'
test_expect_success 'each run has its own; one that does not start, prints only, or must not save has none' '
    tiny_run --name mine -- $tiny --train-iters 1 && test -e runs/mine/checkpoints/latest &&
    tiny_run --name mine --runs there -- $tiny --train-iters 1 --metrics-jsonl own.jsonl && test -e there/mine/checkpoints/latest &&
    test -s own.jsonl && rm -r there && find runs | sort >before &&
    tiny_run --print -- $tiny --train-iters 1 && tiny_run -- $tiny --train-iters 1 --save "" && tiny_run -- $tiny --train-iters 1 --save here &&
    test_must_fail tiny_run -- $tiny --train-iters 1 --tensor-model-parallel-size 7 &&
    tiny_run -- $tiny --skip-train --load here --eval-iters 1 && find runs | sort >after && test_cmp before after
'
test_expect_success 'the help of the scripts in ALCF' '
    for script in train-gpt3 train-llama train-genome submit submit-pbs sweep; do
        "$srcdir/ALCF/$script.sh" --help >out && cat out && grep "ALCF/$script.sh " out &&
            grep "^Options: mds_launch --help" out && ! grep "^#" out || return 1
    done
'
test_expect_success 'a script that qsub or sbatch has copied finds the others where it was submitted' '
    mkdir -p spool job && ln -s "$srcdir/ALCF" job/ALCF && cp tokens.h5 job/near.h5 &&
    for script in train-gpt3 train-llama; do
        cp "$srcdir/ALCF/$script.sh" spool/copy &&
        PBS_O_WORKDIR=$PWD/job MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=64 DATA_PATH=near.h5 NGPUS=2 \
            spool/copy --print >out 2>err && cat out err && grep -e "--data-path near.h5" out &&
            ! grep warn: err || return 1
    done
'
test_expect_success 'or where the batch system says, or PATH, whatever folder it was submitted in' '
    mkdir -p "$PWD/far/tree" elsewhere says && where=$(mktemp -d) && ln -s "$srcdir/ALCF" "$where/ALCF" &&
    cp tokens.h5 elsewhere/near.h5 && cp "$srcdir/ALCF/train-gpt3.sh" spool/copy &&
    printf "#!/bin/sh\nprintf \"Job Id: %%s\\\\n    Job_Owner = me\\\\n    Submit_arguments = -l select=1 -A p\\\\n\\\\troj %s\\\\n\\\\t%s\\\\n    project = x\\\\n\" \"\$2\"\n" \
        "$where/AL" "CF/train-gpt3.sh" >says/qstat &&
    printf "#!/bin/sh\necho \"   Command=%s --print\"\n" "$where/ALCF/train-gpt3.sh" >says/scontrol &&
    chmod +x says/* && says/qstat -f 7 &&
    copy() {
        env PBS_O_WORKDIR="$PWD/elsewhere" MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=64 DATA_PATH=near.h5 NGPUS=2 \
            "$@" spool/copy --print >out 2>err && cat out err && grep -e "--data-path near.h5" out
    } &&
    ! copy PBS_JOBID=7 && grep "^train-gpt3.sh: this copy cannot tell where ALCF/ is" err && copy PBS_JOBID=7 PATH="$PWD/says:$PATH" &&
    copy SLURM_JOB_ID=7 PATH="$PWD/says:$PATH" &&
    copy PBS_JOBID=7 PBS_O_PATH="/nowhere:$where/ALCF" && rm -r "$where"
'
test_expect_success 'the number of threads that PBS sets is no choice of the users' '
    sed "s/^environment:.*/&\n  OMP_NUM_THREADS: 3/" "$srcdir/machines/localhost.yaml" >omp.yaml &&
    threads() {
        env MACHINE=./omp.yaml MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=64 DATA_PATH=tokens.h5 NGPUS=2 "$@" \
            mds_launch --print >out && cat out
    } &&
    threads OMP_NUM_THREADS=64 PBS_JOBID=1 NCPUS=64 && grep "OMP_NUM_THREADS=3 " out &&
    threads OMP_NUM_THREADS=5 PBS_JOBID=1 NCPUS=64 && grep "OMP_NUM_THREADS=5 " out &&
    threads OMP_NUM_THREADS=64 && grep "OMP_NUM_THREADS=64 " out
'
test_expect_success 'a data file that is not there is warned of, also where nothing starts' '
    MODEL_SIZE_KEY=GENSLM_25M DATA_PATH=gone.h5 TRAIN_ITERS=1 mds_launch --print 2>err &&
    grep "warn: data not found on this host: gone.h5: No such file" err
'
test_expect_success 'a batch that nothing divides: its fault alone' '
    test_must_fail env MODEL_SIZE_KEY=GENSLM_25M MICRO_BATCH=3 GLOBAL_BATCH=16 TRAIN_ITERS=1 NGPUS=2 \
        mds_launch --layout plan --print >out 2>err &&
    grep "not a multiple of micro-batch 3" err && cat out err >both && ! grep "nothing fits" both
'
test_expect_success 'SP_TYPE=ds: Ulysses and ZeRO 3' '
    train TRAIN_ITERS=2 SP_TYPE=ds && cat out err &&
    grep -e "--ds-sequence-parallel-size 2 .*--zero-stage 3" out && grep "iteration  *2/" out
'
test_expect_success 'sizes, batch and number of ranks of ones own' '
    train TRAIN_ITERS=2 NGPUS=4 SP_TYPE=none PPSIZE=2 ZERO_STAGE=1 MICRO_BATCH=1 GAS=2 &&
    cat out err &&
    grep "n 4 " out && grep -e "--pipeline-model-parallel-size 2" out &&
    grep "iteration  *2/" out
'
test_expect_success 'the line that --print prints runs by itself' '
    MODEL_SIZE_KEY=TINY SEQ_LEN=64 TRAIN_ITERS=2 mds_launch --print \
        --launcher-command "$MPIEXEC" -- $tiny >line &&
    env -u DATA_PATH -u MACHINE sh line >out 2>err </dev/null && grep "iteration  *2/" out
'
test_expect_success 'a plan of a tiny model' '
    MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=512 mds_launch plan >out && cat out &&
    grep "layouts fit" out && grep "optimizer" out && grep "a step of" out &&
    MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=512 mds_launch plan --machine polaris >out &&
    ! grep -E "[0-9]e.[0-9]" out && # 12345 tokens/s, not 1.234e+04
    MODEL_SIZE_KEY=GENSLM_25M mds_launch plan --machine polaris --max-seq >out &&
    grep "longest sequence: [1-9]" out &&
    test_must_fail mds_launch plan --layout given 2>err && grep "layout given: plan varies what .* leave --layout out" err
'
# memory N: of the best layout of a model of which most is experts, which N ranks share
memory() {
    mds_launch plan --machine h100 --nodes 2 -- --model-size-key GENOS_10B --seq-length 8192 --micro-batch-size 1 \
        --global-batch-size 1024 --bf16 --data-path "" --expert-model-parallel-size "$1" >planned && cat planned >&2 &&
        awk '$1 == 1 && $6 == "GiB" { print $5 }' planned
}
test_expect_success 'a plan takes the ranks that share experts as they are given, or chooses them' '
    memory 1 >one && memory 8 >eight && paste one eight | awk "{ exit !(\$2 > 0 && \$2 < 0.6 * \$1) }" &&
    grep "gradients and weights [1-9]" planned && ! memory 3 && ! grep "layouts fit" planned &&
    mds_launch plan --machine h100 --nodes 1 -- --model-size-key GENOS_10B --bf16 --data-path "" --zero-stage 1 --tensor-model-parallel-size 1 \
        --ds-sequence-parallel-size 1 --context-parallel-size 1 --pipeline-model-parallel-size 1 >planned && cat planned &&
    grep "^   1 .*  tensor 1, expert [248], data 8, ZeRO 1" planned &&
    mds_launch plan --machine h200 --nodes 1 -- --model-size-key GENOS_10B --bf16 --data-path "" --zero-stage 1 --tensor-model-parallel-size 1 \
        --seq-length 1M --micro-batch-size 1 --global-batch-size 1 --pipeline-model-parallel-size 1 >planned && cat planned &&
    grep "^   1 .*  tensor 1, Ulysses 8, expert [248], data 1, ZeRO 1" planned
'
test_expect_success 'plan and submit read the data as the job will, and say how long it is' '
    MODEL_SIZE_KEY=GENSLM_25M && TRAIN_ITERS=10000 && export MODEL_SIZE_KEY TRAIN_ITERS &&
    submit() { mds_launch submit debug 2 1:00:00 P --machine polaris --print "$@" >out 2>err; } &&
    short="tokens.h5: --split 949,50,1 leaves 809 tokens for validation, but a window takes 1025" &&
    (SEQ_LEN=1024 && export SEQ_LEN && test_must_fail mds_launch plan --machine polaris >out 2>err) && cat err &&
    grep "error: $short" err && grep "layouts fit" out && SEQ_LEN=512 mds_launch plan --machine polaris >out 2>err &&
    grep "^10000 steps and 10 evaluations (10 samples, .*) = .* node-hours$" out && grep "checkpoints: about .*has space for" err &&
    (SEQ_LEN=1024 && export SEQ_LEN && test_must_fail submit) && cat err && grep "error: $short" err && test ! -s out &&
    (SEQ_LEN=512 && export SEQ_LEN && submit && cat err && grep "epochs, each of 29 windows of 512 tokens" err &&
        grep "info: 10000 steps and 10 evaluations (10 samples, .*) = .* node-hours, 1 job of 01:00:00, as predicted" err &&
        submit -- --train-iters 100000000 && grep "info: 100000000 steps and .* = .* node-hours, [0-9][0-9]* jobs of 01:00:00" err &&
        (MODEL_SIZE_KEY=TINY && SEQ_LEN=64 && tiny_run -- $tiny --train-iters 2 --save half &&
            submit -- $tiny --train-iters 1002 --save half --load half) && cat err && grep "info: 1000 steps = " err &&
        test_must_fail submit -- --vocab-size 60 && grep "error: .*--vocab-size 60, but the data has 66" err) &&
    SEQ_LEN=131072 mds_launch plan --machine polaris --nodes 2 -- --model-size-key GENSLM_2_5B --data-path "" >out 2>err &&
    awk "/^ +[0-9]+ +[0-9]/ { n++; if (\$4 > 312) bad = 1 } END { exit bad || n < 3 }" out
    status=$?; unset MODEL_SIZE_KEY TRAIN_ITERS; test $status -eq 0
'
test_expect_success 'a search for the longest sequence that is cut says so' '
    MODEL_SIZE_KEY=GPT25B mds_launch plan --machine polaris --nodes 512 --max-seq --plan-seconds 1 >out && cat out &&
    grep "longest sequence: at least [1-9][0-9]* tokens, with" out &&
    grep "so far: the search was cut at 1 s, .* --plan-seconds gives it more" out
'
# params FILE OPTION...: what a plan says of weights
params() {
    file=$1
    shift
    MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=512 mds_launch plan "$@" >out && grep "^  params" out >"$file"
}
test_expect_success 'a plan counts the words of the data, where they are here' '
    params data && params given -- --vocab-size 66 && params gpt -- --vocab-size 50257 &&
    (unset DATA_PATH && params without) && cat data gpt && test_cmp given data &&
    test_cmp gpt without && ! cmp -s data without &&
    (DATA_PATH="1 tokens.h5 1 gone.h5" && params blend) && test_cmp without blend &&
    DATA_PATH="$(printf "1 tokens.h5\n1 tokens.h5\n")" params two 2>err && test_cmp data two &&
    grep "the 66 words of the data$" err
'
# reads COMMAND...: how often it opens the data, of which it wants nothing but the lengths of documents
reads() {
    ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-} MODEL_SIZE_KEY=GENSLM_25M SEQ_LEN=64 TRAIN_ITERS=1 NGPUS=2 \
        strace -f -o st -e trace=%file mds_launch "$@" -- --vocab-size 66 --pack-documents on >out 2>&1 &&
        grep -c "open.*\"tokens.h5\"" st
}
if strace -o /dev/null true 2>/dev/null; then
    test_set_prereq STRACE
fi
test_expect_success STRACE 'the lengths of documents are read once' '
    reads --print >start && cat start && test "$(cat start)" -gt 0 &&
    reads --layout plan --print >planned && test_cmp start planned && reads check --print >check && test_cmp start check &&
    reads plan >plan && test "$(cat plan)" -le $((2 * $(cat start))) && reads submit --print >submit && test_cmp plan submit
'
test_expect_success 'nodes are checked without a model, unknown subcommands have no help' '
    mds_launch check --print >out 2>err && cat out err && grep "info: check: no model is given" err &&
    grep "mds_pretrain .*--num-layers 32 .*--preflight-only" out &&
    MODEL_SIZE_KEY=TINY mds_launch check --print -- --model-table tiny.yaml >out 2>err && ! grep "no model is given" err &&
    says "unknown subcommand .plam.; did you mean plan" mds_launch plam --help &&
    says "unknown subcommand .inof." mds_data inof --help && mds_launch --help >out && mds_launch --version >out
'
test_expect_success 'manual pages of the build directory' '
    for page in mds_launch mds_data mds_ckpt mds_plot mds_from_megatron mds_pretrain; do
        test -s "$builddir/docs/man1/$page.1" || return 1
    done
'
test_expect_success 'where: what was found, and disagreements' '
    printf "a slots=2\nb slots=2\n" >nodes &&
    HOSTFILE=nodes PMI_RANK=0 PMI_SIZE=8 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=8 \
        mds_launch where --machine polaris >out && cat out &&
    grep "^HOSTFILE  *2 .* a,b" out &&
    grep "disagreement: ranks a node: HOSTFILE says 2, hydra says 8" out &&
    grep "4 ranks: 2 nodes, 2 on each" out
'
# gpus LIST: what ranks on Polaris, which take the last first, are given of it
gpus() {
    CUDA_VISIBLE_DEVICES=$1 MODEL_SIZE_KEY=GPT125M mds_launch --machine polaris --print >line &&
        cat line && sed "s/.*CUDA_VISIBLE_DEVICES=\([0-9,]*\) .*/\1/" line >given
}
test_expect_success 'GPUs that the user does not see are not given to ranks' '
    gpus 0,1 && grep -e "--ppn 2" line && test "$(cat given)" = 1,0 &&
    gpus 3,2,1,0 && grep -e "--ppn 4" line && test "$(cat given)" = 3,2,1,0 &&
    gpus GPU-1,GPU-0 && grep -e "--ppn 2" line && ! grep CUDA_VISIBLE line
'
test_expect_success 'slots of a list of nodes are ranks, and need no launcher that reads them' '
    MODEL_SIZE_KEY=GPT125M && export MODEL_SIZE_KEY &&
    HOSTFILE=nodes mds_launch --machine thetagpu --print >line && cat line &&
    grep -e "^mpirun --host a:2,b:2 -n 4 -npernode 2 " line &&
    mds_launch --machine polaris --hostfile nodes --print >line &&
    grep -e " -n 4 --ppn 2 --hosts a,b " line &&
    mds_launch --machine polaris --hostfile nodes --ranks-per-node 4 --print >line &&
    grep -e " -n 8 --ppn 4 --hosts a,b " line &&
    printf "a\na\na\nb\nb\n" >uneven && # mpiprocs of PBS: all get as many ranks as the least
    PBS_JOBID=1 PBS_NODEFILE=$PWD/uneven mds_launch --machine polaris --print >line 2>err &&
    grep -e " -n 4 --ppn 2 --hosts a,b " line && grep "nodes have 2 to 3 slots, and all get 2 ranks" err &&
    unset MODEL_SIZE_KEY
'
test_expect_success 'the last GPU first, of those that are visible' '
    sed "s/^  kind: H200.*/&\n  order: reverse/; s/^  kind: srun/  kind: hydra/; s/--cpu-bind=none/-bind-to, none/" \
        "$srcdir/machines/h200.yaml" >reverse.yaml &&
    MODEL_SIZE_KEY=GPT6_7B SEQ_LEN=2048 SP_TYPE=megatron CUDA_VISIBLE_DEVICES=1,7 \
        mds_launch --machine ./reverse.yaml --ranks-per-node 2 --print >out && cat out && grep "CUDA_VISIBLE_DEVICES=7,1" out
'
test_expect_success '--help of each subcommand, and of all a line in the man page' '
    for subcommand in run where check plan check-profile submit sweep lr-find report; do
        mds_launch $subcommand --help >out && grep "^Usage: mds_launch .*$subcommand" out || return 1
    done &&
    mds_launch plan --help >out && grep -e "--max-seq" out && ! grep -e "--queue" out &&
    mds_launch submit --help | grep -e "--chain" && mds_launch --help >out &&
    sed "s/\\\\-/-/g" "$srcdir/docs/mds_launch.1" >page &&
    for flag in $(sed -n "s/^  \(--[a-z-]*\).*/\1/p" out); do
        grep -q -e "$flag" page || { echo "no $flag"; return 1; }
    done
'
test_expect_success 'subcommands that start no mds_pretrain take no options of it' '
    for subcommand in where "report ." "check-profile $srcdir/machines/polaris.yaml"; do
        test_must_fail mds_launch $subcommand -- --misspelt 2>err &&
        grep "error: .--misspelt. is one operand too many; see mds_launch ${subcommand%% *} --help" err || return 1
    done
'
test_expect_success 'but words that look like options' '
    cp "$srcdir/machines/polaris.yaml" ./-p.yaml && mds_launch check-profile -- -p.yaml | grep "^-p.yaml: polaris" &&
    test_must_fail mds_launch check-profile -p.yaml && mkdir -p ./--runs/a &&
    echo "{}" >./--runs/a/metrics.jsonl && mds_launch report -- --runs && test -e ./--runs/report.md
'
test_expect_success 'scripts find the ones beside them, whatever CDPATH is' '
    (cd "$srcdir" && CDPATH=$srcdir && export CDPATH && ALCF/submit-pbs.sh --help) >out &&
    grep "Options: mds_launch --help" out
'
test_expect_success 'check-profile: all faults of a file' '
    mds_launch check-profile "$srcdir/machines/polaris.yaml" | grep polaris &&
    sed "s/memory: {value: 39/memroy: {value: 39/; s/^  cores: 32/  cores: many/" \
        "$srcdir/machines/polaris.yaml" >bad.yaml &&
    test_must_fail mds_launch check-profile bad.yaml 2>err &&
    grep "bad.yaml:[0-9]*: unknown fact gpu.memroy; did you mean gpu.memory?" err &&
    grep "bad.yaml:[0-9]*: node.cores .many.: must be" err
'
test_expect_success 'no data, no length: said before ranks are started' '
    says "no data; give --data-path" env -u DATA_PATH TRAIN_ITERS=1 MODEL_SIZE_KEY=25M \
        mds_launch
'

# with_gpus NAME MIB COMMAND...: where nvidia-smi lists four of them
with_gpus() {
    mkdir -p gpus && printf '#!/bin/sh\nfor i in 1 2 3 4; do echo "%s, %s"; done\n' "$1" "$2" \
        >gpus/nvidia-smi && chmod +x gpus/nvidia-smi
    shift 2
    env -u MACHINE PATH="$PWD/gpus:$PATH" "$@"
}

test_expect_success 'a host with four GPUs and no profile: a rank for each' '
    with_gpus "NVIDIA H200" 143771 mds_launch where >out 2>err && cat out err &&
    grep "machine localhost (.*/h200.yaml)" out && grep "^nvidia-smi .* 4  NVIDIA H200" out &&
    ! grep disagree out && grep "4 ranks: 1 node, 4 on each" out &&
    grep "found 4 NVIDIA H200; plans use the speeds in .*/h200.yaml" err &&
    with_gpus "NVIDIA H200" 143771 env CUDA_VISIBLE_DEVICES=0,1 mds_launch where >out &&
    grep "2 ranks: 1 node, 2 on each" out
'
test_expect_success 'ALCF/train-gpt3.sh and train-genome.sh on its GPUs' '
    with_gpus "NVIDIA H200" 143771 env MODEL_SIZE_KEY=GPT6_7B SEQ_LEN=4096 \
        OFFLOAD_DEVICE=none "$srcdir/ALCF/train-gpt3.sh" --print >out &&
    grep "mpiexec[^ ]* -n 4 .*mds_pretrain --device cuda .*--dtype bf16" out && grep -F "$MPIEXEC -n 4" out &&
    ! grep -e "--recompute-granularity full" out &&
    with_gpus "NVIDIA H200" 143771 "$srcdir/ALCF/train-genome.sh" \
        "$srcdir/tests/data/lambda.fna.gz" --print >out 2>err &&
    grep "mpiexec[^ ]* -n 4 .*mds_pretrain --device cuda .*--ds-sequence-parallel-size 4" out
'
test_expect_success 'more memory than the profile has, and GPUs that no profile knows' '
    with_gpus "NVIDIA A100-SXM4-80GB" 81920 env MODEL_SIZE_KEY=GPT6_7B SEQ_LEN=512 \
        mds_launch plan >out 2>err && cat out && grep "thetagpu.yaml" err &&
    grep "of 80.00 GiB" out &&
    with_gpus "NVIDIA GeForce RTX 4090" 24564 env MODEL_SIZE_KEY=GPT1_3B SEQ_LEN=512 \
        mds_launch plan >out 2>err && grep "of 23.99 GiB" out &&
    grep "found 4 NVIDIA GeForce RTX 4090; plans use the speeds in .*/thetagpu.yaml" err
'

test_done
