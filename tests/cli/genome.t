#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='ALCF/train-genome.sh: a genome in one sequence, over several jobs'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

MACHINE=localhost NGPUS=2 MODEL_SIZE_KEY=TINY HEADS=2 MDS_SEQUENCE_TILE=300
CUDA_VISIBLE_DEVICES= # this host's GPUs, if it has any, are not meant
export MACHINE NGPUS MODEL_SIZE_KEY HEADS MDS_SEQUENCE_TILE CUDA_VISIBLE_DEVICES
gzip -dc "$srcdir/tests/data/lambda.fna.gz" | head -n 60 >phage.fna
cat >tiny.yaml <<'END'
TINY: {layers: 2, hidden: 32, heads: 2}
END
# genome VARIABLES...
genome() {
    env LR=1e-3 MDS_LR_WARMUP_ITERS=1 "$@" "$srcdir/ALCF/train-genome.sh" phage.fna \
        --launcher-command "$MPIEXEC" -- --model-table tiny.yaml --threads 1 \
        >out 2>err </dev/null
}

test_expect_success 'a job that is too short saves and says 85' '
    test_expect_code 85 genome TRAIN_ITERS=4 MINUTES=0.0001 && cat out err &&
    grep -e "--seq-length 1024" out && grep -e "--ds-sequence-parallel-size 2" out &&
    test -d genome/checkpoints
'
test_expect_success 'the next one goes on, and the loss falls' '
    genome TRAIN_ITERS=4 && cat out err &&
    test "$(grep -c "\"lm_loss\"" genome/steps.jsonl)" -eq 4 &&
    sed -n "s/.*\"lm_loss\": *\([0-9.]*\).*/\1/p" genome/steps.jsonl >losses && cat losses &&
    awk "NR > 1 && \$1 >= last { exit 1 } { last = \$1 }" losses &&
    if command -v gnuplot; then grep "<svg" genome/loss.svg; fi
'
test_expect_success 'another genome in the same folder is refused' '
    cp phage.fna kept.fna && tail -n 20 kept.fna >phage.fna &&
    test_must_fail genome TRAIN_ITERS=8 && cat err &&
    grep "genome/tokens.h5: made of something else than phage.fna is now; name" err &&
    mv kept.fna phage.fna
'
test_expect_success 'too little to train on' '
    head -n 3 phage.fna >short.fna && mkdir other &&
    test_must_fail env FOLDER=other "$srcdir/ALCF/train-genome.sh" short.fna 2>err &&
    grep "codons; at least 1025 are needed" err
'
test_expect_success 'no genome at all' '
    test_expect_code 2 "$srcdir/ALCF/train-genome.sh" 2>err && grep usage err
'
test_done
