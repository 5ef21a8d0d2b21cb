#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='steps that are not finite: skipped, stopped at, rolled back'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

# A text with one Z, and weights in which the vector of Z has a NaN: the batch with it, the
# seventh, cannot be computed, all others can.
awk 'BEGIN { for (i = 0; i < 1600; i++) printf "%c", i == 800 ? 90 : 97 + (i * i + 7 * i) % 19 }' >text
mds_data make --tokenizer bytes --output t.h5 text
small='--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
    --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1 --seed 24
    --untie-embeddings-and-output-weights --data-path t.h5'
# pretrain RANKS OPTIONS...: what it printed is in out, its steps' losses in losses
pretrain() {
    n=$1
    shift
    # shellcheck disable=SC2086  # lists of words
    timeout 60 $MPIEXEC -n "$n" mds_pretrain $small "$@" --metrics-jsonl out.jsonl \
        </dev/null >out 2>&1
    status=$?
    sed -n '/"step"/s/.*"iteration":\([0-9]*\),.*"lm_loss":\([^,]*\),.*"skipped":\([01]\),.*/\1 \2 \3/p' \
        out.jsonl >losses
    return $status
}
# spoil FILE: the vector of Z, in safetensors
spoil() {
    header=$(od -An -tu8 -N 8 "$1" | tr -d ' ')
    first=$(head -c $((8 + header)) "$1" | tr '{' '\n' |
        sed -n 's/.*"shape":\[[0-9]*,32\],"data_offsets":\[\([0-9]*\),.*/\1/p' | head -n 1)
    printf '\000\000\300\177' |
        dd of="$1" bs=1 seek=$((8 + header + first + 90 * 32 * 4)) conv=notrunc 2>/dev/null
}
# agrees NAME: the losses are those of one rank, a skipped one is null everywhere
agrees() {
    paste -d ' ' "$1" losses | awk '
        { d = $2 - $5; if (d < 0) d = -d
          if (NF != 6 || $1 != $4 || $3 != $6 || d > 1e-5 * $2) bad = 1
          if (($2 == "null") != ($5 == "null") || ($2 == "null") != ($3 == 1)) bad = 1 }
        END { exit bad || NR == 0 }'
}

test_expect_success 'weights that make one batch NaN' '
    pretrain 1 --train-iters 1 --lr 0 --export-weights w && spoil w &&
    test_must_fail pretrain 1 --train-iters 10 --init-weights w &&
    grep "error: iteration 7: loss nan, gradient norm nan: the run has diverged; lower --lr" out
'
test_expect_success 'skip: the update is left out, the run goes on' '
    pretrain 1 --train-iters 10 --init-weights w --on-nonfinite skip &&
    cp losses skip && test "$(grep -c "null 1$" skip)" -eq 1 && grep "^7 null 1" skip &&
    test "$(wc -l <skip)" -eq 10 && grep "warn: iteration 7: .* the update is skipped" out &&
    grep "\"event\":\"nonfinite\",.*\"iteration\":7,.*\"action\":\"skip\"" out.jsonl &&
    grep " iteration  *7/.* lm loss: NAN | grad norm: nan | .* skipped iterations:   0 | number of nan iterations:   1 |" out
'
# A checkpoint is good once a step from it was finite: that of iteration 6 is not yet.
test_expect_success 'rollback: to the last checkpoint with a finite step after it, on with later samples' '
    pretrain 1 --train-iters 10 --init-weights w --on-nonfinite rollback --save one --save-interval 2 --events ev.jsonl &&
    grep "\"event\":\"rolled_back\",\"iteration\":7,\"to\":4}" ev.jsonl &&
    cp losses back && grep "warn: iteration 7: .* rolled back to iteration 4, continuing with sample 28" out &&
    grep "\"action\":\"rollback\",\"back_to\":4" out.jsonl &&
    test "$(cut -d" " -f1 back | tr "\n" " ")" = "1 2 3 4 5 6 5 6 7 8 9 10 " &&
    grep "\"iteration\":5,\"consumed_samples\":32," out.jsonl &&
    test "$(cat one/good)" = iter_0000008 && test "$(cat one/latest)" = iter_0000010 &&
    pretrain 1 --train-iters 11 --load one && ! grep "a step had" out
'
test_expect_success 'rollback: batches that were given up count as consumed, of a total in samples, too' '
    pretrain 1 --train-samples 40 --init-weights w --on-nonfinite rollback --save samples --save-interval 2 &&
    test "$(cut -d" " -f1 losses | tr "\n" " ")" = "1 2 3 4 5 6 5 6 7 " &&
    grep "done: iteration 7 of 7" out && grep "\"iteration\":5,\"consumed_samples\":32,\"consumed_tokens\":512," out.jsonl &&
    mds_ckpt info samples | grep "^samples: 40$" && mds_ckpt info samples | grep "^tokens: 640$"
'
while read -r n options; do
    test_expect_success "the same on $n ranks: $options" "
        pretrain $n --train-iters 10 --init-weights w --on-nonfinite skip $options &&
        agrees skip && rm -rf many &&
        pretrain $n --train-iters 10 --init-weights w --on-nonfinite rollback --save many \
            --save-interval 2 $options &&
        agrees back && test \"\$(cat many/good)\" = iter_0000008
    "
done <<'END'
2
2 --zero-stage 3
2 --zero-stage 2 --offload-device cpu
4 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 --micro-batch-size 1 --make-vocab-size-divisible-by 64
4 --ds-sequence-parallel-size 2 --context-parallel-size 2 --zero-stage 1 --offload-device nvme --nvme-path .
END
# The loss is not scaled: a lower scale is no help to it, or to weights that are lost.
test_expect_success 'fp16: a loss that is not finite is no overflow of the loss scale' '
    test_must_fail pretrain 1 --fp16 --train-iters 10 --init-weights w &&
    grep "error: iteration 7: loss nan, gradient norm nan: the run has diverged; lower --lr" out &&
    for n in 1 2; do
        pretrain $n --fp16 --initial-loss-scale 4e6 --hysteresis 1 --train-iters 10 \
            --init-weights w --on-nonfinite skip --pipeline-model-parallel-size $n &&
        grep "warn: iteration 7: .* the update is skipped" out &&
        test "$(grep -c "\"event\":\"nonfinite\"" out.jsonl)" -eq 1 &&
        sed -n "s/.*\"loss_scale\":\([^,]*\),.*/\1/p" out.jsonl | uniq -c >scales &&
        cat scales && grep "^ *1 4000000$" scales && grep "^ *[789] " scales || return 1
    done
'
test_expect_success 'fp16: an overflow at a loss scale that cannot be lowered is not finite either' '
    for scale in "--loss-scale 1e12" \
        "--initial-loss-scale 4e12 --min-loss-scale 1e12 --hysteresis 1"; do
        test_must_fail pretrain 2 --fp16 $scale --train-iters 10 --init-weights w &&
        grep "error: iteration [13]: .* at loss scale 1e+12, which cannot be lowered: the run" out &&
        test_must_fail pretrain 1 --fp16 $scale --train-iters 10 --init-weights w \
            --on-nonfinite skip --nonfinite-limit 2 &&
        test "$(grep -c "\"action\":\"skip\"" out.jsonl)" -eq 2 &&
        grep "error: .* cannot be lowered, after as many skipped steps" out || return 1
    done
'
# Which one is known to be good then depends on the disk.
test_expect_success 'rollback waits for the save in the background' '
    pretrain 2 --train-iters 10 --init-weights w --on-nonfinite rollback --save later \
        --save-interval 2 --async-save &&
    grep "warn: iteration 7: .* rolled back to iteration [24], continuing with sample 28" out &&
    sed -n "/warn: iteration 7/,\$ d; /saved later\/iter_0000006/p" out | grep saved &&
    test "$(cat later/latest)" = iter_0000010 && mds_ckpt verify --all later
'
# A chain of jobs, the second of which meets the batch and goes back to where it began.
test_expect_success 'to go back to an exit interval is not to reach it' '
    for n in 1 2; do
        rm -rf chain && for at in 5 10; do
            test_expect_code 85 pretrain $n --train-iters 20 --init-weights w --save chain \
                --load chain --exit-interval 5 --save-interval 100 --on-nonfinite rollback &&
            test "$(cat chain/latest)" = "$(printf iter_%07d $at)" || return 1
        done &&
        grep "warn: iteration 7: .* rolled back to iteration 5, continuing with sample 28" out || return 1
    done
'
# In a text of nothing but Z no batch can be computed.
test_expect_success 'skipping and going back have a limit' '
    awk "BEGIN { for (i = 0; i < 1600; i++) printf \"Z\" }" >text &&
    mds_data make --tokenizer bytes --output z.h5 text &&
    test_must_fail pretrain 2 --train-iters 50 --init-weights w --data-path z.h5 \
        --on-nonfinite skip --nonfinite-limit 3 &&
    test "$(grep -c "\"action\":\"skip\"" out.jsonl)" -eq 3 && test "$(wc -l <losses)" -eq 3 &&
    grep "error: .*, after as many skipped steps as --nonfinite-limit allows: the run has diverged" out &&
    pretrain 2 --train-iters 3 --init-weights w --save limit --save-interval 1 &&
    test_must_fail pretrain 2 --train-iters 50 --load limit --save limit --save-interval 1 \
        --data-path z.h5 --on-nonfinite rollback --nonfinite-limit 2 &&
    test "$(grep -c "\"back_to\":2" out.jsonl)" -eq 2 &&
    grep "error: .*, after as many rollbacks as .*; the last good checkpoint is limit/iter_0000002" out
'
# The batch comes again in the second epoch, long after the first return.
test_expect_success 'returns to other checkpoints have limits of their own' '
    for n in 1 2; do
        rm -rf twice && pretrain $n --train-iters 40 --init-weights w --on-nonfinite rollback \
            --nonfinite-limit 1 --save twice --save-interval 2 &&
        sed -n "s/.*\"back_to\":\([0-9]*\).*/\1/p" out.jsonl >returns && cat returns &&
        test "$(wc -l <returns)" -eq 2 && test "$(uniq returns | wc -l)" -eq 2 || return 1
    done
'
test_expect_success 'the last good checkpoint is not pruned' '
    test "$(cat limit/good)" = iter_0000002 && test "$(cat limit/latest)" = iter_0000003 &&
    mds_ckpt prune --keep-last 1 limit && mds_ckpt verify limit/iter_0000002 &&
    mds_ckpt verify limit/iter_0000003 && test ! -e limit/iter_0000001
'
test_expect_success 'nothing to go back to' '
    test_must_fail pretrain 2 --train-iters 10 --init-weights w --on-nonfinite rollback --save none &&
    grep "error: .*, and there is nothing to roll back to: .*; no checkpoint in none is known" out &&
    test ! -e none/latest &&
    test_must_fail pretrain 1 --on-nonfinite rollback --train-iters 10 &&
    grep "error: .*--on-nonfinite rollback needs checkpoints" out
'
# The folder has a good checkpoint, but of a run before, or newer than the one that this run
# goes on from; then it has one of this run.
test_expect_success 'no way back leads to where the run did not come from' '
    for n in 1 2; do
        rm -rf used && pretrain $n --train-iters 6 --save used --save-interval 2 &&
        test "$(cat used/good)" = iter_0000004 &&
        test_must_fail pretrain $n --train-iters 10 --init-weights w --on-nonfinite rollback \
            --save used --save-interval 100 &&
        grep "error: iteration 7: .*, and there is nothing to roll back to: .*; no checkpoint in used is" out &&
        pretrain $n --train-iters 4 --init-weights w --save used --save-interval 1 &&
        test "$(cat used/good)" = iter_0000003 &&
        test_must_fail pretrain $n --train-iters 10 --load used/iter_0000002 --save used \
            --save-interval 100 --on-nonfinite rollback &&
        grep "error: iteration 7: .*, and there is nothing to roll back to" out &&
        pretrain $n --train-iters 10 --load ./used/../used/iter_0000004 --save used/ \
            --save-interval 100 --on-nonfinite rollback &&
        grep "warn: iteration 7: .* rolled back to iteration 4, continuing with sample 28" out &&
        pretrain $n --train-iters 10 --init-weights w --on-nonfinite rollback --save used \
            --save-interval 5 &&
        grep "warn: iteration 7: .* rolled back to iteration 5, continuing with sample 28" out || return 1
    done
'
# The mark of iteration 4, the last one before the bad batch, cannot be written.
test_expect_success 'a mark that is missing leaves the way to the one before it' '
    for n in 1 2; do
        rm -rf marks && FAULTFS=norename:1 FAULTFS_PATH=marks/good FAULTFS_RANK=0 \
            ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
            LD_PRELOAD=$builddir/tests/ckpt/faultfs.so pretrain $n --train-iters 10 \
            --init-weights w --on-nonfinite rollback --save marks --save-interval 2
        cat out && grep "warn: marks/good.*: Input/output" out &&
        grep "warn: iteration 7: .* rolled back to iteration 2, continuing with sample 28" out || return 1
    done
'
# A text that is soon learnt, but for one place, which comes up in iteration 275.
stands() {
    pretrain "$@" --data-path s.h5 --num-layers 2 --seed 13 --lr-decay-style constant
}
test_expect_success 'a loss spike is logged and recorded' '
    awk "BEGIN { for (i = 0; i < 20000; i++)
        printf \"%c\", (i >= 9000 && i < 9012 ? 70 + i % 5 : i % 7 + 97) }" >text &&
    mds_data make --tokenizer bytes --output s.h5 text &&
    stands 1 --train-iters 100 --save spike &&
    stands 1 --train-iters 300 --load spike --events spike.jsonl && cp out alone &&
    grep "\"event\":\"spike\",\"iteration\":275,\"loss\":[0-9.]*,\"limit\":0[0-9.]*}" spike.jsonl &&
    stands 2 --train-iters 300 --load spike --tensor-model-parallel-size 2 \
        --make-vocab-size-divisible-by 64 &&
    for out in alone out; do
        test "$(grep -c "iteration 275: loss spike: [0-9.]*, mean 0.09" $out)" -eq 2 ||
            return 1 # once more at the end
    done &&
    grep "\"event\":\"loss_spike\",.*\"iteration\":275,\"lm_loss\":[0-9.]*,\"limit\":0" out.jsonl &&
    stands 1 --train-iters 300 --load spike --loss-spike-sigma 0 && ! grep "loss spike" out
'

test_done
