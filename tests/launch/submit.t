#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_launch submit: scripts, and runs that go on from job to job'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"

test_expect_success 'PBS: the script, its folder, the id' '
    MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 \
        "$srcdir/ALCF/submit-pbs.sh" debug 2 0:30:00 GenomeLM >out 2>err && cat out err &&
    grep "^runs/GPT13B-4096-2n: 1.polaris-pbs" out &&
    grep "^#PBS -A GenomeLM" runs/GPT13B-4096-2n/job.sh &&
    grep "^#PBS -l walltime=00:30:00" runs/GPT13B-4096-2n/job.sh &&
    grep "^runs/GPT13B-4096-2n/job.sh" qsub.log &&
    grep "jobs: \[1.polaris-pbs\]" runs/GPT13B-4096-2n/run.yaml
'
# Of PBS itself a file appears when the job ends.
test_expect_success 'PBS: a log that can be read while the job runs' '
    sed "s/^timeout .*/echo trained; exit 0; &/" runs/GPT13B-4096-2n/job.sh >logs.sh &&
    PBS_JOBID=12.polaris PBS_O_WORKDIR=$PWD bash logs.sh >out 2>&1 && test ! -s out &&
    grep trained runs/GPT13B-4096-2n/job-12.log &&
    (PBS_O_WORKDIR=$PWD && export PBS_O_WORKDIR && unset PBS_JOBID && bash logs.sh) | grep trained
'
test_expect_success 'train-gpt3.sh: a plan, or what is published and what a plan would gain' '
    gpt3="env MACHINE=polaris MODEL_SIZE_KEY=GPT1_7B SEQ_LEN=2048 $srcdir/ALCF/train-gpt3.sh" &&
    $gpt3 submit --write --name planned debug 2 0:30:00 me >out 2>err && cat err &&
    grep "info: plan: tensor 1, data 8" err && ! grep "times as many" err &&
    grep "info: plan: a step has 8 sequences: GLOBAL_BATCH .* is not set, .*the layout.s 8 data-parallel ranks" err &&
    GLOBAL_BATCH=16 $gpt3 submit --write --name sized debug 2 0:30:00 me 2>err && ! grep "a step has" err &&
    TP=8 $gpt3 submit --write --name published debug 2 0:30:00 me 2>err && cat err &&
    grep "a planned one would reach .* times as many: tensor 1, data 8" err &&
    grep -e "--tensor-model-parallel-size 8 " runs/published/job.sh &&
    grep -e "--recompute-granularity full" runs/published/job.sh && ! grep "a step has" err &&
    TP=8 $gpt3 submit --write --name cell --tag cell debug 2 0:30:00 me 2>err && ! grep "times as many" err &&
    TP=8 PBS_JOBID=1 $gpt3 submit --write --name inside debug 2 0:30:00 me 2>err && ! grep "times as many" err &&
    echo "parallel: {tensor: 4}" >sizes.yaml && for config in "--config sizes.yaml" --config=sizes.yaml; do
        $gpt3 --print --nodes 2 -- $config >line && grep -e "--recompute-granularity full" line &&
        grep -e "--tensor-model-parallel-size 4 --sequence-parallel --offload-device cpu" line || return 1
    done
'
test_expect_success 'a second run has a folder of its own; --chain makes each wait' '
    MACHINE=h200 MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 mds_launch submit \
        --chain 3 batch 2 1:00:00 me >out 2>err && cat out err &&
    grep "^runs/GPT13B-4096-2n-2: 1, 2, 3" out &&
    grep "the next job goes on" runs/GPT13B-4096-2n-2/job.sh &&
    sed -n 2p sbatch.log | grep "^--parsable --dependency=afterany:1 " &&
    sed -n 3p sbatch.log | grep -e "--dependency=afterany:2 "
'
test_expect_success 'what a job saves, when it leaves, and that it is told otherwise' '
    job=runs/GPT13B-4096-2n/job.sh &&
    grep -e "--save runs/GPT13B-4096-2n/checkpoints" $job &&
    grep -e "--load runs/GPT13B-4096-2n/checkpoints" $job &&
    grep -e "--save-interval [1-9]" $job && grep -e "--signal=USR1 1[0-9]*" $job &&
    grep "qsub .*job.sh" $job && grep "^#PBS -r y" $job &&
    MACHINE=h200 MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 SAVE_INTERVAL=3 \
        mds_launch submit --print --margin 40min --no-requeue batch 2 1:00:00 me \
        -- --save here --load there --finetune >job 2>err && cat err job &&
    grep "^#SBATCH --signal=B:USR1@2400" job && grep "^#SBATCH --no-requeue" job &&
    grep -e "--exit-duration-in-mins 20 " job && grep -e "--save-interval 3 " job &&
    grep "^checkpoints=here" job && grep "set -- --load .*--finetune=0" job &&
    ! grep -e "--load here" job && ! grep "scontrol" job
'
test_expect_success 'spare nodes, and nodes to leave out' '
    MACHINE=h200 MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 mds_launch submit --print --max-restarts 3 \
        --name ex --spare-nodes 2 --exclude "n3,n[7-8]" batch 2 1:00:00 me >job 2>err && cat err job &&
    grep "^#SBATCH --nodes=4" job && grep "^#SBATCH --exclude=n3,n\[7-8\]" job && grep -e "--nodes 2 " job &&
    grep "^#SBATCH --no-kill" job && grep -e "--exclude .n3,n\[7-8\]. " job && grep -e "--preflight " job &&
    grep -e "--exclude-file runs/ex/exclude " job && grep -e "--max-restarts 3 " job &&
    MACHINE=polaris MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 mds_launch submit --print \
        --spare-nodes 1 debug 1 0:30:00 me -- --preflight=0 >job 2>err && cat err job &&
    grep "^#PBS -l select=2:" job && grep -e "--nodes 1 " job && grep "^#PBS -W tolerate_node_failures=all" job &&
    ! grep -e "--preflight " job &&
    printf "%s\n" n1 n2 n3 >nodes && mds_launch --machine polaris --exclude n2 --nodes 2 --print --hostfile nodes \
        -- --model-size-key GPT1_7B --seq-length 2048 >line && grep -e "--hosts n1,n3 " line
'
# on_three OPTIONS...: the command for a job of n1 to n3
on_three() {
    mds_launch --machine polaris --print --hostfile nodes "$@" -- --model-size-key GPT1_7B --seq-length 2048 >line 2>err
    status=$?
    cat line err
    return $status
}
test_expect_success 'spare nodes of a job, in which some are excluded' '
    on_three --spare-nodes 1 && grep -e "--hosts n1,n2 " line && on_three --spare-nodes 1 --exclude n1+n9 &&
    grep -e "--hosts n2,n3 " line && grep "info: --exclude: n9 is not a node of this job" err &&
    echo "n2 # slow" >bad && on_three --spare-nodes 1 --exclude-file bad && grep -e "--hosts n1,n3 " line
'
test_expect_success 'a file of excluded nodes takes the lists that --exclude takes' '
    for text in "n[2-3]" "n2,n3" "n2, n3 # slow" "n3 n2" "n2
n8+n3"; do
        echo "$text" >bad && on_three --nodes 1 --exclude-file bad && grep -e "--hosts n1 " line || return 1
    done &&
    printf "# slow\nn[2-\n" >bad && test_must_fail on_three --nodes 1 --exclude-file bad && grep "error: bad:2: .*without" err
'
test_expect_success 'too many spare or excluded nodes, and lists that are none' '
    test_must_fail on_three --spare-nodes 3 && grep "error: --spare-nodes 3: HOSTFILE has 3 nodes, so none is left" err &&
    test_must_fail on_three --spare-nodes 1 --exclude n1,n2 && grep "error: 2 nodes asked for, but HOSTFILE has 3, of which 2 are excluded" err &&
    test_must_fail on_three --exclude "n[1-3]" && grep "error: --exclude .*: excludes all nodes of the job" err &&
    test_must_fail on_three --exclude "n1 n2" && grep "error: .*n1 n2. is not the name of a node" err
'
test_expect_success 'a folder whose name a command would take for an option' '
    test_must_fail mds_launch submit --print --machine h200 --runs=-x batch 2 1:00:00 me 2>err && cat err &&
    grep "error: folder .-x/.*no - first" err && test_must_fail mds_launch submit --print --machine localhost --runs=-x 2>err &&
    grep "error: folder .-x/" err
'
test_expect_success '--exclude in the syntax of qsub, and where qsub cannot exclude nodes' '
    export MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 &&
    mds_launch submit --print --machine h200 --exclude n3+n4 batch 2 1:00:00 me >job &&
    grep "^#SBATCH --exclude=n3,n4$" job && grep -x "    excluded=.n3,n4.,.*" job &&
    mds_launch submit --print --machine polaris --exclude n3+n4 debug 1 0:30:00 me >job 2>err; cat err &&
    grep "warn: --exclude n3+n4: the batch system may give these nodes to the job" err && ! grep "#PBS.*n3" job &&
    test_must_fail mds_launch submit --print --machine h200 --exclude "n3;x" batch 2 1:00:00 me 2>err && cat err &&
    grep "error: --exclude: .*n3;x. is not the name of a node" err;
    result=$?; unset MODEL_SIZE_KEY SEQ_LEN TRAIN_ITERS; return $result
'
test_expect_success 'queue limits: all faults, nothing submitted' '
    rm -f qsub.log &&
    test_must_fail env MACHINE=polaris MODEL_SIZE_KEY=GPT13B \
        mds_launch submit prod 5 30:00:00 2>err &&
    grep "5 nodes: queue prod takes 10 to 496" err &&
    grep "walltime 30:00:00: queue prod allows at most 24:00:00" err &&
    grep "no project" err &&
    test_must_fail env MACHINE=polaris MODEL_SIZE_KEY=GPT13B \
        mds_launch submit --margin 30min debug 2 30min me 2>err &&
    grep -e "--margin must be shorter than the walltime" err &&
    test_must_fail env MACHINE=polaris mds_launch submit debgu 1 1:00:00 me 2>err &&
    grep "did you mean debug?" err &&
    test ! -e qsub.log
'
nl='
#PBS -l select=999'
test_expect_success 'what would add lines to the script, or change the path of a log, is refused' '
    mkdir clean && cd clean && ln -s ../tokens.h5 . &&
    small="env MACHINE=polaris MODEL_SIZE_KEY=GPT125M TRAIN_ITERS=1 mds_launch submit debug 1 1:00:00" &&
    test_must_fail $small "me$nl" 2>err && cat err && test "$(wc -l <err)" -eq 1 &&
    grep "project .me.*PROJECT.*letters" err &&
    test_must_fail $small me --name "x$nl" 2>err && test "$(wc -l <err)" -eq 1 && grep "folder .runs/x" err &&
    test_must_fail $small me --tag "x$nl" --machine localhost 2>err && grep "folder .runs/.*x" err &&
    test_must_fail env QUEUE="debug$nl" PROJECT=me MACHINE=polaris MODEL_SIZE_KEY=GPT125M TRAIN_ITERS=1 \
        mds_launch submit --job-nodes 1 --walltime 1:00:00 2>err && grep "queue debug" err &&
    test_must_fail env DATA_PATH="tokens.h5$nl" $small me 2>err && cat err && grep -e "--data-path" err &&
    cp ../tokens.h5 "t${nl%%#*}h5" &&
    test_must_fail env DATA_PATH="t${nl%%#*}h5" $small me 2>err && grep "name of a file has a newline" err &&
    for odd in "50%j" "a\\b"; do
        mkdir "$odd" && ln -s ../../tokens.h5 "$odd" && cd "$odd" &&
        test_must_fail env MACHINE=h200 MODEL_SIZE_KEY=GPT125M TRAIN_ITERS=1 \
            mds_launch submit batch 1 1:00:00 me 2>err && cat err &&
        grep "batch system interprets .*submit from another folder" err && test ! -e runs && cd .. || return 1
    done &&
    test ! -e runs && cd ..
'
test_expect_success 'a submission that fails leaves no folder' '
    mkdir refuses && printf "#!/bin/sh\necho no such project >&2\nexit 1\n" >refuses/qsub && chmod +x refuses/qsub &&
    export MACHINE=polaris MODEL_SIZE_KEY=GPT125M TRAIN_ITERS=1 &&
    kept=$PATH && PATH=$PWD/refuses:$PATH &&
    test_must_fail mds_launch submit --runs own debug 1 1:00:00 me 2>err && cat err &&
    grep "qsub own/GPT125M-2048-1n/job.sh. failed with status 1" err && test ! -e own &&
    echo "LR: [1e-4, 2e-4]" >lr.yaml &&
    test_must_fail mds_launch sweep lr.yaml --runs own --queue debug --job-nodes 1 --walltime 1:00:00 \
        --project me 2>err && cat err && test ! -e own &&
    mkdir own && test_must_fail mds_launch submit --runs own debug 1 1:00:00 me &&
    test -d own && rmdir own && PATH=$kept && unset MACHINE MODEL_SIZE_KEY TRAIN_ITERS
'
test_expect_success 'a job keeps three checkpoints, none that a folder had, and says what fits' '
    small="env MACHINE=polaris MODEL_SIZE_KEY=GPT125M TRAIN_ITERS=1000 mds_launch submit --print debug 1 1:00:00 me" &&
    $small >job 2>err && cat err && grep -e "--keep-last 3 " job &&
    grep "checkpoints: about 9[0-9.]* MiB each, the newest 3 are kept (--keep-last); .* has space for [0-9]" err &&
    $small -- --keep-last 7 >job 2>err && grep -e "--keep-last 7 " job && ! grep -e "--keep-last 3" job &&
    $small -- --keep-last 0 >job 2>err && cat err && grep "9[0-9.]* MiB each, all are kept; " err &&
    mkdir -p old/iter_0000001 old/iter_0000002 old/iter_0000003 && $small -- --save old >job 2>err &&
    grep -e "--keep-last 3 " job &&
    mkdir old/iter_0000004 && $small -- --save old >job 2>err && cat err && ! grep -e "--keep-last" job &&
    grep "old has 4" err &&
    MODEL_SIZE_KEY=GPT1T MACHINE=polaris TRAIN_ITERS=9 mds_launch submit --print --no-check-memory prod 256 \
        6:00:00 me -- --tensor-model-parallel-size 32 --save /dev/shm/x >job 2>err && cat err &&
    grep "warn: .*TiB each.* /dev/shm has space for 0" err
'
test_expect_success 'data that are not here are a warning, before a job waits for hours' '
    MACHINE=polaris MODEL_SIZE_KEY=GPT125M DATA_PATH=gone.h5 TRAIN_ITERS=1 \
        mds_launch submit --write debug 1 1:00:00 me 2>err && cat err &&
    grep "warn: data not found on this host: gone.h5: No such file or directory (relative to " err &&
    MODEL_SIZE_KEY=GPT125M DATA_PATH=gone.h5 TRAIN_ITERS=1 mds_launch plan --machine polaris 2>err && cat err &&
    grep "warn: data not found on this host: gone.h5: No such file" err
'
test_expect_success 'so are a checkpoint that is not here, and, in what is only printed, no length' '
    submit="env MACHINE=polaris MODEL_SIZE_KEY=GPT125M mds_launch submit --print debug 1 1:00:00 me" &&
    LOAD=gone $submit 2>err && cat err && grep "warn: no length of the run: TRAIN_ITERS" err &&
    grep "warn: checkpoint not found on this host: gone" err &&
    LOAD=new SAVE=new TRAIN_ITERS=1 $submit 2>err && cat err && ! grep "no length\|checkpoint not found" err
'
test_expect_success 'a run that does not fit is not submitted, and leaves no folder' '
    test_must_fail env MACHINE=polaris MODEL_SIZE_KEY=GPT76B \
        mds_launch submit debug 1 1:00:00 me 2>err && cat err &&
    grep "nothing fits" err && test ! -e runs/GPT76B-2048-1n && test ! -e qsub.log
'
# too_large OPTIONS: a layout that does not fit, printed unless OPTIONS say better.
too_large() {
    MACHINE=polaris MODEL_SIZE_KEY=GPT13B MPSIZE=4 mds_launch submit --print debug 1 1:00:00 me "$@"
}
test_expect_success 'nor one that is set to what does not fit: settings that would are said' '
    test_must_fail too_large 2>err && cat err &&
    grep "a rank needs .*; layouts that fit are listed above" err && grep "^with the options you set this layout fits" err &&
    options=$(sed -n "s/^  --/--/p" err) && test -n "$options" && too_large -- $options &&
    too_large --layout plan 2>planned && cat planned &&
    grep -F "plan: $(sed -n "s/^  tensor/tensor/p" err)" planned &&
    test_must_fail too_large -- --recompute-granularity none --seq-length 100k 2>err && cat err &&
    grep "^nothing fits" err && grep "if --recompute-granularity is left to the plan: " err &&
    grep "no layout with these options fits: use more nodes" err
'
test_expect_success 'a job has the programs, nodes and ranks that were planned, whoever starts it' '
    MACHINE=polaris MODEL_SIZE_KEY=GPT1_3B NGPU_PER_HOST=2 NGPUS=3 PPSIZE=3 mds_launch submit \
        --print --program "my pretrain" --launcher-command "mpiexec -v" --no-check-memory \
        debug 2 1:00:00 me >job && cat job &&
    grep -x "PATH=$builddir/src/programs:.PATH" job &&
    sed -n "s/ .$//; /mds_launch$/,/^    --$/p" job >words &&
    printf "    %s\n" "--machine polaris" "--nodes 2" "--ranks-per-node 2" "--ranks 3" \
        "--exclude-file runs/GPT1_3B-2048-2n/exclude" "--max-restarts 10" "--program '\''my pretrain'\''" "--launcher-command '\''mpiexec -v'\''" --no-check-memory -- >want &&
    sed 1d words >got && test_cmp want got
'
test_expect_success 'states on disks that are not here, and a queue whose jobs may be killed' '
    MACHINE=polaris MODEL_SIZE_KEY=GPT1_3B MPSIZE=4 TRAIN_ITERS=5 OFFLOAD_DEVICE=nvme ZERO_STAGE=1 &&
    export MACHINE MODEL_SIZE_KEY MPSIZE TRAIN_ITERS OFFLOAD_DEVICE ZERO_STAGE &&
    mds_launch submit --write --name calm debug 1 1:00:00 me 2>err && cat err &&
    grep "optimizer states go to /local/scratch" err &&
    mds_launch submit --write --name risky preemptable 1 1:00:00 me &&
    grep -e "--nvme-path /local/scratch" runs/calm/job.sh &&
    every() { sed -n "s/.*--save-interval \([0-9]*\).*/\1/p" "runs/$1/job.sh"; } &&
    test "$(every risky)" -gt 0 && test "$(every calm)" -gt "$(every risky)" &&
    unset MACHINE MODEL_SIZE_KEY MPSIZE TRAIN_ITERS OFFLOAD_DEVICE ZERO_STAGE
'
test_expect_success 'a folder with blanks, where a shell starts the job' '
    MACHINE=localhost NGPUS=1 MODEL_SIZE_KEY=TINY SEQ_LEN=32 TRAIN_ITERS=1 mds_launch submit \
        --runs "my runs" --name "a b" -- $tiny && test -e "my runs/a b/done" &&
    test -s "my runs/a b/job.log" &&
    test_must_fail env MACHINE=localhost NGPUS=1 MODEL_SIZE_KEY=TINY SEQ_LEN=32 TRAIN_ITERS=1 \
        mds_launch submit --runs "my runs" --name bad -- $tiny --data-path gone 2>err &&
    grep "the job ended with status 1: see my runs/bad/job.log" err
'
test_expect_success 'a queue, or many nodes, where no batch system is: nothing starts' '
    local="env MACHINE=localhost NGPUS=1 MODEL_SIZE_KEY=TINY SEQ_LEN=32 TRAIN_ITERS=1 mds_launch submit" &&
    test_must_fail $local prod 1 1:00:00 me -- $tiny 2>err &&
    grep "queue prod: localhost has no batch system; give the profile" err &&
    test_must_fail $local --job-nodes 3 -- $tiny 2>err && grep "3 nodes: localhost has 1;" err
'
# A run that leaves after two steps, and after two more: without a batch system, here.
losses() {
    sed -n "s/.*\"event\":\"step\".*\"iteration\":\([0-9]*\),.*\"lm_loss\":\([^,]*\).*/\1 \2/p" "$1"
}
test_expect_success 'a job that left before the end is started again until it is done' '
    export MACHINE=localhost NGPUS=2 MODEL_SIZE_KEY=TINY SEQ_LEN=32 TRAIN_ITERS=6 &&
    mds_launch submit --name whole -- $tiny && test -e runs/whole/done &&
    mds_launch submit --name parts -- $tiny --exit-interval 2 && cat runs/parts/job.log &&
    test -e runs/parts/done && test "$(cat runs/parts/checkpoints/latest)" = iter_0000006 &&
    losses runs/whole/metrics.jsonl >want && losses runs/parts/metrics.jsonl >got &&
    test "$(wc -l <got)" -eq 6 && test_cmp want got &&
    mds_launch report runs >out && grep "^| parts | TINY | 2 | 32 | 6 |" out
'
test_expect_success 'a chain goes on from job to job, and no further than its end' '
    test_must_fail mds_launch submit --name chain --chain 2 -- $tiny --exit-interval 2 2>err && cat err &&
    grep "the run is not finished (status 85).*continue with: sh runs/chain/job.sh" err &&
    test "$(cat runs/chain/checkpoints/latest)" = iter_0000004 && test ! -e runs/chain/done &&
    mds_launch submit --name long --chain 5 -- $tiny --exit-interval 2 &&
    test -e runs/long/done && losses runs/long/metrics.jsonl >got && test_cmp want got
'
test_expect_success 'a run from anothers checkpoint goes on from its own' '
    mds_launch submit --name tuned -- $tiny --exit-interval 4 \
        --load runs/whole/checkpoints --finetune && cat runs/tuned/job.log &&
    test -e runs/tuned/done && test "$(losses runs/tuned/metrics.jsonl | wc -l)" -eq 6
'
test_expect_success 'a job that fails without headway, or is not to be started again, stays ended' '
    test_must_fail mds_launch submit --name failing -- $tiny --exit-interval 2 --data-path none &&
    test "$(grep -c "error: none" runs/failing/job.log)" -eq 1 &&
    test_must_fail mds_launch submit --name once --no-requeue -- $tiny --exit-interval 2 &&
    test "$(cat runs/once/checkpoints/latest)" = iter_0000002 &&
    unset MODEL_SIZE_KEY SEQ_LEN TRAIN_ITERS NGPUS MACHINE
'
test_expect_success 'of a chain that a batch system runs, the last job alone says that more is to do' '
    mkdir ends && printf "#!/bin/sh\nexit 85\n" >ends/mds_launch && : >ends/scontrol && chmod +x ends/* &&
    MACHINE=h200 MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 mds_launch submit --chain 2 --name two \
        batch 2 1:00:00 me && cat runs/two/run.yaml &&
    first=$(sed -n "s/^jobs: .\([0-9]*\), .*/\1/p" runs/two/run.yaml) && test -n "$first" &&
    sed "/^PATH=/d" runs/two/job.sh >two.sh && export PATH="$PWD/ends:$PATH" &&
    SLURM_JOB_ID=$first bash two.sh 2>err && test ! -s err &&
    for id in $((first + 1)) 9$first; do
        test_expect_code 85 env SLURM_JOB_ID=$id bash two.sh 2>err && cat err &&
        grep "the run is not done; go on with: mds_launch continue runs/two" err || return 1
    done && PATH=${PATH#*:}
'
# ended STATUS SCRIPT: the job 1 with a run that ends so, and has saved; commands of Slurm are in called
ended() {
    rm -f called && : >called && mkdir -p runs/lost/checkpoints &&
    printf '#!/bin/sh\necho "iter_$$" >runs/lost/checkpoints/latest\necho "n4 # 2026: rank 1 died" >runs/lost/exclude\nexit %s\n' \
        "$1" >slurm/mds_launch && SLURM_JOB_ID=1 PATH="$PWD/slurm:$PATH" test_expect_code "$1" bash "$2" 2>err
    status=$?
    sed -i "/^scontrol show/d" called
    cat called err
    return $status
}
test_expect_success 'what becomes of a job that ended: by its status, without the nodes that were lost' '
    mkdir slurm && for name in squeue scontrol sbatch scancel; do
        printf "#!/bin/sh\necho $name \"\$@\" >>called\n" >slurm/$name
    done && echo "echo RUNNING" >>slurm/squeue && : >slurm/mds_launch && chmod +x slurm/* &&
    job="env MACHINE=h200 MODEL_SIZE_KEY=GPT13B SEQ_LEN=4096 TRAIN_ITERS=5 mds_launch submit --print --name lost" &&
    $job --exclude "n[1-2]" batch 2 1:00:00 me | sed "/^PATH=/d" >alone.sh && $job --chain 3 batch 2 1:00:00 me | sed "/^PATH=/d" >chain.sh &&
    ended 75 alone.sh && grep "^sbatch --exclude=n\[1-2\],n4 runs/lost/job.sh" called && ! grep requeue called &&
    ended 1 alone.sh && test ! -s called && ended 86 alone.sh && test ! -s called &&
    echo "exit 1" >>slurm/sbatch && ended 75 alone.sh && grep "^scontrol requeue 1" called &&
    cp slurm/scontrol scontrol && echo "echo PreemptTime=2026-11-23T14:47:43" >>slurm/scontrol && ended 86 alone.sh &&
    grep "^scontrol requeue 1" called && ended 86 chain.sh && grep "^scontrol requeue 1" called && cp scontrol slurm/scontrol &&
    echo "jobs: [1, 2, 3]" >runs/lost/run.yaml &&
    ended 75 chain.sh && grep "^scontrol update JobId=2 ExcNodeList=n4" called && grep "JobId=3 ExcNodeList=n4" called &&
    ! grep -e scancel -e JobId=1 called && ended 1 chain.sh && grep "^scancel 2 3$" called &&
    grep "error: the later jobs of the chain would fail in the same way, so they are cancelled: 2 3" err
'
test_expect_success 'SIGTERM to a job: its run saves, and its status is 86' '
    mkdir preempted && printf "#!/bin/sh\ntrap \"exit 85\" USR1\nwhile :; do sleep 0.1; done\n" >preempted/mds_launch &&
    chmod +x preempted/mds_launch && rm -f runs/lost/exclude && : >called &&
    { SLURM_JOB_ID=1 PATH="$PWD/preempted:$PWD/slurm:$PATH" bash alone.sh & } &&
    sleep 0.5 && kill -TERM $! && { wait $!; test $? -eq 86; } && ! grep -v "^scontrol show" called
'
test_expect_success 'a warned job saves' '
    mkdir runs/warned &&
    MACHINE=localhost NGPUS=2 MODEL_SIZE_KEY=TINY SEQ_LEN=32 TRAIN_ITERS=100000 mds_launch \
        submit --print --name warned --no-requeue --walltime 1:00:00 -- $tiny >script &&
    sed "/^PATH=/d" script >job.sh &&
    grep "^timeout .* 3420 mds_launch" job.sh &&
    { sh job.sh >job.log 2>&1 & } &&
    tries=0 &&
    until grep -q "iteration  *5/" job.log || test $tries -eq 300; do
        tries=$((tries + 1)) && sleep 0.2
    done && cat job.log &&
    kill -USR1 $! && { wait $!; status=$?; cat job.log; test $status -eq 85; } && test -s runs/warned/checkpoints/latest
'
test_expect_success 'the same before the limit, of ranks that are none' '
    mkdir stub && cat >stub/mds_launch <<-\EOF && chmod +x stub/mds_launch &&
	#!/bin/sh
	trap "exit 85" USR1
	while :; do sleep 0.1; done
	EOF
    sed "s/ 3420 mds_launch/ 3 mds_launch/" job.sh >short.sh &&
    PATH=$PWD/stub:$PATH test_expect_code 85 sh short.sh
'

test_done
