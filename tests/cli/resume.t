#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='a checkpoint of one layout, resumed by others'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --train-iters 6 --global-batch-size 8 --lr 2e-3 --log-interval 1 --eval-iters 0
    --threads 1 --data-path t.h5 --hidden-dropout 0.1'
# losses NAME RANKS OPTIONS...: "iteration loss" a line in NAME.  A run that saved and left
# before its last iteration ends with a status of its own.
losses() {
    name=$1 n=$2
    shift 2
    rm -f "$name.jsonl" # a run that goes on would append
    # shellcheck disable=SC2086  # lists of words
    timeout 60 $MPIEXEC -n "$n" mds_pretrain $small "$@" --metrics-jsonl "$name.jsonl" \
        </dev/null >"$name.out" 2>&1
    status=$?
    if test $status -ne 0 && ! grep "(ended by exit interval)" "$name.out"; then
        cat "$name.out"
        return 1
    fi
    sed -n '/"step"/s/.*"iteration":\([0-9]*\),.*"lm_loss":\([^,]*\),.*/\1 \2/p' \
        "$name.jsonl" >"$name"
}
# goes_on LIMIT RANKS OPTIONS...: iterations 4 to 6 are those of the run that was not interrupted
goes_on() {
    limit=$1
    shift
    losses resumed "$@" --load saved && tail -n 3 whole | paste -d ' ' - resumed | awk -v limit="$limit" '
        { d = $2 - $4; if (d < 0) d = -d; if (d > limit * $2 || $1 != $3) bad = 1; n++ }
        END { exit bad || n != 3 }'
}

# resumes LIMIT TYPE...: losses differ by at most LIMIT between layouts
resumes() {
    limit=$1
    shift
    rm -rf saved again
    test_expect_success "a run, and one that saves and stops in the middle: $*" "
        losses whole 1 $* && test \$(wc -l <whole) -eq 6 &&
        losses half 4 $* --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
            --micro-batch-size 2 --save saved --save-interval 3 --exit-interval 3 &&
        test -e saved/latest && ls saved/iter_0000003 && mds_ckpt verify saved
    "
    while read -r n options; do
        test_expect_success "goes on with $n ranks: $* $options" "goes_on $limit $n $* $options"
    done <<-'END'
	1
	2 --zero-stage 3
	2 --ds-sequence-parallel-size 2 --zero-stage 1
	4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 2
	4 --context-parallel-size 2 --zero-stage 2 --offload-device cpu
	END
    test_expect_success "the same layout: the same bits: $*" "
        losses a 2 $* &&
        losses c 2 $* --save again --save-interval 3 --exit-interval 3 &&
        losses d 2 $* --load again && tail -n 3 a >want && test_cmp want d
    "
}
# fp16 skips its first two steps: overflows lower its loss scale.
resumes 1e-3 --fp16 --initial-loss-scale 16e6 --hysteresis 1
resumes 1e-5 --dtype fp32
resumes 1e-5 --optimizer muon
test_expect_success 'nothing to load, and a model of another shape' '
    test_expect_code 1 mds_pretrain $small --load nowhere 2>err && grep "error: .*nowhere" err &&
    test_expect_code 1 mds_pretrain $small --hidden-size 64 --load saved 2>err &&
    test "$(grep -c "error:" err)" -eq 1
'

held_out() {
    sed -n 's/^done: .*\(validation loss [0-9.]*, test loss [0-9.]*\).*/\1/p' "$1"
}
# The folder, also as --save, the records of the run and its place in them stay as they are.
test_expect_success 'evaluation alone: the same losses in any layout, and nothing is changed' '
    held="--split 50,25,25 --eval-iters 3" &&
    losses run 1 $held --save run.d --load run.d &&
    held_out run.out >want && test "$(wc -l <want)" -eq 1 &&
    cp -R run.d kept && cp run.jsonl steps &&
    while read -r n options; do
        $MPIEXEC -n $n mds_pretrain $small $held --skip-train --save run.d --load run.d \
            --async-save --metrics-jsonl run.jsonl $options </dev/null >out 2>&1 &&
        grep "evaluating iteration 6; nothing is trained or saved" out &&
        grep "^done: iteration 6 evaluated" out && ! grep "was saved with" out &&
        held_out out >got && test_cmp want got || return 1
    done <<-END &&
	1 --train-iters 3 --global-batch-size 4 --eval-iters 6
	2 --zero-stage 3 --recompute-granularity full
	4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 2
	4 --ds-sequence-parallel-size 2 --context-parallel-size 2 --zero-stage 2 --offload-device cpu
	END
    diff -r run.d kept && head -n "$(wc -l <steps)" run.jsonl | test_cmp steps - &&
    test "$(grep -c "\"reason\":\"evaluation\"" run.jsonl)" -eq 4
'
test_expect_success 'evaluation alone: other data, all of it, and what cannot be evaluated' '
    mds_pretrain $small --eval-only --load saved --split 0,1,0 --eval-iters 1e9 >out &&
    grep "validation loss at iteration 3" out && ! grep "test loss" out &&
    test_must_fail mds_pretrain $small --eval-only --load saved --split 1,0,0 --eval-iters 1 2>err &&
    grep "error: .*--split 1,0,0 leaves neither" err &&
    test_must_fail mds_pretrain $small --eval-only --export-weights w --trace-dir t --profile 2>err &&
    test "$(grep -c "error: .*--skip-train" err)" -eq 5
'

test_done
