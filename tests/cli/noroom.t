#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='no room on one rank: memory, a disk for offload, what the first rank alone writes'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"
# shellcheck source=tests/cli/tworanks.sh
. "${srcdir:?}/tests/cli/tworanks.sh"

# ---- offload ----

nvme="--zero-stage 3 --offload-device nvme --nvme-path nvme"
test_expect_success 'a disk for offload that is full, cannot be written, or fails under one rank' '
    mkdir -p nvme &&
    ends "rank 1 .*nvme: not enough space for" 1 full:1000 nvme/mds --train-iters 6 $nvme &&
    ends "rank 1 .*nvme: cannot create a file there: Read-only" 1 readonly nvme/mds \
        --train-iters 6 $nvme &&
    ends "rank 1 .*nvme: writing .*Input/output" 1 eio:800000 nvme/mds --train-iters 100000 $nvme &&
    test "$(ls nvme | wc -l)" -eq 0
'
test_expect_success 'the same while it saves: what was saved before stays' '
    ends "nvme: reading .*Input/output.*(on rank 1, " 1 read:1000000 nvme/mds \
        --train-iters 100000 --save ck --save-interval 1 $nvme &&
    mds_ckpt verify --all ck && grep "iteration .* training continues: nvme: reading .*(on rank 1, .*)" out
'

test_expect_success 'a file system that does not reserve, and is full later' '
    ends "rank 1 .*nvme: writing .*No space" 1 unreserved:300000 nvme/mds --train-iters 100000 $nvme
'

# What an update could not write is gone, whoever hears of it first; a save does here.
test_expect_success 'states that are lost end the run at once, also where a save meets it' '
    for n in 8 14 29; do
        rm -rf ck &&
        ends "nvme: writing .*No space left.*(on rank 1, " 1 blink:$n nvme/mds --train-iters 6 \
            --save ck --save-interval 1 $nvme && ! grep "training continues" out || return 1
    done
'

# ---- memory ----

test_expect_success 'no memory for the model on one rank' '
    UCX_MEM_EVENTS=n && export UCX_MEM_EVENTS && # its mmap would be called
    ends "rank 1 .*memory: .* requested" 1 memory:400000000 "" --train-iters 6 \
            --num-layers 1 --hidden-size 2048
'

# ---- what the first rank alone writes ----

for option in --metrics-jsonl --tensorboard-dir; do
    test_expect_success "$option: no room later on: the run goes on, is saved, and then fails" '
        rm -rf ck1 log && ends "log.*No space" 0 flush:3 /log $option log --train-iters 6 --save ck1 &&
        grep "warn.*log.*No space left.*" out &&
        grep "iteration  *6/" out && mds_ckpt verify ck1
    '
done
test_expect_success 'exported weights and traces that find no room' '
    rm -rf ck1 trace && ends "w2.st.*No space" 0 flush:0 w2.st --train-iters 2 --save ck1 \
        --export-weights w2.st && mds_ckpt verify ck1 && ! ls w2.st* &&
    ends "trace.*Read-only" 0 readonly trace --trace-dir trace --train-iters 2
'
# Its standard output is a file, in which there is no room at the end of the run.
test_expect_success 'no room for what the first rank prints: all is saved, then it fails' '
    cat >redirect <<-\EOF &&
	test "${PMI_RANK:-${OMPI_COMM_WORLD_RANK-}}" != 0 || exec >printed
	exec mds_pretrain "$@"
	EOF
    for bytes in 800 2000; do
        rm -rf ck1
        # shellcheck disable=SC2086
        FAULTFS=full:$bytes FAULTFS_PATH=printed FAULTFS_RANK=0 LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
            ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
            test_expect_code 1 timeout 20 $MPIEXEC -n 2 sh redirect --data-path t.h5 $small \
            --train-iters 6 --save ck1 --exit-signal-handler >out 2>&1 </dev/null
        cat out
        test "$(grep -c "error: standard output: No space" out)" -eq 1 && mds_ckpt verify ck1 || return 1
    done
'

test_done
