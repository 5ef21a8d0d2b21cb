#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Export models to Hugging Face's transformers and import transformers' models: the loss must be
# the same in both.
# PYTHON_HF: a python3 with torch, numpy and transformers (default: configure's).
python=$PYTHON_HF modules=torch,transformers
# shellcheck source=tests/parity/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/parity/setup.sh"

steps='--train-iters 1 --global-batch-size 4 --seq-length 64 --lr 1e-3 --eval-iters 0
    --threads 1 --data-path t.h5'

# first_loss NAME OPTIONS...: record the loss of the first step, and its batch
first_loss() {
    name=$1
    shift
    mkdir -p "trace-$name"
    # shellcheck disable=SC2086  # words
    mds_pretrain $steps --trace-dir "trace-$name" --metrics-jsonl "$name.jsonl" "$@"
}

# exported NAME OPTIONS...: start from random weights that Python wrote, save, export
exported() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$python" "$here/reference.py" init "$name.st" --padded-vocab 128 $steps "$@" &&
        first_loss "$name" "$@" --init-weights "$name.st" --lr 0 --save "saved-$name" &&
        mds_ckpt export --format hf --output "out-$name" --max-shard-bytes 50kB \
            "saved-$name"
}

# imported NAME OPTIONS...: import a model that transformers wrote, and make a step with it
imported() {
    name=$1
    shift
    mds_ckpt import "made/$name" "in-$name" && mds_ckpt verify "in-$name" &&
        first_loss "$name" --load "in-$name" "$@"
}

rope='--use-rotary-position-embeddings --untie-embeddings-and-output-weights'
gpt='--num-layers 2 --hidden-size 48 --num-attention-heads 4 --ffn-hidden-size 112'
llama="--num-layers 2 --hidden-size 48 --num-attention-heads 6 --num-key-value-heads 2
    --ffn-hidden-size 112 --normalization rmsnorm --swiglu --disable-bias-linear $rope"

result "transformers makes models" "$python" "$here/hf.py" make made
# shellcheck disable=SC2086
{
    result "gpt2 is exported" exported gpt2-ours $gpt --norm-epsilon 3e-5
    result "gpt_neox is exported" exported neox-ours $gpt $rope --rotary-percent 0.5
    result "gpt2 with squared ReLU is exported" exported relu2-ours $gpt --squared-relu
    result "llama with grouped heads is exported" exported llama-ours $llama
    result "parallel residual is exported" exported parallel-ours $gpt $rope --rotary-percent 0.5 \
        --use-parallel-residual
    result "qwen2 is exported" exported qwen2-ours $llama --add-qkv-bias
    result "gpt_neox with exact GELU is exported" exported pythia-ours $gpt $rope --exact-gelu --use-parallel-residual \
        --init-method-std 0.3
    result "mixtral is exported" exported mixtral-ours $llama --num-experts 5 --moe-router-topk 2
    result "qwen3_moe is exported" exported qwen3moe-ours $llama --qk-layernorm --num-experts 4 --moe-ffn-hidden-size 40 \
        --moe-router-pre-softmax
    result "qwen3 is exported" exported qwen3-ours $llama --qk-layernorm
    result "gpt2 without biases is exported" exported gpt2-plain $gpt --disable-bias-linear
    result "gpt_neox without biases is exported" exported neox-plain $gpt $rope --disable-bias-linear
}
scaled="$rope --init-method-std 0.3 --original-max-position-embeddings 16 --rope-scaling-factor 4"
# shellcheck disable=SC2086
{
    result "llama3's frequencies are exported" exported llama3-ours $llama $scaled --rope-scaling-type llama3 \
        --rope-beta-fast 2 --rope-beta-slow 0.5
    result "yarn is exported" exported yarn-ours $gpt $scaled --rotary-percent 0.5 --rope-scaling-type yarn
    mup='--use-mup --mup-base-hidden-size 16 --mup-base-head-dim 6 --mup-embedding-mult 3 --init-method-std 0.3'
    result "muP with a tied head is exported" exported mup-ours $gpt $mup
    result "muP with norms of heads is exported" exported mup-qk-ours $llama --qk-layernorm $mup
    result "muP with fused queries is exported" exported mup-neox-ours $gpt $rope $mup --mup-output-mult 2
    result "ntk is exported" exported ntk-ours $llama $scaled --rope-scaling-type ntk
}
checks='out-gpt2-ours trace-gpt2-ours gpt2-ours.jsonl
    out-neox-ours trace-neox-ours neox-ours.jsonl
    out-relu2-ours trace-relu2-ours relu2-ours.jsonl
    out-parallel-ours trace-parallel-ours parallel-ours.jsonl
    out-llama-ours trace-llama-ours llama-ours.jsonl
    out-qwen2-ours trace-qwen2-ours qwen2-ours.jsonl
    out-mixtral-ours trace-mixtral-ours mixtral-ours.jsonl
    out-pythia-ours trace-pythia-ours pythia-ours.jsonl
    out-mup-ours trace-mup-ours mup-ours.jsonl
    out-mup-neox-ours trace-mup-neox-ours mup-neox-ours.jsonl
    out-gpt2-plain trace-gpt2-plain gpt2-plain.jsonl
    out-neox-plain trace-neox-plain neox-plain.jsonl'
for m in gpt2 neox neox-parallel neox-relu2 pythia qwen2 mixtral llama llama-bias llama-attention-bias gpt2-bare gpt2-bf16 llama-bf16; do
    result "$m is imported" imported $m
    checks="$checks made/$m trace-$m $m.jsonl"
done
# Beyond 32 tokens transformers' type dynamic is ntk with this factor.
dynamic='--rope-scaling-type ntk --rope-scaling-factor 3 --override-model-config'
for m in llama-linear llama-one llama-llama3 llama-dynamic neox-linear llama-yarn neox-yarn; do
    [ -d made/$m ] || continue # transformers is too old for these two
    options=
    [ $m = llama-dynamic ] && options=$dynamic
    # shellcheck disable=SC2086
    result "$m is imported" imported $m $options
    checks="$checks made/$m trace-$m $m.jsonl"
done
[ -d made/llama-yarn ] && checks="$checks out-yarn-ours trace-yarn-ours yarn-ours.jsonl"
checks="$checks out-llama3-ours trace-llama3-ours llama3-ours.jsonl out-ntk-ours trace-ntk-ours ntk-ours.jsonl"
if [ -d made/qwen3 ]; then # transformers is new enough to know it
    result "qwen3 is imported" imported qwen3
    checks="$checks made/qwen3 trace-qwen3 qwen3.jsonl out-qwen3-ours trace-qwen3-ours qwen3-ours.jsonl"
    checks="$checks out-mup-qk-ours trace-mup-qk-ours mup-qk-ours.jsonl"
fi
if [ -d made/olmo2 ]; then
    # shellcheck disable=SC2086
    result "olmo2 is exported" exported olmo2-ours $llama --norm-placement after --qk-layernorm --qk-norm-across-heads
    result "olmo2 is imported" imported olmo2
    checks="$checks made/olmo2 trace-olmo2 olmo2.jsonl out-olmo2-ours trace-olmo2-ours olmo2-ours.jsonl"
fi
if [ -d made/olmoe ]; then
    # shellcheck disable=SC2086
    result "olmoe is exported" exported olmoe-ours $llama --qk-layernorm --qk-norm-across-heads --num-experts 4 \
        --moe-ffn-hidden-size 40 --moe-router-pre-softmax
    for m in olmoe olmoe-shares; do
        result "$m is imported" imported $m
        checks="$checks made/$m trace-$m $m.jsonl"
    done
    checks="$checks out-olmoe-ours trace-olmoe-ours olmoe-ours.jsonl"
fi
if [ -d made/qwen3moe ]; then
    # shellcheck disable=SC2086
    result "qwen3_moe with an MLP in one block is exported" exported qwen3moe-mixed-ours $llama --qk-layernorm \
        --num-experts 4 --moe-ffn-hidden-size 40 --moe-layer-freq "[1]+[0]"
    checks="$checks out-qwen3moe-mixed-ours trace-qwen3moe-mixed-ours qwen3moe-mixed-ours.jsonl"
    for m in qwen3moe qwen3moe-mixed qwen3moe-shares; do
        result "$m is imported" imported $m
        checks="$checks made/$m trace-$m $m.jsonl"
    done
    checks="$checks out-qwen3moe-ours trace-qwen3moe-ours qwen3moe-ours.jsonl"
fi
if [ -d made/mistral ]; then
    # shellcheck disable=SC2086
    result "mistral is exported" exported mistral-ours $llama --window-size 9
    result "mistral is imported" imported mistral
    checks="$checks made/mistral trace-mistral mistral.jsonl out-mistral-ours trace-mistral-ours mistral-ours.jsonl"
fi
if [ -d made/ministral ]; then
    # shellcheck disable=SC2086
    result "ministral is exported" exported ministral-ours $llama --window-size 9 --window-attn-skip-freq 2
    result "ministral is imported" imported ministral
    checks="$checks made/ministral trace-ministral ministral.jsonl out-ministral-ours trace-ministral-ours ministral-ours.jsonl"
fi
# shellcheck disable=SC2086
results "$python" "$here/hf.py" check $checks

# Their folders as they are, and ours.
gzip -dc "$srcdir/tests/data/lambda.fna.gz" | grep -v '>' | tr -d '\n' | awk '{
    for (i = 0; i < 9; i++)
        printf ">r%d\n%s\n", i, substr($0, 1 + 500 * i, 40 + 15 * i) }' > genes.fa
scores='' continued=
for m in made/gpt2 made/neox made/llama made/qwen2 made/mixtral out-mixtral-ours out-llama-ours out-gpt2-ours made/olmo2 out-olmo2-ours made/olmoe out-olmoe-ours out-qwen3moe-mixed-ours; do
    [ -d $m ] || continue
    result "$m scores" mds_infer score --load $m --tokenizer codon --output "$m.tsv" genes.fa --threads 1
    scores="$scores $m genes.fa $m.tsv"
    result "$m generates" mds_infer generate --load $m --tokenizer codon --output "$m.fa" --max-new-tokens 10 genes.fa \
        --threads 1
    continued="$continued $m genes.fa $m.fa"
done
# shellcheck disable=SC2086
results "$python" "$here/hf.py" score $scores
# shellcheck disable=SC2086
results "$python" "$here/hf.py" generate $continued
finish
