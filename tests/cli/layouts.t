#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='the same run on any number of ranks and in any micro-batches'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output tokens.h5 "$srcdir/tests/data/lambda.fna.gz"

gpt='--num-layers 2 --hidden-size 48 --num-attention-heads 4'
llama="$gpt --num-key-value-heads 2 --normalization RMSNorm --swiglu
    --disable-bias-linear --use-rotary-position-embeddings
    --untie-embeddings-and-output-weights"
dropout="$gpt --hidden-dropout 0.1 --attention-dropout 0.1"

# losses NAME RANKS MODEL OPTIONS...: one loss a line in NAME
losses() {
    name=$1 n=$2 model=$3
    shift 3
    # shellcheck disable=SC2086
    $MPIEXEC -n "$n" mds_pretrain $model --seq-length 64 --train-iters 10 --lr 2e-3 \
        --global-batch-size 8 --data-path tokens.h5 --threads 1 --eval-iters 1 \
        --metrics-jsonl "$name.jsonl" "$@" >"$name.out" 2>&1 || {
        cat "$name.out"
        return 1
    }
    sed -n 's/.*"lm_loss":\([^,}]*\).*/\1/p' "$name.jsonl" >"$name"
    test "$(wc -l <"$name")" -ge 10
}
# near A B: the losses agree within 1e-5, relative
near() {
    paste "$1" "$2" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $1) bad = 1
        if (d > worst) worst = d } END { print "largest difference", worst; exit bad }'
}

for shape in gpt llama dropout; do
    eval "model=\$$shape"
    test_expect_success "$shape: 2 and 4 ranks agree with 1" '
        losses '$shape'1 1 "$model" &&
        losses '$shape'2 2 "$model" &&
        losses '$shape'4 4 "$model" &&
        near '$shape'1 '$shape'2 && near '$shape'1 '$shape'4
    '
    test_expect_success "$shape: any micro-batch agrees" '
        for m in 1 2 4; do
            losses '$shape'm$m 1 "$model" --micro-batch-size $m &&
            near '$shape'1 '$shape'm$m || return 1
        done &&
        losses '$shape'r2m2 2 "$model" --micro-batch-size 2 --recompute-granularity full &&
        near '$shape'1 '$shape'r2m2
    '
done
test_expect_success 'Ulysses ranks with copies of key/value heads: near one rank, and twice the same bits' '
    losses copies 4 "$llama" --ds-sequence-parallel-size 4 && near llama1 copies &&
    losses again 4 "$llama" --ds-sequence-parallel-size 4 && test_cmp copies again
'
# clear_routers FILE: set the routers of two blocks, in a safetensors file, to 0
clear_routers() {
    perl -e 'open F, "+<:raw", $ARGV[0]; read F, $n, 8; $n = unpack "Q<", $n; read F, $h, $n;
        while ($h =~ /"[^"]*router[^"]*":\{[^}]*"data_offsets":\[(\d+),(\d+)\]/g) {
            seek F, 8 + $n + $1, 0; print F "\0" x ($2 - $1); $done++
        }
        exit($done != 2)' "$1"
}
# All scores are equal at first, so the first two experts get every token: rows come to one
# rank in several rounds, and experts of others have none.
experts="$llama --num-experts 8 --moe-ffn-hidden-size 32 --init-weights w.safetensors"
test_expect_success 'a router that sends all tokens to the experts of one rank' '
    mds_pretrain ${experts% --init*} --seq-length 64 --train-iters 1 --lr 0 --global-batch-size 8 --threads 1 \
        --data-path tokens.h5 --eval-iters 0 --export-weights w.safetensors >out 2>&1 && clear_routers w.safetensors &&
    losses even1 1 "$experts" &&
    losses even2 2 "$experts" --expert-model-parallel-size 2 --zero-stage 1 && near even1 even2 &&
    losses even4 4 "$experts" --expert-model-parallel-size 4 --micro-batch-size 1 --context-parallel-size 4 && near even1 even4 &&
    losses even4 4 "$experts" --expert-model-parallel-size 4 --micro-batch-size 1 && near even1 even4 &&
    grep "iteration.:1,.*expert_load_most.:4,.*experts_idle.:12," even4.jsonl &&
    losses again 4 "$experts" --expert-model-parallel-size 4 --micro-batch-size 1 && test_cmp even4 again
'
# Of the first round, that is; here there are others.
test_expect_success 'what comes to experts of other ranks: saved, or sent again: the same bits' '
    for recompute in "selective --recompute-modules mlp" "selective --recompute-modules mlp_act" full; do
        losses again 4 "$experts" --expert-model-parallel-size 4 --micro-batch-size 1 \
            --recompute-granularity $recompute && test_cmp even4 again || return 1
    done
'
# Counts of the micro-batches of all ranks so far: as one micro-batch, aux_loss; several are
# in the same order on a pipeline's stages.
batch="$llama --num-experts 8 --moe-ffn-hidden-size 32 --init-method-std 0.2 --moe-aux-loss-coeff 1
    --moe-z-loss-coeff 0.1 --moe-per-layer-logging --log-format megatron --log-interval 1"
whole="$batch --moe-router-load-balancing-type global_aux_loss"
# block_losses FILE: those of each block and step of the router
block_losses() {
    sed -n "s/.*expert_block.*load_balancing_loss\":\([^,]*\),\"z_loss\":\(.*\)}/\1\n\2/p" "$1.jsonl" >"$1.blocks"
    test "$(wc -l <"$1.blocks")" -eq 40
}
test_expect_success 'balance over the whole batch: a micro-batch of each rank agrees with one' '
    losses batch1 1 "$whole" --micro-batch-size 8 &&
    losses aux1 1 "$batch" --micro-batch-size 8 && near batch1 aux1 && block_losses batch1 &&
    while read -r ranks options; do
        losses batchn $ranks "$whole" $options && near batch1 batchn &&
        block_losses batchn && near batch1.blocks batchn.blocks || return 1
    done <<-END
	2 --micro-batch-size 4 --zero-stage 3
	4 --micro-batch-size 4 --expert-model-parallel-size 2 --context-parallel-size 2
	4 --micro-batch-size 8 --expert-model-parallel-size 4 --ds-sequence-parallel-size 2 --context-parallel-size 2
	4 --micro-batch-size 8 --tensor-model-parallel-size 2 --sequence-parallel --ds-sequence-parallel-size 2
	4 --micro-batch-size 2 --recompute-granularity full --sequence-tile 48
	END
    losses aux4 4 "$batch" --micro-batch-size 2 && ! near batch1 aux4
'
test_expect_success '... and several micro-batches on two stages agree with one' '
    losses steps1 1 "$whole" --micro-batch-size 2 && block_losses steps1 &&
    losses steps2 2 "$whole" --micro-batch-size 2 --pipeline-model-parallel-size 2 && near steps1 steps2 &&
    block_losses steps2 && near steps1.blocks steps2.blocks && ! near batch1 steps1
'
test_expect_success '--moe-per-layer-logging: the load and losses of each block' '
    grep "load_balancing_loss\":.*\"block\":2" batch1.jsonl && return 1
    test "$(grep -c "expert_block.*\"block\":[01],\"expert_load_most\":.*\"experts_idle\":.*global_load" batch1.jsonl)" -eq 20 &&
    grep "| lm loss: .* | global_load_balancing_loss: [1-9]\..* | z_loss: .* | grad norm" batch1.out &&
    losses plain 1 "${whole%--moe-per*}" --micro-batch-size 8 --moe-router-load-balancing-type global_aux_loss &&
    test_cmp plain batch1 && ! grep "expert_block\|balancing_loss\":" plain.jsonl &&
    losses charts 1 "$whole" --micro-batch-size 8 --tensorboard-dir tb && cat tb/* >charts.all &&
    for tag in global_load_balancing_loss z_loss moe/z_loss_layer_1 moe/load_layer_0 moe/entropy_layer_1 \
        moe/global_load_balancing_loss_layer_1; do
        grep -a $tag charts.all >found || return 1
    done
'
# Chunks and stages share the buffers that stay; the copies change no bit.
test_expect_success 'blocks on the host between forward and backward, of stages and chunks' '
    model="--num-layers 12 --hidden-size 48 --num-attention-heads 4 --micro-batch-size 2
        --pipeline-model-parallel-size 2" &&
    losses stay1 2 "$model" && losses away1 2 "$model" --cpu-offloading-num-layers 4 &&
    test_cmp stay1 away1 &&
    model="$model --num-layers-per-virtual-pipeline-stage 3" &&
    losses stay2 2 "$model" && losses away2 2 "$model" --cpu-offloading-num-layers 1 &&
    test_cmp stay2 away2 && near stay1 stay2 &&
    model="$model --num-layers 13 --num-layers-per-virtual-pipeline-stage 0" &&
    losses stay3 2 "$model" && losses away3 2 "$model" --cpu-offloading-num-layers 4 &&
    test_cmp stay3 away3
'
# A tied embedding is in use, and its gradient under way, while others are.
test_expect_success 'a position table larger than a block, or a single block, with ZeRO' '
    small="--num-layers 3 --hidden-size 4 --num-attention-heads 2" &&
    for model in "$small --max-position-embeddings 1000" \
        "$small --max-position-embeddings 1000 --make-vocab-size-divisible-by 512" \
        "--num-layers 1 --hidden-size 48 --num-attention-heads 4"; do
        losses long1 1 "$model" --micro-batch-size 4 || return 1
        for more in "--zero-stage 2" "--zero-stage 3" \
            "--zero-stage 2 --no-overlap-grad-reduce" \
            "--zero-stage 3 --no-overlap-grad-reduce"; do
            losses long2 2 "$model" --micro-batch-size 1 $more && near long1 long2 ||
                return 1
        done
    done
'
test_expect_success 'the losses differ between steps and shapes, so the comparison sees' '
    test "$(sort -u gpt1 | wc -l)" -ge 10 && ! near gpt1 llama1 && ! near gpt1 dropout1
'
test_expect_success 'the same command twice: the same bits' '
    losses again 2 "$gpt" && test_cmp gpt2 again
'
test_expect_success 'buckets, overlap, recompute and threads do not change a bit' '
    losses bits 2 "$gpt" --ddp-bucket-size 4096 && test_cmp gpt2 bits &&
    losses bits 2 "$gpt" --no-overlap-grad-reduce && test_cmp gpt2 bits &&
    losses bits 2 "$gpt" --recompute-granularity selective && test_cmp gpt2 bits &&
    losses bits 2 "$gpt" --recompute-granularity selective \
        --recompute-modules layernorm mlp_act && test_cmp gpt2 bits &&
    losses bits 2 "$gpt" --recompute-granularity full && test_cmp gpt2 bits
'
# A second build with another MPI, if there is one: OTHER_MPI_BUILD is its folder.
if [ -n "$OTHER_MPI_BUILD" ]; then
    test_expect_success 'another MPI: the same bits' '
        (. "$OTHER_MPI_BUILD/tests/env.sh" && losses other 2 "$gpt" &&
            losses other4 4 "$llama") &&
        test_cmp gpt2 other && test_cmp llama4 other4
    '
fi

test_done
