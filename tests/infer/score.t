#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer score: log-likelihoods of sequences'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

records 30 8 3 >a.fa
column() {
    cut -f "$1" "$2" | tail -n +2
}

test_expect_success 'a line for each record, with means and perplexity of the sum' '
    score a.fa --threads 1 >one 2>err && cat one && ! grep "warn\|error" err &&
    head -n 1 one | tr "\t" " " >names &&
    echo "name length tokens loglik per_token per_base perplexity" >want && test_cmp want names &&
    test "$(wc -l <one)" -eq 31 &&
    awk -F "\t" "NR > 1 {
        i = NR - 1; if (\$1 != \"r\" i || \$2 != 3 * (8 + 3 * (i - 1)) || \$3 != \$2 / 3 - 1) exit 1
        if (\$4 > -3 * \$3 || \$4 < -6 * \$3) exit 1 # about ln 64 each
        d = \$4 / \$3 - \$5; e = \$5 / 3 - \$6; f = exp(-\$5) - \$7
        if (d * d > 1e-20 || e * e > 1e-20 || f * f > 1e-12) exit 1 }" one
'
# The windows of --skip-train are S + 1 tokens: a document with its <eod>.
test_expect_success 'the loss of --skip-train, to the bit' '
    for step in 0 40 77; do
        awk "{ print \">x\"; print substr(\$0, 1 + $step, 3 * 64) }" bases >w.fa &&
        mds_data make --overwrite --tokenizer codon --output w.h5 w.fa &&
        rm -f w.jsonl &&
        mds_pretrain --load model --skip-train --data-path w.h5 --split 0,1,0 --seq-length 64 --threads 1 \
            --pack-documents off --metrics-jsonl w.jsonl >out 2>&1 &&
        sed -n "s/.*\"lm_loss\":\([^,}]*\).*/\1/p" w.jsonl | head -n 1 >want &&
        score --score-eod w.fa --threads 1 >w && column 5 w | sed s/-// >is &&
        score --score-eod w.h5 --threads 1 >w && column 5 w | sed s/-// >is5 &&
        cat want is && awk "{ printf \"%.17g\n\", \$1 }" want >a && awk "{ printf \"%.17g\n\", \$1 }" is >b &&
        test -s a && test_cmp a b && test_cmp is is5 || return 1
    done
'
while read -r n options; do
    test_expect_success "$n ranks score alike: $options" "
        timeout 60 \$MPIEXEC -n $n mds_infer score --load model --output ranks --overwrite a.fa \
            --threads 1 $options </dev/null >out 2>&1 &&
        cat out && near one ranks
    "
done <<'END'
2
2 --zero-stage 3
2 --tensor-model-parallel-size 2
2 --tensor-model-parallel-size 2 --sequence-parallel
2 --ds-sequence-parallel-size 2
2 --context-parallel-size 2
2 --pipeline-model-parallel-size 2
4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel
4 --context-parallel-size 2 --ds-sequence-parallel-size 2
4 --tensor-model-parallel-size 2
4 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1
END
test_expect_success 'neither batches nor rows nor tiles change a score' '
    score --batch-tokens 1 a.fa --threads 1 >few && near one few &&
    score a.fa --threads 1 --seq-length 256 --micro-batch-size 1 >long && near one long &&
    score a.fa --threads 1 --loss-tile 7 --sequence-tile 13 >tiles && near one tiles &&
    score a.fa --threads 1 --tensor-model-parallel-size 1 --no-use-flash-attn >plain && near one plain &&
    tail -n 4 a.fa >two.fa && score two.fa --threads 1 >two &&
    { head -n 1 one; tail -n 2 one; } >want && near want two
'
test_expect_success 'the inputs: compressed, several, standard input, token files, lines of JSON' '
    tail -n 4 a.fa >two.fa && gzip -k a.fa && score a.fa.gz --threads 1 >gz && test_cmp one gz &&
    score two.fa two.fa --threads 1 >twice && test "$(wc -l <twice)" -eq 5 &&
    score - --seq-length 112 --threads 1 <a.fa >stdin && near one stdin &&
    mds_data make --tokenizer codon --output a.h5 a.fa && score a.h5 --threads 1 >h5 &&
    cut -f 3- one >want && cut -f 3- h5 >is && near want is && column 1 h5 >n && seq 30 | test_cmp - n &&
    awk "/^>/ { n = substr(\$1, 2); next } { printf \"{\\\"name\\\": \\\"%s\\\", \\\"text\\\": \\\"%s\\\"}\n\n\", n, \$0 }" a.fa >a.jsonl &&
    score a.jsonl --threads 1 >json && test_cmp one json
'
test_expect_success 'the other strand, and the mean of both' '
    awk "/^>/ { print; next } {
        out = \"\"
        for (i = length(\$0); i > 0; i--) { c = substr(\$0, i, 1); out = out (c == \"A\" ? \"T\" : c == \"T\" ? \"A\" : c == \"C\" ? \"G\" : \"C\") }
        print out }" a.fa >back.fa &&
    score back.fa --threads 1 >want && score --strand reverse a.fa --threads 1 >is && near want is &&
    ! near one is >/dev/null &&
    score --strand both a.fa --threads 1 >both && cut -f 1-4 both | head -n 1 &&
    column 8 both >f && column 9 both >r && column 4 one >fw && column 4 want >rw && near fw f && near rw r &&
    paste f r | awk "{ printf \"%.12g\n\", (\$1 + \$2) / 2 }" >mean && column 4 both >is && near mean is &&
    score --strand reverse a.h5 --threads 1 >h5 && column 4 h5 >is && near rw is
'
test_expect_success '--per-token: what the sums are of' '
    score --per-token p.h5 --strand both a.fa --threads 1 >sums && test -s p.h5 && ! test -e p.h5.partial &&
    test_must_fail score --per-token p.h5 a.fa --threads 1 2>err && grep "p.h5: exists already" err
'
test_expect_success 'tokens with an ambiguous base are read, but not scored; lower case is upper case' '
    printf ">n\n%s\n>l\n%s\n" ACGTTTACGNACGTTTAAACCC acgtttacgtacgtttaaaccc >n.fa &&
    printf ">l\nACGTTTACGTACGTTTAAACCC\n" >u.fa && score n.fa --threads 1 >n && score u.fa --threads 1 >u &&
    cat n && test "$(column 2 n | tr "\n" " ")" = "22 22 " && test "$(column 3 n | tr "\n" " ")" = "5 6 " &&
    { head -n 1 n; tail -n 1 n; } >l && near l u
'
test_expect_success 'sequences without anything to score are nan, and counted' '
    printf ">a\nAC\n>b\n\n>c\nACG\n>d\nACGTTT\n" >short.fa && score short.fa --threads 1 >short 2>err && cat err short &&
    grep "^b	0	0	nan	nan	nan	nan$" short && grep "^c	3	0	nan" short && grep "^d	6	1	-" short &&
    grep "warn: 3 of 4 sequences have less than two tokens" err
'
test_expect_success 'a folder of Hugging Face' '
    mds_ckpt export --format hf --output hf model && mds_ckpt import hf in >out &&
    mds_infer score --load hf --tokenizer codon a.fa --threads 1 >is && near one is &&
    mds_infer score --load in --tokenizer codon a.fa --threads 1 >is && near one is &&
    test_must_fail mds_infer score --load hf a.fa --threads 1 2>err && grep "does not read text" err &&
    test_must_fail mds_infer score --load hf --tokenizer 6-mer a.fa --threads 1 2>err &&
    grep "has 66 words, and tokenizer 6-mer has 4098" err
' 
while read -r n options; do
    test_expect_success "a dry run says what $n ranks take: $options" "
        mds_infer score --load model a.fa --threads 1 --dry-run --world-size $n $options >dry &&
        timeout 60 \$MPIEXEC -n $n mds_infer score --load model a.fa --threads 1 --log-level debug $options \
            </dev/null >out 2>wet &&
        table dry >a && table wet >b && cat wet && test \"\$(wc -l <a)\" -ge 3 && test_cmp a b &&
        ! grep '^grads\|^optimizer' a
    "
done <<'END'
1
1 --micro-batch-size 1 --sequence-tile 16
2 --tensor-model-parallel-size 2
4 --context-parallel-size 2 --pipeline-model-parallel-size 2
END
# refused WORDS ARGUMENTS...: fails with one line that has these words
refused() {
    words=$1
    shift
    test_must_fail mds_infer score "$@" >out 2>err
    cat err
    test "$(grep -c error err)" -eq 1 && grep -e "error: .*$words" err
}
test_expect_success 'errors say what, where and what to do' '
    refused "name it before mds_pretrain" --load model &&
    test_must_fail mds_infer score a.fa 2>err && grep "load is missing" err &&
    test_must_fail mds_infer score --load nowhere a.fa 2>err && grep "nowhere" err && test "$(wc -l <err)" -eq 1 &&
    test_must_fail score none.fa 2>err && grep "none.fa: No such file" err &&
    : >empty.fa && test_must_fail score empty.fa 2>err && grep "empty.fa: is empty" err &&
    printf ">p\nMKLV\n" >p.fa && test_must_fail score p.fa 2>err && grep "p.fa:2: record .p.: .L. is a protein letter" err &&
    printf "{\"sequence\": \"ACG\"}\n" >p.jsonl && test_must_fail score p.jsonl 2>err && grep "record 1 has no \"text\"" err &&
    mds_data make --tokenizer nucleotide --output n.h5 a.fa && test_must_fail score n.h5 2>err &&
    grep "n.h5: is of tokenizer nucleotide, and the model was trained on tokens of codon" err &&
    test_must_fail score --tokenizer bytes a.fa 2>err && grep "was trained on tokens of codon; leave it out" err &&
    test_must_fail score a.fa --lr 1 2>err && grep -e "--lr does not concern" err &&
    test_must_fail score - <a.fa 2>err && grep "give --seq-length" err &&
    test_must_fail score a.fa --seq-length 64 2>err && grep "a.fa: r2[0-9] has [0-9]* tokens, and .* takes 65; give a larger --seq-length" err &&
    test_must_fail score - --seq-length 64 <a.fa 2>err && grep "give a larger --seq-length" err
'
test_expect_success 'a model of learned positions refuses what is longer, and says so' '
    pretrain --num-layers 1 --seq-length 32 --data-path t.h5 --save learned >out 2>&1 &&
    records 3 33 0 >fits.fa && records 3 33 1 >long.fa &&
    mds_infer score --load learned fits.fa --threads 1 >fits && test "$(column 3 fits | head -n 1)" -eq 32 &&
    test_must_fail mds_infer score --load learned long.fa --threads 1 2>err && cat err &&
    grep "long.fa: r2 has 34 tokens, and .* takes 33; the model learned a position for each: cut" err
'
test_expect_success '--resume goes on behind what is there, of one rank or two' '
    score --output all.tsv a.fa --threads 1 && near one all.tsv && cat all.tsv.run &&
    grep "^model: model/iter_0000005$" all.tsv.run && grep "^input: a.fa, $(wc -c <a.fa) bytes$" all.tsv.run &&
    for n in 0 1 13 31; do
        { head -n $n all.tsv; printf "r40	1"; } >part.tsv && cp all.tsv.run part.tsv.run || return 1
        test $n -lt 2 || test $n -gt 13 && ranks=1 || ranks=2
        timeout 60 $MPIEXEC -n $ranks mds_infer score --load model --resume --output part.tsv a.fa --threads 1 </dev/null >err 2>&1
        cat err && near all.tsv part.tsv && head -n $n all.tsv >want && head -n $n part.tsv >is && test_cmp want is &&
        grep "info: $((n > 1 ? 31 - n : 30)) sequences scored" err || return 1
        test $n -lt 2 || grep "part.tsv has the scores of $((n - 1)) sequences already" err || return 1
    done &&
    rm part.tsv && score --resume --output part.tsv a.fa --threads 1 2>err && near all.tsv part.tsv && ! grep already err
'
test_expect_success '--resume refuses what is of another model, input or command' '
    cp all.tsv part.tsv && cp -r model other &&
    refused "part.tsv: was begun with .dtype: fp32., and this is .dtype: bf16.; give what it" --load model --resume --output part.tsv a.fa --dtype bf16 &&
    refused "begun with .strand: forward., and this is .strand: both." --load model --resume --output part.tsv --strand both a.fa &&
    refused "begun with .model: model/iter_0000005., and this is .model: other/iter" --load other --resume --output part.tsv a.fa &&
    records 31 8 3 >b.fa && refused "begun with .input: a.fa, .*., and this is .input: b.fa" --load model --resume --output part.tsv b.fa &&
    cp a.fa b.fa && sed s/r7/x7/ b.fa >a.fa && refused "part.tsv: cannot be resumed: its line 8 is not of .x7	" --load model --resume --output part.tsv a.fa &&
    cp b.fa a.fa && tail -n 1 all.tsv >>part.tsv && refused "part.tsv: cannot be resumed: it has 1 sequences more" --load model --resume --output part.tsv a.fa &&
    sed s/length/bases/ all.tsv >part.tsv && refused "its columns are not those" --load model --resume --output part.tsv a.fa &&
    rm part.tsv.run && refused "there is no part.tsv.run, which says" --load model --resume --output part.tsv a.fa &&
    refused "resume goes on with the table or VCF of --output; name it" --load model --resume a.fa &&
    refused "leave out --overwrite, --per-token and --track" --load model --resume --output part.tsv --per-token p5.h5 a.fa
'
test_expect_success 'on a full disk what is done stays' '
    for i in 1 2 3 4 5 6; do cat a.fa; done >many.fa &&
    test_must_fail env FAULTFS=full:5000 FAULTFS_PATH=full LD_PRELOAD="$builddir/tests/ckpt/faultfs.so" mds_infer score --load model \
        --batch-tokens 64 --output full many.fa --threads 1 2>err &&
    cat err && n=$(($(wc -l <full) - 1)) && test $n -gt 5 && test $n -lt 180 &&
    grep "full: cannot be written: .*; the first $n lines of results are complete" err &&
    test "$(tail -c 1 full | tr "\n" x)" = x && awk -F "\t" "NF != 7 { exit 1 }" full &&
    test_must_fail score --output full a.fa --threads 1 2>err && grep "full: exists already" err &&
    score --batch-tokens 64 --resume --output full many.fa --threads 1 2>err && grep "full has the scores of $n sequences already" err &&
    score --batch-tokens 64 many.fa --threads 1 >want && near want full &&
    test_must_fail score --output /dev/full a.fa --threads 1 2>err && grep "/dev/full" err
'
test_expect_success 'progress within a long document: each layer at --log-level debug, by the minute without' '
    records 1 400 0 >long.fa && score long.fa --threads 1 --log-level debug 2>err >out && cat err &&
    grep "debug: rows of 400 tokens: 0 s so far, layer 1 of 2, micro-batch 1 of 1" err && grep "layer 2 of 2" err
'
test_done
