#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='--show-step: the lists of a block in a dozen settings

UPDATE=1 rewrites tests/cli/steps.golden: read the difference before you commit it.'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

golden=$srcdir/tests/cli/steps.golden
small='--dry-run --show-step --num-layers 2 --hidden-size 2048 --num-attention-heads 16
    --seq-length 2048 --micro-batch-size 1 --global-batch-size 2 --bf16 --eval-iters 0'
# steps OPTIONS...: the lists of a run
steps() {
    # shellcheck disable=SC2086  # a list of words
    mds_pretrain $small "$@" >dry || return 1
    echo "== $*"
    sed -n '/^  [a-z]* of a block[:,]/,/^simulated/p' dry | sed '/^simulated/d; s/ *$//'
}
gated='--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope'
# shellcheck disable=SC2086
all_steps() {
    steps --recompute-granularity none --eval-iters 1 &&
        steps --recompute-granularity selective --recompute-modules layernorm mlp_act &&
        steps --recompute-granularity selective &&
        steps --recompute-granularity full &&
        steps --recompute-granularity full --cpu-checkpointing &&
        steps --recompute-granularity full --checkpoint-num-layers 2 &&
        steps --num-layers 4 --cpu-offloading-num-layers 1 &&
        steps --fp8-format hybrid &&
        steps $gated --fp8-format hybrid --no-fp8-wgrad --recompute-granularity selective &&
        steps --hidden-dropout 0.1 &&
        steps $gated &&
        steps $gated --recompute-granularity full &&
        steps $gated --qk-layernorm &&
        steps $gated --norm-placement after --recompute-granularity selective &&
        steps $gated --num-experts 8 --moe-ffn-hidden-size 4096 &&
        steps $gated --num-experts 8 --recompute-granularity full --world-size 2 --tensor-model-parallel-size 2 \
            --sequence-parallel &&
        steps $gated --num-experts 8 --moe-ffn-hidden-size 4096 --world-size 2 --expert-model-parallel-size 2 &&
        steps $gated --num-experts 8 --moe-ffn-hidden-size 4096 --moe-shared-expert-intermediate-size 2048 \
            --world-size 2 --tensor-model-parallel-size 2 --sequence-parallel &&
        steps $gated --num-experts 4 --moe-layer-freq "([0]*1+[1]*1)" --recompute-granularity full &&
        steps --use-parallel-residual --recompute-granularity selective &&
        steps --world-size 2 --tensor-model-parallel-size 2 &&
        steps --world-size 2 --tensor-model-parallel-size 2 --partition-activations \
            --recompute-granularity full &&
        steps --world-size 2 --tensor-model-parallel-size 2 --sequence-parallel &&
        steps --world-size 2 --tensor-model-parallel-size 2 --sequence-parallel --tp-comm-chunks 2 \
            --recompute-granularity selective --sequence-tile 512 &&
        steps --world-size 2 --ds-sequence-parallel-size 2 --position-embedding-type rope &&
        steps --sequence-tile 512 --recompute-granularity full --eval-iters 1 &&
        steps $gated --sequence-tile 512 --recompute-granularity selective --cpu-checkpointing &&
        steps $gated --sequence-tile 512 --recompute-granularity full --cpu-checkpointing --attention-head-groups 4 &&
        steps $gated --sequence-tile 512 --recompute-granularity full --qk-layernorm --world-size 4 \
            --tensor-model-parallel-size 2 --sequence-parallel --ds-sequence-parallel-size 2
}
test_expect_success 'lists are those of steps.golden' '
    all_steps >steps && { test -z "${UPDATE-}" || cp steps "$golden"; } &&
    test_cmp "$golden" steps
'
test_expect_success '--show-step needs --dry-run' '
    test_must_fail mds_pretrain --show-step 2>err && grep "show-step is for dry runs: add --dry-run" err
'
test_done
