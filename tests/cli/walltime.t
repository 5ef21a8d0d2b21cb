#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2046,SC2086,SC2154  # test bodies are evaluated by sharness, variables too
test_description='no time for an evaluation: it is left to the next job, and a run that is not done never says it is'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

# Whole evaluations take half a minute or more, ten times what the jobs here have.
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%d words of text, and more of them\n", i * 7919 % 10007 }' >text
mds_data make --tokenizer bytes --output t.h5 text
all='--eval-iters 1000000000'

# job OPTIONS...: of two iterations, each with validation; what it printed is in out
job() {
    mds_pretrain --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --global-batch-size 1 --lr 1e-3 \
        --data-path t.h5 --split 9,90,1 --train-iters 2 --eval-interval 1 --log-interval 1 --threads 1 \
        --exit-signal-handler "$@" >out 2>&1 </dev/null
}
# values FILE: of each step and evaluation
values() {
    sed -n 's/.*"event":"\(step\|eval\)",.*"iteration":\([0-9]*\),.*"lm_loss":\([^,}]*\).*/\1 \2 \3/p' "$1"
}
# signalled SIGNAL JOB OPTIONS...: the status of a job that gets it in its first evaluation
signalled() {
    sig=$1
    shift
    : >out
    "$@" &
    pid=$!
    until grep -q "iteration  *1/" out || ! kill -0 $pid; do sleep 0.05; done
    sleep 0.3 && kill -s "$sig" $(pgrep -P $pid -x mds_pretrain || echo $pid)
    wait $pid
}

test_expect_success 'jobs that nothing happens to' '
    job --eval-iters 3 --save whole --metrics-jsonl whole.jsonl && values whole.jsonl >want && cat want &&
    test "$(wc -l <want)" -eq 5
'
test_expect_success 'an evaluation that would not end in time is not begun, or left: the next job begins with it' '
    test_expect_code 85 job $all --exit-duration-in-mins 2s --save a --load a --metrics-jsonl a.jsonl && cat out &&
    grep "info: evaluation at iteration 1 is left to the next job: duration" out && ! grep "\"event\":\"eval\"" a.jsonl &&
    grep "^done: iteration 1 of 2 .*(ended by duration)" out && test "$(cat a/latest)" = iter_0000001 &&
    job --eval-iters 3 --save a --load a --metrics-jsonl a.jsonl && values a.jsonl >got && test_cmp want got &&
    mds_ckpt diff whole a
'
for end in USR1:85 TERM:86; do
    test_expect_success "${end%:*} ends an evaluation; it is saved before, and the next job begins with it" "
        rm -rf b b.jsonl && test_expect_code ${end#*:} signalled ${end%:*} job $all --save b --load b --metrics-jsonl b.jsonl &&
        grep 'evaluation at iteration 1 is left to the next job: signal' out && grep 'ended by signal' out &&
        job --eval-iters 3 --save b --load b --metrics-jsonl b.jsonl && values b.jsonl >got && test_cmp want got
    "
done
test_expect_success 'so does a signal in the last evaluation: the run is done only when that is' '
    test_expect_code 85 signalled USR1 job $all --train-iters 1 --eval-interval 100 --save c --load c && cat out &&
    grep "^done: iteration 1 of 1 .*(ended by signal)" out && test "$(cat c/latest)" = iter_0000001 &&
    test_expect_code 85 job $all --train-iters 1 --eval-interval 100 --save c --load c --exit-interval 1 \
        --exit-duration-in-mins 2s --train-iters 2 && ! grep "lm loss value" out &&
    job --eval-iters 3 --train-iters 2 --eval-interval 100 --save c --load c && grep "nothing to train" out &&
    grep "^done: iteration 2 of 2 .*, validation loss .*, test loss" out && ! grep "ended by" out
'
test_expect_success 'one that takes longer than a whole job is not put off for ever' '
    test_expect_code 85 job $all --exit-duration-in-mins 2s --save d --load d &&
    test_expect_code 85 job $all --train-iters 9 --exit-duration-in-mins 2s --save d --load d && cat out &&
    grep "warn: no evaluation at iteration 1: it would take longer than the whole time of this job" out &&
    test "$(cat d/latest)" = iter_0000002
'
test_expect_success 'a run that leaves early evaluates nothing more, and its weights are its checkpoint' '
    test_expect_code 85 job $all --exit-interval 1 --eval-interval 100 --save e && ! grep "lm loss value" out &&
    test_expect_code 138 signalled USR1 job $all --export-weights w.st && test -s w.st &&
    test_expect_code 85 signalled USR1 job $all --save f --export-weights v.st && test ! -e v.st && grep "warn: v.st: not written" out
'
test_expect_success '--skip-train ends at a signal, too' '
    : >out && { job $all --skip-train --load whole & } && pid=$! &&
    until grep "evaluating iteration" out; do sleep 0.05; done && sleep 0.5 && kill -USR1 $(pgrep -P $pid -x mds_pretrain || echo $pid) &&
    test_expect_code 85 wait $pid && grep "^done: iteration 2 evaluated .*(ended by signal)" out
'
case $($MPIEXEC --version 2>&1) in
*HYDRA*) test_set_prereq HYDRA ;;
esac
# ranks OPTIONS...: two of them
ranks() {
    # shellcheck disable=SC2086
    $MPIEXEC -n 2 mds_pretrain --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --global-batch-size 2 \
        --data-path t.h5 --split 9,90,1 --train-iters 1000000000 --log-interval 1 --threads 1 --exit-signal-handler \
        --save g --load g "$@" >out 2>&1 </dev/null
}
# after SIGNALS OPTIONS...: the status of a launcher that gets them, a second and a half apart
after() {
    sigs=$1
    shift
    rm -rf g && : >out
    ranks "$@" &
    pid=$!
    until grep -q "iteration  *1/" out || ! kill -0 $pid; do sleep 0.05; done
    launcher=$(pgrep -P $pid || echo $pid)
    for sig in $sigs; do
        kill -s "$sig" $launcher 2>/dev/null
        sleep 1.5
    done
    wait $pid
}
# Of MPICH's mpiexec it would else be 0 every other time.
test_expect_success HYDRA 'a launcher that has passed signals on has the status of the ranks' '
    for try in 1 2; do test_expect_code 85 after USR1 --eval-iters 0 || return; done &&
    test_expect_code 86 after TERM --eval-iters 0 &&
    test_expect_code 85 after USR1 $all --eval-interval 1 && test -e g/latest
'
# A step of some seconds: both signals come within it.
test_expect_success HYDRA 'SIGTERM after the warning does not keep the ranks from saving; a second one does' '
    after "USR1 TERM" --eval-iters 0 --global-batch-size 40000
    status=$? && echo "status $status" && cat out && test -e g/latest && { test $status -eq 85 || test $status -eq 86; } &&
    { after "USR1 TERM TERM" --eval-iters 0 --global-batch-size 200000
    status=$?; echo "status $status"; test $status -ne 0; } &&
    case $status in 85 | 86) test -e g/latest ;; *) test ! -e g/latest ;; esac
'
test_expect_success 'nor is a run done that was told to end and saved nothing' '
    for end in "--exit-interval 1" "--exit-duration-in-mins 0.01s"; do
        test_expect_code 1 job --eval-iters 0 $end && cat out && grep "^done: iteration 1 of 2 .*(ended by " out &&
        grep "error: ended by .* and nothing was saved to go on from; give --save" out || return 1
    done &&
    NGPUS=1 test_expect_code 1 mds_launch --launcher-command "$MPIEXEC" -- --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
        --seq-length 8 --global-batch-size 1 --data-path t.h5 --train-iters 2 --eval-iters 0 --exit-interval 1 --save "" >out 2>&1 &&
    grep "error: ended by exit interval" out
'

test_done
