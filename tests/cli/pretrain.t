#!/bin/sh
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_pretrain: runs, stops, and what it says when it cannot'

if [ -z "$SHARNESS" ]; then
    echo "1..0 # SKIP sharness is not installed"
    exit 0
fi
SHARNESS_TEST_DIRECTORY=${builddir:?run by make check, or by hand after: . tests/env.sh}/tests/cli
HARNESS_ACTIVE=1
mkdir -p "$SHARNESS_TEST_DIRECTORY"
# shellcheck disable=SC1090
. "$SHARNESS"

mds_data make --tokenizer codon --output tokens.h5 \
    "${srcdir:?}/tests/data/lambda.fna.gz" >make.out 2>&1 || cat make.out

small='--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32
    --train-iters 6 --global-batch-size 4 --lr 1e-3 --log-interval 2 --eval-iters 0
    --threads 1 --data-path tokens.h5'
# pretrain OPTIONS...: a small run
pretrain() {
    # shellcheck disable=SC2086  # a list of words
    mds_pretrain $small "$@"
}
# ranks N OPTIONS...: the same on N ranks
ranks() {
    n=$1
    shift
    # shellcheck disable=SC2086
    $MPIEXEC -n "$n" mds_pretrain $small "$@"
}
# fails WORDS COMMAND...: exits 1, says WORDS on standard error, in one error line
fails() {
    words=$1
    shift
    test_expect_code 1 "$@" >out 2>err &&
        test "$(grep -c 'error:' err)" -eq 1 &&
        if ! grep 'error:' err | grep -F -e "$words"; then
            cat err
            false
        fi
}
# Wait for a background run (its output in a file) to reach iteration 3.
reached_three() {
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        grep -q "iteration  *3/" "$1" 2>/dev/null && return 0
        sleep 0.5
    done
    cat "$1"
    return 1
}
# Ranks of the run that writes to this file of ours: other runs may be under way.
pids_of() {
    for pid in $(pgrep -x mds_pretrain); do
        tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q -F -e "$1" && echo "$pid"
    done
}

test_expect_success 'a run trains, evaluates and reports' '
    pretrain --eval-iters 2 --eval-interval 4 --metrics-jsonl run.jsonl \
        --tensorboard-dir tb --export-weights w.safetensors >out 2>err &&
    grep -E "^ iteration +6/ +6 \| consumed samples: +24 \| consumed tokens: +768 \|" out &&
    grep "lm loss: [0-9.]*E+00 | grad norm:" out &&
    grep "validation loss at iteration 4 " out &&
    grep "unigram entropy" out &&
    grep "activations" out &&
    test "$(grep -c "\"event\":\"step\"" run.jsonl)" -eq 6 &&
    test -s w.safetensors &&
    ls tb/events.out.tfevents.* &&
    ! ls ./*.partial
'
test_expect_success 'exported weights start another run where the first ended' '
    pretrain --lr 0 --train-iters 1 --init-weights w.safetensors --eval-iters 2 >out2 2>&1 &&
    last=$(sed -n "s/.*validation loss at iteration 6 | lm loss value: \([^ ]*\) .*/\1/p" out) &&
    test -n "$last" &&
    grep "validation loss at iteration 1 | lm loss value: $last" out2
'
test_expect_success 'leaves after --exit-interval' '
    pretrain --exit-interval 4 >out 2>&1 &&
    grep "iteration 4 of 6" out && ! grep "iteration  *6/" out
'
test_expect_success 'leaves after --exit-duration-in-mins' '
    pretrain --train-iters 1000000 --exit-duration-in-mins 1s --log-interval 100000 >out 2>&1 &&
    grep -i "duration" out
'
test_expect_success 'leaves in order at a signal when asked to, saving weights' '
    rm -f w2.safetensors &&
    { ranks 2 --train-iters 1000000 --log-interval 1 --exit-signal-handler \
        --export-weights "$PWD/w2.safetensors" >sig.out 2>&1 & } &&
    job=$! &&
    reached_three sig.out &&
    kill -USR1 $(pids_of "$PWD/w2.safetensors") &&
    wait $job && grep -i "signal" sig.out && test -s w2.safetensors
'
test_expect_success 'prints help, version and configuration without MPI or data' '
    mds_pretrain --help >out && grep -e "--seq-length" out &&
    mds_pretrain --version >out && grep "mds_pretrain" out &&
    MODEL_SIZE_KEY=GPT13B mds_pretrain --show-config >out &&
    grep "layers: 40 " out && grep "hidden: 5120 " out && grep "heads: 64 " out &&
    grep "models.yaml:[0-9]* (GPT13B)" out && grep "12,853,626,880" out
'
test_expect_success 'a file that --show-config printed gives the same run' '
    pretrain --show-config >run.yaml &&
    mds_pretrain --config run.yaml --metrics-jsonl a.jsonl >out 2>&1 &&
    pretrain --metrics-jsonl b.jsonl >out 2>&1 &&
    sed -n "s/.*\"lm_loss\":\([^,]*\),.*/\1/p" a.jsonl >a && test -s a &&
    sed -n "s/.*\"lm_loss\":\([^,]*\),.*/\1/p" b.jsonl >b && test_cmp a b
'

# ---- what is wrong, where, and what to do ----

test_expect_success 'an unknown option, variable or key is named with its neighbour' '
    fails "--seq-length" pretrain --seq-lenght 64 &&
    fails "MDS_LOSS_TILE" env MDS_LOSS_TILES=4 mds_pretrain $small &&
    printf "model:\n  layerz: 4\n" >bad.yaml &&
    fails "bad.yaml:2" pretrain --config bad.yaml &&
    grep "layers" err
'
test_expect_success 'all faults are reported at once' '
    test_expect_code 1 pretrain --seq-lenght 64 --lr fast 2>err &&
    test "$(grep -c "error:" err)" -eq 2
'
test_expect_success 'one line also from several ranks' '
    test_expect_code 1 ranks 3 --hidden-sise 64 >out 2>err &&
    test "$(cat out err | grep -c "did you mean")" -eq 1
'
test_expect_success 'heads that do not divide hidden' '
    fails "heads" pretrain --num-attention-heads 5
'
test_expect_success 'a batch that ranks cannot share' '
    test_expect_code 1 ranks 3 2>err && grep "global" err
'
test_expect_success 'a sequence longer than the data' '
    fails "tokens.h5" pretrain --seq-length 20000 &&
    grep -e "--seq-length" err
'
test_expect_success 'a validation split that is too short' '
    fails "tokens.h5" pretrain --split 9990,9,1 --eval-iters 2
'
test_expect_success 'missing data' '
    fails "nowhere.h5" pretrain --data-path nowhere.h5
'
test_expect_success 'foreign and truncated data' '
    echo "not a token file" >foreign.h5 &&
    fails "foreign.h5" pretrain --data-path foreign.h5 &&
    head -c 4000 tokens.h5 >short.h5 &&
    fails "short.h5" pretrain --data-path short.h5 && grep "mds_data" err
'
test_expect_success 'outputs that cannot be written are found before training' '
    touch plain &&
    for option in --metrics-jsonl --export-weights --tensorboard-dir --trace-dir; do
        fails "plain/x" pretrain $option plain/x &&
        ! grep "iteration  *2/" out || return 1
    done
'
test_expect_success 'weights of another shape' '
    fails "w.safetensors" pretrain --hidden-size 48 --init-weights w.safetensors
'
test_expect_success 'a model that does not fit is refused with a table and advice' '
    fails "memory" env MODEL_SIZE_KEY=GPT1T mds_pretrain --data-path tokens.h5 \
        --seq-length 1024 --train-iters 1 --eval-iters 0 &&
    grep "optimizer" err && grep -e "--recompute-granularity full" err
'
test_expect_success 'a run that diverges stops and says so' '
    fails "diverged" pretrain --lr 1000 --weight-decay 1 \
        --lr-decay-style constant --train-iters 60
'
test_expect_success 'options of later versions are refused with a reason' '
    fails "--tensor-model-parallel-size" ranks 2 --tensor-model-parallel-size 2 &&
    fails "--bf16" pretrain --bf16
'
test_expect_success 'a rank that dies in the middle ends the job in seconds' '
    { timeout 60 $MPIEXEC -n 2 mds_pretrain $small --train-iters 1000000 \
        --log-interval 1 --metrics-jsonl "$PWD/die.jsonl" >die.out 2>&1
        echo $? >status; } &
    reached_three die.out &&
    kill -KILL "$(pids_of "$PWD/die.jsonl" | tail -n 1)" &&
    before=$(date +%s) && wait && after=$(date +%s) &&
    test $((after - before)) -lt 15 &&
    test "$(cat status)" -ne 0 && test "$(cat status)" -ne 124
'

test_done
