#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='--preflight and mds_launch check: what is wrong with a node is named'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

# preloaded libraries come before the sanitizers'
ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-}
export ASAN_OPTIONS
model='--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --threads 1'
# check WORDS... -- OPTIONS...: on two ranks, with variables for rank 1
check() {
    words=
    while test "$1" != --; do
        words="$words $1"
        shift
    done
    shift
    cat >each <<-EOF
	test "\${PMI_RANK:-\${OMPI_COMM_WORLD_RANK-}}" = 1 || exec mds_pretrain "\$@"
	exec env $words mds_pretrain "\$@"
	EOF
    # shellcheck disable=SC2086  # lists of words
    timeout 30 $MPIEXEC -n 2 sh each $model --preflight-only "$@" >out 2>&1 </dev/null
    status=$?
    cat out
    return $status
}
# fault RANK TEXT: the only one, and the status is not 0
fault() {
    test "$status" -ne 0 && test "$status" -ne 124 && test "$(grep -c "^fault: " out)" -eq 1 &&
        grep "^fault: rank $1 on $(uname -n): $2" out && grep "error: preflight: 1 fault, see above" out
}

test_expect_success 'nodes that are well: a table, JSON lines, no data, nothing left behind' '
    check -- --tensor-model-parallel-size 2 --save ck --nvme-path scratch --metrics-jsonl m.jsonl &&
    grep "^preflight: no faults$" out && grep "^  $(uname -n) .* G " out &&
    grep "^  tp all_reduce  *2  *[0-9.]* m*s .*" out && grep "^  tp all_to_all " out &&
    test "$(grep -c "\"event\":\"preflight\".*\"gemm_flops_per_s\":[1-9]" m.jsonl)" -eq 2 &&
    grep "\"rank\":0,.*\"save_bytes_per_s\":[1-9].*\"tp all_reduce bytes_per_s\":[1-9]" m.jsonl &&
    test -z "$(ls -A ck scratch | grep preflight)"
'
test_expect_success 'rings, and a check before training' '
    mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    timeout 30 $MPIEXEC -n 2 mds_pretrain $model --preflight --context-parallel-size 2 --data-path t.h5 --train-iters 1 \
        --eval-iters 0 >out 2>&1 </dev/null; cat out && grep "^  ring ring " out && grep "^done: iteration 1 of 1" out
'
test_expect_success 'a library of another version' '
    cp "$builddir/tests/cli/nvml/libnvidia-ml.so.1" faultfs.so &&
    LD_PRELOAD=$builddir/tests/ckpt/faultfs.so check LD_PRELOAD=./faultfs.so -- ||
    fault 1 "faultfs.so build .*, but rank 0 has faultfs.so build .*; install the same"
'
test_expect_success 'an option that one rank alone has' '
    check MDS_CLIP_GRAD=2 -- || fault 1 "--clip-grad 2, but rank 0 has --clip-grad 1"
'
test_expect_success 'a folder that cannot be written, with the other options as they are' '
    export LD_PRELOAD="$builddir/tests/ckpt/faultfs.so" FAULTFS_PATH=preflight FAULTFS=eio:1000000 FAULTFS_RANK=0 &&
    if check -- --save ck; then false; else fault 0 "--save: ck/.mds-preflight-.*: Input/output error"; fi;
    result=$?; unset LD_PRELOAD FAULTFS_PATH FAULTFS FAULTFS_RANK; return $result
'
test_expect_success 'a rank that hangs is named within the limit' '
    export LD_PRELOAD="$builddir/tests/ckpt/faultfs.so" FAULTFS_PATH=preflight FAULTFS=late:9000 FAULTFS_RANK=0 &&
    begin=$(date +%s) &&
    if check -- --save ck --distributed-timeout-minutes 0.05; then false; else
        grep "error: .*: rank 0 has been silent for 3 s.*logged last on $(uname -n)" out && test $(($(date +%s) - begin)) -lt 12
    fi; result=$?; unset LD_PRELOAD FAULTFS_PATH FAULTFS FAULTFS_RANK; return $result
'

nvml=$builddir/tests/cli/nvml
for fault in \
    "hot its GPU lowers its clocks (900 of 1980 MHz, 91 C): too hot" \
    "ecc its GPU has 3 uncorrected ECC errors" "missing its host has 1 GPU, others have 2"; do
    test_expect_success "a GPU: ${fault#* }" '
        export LD_LIBRARY_PATH="$nvml" &&
        if check FAKE_NVML=${fault%% *} --; then false; else fault 1 "${fault#* }"; fi;
        result=$?; unset LD_LIBRARY_PATH; return $result
    '
done
test_expect_success 'GPUs that are well are shown' '
    LD_LIBRARY_PATH="$nvml" check -- --metrics-jsonl g.jsonl && grep "rank 0 on Fake GPU" out &&
    grep "  GPUs   MHz    C  ECC$" out && grep "^  $(uname -n) .*     2  1980   40    0$" out &&
    test "$(grep -c "\"gpu\":\"Fake GPU\",\"gpus\":2,.*\"sm_mhz\":1980" g.jsonl)" -eq 2
'

test_expect_success 'mds_launch check: the layout of the run, and its status' '
    MACHINE=localhost mds_launch check --launcher-command "$MPIEXEC" --ranks-per-node 2 --layout given -- \
        $model --tensor-model-parallel-size 2 >out 2>&1; status=$?; cat out && test $status -eq 0 &&
    grep "^preflight: no faults" out && grep "^  tp all_reduce" out && grep -e "--preflight-only" out &&
    export LD_PRELOAD="$builddir/tests/ckpt/faultfs.so" FAULTFS_PATH=preflight FAULTFS=eio:1000000 FAULTFS_RANK=0 &&
    MACHINE=localhost test_must_fail mds_launch check --launcher-command "$MPIEXEC" \
        --ranks-per-node 2 --layout given -- $model --save ck >err 2>&1; unset LD_PRELOAD FAULTFS_PATH FAULTFS FAULTFS_RANK
    cat err &&
    grep "^fault: rank 0 on .*: --save: " err && grep "error: check: the nodes are not fit for this run" err
'

test_expect_success 'mds_launch check: whether NCCL with its plain network works, if it fails without a fault of a node' '
    printf "%s\n" "#!/bin/sh" "case \$* in *NCCL_NET=Socket*) exit 0 ;; esac" "cat says >>ev" "exit 1" >launcher && chmod +x launcher &&
    printf "n1\nn2\n" >nodes && : >says &&
    again() {
        mds_launch check --machine polaris --hostfile nodes --launcher-command ./launcher -- --model-size-key GPT1_7B --seq-length 2048 --events ev >out 2>&1
        status=$?; cat out; return $status
    } &&
    test_expect_code 1 again && test "$(grep -c "^./launcher" out)" -eq 2 &&
    grep "error: check: NCCL fails with NCCL_NET=AWS Libfabric and works with NCCL_NET=Socket: load the module" out &&
    echo "{\"event\":\"unfit\",\"rank\":1,\"host\":\"n1\",\"group\":0}" >says &&
    test_expect_code 1 again && test "$(grep -c "^./launcher" out)" -eq 1 && grep "error: check: the nodes are not fit" out
'

test_done
