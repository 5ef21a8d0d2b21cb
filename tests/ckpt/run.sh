# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Sourced by the tests of checkpoints: a small model, a folder for the test, TAP output.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}" "${builddir:?}"
# shellcheck source=tests/forget.sh
. "$srcdir/tests/forget.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/mds-ckpt.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS OPENBLAS_NUM_THREADS

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz" \
    > log 2>&1 || cat log

# Numbers depend on the step, the data's order and dropout; steps are short.
model='--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --make-vocab-size-divisible-by 8 --global-batch-size 8 --lr 1e-3
    --hidden-dropout 0.1 --attention-dropout 0.1 --clip-grad 1 --adam-eps 1e-5
    --log-interval 1 --eval-iters 0 --threads 1 --data-path t.h5'

# pretrain RANKS OPTIONS...
pretrain() {
    ranks=$1
    shift
    rm -f go.jsonl e.jsonl # resumed runs would append
    # MPIEXEC and the options are lists of words
    # shellcheck disable=SC2086
    timeout -k 5 120 $MPIEXEC -n "$ranks" mds_pretrain $model "$@" > log 2>&1 < /dev/null
}

# "iteration loss" of every step in a file of --metrics-jsonl
losses() {
    sed -n 's/.*"event":"step".*"iteration":\([0-9]*\),.*"lm_loss":\([^,]*\),.*/\1 \2/p' "$1"
}

# near LIMIT REFERENCE FILE: check that losses of the same iterations differ by at most
# LIMIT (LIMIT 0: every digit is equal), and that FILE has at least one.
near() {
    losses "$2" > reference.loss
    losses "$3" > this.loss
    awk -v limit="$1" 'NR == FNR { want[$1] = $2; next }
        { d = $2 - want[$1]; if (d < 0) d = -d; if (d > worst) worst = d }
        !($1 in want) || (limit == 0 ? $2 "" != want[$1] "" : !(d <= limit)) { bad = 1 }
        END { print FNR " steps, losses differ by " worst + 0; exit bad || !FNR }' \
        reference.loss this.loss
}

tests=0 failed=0
# tap_line STATUS NAME: print a TAP line, and after a failure the log of the last command
tap_line() {
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tests - $2"
        return
    fi
    failed=$((failed + 1))
    echo "not ok $tests - $2"
    sed 's/^/# /' log
}

finish() {
    echo "1..$tests"
    [ "$failed" -eq 0 ]
}
