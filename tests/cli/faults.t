#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='a rank that dies, in each kind of layout'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --train-iters 100000000 --global-batch-size 8 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1 --data-path t.h5'
# start OPTIONS...: steps on four ranks, each of which leaves its process id in pids/; the
# third step is done on return; in the end the exit status is in status
start() {
    rm -rf pids status out && mkdir pids || return 1
    {
        # shellcheck disable=SC2086  # lists of words
        timeout 60 $MPIEXEC -n 4 sh -c 'echo >pids/$$ && exec mds_pretrain "$@"' sh \
            $small "$@" </dev/null >out 2>&1
        echo $? >status
    } &
    until grep -q "iteration  *3/" out 2>/dev/null; do
        test ! -e status || return 1
        sleep 0.1
    done
}
# dies_with_a_rank: one is killed; the job ends within 10 s, and not well, and one line says
# which rank died where in the program
dies_with_a_rank() {
    set -- pids/*
    shift $(($(date +%s) % 4))
    pid=${1#pids/}
    kill -KILL "$pid" || return 1
    i=0
    until test -e status; do
        i=$((i + 1))
        test $i -lt 100 || return 1
        sleep 0.1
    done
    test "$(cat status)" -ne 0 && test "$(cat status)" -ne 124 || return 1
    grep "mds: error: rank [0-3] (.*, process $pid) .*; its last collective: .* at src/" out &&
        test "$(grep -c "killed by signal 9.*its last collective" out)" -le 1
}

while read -r name options; do
    test_expect_success "$name" "start $options && dies_with_a_rank"
done <<'END'
data
zero-3 --zero-stage 3
tensor --tensor-model-parallel-size 4 --sequence-parallel
ulysses --ds-sequence-parallel-size 4
ring --context-parallel-size 4
pipeline --pipeline-model-parallel-size 4 --micro-batch-size 1
interleaved --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 1
offload --zero-stage 2 --offload-device cpu
END

test_done
