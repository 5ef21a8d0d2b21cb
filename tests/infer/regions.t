#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer --fasta: regions of a genome'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

awk '{ print ">one\n" substr($0, 1, 3000) "\n>two some words\n" substr($0, 5001, 900) }' bases >g.fa
if mds_infer score --load model --fasta g.fa none.bed 2>&1 | grep -q "has no htslib"; then
    skip_all='configured without htslib'
    test_done
fi
cat >r.bed <<'END'
track name=regions
# comment
one	0	90
one	300	501	first	0	+

one	300	501	second	0	-
two	840	900	.	7	-
END
# The same as records of FASTA.
awk 'NR == FNR { if (!sub(/^>/, "")) of[n] = $0; else n = $1; next } !/^(one|two)/ { next }
    {
        s = substr(of[$1], $2 + 1, $3 - $2)
        name = ($4 != "" && $4 != "." ? $4 "::" : "") $1 ":" $2 "-" $3 "(" ($6 == "-" ? "-" : "+") ")"
        if ($6 == "-") {
            out = ""
            for (i = length(s); i > 0; i--) { c = substr(s, i, 1); out = out (c == "A" ? "T" : c == "T" ? "A" : c == "C" ? "G" : "C") }
            s = out
        }
        print ">" name "\n" s
    }' g.fa r.bed >r.fa
score r.fa --threads 1 >want.tsv
cat >r.gff <<'END'
##gff-version 3
two	x	gene	841	900	.	-	.	ID=last
one	x	CDS	1	90	.	+	0	Parent=p;ID=c1;Note=a=b
one	x	gene	301	501	.	+	.	Note=ID;ID=first
one	x	gene	1	90	.	.	.	Name=none
##FASTA
>one
ACGT
END
regions() {
    mds_infer score --load model --fasta g.fa "$@"
}

test_expect_success 'lines of BED, by name, place and strand' '
    cut -f 1 want.tsv && regions r.bed --threads 1 >bed && near want.tsv bed && test -s g.fa.fai &&
    test "$(cut -f 1 bed | tr "\n" " ")" = "name one:0-90(+) first::one:300-501(+) second::one:300-501(-) two:840-900(-) " &&
    gzip -c r.bed >r.bed.gz && regions r.bed.gz --threads 1 >is && test_cmp bed is &&
    sed "s/$/\r/" r.bed >crlf.bed && regions crlf.bed --threads 1 >is && test_cmp bed is
'
test_expect_success 'features of GFF3' '
    regions r.gff --threads 1 >gff && cut -f 1 gff && test "$(cut -f 1 gff | tr "\n" " ")" = "name last::two:840-900(-) first::one:300-501(+) one:0-90(+) " &&
    for n in 5:2 3:3 2:4; do
        sed -n "${n%:*}p" bed | cut -f 2- >want && sed -n "${n#*:}p" gff | cut -f 2- >is && near want is || return 1
    done &&
    regions --feature CDS r.gff --threads 1 >cds && test "$(cut -f 1 cds | tr "\n" " ")" = "name c1::one:0-90(+) "
'
test_expect_success 'on the other strand of each, and both' '
    regions --strand both r.bed --threads 1 >is && score --strand both r.fa --threads 1 >want && near want is
'
test_expect_success 'two ranks make one index, and give the same' '
    rm g.fa.fai && timeout 60 $MPIEXEC -n 2 mds_infer score --load model --fasta g.fa --output two.tsv r.bed --threads 1 \
        --tensor-model-parallel-size 2 </dev/null >out 2>&1 && cat out && near bed two.tsv && test -s g.fa.fai
'
test_expect_success H5PY 'their hidden states, and what comes behind them' '
    mds_infer embed --load model --fasta g.fa --output is.h5 r.bed --threads 1 && mds_infer embed --load model --output want.h5 r.fa --threads 1 &&
    "$python" "$srcdir/tests/infer/embed.py" same want.h5 is.h5 2e-6 &&
    mds_infer generate --load model --fasta g.fa --max-new-tokens 5 r.bed --threads 1 >is && mds_infer generate --load model --max-new-tokens 5 r.fa --threads 1 >want &&
    test_cmp want is
'
test_expect_success 'going on with them' '
    regions --output part.tsv r.bed --threads 1 && head -n 3 part.tsv >few && cp few part.tsv &&
    regions --output part.tsv --resume r.bed --threads 1 2>err && near bed part.tsv && grep "2 sequences scored" err &&
    test_must_fail regions --feature CDS --output part.tsv --resume r.bed --threads 1 2>err && grep "begun with .feature: gene., and this is .feature: CDS." err
'
# refused WORDS LINE: a BED file of that line fails, with these words in one line
refused() {
    printf '%b\n' "$2" >bad.bed
    test_must_fail regions bad.bed --threads 1 >out 2>err
    cat err
    test "$(grep -c error err)" -eq 1 && grep -e "error: .*$1" err
}
test_expect_success 'errors say what, where and what to do' '
    refused "bad.bed:1: g.fa has no sequence .three." "three\t1\t5" &&
    refused "bad.bed:2: bases 2990 to 3001 are no part of one, which has 3000 in g.fa" "# x\none\t2989\t3001" &&
    refused "bad.bed:1: bases 10 to 9 are no part of one" "one\t9\t9" &&
    refused "bad.bed:3: is neither BED (chrom, start and end, between tabs) nor GFF3" "\n\none 1 2" &&
    refused "bad.bed: has no region: neither lines of BED nor, of GFF3, features of type gene (--feature)" "# nothing" &&
    test_must_fail regions none.bed --threads 1 2>err && grep "none.bed: No such file" err &&
    test_must_fail mds_infer score --load model --fasta none.fa r.bed --threads 1 2>err && grep "none.fa: No such file" err &&
    mds_ckpt export --format hf --output hf model >out && test_must_fail mds_infer score --load hf --fasta g.fa r.bed 2>err && cat err &&
    grep "r.bed: the model.s tokenizer (ids) does not read text" err
'
test_done
