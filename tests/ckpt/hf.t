#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='models in Hugging Face folders, out and in (tests/parity/hf.t: in transformers)'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

# pretrain OPTIONS...: what it printed is in out
pretrain() {
    mds_pretrain --num-layers 2 --hidden-size 32 --ffn-hidden-size 80 --seq-length 32 \
        --global-batch-size 4 --lr 1e-2 --eval-iters 0 --threads 1 --data-path t.h5 "$@" \
        >out 2>&1 </dev/null
}
losses() {
    sed -n 's/.*"event":"step".*"lm_loss":\([^,]*\),.*/\1/p' "$1"
}
rope='--use-rotary-position-embeddings --untie-embeddings-and-output-weights'
gpt2='--num-attention-heads 4'
gpt_neox="--num-attention-heads 4 $rope --rotary-percent 0.5"
llama="--num-attention-heads 8 --num-key-value-heads 2 --normalization rmsnorm --swiglu
    --disable-bias-linear $rope"

qwen2="$llama --add-qkv-bias"
qwen3="$llama --qk-layernorm --kv-channels 6"
mistral="$llama --window-size 9"
ministral="$mistral --window-attn-skip-freq 2"

mixtral="$llama --num-experts 5"
qwen3_moe="$qwen3 --num-experts 4 --moe-router-topk 3 --moe-ffn-hidden-size 48 --moe-router-pre-softmax --moe-layer-freq [0,1]"

olmo2="$llama --norm-placement after --qk-layernorm --qk-norm-across-heads"

olmoe="$llama --num-experts 6 --moe-router-pre-softmax --qk-layernorm --qk-norm-across-heads"

parallel="$gpt_neox --use-parallel-residual"

for kind in gpt2 gpt_neox llama mistral ministral qwen2 qwen3 mixtral qwen3_moe olmo2 olmoe; do
    eval options=\$$kind
    test_expect_success "$kind: exported and imported again, the same bits" '
        pretrain $options --train-iters 3 --save $kind-ours &&
        mds_ckpt export --format hf --output $kind $kind-ours &&
        grep "\"model_type\": \"$kind\"" $kind/config.json &&
        mds_ckpt import $kind $kind-back && mds_ckpt verify $kind-back &&
        mds_ckpt diff --weights $kind-ours $kind-back &&
        mds_ckpt info $kind-back | grep "^made from: $kind ($kind)" &&
        mds_ckpt export --format hf --output $kind-out $kind-back &&
        grep "position" $kind/config.json >positions && grep "position" $kind-out/config.json >positions-out &&
        test_cmp positions positions-out
    '
    test_expect_success "$kind: in several files, for several ranks, the same bits" '
        mds_ckpt export --format hf --max-shard-bytes 16kB --output $kind-many $kind-ours >out &&
        files=$(ls $kind-many/model-*.safetensors | wc -l) && test $files -gt 3 &&
        grep "^$kind-many: $files files of" out && test ! -e $kind-many/model.safetensors &&
        bytes=0 &&
        for f in $kind-many/*.safetensors; do # without their headers
            bytes=$((bytes + $(wc -c <$f) - 8 - $(od -An -tu4 -N4 $f)))
        done &&
        grep "\"total_size\": $bytes}" $kind-many/model.safetensors.index.json &&
        mds_ckpt import $kind-many $kind-two --tensor-model-parallel-size 2 --world-size 4 &&
        test -e $kind-two/iter_0000000/rank_00003.h5 &&
        mds_ckpt diff --weights $kind-ours $kind-two
    '
    test_expect_success "$kind: a run continues from an import, with --load and with --finetune" '
        pretrain $options --train-iters 2 --load $kind-ours --finetune --metrics-jsonl a.jsonl &&
        mds_ckpt info --config $kind-back >run.yaml && grep "# dtype: " run.yaml &&
        mds_pretrain --config run.yaml --seq-length 32 --train-iters 2 --global-batch-size 4 --lr 1e-2 \
            --eval-iters 0 --threads 1 --data-path t.h5 --load $kind-two \
            --metrics-jsonl b.jsonl >out 2>&1 &&
        pretrain $options --train-iters 2 --load $kind-back --finetune --metrics-jsonl c.jsonl &&
        losses a.jsonl >a && losses b.jsonl >b && losses c.jsonl >c &&
        test_cmp a b && test_cmp a c
    '
    test_expect_success "$kind: 16 bits are rounded once" '
        for type in bf16 fp16; do
            mds_ckpt export --format hf --type $type --output $kind-$type $kind-ours &&
            mds_ckpt import $kind-$type $kind-$type-back &&
            mds_ckpt diff --weights --tolerance 0.02 $kind-ours $kind-$type-back &&
            test_must_fail mds_ckpt diff --weights $kind-ours $kind-$type-back >diff &&
            mds_ckpt export --format hf --type $type --output $kind-again $kind-$type-back &&
            cmp $kind-$type/model.safetensors $kind-again/model.safetensors &&
            rm -r $kind-again || return 1
        done
    '
done

test_expect_success 'the parallel residual is exported and imported' '
    pretrain $parallel --train-iters 1 --save parallel &&
    mds_ckpt export --format hf --output parallel-hf parallel &&
    grep "\"use_parallel_residual\": true," parallel-hf/config.json &&
    sed "/use_parallel_residual/d" parallel-hf/config.json >c && mv c parallel-hf/config.json &&
    mds_ckpt import parallel-hf parallel-back && mds_ckpt diff --weights parallel parallel-back &&
    mds_ckpt info --config parallel-back | grep "^  parallel_residual: true "
'
for kind in gpt2 gpt_neox qwen3; do
    eval options=\$$kind
    test_expect_success "$kind: an export has muP'\''s factors in its weights, and gives the same loss" '
        mup="--use-mup --mup-base-hidden-size 8 --mup-base-head-dim 2 --mup-embedding-mult 3 --init-method-std 0.3" &&
        pretrain $options $mup --train-iters 3 --save $kind-mup &&
        mds_ckpt export --format hf --output $kind-mup-hf $kind-mup &&
        mds_ckpt import $kind-mup-hf $kind-mup-back &&
        mds_ckpt info --config $kind-mup | grep "^  use_mup: true " &&
        ! mds_ckpt info --config $kind-mup-back | grep "use_mup: true" &&
        pretrain --train-iters 1 --load $kind-mup --finetune --metrics-jsonl ours.jsonl &&
        pretrain --train-iters 1 --load $kind-mup-back --finetune --metrics-jsonl theirs.jsonl &&
        pretrain --train-iters 1 --load $kind-mup --finetune --metrics-jsonl other.jsonl --override-model-config \
            --mup-base-head-dim 1 && cat out &&
        echo "$(losses ours.jsonl) $(losses theirs.jsonl) $(losses other.jsonl)" >losses && cat losses &&
        awk "function distance(a, b) { return (a > b ? a - b : b - a) / b }
            { exit !(distance(\$2, \$1) < 2e-7 && distance(\$3, \$1) > 1e-6) }" losses
    '
done
test_expect_success 'squared ReLU is exported and imported as relu2' '
    for kind in gpt2 gpt_neox; do
        eval options=\$$kind && pretrain $options --squared-relu --train-iters 1 --save $kind-relu2 &&
        mds_ckpt export --format hf --output $kind-relu2-hf $kind-relu2 &&
        grep "\": \"relu2\"," $kind-relu2-hf/config.json &&
        mds_ckpt import $kind-relu2-hf $kind-relu2-back && mds_ckpt diff --weights $kind-relu2 $kind-relu2-back &&
        mds_ckpt info --config $kind-relu2-back | grep "^  squared_relu: true " || return 1
    done
'
test_expect_success 'exact GELU is exported and imported as gelu, which gpt_neox has if it does not say' '
    for kind in gpt2 gpt_neox; do
        eval options=\$$kind && pretrain $options --exact-gelu --train-iters 1 --save $kind-gelu &&
        mds_ckpt export --format hf --output $kind-gelu-hf $kind-gelu &&
        grep "\": \"gelu\"," $kind-gelu-hf/config.json &&
        mds_ckpt import $kind-gelu-hf $kind-gelu-back && mds_ckpt diff --weights $kind-gelu $kind-gelu-back &&
        mds_ckpt info --config $kind-gelu-back | grep "^  exact_gelu: true " || return 1
    done &&
    sed "/hidden_act/d" gpt_neox-gelu-hf/config.json >c && mv c gpt_neox-gelu-hf/config.json &&
    mds_ckpt import gpt_neox-gelu-hf unsaid && mds_ckpt info --config unsaid | grep "^  exact_gelu: true " &&
    test_must_fail pretrain $gpt_neox --load unsaid --train-iters 1 --exact-gelu=0 && grep "exact-gelu true (now false)" out
'
test_expect_success 'biases of q, k and v alone: qwen2, in any layout; zeros for the others in gpt2' '
    mds_ckpt info --tensors qwen2-back >tensors && grep "layer.1.attention.[qkv].bias" tensors >biases &&
    test "$(wc -l <biases)" -eq 3 && ! grep "\(out\|up\|down\|gate\).bias" tensors &&
    mds_ckpt info --config qwen2-back | grep "^  qkv_bias: true " &&
    pretrain $qwen2 --train-iters 3 --load qwen2-back --metrics-jsonl one.jsonl && losses one.jsonl >one-rank.steps &&
    for layout in "--tensor-model-parallel-size 2" "--zero-stage 3" "--attention-head-groups 2 --recompute-granularity full --sequence-tile 16"; do
        rm -f two.jsonl && $MPIEXEC -n 2 mds_pretrain --seq-length 32 --global-batch-size 4 --lr 1e-2 --eval-iters 0 --threads 1 \
            --data-path t.h5 --train-iters 3 --load qwen2-back $layout --metrics-jsonl two.jsonl >out 2>&1 &&
        losses two.jsonl | paste one-rank.steps - | awk "{ d = \$1 - \$2; if (d < 0) d = -d; if (d > 1e-5 * \$1) exit 1 } END { exit NR != 3 }" || return 1
    done &&
    pretrain $qwen2 --window-size 9 --window-attn-skip-freq "[0,1]" --train-iters 1 --save qwen2-window &&
    mds_ckpt export --format hf --output qwen2-window-hf qwen2-window && grep "\"max_window_layers\": 1," qwen2-window-hf/config.json &&
    mds_ckpt import qwen2-window-hf qwen2-window-back && mds_ckpt diff --weights qwen2-window qwen2-window-back &&
    pretrain $gpt2 --disable-bias-linear --add-qkv-bias --train-iters 1 --save gpt2-qkv && mds_ckpt export --format hf --output gpt2-qkv-hf gpt2-qkv &&
    mds_ckpt import gpt2-qkv-hf gpt2-qkv-back && pretrain $gpt2 --train-iters 1 --load gpt2-qkv-back --lr 0 --metrics-jsonl a.jsonl &&
    pretrain $gpt2 --disable-bias-linear --add-qkv-bias --train-iters 1 --load gpt2-qkv --finetune --lr 0 --metrics-jsonl b.jsonl &&
    losses a.jsonl >a && losses b.jsonl >b && test_cmp a b && rm ?.jsonl
'
test_expect_success 'a model without biases is exported with zero biases' '
    for kind in gpt2 gpt_neox; do
        eval options=\$$kind && pretrain $options --disable-bias-linear --train-iters 2 --save $kind-plain &&
        mds_ckpt export --format hf --output $kind-zeros $kind-plain &&
        mds_ckpt import $kind-zeros $kind-zeros-back &&
        pretrain $options --disable-bias-linear --train-iters 1 --load $kind-plain --finetune --metrics-jsonl a.jsonl &&
        pretrain $options --train-iters 1 --load $kind-zeros-back --metrics-jsonl b.jsonl &&
        losses a.jsonl >a && losses b.jsonl >b && test_cmp a b && rm ?.jsonl || return 1
    done
'
# alone MODULE SED: made without that module's biases (names of theirs that are passed over),
# it is exported as it was imported
alone() {
    rm -rf alone* && cp -r both alone && sed "s/\"$1_bias\": true/\"$1_bias\": false/;s/ings\": 32/ings\": 4096/" both/config.json >alone/config.json &&
        LC_ALL=C sed "$2" both/model.safetensors >alone/model.safetensors && mds_ckpt import alone alone-ours &&
        mds_ckpt export --format hf --output alone-out alone-ours &&
        for f in alone alone-out; do grep _bias $f/config.json >$f.biases; done && test_cmp alone.biases alone-out.biases &&
        mds_ckpt import alone-out alone-back && mds_ckpt diff --weights alone-ours alone-back
}
test_expect_success 'imported biases of only attention or only the MLP are exported alike, until the others are trained' '
    both="$rope --num-attention-heads 8 --num-key-value-heads 2 --normalization rmsnorm --swiglu" &&
    pretrain $both --train-iters 2 --save both-ours && mds_ckpt export --format hf --output both both-ours &&
    grep "\"attention_bias\": true" both/config.json && grep "\"mlp_bias\": true" both/config.json &&
    alone attention "s/self_attn\.\([qkvo]\)_proj\.bias/x\1rotary_emb.inv_freq/g" &&
    alone mlp "s/layers\.\(.\)\.mlp\.up_proj\.bias/xxxxu\1rotary_emb.inv_freq/g
        s/layers\.\(.\)\.mlp\.\([gd]\)..._proj\.bias/xxxxxx\2\1rotary_emb.inv_freq/g" &&
    pretrain $both --train-iters 2 --load alone-ours --finetune --save alone-on &&
    mds_ckpt export --format hf --output alone-after alone-on && grep "\"mlp_bias\": true" alone-after/config.json
'
test_expect_success 'an import keeps its settings, and leaves the sequence length to each run' '
    pretrain $llama --rotary-base 500000 --norm-epsilon 3e-6 --train-iters 2 --save base &&
    mds_ckpt export --format hf --output base-hf base &&
    sed "s/\"max_position_embeddings\": 32/\"max_position_embeddings\": 131072/" base-hf/config.json >c &&
    mv c base-hf/config.json && mds_ckpt import base-hf base-start &&
    mds_ckpt info --config base-start >run.yaml && grep "# seq_length: " run.yaml &&
    grep "^  max_positions: 131072 " run.yaml &&
    mds_pretrain --seq-length 32 --global-batch-size 4 --lr 1e-2 --eval-iters 0 --threads 1 --data-path t.h5 \
        --train-iters 2 --load base-start --save base-on --metrics-jsonl a.jsonl >out 2>&1 &&
    pretrain $llama --rotary-base 500000 --norm-epsilon 3e-6 --train-iters 2 --load base --finetune \
        --metrics-jsonl b.jsonl && losses a.jsonl >a && losses b.jsonl >b && test_cmp a b && rm ?.jsonl &&
    mds_pretrain --show-config --load base-start >out && grep "rotary_base: 500000 .*# checkpoint base-start/" out &&
    grep "seq_length: 2048 .*# default" out &&
    mds_ckpt export --format hf --output base-hf2 base-on && diff base-hf/config.json base-hf2/config.json &&
    mds_pretrain --show-config --load gpt2-back >out && grep "seq_length: 32 .*# checkpoint gpt2-back/" out
'
test_expect_success 'an import decides nothing about data, however it is loaded or converted' '
    for i in 1 2 3 4; do awk -v i=$i "BEGIN { while (n++ < 500) printf \"%d \", n * i % 23 + 1; print \"\" }"; done |
        mds_data make --tokenizer ids --vocab-size 24 --eod 0 --output lines.h5 - &&
    mds_ckpt reshard llama-back llama-moved --tensor-model-parallel-size 2 &&
    mds_pretrain --data-path lines.h5 --num-layers 1 --hidden-size 32 --num-attention-heads 4 --train-iters 1 \
        --seq-length 32 --eval-iters 0 --threads 1 >out 2>&1 && grep "data: lines.h5" out >want && grep " rows" want &&
    for how in llama-back "llama-back --finetune" llama-moved "llama-moved --finetune"; do
        mds_pretrain --data-path lines.h5 --load $how --train-iters 1 --seq-length 32 --eval-iters 0 \
            --threads 1 >out 2>&1 &&
        grep "data: lines.h5" out >got && test_cmp want got && ! grep "was saved with.*--[^t]" out || return 1
    done &&
    for start in llama-back llama-moved; do
        mds_ckpt info --config $start | grep "^  [a-z]" >set && grep "^  vocab: 66 " set &&
        ! grep -v "# import of llama:\|# llama-back/\|# command line" set || return 1
    done
'

# words KIND EOD WORDS: the export of a run on such tokens knows them
words() {
    kind=$1 eod=$2 count=$3
    rm -rf w && mds_data make --tokenizer "$kind" --output "$kind.h5" "$srcdir/tests/data/lambda.fna.gz" &&
        pretrain --num-attention-heads 4 --train-iters 1 --save w --data-path "$kind.h5" &&
        mds_ckpt export --format hf --output "words-$kind" w && cd "words-$kind" &&
        grep "\"eos_token_id\": $eod," config.json && grep "\"<eod>\": $eod" tokenizer.json &&
        grep "\"eos_token\": \"<eod>\"" tokenizer_config.json &&
        test "$(grep -c "^      \".*\": [0-9]*,*$" tokenizer.json)" -eq "$count" && cd ..
}
test_expect_success 'the tokenizer is exported for codons, nucleotides and bytes, and not for unknown ids' '
    words codon 64 66 && words nucleotide 5 6 && words 6-mer 4096 4098 && words dna 256 257 && words bytes 256 257 &&
    grep "\"GCT\": 39," words-codon/tokenizer.json && grep "\"\\\\u010a\": 10," words-bytes/tokenizer.json &&
    mds_ckpt reshard w w2 --tensor-model-parallel-size 2 && mds_ckpt export --format hf --output words-2 w2 &&
    cmp words-bytes/tokenizer.json words-2/tokenizer.json &&
    mds_ckpt export --format hf --output words-none gpt2-back &&
    grep "\"eos_token_id\": null" words-none/config.json && test ! -e words-none/tokenizer.json
'
perl -MJSON::PP -e 1 2>/dev/null && test_set_prereq PERL
test_expect_success PERL 'the exported tokenizer makes the ids that mds_data makes, by its rules' '
    printf "%s\n" ACGTacgtuURYSWKMBDHVNryswkmbdhvn-.ACGTACGTACGT acg ac "ACGTN ACG	TTTT" aaaaaaaaaaaaaaaaaaa \
        C g TACGTA acgtac n- TTTTTT.TTTTTT ACGTACGTACGTACG >lines &&
    awk "{ print \">r\" NR; print }" lines >lines.fa &&
    for kind in codon nucleotide 6-mer dna; do
        mds_data make --tokenizer $kind --output lines.h5 lines.fa &&
        mds_data dump --ids lines.h5 | sed "s/ [0-9]*\$//" >want && test "$(wc -l <want)" -gt 5 &&
        perl "$srcdir/tests/parity/tokens.pl" words-$kind <lines | grep . >got && test_cmp want got || return 1
    done &&
    printf ">r1\nacgTNryu\n>human_2\nTtn\n" >tags.fa &&
    mds_data make --tokenizer dna --tag "|d__b;human|{record}|" --tag-every 6 --output tags.h5 tags.fa &&
    mds_data dump --ids tags.h5 | sed "s/ [0-9]*\$//" >want &&
    printf "%s\n" "|d__b;human|r1|acgTNr|d__b;human|r1|yu" "|d__b;human|human_2|Ttn" |
        perl "$srcdir/tests/parity/tokens.pl" words-dna >got && test_cmp want got &&
    echo "caf\303\251 a|B" | perl "$srcdir/tests/parity/tokens.pl" words-bytes >got &&
    echo 99 97 102 195 169 32 97 124 66 >want && test_cmp want got
'
python=${PYTHON_HF:-$PYTHON_TORCH}
if "$python" -c 'import transformers' 2>/dev/null; then
    test_expect_success 'transformers makes the ids that mds_data makes, of hostile text' '
        for kind in codon nucleotide 6-mer dna bytes; do echo $kind words-$kind; done >kinds &&
        "$python" "$srcdir/tests/parity/hf_tokens.py" $(cat kinds)
    '
else
    say "# skipped: transformers makes the same ids (${python:-python3} has no transformers)"
fi

# layers_are LIST LINE: with LINE in qwen3's config.json the model has this list of layers
layers_are() {
    rm -rf typed typed-in && cp -r windows typed &&
        grep -v layer_types windows/config.json | sed "s/^{/{ $2/" >typed/config.json &&
        mds_ckpt import typed typed-in && mds_ckpt info --config typed-in | grep -F "window_skip: '$1'"
}
test_expect_success 'types of layers with and without a window are exported and imported' '
    pretrain $qwen3 --num-layers 4 --window-size 9 --window-attn-skip-freq 3 --train-iters 1 --save four &&
    mds_ckpt export --format hf --output windows four &&
    grep "\"sliding_window\": 9," windows/config.json && grep "\"use_sliding_window\": true" windows/config.json &&
    s="\"sliding_attention\"" f="\"full_attention\"" && grep -F "[$s, $s, $f, $s]" windows/config.json &&
    mds_ckpt import windows four-back && mds_ckpt diff --weights four four-back &&
    mds_ckpt info --config four-back | grep "window_skip: 3" &&
    cp ministral/config.json typed-ministral && grep -F "\"layer_types\": [$s, $f]," typed-ministral &&
    mds_ckpt info --config ministral-back | grep "window_skip: 2" &&
    layers_are "[0,1,1,0]" "\"layer_types\": [$f, $s, $s, $f]," &&
    layers_are "[0]*1+[1]*3" "\"max_window_layers\": 1," && layers_are "[0]*4" "" &&
    sed "s/sliding_attention/chunked_attention/" windows/config.json >typed/config.json &&
    test_must_fail mds_ckpt import typed never 2>err && grep "type chunked_attention; mds supports" err
'
# no_shape WORDS OPTIONS...: a model that no folder can hold; what is said has WORDS
no_shape() {
    words=$1
    shift
    rm -rf other && pretrain --train-iters 1 --save other "$@" || return 1
    test_must_fail mds_ckpt export --format hf --output never other 2>err &&
        test "$(wc -l <err)" -eq 1 && grep -e "$words" err && test ! -e never
}
test_expect_success 'models that no Hugging Face type can hold are refused by name' '
    no_shape "-position-embedding-type none: .*gpt_neox.* rotary" $gpt2 \
        --position-embedding-type none &&
    no_shape "-position-embedding-type alibi: no format of Hugging Face" $gpt2 --position-embedding-type alibi &&
    no_shape "-normalization RMSNorm: .*gpt2.* LayerNorm" $gpt2 --normalization rmsnorm &&
    no_shape "-swiglu: .*gpt2.* without a gate" $gpt2 --swiglu &&
    no_shape "-use-parallel-residual: .*gpt2.* MLP after attention" $gpt2 --use-parallel-residual &&
    no_shape "-qk-layernorm: .*gpt2.* no norms of queries and keys" $gpt2 --qk-layernorm &&
    no_shape "-norm-placement: .*qwen3.* norms before" $qwen3 --norm-placement both &&
    no_shape "-norm-placement: .*olmo2.* norms after" $qwen3 --qk-norm-across-heads &&
    no_shape "-norm-placement after: .*olmo2.* norms of queries and keys" $llama --norm-placement after &&
    no_shape "-qk-norm-across-heads: .*gpt_neox.* norms of each head" $gpt_neox --qk-layernorm --qk-norm-across-heads &&
    no_shape "-window-size: .*olmo2.* no window" $olmo2 --window-size 9 &&
    no_shape "-qk-layernorm with biases: .*qwen3" $qwen3 --disable-bias-linear=0 &&
    no_shape "-num-key-value-heads: .*gpt_neox.* as many" $gpt_neox --num-key-value-heads 2 &&
    no_shape "-kv-channels: .*gpt2.* hidden / heads" $gpt2 --kv-channels 16 &&
    no_shape "-rotary-percent: .*llama.* whole heads" $llama --rotary-percent 0.5 &&
    no_shape "-window-size: .*gpt2.* no window" $gpt2 --window-size 9 &&
    no_shape "-window-size with biases: .*mistral" $mistral --disable-bias-linear=0 &&
    no_shape "-moe-router-pre-softmax: .*mixtral.* chosen experts" $mixtral --moe-router-pre-softmax &&
    no_shape "-moe-router-score-function sigmoid: .*mixtral.* softmax" $mixtral --moe-router-score-function sigmoid \
        --moe-router-enable-expert-bias &&
    no_shape "-moe-router-topk-scaling-factor: .*qwen3_moe.* as they are" $qwen3_moe --moe-router-topk-scaling-factor 2 &&
    no_shape "-moe-layer-freq: .*olmoe.* experts in all layers" $olmoe --moe-layer-freq 2 &&
    no_shape "-kv-channels: .*olmoe.* hidden / heads" $olmoe --kv-channels 16 &&
    no_shape "-norm-placement: .*olmoe.* norms before" $olmoe --norm-placement after &&
    no_shape "-moe-layer-freq: .*mixtral.* experts in all layers" $mixtral --moe-layer-freq 2 &&
    no_shape "-moe-shared-expert-intermediate-size: .*mixtral.* no shared expert" $mixtral \
        --moe-shared-expert-intermediate-size 32 &&
    no_shape "-position-embedding-type learned_absolute: .*mixtral.* rotary" $gpt2 --swiglu --disable-bias-linear --num-experts 2 &&
    no_shape "-normalization LayerNorm: .*llama" $llama --normalization layernorm &&
    grep "info: mds_ckpt export --format hf will refuse this model: --normalization LayerNorm: " out &&
    pretrain $gpt2 --train-iters 1 --normalization rmsnorm && ! grep "will refuse" out &&
    pretrain $gpt2 --train-iters 1 --save other && ! grep "will refuse" out
'

# not_in WORDS: changed/ is refused in one line that has them, and nothing appears
not_in() {
    test_must_fail mds_ckpt import changed never 2>err &&
        test "$(wc -l <err)" -eq 1 && grep -e "$1" err && test ! -e never/latest
}
# with KIND SED-EXPRESSION: changed/ is KIND with another config.json
with() {
    rm -rf changed && cp -r "$1" changed && sed "$2" "$1/config.json" >changed/config.json &&
        ! cmp -s "$1/config.json" changed/config.json
}
test_expect_success 'models that mds does not support are refused by name' '
    with gpt2 "s/gelu_new/quick_gelu/" && not_in "activation_function is quick_gelu; mds supports gelu_new .* gelu " &&
    with gpt2 "s/\"n_embd\"/\"other\"/" && not_in "config.json: n_embd is missing" &&
    with gpt2 "s/\"n_head\": 4/\"n_head\": \"x\"/" && not_in "n_head is .x., not a number" &&
    with gpt2 "s/\"gpt2\"/\"bloom\"/" && not_in "model_type is bloom; mds reads gpt2" &&
    with llama "s/silu/gelu/" && not_in "hidden_act is gelu" &&
    with mixtral "s/\"sliding_window\": null/\"sliding_window\": 4096/" && not_in "sliding_window is 4096; mds supports none only" &&
    with qwen3_moe "s/\"decoder_sparse_step\": 1/\"decoder_sparse_step\": 0/" && not_in "decoder_sparse_step is 0, not a whole number from 1" &&
    with qwen3_moe "s/\"norm_topk_prob\": false/\"norm_topk_prob\": \"yes\"/" && not_in "norm_topk_prob is yes, and not true or false" &&
    with qwen3_moe "s/\"mlp_only_layers\": \[.*\]/\"mlp_only_layers\": [1]/" &&
    not_in "tensor model.layers.0.mlp.gate.weight is missing" &&
    with olmoe "s/\"vocab_size\"/\"clip_qkv\": 8.0, &/" && not_in "clip_qkv is 8.0; mds supports none only" &&
    with mixtral "s/\"num_local_experts\": 5/\"num_local_experts\": 4/" &&
    not_in "block_sparse_moe.gate.weight is 5 x 32, but config.json says 4 x 32" &&
    with llama "s/\"mlp_bias\": false/\"mlp_bias\": true/" &&
    not_in "changed: tensor model.layers.0.mlp.gate_proj.bias is missing" &&
    with llama "s/\"vocab_size\"/\"rope_scaling\": {\"rope_type\": \"longrope\"}, &/" &&
    not_in "rope_scaling of type longrope, which has two factors of its own for each frequency; mds supports" &&
    with llama "s/\"vocab_size\"/\"rope_scaling\": {\"type\": \"linear\", \"factor\": \"x\"}, &/" &&
    not_in "rope_scaling of type linear: factor is not a number" &&
    with llama "s/\"vocab_size\"/\"rope_scaling\": {\"type\": \"linear\"}, &/" &&
    not_in "rope_scaling of type linear has no factor" &&
    with llama "s/\"vocab_size\"/\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": false}, &/" &&
    not_in "rope_parameters has .truncate.: false" &&
    with llama "s/{/[/" && not_in "config.json"
'
# scaled_to WORDS OPTIONS...: a model with scaled frequencies is exported with these words and imported unchanged
scaled_to() {
    words=$1
    shift
    rm -rf scaled scaled-* && pretrain --train-iters 1 --save scaled "$@" &&
        mds_ckpt export --format hf --output scaled-hf scaled && grep -F "$words" scaled-hf/config.json &&
        mds_ckpt import scaled-hf scaled-back && mds_ckpt diff --weights scaled scaled-back &&
        pretrain --train-iters 2 --load scaled-back "$@" && mds_ckpt export --format hf --output scaled-out scaled-back &&
        for f in hf out; do grep "rope\|position" scaled-$f/config.json >scaled-$f.rope; done && test_cmp scaled-hf.rope scaled-out.rope
}
test_expect_success 'scaled rotary frequencies are exported and imported' '
    scaled_to "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}," $gpt_neox \
        --rope-scaling-type linear --rope-scaling-factor 4 &&
    scaled_to "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"original_max_position_embeddings\": 16, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0}" \
        $llama --rope-scaling-type llama3 --rope-scaling-factor 8 --original-max-position-embeddings 16 &&
    yarn="--rope-scaling-type yarn --rope-scaling-factor 4 --original-max-position-embeddings 16 --rope-beta-fast 3 --rope-attention-factor 1.5" &&
    scaled_to "\"beta_fast\": 3.0, \"beta_slow\": 1.0, \"attention_factor\": 1.5}" $qwen3 $yarn --seq-length 64 &&
    grep "\"max_position_embeddings\": 64," scaled-hf/config.json &&
    sed "s/\"attention_factor\": 1.5/\"mscale\": 2, \"mscale_all_dim\": 0.5/" scaled-hf/config.json >c && mv c scaled-hf/config.json &&
    mds_ckpt import scaled-hf scaled-mscale && mds_ckpt info --config scaled-mscale | grep "^  rope_attention_factor: 1\.194" &&
    pretrain $llama --rope-scaling-type ntk --rope-scaling-factor 4 --train-iters 1 --save ntk &&
    mds_ckpt export --format hf --output ntk-hf ntk && grep "\"rope_theta\": 160000.0" ntk-hf/config.json && ! grep scaling ntk-hf/config.json
'
test_expect_success 'rope_scaling: dynamic, a factor of 1, without a length' '
    with llama "s/\"vocab_size\"/\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}, &/" &&
    mds_ckpt import changed dynamic 2>err && grep "warn: .*of type dynamic .* up to 32 tokens; .* ntk --rope-scaling-factor F, with F = 4 n - 3" err &&
    mds_ckpt info --config dynamic | grep "^  # rope_scaling_type: none " &&
    with llama "s/\"vocab_size\"/\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 1.0, \"rope_theta\": 10000.0}, \"rope_scaling\": null, &/" &&
    mds_ckpt import changed one && mds_ckpt info --config one | grep "^  rope_scaling_factor: 1 " &&
    with llama "s/\"vocab_size\"/\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": null, \"original_max_position_embeddings\": 8}, &/" &&
    mds_ckpt import changed null && mds_ckpt info --config null | grep "^  rope_scaling_factor: 4 " &&
    with llama "s/\"vocab_size\"/\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}, &/" &&
    mds_ckpt import changed short && mds_ckpt info --config short | grep "^  rope_original: 32 "
'
test_expect_success 'newer names of the rotary settings' '
    with llama "s/\"rope_theta\": 10000.0/\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}/" &&
    mds_ckpt import changed newer && mds_ckpt diff --weights llama-ours newer
'
# by_type SLIDING FULL: ministral with these rotary settings for each type of layer
by_type() {
    with ministral "s/\"rope_theta\": 10000.0/\"rope_parameters\": {\"sliding_attention\": $1, \"full_attention\": $2}/"
}
test_expect_success 'rotary settings by type of layer are read if all are the same' '
    yarn="\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 8" &&
    by_type "{$yarn, \"rope_theta\": 5e5}" "{\"rope_theta\": 500000.0, $yarn, \"beta_fast\": null}" &&
    mds_ckpt import changed typed-rope && mds_ckpt info --config typed-rope >rope &&
    grep "^  rope_scaling_type: yarn " rope && grep "^  rope_scaling_factor: 4 " rope && grep "^  rotary_base: 500000 " rope &&
    by_type "{\"rope_theta\": 1e4}" "{\"rope_type\": \"default\", \"rope_theta\": 1e4}" && mds_ckpt import changed typed-default &&
    by_type "{\"rope_theta\": 10000.0}" "{\"rope_theta\": 1e6}" &&
    not_in "config.json:[0-9]*: rope_parameters: rope_theta is 1e6 in full_attention and 10000.0 in sliding_attention; mds rotates all layers alike" &&
    by_type "{\"rope_theta\": 1e4}" "{\"rope_theta\": 1e4, \"rope_type\": \"linear\", \"factor\": 8.0}" &&
    not_in "rope_parameters: rope_type is linear in full_attention and default in sliding_attention" &&
    by_type "{\"rope_theta\": 1e4}" "{\"rope_theta\": 1e4, \"factor\": 8.0}" &&
    not_in "rope_parameters: factor is 8.0 in full_attention and missing in sliding_attention"
'
test_expect_success 'tensors that are missing, of another shape, or surplus' '
    with gpt2 "s/\"n_layer\": 2/\"n_layer\": 3/" && not_in "changed: tensor transformer.h.2.ln_1.weight is missing" &&
    with gpt2 "s/\"n_layer\": 2/\"n_layer\": 1/" &&
    not_in "model.safetensors: tensor transformer.h.1.* is unknown" &&
    with gpt2 "s/\"n_inner\": 80/\"n_inner\": 96/" &&
    not_in "c_fc.weight is 32 x 80, but config.json says 32 x 96" &&
    with llama "s/\"vocab_size\": 66/\"vocab_size\": 65/" && not_in "embed_tokens.weight is 66 x 32"
'
test_expect_success 'a vector of rows without columns' '
    rm -rf changed && mkdir changed && cp gpt2/config.json changed &&
    LC_ALL=C sed s/transformer.ln_f.bias/transformer.attn.bias/ gpt2/model.safetensors >changed/a.safetensors &&
    printf "\\200\\0\\0\\0\\0\\0\\0\\0%-128s" \
        "{\"transformer.ln_f.bias\": {\"dtype\": \"F32\", \"shape\": [32, 0], \"data_offsets\": [0, 0]}}" \
        >changed/b.safetensors &&
    echo "{\"weight_map\": {\"a\": \"a.safetensors\", \"b\": \"b.safetensors\"}}" \
        >changed/model.safetensors.index.json &&
    not_in "ln_f.bias is 32 x 0, but config.json says 32 x 1"
'
test_expect_success 'files that are missing or damaged' '
    rm -rf changed && cp -r llama-many changed && rm changed/model-00002-* &&
    not_in "changed/model-00002-of-.*: No such file" &&
    cp llama-many/model-00002-* changed && truncate -s -8 changed/model-00002-* &&
    not_in "model-00002-of-.*cut short" &&
    rm changed/model-* && not_in "changed/model-00001" &&
    echo "{}" >changed/model.safetensors.index.json && not_in "weight_map is missing" &&
    echo "{\"weight_map\": {\"a\": \"../x\"}}" >changed/model.safetensors.index.json &&
    not_in "which is not a file name" &&
    rm changed/model* && not_in "has neither model.safetensors" &&
    : >changed/pytorch_model.bin && not_in "save_pretrained" &&
    rm changed/config.json && not_in "config.json: No such file"
'
test_expect_success '--overwrite replaces an earlier export, and an import' '
    mds_ckpt export --format hf --max-shard-bytes 20k --output again gpt2-ours && ls again >several && grep model-00002 several &&
    echo mine >again/README.md && mds_ckpt export --format hf --overwrite --output again gpt2-ours &&
    mds_ckpt export --format hf --output fresh gpt2-ours && diff -r fresh again >out; grep "Only in again: README.md" out && test "$(wc -l <out)" -eq 1 &&
    mds_ckpt import again imported && mds_ckpt import again imported --overwrite && mds_ckpt verify imported &&
    mds_ckpt diff --weights imported gpt2-ours
'
unset MDS_OVERWRITE
test_expect_success 'user errors are one line, and nothing is overwritten' '
    test_must_fail mds_ckpt export --format hf --output gpt2 gpt2-ours 2>err &&
    grep "gpt2/config.json: exists already" err &&
    test_must_fail mds_ckpt import gpt2 gpt2-back 2>err && grep "iter_0000000: exists already" err &&
    test_must_fail mds_ckpt import gpt2 gpt2-ours 2>err && grep "gpt2-ours: holds a run at iteration 3" err &&
    cp -r gpt2-ours forced && mds_ckpt import --force gpt2 forced && test "$(cat forced/latest)" = iter_0000000 &&
    test_must_fail mds_ckpt export --type bf16 --output x.safetensors gpt2-ours 2>err &&
    grep "are for --format hf" err &&
    test_must_fail mds_ckpt export --format json --output x gpt2-ours 2>err &&
    grep "format .json.: must be one of mds, hf" err &&
    test_must_fail mds_ckpt import gpt2 2>err && grep "one for the checkpoint" err &&
    test_must_fail mds_ckpt import gpt2 x --num-layers 5 2>err && grep "not concern the layout" err &&
    test_must_fail mds_ckpt import gpt2 x --show-config 2>err && grep "not concern the layout" err &&
    test_must_fail mds_ckpt import gpt2 "" 2>err && grep "import: an operand is empty" err && test ! -e x
'

test_done
