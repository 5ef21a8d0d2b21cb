#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='the configurations in examples/ do what their first lines say'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

lambda=$srcdir/tests/data/lambda.fna.gz
# made FILE: the mds_data line of a configuration, of small files
made() {
    mkdir -p genomes && cp "$lambda" genomes/a.fna.gz && cp "$lambda" ecoli.fna.gz && for i in 1 2 3 4 5 6 7 8; do seq $i 4000 >$i.txt || return 1; done &&
        sed -n "s/^#  *\(mds_data make .*\)/\1/p" "$srcdir/examples/$1.yaml" >line && test -s line && cat line && sh -e line
}

test_expect_success 'the laptop genome trains' '
    made laptop-genome && mds_launch --runs runs --name one -- --config "$srcdir/examples/laptop-genome.yaml" --train-iters 2 --lr-warmup-iters 1 --threads 1 >out 2>&1 && cat out &&
    grep "2 of 2 in" out && grep "layers 4, hidden 128, heads 4" out && grep "batch 16 (micro 8)" out
'
test_expect_success 'text trains, smaller' '
    made text && mds_pretrain --config "$srcdir/examples/text.yaml" --threads 1 --num-layers 1 --hidden-size 64 --seq-length 64 --micro-batch-size 2 \
        --global-batch-size 2 --train-iters 2 --lr-warmup-iters 1 --eval-iters 1 >out 2>&1 && cat out &&
    grep "iteration  *2/" out && mds_pretrain --config "$srcdir/examples/text.yaml" --dry-run >out && grep "24\.[0-9]* M\|params" out
'
test_expect_success 'the genomes on Polaris are planned and submitted' '
    made polaris-genome && mds_launch plan --machine polaris --nodes 10 -- --config "$srcdir/examples/polaris-genome.yaml" >out 2>err && cat out err &&
    grep "^   1 .*data 40" out &&
    mds_launch submit prod 10 3:00:00 MyProject --print --machine polaris -- --config "$srcdir/examples/polaris-genome.yaml" >job 2>err && cat job err &&
    grep "#PBS -l select=10" job && grep -e "--train-tokens 5000000000" job && grep -e "--global-batch-size 80" job
'
test_expect_success 'each value in them has an effect: another than the default' '
    for file in "$srcdir"/examples/*.yaml; do
        mds_pretrain --config "$file" --show-config | grep -c "examples/.*yaml:" >set &&
            grep -c "^  [a-z_0-9]*: " "$file" >want && test_cmp want set || return 1
    done
'

test_done
