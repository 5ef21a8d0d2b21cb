#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer score --vcf: how likely alleles are'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

if mds_infer score --load model --vcf none --fasta none 2>&1 | grep -q "has no htslib"; then
    skip_all='configured without htslib'
    test_done
fi

# Three chromosomes: long, of 95 bases, and of 400 with N in the middle.
awk '{ print ">one\n" substr($0, 1, 3000) "\n>short\n" substr($0, 5001, 95) "\n>gap"
    print substr($0, 7001, 200) "NNNNNNNNNN" substr($0, 7211, 190) }' bases >g.fa
awk '/^>/ { n = substr($1, 2); next } { print n " " $0 }' g.fa >chromosomes

# variants LINES: with "chrom pos id ref alt" of standard input; ref "=N" is the N bases there, and
# in alt "!" is a base that is not there, "=" the reference's and what follows is inserted
variants() {
    printf '##fileformat=VCFv4.2\n##contig=<ID=one>\n##contig=<ID=short>\n##contig=<ID=gap>\n##contig=<ID=other>\n'
    printf '#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n'
    awk 'NR == FNR { of[$1] = $2; next } {
        ref = $4
        if (ref ~ /^=/) ref = substr(of[$1], $2, substr(ref, 2))
        other = substr(ref, 1, 1) == "A" ? "C" : "A"
        alt = $5; gsub(/!/, other, alt); gsub(/=/, ref, alt)
        print $1 "\t" $2 "\t" $3 "\t" ref "\t" alt "\t.\tPASS\t." }' chromosomes -
}
# score_vcf ARGUMENTS...: the table
score_vcf() {
    mds_infer score --load model --vcf v.vcf --fasta g.fa --window 90 --threads 1 "$@"
}
# expected: the same by windows as sequences: "alt ref" scores subtracted, for one line of v.vcf
column() {
    cut -f "$1" "$2" | tail -n +2
}
# alike FILE FILE: the same but for rounding, which weighs much where a ratio is almost 0
alike() {
    awk -F '[\t;=,]' '
        NR == FNR { n = NR; line[NR] = $0; next }
        { k = split(line[FNR], was); bad = bad || k != NF
          for (i = 1; i <= NF; i++) { d = was[i] - $i; bad = bad || was[i] != $i && (was[i] !~ /^-?[0-9.]/ || d * d > 1e-10) } }
        END { exit bad || FNR != n }' "$1" "$2"
}
cat >list <<'END'
one 1 first =1 !
one 700 snv =1 !
one 700 multi =1 !,=TTT
one 731 deletion =5 !
one 761 insertion =1 =ACGTACGTA
one 800 complex =4 !GG
one 2999 end =1 !
short 40 middle =1 !
short 41 more =1 =GG
gap 100 near =1 !
END
variants <list >v.vcf

# What it should be, slowly: both versions of each window as sequences of their own.
# reference FILE middle|left|right ARGUMENTS...
reference() {
    file=$1 place=$2
    shift 2
    awk -v window=90 -v place="$place" 'NR == FNR { of[$1] = $2; next } /^#/ { next } {
        c = of[$1]; C = length(c); n = split($5, alt, ",")
        for (i = 1; i <= n; i++) {
            r = length($4); a = length(alt[i]); more = a - r; longer = a > r ? a : r
            C2 = more < 0 ? C + more : C
            w = window < C2 ? window : C2; w -= w % 3
            half = w - longer; half = int(half / 2)
            s = $2 - 1 - half
            if (place == "left") s = $2 - 1
            if (place == "right") { s = $2 - 1 + longer + 2; s -= s % 3 + w }
            if (s > C2 - w) s = C2 - w; if (s < 0) s = 0; s -= s % 3
            with = substr(c, 1, $2 - 1) alt[i] substr(c, $2 + r)
            print ">" $3 "-alt\n" substr(with, s + 1, w) "\n>" $3 "-ref\n" substr(c, s + 1, w)
        } }' chromosomes "$file" >windows.fa
    mds_infer score --load model windows.fa --threads 1 "$@" >windows &&
        column 4 windows | paste - - | awk '{ printf "%.12g\n", $1 - $2 }'
}
test_expect_success 'ratios are those of the windows, read as sequences' '
    score_vcf >table 2>err && cat table err && reference v.vcf middle --strand forward >want && column 6 table >is &&
    paste is want && test "$(wc -l <is)" -eq 11 && near want is 1e-4 &&
    head -n 1 table | tr "\t" " " >names && echo "chrom pos id ref alt llr llr_fwd llr_rc jsd status" >want &&
    test_cmp want names && column 10 table | sort -u >is && echo ok >want && test_cmp want is &&
    column 6 table >a && column 7 table >b && test_cmp a b && column 8 table | sort -u >is && echo nan >want && test_cmp want is &&
    grep "11 alleles of 10 variants scored, in windows of 90 bases" err && ! grep warn err && test -s g.fa.fai
'
test_expect_success 'both strands, and the mean of both' '
    score_vcf --strand both >both && reference v.vcf middle --strand reverse >want && column 8 both >is && near want is 1e-4 &&
    column 7 table >want && column 7 both >is && near want is 1e-4 &&
    awk -F "\t" "NR > 1 { d = \$6 - (\$7 + \$8) / 2; if (d * d > 1e-12) exit 1 }" both &&
    score_vcf --strand reverse >reverse && column 8 reverse >is && column 8 both >want && near want is 1e-4 &&
    column 6 reverse >is && near want is 1e-4
'
test_expect_success 'at the end of its window, of each strand' '
    score_vcf --strand both --variant-at end >end && reference v.vcf right --strand forward >want && column 7 end >is &&
    near want is 1e-3 && reference v.vcf left --strand reverse >want && column 8 end >is && near want is 1e-3 &&
    ! near both end 1e-4 >/dev/null
'
test_expect_success 'variants in VCF and BCF, plain and compressed: what was there, and the ratios' '
    score_vcf --strand both --output out.vcf && score_vcf --strand both --output out.vcf.gz && score_vcf --strand both --output out.bcf &&
    gzip -dc out.vcf.gz >plain && test_cmp out.vcf plain && grep "^##INFO=<ID=LLR,Number=A,Type=Float" out.vcf &&
    grep "^##mds_infer=model/iter_0000005" out.vcf &&
    grep -v "^#" v.vcf | cut -f 1-7 >want && grep -v "^#" out.vcf | cut -f 1-7 >is && test_cmp want is &&
    grep -v "^#" out.vcf | sed "s/.*LLR=\([^;]*\);.*/\1/" | tr , "\n" >is && column 6 both >want && near want is 1e-4 &&
    grep -v "^#" out.vcf | sed "s/.*LLR_RC=\([^;]*\).*/\1/" | tr , "\n" >is && column 8 both >want && near want is 1e-4 &&
    for v in out.vcf.gz out.bcf; do
        mds_infer score --load model --vcf $v --fasta g.fa --window 90 --strand both --threads 1 >again && near both again 1e-4 || return 1
    done &&
    test_must_fail score_vcf --output out.vcf 2>err && grep "out.vcf: exists already" err
'
test_expect_success 'scores of an earlier run, and tags of the same names, are replaced' '
    score_vcf --strand both --output first.vcf && sed "s/ID=JSD,Number=A,Type=Float/ID=JSD,Number=1,Type=String/" first.vcf >marked.vcf &&
    mds_infer score --load model --vcf marked.vcf --fasta g.fa --window 12 --threads 1 --output second.vcf &&
    test "$(grep -c "^##INFO=<ID=JSD,Number=A,Type=Float" second.vcf)" = 1 && ! grep "ID=JSD,Number=1" second.vcf &&
    ! grep "LLR_RC=" second.vcf && grep -v "^#" first.vcf | cut -f 1-7 >want && grep -v "^#" second.vcf | cut -f 1-7 >is && test_cmp want is
'
test_expect_success 'an index older than its FASTA is made again' '
    cp g.fa other.fa && mds_infer score --load model --vcf v.vcf --fasta other.fa --window 90 --threads 1 >before &&
    sed "2s/^.*/&ACGT/" g.fa >other.fa && touch -d "1 minute ago" other.fa.fai &&
    mds_infer score --load model --vcf v.vcf --fasta other.fa --window 90 --threads 1 >was &&
    rm other.fa.fai && mds_infer score --load model --vcf v.vcf --fasta other.fa --window 90 --threads 1 >is && test_cmp was is &&
    ! test_cmp before is
'
test_expect_success 'tags that the header does not name: in text, but not in BCF' '
    awk -F "\t" -v OFS="\t" "/^#/ { print; next } { \$8 = \"XX=1\"; print }" v.vcf >undeclared.vcf &&
    mds_infer score --load model --vcf undeclared.vcf --fasta g.fa --window 90 --threads 1 --output u.vcf && grep "XX=1;LLR=" u.vcf &&
    test_must_fail mds_infer score --load model --vcf undeclared.vcf --fasta g.fa --window 90 --threads 1 --output u.bcf 2>err &&
    grep "header does not name, so it cannot be written as BCF" err
'
test_expect_success 'no output replaces an input' '
    for out in g.fa v.vcf; do
        cp $out saved && test_must_fail score_vcf --output $out --overwrite 2>err &&
        grep "$out: is an input and would be overwritten" err && cmp saved $out || return 1
    done
'
# Divergence the slow way: each codon behind each prefix of both windows, whose probability is what
# `score` says of it with and without it.
cat >next.awk <<'AWK'
/^>/ { name = substr($1, 2); next }
{
    for (n = 3; n < length($0); n += 3)
        for (i = -1; i < 64; i++) {
            printf ">%s/%d/%d\n%s", name, n / 3, i, substr($0, 1, n)
            print i < 0 ? "" : substr("ACGT", int(i / 16) + 1, 1) substr("ACGT", int(i / 4) % 4 + 1, 1) substr("ACGT", i % 4 + 1, 1)
        }
}
AWK
# lines "alt|ref", then "NAME-alt|ref/TOKENS/CODON LOGLIK"
cat >divergence.awk <<'AWK'
function codon(s, n) { return substr(s, 3 * n - 2, 3) }
NF == 1 { split($1, w, "|"); for (n = 1; codon(w[1], n) == codon(w[2], n);) n++; first[++pairs] = n; tokens = length(w[1]) / 3; next }
{
    split($1, w, "/"); split(w[1], id, "-")
    if (!(id[1] in number)) number[id[1]] = ++names
    if (w[3] < 0) before = $2 == "nan" ? 0 : $2
    else p[number[id[1]], id[2], w[2], w[3]] = exp($2 - before)
}
END {
    for (k = 1; k <= pairs; k++) {
        sum = 0
        for (n = first[k]; n < tokens; n++) {
            a = b = 0
            for (i = 0; i < 64; i++) { a += p[k, "alt", n, i]; b += p[k, "ref", n, i] }
            for (i = 0; i < 64; i++) {
                x = p[k, "alt", n, i] / a; y = p[k, "ref", n, i] / b
                sum += (x * log(2 * x / (x + y)) + y * log(2 * y / (x + y))) / 2
            }
        }
        printf "%.12g\n", sum / (tokens - first[k])
    }
}
AWK
test_expect_success 'the divergence is that of all codons that could come next' '
    cp v.vcf all.vcf && printf "one 200 snv =1 !\none 301 two =2 !C\n" | variants >v.vcf && score_vcf >few &&
    reference v.vcf middle && mv all.vcf v.vcf && awk -f next.awk windows.fa >next.fa &&
    mds_infer score --load model next.fa --threads 1 >next &&
    { awk "!/^>/" windows.fa | paste -d "|" - -; tail -n +2 next | cut -f 1,4; } | awk -f divergence.awk >want &&
    column 9 few >is && paste is want && near want is 1e-3 && test "$(wc -l <want)" -eq 2 &&
    column 9 table | sed "s/^[0-9].*/some/" | tr "\n" " " >is &&
    echo "some some some nan nan nan nan nan some nan some " | tr -d "\n" >want && test_cmp want is
'
while read -r n options; do
    test_expect_success "$n ranks give the same: $options" "
        rm -f g.fa.fai &&
        timeout 60 \$MPIEXEC -n $n mds_infer score --load model --vcf v.vcf --fasta g.fa --window 90 --threads 1 --strand both \
            --output ranks --overwrite $options </dev/null >out 2>&1 && cat out && near both ranks 1e-4 && test -s g.fa.fai
    "
done <<'END'
2
2 --tensor-model-parallel-size 2
2 --tensor-model-parallel-size 2 --sequence-parallel --sequence-tile 16 --loss-tile 7
4 --context-parallel-size 2 --pipeline-model-parallel-size 2
END
test_expect_success 'memory is that of the dry run, with the logits' '
    score_vcf --dry-run --world-size 1 >dry && score_vcf --log-level debug 2>wet >again && near table again 1e-4 &&
    table dry >a && table wet >b && cat wet && test "$(wc -l <a)" -ge 3 && test_cmp a b
'
test_expect_success 'few at a time, or all: the same' '
    score_vcf --strand both --batch-tokens 1 >few && near both few 1e-4 &&
    score_vcf --strand both --batch-tokens 1000000 >many && near both many 1e-4
'
# together CHECKPOINT TOKENIZER BASES TOKENS [ARGUMENTS...]: scores of windows that share what they begin with, as those of
# whole windows, in rows of as many TOKENS as they have
together() {
    load=$1 bases=$2 tokens=$3
    shift 3
    for at in '' '--variant-at end'; do
        # shellcheck disable=SC2086
        for how in '' "--seq-length $tokens"; do
            mds_infer score --load $load --vcf v.vcf --fasta g.fa --window $bases --strand both --threads 1 $at $how "$@" >some${how:+.whole} 2>err ||
                { cat err; return 1; }
            sed -n 's/.*which share \(.*\) % of.*/\1/p' err >share${how:+.whole}
        done
        cat share && alike some.whole some && awk '{ exit !($1 > 15) }' share && echo 0 >want && test_cmp want share.whole || return 1
    done
}
test_expect_success 'windows share what they begin with: on both strands, with the first and the last token, and many alleles' '
    grep "^#" v.vcf >lines && { cat list && echo "one 1500 many =1 CA,CC,CG,CT,CAA,CAC,CAG,CAT,CCA,CCC" && echo "one 46 left =1 !" &&
        echo "one 47 left =1 =T" && echo "short 1 begin =1 !" && echo "short 2 begin =2 !"; } | variants | sort -s -k 1,1 -k 2,2n >sorted &&
    { cat lines; for c in one short gap; do grep "^$c	" sorted; done; } >v.vcf &&
    together model 90 29 && together model 90 29 --no-use-flash-attn && together model 90 29 --batch-tokens 500 &&
    reference v.vcf middle --strand forward >want && score_vcf >is.tsv && column 6 is.tsv >is && near want is 1e-4
'
while read -r name bases tokens options; do
    test_expect_success "windows share what they begin with: $name" "
        mds_data make --tokenizer ${options%% *} --output $name.h5 '$srcdir/tests/data/lambda.fna.gz' &&
        pretrain --num-layers 2 --seq-length $tokens --data-path $name.h5 ${options#* } --save $name >out 2>&1 &&
        together $name $bases $tokens
    "
done <<'END'
learned 90 29 codon --position-embedding-type learned_absolute
alibi 90 29 codon --position-embedding-type alibi --window-size 9 --num-key-value-heads 2
experts 90 29 codon --use-rotary-position-embeddings --disable-bias-linear --num-experts 4 --moe-router-topk 2
words 90 84 6-mer-overlapping --use-rotary-position-embeddings --window-size 20
single 40 39 nucleotide --use-rotary-position-embeddings
END
test_expect_success 'windows share what they begin with: likelihoods of bases' '
    together model 90 29 --marginal-bases
'
test_expect_success 'rings and whole windows share nothing' '
    timeout 60 $MPIEXEC -n 2 mds_infer score --load model --vcf v.vcf --fasta g.fa --window 96 --threads 1 --context-parallel-size 2 \
        --output ring --overwrite </dev/null >out 2>&1 && cat out && grep "which share 0 % of" out &&
    score_vcf --window 96 --batch-tokens 1 >one 2>err && grep "which share 0 % of" err && alike one ring &&
    timeout 60 $MPIEXEC -n 2 mds_infer score --load model --vcf v.vcf --fasta g.fa --window 96 --threads 1 --ds-sequence-parallel-size 2 \
        --output ulysses --overwrite </dev/null >out 2>&1 && cat out && ! grep "which share 0 % of" out && alike one ulysses
'
test_expect_success 'what cannot be scored is named, counted, and stays in the file' '
    variants >v.vcf <<-"END" &&
	one 1 snv =1 !
	one 100 symbolic =1 <DEL>
	one 101 star =1 *,!
	one 102 breakend =1 =[short:3[
	one 103 none =1 .
	one 104 letters =1 N
	one 105 wrong CCCCCCCC A
	one 106 longer =1 =AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
	one 2999 long =7 A
	short 95 last =1 !
	short 96 behind AA C
	gap 199 beside =1 !
	gap 205 inside =1 A
	gap 300 equal =1 =
	other 1 missing A C
	END
    score_vcf >table 2>err && cat table err && column 10 table | tr "\n" " " >is &&
    echo "ok symbolic symbolic ok symbolic no_allele ambiguous ref_mismatch no_window no_window no_window ref_mismatch same_tokens ambiguous same_tokens no_contig " >want &&
    tr -d "\n" <want >w && test_cmp w is &&
    grep "2 not scored: have a REF that is not what the FASTA has there: is it another assembly?; the first is one:105 CCCCCCCC A" err &&
    grep "1 not scored: are on sequences that the FASTA does not have" err &&
    awk -F "\t" "NR > 1 && (\$10 == \"ok\") == (\$6 == \"nan\") { exit 1 }" table &&
    score_vcf --output named.vcf && test "$(grep -v -c "^#" named.vcf)" -eq 15 && grep "star.*LLR=\.,-*[0-9]" named.vcf &&
    ! grep "symbolic.*LLR=" named.vcf
'
test_expect_success 'windows: as long as the model takes' '
    variants <list >v.vcf && test_must_fail mds_infer score --load model --vcf v.vcf --fasta g.fa --threads 1 --window 4 2>err &&
    grep "window: must have 6 bases at least" err && score_vcf --window 3000 >wide 2>err && column 10 wide | sort -u >is && echo ok >want && test_cmp want is &&
    mds_infer score --load model --vcf v.vcf --fasta g.fa --threads 1 >usual 2>err && grep "in windows of 195 bases" err &&
    pretrain --num-layers 1 --seq-length 32 --data-path t.h5 --save learned >out 2>&1 &&
    test_must_fail mds_infer score --load learned --vcf v.vcf --fasta g.fa --window 102 2>err &&
    grep "window 102: .* takes 33 tokens, which are 99 bases" err &&
    mds_infer score --load model --vcf v.vcf --fasta g.fa --threads 1 --dry-run >dry && grep "micro-batch" dry
'
test_expect_success 'errors say what, where and what to do' '
    grep "^#" v.vcf >header && grep -v "^#" v.vcf >lines &&
    { cat header; tac lines; } >bad.vcf && test_must_fail score_vcf --vcf bad.vcf 2>err && cat err &&
    grep "bad.vcf: is not sorted: record 3, short:40, comes after short:41" err &&
    for new in new.tsv new.vcf; do
        test_must_fail score_vcf --vcf bad.vcf --output $new && ! test -e $new && ! test -e $new.run || return 1
    done &&
    { cat header lines; printf "gap\t300\t.\tA\tC\t.\tPASS\t"; } >bad.vcf && test_must_fail score_vcf --vcf bad.vcf 2>err &&
    grep "bad.vcf: is cut short: its last line" err && test "$(grep -c error err)" -eq 1 &&
    { cat header lines; printf "gap\t300\t.\tA\n"; } >bad.vcf && test_must_fail score_vcf --vcf bad.vcf 2>err &&
    grep "bad.vcf: record 11 is damaged, or the file is cut short" err && test "$(grep -c error err)" -eq 1 &&
    head -c $(($(wc -c <out.vcf.gz) - 28)) out.vcf.gz >bad.vcf.gz && test_must_fail score_vcf --vcf bad.vcf.gz 2>err && grep "bad.vcf.gz: is cut short" err &&
    echo text >bad.vcf && test_must_fail score_vcf --vcf bad.vcf 2>err && grep "bad.vcf: is neither VCF nor BCF" err &&
    test_must_fail score_vcf --vcf none.vcf 2>err && grep "none.vcf: No such file" err &&
    test_must_fail score_vcf --fasta none.fa 2>err && grep "none.fa: No such file" err &&
    gzip -c g.fa >g.fa.gz && test_must_fail score_vcf --fasta g.fa.gz 2>err && grep "g.fa.gz: cannot be read by parts: .* bgzip (not gzip)" err &&
    test_must_fail mds_infer score --load model --vcf v.vcf 2>err && grep -e "--vcf and --fasta go together" err &&
    test_must_fail mds_infer score --load model g.fa --vcf v.vcf --fasta g.fa 2>err && grep "score sequences, or variants" err &&
    mds_ckpt export --format hf --output hf model >out && test_must_fail score_vcf --load hf 2>err && grep "not made of bases" err
'
test_expect_success 'on a full disk what is done stays' '
    { variants </dev/null; for i in $(seq 1 400); do echo "one $((100 + 5 * i)) n$i =1 !"; done | variants | grep -v "^#"; } >v.vcf &&
    for out in full.vcf full.tsv; do
        test_must_fail env FAULTFS=full:9000 FAULTFS_PATH=full LD_PRELOAD="$builddir/tests/ckpt/faultfs.so" \
            mds_infer score --load model --vcf v.vcf --fasta g.fa --window 90 --threads 1 --batch-tokens 1 --output $out 2>err &&
        cat err && n=$(grep -v -c "^#\|^chrom" $out) && test $n -gt 10 && test $n -lt 400 &&
        grep "$out: cannot be written: .*; the first $n \(variants\|lines of results\) are complete" err &&
        test "$(tail -c 1 $out | tr "\n" x)" = x &&
        mds_infer score --load model --vcf v.vcf --fasta g.fa --window 90 --threads 1 --batch-tokens 1 --output $out --resume 2>err &&
        cat err && grep "$out has the first $n [a-z]* already" err && grep "$((400 - n)) alleles of $((400 - n)) variants scored" err || return 1
    done &&
    score_vcf >want && alike want full.tsv && score_vcf --output want.vcf && alike want.vcf full.vcf
'
test_expect_success '--resume goes on with tables, VCF and BCF that were cut anywhere' '
    for out in all.tsv all.vcf all.vcf.gz all.bcf; do
        score_vcf --strand both --output $out || return 1
        bytes=$(wc -c <$out)
        for at in $((bytes / 3)) $((bytes / 2)) $((bytes - 1)) $((bytes - 29)) $bytes; do
            head -c $at $out >cut-$out && cp $out.run cut-$out.run &&
            score_vcf --strand both --output cut-$out --resume 2>err && cat err && ! test -e cut-$out.partial || return 1
        done
        grep "cut-$out has the first 400 [a-z]* already" err && grep "0 alleles of 0 variants scored" err || return 1
        head -c $((bytes / 2)) $out >cut-$out &&
        timeout 60 $MPIEXEC -n 2 mds_infer score --load model --vcf v.vcf --fasta g.fa --window 90 --threads 1 --strand both \
            --output cut-$out --resume </dev/null >out 2>&1 && cat out &&
        case $out in
            *.tsv) alike all.tsv cut-all.tsv ;;
            *) mds_infer score --load model --vcf cut-$out --fasta g.fa --window 90 --threads 1 --strand both >again && alike all.tsv again ;;
        esac || return 1
    done &&
    gzip -dc cut-all.vcf.gz >plain && alike all.vcf plain
'
test_expect_success '--resume keeps whole records of several alleles, and refuses others' '
    variants <list >v.vcf && score_vcf --output all.tsv --overwrite && head -n 4 all.tsv >few.tsv && cp all.tsv.run few.tsv.run &&
    score_vcf --output few.tsv --resume 2>err && alike all.tsv few.tsv && grep "9 alleles of 8 variants scored" err &&
    score_vcf --output all.vcf --overwrite && cp all.vcf few.vcf && cp all.vcf.run few.vcf.run &&
    test_must_fail score_vcf --output few.vcf --window 60 --resume 2>err && grep "begun with .window: 90., and this is .window: 60." err &&
    sed "s/^one	761/one	762/" all.vcf >few.vcf && test_must_fail score_vcf --output few.vcf --resume 2>err && cat err &&
    grep "few.vcf: cannot be resumed: it has one:762 where the input has one:761" err && ! test -e few.vcf.partial && test_must_fail test_cmp few.vcf all.vcf &&
    tail -n 1 all.vcf | cat all.vcf - >few.vcf && test_must_fail score_vcf --output few.vcf --resume 2>err && grep "it has more variants than v.vcf" err
'
test_expect_success 'a job is not submitted with a VCF that it would refuse' '
    variants <list >v.vcf && { grep "^#" v.vcf && grep -v "^#" v.vcf | tac; } >bad.vcf &&
    submit() {
        mds_launch submit --program mds_infer --machine polaris --print debug 1 1:00:00 me -- \
            score --load model --vcf "$1" --fasta g.fa --output s.tsv
    } && submit v.vcf >job && grep -e "--vcf v.vcf" job &&
    test_must_fail submit bad.vcf 2>err && grep "bad.vcf: is not sorted: record" err
'
test_done
