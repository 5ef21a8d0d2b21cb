#!/bin/sh
# Every layout gives the numbers of one rank: losses, gradient norms, start weights, first
# gradients and the weights after 5 steps (limits: compare.c; the list: layouts.awk).
#
#     matrix.t              the rows of quick.list
#     matrix.t all          every row; PARITY_SHARD=2/10: the second tenth of them
#     matrix.t NAME...      these rows
#
# PARITY_DEVICE=cuda: on GPUs; PARITY_RANKS=4: rows of no more ranks.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}" "${builddir:?}"

here=$srcdir/tests/parity
compare=$builddir/tests/parity/compare
work=$(mktemp -d "${TMPDIR:-/tmp}/mds-matrix.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
mkdir nvme
: > results

common='--data-path tokens.h5 --train-iters 5 --global-batch-size 8 --seq-length 64
    --hidden-size 64 --num-attention-heads 8 --make-vocab-size-divisible-by 8 --lr 1e-3
    --lr-decay-style constant --weight-decay 0.1 --adam-eps 1e-5 --clip-grad 1.0
    --eval-iters 0 --threads 1'
common="$common --device ${PARITY_DEVICE:-cpu}"

# Options of a part of MODEL+...
words_of() {
    case $1 in
    gpt) echo '--num-layers 8' ;;
    llama) echo '--num-layers 6 --num-key-value-heads 4 --normalization RMSNorm --swiglu
        --disable-bias-linear --use-rotary-position-embeddings
        --untie-embeddings-and-output-weights' ;;
    drop) echo '--hidden-dropout 0.1 --attention-dropout 0.1' ;;
    bf16) echo '--bf16' ;;
    fp16) echo '--fp16 --initial-loss-scale 1024' ;;
    esac
}

# The rows asked for, one a line.
choose() {
    awk -f "$here/layouts.awk" > list
    case ${1:-quick} in
    all) awk -v shard="${PARITY_SHARD:-1/1}" 'BEGIN { split(shard, s, "/") }
        # scattered, so that each part has something of everything
        int(NR * 2654435761 % 4294967296 / 4294967296 * s[2]) == s[1] - 1' list ;;
    quick) sed 's/#.*//' "$here/quick.list" | pick ;;
    *) printf '%s\n' "$@" | pick ;;
    esac
}

# The rows whose names are read; a name without a row becomes a row that fails.
pick() {
    awk 'NR == FNR { row[$1] = $0; next } NF { print $1 in row ? row[$1] : $1 " 0 gpt" }' \
        list -
}

# train FOLDER RANKS MODEL+... OPTIONS...
train() {
    folder=$1 n=$2 words=
    for part in $(echo "$3" | tr + ' '); do
        words="$words $(words_of "$part")"
    done
    shift 3
    mkdir "$folder" || return
    [ "$n" -gt 0 ] || {
        echo "layouts.awk has no such row" > log
        return 1
    }
    # MPIEXEC and the options are lists of words
    # shellcheck disable=SC2086
    timeout -k 5 "${PARITY_TIMEOUT_S:-120}" $MPIEXEC -n "$n" mds_pretrain $common $words \
        --metrics-jsonl "$folder/steps.jsonl" --trace-dir "$folder" \
        --export-weights "$folder/final.safetensors" "$@" > log 2>&1 < /dev/null
}

# verdict STATUS NAME RANKS FILE: a line of the table; on failure what the file says
verdict() {
    [ "$1" -eq 0 ] || printf 'not '
    printf 'ok - %-46s %d  %s\n' "$2" "$3" "$(head -n 1 figures)"
    [ "$1" -eq 0 ] || sed 's/^/# /' "$4"
}

# measure NAME RANKS MODEL+... REFERENCE LIMIT OPTIONS...: train and compare
measure() {
    name=$1 ranks=$2 model=$3 reference=$4 limit=$5
    shift 5
    echo > figures
    if ! train "$name" "$ranks" "$model" "$@"; then
        verdict 1 "$name" "$ranks" log
        return
    fi
    # shellcheck disable=SC2086  # no word, or an option and its value
    "$compare" $limit "$reference" "$name" > figures 2>&1
    verdict $? "$name" "$ranks" figures
}

# One rank, once for each model; 16 bits are held against 32.
reference() {
    [ ! -d "one-$1" ] || return
    case $1 in
    *16)
        reference "${1%+*}"
        measure "one-$1" 1 "$1" "one-${1%+*}" '--losses 2e-2'
        ;;
    *) train "one-$1" 1 "$1" || verdict 1 "one-$1" 1 log ;;
    esac
}

mds_data make --tokenizer codon --output tokens.h5 "$srcdir/tests/data/lambda.fna.gz" \
    > log 2>&1 || sed 's/^/# /' log
choose "$@" | awk -v most="${PARITY_RANKS:-8}" '$2 <= most' > rows
echo "# $(wc -l < rows) of $(wc -l < list) layouts"
while read -r name ranks model options; do
    {
        case $model in *16) limit='--losses 5e-3' ;; *) limit= ;; esac
        (reference "$model") # its variables are its own
        # shellcheck disable=SC2086
        measure "$name" "$ranks" "$model" "one-$model" "$limit" $options
        rm -rf "$name"
    } | tee -a results
done < rows
if [ -d one-gpt ] && [ -d one-gpt+drop ]; then
    "$compare" one-gpt one-gpt+drop > figures
    [ "$(grep -c ', more than ' figures)" -eq 4 ]
    verdict $? "one-gpt+drop differs in all but its start" 1 figures | tee -a results
fi

failed=$(grep -c '^not ok' results)
echo "1..$(grep -c -e '^ok' -e '^not ok' results)"
echo "# $failed of $(wc -l < rows) layouts differ from one rank"
[ "$failed" -eq 0 ]
