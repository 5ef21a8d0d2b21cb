#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='the vocabulary of a checkpoint: it never shrinks, and grows if that is asked for'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"
# shellcheck source=tests/cli/megatron.sh
. "$srcdir/tests/cli/megatron.sh"

# ids NAME WORDS: a token file of as many words
ids() {
    awk -v n="$2" 'BEGIN {
        for (d = 0; d < 20; d++) { for (i = 0; i < 90; i++) printf "%d ", (i * (d + 3) + d) % (n - 1) + 1; print "" }
    }' | mds_data make --tokenizer ids --vocab-size "$2" --eod 0 --output "$1.h5" - >/dev/null
}
megatron wide 'id = (i * (d + 3)) % 120 + 1' && megatron narrow 'id = 5 + (i + d) % 3' && ids all 121 && ids more 200

# pretrain OPTIONS...: one rank, or $n; what it printed is in out
n=1
pretrain() {
    # shellcheck disable=SC2086  # lists of words
    timeout 60 $MPIEXEC -n $n mds_pretrain --threads 1 --seq-length 32 --global-batch-size 4 --split 1 \
        --eval-iters 0 --log-interval 1 "$@" >out 2>&1 </dev/null
}
shape='--num-layers 2 --hidden-size 32 --num-attention-heads 4'
# evaluated OPTIONS...: the loss of checkpoint b
evaluated() {
    pretrain --load b --skip-train --split 0,1,0 --eval-iters 5 "$@" &&
        sed -n 's/.*lm loss value: \([^ ]*\) .*/\1/p' out
}
# steps FILE: losses
steps() {
    sed -n 's/.*"event":"step".*"lm_loss":\([^,]*\),.*/\1/p' "$1"
}
# rows CHECKPOINT TENSOR FIRST LAST: rows of a weight, one a line
rows() {
    rm -f rows.st && mds_ckpt export --output rows.st "$1" >/dev/null &&
        header=$(od -An -tu4 -N4 rows.st) &&
        at=$(head -c $((header + 8)) rows.st | tail -c +9 | sed "s/.*\"$2\":[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/") &&
        od -An -v -tf4 -w128 -j $((header + 8 + at + 128 * $3)) -N $((128 * ($4 - $3 + 1))) rows.st
}

test_expect_success 'data with less words: the loss is over all words of the checkpoint' '
    pretrain $shape --data-path wide --train-iters 3 --save b && mds_ckpt info b | grep "^vocabulary: 121 " &&
    evaluated --data-path narrow --vocab-size 121 >want && evaluated --data-path narrow >got && test -s want &&
    test_cmp want got && ! grep warn out
'
test_expect_success 'and at any tensor-parallel size, in training, in export, and in the next job' '
    pretrain --load b --data-path narrow --train-iters 6 --save on1 --metrics-jsonl on1.jsonl && steps on1.jsonl >on1.steps &&
    for tp in 2 4; do
        n=$tp pretrain --load b --data-path narrow --train-iters 6 --save on$tp --metrics-jsonl on$tp.jsonl \
            --tensor-model-parallel-size $tp && steps on$tp.jsonl | paste on1.steps - | awk "
            { d = \$1 - \$2; if (d < 0) d = -d; if (d > 1e-5 * \$1) exit 1 } END { exit NR != 3 }" || return 1
        mds_ckpt info on$tp | grep "^vocabulary: 121 " || return 1
    done
    n=1 && mds_ckpt export --format hf --output e on1 && grep "\"vocab_size\": 121," e/config.json &&
    pretrain --load on1 --data-path narrow --train-iters 7 --save on1 && mds_ckpt info on1 | grep "^vocabulary: 121 "
'
test_expect_success 'an explicit --vocab-size may not be smaller than the data or the checkpoint' '
    test_must_fail pretrain --load b --data-path narrow --train-iters 4 --vocab-size 120 && cat out &&
    grep "error: b/iter_0000003: has a vocabulary of 121 words, and this run 120; a vocabulary does not shrink: leave --vocab-size out" out &&
    test_must_fail pretrain --load b --data-path wide --train-iters 4 --vocab-size 7 &&
    grep "error: command line: --vocab-size 7, but the data has 121 words; leave it out" out
'
test_expect_success 'data with more words is an error that says how' '
    test_must_fail pretrain --load b --data-path more.h5 --train-iters 4 --split-at auto --pack-documents auto && cat out &&
    grep "error: b/iter_0000003: has a vocabulary of 121 words, and this run 200: was its data made with another tokenizer.*--resize-vocab" out
'
# grown MODE RANKS OPTIONS...: as many ranks train with a learning rate of 0, so rows are seen
# as they begin
grown() {
    mode=$1 n=$2
    shift 2
    rm -rf grown && pretrain --load b --data-path more.h5 --train-iters 4 --lr 0 --min-lr 0 --weight-decay 0 --save grown \
        --resize-vocab "$mode" "$@" && grep "121 words: 79 more begin with" out && mds_ckpt info grown | grep "^vocabulary: 200 "
}
test_expect_success 'new rows: the mean of the others, or initial values; the others stay' '
    rows b embedding.word.weight 0 120 >known && test "$(wc -l <known)" -eq 121 &&
    grown mean 1 && rows grown embedding.word.weight 0 120 >got && test_cmp known got &&
    rows grown embedding.word.weight 121 199 >new && test "$(sort -u new | wc -l)" -eq 1 &&
    sed 1q new | cat known - | awk "NR < 122 { for (i = 1; i <= NF; i++) sum[i] += \$i }
        NR == 122 { for (i = 1; i <= NF; i++) { d = \$i - sum[i] / 121; if (d * d > 1e-12) exit 1 } } END { exit NR != 122 }" &&
    mv grown grown-mean &&
    grown init 1 && rows grown embedding.word.weight 0 120 >got && test_cmp known got &&
    rows grown embedding.word.weight 121 199 >new && test "$(sort -u new | wc -l)" -eq 79 && mv grown grown-init
'
test_expect_success 'the same rows in every layout' '
    for mode in mean init; do
        for layout in "2 --tensor-model-parallel-size 2" "4 --tensor-model-parallel-size 4" "2 --zero-stage 3" \
            "2 --pipeline-model-parallel-size 2" "4 --tensor-model-parallel-size 2 --zero-stage 1"; do
            grown $mode $layout || return 1
            mds_ckpt diff --weights grown grown-$mode >out
            grep "^[0-9]* lists of numbers compared, 0 differ" out || return 1
        done
    done
    n=1
'
test_expect_success 'untied: embedding and head each have their own mean' '
    pretrain $shape --untie-embeddings-and-output-weights --data-path wide --train-iters 2 --save untied &&
    pretrain --load untied --data-path more.h5 --train-iters 3 --lr 0 --min-lr 0 --weight-decay 0 --save both --resize-vocab mean &&
    for tensor in embedding.word.weight head.weight; do
        rows untied $tensor 0 120 >known && rows both $tensor 199 199 | cat known - |
        awk "NR < 122 { for (i = 1; i <= NF; i++) sum[i] += \$i }
        NR == 122 { for (i = 1; i <= NF; i++) { d = \$i - sum[i] / 121; if (d * d > 1e-12) exit 1 } } END { exit NR != 122 }" || return 1
    done
'
test_expect_success 'then it trains, resumes without the option as if it had not stopped, and is exported' '
    pretrain --load b --data-path more.h5 --resize-vocab mean --train-iters 7 --save whole --metrics-jsonl whole.jsonl &&
    pretrain --load b --data-path more.h5 --resize-vocab mean --train-iters 7 --exit-interval 5 --save parts
    test $? -eq 85 && pretrain --load parts --data-path more.h5 --train-iters 7 --save parts --metrics-jsonl parts.jsonl &&
    steps whole.jsonl | tail -n 2 >want && steps parts.jsonl >got && test_cmp want got && mds_ckpt diff whole parts &&
    mds_ckpt export --format hf --output more-hf parts && grep "\"vocab_size\": 200," more-hf/config.json &&
    mds_ckpt import more-hf more-back && mds_ckpt diff --weights parts more-back
'
test_expect_success 'later jobs of the chain know the grown vocabulary, whatever their data and options' '
    pretrain --load b --data-path more.h5 --resize-vocab init --train-iters 9 --exit-interval 5 --save chain
    test $? -eq 85 && pretrain --load b --data-path more.h5 --train-iters 9 --exit-interval 7 --save chain
    test $? -eq 85 && grep "chain has iteration 5 of the run that started" out &&
    pretrain --load b --data-path all.h5 --train-iters 9 --save chain && mds_ckpt info chain | grep "^vocabulary: 200 "
'
test_expect_success 'an import grows in the same way; dry runs and plans see the larger vocabulary' '
    mds_ckpt export --format hf --output hf b && mds_ckpt import hf start && test_must_fail pretrain --load start --data-path more.h5 --train-iters 1 &&
    grep "has a vocabulary of 121 words, and this run 200" out &&
    pretrain --load start --data-path more.h5 --train-iters 1 --resize-vocab mean --save tuned && mds_ckpt info tuned | grep "^vocabulary: 200 " &&
    pretrain --load start --data-path all.h5 --train-iters 1 --resize-vocab mean --save same && mds_ckpt info same | grep "^vocabulary: 121 " &&
    for data in "all.h5 128" "more.h5 256" "narrow 128"; do
        mds_pretrain --show-config --load start --data-path ${data% *} >out 2>&1 &&
        grep "padded vocabulary  ${data#* } words" out || return 1
    done
'

# of TOKENIZER OPTIONS...: a step on lambda's tokens
of() {
    test -e "$1.h5" || mds_data make --tokenizer "$1" --output "$1.h5" "$srcdir/tests/data/lambda.fna.gz" || return
    tokens=$1.h5
    shift
    pretrain --data-path "$tokens" "$@"
}
differs() {
    cat out && grep "error: $1/iter_0000002: was trained on tokens of $2, but this run.s data are $3, .*--override-model-config$" out
}
test_expect_success 'data of another tokenizer: an error, in training and in evaluation' '
    of codon $shape --train-iters 2 --save codon && of 6-mer $shape --train-iters 2 --save 6-mer &&
    test_must_fail of nucleotide --load codon --train-iters 3 && differs codon codon nucleotide &&
    test_must_fail of nucleotide --load codon --train-iters 3 --finetune --load-fallback && differs codon codon nucleotide &&
    test_must_fail of 6-mer-overlapping --load 6-mer --skip-train --split 0,1,0 --eval-iters 1 && differs 6-mer 6-mer 6-mer-overlapping &&
    test_must_fail of 6-mer --load codon --train-iters 3 --resize-vocab mean && differs codon codon 6-mer &&
    of codon --load codon --train-iters 3 && ! grep warn out
'
test_expect_success 'unless that is meant; later jobs take the new one without an option' '
    of 6-mer-overlapping --load 6-mer --skip-train --split 0,1,0 --eval-iters 1 --override-model-config &&
    grep "warn: 6-mer/iter_0000002: .* 6-mer-overlapping, and --override-model-config is given" out &&
    of nucleotide --load codon --train-iters 3 --override-model-config --save moved && mds_ckpt info moved | grep "^vocabulary: 66 " &&
    of nucleotide --load moved --train-iters 4 && ! grep warn out
'
test_expect_success 'ids without a name: a warning; an import takes any data' '
    of codon --load b --train-iters 4 && grep "warn: b/iter_0000003: .* tokens of ids, but this run.s data are codon: is that the same tokenizer?" out &&
    pretrain --load 6-mer --data-path narrow --train-iters 3 && grep "warn: 6-mer/.* tokens of 6-mer, but this run.s data are ids: is" out &&
    of codon --load start --train-iters 1 && ! grep warn out
'
test_expect_success 'a name outlives a job on ids without one, unless words were added' '
    pretrain --load codon --data-path narrow --train-iters 3 --save unnamed && mds_ckpt info unnamed | grep "^vocabulary: 66 words of codon, " &&
    test_must_fail of nucleotide --load unnamed --train-iters 4 && grep "unnamed/iter_0000003: was trained on tokens of codon, but" out &&
    of codon --load unnamed --train-iters 4 && ! grep warn out && mds_ckpt export --format hf --output named unnamed && test -e named/tokenizer.json &&
    pretrain --load codon --data-path wide --train-iters 3 --resize-vocab mean --save added && mds_ckpt info added | grep "^vocabulary: 121 words, "
'

test_done
