#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='checkpoints that are damaged, or cannot be written: one line, nothing lost'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1
    --data-path t.h5'
pretrain() {
    # MPIEXEC and the options are lists of words
    # shellcheck disable=SC2086
    timeout 60 $MPIEXEC -n 2 mds_pretrain $small --zero-stage 1 "$@" >out 2>&1 </dev/null
}
# fresh: ck has iterations 2 and 4
test_expect_success 'a run to damage' '
    pretrain --train-iters 4 --save good --save-interval 2
'
fresh() {
    rm -rf ck && cp -r good ck
}
# flip FILE OFFSET: one bit
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $((byte ^ 4)))" |
        dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
# refused PATTERN: loading fails, names what is wrong and the one before; which the
# fallback takes.  The tool sees it as well.
refused() {
    test_must_fail pretrain --train-iters 6 --load ck &&
        grep -e "error:.*$1.*; the one before is ck/iter_0000002, and --load-fallback" out &&
        test "$(grep -c "error:" out)" -eq 1 &&
        test_must_fail mds_ckpt verify ck &&
        mds_ckpt verify ck/iter_0000002 &&
        pretrain --train-iters 6 --load ck --save ck --load-fallback &&
        grep "warn.*trying ck/iter_0000002" out && grep "loaded ck/iter_0000002" out &&
        test "$(cat ck/latest)" = iter_0000006 && mds_ckpt verify ck
}

rank=ck/iter_0000004/rank_00001.h5
index=ck/iter_0000004/index.h5

test_expect_success 'a missing file' '
    fresh && rm $rank && refused "rank_00001.h5: No such file"
'
test_expect_success 'a truncated file' '
    fresh && truncate -s -1000 $rank && refused "rank_00001.h5: has .* bytes, but .* were written"
'
test_expect_success 'a file of zeros' '
    fresh && size=$(stat -c %s $rank) && rm $rank && truncate -s "$size" $rank &&
    refused "rank_00001.h5: damaged, or not an HDF5 file (file signature not found)"
'
test_expect_success 'a file of another step' '
    fresh && cp ck/iter_0000002/rank_00001.h5 $rank &&
    refused "rank_00001.h5: was written by rank 1 at iteration 2"
'
test_expect_success 'a file of another run at the same step' '
    fresh && pretrain --train-iters 4 --seed 5 --save other &&
    cp other/iter_0000004/rank_00001.h5 $rank &&
    refused "rank_00001.h5: belongs to another save"
'
test_expect_success 'a missing index' '
    fresh && rm $index && refused "index.h5: No such file"
'
test_expect_success 'a truncated index' '
    fresh && truncate -s -100 $index && refused "index.h5: damaged"
'
test_expect_success 'a checkpoint that latest names, and nobody has' '
    fresh && rm -r ck/iter_0000004 && refused "No such file"
'
test_expect_success 'an empty latest: the newest is taken, and one warning' '
    fresh && : >ck/latest && pretrain --train-iters 6 --load ck --save ck && cat out && grep "loaded ck/iter_0000004" out &&
    test "$(sed "/warnings* in this run/,\$d" out | grep -c "latest: .. is not the name of a checkpoint; ignored")" -eq 1
'
test_expect_success 'with none before, it says so' '
    fresh && rm -r ck/iter_0000002 && rm $rank &&
    test_must_fail pretrain --train-iters 6 --load ck --load-fallback &&
    grep "there is no checkpoint before it" out
'

test_expect_success 'flipped bits are found: anywhere in the index, elsewhere unless they change nothing' '
    pretrain --train-iters 5 --load good --export-weights good.safetensors &&
    found=0 tried=0 &&
    for file in $rank $index; do
        for part in 0 1 2 3 4 5 6 7 8 9 10 11; do
            fresh && size=$(stat -c %s $file) &&
            flip $file $((size * (2 * part + 1) / 24)) || return 1
            tried=$((tried + 1))
            if mds_ckpt verify ck >verify 2>&1; then
                test $file != $index && # a checksum covers all of it
                pretrain --train-iters 5 --load ck --export-weights now.safetensors &&
                cmp good.safetensors now.safetensors || return 1
            else
                found=$((found + 1))
            fi
        done
    done && echo "$found of $tried found" && test $found -ge 12
'
test_expect_success 'flipped in a tensor: the checksum does not match' '
    fresh && size=$(stat -c %s $rank) && flip $rank $((size / 2)) &&
    refused "rank_00001.h5: /.* is damaged: the checksum"
'
# unreadable BYTES: the disk fails under one file of the newest, after so many bytes
unreadable() {
    fresh && FAULTFS=read:$1 FAULTFS_PATH=4/rank_00001 LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        pretrain --train-iters 6 --load ck --load-fallback &&
        grep "warn.*iter_0000004/rank_00001.h5: .*; trying ck/iter_0000002" out &&
        grep "loaded ck/iter_0000002" out
}
test_expect_success 'a disk that fails at once, or in a tensor: the file is named, the one before is taken' '
    unreadable 0 && unreadable 100000 && grep "rank_00001.h5: cannot be read: Input/output error" out
'

test_expect_success 'a different model' '
    other="--train-iters 6 --load ck --override-model-config" && fresh &&
    test_must_fail pretrain $other --num-layers 3 && grep "error: ck/iter_0000004: has no parameter layer.2" out &&
    test_must_fail pretrain $other --num-layers 1 &&
    grep "error: ck/iter_0000004: has parameter layer.1.*which this model lacks" out &&
    test_must_fail pretrain $other --ffn-hidden-size 96 &&
    grep "is 128 x 32, this model.s is 96 x 32; give the settings" out &&
    for which in "$other" "--train-iters 6 --load ck"; do
        test_must_fail pretrain $which --ffn-hidden-size 96 &&
        ! grep "load-fallback" out && test "$(grep -c "error:" out)" -eq 1 &&
        test_must_fail pretrain $which --ffn-hidden-size 96 --load-fallback &&
        ! grep "trying" out || return 1
    done
'

# ---- writing ----

test_expect_success 'a place that cannot be written is found before training' '
    : >file && test_must_fail pretrain --train-iters 6 --save file &&
    grep "error: .*file" out && ! grep "iteration  *1/" out &&
    test_must_fail pretrain --train-iters 6 --save /proc/none/folder &&
    grep "error: /proc/none/folder: cannot create this folder: No such file" out
'
# faulty FAULT OPTIONS...: from iteration 4 on, with a file system that fails (faultfs.c)
faulty() {
    fault=$1
    shift
    FAULTFS=$fault FAULTFS_PATH=.partial ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        pretrain --load ck --save ck --save-interval 2 "$@"
}
# nothing_lost: what was there is sound, and nothing else is there
nothing_lost() {
    test "$(cat ck/latest)" = iter_0000004 && mds_ckpt verify --all ck &&
        test "$(cd ck && echo *)" = "good iter_0000002 iter_0000004 latest"
}
# A power failure must not leave a checkpoint without the records that lead to it.
for record in "--metrics-jsonl log/m.jsonl" "--tensorboard-dir log/tb"; do
    test_expect_success "$record is on the disk before a checkpoint counts" '
        fresh && rm -rf log && mkdir log && FAULTFS=sync FAULTFS_PATH=/log/ ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
            LD_PRELOAD=$builddir/tests/ckpt/faultfs.so test_must_fail pretrain --load ck --save ck --train-iters 5 $record &&
        mds_ckpt verify ck/iter_0000005 && grep -e "warn: log/.*flushed to disk" -e "info: saved" out >order &&
        head -n 1 order | grep warn && grep "error: log/.*flushed to disk" out
    '
done
for fault in full:0 full:20000 full:150000 quota:100000 eio:100000 sync readonly; do
    case $fault in
    full*) why="No space left on device" ;;
    quota*) why="Disk quota exceeded" ;;
    readonly) why="Read-only file system" ;;
    *) why="Input/output error" ;;
    esac
    test_expect_success "$fault: the run goes on, its end fails, nothing is lost" '
        fresh && test_must_fail faulty $fault --train-iters 8 &&
        grep "warn.*no checkpoint at iteration 6, training continues: .*$why" out &&
        grep "iteration  *8/" out && grep "error: .*$why" out &&
        test "$(grep -c "error:" out)" -eq 1 && ! grep -i "infinite loop" out &&
        nothing_lost
    '
done
for fault in full:0 full:150000 eio:100000 sync; do
    test_expect_success "$fault, in the background: the same" '
        fresh && test_must_fail faulty $fault --train-iters 8 --async-save &&
        grep "warn.*no checkpoint at iteration 6, training continues: ck/iter_0000006.partial/" out &&
        grep "iteration  *8/" out && test "$(grep -c "error:" out)" -eq 1 && nothing_lost
    '
done
test_expect_success 'a disk that is full at one save only: the next one works' '
    fresh && faulty once:0 --train-iters 8 && grep "warn.*at iteration 6.*No space" out &&
    test "$(cat ck/latest)" = iter_0000008 && mds_ckpt verify ck &&
    pretrain --train-iters 9 --load ck && grep "loaded ck/iter_0000008" out
'
test_expect_success 'a disk that is full at one save only, in the background' '
    fresh && faulty once:0 --train-iters 8 --async-save &&
    grep "warn.*at iteration 6.*No space" out &&
    test "$(cat ck/latest)" = iter_0000008 && mds_ckpt verify ck
'
test_expect_success 'a slow disk, and short writes, are no failures' '
    fresh && faulty late:200 --train-iters 6 && mds_ckpt verify ck &&
    fresh && faulty short:1000 --train-iters 6 && mds_ckpt verify ck
'

test_done
