#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2086  # test bodies are evaluated by sharness, variables too; lists of words
test_description='mds_ckpt upcycle: a dense model with its MLPs as experts'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"
gpt='--disable-bias-linear --squared-relu'
llama='--normalization rmsnorm --swiglu --disable-bias-linear --use-rotary-position-embeddings
    --untie-embeddings-and-output-weights'
# pretrain OPTIONS...
pretrain() {
    mds_pretrain --num-layers 3 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --global-batch-size 4 --lr 1e-2 \
        --eval-iters 0 --threads 1 --data-path t.h5 "$@" >out 2>&1 </dev/null || { cat out && return 1; }
}
# validation FOLDER: the loss on held-out data, of 6 digits
validation() {
    mds_pretrain --load "$1" --skip-train --eval-iters 4 --data-path t.h5 --split 8,2,0 --threads 1 --seq-length 32 \
        --global-batch-size 4 --metrics-jsonl eval.jsonl --overwrite >out 2>&1 </dev/null || cat out >&2
    sed -n "s/.*\"event\":\"eval\".*\"lm_loss\":\([^,]*\),.*/\1/p" eval.jsonl | awk "{ printf \"%.5f\n\", \$1 }"
    rm -f eval.jsonl
}
for kind in gpt llama; do
    eval options=\$$kind
    test_expect_success "$kind: the loss is that of the dense model" '
        pretrain $options --train-iters 20 --save $kind && validation $kind >want && grep "^[0-9]" want &&
        mds_ckpt upcycle --experts 4 $kind $kind-4 >out && cat out && mds_ckpt verify $kind-4 &&
        validation $kind-4 >got && test_cmp want got &&
        mds_ckpt upcycle --experts 5 --topk 3 $kind $kind-5 --tensor-model-parallel-size 2 --world-size 4 --zero-stage 2 &&
        test -e $kind-5/iter_0000000/rank_00003.h5 && validation $kind-5 >got && test_cmp want got &&
        mds_ckpt info $kind >dense && mds_ckpt info $kind-4 >info && grep "^vocabulary" dense >want && grep "^vocabulary" info >got &&
        test_cmp want got && grep "^made from: $kind/iter_0000020, its MLPs as 4 experts each" info
    '
done
test_expect_success 'all experts are the MLP, in any layout; the router is that of a new run' '
    mds_ckpt upcycle --experts 5 --topk 3 llama llama-one && mds_ckpt diff --weights llama-one llama-5 &&
    mds_ckpt upcycle --experts 4 llama llama-ep --world-size 4 --expert-model-parallel-size 2 --zero-stage 1 &&
    test -e llama-ep/iter_0000000/rank_00003.h5 && mds_ckpt verify llama-ep && mds_ckpt diff --weights llama-4 llama-ep &&
    test "$(mds_ckpt info --tensors llama-one | grep -c "layer.*experts.*weight")" -eq 45
'
test_expect_success 'it trains, and its experts become different' '
    pretrain --load llama-4 --finetune --train-iters 10 --save trained --moe-aux-loss-coeff 0.01 --metrics-jsonl m.jsonl &&
    grep "experts 4 (2 active)" out && grep "| busiest expert: [1-4]\.[0-9]* |" out && grep "\"expert_entropy\":[01]" m.jsonl &&
    validation trained >now && test "$(cat now)" != "$(cat want)"
'
# refused WORDS OPTIONS...: in one line that has the words, and nothing appears
refused() {
    words=$1
    shift
    test_must_fail mds_ckpt upcycle "$@" 2>err && cat err && test "$(wc -l <err)" -eq 1 && grep -e "$words" err && test ! -e never
}
test_expect_success 'what cannot become experts is refused' '
    pretrain --train-iters 1 --save biased &&
    refused "biased/iter_0000001: its MLPs have biases" --experts 4 biased never &&
    refused "has experts already" --experts 4 llama-4 never &&
    refused "give --experts N" llama never &&
    refused "there are only 2 experts" --experts 2 --topk 3 llama never &&
    refused "a folder for the new one" --experts 2 llama &&
    refused "lr does not concern the layout" --experts 2 llama never --lr 1
'
test_done
