#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2086  # test bodies are evaluated by sharness, variables too; lists of words
test_description='batch sizes that change during a run'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --train-samples 100 --lr 1e-3 --lr-warmup-samples 20 --lr-decay-style cosine
    --hidden-dropout 0.1 --log-interval 1 --eval-interval 5 --eval-iters 1 --split 955,45,0
    --threads 1 --data-path t.h5'
ramp='--global-batch-size 8 --rampup-batch-size 4 2 30'
# steps NAME RANKS OPTIONS...: what each step was, a line each in NAME: iteration, batch,
# samples and tokens so far, learning rate, loss, gradient norm.  A run that saved and left
# before its end ends with a status of its own.
steps() {
    name=$1 n=$2
    shift 2
    rm -f "$name.jsonl"
    timeout 60 $MPIEXEC -n "$n" mds_pretrain $small "$@" --metrics-jsonl "$name.jsonl" \
        </dev/null >"$name.out" 2>&1
    status=$?
    if test $status -ne 0 && ! grep "(ended by exit interval)" "$name.out"; then
        cat "$name.out"
        return 1
    fi
    values='s/.*"iteration":\([0-9]*\),"consumed_samples":\([0-9]*\),"consumed_tokens":\([0-9]*\),'
    values=$values'.*"learning_rate":\([^,]*\),"global_batch_size":\([0-9]*\),"lm_loss":\([^,]*\),'
    values=$values'"grad_norm":\([^,]*\),.*/\1 \5 \2 \3 \4 \6 \7/p'
    sed -n "/\"event\":\"step\"/$values" "$name.jsonl" >"$name"
}
# close WANT GOT: the same steps, to rounding
close() {
    paste -d ' ' "$1" "$2" | awk '
        function differ(a, b) { return (a - b) ^ 2 > (1e-5 * a) ^ 2 }
        { for (i = 1; i < 6; i++) bad += $i != $(i + 7) }
        differ($6, $13) || differ($7, $14) { bad++ }
        END { exit bad || !NR || NF != 14 }'
}
test_expect_success 'a ramp: sizes, samples, tokens, and the length in whole batches' '
    steps ramp 1 --micro-batch-size 2 $ramp &&
    cut -d " " -f 1-4 ramp >got && cat >want <<-"END" && test_cmp want got
	1 4 4 128
	2 4 8 256
	3 4 12 384
	4 4 16 512
	5 6 22 704
	6 6 28 896
	7 6 34 1088
	8 8 42 1344
	9 8 50 1600
	10 8 58 1856
	11 8 66 2112
	12 8 74 2368
	13 8 82 2624
	14 8 90 2880
	15 8 98 3136
	END
'
test_expect_success 'the rate follows samples: half of the warm-up at step 2.5' '
    cut -d " " -f 5 ramp | head -n 4 >got &&
    awk "BEGIN { for (i = 1; i < 5; i++) printf \"%.6g\\n\", 1e-3 * 4 * i / 20 }" >want &&
    awk "{ printf \"%.6g\\n\", \$1 }" got >rounded && test_cmp want rounded
'
test_expect_success 'the same bits as jobs of constant sizes, one resumed from another' '
    rm -rf jobs && : >parts &&
    for job in "4 4" "6 7" "8 100"; do
        steps part 1 --micro-batch-size 2 --global-batch-size ${job% *} --save jobs --load jobs \
            --exit-interval ${job#* } || return 1
        cat part >>parts
    done && test_cmp ramp parts
'
test_expect_success 'the same bits as the schedule in tokens; accumulation varies' '
    steps tokens 1 --micro-batch-size 2 --step-batch-size-schedule "0:4 480:6,0.96K:8" &&
    test_cmp ramp tokens
'
test_expect_success 'a size may fall' '
    steps fall 1 --micro-batch-size 2 --step-batch-size-schedule 0:8 1024:2 --train-samples 37 &&
    cut -d " " -f 2 fall | tr "\n" " " >got && echo "8 8 8 8 2 2 " | tr -d "\n" >want &&
    test_cmp want got
'
# goes_on FROM RANKS OPTIONS...: the steps behind FROM are those of the ramp
goes_on() {
    from=$1
    shift
    rm -rf saved
    steps before 1 --micro-batch-size 2 $ramp --save saved --exit-interval "$from" &&
        steps after "$@" $ramp --load saved &&
        tail -n +$((from + 1)) ramp >want && close want after
}
while read -r from options; do
    test_expect_success "goes on behind step $from in another shape: $options" \
        "goes_on $from $options"
done <<-'END'
	3 2 --micro-batch-size 1 --zero-stage 2
	6 2 --pipeline-model-parallel-size 2 --micro-batch-size 1
	4 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 1
	7 4 --tensor-model-parallel-size 2 --micro-batch-size 1 --zero-stage 1
END
test_expect_success 'events and lines say the new size, and from when' '
    steps events 1 $ramp --events ev.jsonl &&
    grep "\"started\"" ev.jsonl | grep "\"global_batch_size\":4,.*\"last_iteration\":15," &&
    grep -c "\"batch\"" ev.jsonl >got && echo 2 >want && test_cmp want got &&
    grep "\"event\":\"batch\",\"iteration\":5,\"global_batch_size\":6}" ev.jsonl &&
    grep "\"event\":\"batch\",\"iteration\":8,\"global_batch_size\":8}" ev.jsonl &&
    grep "from iteration 5 on a step has 6 sequences; so far 4" events.out &&
    grep "batch 4 (micro 1, later up to 8), 128 tokens" events.out
'
test_expect_success 'another schedule in the next job is said' '
    rm -rf saved &&
    steps before 1 $ramp --save saved --exit-interval 6 &&
    steps after 1 --global-batch-size 8 --rampup-batch-size 2 2 60 --load saved &&
    grep "rampup-batch-size 4 2 30 (now 2 2 60)" after.out &&
    cut -d " " -f 2 after | head -n 2 | tr "\n" " " >got && printf "4 4 " >want &&
    test_cmp want got
'
test_expect_success 'a dry run: the largest step, all sizes, all steps' '
    mds_pretrain --dry-run $small --micro-batch-size 2 $ramp >out &&
    grep "  4 micro-batches of 2 sequences" out &&
    grep "the largest of steps of 4 sequences, 6 from sample 15 on, 8 from sample 30 on" out &&
    grep "length 100 samples, 0 of them done; 15 steps left" out &&
    mds_pretrain --dry-run $small --micro-batch-size 2 --global-batch-size 8 >constant &&
    grep "^  all " out >got && grep "^  all " constant >want && test_cmp want got
'
# refuses WORDS OPTIONS...: one fault, which has the words
refuses() {
    words=$1
    shift
    test_must_fail mds_pretrain --dry-run $small --world-size 2 "$@" 2>err
    cat err
    test "$(grep -c "error: " err)" -eq 1 && grep -e "$words" err
}
test_expect_success 'faults, each a line' '
    refuses "the batch of 6 from sample 15 on is not a multiple of micro-batch 2 x 2 data-parallel ranks = 4; the nearest are 4 and 8" \
        --micro-batch-size 2 $ramp &&
    refuses "the batch of 2 from token 0 on is not a multiple of .* = 4; the smallest is 4" \
        --micro-batch-size 2 --step-batch-size-schedule 0:2 1k:8 &&
    refuses "begins with 16 sequences, more than --global-batch-size 8" \
        --global-batch-size 8 --rampup-batch-size 16 2 30 &&
    refuses "from 2 by 4 it does not reach --global-batch-size 8; the nearest are 6 and 10" \
        --global-batch-size 8 --rampup-batch-size 2 4 30 &&
    refuses "needs --global-batch-size" --rampup-batch-size 2 2 30 &&
    refuses "must be START INCREMENT SAMPLES" --global-batch-size 8 --rampup-batch-size 2 2 &&
    refuses "must be START INCREMENT SAMPLES" --global-batch-size 8 --rampup-batch-size 2 0 9 &&
    refuses "7999 batch sizes are more than 512" \
        --global-batch-size 16000 --rampup-batch-size 4 2 30 &&
    refuses "both set" $ramp --step-batch-size-schedule 0:4 &&
    refuses "says all sizes; leave it out" --global-batch-size 8 --step-batch-size-schedule 0:4 &&
    refuses "give --micro-batch-size" --gradient-accumulation-steps 2 --step-batch-size-schedule 0:4 &&
    refuses ".4. is not TOKENS:SEQUENCES" --step-batch-size-schedule 0:4 4 &&
    refuses ".1X:8. is not TOKENS:SEQUENCES" --step-batch-size-schedule 0:4 1X:8 &&
    refuses ".9:0. is not TOKENS:SEQUENCES" --step-batch-size-schedule 0:4 9:0 &&
    refuses "begins at 5 tokens" --step-batch-size-schedule 5:4 &&
    refuses "4000 tokens come after 9000" --step-batch-size-schedule 0:4 9k:8 4k:2 &&
    refuses "interleaving needs = 4; the nearest are 4 and 8" $ramp --world-size 4 \
        --micro-batch-size 1 --pipeline-model-parallel-size 2 \
        --num-layers-per-virtual-pipeline-stage 1 &&
    refuses "lr-warmup-iters: where the batch size changes, it has to be in samples" \
        $ramp --lr-warmup-iters 5 --lr-warmup-samples 0 &&
    refuses "one step can be traced" $ramp --trace-dir x --trace-steps 2
'
test_done
