#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mds_pretrain against PyTorch (reference.py): initial weights, first loss, gradients, and
# 50 steps of AdamW, for the GPT and the Llama shape.  mds makes the GPT's initial weights,
# Python the Llama's.
# shellcheck source=tests/parity/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/parity/setup.sh"

steps='--train-iters 50 --micro-batch-size 2 --global-batch-size 4 --seq-length 64
    --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 5
    --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-8
    --clip-grad 1.0 --norm-epsilon 1e-5'
gpt='--num-layers 3 --hidden-size 96 --num-attention-heads 6'
llama='--num-layers 3 --hidden-size 96 --num-attention-heads 6 --num-key-value-heads 2
    --ffn-hidden-size 160 --normalization rmsnorm --swiglu --disable-bias-linear
    --use-rotary-position-embeddings --untie-embeddings-and-output-weights'

# pretrain NAME RANKS OPTIONS...
pretrain() {
    name=$1 ranks=$2
    shift 2
    # MPIEXEC and steps are lists of words
    # shellcheck disable=SC2086
    $MPIEXEC -n "$ranks" mds_pretrain --data-path t.h5 $steps \
        --trace-dir "$name" --trace-steps 50 --eval-iters 0 --log-interval 50 \
        --threads 1 --metrics-jsonl "$name.jsonl" "$@"
}

# compare NAME OPTIONS...
compare() {
    name=$1
    shift
    # shellcheck disable=SC2086
    results "$python" "$here/reference.py" check "$name" "$name.jsonl" --name "$name" $steps "$@"
}

# Rows of the word embedding in a safetensors file.
padded_vocab() {
    "$python" -c 'import stfile, sys
print(stfile.load(sys.argv[1])["embedding.word.weight"].shape[0])' "$1"
}

same_weights() {
    "$python" -c 'import stfile, sys
a, b = (stfile.load(p) for p in sys.argv[1:])
sys.exit(a.keys() != b.keys() or any(a[n].tobytes() != b[n].tobytes() for n in a))' "$@"
}

mkdir mup mup-experts alibi olmo gpt-row experts shared experts-all sigmoid sigmoid-1 gpt gpt-around relu2 exact gpt-both gpt-qk llama llama-2 llama-qk llama-bias
# the shapes are lists of words
# shellcheck disable=SC2086
{
    result "gpt: mds trains 50 steps" pretrain gpt 1 $gpt
    compare gpt $gpt
    result "squared ReLU: mds trains 50 steps" pretrain relu2 1 $gpt --squared-relu
    compare relu2 $gpt --squared-relu
    result "exact GELU: mds trains 50 steps" pretrain exact 1 $gpt --exact-gelu
    compare exact $gpt --exact-gelu
    result "norms of heads: mds trains 50 steps" pretrain gpt-qk 1 $gpt \
        --qk-layernorm --use-rotary-position-embeddings
    compare gpt-qk $gpt --qk-layernorm --use-rotary-position-embeddings
    alibi='--position-embedding-type alibi'
    result "ALiBi: mds trains 50 steps" pretrain alibi 2 $gpt $alibi --ds-sequence-parallel-size 2
    compare alibi $gpt $alibi
    result "parallel residual: mds trains 50 steps" pretrain gpt-both 1 $gpt --use-parallel-residual
    compare gpt-both $gpt --use-parallel-residual
    result "norms around attention and MLP: mds trains 50 steps" pretrain gpt-around 1 $gpt \
        --norm-placement both --use-parallel-residual
    compare gpt-around $gpt --norm-placement both --use-parallel-residual
    result "llama: PyTorch writes weights" "$python" "$here/reference.py" \
        init llama.safetensors --seq-length 64 $llama \
        --padded-vocab "$(padded_vocab gpt/weights.safetensors)"
    result "llama: mds trains from them" pretrain llama 1 $llama \
        --init-weights llama.safetensors
    result "llama: mds started from the same bits" same_weights \
        llama.safetensors llama/weights.safetensors
    compare llama $llama
    result "llama: 2 ranks with recompute train" pretrain llama-2 2 $llama \
        --init-weights llama.safetensors --recompute-granularity full
    compare llama-2 $llama
    result "llama: norms of heads, on 2 tensor ranks" pretrain llama-qk 2 $llama --qk-layernorm \
        --tensor-model-parallel-size 2 --recompute-granularity full
    compare llama-qk $llama --qk-layernorm
    result "gpt: norms of rows of heads, on 2 tensor ranks" pretrain gpt-row 2 $gpt --qk-layernorm \
        --qk-norm-across-heads --use-rotary-position-embeddings --tensor-model-parallel-size 2
    compare gpt-row $gpt --qk-layernorm --qk-norm-across-heads --use-rotary-position-embeddings
    olmo='--norm-placement after --qk-layernorm --qk-norm-across-heads'
    result "OLMo 2's norms, on 2 tensor ranks" pretrain olmo 2 $llama $olmo \
        --tensor-model-parallel-size 2 --sequence-parallel
    compare olmo $llama $olmo
    result "llama: biases of q, k and v, on 2 tensor ranks" pretrain llama-bias 2 $llama --add-qkv-bias \
        --tensor-model-parallel-size 2
    compare llama-bias $llama --add-qkv-bias
    mup='--use-mup --mup-base-hidden-size 32 --mup-base-head-dim 4 --mup-embedding-mult 1.5'
    result "muP: mds trains 50 steps" pretrain mup 1 $gpt $mup --adam-eps 1e-3
    compare mup $gpt $mup --adam-eps 1e-3
    mup='--use-mup --mup-base-hidden-size 24 --mup-output-mult 0.7 --num-experts 4 --moe-ffn-hidden-size 72'
    result "muP: a llama with experts, on 2 tensor ranks" pretrain mup-experts 2 $llama $mup \
        --tensor-model-parallel-size 2 --sequence-parallel --zero-stage 1
    compare mup-experts $llama $mup
    experts='--num-experts 6 --moe-ffn-hidden-size 72 --moe-router-load-balancing-type seq_aux_loss
        --moe-aux-loss-coeff 0.05 --moe-z-loss-coeff 0.01'
    result "llama: two of six experts, on 2 tensor ranks" pretrain experts 2 $llama $experts \
        --tensor-model-parallel-size 2 --sequence-parallel
    compare experts $llama $experts
    sigmoid="$experts --moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-topk-scaling-factor 2.5
        --moe-router-bias-update-rate 0.01"
    result "llama: two of six experts by sigmoids and biases, on 2 tensor ranks" pretrain sigmoid 2 $llama $sigmoid \
        --tensor-model-parallel-size 2
    compare sigmoid $llama $sigmoid
    one='--disable-bias-linear --num-experts 4 --moe-router-topk 1 --moe-router-score-function sigmoid'
    result "gpt: one of four experts, weighed by its sigmoid" pretrain sigmoid-1 1 $gpt $one
    compare sigmoid-1 $gpt $one
    shared='--num-experts 4 --moe-ffn-hidden-size 72 --moe-shared-expert-intermediate-size 88 --moe-layer-freq [0,1,1]'
    result "llama: a shared expert, and an MLP in the first block, on 2 tensor ranks" pretrain shared 2 $llama $shared \
        --tensor-model-parallel-size 2 --sequence-parallel
    compare shared $llama $shared
    result "gpt: one of four experts, weighed by all" pretrain experts-all 1 $gpt --disable-bias-linear \
        --num-experts 4 --moe-router-topk 1 --moe-router-pre-softmax
    compare experts-all $gpt --disable-bias-linear --num-experts 4 --moe-router-topk 1 --moe-router-pre-softmax
}
finish
