#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='checkpoints that one rank alone cannot write or read: nobody waits for it, nothing is lost'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"
# shellcheck source=tests/cli/tworanks.sh
. "${srcdir:?}/tests/cli/tworanks.sh"

# as_before: of what was in ck nothing is lost, and nothing else is there
as_before() {
    test "$(cat ck/latest)" = iter_0000004 && mds_ckpt verify --all ck &&
        test "$(cd ck && echo *)" = "good iter_0000002 iter_0000004 latest"
}
fresh() {
    rm -rf ck && cp -r saved ck
}
test_expect_success 'a run to go on from' '
    pretrain --train-iters 4 --save saved --save-interval 2 && mds_ckpt verify --all saved
'

# ---- saving ----

for how in "" --async-save; do
    test_expect_success "no memory for the index of a save $how" '
        fresh && ends "host memory: .* refused" 0 memory:3000 .partial/rank --load ck --save ck \
            --save-interval 2 --train-iters 8 $how &&
        ! grep "iteration  *7/" out && as_before
    '
    for fault in full:20000 readonly sync; do
        test_expect_success "a file of the last rank cannot be written: $fault $how" '
            fresh && ends "rank_00001.h5: .*" 1 $fault .partial/rank_00001 --load ck --save ck \
                --save-interval 2 --train-iters 8 $how &&
            grep "warn.*no checkpoint at iteration 6, training continues: .*rank_00001.h5" out &&
            grep "iteration  *8/" out && as_before
        '
    done
    for fault in eio:100 sync; do
        test_expect_success "the index cannot be written: $fault $how" '
            fresh && ends "index.h5: .*" 0 $fault .partial/index --load ck --save ck \
                --save-interval 2 --train-iters 8 $how &&
            grep "iteration  *8/" out && as_before
        '
    done
    test_expect_success "no folder can be made, or be given its name $how" '
        fresh && ends "iter_0000008.partial: Read-only" 0 readonly .partial --load ck --save ck \
            --save-interval 2 --train-iters 8 $how && as_before &&
        fresh && ends "iter_0000008: Input/output" 0 norename:0 iter_0000008 --load ck --save ck \
            --train-iters 8 $how && as_before
    '
done
test_expect_success 'no memory on another rank while it saves' '
    fresh && ends "host memory: .* refused" 1 memory:4000 ck/iter_0000006 --load ck \
        --save ck --save-interval 2 --train-iters 8 && grep "rank 1 .*refused" out &&
    rm -r ck/iter_0000006.partial && as_before
'
# Messages to the first rank that only leave when it takes them.
test_expect_success 'no memory for the index of a save, and nobody to take what the others send' '
    ends "rank 0 .*host memory: .* refused" 0 memory:8000 .partial/rank --num-layers 80 \
        --hidden-size 8 --num-attention-heads 1 --train-iters 1 --save many
'

# ---- replacing ----

for fault in noexchange norename:2; do
    test_expect_success "where names cannot change places, a checkpoint is replaced, or stays: $fault" '
        fresh && cp ck/iter_0000004/index.h5 old.h5 && echo iter_0000004 >ck/good &&
        case $fault in
            norename*) ends "iter_0000004: Input/output" 0 $fault iter_0000004 --load ck/iter_0000002 \
                --save ck --train-iters 4 && cmp old.h5 ck/iter_0000004/index.h5 &&
                grep iter_0000004 ck/good ;;
            *) on 0 $fault iter_0000004 --load ck/iter_0000002 --save ck --train-iters 4 &&
                ! cmp old.h5 ck/iter_0000004/index.h5 && test ! -e ck/good &&
                cp saved/good ck ;;
        esac && as_before
    '
done
test_expect_success 'a run that died in between: the next one finds it again' '
    fresh && mv ck/iter_0000004 ck/iter_0000004.old && mkdir ck/iter_0000002.old &&
    pretrain --load ck --save ck --train-iters 5 && grep "loaded ck/iter_0000004" out &&
    mds_ckpt verify --all ck && ! ls -d ck/*.old
'
test_expect_success 'an old checkpoint that cannot be removed is a warning' '
    fresh && mkdir ck/iter_0000002/folder &&
    pretrain --load ck --save ck --train-iters 6 --save-interval 1 --keep-last 1 &&
    test "$(grep -c "warn: .*iter_0000002/folder: a folder, .* nothing in ck/iter_0000002 is removed" out)" -ge 1 &&
    test "$(cat ck/latest)" = iter_0000006 && mds_ckpt verify ck
'

# ---- loading ----

test_expect_success 'a file that one rank alone cannot see: the one before is taken, or it is named' '
    fresh && ends "rank_00001.h5.*No such file.*(on rank 1, .*)" 1 gone 4/rank_00001 --load ck \
        --train-iters 6 &&
    on 1 gone 4/rank_00001 --load ck --load-fallback --train-iters 6 &&
    grep "trying ck/iter_0000002" out
'
test_expect_success 'an index that one rank alone cannot see is not needed there' '
    fresh && on 1 gone index.h5 --load ck/iter_0000004 --train-iters 6 &&
    grep "loaded ck/iter_0000004" out
'
test_expect_success 'no memory to load into' '
    ends "rank 1 .*refused" 1 memory:2000000 t.h5 --load ck --train-iters 6
'
test_done
