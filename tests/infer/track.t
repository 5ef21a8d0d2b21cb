#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_infer score --track: log-likelihoods along a genome'
# shellcheck source=tests/infer/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/infer/setup.sh"

# track OUTPUT ARGUMENTS...
track() {
    output=$1
    shift
    score --track "$output" --overwrite --output table.tsv "$@" --threads 1
}
# close FILE FILE: bedGraph, the same but for what is rounded to six digits
close() {
    awk 'NR == FNR { n = NR; line[NR] = $0; next }
        { split(line[FNR], was); d = was[4] - $4
          if (was[1] != $1 || was[2] != $2 || was[3] != $3 || d * d > 1e-8) { print line[FNR] " | " $0; bad = 1 } }
        END { exit bad || FNR != n }' "$1" "$2"
}
awk '{ print ">one words\n" substr($0, 1, 100) "\n>two\n" substr($0, 1001, 30) "N" substr($0, 1032, 30) }' bases >g.fa
# Each codon is worth what a sequence that ends with it is more than one that ends before it.
awk '/^>/ { name = substr($1, 2); next }
    { for (k = 1; 3 * k <= length($0); k++) print ">" name ":" 3 * (k - 1) "\n" substr($0, 1, 3 * k) }' g.fa >prefixes.fa
score prefixes.fa --threads 1 2>err | awk -F '\t' 'NR > 1 {
    split($1, at, ":"); loglik = $4 == "nan" ? 0 : $4; tokens = $3 == "nan" ? 0 : $3
    if (at[2] > 0 && tokens > was_tokens) printf "%s\t%d\t%d\t%.12g\n", at[1], at[2], at[2] + 3, (loglik - was) / 3
    was = loglik; was_tokens = tokens }' >want

test_expect_success 'each codon, at its place; without the first and those with an ambiguous base' '
    track t.bedGraph g.fa && cat t.bedGraph && test "$(wc -l <want)" -eq 50 && close want t.bedGraph &&
    test "$(head -n 1 t.bedGraph | cut -f 1-3 | tr "\t" " ")" = "one 3 6" && ! grep "two	30" t.bedGraph && grep "two	33" t.bedGraph
'
test_expect_success 'in any batches, and of two ranks' '
    track few.bedGraph --batch-tokens 1 g.fa && close t.bedGraph few.bedGraph &&
    timeout 60 $MPIEXEC -n 2 mds_infer score --load model --track two.bedGraph --output table.tsv --overwrite g.fa --threads 1 \
        --tensor-model-parallel-size 2 </dev/null >out 2>&1 && cat out && close t.bedGraph two.bedGraph
'
# mean_of FORWARD REVERSE: bases that both have, one by one
each_base() {
    awk '{ for (i = $2; i < $3; i++) print $1 "\t" i "\t" i + 1 "\t" $4 }' "$1" | sort -k 1,1 -k 2,2n
}
test_expect_success 'the other strand at the same places, and the mean of both' '
    track r.bedGraph --strand reverse g.fa && each_base r.bedGraph >r && each_base t.bedGraph >f &&
    test "$(tail -n 1 r | cut -f 1-3 | tr "\t" " ")" = "two 57 58" && test "$(head -n 1 r | cut -f 2)" -eq 1 &&
    track b.bedGraph --strand both g.fa && each_base b.bedGraph >b &&
    awk "{ s[\$1 \"\t\" \$2] += \$4; n[\$1 \"\t\" \$2]++ } END { for (k in s) { split(k, at, \"\t\"); print k \"\t\" at[2] + 1 \"\t\" s[k] / n[k] } }" f r |
        sort -k 1,1 -k 2,2n >mean && close mean b
'
test_expect_success 'regions at the places that they are from' '
    if mds_infer score --load model --fasta g.fa none.bed 2>&1 | grep "has no htslib"; then return 0; fi
    printf "one\t10\t70\n" >r.bed && printf "one\t10\t70\tx\t0\t-\n" >rr.bed &&
    awk "/^>one/ { print; getline; print substr(\$0, 11, 60) }" g.fa >part.fa &&
    for strand in forward reverse both; do
        track want.bedGraph --strand $strand part.fa && awk "{ \$2 += 10; \$3 += 10; print }" want.bedGraph >want &&
        track is.bedGraph --strand $strand --fasta g.fa r.bed && close want is.bedGraph || return 1
    done &&
    track want.bedGraph --strand reverse --fasta g.fa r.bed && track is.bedGraph --fasta g.fa rr.bed && close want.bedGraph is.bedGraph &&
    track want.bedGraph --strand both --fasta g.fa r.bed && track is.bedGraph --strand both --fasta g.fa rr.bed && close want.bedGraph is.bedGraph
'
test_expect_success 'errors say what, where and what to do' '
    test_must_fail score --track t.bedGraph g.fa --threads 1 2>err && grep "t.bedGraph: exists already" err &&
    mds_data make --tokenizer codon --output g.h5 g.fa && test_must_fail score --track n.bedGraph g.h5 --threads 1 2>err && cat err &&
    grep "track: what g.h5 has is at no place of a genome; give FASTA, or regions with --fasta" err &&
    test_must_fail env FAULTFS=full:100 FAULTFS_PATH=full LD_PRELOAD="$builddir/tests/ckpt/faultfs.so" mds_infer score --load model \
        --track full.bedGraph --output table.tsv --overwrite g.fa --threads 1 2>err && cat err && grep "full.bedGraph: cannot be written" err &&
    test_must_fail score --vcf v --fasta g.fa --track n.bedGraph 2>err && grep "are for sequences: leave them out with --vcf" err
'
test_done
