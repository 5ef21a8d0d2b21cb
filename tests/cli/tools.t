#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='tools that sites preload (Darshan, XALT) or attach (NVTX)'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

tool=$builddir/tests/cli/tools.so
for _ in $(seq 200); do echo 'GATTACA, GATTACA.'; done >text
mds_data make --tokenizer bytes --output tokens.h5 text >/dev/null

# run NAME WORD...: two ranks, with WORDs (variables) in their environment
run() {
    name=$1
    shift
    # shellcheck disable=SC2086  # a list of words
    $MPIEXEC -n 2 env "$@" mds_pretrain --device cpu --threads 1 --data-path tokens.h5 --num-layers 2 --hidden-size 64 \
        --num-attention-heads 4 --seq-length 64 --micro-batch-size 2 --global-batch-size 8 --train-iters 4 --lr 1e-3 \
        --eval-iters 0 --log-interval 1 --metrics-jsonl "$name.jsonl" --save "$name" --export-weights "$name.safetensors" >"$name.log" 2>&1 ||
        { cat "$name.log"; return 1; }
}

test_expect_success 'wrappers of MPI and of files change nothing, and see both' '
    run alone A=1 && run wrapped LD_PRELOAD="$tool" TOOLS_LOG="$PWD/log" &&
    cmp alone.safetensors wrapped.safetensors && cat log &&
    test "$(grep -c "^finalize process opens [1-9].* mpi [1-9]" log)" -eq 2 &&
    grep "^end process .*reads [1-9][0-9]* writes [1-9]" log
'
test_expect_success 'OpenBLAS is opened under them' '
    ! grep "^#define MDS_OPENBLAS_FILE" "$builddir/config.h" || grep "device: cpu: OpenBLAS" wrapped.log
'
test_expect_success 'the monitor process ends without what a tool does at the end' '
    test "$(grep -c "^end process" log)" -eq "$(grep -c "^end " log)" && ! grep child log
'
test_expect_success 'every program starts under them' '
    for program in mds_pretrain mds_data mds_ckpt mds_infer mds_launch; do
        LD_PRELOAD="$tool" $program --version >out && grep "^$program " out || return 1
    done &&
    LD_PRELOAD="$tool" mds_ckpt verify wrapped
'

if grep -q "^#define HAVE_NVTX3_NVTOOLSEXT_H 1" "$builddir/config.h"; then
    test_set_prereq NVTX
fi
test_expect_success NVTX 'a profiler sees steps, passes, layers and operations, each range closed' '
    run ranges NVTX_INJECTION64_PATH="$tool" TOOLS_RANGES="$PWD/ranges" && cmp alone.safetensors ranges.safetensors &&
    for name in "step 1" "step 4" forward backward optimizer linear_fwd attention_bwd adamw; do
        grep -x "push $name" ranges || return 1
    done | sort | uniq -c &&
    test "$(grep -c "^push [^/]" ranges)" -eq "$(grep -c -x "push /" ranges)"
'

test_done
