#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='what fails on one rank alone: nobody waits for it, one line says what it was'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"
# shellcheck source=tests/cli/tworanks.sh
. "${srcdir:?}/tests/cli/tworanks.sh"

# ---- what ranks were told ----

# apart RANK0 RANK1 OPTIONS...: the two of them with another environment and options each
apart() {
    cat >each <<-\EOF
	words=$2
	test "${PMI_RANK:-${OMPI_COMM_WORLD_RANK-}}" = 1 || words=$1
	shift 2
	eval "exec env $words \"\$@\""
	EOF
    # shellcheck disable=SC2086
    timeout 20 $MPIEXEC -n 2 sh each "$1" "$2" $small --train-iters 2 >out 2>&1 </dev/null
    status=$?
    cat out
    return $status
}
alone() {
    status=0
    apart "$1" "$2" || status=$?
    test $status -ne 0 && test $status -ne 124 && test "$(grep -c "error: " out)" -eq 1 &&
        grep "error: " out | grep -e "$3"
}
test_expect_success 'an environment that one rank alone has, and other data, are named' '
    gzip -dc "$srcdir/tests/data/lambda.fna.gz" | head -n 300 >part.fna &&
    mds_data make --tokenizer codon --output t2.h5 part.fna &&
    alone "mds_pretrain --data-path t.h5" "MDS_CLIP_GRAD=2 mds_pretrain --data-path t.h5" \
        "rank 1 .*this rank has --clip-grad 2, rank 0 has --clip-grad 1; all ranks need" &&
    alone "mds_pretrain --data-path t.h5" "mds_pretrain --data-path t2.h5" \
        "rank 1 .*this rank has the data .* tokens, rank 0 has the data 15" &&
    alone "mds_pretrain --data-path t.h5 --save ck" "mds_pretrain --data-path t.h5" \
        "rank 1 .*this rank has --save no path, rank 0 has --save a path" &&
    alone "mds_pretrain --data-path t.h5" "MDS_COMM_CHECK=1 mds_pretrain --data-path t.h5" \
        "rank 1 .*this rank has --comm-check true, rank 0 has --comm-check false" &&
    alone "mds_pretrain --data-path t.h5" "mds_pretrain --data-path t.h5 --device cuda" \
        "rank 1 .*this rank has the device cuda, rank 0 has the device cpu"
'
test_expect_success 'what is a rank of its own may differ' '
    cp t.h5 copy.h5 && apart "mds_pretrain --data-path t.h5" "MDS_LOG_LEVEL=debug \
        mds_pretrain --data-path copy.h5" && grep "done: iteration 2 of 2" out
'

# ---- data ----

test_expect_success 'token files that one rank cannot see, or not read any more' '
    ends "rank 1 .*t.h5: No such file" 1 gone t.h5 --train-iters 6 &&
    ends "rank 1 .*t.h5: .*Input/output error" 1 read:40000 t.h5 --train-iters 100000
'

test_expect_success 'held-out data that cannot be read: evaluation is no other' '
    ends "rank 1 .*t.h5: .*Input/output error" 1 read:20000 t.h5 --train-iters 100000 \
        --lr-decay-iters 10 --eval-iters 1000 --eval-interval 1
'
test_expect_success 'weights to begin with that one rank cannot see' '
    pretrain --train-iters 1 --export-weights w.st &&
    ends "rank 1 .*w.st: No such" 1 gone w.st --init-weights w.st --train-iters 6
'

# ---- time ----

test_expect_success 'time that one rank takes before the first step is of --exit-duration-in-mins' '
    mkdir slow && { on 0 late:800 slow/ --trace-dir slow --train-iters 100000000 \
        --log-interval 100000000 --exit-duration-in-mins 2s >out; test $? -eq 1; } &&
    grep "done: iteration 1 of 100000000 in .* (ended by duration)" out
'

# ---- whole tensors, which the first rank writes and all others hand over ----

test_expect_success 'a file of whole tensors that the first rank cannot make' '
    mkdir -p trace/grads.safetensors &&
    ends "grads.safetensors: cannot be written: a folder" 0 "" "" --train-iters 2 \
        --trace-dir trace --tensor-model-parallel-size 2
'

# ---- what one rank is slow at ----

# Rank 1 reads its two samples of each iteration for 0.2 s, on any machine some hundred times as
# long as rank 0 computes.  The warning comes twice: at once, and with all others at the end.
test_expect_success 'a rank that the others wait for is named' '
    on 1 slow:100 "" --train-iters 8 --metrics-jsonl m.jsonl && cat m.jsonl &&
    test "$(grep -c "^mds: \[rank 0 .*warn: the other ranks wait for rank 1 on $(uname -n): " out)" -eq 2 &&
    test "$(grep -c "\"event\":\"straggler\"" m.jsonl)" -eq 8 &&
    test "$(grep -c "\"rank\":1,\"host\":\"$(uname -n)\"," m.jsonl)" -ge 4
'

test_done
