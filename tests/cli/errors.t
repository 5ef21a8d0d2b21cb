#!/bin/sh
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_pretrain: what it says about bad input, and how a run dies'

if [ -z "$SHARNESS" ]; then
    echo "1..0 # SKIP sharness is not installed"
    exit 0
fi
# The scratch folder goes to the build tree, and no test-results beside it.
SHARNESS_TEST_DIRECTORY=${builddir:?run by make check, or by hand after: . tests/env.sh}/tests/cli
HARNESS_ACTIVE=1
mkdir -p "$SHARNESS_TEST_DIRECTORY"
# shellcheck disable=SC1090
. "$SHARNESS"

OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS OPENBLAS_NUM_THREADS

# pretrain ARGS...: two steps of a small model on a genome, unless ARGS say otherwise
pretrain() {
    mds_pretrain --data-path t.h5 --num-layers 1 --hidden-size 32 \
        --num-attention-heads 4 --seq-length 32 --global-batch-size 6 --train-iters 2 \
        --eval-iters 0 "$@"
}

# fails WORDS COMMAND...: ends with 1 and one line that has the words, after no more than
# information, within seconds
fails() {
    words=$1
    shift
    test_expect_code 1 "$@" >out 2>err
    status=$?
    cat err
    test $status -eq 0 && test ! -s out &&
        test "$(grep -c "^mds: .*error: " err)" -eq 1 &&
        ! grep "^mds: " err | grep -v "error: " | grep -v "info: " &&
        grep "error: " err | grep -q -F -e "$words"
}

# ranks N ARGS...: pretrain on N ranks, each of which leaves its process id in pids/
# shellcheck disable=SC2086  # MPIEXEC is a list of words
ranks() {
    n=$1
    shift
    rm -rf pids && mkdir pids &&
        timeout 60 $MPIEXEC -n "$n" sh -c 'echo >pids/$$ && exec "$@"' sh \
            mds_pretrain --data-path t.h5 --num-layers 1 --hidden-size 32 \
            --num-attention-heads 4 --seq-length 32 --global-batch-size 6 \
            --eval-iters 0 "$@" </dev/null
}

test_expect_success 'a genome, and a run that goes well' '
    mds_data make --tokenizer codon --output t.h5 "${srcdir:?}/tests/data/lambda.fna.gz" &&
    pretrain >out 2>err &&
    ! grep "error\|warn" err
'

test_expect_success 'data that are not there, cut short, or something else' '
    fails "gone.h5: No such file or directory" pretrain --data-path gone.h5 &&
    head -c 5000 t.h5 >cut.h5 &&
    fails "cut.h5: not an HDF5 file (or truncated" pretrain --data-path cut.h5 &&
    grep "make it again with mds_data make" err &&
    echo hello >text.h5 &&
    fails "text.h5: not an HDF5 file" pretrain --data-path text.h5 &&
    fails "lambda.fna.gz: not tokens yet: make them with mds_data make" \
        pretrain --data-path "$srcdir/tests/data/lambda.fna.gz"
'

test_expect_success 'HDF5 of somebody else' '
    LC_ALL=C sed "s/format/farmat/g" t.h5 >foreign.h5 &&
    fails "foreign.h5: HDF5, but not a token file" pretrain --data-path foreign.h5 &&
    grep "make one with mds_data make" err
'

test_expect_success 'a sequence longer than the data' '
    fails "t.h5: 16168 tokens in all, but a window takes 20001" \
        pretrain --seq-length 20000 &&
    longest=$(sed -n "s/.*use --seq-length \([0-9]*\) or less/\1/p" err) &&
    fails "t.h5: --split" pretrain --seq-length $((longest + 1)) &&
    pretrain --seq-length "$longest" --num-attention-heads 1 --hidden-size 8 \
        --micro-batch-size 1 --global-batch-size 1 --train-iters 1
'

test_expect_success 'shapes and sizes that do not fit' '
    fails "does not divide --hidden-size 32; change one" pretrain --num-attention-heads 5 &&
    fails "is no multiple of micro-batch 4 x 1 data-parallel ranks = 4; the nearest are 4 and 8" \
        pretrain --micro-batch-size 4
'

test_expect_success 'a model larger than the machine' '
    fails "memory: each rank needs" pretrain --hidden-size 16384 --num-layers 96
'

test_expect_success 'names that are nearly right' '
    fails "unknown option --hiden-size; did you mean --hidden-size?" \
        pretrain --hiden-size 64 &&
    printf "model:\n  layer: 2\n" >c.yaml &&
    fails "c.yaml:2: unknown key model.layer; did you mean model.layers?" \
        pretrain --config c.yaml &&
    fails "did you mean GPT13B?" env MODEL_SIZE_KEY=GPT13 mds_pretrain --show-config
'

test_expect_success 'places where nothing can be written' '
    fails "no/w.safetensors: cannot be written: No such file" \
        pretrain --export-weights no/w.safetensors &&
    fails "no/log.jsonl: cannot be written: No such file" \
        pretrain --metrics-jsonl no/log.jsonl &&
    fails "t.h5/tb: " pretrain --tensorboard-dir t.h5/tb
'

test_expect_success 'weights that are none' '
    fails "t.h5: not a safetensors file" pretrain --init-weights t.h5
'

test -w /dev/full && test_set_prereq DEV_FULL
test_expect_success DEV_FULL 'a full disk under standard output' '
    test_expect_code 1 pretrain >/dev/full
'

test_expect_success 'on several ranks one of them speaks' '
    fails "gone.h5: No such file" ranks 3 --train-iters 2 --data-path gone.h5 &&
    fails "2 x 3 data-parallel ranks = 6; the nearest are 6 and 12" \
        ranks 3 --train-iters 2 --micro-batch-size 2 --global-batch-size 8
'

# Steps until killed.  The status is in `status`.
start_long_run() {
    rm -f log.jsonl status
    (
        ranks 3 --train-iters 100000000 --metrics-jsonl log.jsonl --log-interval 1 \
            >out 2>err
        echo $? >status
    ) &
    for i in 1 2 3 4 5 6 7 8 9 10; do
        ! grep -q iteration log.jsonl 2>/dev/null || return 0
        sleep 1
    done
    return 1
}

# running: ranks of the last run that are alive.  Zombies are not; they are what containers
# without an init keep.
running() {
    for f in pids/*; do
        awk '$1 == "State:" && $2 !~ /^[ZX]/ { print FILENAME }' "/proc/${f#pids/}/status"
    done 2>/dev/null
}

test_expect_success 'a rank that is killed in mid-step takes the run with it' '
    start_long_run &&
    victim=$(find pids -type f | sort | sed -n "2s,.*/,,p") &&
    kill -9 "$victim" &&
    for i in 1 2 3 4 5 6 7 8 9 10; do
        test ! -s status || break
        sleep 1
    done &&
    wait &&
    cat status && test "$(cat status)" -ne 0 && test "$(cat status)" -ne 124 &&
    sleep 1 && test -z "$(running)"
'

test_done
