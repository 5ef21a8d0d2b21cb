#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer score --marginal-bases: each base by all words that have it'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

# marginal ARGUMENTS...: the table
marginal() {
    score --marginal-bases "$@" --threads 1
}
column() {
    cut -f "$1" "$2" | tail -n +2
}
records 3 20 0 >a.fa
cp bases genome
# What it should be, slowly: the scores of all codons behind a sequence say how likely each is.
# marginals_of SEQUENCE NEXT: log-likelihoods of the bases of the codon NEXT behind SEQUENCE
marginals_of() {
    awk -v sequence="$1" 'BEGIN { print ">before\n" sequence
        for (i = 0; i < 64; i++) {
            c = substr("ACGT", int(i / 16) + 1, 1) substr("ACGT", int(i / 4) % 4 + 1, 1) substr("ACGT", i % 4 + 1, 1)
            print ">" c "\n" sequence c } }' >codons.fa &&
        score codons.fa --threads 1 >codons &&
        awk -F '\t' -v next_one="$2" '$1 == "before" { before = $4 } length($1) == 3 {
            for (j = 1; j <= 3; j++) if (substr($1, j, 1) == substr(next_one, j, 1)) sum[j] += exp($4 - before) }
            END { for (j = 1; j <= 3; j++) printf "%.12g\n", log(sum[j]) }' codons
}

test_expect_success 'a token has the sum of its bases, each of which all words with it have together' '
    sequence=$(sed -n 2p a.fa) && marginal a.fa --track m.bedGraph --output table.tsv && cat m.bedGraph &&
    for k in 1 7 19; do
        before=$(printf %s "$sequence" | cut -c "1-$((3 * k))") next=$(printf %s "$sequence" | cut -c "$((3 * k + 1))-$((3 * k + 3))") &&
        marginals_of "$before" "$next" >want && awk -v first=$((3 * k)) "
            NR == FNR { want[NR - 1] = \$1; next }
            \$1 == \"r1\" && \$2 >= first && \$2 < first + 3 { n++; d = want[\$2 - first] - \$4; if (d * d > 1e-8) { print; exit 1 } }
            END { exit n != 3 }" want m.bedGraph || return 1
    done &&
    awk "\$1 == \"r1\" { sum += \$4 * (\$3 - \$2) } END { print sum }" m.bedGraph >sum &&
    column 4 table.tsv | head -n 1 | cat - sum | awk "NR == 1 { was = \$1 } END { d = was / \$1 - 1; exit d * d > 1e-8 }"
'
test_expect_success 'a base is likelier than its word, which has it; as many tokens count' '
    score a.fa --threads 1 >words && marginal a.fa >bases && paste words bases &&
    column 3 words >want && column 3 bases >is && test_cmp want is &&
    { column 4 words; column 4 bases; } | pr -2 -t -s -l 3 | awk "{ if (\$2 / 3 <= \$1 || \$2 == \$1) exit 1 }"
'
while read -r n options; do
    test_expect_success "the same from $n ranks: $options" "
        timeout 60 \$MPIEXEC -n $n mds_infer score --load model --marginal-bases --output ranks --overwrite a.fa \
            --threads 1 $options </dev/null >out 2>&1 && cat out && near bases ranks
    "
done <<'END'
2
2 --tensor-model-parallel-size 2
2 --pipeline-model-parallel-size 2
2 --context-parallel-size 2
END
test_expect_success 'both strands, and tokens with an ambiguous base' '
    printf ">n\nACGTTTACGNACGTTTAAACCC\n>l\nACGTTTACGTACGTTTAAACCC\n" >n.fa && marginal --strand both n.fa >both && cat both &&
    test "$(column 3 both | tr "\n" " ")" = "5 6 " && ! grep nan both
'
test_expect_success 'words of six bases' '
    mds_data make --tokenizer 6-mer --output six.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    pretrain --num-layers 1 --seq-length 32 --data-path six.h5 $rope --save six >out 2>&1 &&
    mds_infer score --load six --marginal-bases a.fa --threads 1 >is && cat is && mds_infer score --load six a.fa --threads 1 >words &&
    test "$(column 3 is | tr "\n" " ")" = "9 9 9 " &&
    awk -F "\t" "NR > 1 { if (\$6 > -1.2 || \$6 < -1.6) exit 1 }" is && # about ln 4 each, of words ln 4098 / 6
    timeout 60 $MPIEXEC -n 2 mds_infer score --load six --marginal-bases --output ranks6 a.fa --threads 1 \
        --tensor-model-parallel-size 2 </dev/null >out 2>&1 && near is ranks6
'
if mds_infer score --load model --vcf none --fasta none 2>&1 | grep -q "has no htslib"; then
    say 'configured without htslib'
else
    test_expect_success 'ratios of variants are those of the windows, by bases' '
        awk "{ print \">one\n\" substr(\$0, 1, 300) }" genome >g.fa && base=$(sed -n 2p g.fa | cut -c 151) &&
        other=$(test "$base" = A && echo C || echo A) &&
        printf "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\none\t151\tv\t$base\t$other\t.\t.\t.\n" >v.vcf &&
        marginal --vcf v.vcf --fasta g.fa --window 300 >table && cat table &&
        { cat g.fa; sed -n 2p g.fa | sed "s/./$other/151;1i >alt"; } >windows.fa && marginal windows.fa >windows && cat windows &&
        column 4 windows | awk "NR == 1 { ref = \$1 } END { print \$1 - ref }" >want && column 6 table >is &&
        paste want is | awk "{ d = \$1 - \$2; exit d * d > 1e-8 }" && ! column 9 table | grep nan
    '
fi
# refused WORDS ARGUMENTS...: fails with one line that has these words
refused() {
    words=$1
    shift
    test_must_fail mds_infer "$@" --threads 1 >out 2>err
    cat err
    test "$(grep -c error err)" -eq 1 && grep -e "error: .*$words" err
}
test_expect_success 'tokens that are no words of bases are refused, and what goes on with other scores' '
    mds_ckpt export --format hf --output hf model &&
    refused "tokens of ids are not words of bases" score --load hf --marginal-bases a.fa &&
    refused "with tokenizer nucleotide each token says one base more" score --load hf --tokenizer nucleotide --marginal-bases a.fa &&
    score --output t.tsv a.fa --threads 1 && head -n 2 t.tsv >part && mv part t.tsv &&
    refused "t.tsv: was begun with .*marginal_bases: 1" score --load model --marginal-bases --resume --output t.tsv a.fa &&
    rm t.tsv t.tsv.run && marginal --output t.tsv a.fa && near bases t.tsv && head -n 2 t.tsv >part && mv part t.tsv &&
    marginal --resume --output t.tsv a.fa && near bases t.tsv
'
test_expect_success 'a dry run says what it takes' '
    mds_infer score --load six --marginal-bases a.fa --threads 1 --dry-run >dry &&
    mds_infer score --load six --marginal-bases a.fa --threads 1 --log-level debug >out 2>wet && table dry >a && table wet >b &&
    test -s a && test_cmp a b
'
test_done
