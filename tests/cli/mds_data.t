#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_data: token files from genomes and text'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

lambda=$srcdir/tests/data/lambda.fna.gz

# fails WORDS COMMAND...: exits 1 and says WORDS in one line on standard error
fails() {
    words=$1
    shift
    test_expect_code 1 "$@" >out 2>err &&
        test_must_be_empty out &&
        test "$(wc -l <err)" -eq 1 &&
        if ! grep -F -e "$words" err; then
            cat err
            false
        fi
}
test_must_be_empty() {
    ! test -s "$1"
}
# A sanitizer does not even start with a limit.
# shellcheck disable=SC3045  # ulimit knows -d wherever Linux is
(ulimit -d 65536 && mds_data --version) >/dev/null 2>&1 && limits_work=yes || limits_work=
# test_memory KIB COMMAND...: with no more heap and stack than that, beside its libraries
test_memory() {
    kib=$1
    shift
    # shellcheck disable=SC3045
    ([ -z "$limits_work" ] || ulimit -d "$kib"; "$@")
}
test_path_is_missing() {
    ! test -e "$1"
}

test_expect_success 'codons of the lambda genome' '
    mds_data make --tokenizer codon --output l.h5 "$lambda" >out 2>err &&
    test_must_be_empty err &&
    echo "l.h5: 16168 tokens (codon, 66 words), 1 document from 1 record of 1 file" >want &&
    test_cmp want out &&
    test_path_is_missing l.h5.partial
'
test_expect_success 'the codons are those of the genome, in order' '
    gunzip -c "$lambda" | tail -n +2 | tr -d "\n" | fold -w 3 | grep ... >want &&
    mds_data dump l.h5 | tr " " "\n" >got &&
    test_cmp want got
'

test_expect_success 'both strands: the second is the reverse complement of the first' '
    mds_data make --tokenizer nucleotide --strand both --output n.h5 "$lambda" &&
    mds_data dump n.h5 >both &&
    test "$(wc -l <both)" -eq 2 &&
    head -n 1 both | rev | tr ACGT TGCA >want &&
    tail -n 1 both >got &&
    test_cmp want got
'

test_expect_success 'six reading frames are six documents' '
    mds_data make --tokenizer codon --frame all --strand both --output six.h5 "$lambda" >out &&
    grep "6 documents" out &&
    test "$(mds_data dump six.h5 | wc -l)" -eq 6 &&
    mds_data info six.h5 | grep "^options *frame all, strand both$"
'

test_expect_success 'info: documents, vocabulary, entropy, provenance' '
    mds_data info l.h5 >out &&
    grep "^documents *1 (longest 16168 tokens)$" out &&
    grep "^tokens *16168$" out &&
    grep "^vocabulary *66 words$" out &&
    grep "^entropy *4.1[0-9]* nats/token (perplexity" out &&
    grep "^command *mds_data make --tokenizer codon" out &&
    sum=$(sha256sum "$lambda" | cut -d " " -f 1) &&
    grep "^input .*lambda.fna.gz (15404 bytes, sha256 $sum)$" out
'

test_expect_success 'info: what is held out, the same bases on both strands' '
    mds_data info --split 1 l.h5 >out && grep "^training *16168 tokens: 0 to 16167 (document 1)$" out &&
    grep "^validation *0 tokens$" out &&
    mds_data info l.h5 >out && grep "^split *949,50,1$" out &&
    grep "^validation *809 tokens: 15343 to 16151 (document 1)$" out &&
    mds_data info --split 2,1,1 n.h5 >out &&
    grep "^split *2,1,1, the same bases on all strands and in all frames$" out &&
    set -- $(sed -n "s/^validation *\([0-9]*\) tokens: \([0-9]*\) to \([0-9]*\) (document 1), \([0-9]*\) to \([0-9]*\) (document 2)$/\1 \2 \3 \4 \5/p" out) &&
    test "$1" -gt 24000 && mds_data dump n.h5 >both && length=$(sed -n 1p both | tr -d "\n" | wc -c) &&
    sed -n 1p both | cut -c "$(($2 + 1))-$(($3 + 1))" | rev | tr ACGT TGCA >want &&
    sed -n 2p both | cut -c "$(($4 - length))-$(($5 - length))" >got && test_cmp want got &&
    fails "split '\''1,x'\'': must be proportions" mds_data info --split 1,x l.h5
'

test_expect_success 'entropy and the most common codon agree with awk' '
    mds_data dump l.h5 | tr " " "\n" | sort | uniq -c | sort -k1,1nr >table &&
    awk "{ n[NR] = \$1; t += \$1 }
         END { t += 1; h = log(t) / t; for (i in n) h -= n[i] / t * log(n[i] / t)
               printf \"%.4f\n\", h }" table >want &&
    mds_data info l.h5 | awk "\$1 == \"entropy\" { print \$2 }" >got &&
    test_cmp want got &&
    mds_data info l.h5 | grep "^most common *$(awk "NR == 1 { print \$2 }" table) "
'

test_expect_success 'dump: a part, as numbers' '
    echo "42 38 24" >want &&
    printf "%s\n" ">r" GGGGCGCGA | mds_data make --tokenizer codon --output p.h5 - &&
    mds_data dump --ids --count 3 p.h5 >got &&
    test_cmp want got &&
    echo "24 64" >want &&
    mds_data dump --ids --from 2 p.h5 >got &&
    test_cmp want got &&
    mds_data dump --count 0 p.h5 >got && test_must_be_empty got &&
    mds_data dump --ids --count 100 --from 2 p.h5 | test_cmp want -
'

test_expect_success 'text goes in and comes out, a document a file' '
    printf "one\n" >one && printf "two" >two &&
    mds_data make --tokenizer bytes --output t.h5 one two >out &&
    grep "9 tokens (bytes, 257 words), 2 documents from 2 records of 2 files" out &&
    printf "one\n\ntwo\n" >want &&
    mds_data dump t.h5 >got &&
    test_cmp want got
'

ids() {
    mds_data make --tokenizer ids --vocab-size 70000 --eod 50256 --output i.h5 "$@"
}
test_expect_success 'ids of another tokenizer: a document a line, blanks or lists of JSON' '
    printf "5 4,3\n\n[1, 69999]\r\n7 50256\n0" >lines && ids lines >out 2>err &&
    echo "mds: warn: 1 empty line left out, the first is lines:2; a line without ids is not a document" >want &&
    test_cmp want err && printf "1\n2\n" >full && printf "3\n[]\n4\n \n" >holes &&
    ids full 2>err && test_must_be_empty err && ids full holes 2>err &&
    grep "warn: 2 empty lines left out, the first is holes:2;" err && ids lines >out 2>err &&
    grep "i.h5: 11 tokens (ids, 70000 words), 4 documents from 4 records of 1 file" out &&
    printf "%s\n" "5 4 3 50256" "1 69999 50256" "7 50256" "0 50256" >want &&
    mds_data dump i.h5 >got && test_cmp want got &&
    mds_data info i.h5 | grep "^tokenizer *ids" &&
    mds_data info --seq-length 4 i.h5 >out && grep "^packed *3 rows of 4 tokens, 26.7 % padding$" out &&
    { echo 7 && echo 7; } | mds_data make --tokenizer ids --vocab-size 9 --eod 7 --output ones.h5 - &&
    mds_data info --seq-length 4 ones.h5 >out && grep "^packed *0 rows" out && test_must_fail grep "nan" out &&
    mds_data info --seq-length 2 i.h5 >out && grep "^cut *1 (25 %), longer than a row, in windows$" out &&
    mds_pretrain --data-path i.h5 --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 4 \
        --split 1,0,0 --eval-iters 0 --train-iters 1 --pack-documents on >out 2>&1 &&
    grep "4 documents in 3 rows, 27 % padding$" out && test_must_fail grep "may cross" out &&
    mds_pretrain --data-path i.h5 --num-layers 1 --hidden-size 32 --num-attention-heads 2 \
        --seq-length 4 --split 1,0,0 --eval-iters 0 --train-iters 1 2>&1 | grep "70000 words"
'
test_expect_success 'dry runs and plans count the attention of packed documents' '
    for n in 1 2 3 4 5 6 7 8; do seq -s " " 1 127; done >eight && ids eight &&
    model="--data-path i.h5 --split 1,0,0 --eval-iters 0 --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 1024" &&
    mds_data info --seq-length 1024 i.h5 >out && grep "^attention *12.6 % of that of rows without" out &&
    mds_pretrain --dry-run --pack-documents on $model >out &&
    grep "^  documents: attention computes 12.6 % of these FLOPs, [0-9.]* [MG]; all operations [0-9.]* G$" out &&
    mds_pretrain --dry-run --reset-attention-mask $model --seq-length 512 >out && grep "documents: attention computes 25.1 % of" out &&
    mds_pretrain --dry-run $model | grep "^  documents: attention computes 12.6 %" &&
    mds_pretrain --dry-run --pack-documents off $model >out && test_must_fail grep "documents: attention" out &&
    mds_launch plan --machine polaris --nodes 1 -- --pack-documents on $model >out 2>err &&
    grep "documents: attention computes 12.6 % of what it would across them" err &&
    mds_pretrain --dry-run --pack-documents on --data-path gone.h5 ${model#* * } >out && ! grep "documents: attention" out
'
test_expect_success 'documents are packed by default; a run goes on as it began' '
    seq 1 20 | sed "s/.*/1 2 3 4 5 6 7 8 9/" >twenty && ids twenty && echo "1 2 3 4 5 6 7 8 9 10 11 12" >one && mv i.h5 many.h5 &&
    ids one && mv i.h5 one.h5 && begin="mds_pretrain --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 4 \
        --split 1,0,0 --eval-iters 0 --train-iters 3 --exit-interval 1 --data-path" packed="documents* in .* rows, " &&
    test_might_fail $begin many.h5 --save p >out 2>&1 && grep "$packed" out &&
    test_might_fail $begin many.h5 --save w --pack-documents off >out 2>&1 && grep "windows may cross" out &&
    test_might_fail $begin one.h5 --save o >out 2>&1 && ! grep "$packed" out &&
    test_might_fail $begin many.h5 --save m --reset-attention-mask >out 2>&1 && ! grep "$packed" out && ! grep "may cross" out &&
    for kept in w o m; do
        test_might_fail $begin many.h5 --save $kept --load $kept >out 2>&1 && grep "^done: iteration 2 of 3" out && ! grep "$packed" out || return 1
    done &&
    test_might_fail $begin one.h5 --save p --load p >out 2>&1 && grep "$packed" out &&
    test_might_fail $begin many.h5 --save p --load p --pack-documents off >out 2>&1 &&
    grep -e "--pack-documents on (now off)" out
'
test_expect_success 'text is split between documents; a run goes on as it began' '
    seq 1 20 | sed "s/.*/1 2 3 4 5 6 7 8 9/" >twenty && ids twenty && mds_data info --split 8,1,1 i.h5 >out &&
    grep "^split *8,1,1, between documents$" out &&
    grep "^validation *20 tokens: 160 to 179 (documents 17 to 18)$" out &&
    mds_data info i.h5 | grep "^validation *10 tokens: 180 to 189 (document 19)$" &&
    mds_data info --split 33,66,1 --split-at tokens i.h5 >out &&
    grep "^split *33,66,1, within documents$" out && grep "^training *66 tokens: 0 to 65 (documents 1 to 7)$" out &&
    run="mds_pretrain --data-path i.h5 --num-layers 1 --hidden-size 32 --num-attention-heads 2 \
        --seq-length 4 --split 33,66,1 --eval-iters 0 --train-iters 2 --save s --exit-interval 1" &&
    test_might_fail $run 2>err && grep "data: 70 tokens for training, 120 for validation" err && ! grep "by tokens" err &&
    rm -r s && test_might_fail $run --split-at tokens >out 2>&1 && $run --load s >out 2>err &&
    grep "data: i.h5: --split cuts it by tokens, so a document may be partly held out" err &&
    grep "data: 66 tokens for training" err
'
test_expect_success 'ids: long lines, and what dump prints' '
    seq -s " " 1 50255 >long && seq -s " " 1 9 >>long && ids - <long >/dev/null &&
    mds_data dump --ids i.h5 >one && sed "s/ 50256\$//" one | test_cmp long - &&
    ids one && mds_data dump i.h5 | test_cmp one -
'
test_expect_success 'ids: what is none, and options that are missing' '
    printf "1 2\n3 hello\n" >bad &&
    fails "is not part of a token id: tokenize text first" ids bad &&
    printf "1 2\n70000\n" >bad &&
    fails "bad:2: an id of 70000 or more, but --vocab-size is 70000" ids bad &&
    printf "99999999999999999999999\n" >bad && fails "bad:1: an id of 99999 or more" ids bad &&
    printf "\n \n" >bad && fails "nothing to write" ids bad &&
    fails "needs --vocab-size" mds_data make --tokenizer ids --output i.h5 bad &&
    fails "eod 5: must be below --vocab-size 5" \
        mds_data make --tokenizer ids --vocab-size 5 --eod 5 --output i.h5 bad &&
    fails "are for --tokenizer ids" \
        mds_data make --tokenizer bytes --eod 5 --output i.h5 bad
'

test_expect_success 'plain, gzip and CRLF inputs give the same tokens' '
    gunzip -c "$lambda" >l.fna &&
    sed "s/\$/$(printf "\r")/" l.fna | tr ACGT acgt >crlf.fna &&
    for f in l.fna crlf.fna; do
        mds_data make --tokenizer codon --output o.h5 $f &&
        mds_data dump --ids o.h5 >got &&
        mds_data dump --ids l.h5 >want &&
        test_cmp want got || return 1
    done
'

test_expect_success 'what does not count in the loss: N, soft-masked bases, tags' '
    printf ">r1\nACGTacgtNN\n" >soft.fa &&
    mds_data make --tokenizer dna --lowercase-loss-weight 0.1 --kind phage --tag "|{record}|" --tag-every 6 \
        --output k.h5 soft.fa && mds_data info k.h5 >out &&
    grep "^kind *phage: weight 1, 5 tokens" out && grep "^kind *phage:repeat: weight 0.1, 4 tokens" out &&
    grep "^kind *ambiguous: weight 0, 2 tokens" out && grep "^kind *tag: weight 0, 8 tokens" out &&
    echo "|r1|ACGTAC|r1|GTNN" >want && mds_data dump k.h5 | test_cmp want -
'

test_expect_success 'a mix of genomes, as in docs/genome-corpus.md: the loss of each species' '
    gunzip -c "$lambda" | sed "20,60s/[A-Z]/\\L&/g" >phage.fa &&
    awk "BEGIN { srand(1); for (r = 0; r < 3; r++) { print \">c\" r; for (i = 0; i < 99; i++) {
        s = \"\"; for (j = 0; j < 60; j++) s = s substr(\"ACGT\", int(rand() * 4) + 1, 1); print s } } }" |
        gzip >random.fa.gz &&
    for f in phage.fa random.fa.gz; do
        mds_data make --tokenizer dna --lowercase-loss-weight 0.1 --kind ${f%%.*} --tag "|${f%%.*}|{record}|" \
            --tag-every 64 --output ${f%%.*}.h5 $f || return 1
    done &&
    mds_pretrain --data-path 0.7 phage.h5 0.3 random.h5 --num-layers 1 --hidden-size 32 --num-attention-heads 2 \
        --seq-length 128 --pack-documents on --global-batch-size 8 --random-reverse-complement --train-iters 4 --eval-interval 2 \
        --eval-iters 2 --split 90,10,0 --metrics-jsonl corpus.jsonl >out 2>&1 &&
    grep "lm loss of phage: .* lm loss of " out && grep "lm loss of random:" out &&
    grep "\"lm_loss_phage:repeat\":[0-9]" corpus.jsonl && grep "\"event\":\"eval\".*\"lm_loss_random\":" corpus.jsonl
'

# chr1 has a coding sequence of two parts, chr2 one on the reverse strand and one over its end.
printf ">chr1 x\nACGTACGTACGTACG\nTACGTTTTGGGGCCCC\n>chr2\nAAAACCCCGGGGTTTT\n" >genes.fa
printf "##gff-version 3\nchr1\tx\tCDS\t8\t11\t.\t+\t1\tParent=g1;ID=c1\r\nchr1\tx\tgene\t1\t10\t.\t+\t.\tID=g1\n" >genes.gff3
printf "chr1\tx\tCDS\t1\t5\t.\t+\t0\tID=c1;Parent=g1\n\n#\nchr2\tx\tCDS\t3\t9\t.\t-\t1\tParent=g2\n" >>genes.gff3
printf "chr2\tx\tCDS\t15\t18\t.\t+\t.\tID=c3\nchr2\tx\tregion\t1\t16\t.\t+\t.\tIs_circular=true\n##FASTA\n>chr1\nACGT\n" >>genes.gff3
printf "chr1\t5\n" >reads.tsv
genes() {
    mds_data make --tokenizer nucleotide --output g.h5 --gff3 "$@" genes.fa
}
test_expect_success 'genes of a GFF3 file are cut out, or have a weight' '
    printf "%s\n" ACGTATACG CGGGGTT TTAA >want && genes genes.gff3 && mds_data dump g.h5 | test_cmp want - &&
    mds_data info g.h5 >out && grep "^options *features CDS$" out && grep "^split .*, between documents$" out &&
    mds_data make --tokenizer codon --gff3 genes.gff3 --output g.h5 genes.fa &&
    printf "%s\n" "ACG TAT ACG" "GGG GTT" TTA >want && mds_data dump g.h5 | test_cmp want - &&
    gzip -k genes.gff3 && genes genes.gff3.gz --gff3-type gene && echo ACGTACGTAC >want && mds_data dump g.h5 | test_cmp want - &&
    genes genes.gff3 --gff3-loss-weight 2 --kind ec --strand both >out && grep "4 documents from 2 records" out &&
    mds_data info g.h5 >out && grep "^kind *ec: weight 1, 58 tokens" out && grep "^kind *ec:CDS: weight 2, 40 tokens" out
'
# Annotations of one record of 30 bases.  forward, reverse RANGE...: these bases in one line.
dna=ACGTTGCAACCGGTTAGCATCGATTACGGA
printf ">r\n%s\n" $dna >r.fa
forward() {
    for range in "$@"; do echo "$dna" | cut -c "$range"; done | tr -d "\n" | awk 1
}
reverse() {
    forward "$@" | tr ACGT TGCA | awk '{ for (i = length; i > 0; i--) printf "%s", substr($0, i, 1); print "" }'
}
# cuts TYPE LINE...: what is cut out is in want; a LINE has type, begin, end, strand, phase and
# attributes, parted by blanks
cuts() {
    type=$1
    shift
    printf "r x %s\n" "$@" | awk '{ print $1, $2, $3, $4, $5, ".", $6, $7, $8 }' | tr " " "\t" >r.gff3 &&
        mds_data make --tokenizer nucleotide --gff3 r.gff3 --gff3-type "$type" --output r.h5 r.fa >out 2>err &&
        mds_data dump r.h5 >got && cat r.gff3 out err && test_cmp want got
}
apart() {
    grep "warn: $1 of type CDS not joined" err && test "$(wc -l <err)" -eq 1
}
test_expect_success 'parts with IDs of their own and a Parent are joined where phases chain' '
    forward 2-5 8-12 20-24 >want &&
    cuts CDS "CDS 8 12 + 2 ID=t.2;Parent=t" "CDS 2 5 + 0 ID=t.1;Parent=t" "CDS 20 24 + 0 ID=t.3;Parent=t" &&
    ! test -s err && cuts CDS "CDS 8 12 + . Parent=t" "CDS 2 5 + . Parent=t" "CDS 20 24 + 0 ID=t.3;Parent=t" &&
    reverse 2-5 8-12 20-24 >want &&
    cuts CDS "CDS 8 12 - 1 ID=t.2;Parent=t" "CDS 2 5 - 2 ID=t.3;Parent=t" "CDS 20 24 - 0 ID=t.1;Parent=t" &&
    ! test -s err && forward 2-5 8-12 >want && forward 20-24 >>want &&
    cuts CDS "CDS 8 12 + 2 ID=t.2;Parent=t" "CDS 2 5 + 0 ID=t.1;Parent=t" "CDS 20 24 + 1 ID=t.3;Parent=t" && apart "1 part" &&
    cuts CDS "CDS 8 12 + 2 Parent=t" "CDS 2 5 + 0 Parent=t" "CDS 20 24 + 1 Parent=t" && apart "1 part" &&
    { forward 2-5 && reverse 8-10 && forward 20-24; } >want &&
    cuts CDS "CDS 2 5 + 0 Parent=t" "CDS 8 10 - 0 Parent=t" "CDS 20 24 + 0 Parent=t" && apart "2 parts" &&
    { forward 2-10 && forward 5-10; } >want &&
    cuts CDS "CDS 2 10 + 0 ID=a;Parent=t" "CDS 5 10 + 0 ID=b;Parent=t" && apart "1 part" &&
    { forward 2-5 20-24 && forward 8-12; } >want &&
    cuts CDS "CDS 2 5 + 0 ID=a;Parent=t" "CDS 20 24 + 1 ID=a;Parent=t" "CDS 8 12 + 0 ID=b;Parent=t" && ! test -s err
'
test_expect_success 'parts of several Parents are in each; a sequence that all share is there once' '
    { forward 2-4 8-12 && forward 2-4 20-24; } >want &&
    cuts CDS "CDS 2 4 + 0 Parent=t1,t2" "CDS 8 12 + 0 Parent=t1" "CDS 20 24 + 0 ID=x;Parent=t2" &&
    cuts CDS "CDS 2 4 + 0 ID=a;Parent=t1,t2;Note=b" "CDS 8 12 + 0 ID=b;Parent=t1" "CDS 20 24 + 0 ID=c;Parent=t2" &&
    forward 2-4 8-12 >want &&
    cuts CDS "CDS 2 4 + 0 Parent=t1,t2" "CDS 8 12 + 0 Parent=t2,t1" &&
    cuts CDS "CDS 2 4 + 0 ID=a;Parent=t1,t2" "CDS 8 12 + 0 ID=a;Parent=t1,t2" && ! test -s err
'
test_expect_success 'exons are joined; transcripts, which have parts, are not' '
    set -- "gene 1 30 + . ID=g" "mRNA 1 12 + . ID=t1;Parent=g" "mRNA 14 30 + . ID=t2;Parent=g" \
        "exon 1 4 + . ID=e1;Parent=t1" "exon 6 12 + . ID=e2;Parent=t1" "exon 14 30 + . ID=e3;Parent=t2" &&
    { forward 1-4 6-12 && forward 14-30; } >want && cuts exon "$@" && ! test -s err &&
    { forward 1-12 && forward 14-30; } >want && cuts mRNA "$@" && ! test -s err
'
test_expect_success 'a feature in two lines around the start of a circular record' '
    circle="region 1 30 + . ID=r;Is_circular=true" &&
    forward 20-22 26-30 1-4 7-9 >want &&
    cuts CDS "$circle" "CDS 20 22 + 0 ID=c" "CDS 26 30 + 0 ID=c" "CDS 1 4 + 1 ID=c" "CDS 7 9 + 0 ID=c" &&
    forward 20-22 26-30 1-4 7-10 >want &&
    cuts CDS "CDS 1 4 + 1 ID=3;Parent=c" "CDS 20 22 + 0 ID=1;Parent=c" "CDS 26 30 + 0 ID=2;Parent=c" \
        "CDS 7 10 + 0 ID=4;Parent=c" && ! test -s err &&
    forward 26-30 1-4 7-9 >want && cuts CDS "$circle" "CDS 7 9 + 0 ID=c" "CDS 26 34 + 0 ID=c" &&
    reverse 26-30 1-4 >want && cuts CDS "$circle" "CDS 26 30 - 2 ID=c" "CDS 1 4 - 0 ID=c" &&
    forward 1-4 26-30 >want && cuts CDS "CDS 26 30 + 2 ID=c" "CDS 1 4 + 0 ID=c" &&
    cuts CDS "CDS 26 30 + . ID=c" "CDS 1 4 + . ID=c" && ! test -s err &&
    ! cuts CDS "CDS 26 34 + 0 ID=c" && grep "a CDS is at bases 26 to 34 of record .r., which has 30: .*Is_circular=true" err
'
test_expect_success 'genes of other sequences, files that are no GFF3' '
    fails "genes.gff3: no feature of type '\''exon'\'' in it; it has '\''CDS'\'', '\''gene'\''" genes genes.gff3 --gff3-type exon &&
    sed "s/^chr/scaffold/" genes.gff3 >other.gff3 && fails "it has '\''scaffold1'\'', they have '\''chr1'\''" genes other.gff3 &&
    sed "s/15.18/17\t18/" genes.gff3 >bad.gff3 && fails "a CDS is at bases 17 to 18 of record '\''chr2'\'', which has 16" genes bad.gff3 &&
    sed "s/3.9/9\t3/" genes.gff3 >bad.gff3 && fails "bad.gff3:7: begins behind its end, '\''3'\''" genes bad.gff3 &&
    sed "s/ID=c3/gene_id \"c3\"/" genes.gff3 >bad.gff3 && fails "bad.gff3:8: GTF: convert it" genes bad.gff3 &&
    fails "reads.tsv:1: 2 columns, where GFF3 has nine" genes reads.tsv &&
    head -c 30000000 /dev/zero | tr "\0" "x" | gzip >line.gz && fails "line.gz:1: a line of more than" test_memory 65536 genes line.gz &&
    gzip -c genes.gff3 | head -c 100 >cut.gz && fails "cut.gz: the gzip data ends too early" genes cut.gz &&
    fails "strand is not for features that are cut out" genes genes.gff3 --strand both &&
    fails "need --gff3 FILE" mds_data make --tokenizer codon --gff3-type gene --output g.h5 genes.fa &&
    fails "gff3 is for FASTA" mds_data make --tokenizer bytes --gff3 genes.gff3 --output g.h5 genes.fa
'

test_expect_success 'FASTQ, and files that are damaged or larger than they look' '
    printf "@r\nACGT\n+\nIIII\n" >reads.fq && gzip -k reads.fq &&
    fails "reads.fq:1: no '\''>'\'' line before this: FASTQ? convert it with seqtk seq -a" \
        mds_data make --tokenizer dna --output b.h5 reads.fq &&
    fails "reads.fq.gz:1: no" mds_data make --tokenizer dna --output b.h5 reads.fq.gz &&
    { echo ">r" && head -c 3000 "$lambda"; } | gzip >bytes.fa.gz &&
    fails "record '\''r'\'': byte 0x1f is no nucleotide" mds_data make --tokenizer dna --output b.h5 bytes.fa.gz &&
    head -c 30000000 /dev/zero | tr "\0" "\n" | gzip >bomb.gz && test "$(wc -c <bomb.gz)" -lt 100000 &&
    fails "no '\''>'\'' line in it" mds_data make --tokenizer dna --output b.h5 bomb.gz &&
    { printf ">" && head -c 30000000 /dev/zero | tr "\0" "x"; } | gzip >name.gz &&
    fails "nothing to write" test_memory 65536 mds_data make --tokenizer dna --output b.h5 name.gz &&
    { gzip -c reads.fq && echo rubbish; } >tail.gz &&
    test_expect_code 1 mds_data make --tokenizer bytes --output b.h5 tail.gz 2>err && test_path_is_missing b.h5
'

test_expect_success 'no output appears unless all went well' '
    gunzip -c "$lambda" >bad.fna &&
    echo MKVLA >>bad.fna &&
    fails "bad.fna:$(wc -l <bad.fna): record" mds_data make --tokenizer codon --output b.h5 bad.fna &&
    fails "is a protein letter: give the genome" \
        mds_data make --tokenizer codon --output b.h5 bad.fna &&
    test_path_is_missing b.h5 && test_path_is_missing b.h5.partial
'

test_expect_success 'a truncated .gz is no genome' '
    head -c 9000 "$lambda" >cut.fna.gz &&
    fails "cut.fna.gz: the gzip data ends too early" \
        mds_data make --tokenizer codon --output b.h5 cut.fna.gz
'

test_expect_success 'missing input, unwritable output' '
    fails "gone.fna: No such file" \
        mds_data make --tokenizer codon --output b.h5 gone.fna &&
    fails "no/b.h5: cannot be written: No such file" \
        mds_data make --tokenizer codon --output no/b.h5 "$lambda" &&
    mkdir folder &&
    fails "folder: a folder; it must be a file" \
        mds_data make --tokenizer codon --output folder "$lambda"
'

test_expect_success 'truncated and foreign token files' '
    head -c 5000 l.h5 >cut.h5 &&
    fails "cut.h5: not an HDF5 file (or truncated: " mds_data info cut.h5 &&
    grep "make it again with mds_data make" err &&
    echo hello >text &&
    fails "text: not an HDF5 file" mds_data dump text &&
    fails "lambda.fna.gz: not a token file: make one with mds_data make" \
        mds_data info "$lambda" &&
    fails "gone.h5: No such file" mds_data info gone.h5
'

test_expect_success 'wrong usage names the nearest' '
    fails "unknown subcommand '\''mak'\''; did you mean make?" mds_data mak &&
    fails "unknown subcommand '\''genome'\''; there is make, info, dump" mds_data genome &&
    fails "no subcommand given; there is make, info, dump" mds_data &&
    fails "did you mean --tokenizer?" mds_data make --tokeniser codon &&
    fails "tokenizer '\''codn'\'': must be one of codon, nucleotide, bytes, ids, dna, 6-mer, 6-mer-overlapping; did you mean codon?" \
        mds_data make --tokenizer codn --output b.h5 "$lambda" &&
    fails "strand '\''revers'\'': must be one of forward, reverse, both; did you mean reverse?" \
        mds_data make --tokenizer codon --strand revers --output b.h5 "$lambda" &&
    fails "frame '\''3'\'': must be one of 0, 1, 2, all" \
        mds_data make --tokenizer codon --frame 3 --output b.h5 "$lambda" &&
    test_must_fail grep "did you mean" err &&
    fails "must be one of 0, 1, 2, all" mds_data make --frame=3 &&
    fails "vocab-size '\''0'\'': must be between 1 and 16777216" mds_data make --vocab-size 0 &&
    fails "option --frame belongs to '\''make'\''; give it after that word" \
        mds_data dump --frame 1 l.h5 &&
    fails "option --ids belongs to '\''dump'\''; give it after that word" mds_data --ids dump l.h5 &&
    fails "unknown option --idss; see --help" mds_data make --idss l.h5 &&
    fails "dump: an operand is empty; is a shell variable unset?" mds_data dump "" &&
    fails "make: an operand is empty" mds_data make --tokenizer codon --output b.h5 "$lambda" "" &&
    fails "count needs a value" mds_data dump l.h5 --count &&
    fails "ids '\''maybe'\'': must be 0 or 1" mds_data dump --ids=maybe l.h5 &&
    fails "is for --tokenizer codon, not bytes" \
        mds_data make --tokenizer bytes --frame 1 --output b.h5 "$lambda" &&
    fails "tag is for --tokenizer dna" mds_data make --tokenizer codon --tag x --output b.h5 "$lambda" &&
    fails "train with --random-reverse-complement" \
        mds_data make --tokenizer dna --tag x --strand both --output b.h5 "$lambda" &&
    fails "is for FASTA, not --tokenizer bytes" \
        mds_data make --tokenizer bytes --lowercase-loss-weight 0 --output b.h5 "$lambda" &&
    fails "output FILE.h5 is missing" mds_data make --tokenizer codon "$lambda" &&
    fails "output '\''-'\'': neither standard input nor output will do; give a name" \
        mds_data make --tokenizer codon --output - "$lambda" &&
    fails "make needs an INPUT" mds_data make --tokenizer codon --output b.h5 &&
    fails "from '\''x'\'': must be a whole number" mds_data dump --from x l.h5 &&
    fails "from 20000 is beyond its 16168 tokens" mds_data dump --from 20000 l.h5 &&
    fails "'\''n.h5'\'' is one operand too many; see mds_data info --help" mds_data info l.h5 n.h5 &&
    fails "dump needs one FILE" mds_data dump
'

test_expect_success 'an input is not replaced by its tokens' '
    cp "$lambda" mine.gz && ln mine.gz linked.gz &&
    test_expect_code 1 mds_data make --tokenizer codon --output mine.gz linked.gz 2>err &&
    grep "error: mine.gz: is an input and would be overwritten; give" err && cmp mine.gz "$lambda"
'

test_expect_success 'help and version' '
    mds_data --help >out && grep "^Usage: mds_data SUBCOMMAND" out && grep -e "--frame" out &&
    mds_data dump --help >out && grep "^Usage: mds_data dump" out && grep -e "--count" out &&
    test_must_fail grep -e "--frame" out &&
    mds_data --version | grep "^mds_data [0-9]"
'

if test -w /dev/full; then test_set_prereq DEV_FULL; fi
test_expect_success DEV_FULL 'a full disk under standard output is an error' '
    test_expect_code 1 mds_data dump l.h5 >/dev/full 2>err &&
    grep "standard output: No space" err
'

test_done
