#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='memory: what a dry run says is what a run takes'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64
    --train-iters 2 --global-batch-size 8 --eval-iters 1 --threads 1 --vocab-size 66'
# table FILE: the peaks by purpose
table() {
    sed -n '/^  purpose/,/^  all/s/^  \([a-z]*\) .* \([0-9.]* [KMGT]*i*B\)  *[0-9.]* %$/\1 \2/p' "$1"
}
# agrees RANKS OPTIONS...: rank 0's table of a run and of a dry run
agrees() {
    n=$1
    shift
    # shellcheck disable=SC2086  # lists of words
    mds_pretrain $small "$@" --dry-run --world-size "$n" >dry &&
        timeout 60 $MPIEXEC -n "$n" mds_pretrain $small "$@" --data-path t.h5 >wet 2>&1 ||
        return 1
    table dry >a && table wet >b && test "$(wc -l <a)" -ge 3 && test_cmp a b
}

while read -r n options; do
    test_expect_success "$n ranks: $options" "agrees $n $options"
done <<'END'
1 --micro-batch-size 4
1 --recompute-granularity full --recompute-num-layers 2 --loss-tile 100
1 --recompute-granularity full --recompute-num-layers 2 --sequence-tile 50 --cpu-checkpointing
1 --disable-bias-linear --num-experts 5 --recompute-granularity selective --recompute-modules layernorm mlp_act --bf16
2 --disable-bias-linear --num-experts 5 --moe-aux-loss-coeff 1 --tensor-model-parallel-size 2 --sequence-parallel
2 --disable-bias-linear --num-experts 5 --moe-aux-loss-coeff 1 --context-parallel-size 2 --zero-stage 3
2 --disable-bias-linear --num-experts 5 --moe-aux-loss-coeff 1 --moe-router-load-balancing-type global_aux_loss --moe-per-layer-logging
2 --disable-bias-linear --num-experts 4 --expert-model-parallel-size 2 --zero-stage 1
2 --disable-bias-linear --num-experts 5 --moe-router-score-function sigmoid --moe-router-enable-expert-bias --zero-stage 1
2 --disable-bias-linear --num-experts 4 --moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-aux-loss-coeff 1 --tensor-model-parallel-size 2 --recompute-granularity full --sequence-tile 50
1 --disable-bias-linear --num-experts 4 --moe-shared-expert-intermediate-size 96 --bf16
2 --disable-bias-linear --num-experts 4 --moe-shared-expert-intermediate-size 96 --tensor-model-parallel-size 2
1 --disable-bias-linear --num-experts 4 --moe-layer-freq [0,1,1,1] --recompute-granularity full --sequence-tile 50
1 --disable-bias-linear --num-experts 4 --moe-layer-freq 2 --cpu-offloading-num-layers 2 --micro-batch-size 4
2 --disable-bias-linear --num-experts 4 --moe-layer-freq [0]*1+[1]*3 --pipeline-model-parallel-size 2 --micro-batch-size 1
2 --disable-bias-linear --num-experts 4 --moe-layer-freq [0]*2+[1]*2 --expert-model-parallel-size 2 --zero-stage 3
2 --disable-bias-linear --num-experts 4 --moe-shared-expert-intermediate-size 96 --expert-model-parallel-size 2 --zero-stage 3
4 --disable-bias-linear --num-experts 8 --expert-model-parallel-size 2 --bf16 --zero-stage 3
4 --disable-bias-linear --num-experts 8 --expert-model-parallel-size 2 --recompute-granularity full --tensor-model-parallel-size 2 --sequence-parallel
2 --disable-bias-linear --num-experts 4 --expert-model-parallel-size 2 --optimizer muon --bf16 --zero-stage 2
2 --disable-bias-linear --num-experts 4 --expert-model-parallel-size 2 --context-parallel-size 2 --zero-stage 3
2 --disable-bias-linear --num-experts 4 --expert-model-parallel-size 2 --ds-sequence-parallel-size 2 --recompute-granularity full --sequence-tile 50 --bf16
4 --disable-bias-linear --num-experts 8 --expert-model-parallel-size 4 --ds-sequence-parallel-size 2 --context-parallel-size 2 --zero-stage 1 --bf16
1 --recompute-granularity selective --sequence-tile 50 --attention-head-groups 4 --bf16 --qk-layernorm
1 --cpu-offloading-num-layers 2 --micro-batch-size 4
1 --position-embedding-type alibi --micro-batch-size 4 --bf16
2 --position-embedding-type alibi --context-parallel-size 2 --recompute-granularity full --sequence-tile 50
1 --activation-memory 8 --sequence-tile 50
2 --activation-memory auto --zero-stage 1
2 --recompute-granularity selective --sequence-tile 90 --ds-sequence-parallel-size 2
2 --recompute-granularity full --sequence-tile 90 --ds-sequence-parallel-size 2 --attention-head-groups 2
2 --zero-stage 2 --bf16
2 --zero-stage 1 --bf16 --recompute-granularity selective --recompute-modules layernorm mlp_act
2 --tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity selective --recompute-modules layernorm mlp
2 --tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity selective --tp-comm-chunks 3
2 --tensor-model-parallel-size 2 --tp-comm-chunks 2 --recompute-granularity full --sequence-tile 40 --bf16
4 --ds-sequence-parallel-size 4 --num-key-value-heads 2 --bf16
4 --ds-sequence-parallel-size 4 --num-key-value-heads 1 --bf16 --recompute-granularity selective --sequence-tile 40
4 --ds-sequence-parallel-size 2 --num-key-value-heads 1 --context-parallel-size 2 --zero-stage 3 --recompute-granularity full
4 --ds-sequence-parallel-size 2 --context-parallel-size 2 --zero-stage 3
4 --pipeline-model-parallel-size 2 --micro-batch-size 1 --zero-stage 1
2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 1
2 --pipeline-model-parallel-size 2 --num-layers 9 --cpu-offloading-num-layers 2 --micro-batch-size 1
2 --use-mup --mup-base-hidden-size 16 --mup-embedding-mult 2 --zero-stage 2 --bf16
1 --optimizer muon --bf16
1 --optimizer muon --bf16 --cpu-optimizer
2 --optimizer muon --zero-stage 1
2 --optimizer muon --bf16 --zero-stage 3 --offload-device cpu --offload-param-device cpu
2 --optimizer muon --bf16 --tensor-model-parallel-size 2 --sequence-parallel
4 --optimizer muon --bf16 --tensor-model-parallel-size 2 --zero-stage 2
2 --optimizer muon --bf16 --disable-bias-linear --num-experts 5 --zero-stage 2
END

# Evaluation takes weights and activations: no gradients and no moments.
test_expect_success 'weights to evaluate' '
    mds_pretrain $small --data-path t.h5 --export-weights w.safetensors >o'
while read -r n options; do
    test_expect_success "$n ranks that evaluate: $options" "
        agrees $n --skip-train --init-weights w.safetensors $options &&
        ! grep '^grads\|^optimizer' a && ! grep '  checkpoint ' dry"
done <<'END'
1 --micro-batch-size 4
1 --cpu-optimizer --bf16 --recompute-granularity full --sequence-tile 50
2 --zero-stage 1 --bf16
2 --zero-stage 3 --bf16
4 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 --micro-batch-size 1 --make-vocab-size-divisible-by 64
END
# What docs/long-sequences.md derives, with vectors v of 4096 bytes and A of 16 heads.
# token WORDS... : "bytes a token" of all, on the device and the host, and of a block
token() {
    # shellcheck disable=SC2086  # a list of words
    mds_pretrain --dry-run --bf16 --num-layers 8 --hidden-size 2048 \
        --num-attention-heads 16 --seq-length 65536 --micro-batch-size 1 --global-batch-size 1 \
        --position-embedding-type rope --vocab-size 50257 "$@" >dry &&
        sed -n '/^  bytes a token/,/^$/s/^  all *//p' dry
}
v=4096
kept='--recompute-granularity full --cpu-checkpointing --sequence-tile 4096 --loss-tile 4096'
while read -r all host block host_block options; do
    test_expect_success "a token and block: $options" "
        token $options >line && cat line && set -- \$(cat line) &&
        { test $all = - || test \$1 = $all.0; } && test \$2 = $host.0 &&
        test \$3 = $block.0 && test \$4 = $host_block.0"
done <<END
- 0 $((16 * v + 80)) 0 --recompute-granularity none
- 0 $((8 * v + 80)) 0 --recompute-granularity selective --recompute-modules mlp
- 0 $((6 * v + 80)) 0 --recompute-granularity selective --recompute-modules layernorm mlp
- $((4 * (10 * v + 80))) $((8 * v + 40)) $((5 * v + 40)) --cpu-offloading-num-layers 4
- 0 $((14 * v + 80)) 0 --recompute-granularity selective --recompute-modules layernorm
- 0 $((12 * v + 80)) 0 --recompute-granularity selective --recompute-modules mlp_act
- 0 $((10 * v + 80)) 0 --recompute-granularity selective --recompute-modules layernorm mlp_act
$((24 * v + 88)) 0 $v 0 --recompute-granularity full --loss-tile 256
$((11 * v + 16 + 8 * (2 * v + 64))) 0 $((2 * v + 64)) 0 --recompute-granularity selective --loss-tile 256
- 0 $((v / 4)) 0 --recompute-granularity full --checkpoint-num-layers 4
$((14 * v + 72)) 0 $((v / 4)) 0 --recompute-granularity full --checkpoint-num-layers 4 --sequence-tile 8192
$((8 * v + 72 + 8 * (2 * v + 64))) 0 $((2 * v + 64)) 0 --recompute-granularity selective --sequence-tile 8192 --loss-tile 256
$((8 * v + 72 + 8 * (2 * v + 64))) 0 $((2 * v + 64)) 0 --recompute-granularity full --sequence-tile 8192 --loss-tile 256 --activation-memory attention=8
$((10 * v + 72)) $((8 * v)) 0 $v $kept
$((10 * v + 72 + 4 * (v + 64))) $((8 * v)) $(((v + 64) / 2)) $v $kept --activation-memory attention=4
$((10 * v + 72 + 4 * v)) $((4 * v)) $((v / 2)) $((v / 2)) $kept --activation-memory inputs=4
$((5 * v + v / 2 + 72 + 64 / 4)) $((8 * v)) 0 $v $kept --attention-head-groups 4 --seq-length 512k
$((4 * v + 3 * v / 4 + 72 + 64 / 8)) $((8 * v)) 0 $v $kept --attention-head-groups 8 --seq-length 512k
$((4 * v + 3 * v / 4 + 72 + 64 / 8)) $((8 * v)) 0 $v --activation-memory 7 --seq-length 512k
$((7 * v + 72)) $((8 * v)) 0 $v $kept --swiglu --num-key-value-heads 4
$((10 * v / 4 + 24)) $((2 * v)) 0 $((v / 4)) $kept --world-size 4 --tensor-model-parallel-size 4 --sequence-parallel
$((10 * v + 8)) $((8 * v)) 0 $v $kept --world-size 4 --ds-sequence-parallel-size 4 --seq-length 128k
END
test_expect_success 'a block is not told of where half of the blocks have not half of a kind' '
    for kind in "--cpu-offloading-num-layers " "$kept --activation-memory attention=" \
        "$kept --activation-memory inputs="; do
        token ${kind}3 >line && cat line && test "$(wc -w <line)" -eq 2 &&
        token ${kind}2 >line && test "$(wc -w <line)" -eq 4 || return 1
    done
'
# level GIB: what auto chooses for a GPU with so much memory
level() {
    sed "s/value: 139GiB/value: $1GiB/" "$srcdir/machines/h200.yaml" >m.yaml &&
        mds_pretrain --dry-run --bf16 --model-size-key GPT1_3B --seq-length 16k --zero-stage 1 \
            --cpu-optimizer --activation-memory auto --machine ./m.yaml >dry &&
        sed -n "s/^activation memory: level \([0-9]*\), \(.*\)/\1 \2/p" dry
}
test_expect_success '--activation-memory auto: another level where there is less memory' '
    level 139 >out && level 30 >>out && level 16 >>out &&
    cat >expect <<-\EOF &&
	0 blocks save all activations
	1 --recompute-granularity selective --recompute-modules layernorm,mlp_act
	3 --recompute-granularity selective --loss-tile 4096 --sequence-tile 4096
	EOF
    test_cmp expect out &&
    level 4 && grep "no level fits: the last needs .* of 4.00 GiB by the profile of h200" dry
'
# The example of docs/parallelism.md, "Counted": calls and payload of a tensor group.
counted() {
    mds_pretrain --dry-run --num-layers 8 --hidden-size 64 --num-attention-heads 8 \
        --seq-length 64 --vocab-size 72 --make-vocab-size-divisible-by 8 --eval-iters 0 \
        --world-size 2 --tensor-model-parallel-size 2 --sequence-parallel "$@" >dry &&
        sed -n 's/^  tp  *2  \([a-z_]*\) *\([0-9]*\)  *\([0-9.]* KiB\).*/\1 \2 \3/p' dry
}
test_expect_success 'chunks send what whole messages do; norms are summed once a block' '
    counted >whole && counted --tp-comm-chunks 4 >chunks &&
    printf "%s\n" "all_reduce 9 8.50 KiB" "reduce_scatter 34 544.00 KiB" \
        "all_gather 51 801.50 KiB" >expect && test_cmp expect whole &&
    printf "%s\n" "all_reduce 9 8.50 KiB" "reduce_scatter 136 544.00 KiB" \
        "all_gather 201 801.50 KiB" >expect && test_cmp expect chunks
'
# as_predicted OPTIONS...: within 2 %
as_predicted() {
    mds_pretrain --train-iters 2 --eval-iters 0 --threads 1 --data-path t.h5 "$@" >out &&
        sed -n "s/.*process: peak \([0-9.]*\) MiB, predicted \([0-9.]*\) MiB/\1 \2/p" \
            out >both &&
        awk '{ r = $1 / $2; print r; exit !(r > 0.98 && r < 1.02) }' both
}
test_expect_success 'host memory of the process is as predicted, within 2 %' '
    as_predicted --num-layers 6 --hidden-size 512 --num-attention-heads 8 --seq-length 512 \
        --micro-batch-size 2
'
test_expect_success 'the same with five files, which are read from end to end' '
    mixed= && for i in 1 2 3 4 5; do
        head -c 6000000 /dev/urandom >bytes && mds_data make --tokenizer bytes --output mix$i.h5 bytes &&
            mixed="$mixed 1 mix$i.h5"
    done && rm bytes &&
    as_predicted --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 512 \
        --micro-batch-size 2 --data-path $mixed && rm mix*.h5
'
test_expect_success 'the same with unfused attention, which needs 64 MiB for scores' '
    as_predicted --num-layers 2 --hidden-size 256 --num-attention-heads 1 \
        --seq-length 2048 --no-use-flash-attn &&
    awk "{ exit !(\$2 > 128) }" both
'
# grows OPTIONS...: by as much as predicted, 60 MiB and more, where weights are exported.
# An embedding of 32 MiB for each tensor rank is the largest tensor.
wide='--num-layers 2 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --threads 1
    --micro-batch-size 1 --global-batch-size 2 --make-vocab-size-divisible-by 16384'
grows() {
    for export in "" "--export-weights w.st"; do
        # shellcheck disable=SC2086  # lists of words
        $MPIEXEC -n 2 mds_pretrain $wide --train-iters 2 --eval-iters 0 --data-path t.h5 $export \
            "$@" >out </dev/null || return 1
        sed -n "s/.*process: peak \([0-9.]*\) MiB, predicted \([0-9.]*\) MiB/\1 \2/p" out
    done >both
    cat both
    awk 'NR == 1 { p = $1; q = $2 }
        NR == 2 { r = ($1 - p) / ($2 - q); print r; exit !($2 - q > 60 && r > 0.9 && r < 1.05) }' both
}
for options in "--tensor-model-parallel-size 2" "--zero-stage 1" "--pipeline-model-parallel-size 2"; do
    test_expect_success "whole tensors for --export-weights are in the accounts: $options" "grows $options"
done
test_expect_success 'a dry run has the vocabulary of the data' '
    mds_pretrain $small --dry-run >want && mds_pretrain ${small%--vocab-size*} --dry-run --data-path t.h5 >out 2>err &&
    table want >a && table out >b && test_cmp a b && grep "vocabulary: the 66 words of t.h5" err
'
test_expect_success 'and so they are in dry runs' '
    # shellcheck disable=SC2086
    mds_pretrain $wide --vocab-size 66 --dry-run --export-weights w.st >with &&
    grep "  host memory 64.00 MiB, files 0 B" with &&
    grep "  of host memory 64.00 MiB at most for whole tensors" with
'
test_expect_success 'buffers for reading a checkpoint are in the accounts' '
    mds_pretrain $small --dry-run >without &&
    mds_pretrain $small --dry-run --load ck >with &&
    grep "  host memory 0 B, files 0 B" without && ! grep reading without &&
    grep "  host memory 128.00 MiB, files 0 B" with &&
    grep "  of host memory 128.00 MiB at most for reading a checkpoint" with
'
test_expect_success 'a dry run of ten billion tokens takes no memory for them' '
    (ulimit -v 4000000 && mds_pretrain $small --seq-length 1e10 --micro-batch-size 8 --dry-run >out) &&
    grep "8 sequences of 10000000000 tokens" out
'
test_expect_success 'a trillion parameters on 3072 ranks: under a second and 256 MiB, without MPI' '
    (ulimit -v 262144 && mds_pretrain --dry-run --world-size 3072 --model-size-key GPT1T \
        --tensor-model-parallel-size 8 --pipeline-model-parallel-size 64 --bf16 \
        --sequence-parallel --micro-batch-size 1 --global-batch-size 3072 \
        --recompute-granularity full) >out &&
    grep "pipe  *64  send" out &&
    sed -n "s/simulated in \([0-9.]*\) s/\1/p" out | awk "{ exit !(\$1 < 1) }"
'

test_done
