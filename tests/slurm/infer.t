#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='arrays and chains of mds_infer in a Slurm of four nodes'
# shellcheck source=tests/slurm/setup.sh
. "${srcdir:?run by tests/slurm/run}/tests/slurm/setup.sh"

mds_data make --tokenizer codon --output codons.h5 "$srcdir/tests/data/lambda.fna.gz"
DATA_PATH=codons.h5 mds_pretrain --hidden-size 32 --num-attention-heads 4 --num-layers 2 --lr 1e-2 --eval-iters 0 \
    --threads 1 --global-batch-size 4 --train-iters 2 --seq-length 64 --use-rotary-position-embeddings --save model \
    </dev/null >trained 2>&1
gzip -dc "$srcdir/tests/data/lambda.fna.gz" | grep -v '>' | tr -d '\n' >bases
# records N: so many of 500 codons
records() {
    awk -v n="$1" '{ for (i = 0; i < n; i++) printf ">r%d\n%s\n", i + 1, substr($0, 1 + 20 * (i % 1000), 1500) }' bases
}
mkdir in
for i in 1 2 3 4 5; do
    records "$((10 * i))" >in/g$i.fa
done
# infer RUNS OPTIONS... -- WORDS...: two ranks on a node; the job in $job
infer() {
    runs=$1
    shift
    mds_launch submit --program mds_infer --runs "$runs" --ranks-per-node 2 --name it "$@" >submitted &&
        cat submitted && job=$(sed -n 's/.*: //p' submitted)
}
# columns FILE: what does not depend on rounding
columns() {
    cut -f 1-3 "$1"
}

test_expect_success 'an array: each job scores its files' '
    mkdir -p out && infer runs --array 2 debug 1 0:10:00 me -- score --load model --output "out/{}.tsv" in/*.fa --device cpu --threads 1 &&
    all_end 120 && cat runs/it/job-*.log && for i in 1 2 3 4 5; do
        mds_infer score --load model in/g$i.fa --threads 1 >want 2>/dev/null && columns want >a && columns out/g$i.tsv >b &&
            test_cmp a b || return 1
    done &&
    test -e runs/it/0/done && test -e runs/it/1/done && test "$(cat runs/it/*/events.jsonl | grep -c "\"reason\":\"done\"")" -eq 2 &&
    grep "in/g5.fa in/g3.fa in/g1.fa" runs/it/job-*.log && grep "in/g4.fa in/g2.fa" runs/it/job-*.log
'
records 6000 >long.fa
test_expect_success 'a job that is warned leaves with what it has, and the next of the chain goes on' '
    infer one --chain 2 debug 1 0:10:00 me -- score --load model --batch-tokens 500 --output long.tsv long.fa --device cpu --threads 1 &&
    set -- $(echo $job | tr -d ,) &&
    for _ in $(seq 600); do test "$(cat long.tsv 2>/dev/null | wc -l)" -lt 3 || break; sleep 0.1; done &&
    scancel --signal=USR1 --batch $1 && becomes $1 COMPLETED 60 && grep "\"reason\":\"signal\",\"status\":85" one/it/events.jsonl &&
    all_end 120 && tail -n 5 one/it/job-*.log && test "$(state $2)" = COMPLETED && grep "long.tsv has the scores of" one/it/job-$2.log &&
    test "$(wc -l <long.tsv)" -eq 6001 && test -e one/it/done &&
    sed -n "s/^>//p" long.fa >want && sed 1d long.tsv | cut -f 1 >got && test_cmp want got
'
test_done
