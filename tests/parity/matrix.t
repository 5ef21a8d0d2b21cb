#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Check that every layout gives the same results as one rank: losses, gradient norms, initial
# weights, first gradients, the weights after 5 steps and their loss on held-out data, of which
# the last micro-batches are not full.  compare.c has the limits,
# layouts.awk the list of layouts.
#
#     matrix.t              the rows of quick.list
#     matrix.t all          every row; PARITY_SHARD=2/10: the second tenth of them
#     matrix.t NAME...      the rows of these names, as does PARITY_ROWS="NAME..."
#
# PARITY_DEVICE=cuda: on GPUs; PARITY_RANKS=4: only rows of up to 4 ranks; PARITY_FLAGS: further
# options for all rows.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}" "${builddir:?}"
# shellcheck source=tests/forget.sh
. "$srcdir/tests/forget.sh"

here=$srcdir/tests/parity
compare=$builddir/tests/parity/compare
train_rows=$builddir/tests/parity/train_rows
work=$(mktemp -d "${TMPDIR:-/tmp}/mds-matrix.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
mkdir nvme
: > results

common="--train-iters 5 --global-batch-size 8 --seq-length 64
    --hidden-size 64 --num-attention-heads 8 --make-vocab-size-divisible-by 8 --lr 1e-3
    --lr-decay-style constant --weight-decay 0.1 --adam-eps 1e-5 --clip-grad 1.0
    --split 955,45,0 --eval-iters 1e9 --threads 1 --device ${PARITY_DEVICE:-cpu} ${PARITY_FLAGS-}"

# options_of PART: the options for one part of a model's name, MODEL+PART+...
options_of() {
    case $1 in
    gpt) echo '--num-layers 8' ;;
    llama) echo '--num-layers 6 --num-key-value-heads 4 --normalization RMSNorm --swiglu
        --disable-bias-linear --use-rotary-position-embeddings
        --untie-embeddings-and-output-weights' ;;
    # With learned positions the true gradient of the keys' beta is 0, so rounding is all there is.
    qk) echo '--qk-layernorm --use-rotary-position-embeddings' ;;
    qkrow) echo '--qk-layernorm --qk-norm-across-heads --use-rotary-position-embeddings' ;;
    kv1) echo '--num-key-value-heads 1' ;;
    kv2) echo '--num-key-value-heads 2' ;;
    kv3) echo '--num-attention-heads 12 --num-key-value-heads 3 --kv-channels 8' ;;
    kv6) echo '--num-attention-heads 12 --num-key-value-heads 6 --kv-channels 8' ;;
    both) echo '--use-parallel-residual' ;;
    after) echo '--norm-placement after' ;;
    around) echo '--norm-placement both' ;;
    mup) echo '--use-mup --mup-base-hidden-size 16 --mup-base-head-dim 4 --mup-embedding-mult 3' ;;
    muon) echo '--optimizer muon' ;;
    clip) echo '--qk-clip --qk-clip-threshold 9 --qk-clip-alpha 0.4 --init-method-std 0.2' ;;
    zloss) echo '--z-loss 0.1' ;;
    # In a ring of 4 the window spans two chunks.
    win) echo '--window-size 11 --window-attn-skip-freq 3' ;;
    alibi) echo '--position-embedding-type alibi' ;;
    relu2) echo '--squared-relu' ;;
    erf) echo '--exact-gelu' ;;
    qkvbias) echo '--add-qkv-bias' ;;
    experts) echo '--disable-bias-linear --num-experts 5 --moe-ffn-hidden-size 96
        --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.1 --moe-z-loss-coeff 0.01' ;;
    experts8) echo '--disable-bias-linear --num-experts 8 --moe-ffn-hidden-size 48
        --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.1 --moe-z-loss-coeff 0.01' ;;
    shared) echo '--moe-shared-expert-intermediate-size 128' ;;
    sparse) echo '--moe-layer-freq [0]+[1,0,1]+[1]*2' ;;
    lone) echo '--moe-router-topk 1 --moe-router-pre-softmax' ;;
    expert1) echo '--disable-bias-linear --num-experts 3 --moe-router-topk 1 --moe-router-pre-softmax' ;;
    expert1sigmoid) echo '--disable-bias-linear --num-experts 4 --moe-router-topk 1
        --moe-router-score-function sigmoid' ;;
    sigmoid) echo '--moe-router-score-function sigmoid --moe-router-topk-scaling-factor 1.5' ;;
    bias) echo '--moe-router-enable-expert-bias --moe-router-bias-update-rate 0.03' ;;
    docs) echo '--pack-documents on' ;;
    stride) echo '--window-stride 40' ;;
    ramp) echo '--rampup-batch-size 4 4 8' ;;
    drop) echo '--hidden-dropout 0.1 --attention-dropout 0.1' ;;
    bf16) echo '--bf16' ;;
    fp16) echo '--fp16 --initial-loss-scale 1024' ;;
    # FP8 needs heads of 16.
    fp8) echo '--bf16 --fp8-format hybrid --kv-channels 16' ;;
    fp8dx) echo '--bf16 --fp8-format hybrid --no-fp8-wgrad --kv-channels 16' ;;
    wide) echo '--bf16 --kv-channels 16' ;;
    esac
}

# Print the selected rows, one per line.
choose() {
    awk -f "$here/layouts.awk" > list
    case ${1:-quick} in
    all) awk -v shard="${PARITY_SHARD:-1/1}" 'BEGIN { split(shard, s, "/") }
        # hashed, so that each shard has rows of all kinds
        int(NR * 2654435761 % 4294967296 / 4294967296 * s[2]) == s[1] - 1' list ;;
    quick) sed 's/#.*//' "$here/quick.list" | pick ;;
    *) printf '%s\n' "$@" | pick ;;
    esac
}

# Read names, print their rows.  An unknown name becomes a row that fails.
pick() {
    awk 'NR == FNR { row[$1] = $0; next } NF { print $1 in row ? row[$1] : $1 " 0 gpt" }' \
        list -
}

# Read rows, print the one-rank runs that they are compared with.  16-bit runs are compared
# with fp32 as well, FP8 with bf16.
references() {
    awk '{
        if ($3 ~ /16$/) {
            base = $3
            sub(/\+[^+]*$/, "", base)
            print "one-" base, 1, base
        }
        if ($3 ~ /fp8/) {
            base = $3
            sub(/fp8(dx)?/, "wide", base)
            print "one-" base, 1, base
        }
        print "one-" $3, 1, $3
    }' | sort -u
}

# train_line NAME RANKS MODEL OPTION...: the row's line in the input of train_rows
train_line() {
    name=$1 model=$3
    shift 3
    case $model in
    *kinds*) words='--data-path kinds.h5' ;;
    *docs*) words='--data-path docs.h5' ;;
    *) words='--data-path tokens.h5' ;;
    esac
    for part in $(echo "$model" | tr + ' '); do
        words="$words $(options_of "$part")"
    done
    # shellcheck disable=SC2086  # lists of words
    echo "$name" $common $words --metrics-jsonl "$name/steps.jsonl" --trace-dir "$name" \
        --export-weights "$name/final.safetensors" "$@"
}

# tap_line STATUS NAME RANKS FILE: print a TAP line, and on failure the file
tap_line() {
    [ "$1" -eq 0 ] || printf 'not '
    printf 'ok - %-46s %d  %s\n' "$2" "$3" "$(head -n 1 figures)"
    [ "$1" -eq 0 ] || sed 's/^/# /' "$4"
}

# compare_row NAME RANKS MODEL...: compare a trained row with its reference
compare_row() {
    reference=one-$3 limit=
    case $1/$3 in
    one-*16/*) reference=${reference%+*} limit='--losses 2e-2' ;;
    one-*fp8*/*) reference=$(echo "$reference" | sed 's/fp8\(dx\)*/wide/') limit='--losses 2e-2' ;;
    one-*/*) return ;;
    */*16) limit='--losses 5e-3' ;;
    */*fp8*) limit='--losses 5e-3 --norms 6e-2' ;;
    esac
    # shellcheck disable=SC2086  # empty, or an option and its value
    "$compare" $limit "$reference" "$1" > figures 2>&1
    tap_line $? "$1" "$2" figures
}

# report_untrained NAME RANKS: a row that could not be trained; print its part of the log
report_untrained() {
    echo > figures
    sed -n "/^trains $1\$/,\$p" log > why
    [ -s why ] || cp log why
    tap_line 1 "$1" "$2" why
}

# train FILE RANKS: train the rows in FILE with one mpiexec, and start again after a failure
train() {
    [ "$2" -gt 0 ] || echo "layouts.awk has no such row" > log
    while [ -s "$1" ]; do
        # shellcheck disable=SC2086  # the row's words
        while read -r row; do train_line $row; done < "$1" > lines
        cut -d ' ' -f 1 "$1" | xargs mkdir -p
        # MPIEXEC is a list of words
        # shellcheck disable=SC2086
        [ "$2" -eq 0 ] || timeout -k 5 $((${PARITY_TIMEOUT_S:-120} + 5 * $(wc -l < "$1"))) \
            $MPIEXEC -n "$2" "$train_rows" lines > log 2>&1 < /dev/null
        status=$? trained=$(grep -c '^trained ' log)
        head -n "$trained" "$1" > ready
        # shellcheck disable=SC2086
        while read -r row; do compare_row $row; done < ready
        tail -n +$((trained + 1)) "$1" > rest
        if read -r name _ < rest; then report_untrained "$name" "$2"
        elif [ $status -ne 0 ]; then report_untrained "after-$trained-rows" "$2"
        fi
        cut -d ' ' -f 1 "$1" | grep -v '^one-' | xargs rm -rf
        tail -n +2 rest > "$1"
    done
}

mds_data make --tokenizer codon --output tokens.h5 "$srcdir/tests/data/lambda.fna.gz" \
    > log 2>&1 || sed 's/^/# /' log
# The same genome in records of 2 to 101 codons: most are shorter than a row, some longer.
gunzip -c "$srcdir/tests/data/lambda.fna.gz" | grep -v '>' | tr -d '\n' | fold -w 30 |
    awk 'NR >= next_record { print ">r" NR; next_record = NR + NR * NR % 11 + 1 }
        { print NR % 7 ? $0 : substr($0, 1, 3 + NR % 27) }' > docs.fa
mds_data make --tokenizer codon --output docs.h5 docs.fa > log 2>&1 || sed 's/^/# /' log
# And with every third line soft-masked, so that its tokens count a tenth.
awk 'NR % 3 == 0 && !/>/ { $0 = tolower($0) } 1' docs.fa > kinds.fa
mds_data make --tokenizer codon --lowercase-loss-weight 0.1 --output kinds.h5 kinds.fa \
    > log 2>&1 || sed 's/^/# /' log
# shellcheck disable=SC2086  # a list of words
[ $# -gt 0 ] || set -- ${PARITY_ROWS-}
choose "$@" | awk -v most="${PARITY_RANKS:-8}" '$2 <= most' > rows
echo "# $(wc -l < rows) of $(wc -l < list) layouts"
references < rows > ones
train ones 1 | tee -a results
awk '{ print $2 }' rows | sort -nu | while read -r ranks; do
    awk -v n="$ranks" '$2 == n' rows | split -l 40 - "batch-$ranks-"
    for batch in "batch-$ranks-"*; do
        train "$batch" "$ranks"
    done
done | tee -a results
if [ -d one-gpt ] && [ -d one-gpt+drop ]; then
    "$compare" one-gpt one-gpt+drop > figures
    [ "$(grep -c ', more than ' figures)" -eq 4 ]
    tap_line $? "dropout changes everything but the initial weights" 1 figures | tee -a results
fi

failed=$(grep -c '^not ok' results)
echo "1..$(grep -c -e '^ok' -e '^not ok' results)"
echo "# $failed of $(wc -l < rows) layouts differ from one rank"
[ "$failed" -eq 0 ]
