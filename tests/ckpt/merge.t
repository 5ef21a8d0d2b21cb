#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_ckpt merge: mean and moving average of the weights of checkpoints'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"
small='--num-layers 2 --num-attention-heads 4 --seq-length 32 --lr 1e-2 --eval-iters 2
    --threads 1 --data-path t.h5'
test_expect_success 'three checkpoints, one in another layout' '
    mds_pretrain $small --hidden-size 32 --train-iters 6 --save-interval 2 --save run &&
    mds_ckpt reshard run/iter_0000004 four --tensor-model-parallel-size 2 --world-size 4
'

cat >reference.py <<'END'
# reference.py DECAY TOLERANCE MERGED OLDEST...: decay 0 is the mean
import json, struct, sys

def read(path):
    data = open(path, "rb").read()
    n, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + n])
    head.pop("__metadata__", None)
    for name, t in head.items():
        a, b = t["data_offsets"]
        head[name] = struct.unpack("<%df" % ((b - a) // 4), data[8 + n + a : 8 + n + b])
    return head

decay, tolerance = float(sys.argv[1]), float(sys.argv[2])
merged, *inputs = map(read, sys.argv[3:])
assert len(merged) > 10 and all(merged.keys() == i.keys() for i in inputs)
moved = 0
for name in merged:
    for got, *v in zip(merged[name], *(i[name] for i in inputs)):
        want = sum(v) / len(v)
        if decay:
            want = v[0]
            for x in v[1:]:
                want = decay * want + (1 - decay) * x
        want, = struct.unpack("f", struct.pack("f", want))
        assert abs(got - want) <= tolerance * abs(want), (name, got, want)
        moved += got != v[-1]
assert moved > 1000
END
for i in 2 4 6; do mds_ckpt export --output $i.st run/iter_000000$i; done
# averages DECAY TOLERANCE FOLDER
averages() {
    mds_ckpt verify "$3" && mds_ckpt export --overwrite --output m.st "$3" &&
        python3 reference.py "$1" "$2" m.st 2.st 4.st 6.st
}
test_expect_success 'the mean has the bits of a sum in 64 bits, in any order and layout' '
    mds_ckpt merge --last 3 run mean >out && grep "without moments.*--finetune" out &&
    averages 0 0 mean &&
    mds_ckpt merge run/iter_0000006 run/iter_0000002 four mixed && averages 0 0 mixed &&
    mds_ckpt diff mean mixed
'
test_expect_success 'a moving average' '
    mds_ckpt merge --ema 0.7 --last 3 run ema && averages 0.7 1.2e-7 ema &&
    mds_ckpt info ema | grep "merged with --ema 0.7"
'
test_expect_success 'is evaluated, and trained from' '
    mds_pretrain $small --load mean --skip-train >out 2>&1 && grep "evaluating iteration 6" out &&
    mds_pretrain $small --load mean --finetune --train-iters 1
'
# refuses MESSAGE ARGUMENT...: in one line, and writes nothing
refuses() {
    said=$1
    shift
    test_must_fail mds_ckpt merge "$@" 2>err
    cat err && test "$(grep -c "error: .*$said" err)" -eq 1 && test "$(wc -l <err)" -eq 1 && test ! -e new
}
test_expect_success 'other models, and too few checkpoints, are refused' '
    mds_pretrain $small --hidden-size 64 --train-iters 1 --eval-iters 0 --save wide &&
    refuses "wide.iter_0000001.*another model" run wide new &&
    refuses "both are of iteration 4" run/iter_0000004 four new &&
    refuses "has 3 checkpoints, and --last is 4" --last 4 run new &&
    refuses "two checkpoints" run new &&
    refuses "one folder" --last 2 run wide new
'
test_expect_success 'an earlier result is replaced with --overwrite only' '
    test_must_fail env MDS_OVERWRITE=0 mds_ckpt merge --last 2 run mean 2>err && grep "exists already.*--overwrite" err &&
    averages 0 0 mean && mds_ckpt merge --overwrite --last 2 run mean && mds_ckpt verify mean &&
    test_must_fail mds_ckpt diff --weights mean mixed
'
test_expect_success 'without room nothing is left behind' '
    (FAULTFS=full:60000 FAULTFS_PATH=new LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} &&
    export FAULTFS FAULTFS_PATH LD_PRELOAD ASAN_OPTIONS && test_must_fail mds_ckpt merge --last 2 run new) &&
    ! ls new/iter*
'
test_done
