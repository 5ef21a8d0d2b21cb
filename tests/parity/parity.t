#!/bin/sh
# mds_pretrain against PyTorch (reference.py): initial weights, first loss, gradients, and
# 50 steps of AdamW, for the GPT and the Llama shape.  Weights travel both ways: mds
# makes the GPT's, Python the Llama's.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}"

if [ -z "$PYTHON_TORCH" ]; then
    echo "1..0 # SKIP no python3 with PyTorch (Debian: apt install python3-torch)"
    exit 0
fi
here=$srcdir/tests/parity
genome=$srcdir/tests/data/lambda.fna.gz
work=$(mktemp -d "${TMPDIR:-/tmp}/mds-parity.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
tap=$work/tap
: > "$tap"
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

# One TAP line for a command: result DESCRIPTION COMMAND...
result() {
    what=$1
    shift
    if "$@" > "$work/log" 2>&1; then
        echo "ok - $what"
    else
        echo "not ok - $what"
        sed 's/^/# /' "$work/log"
    fi | tee -a "$tap"
}

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
    $MPIEXEC -n "$ranks" mds_pretrain --data-path "$work/tokens.h5" $steps \
        --trace-dir "$work/$name" --trace-steps 50 --eval-iters 0 --log-interval 50 \
        --threads 1 --metrics-jsonl "$work/$name.jsonl" "$@"
}

# compare NAME OPTIONS...
compare() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$PYTHON_TORCH" "$here/reference.py" check "$work/$name" "$work/$name.jsonl" \
        --name "$name" $steps "$@" > "$work/out" 2> "$work/err" ||
        grep -q '^not ok' "$work/out" || {
        echo "not ok - $name: the comparison ended early"
        sed 's/^/# /' "$work/err"
    } >> "$work/out"
    tee -a "$tap" < "$work/out"
}

# How many rows the word embedding of a safetensors file has.
padded_vocab() {
    PYTHONPATH=$here "$PYTHON_TORCH" -c 'import stfile, sys
print(stfile.load(sys.argv[1])["embedding.word.weight"].shape[0])' "$1"
}

same_weights() {
    PYTHONPATH=$here "$PYTHON_TORCH" -c 'import stfile, sys
a, b = (stfile.load(p) for p in sys.argv[1:])
sys.exit(a.keys() != b.keys() or any(a[n].tobytes() != b[n].tobytes() for n in a))' "$@"
}

mkdir "$work/gpt" "$work/llama" "$work/llama-2"
result "tokens of a genome" \
    mds_data make --tokenizer codon --output "$work/tokens.h5" "$genome"
# the shapes are lists of words
# shellcheck disable=SC2086
{
    result "gpt: mds trains 50 steps" pretrain gpt 1 $gpt
    compare gpt $gpt
    result "llama: PyTorch writes weights" "$PYTHON_TORCH" "$here/reference.py" \
        init "$work/llama.safetensors" --seq-length 64 $llama \
        --padded-vocab "$(padded_vocab "$work/gpt/weights.safetensors")"
    result "llama: mds trains from them" pretrain llama 1 $llama \
        --init-weights "$work/llama.safetensors"
    result "llama: mds started from the very same bits" same_weights \
        "$work/llama.safetensors" "$work/llama/weights.safetensors"
    compare llama $llama
    result "llama: 2 ranks with recompute train" pretrain llama-2 2 $llama \
        --init-weights "$work/llama.safetensors" --recompute-granularity full
    compare llama-2 $llama
}

echo "1..$(grep -c -e '^ok' -e '^not ok' "$tap")"
! grep -q '^not ok' "$tap"
