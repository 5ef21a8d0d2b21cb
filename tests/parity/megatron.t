#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mds_from_megatron: layer files as Megatron-DeepSpeed writes them are converted to exactly the
# weights that they were made from.
# shellcheck source=tests/parity/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/parity/setup.sh"

# pretrain OPTIONS...: one step
pretrain() {
    mds_pretrain --data-path t.h5 --train-iters 1 --global-batch-size 2 --seq-length 32 \
        --lr 0 --eval-iters 0 --threads 1 "$@"
}

same_arrays() {
    "$python" -c 'import stfile, sys
a, b = (stfile.load(p) for p in sys.argv[1:])
bad = [n for n in a.keys() | b.keys()
       if n not in a or n not in b or a[n].shape != b[n].shape or (a[n] != b[n]).any()]
print(bad)
sys.exit(bool(bad))' "$@"
}

# converted NAME RANKS HEADS GROUPS "FLAGS OF THE SCRIPT" OPTIONS...
converted() {
    name=$1 ranks=$2 heads=$3 groups=$4 flags=$5
    shift 5
    # shellcheck disable=SC2086  # words
    "$python" "$here/reference.py" init "$name.st" --padded-vocab 128 \
        --seq-length 32 --num-layers 3 --num-attention-heads "$heads" "$@" &&
        "$python" "$here/megatron.py" "$name.st" "$name" "$ranks" "$heads" "$groups" \
            ${flags#--} &&
        "$python" "$srcdir/scripts/mds_from_megatron" --num-attention-heads "$heads" \
            --num-key-value-heads "$groups" $flags "$name" "$name-back.st" &&
        same_arrays "$name.st" "$name-back.st" &&
        pretrain --num-layers 3 --num-attention-heads "$heads" "$@" \
            --init-weights "$name-back.st" --export-weights "$name-mds.st" &&
        same_arrays "$name.st" "$name-mds.st"
}

result "GPT, 2 tensor ranks" converted gpt 2 4 4 "" --hidden-size 48
result "Llama with grouped heads, 2 tensor ranks" converted llama 2 8 4 --swiglu \
    --hidden-size 64 --ffn-hidden-size 80 --num-key-value-heads 4 --normalization rmsnorm \
    --swiglu --disable-bias-linear --use-rotary-position-embeddings \
    --untie-embeddings-and-output-weights
refused() {
    # shellcheck disable=SC2086  # words
    ! "$python" "$srcdir/scripts/mds_from_megatron" --num-attention-heads $1 "$2" \
        never.st > out 2>&1 && cat out && test "$(wc -l < out)" -eq 1 && test -z "$(ls never* 2> /dev/null)"
}
result "a rank's file is missing: one line" \
    eval 'rm gpt/layer_03-model_01-model_states.pt; refused 4 gpt && grep "layer 3 has ranks" out'
result "wrong number of heads: one line" eval 'refused 12 llama && grep "are not 12 groups" out'
result "a file that is not PyTorch's: one line" \
    eval 'mkdir bad && echo no > bad/layer_01-model_00-model_states.pt && refused 4 bad && grep "not read by" out'
result "no embedding: one line" eval \
    'mkdir part && cp llama/layer_03* part && refused "8 --num-key-value-heads 4 --swiglu" part && grep "no layer has word_emb" out'
result "groups that do not divide the heads: one line" eval \
    'refused "10 --num-key-value-heads 4" llama && grep "not a multiple" out'
result "no layer files: one line" eval 'refused 4 . && grep "there are no layer_XX" out'
finish
