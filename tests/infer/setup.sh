# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Begins the tests of mds_infer: a model of codons in the folder `model`, and bases of a genome.
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"
gzip -dc "$srcdir/tests/data/lambda.fna.gz" | grep -v '>' | tr -d '\n' >bases

# pretrain OPTIONS...: a short training
pretrain() {
    mds_pretrain --hidden-size 32 --num-attention-heads 4 --lr 1e-2 --eval-iters 0 --threads 1 \
        --global-batch-size 4 --train-iters 5 "$@" </dev/null
}
rope='--use-rotary-position-embeddings'
# shellcheck disable=SC2086
pretrain --num-layers 2 --seq-length 64 --data-path t.h5 $rope --save model >trained 2>&1

# records N CODONS STEP: N records of FASTA, each STEP codons longer than the one before
records() {
    awk -v n="$1" -v codons="$2" -v step="$3" '{
        for (i = 0; i < n; i++)
            printf ">r%d some words\n%s\n", i + 1, substr($0, 1 + 200 * i, 3 * (codons + i * step)) }' bases
}
# score ARGUMENTS...: the table
score() {
    mds_infer score --load model "$@"
}
# table FILE: the table of memory of a dry run or of a log
table() {
    sed -n '/^  purpose/,/^  all/s/^  \([a-z]*\) .* \([0-9.]* [KMGT]*i*B\)  *[0-9.]* %$/\1 \2/p' "$1"
}
# near FILE FILE [TOLERANCE]: the same tables, but for rounding
near() {
    awk -v tolerance="${3:-1e-6}" -F '\t' '
        function differ(a, b,   d, m) {
            d = a - b; m = a < 0 ? -a : a
            return a != b && (a !~ /^-?[0-9.]/ || (d < 0 ? -d : d) > tolerance * m)
        }
        NR == FNR { n = NR; line[NR] = $0; next }
        {
            k = split(line[FNR], was, "\t")
            if (k != NF) { print "line " FNR ": " k " columns, then " NF; bad = 1 }
            for (i = 1; i <= NF; i++)
                if (differ(was[i], $i)) { print "line " FNR ": " was[i] " " $i; bad = 1 }
        }
        END { exit bad || FNR != n }' "$1" "$2"
}
