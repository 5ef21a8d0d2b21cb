#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='docs/inference.md: its commands, with a smaller model and fewer genes'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

ecoli=/usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz
if ! test -r $ecoli; then
    skip_all='no genome of E. coli (Debian: bowtie-examples)'
    test_done
fi

test_expect_success 'a model of E. coli' '
    cp $ecoli . && mds_data make --tokenizer codon --output ecoli.h5 NC_008253.fna.gz &&
    mds_pretrain --threads 1 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 256 \
        --micro-batch-size 8 --global-batch-size 16 --train-iters 120 --lr 5e-3 --lr-decay-style constant \
        --lr-warmup-iters 10 --data-path ecoli.h5 --eval-iters 0 --save run >out 2>&1
'
# The page has the same commands with other files and names where it only shows them.
test_expect_success 'the commands of the page run' '
    awk "/^\`\`\`/ { in_block = !in_block; next } in_block; !in_block && sub(/^    /, \"\")" "$srcdir/docs/inference.md" |
        sed "/^mds_infer score --load run genes.fa\$/d; /variants.vcf/d; /chromosome/d; /mds_launch/d" >commands &&
    sed "s/-f genes.awk > genes.fa/-f genes.awk | head -n 400 > genes.fa/; s/genes++ < 150/genes++ < 40/
        s/\(mds_infer .*\)/\1 --threads 1/" commands >fewer && cat fewer &&
    test "$(grep -c mds_infer fewer)" -eq 7 && sh -e fewer >out 2>err || { cat out err && false; }
'
test_expect_success 'genes are more likely than their codons in another order' '
    cat out && test "$(grep -c ">" genes.fa)" -eq 200 && test "$(wc -l <genes.tsv)" -eq 201 &&
    sed -n "s/^AUROC 0\.//p" out >auroc && test "$(cat auroc)" -gt 60
'
test_expect_success 'a stop codon within a gene is what the model expects least' '
    cat err && grep "360 alleles of 360 variants scored, in windows of 771 bases" err &&
    awk "/mean LLR/ { llr[\$1] = \$NF; n++ }
        END { exit n != 3 || llr[\"nonsense\"] >= llr[\"missense\"] || llr[\"nonsense\"] >= llr[\"synonymous\"] }" out
'
test_expect_success 'four new sequences, and completed genes' '
    test "$(grep -c "^>start/[1-4] tokens=[0-9]* end=" new.fa)" -eq 4 && test "$(wc -l <completed.tsv)" -eq 201 &&
    sed -n "s/^mean identity 0\.//p" out >identity && cat identity && test "$(cat identity)" -gt 25
'
test_done
