#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_ckpt and mds_data on a disk that is full, or fails'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"
test_expect_success 'a checkpoint' '
    mds_pretrain --data-path t.h5 --num-layers 2 --hidden-size 32 --num-attention-heads 4 \
        --seq-length 32 --train-iters 4 --eval-iters 0 --threads 1 --save good
'
# alone FAULT COMMAND...: one process, whose files fail, says so in a line: of $meant, with
# $said in it
alone() {
    FAULTFS=$1 FAULTFS_PATH=${meant:-new} ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        LD_PRELOAD=$builddir/tests/ckpt/faultfs.so
    export FAULTFS FAULTFS_PATH ASAN_OPTIONS LD_PRELOAD
    shift
    "$@" 2>err
    status=$?
    unset FAULTFS LD_PRELOAD
    cat err
    test $status -eq 1 && test "$(grep -c "error: .*${said:-new}" err)" -eq 1
}
test_expect_success 'mds_ckpt and mds_data without room leave nothing behind' '
    for fault in full:0 full:60000 sync flush:0 norename:0; do
        case $fault in
            full*|sync|norename*) (alone $fault mds_ckpt reshard good new --world-size 2) &&
                ! ls new/iter* || return 1 ;;
        esac
        case $fault in
            flush*|sync|norename*) (alone $fault mds_ckpt export --output new.st good) &&
                (alone $fault mds_data make --tokenizer codon --output new.h5 \
                    "$srcdir/tests/data/lambda.fna.gz") && ! ls new.* || return 1 ;;
        esac
    done
'
# blinks FILE STEP COMMAND...: whichever write to the file fails, each STEP-th by itself,
# the command fails and leaves nothing; in the end there is no such write, and it does not
blinks() {
    file=$1 step=$2 n=0
    shift 2
    while (alone blink:$n "$@"); do
        test $n -lt 1000 && ! ls -d "$file" || return 1
        n=$((n + step))
    done
    cat err && test $n -gt 3 && test ! -s err && ls -d "$file"
}
test_expect_success 'one write of many finds no room: it is noticed, whichever it is' '
    rm -rf new new.* && awk "BEGIN { print \">r\"; for (i = 0; i < 5000; i++) print \
        \"ACGTTGCAACGTCATGCATGTTTACGCATCGGCATCAGCAGCATGACGTAGCATCAG\" }" >long.fa &&
    blinks new.h5 1 mds_data make --tokenizer codon --output new.h5 long.fa &&
    meant=new/iter blinks new/iter_0000004 13 mds_ckpt reshard good new --world-size 2 && mds_ckpt verify new
'

# What a disk does not give is not missing, wherever it fails.
test_expect_success 'a checkpoint that cannot be read has what it has' '
    n=0
    while (meant=index.h5 said="index.h5.*Input/output error" &&
        alone read:$n mds_ckpt export --output new.st good); do
        n=$((n + 500))
    done
    cat err && test $n -gt 2000 && test ! -s err
'
test_expect_success 'memory that is refused is no damage' '
    (meant=rank_ said="host memory: .* refused" && alone memory:3000 mds_ckpt verify --all good)
'
# whenever STEP COMMAND...: memory is refused once, at each STEP-th time that the program asks for
# some: it goes without, or says so in a line; in the end none is refused
whenever() {
    step=$1 n=0
    shift
    while rm -rf refused new.* && (FAULTFS=nth:$n FAULTFS_PATH=none && export FAULTFS FAULTFS_PATH &&
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
            LD_PRELOAD=$builddir/tests/ckpt/faultfs.so "$@" >out 2>err)
        status=$?
        test -e refused; do
        test $status -eq 0 || { test $status -eq 1 && test "$(grep -c "error: " err)" -eq 1 &&
            grep -q "error: .*memory" err; } || { cat err && return 1; }
        n=$((n + step))
    done
    test $status -eq 0 && test $n -gt $((3 * step))
}
test_expect_success 'memory that is refused once, at any time' '
    whenever 2 mds_data make --tokenizer codon --output new.h5 "$srcdir/tests/data/lambda.fna.gz" &&
    whenever 3 mds_data info t.h5 &&
    whenever 2 mds_ckpt verify good &&
    whenever 3 mds_ckpt export --output new.st good &&
    whenever 97 mds_pretrain --data-path t.h5 --num-layers 2 --hidden-size 32 --num-attention-heads 4 \
        --seq-length 32 --train-iters 2 --threads 1 --export-weights new.st
'


test_expect_success 'names that begin with a dash stand behind --' '
    cp -r good ./-c && cp "$srcdir/tests/data/lambda.fna.gz" ./-l &&
    mds_data make --tokenizer codon --output=-t.h5 -- -l && mds_data info -- -t.h5 &&
    mds_data dump --count 3 -- -t.h5 && mds_ckpt info -- -c && mds_ckpt verify --all -- -c &&
    mds_ckpt diff -- -c good && mds_ckpt prune --keep-last 1 -- -c &&
    mds_ckpt export --format hf --output=-h -- -c && mds_ckpt import -- -h -i &&
    mds_ckpt reshard -- -c -r --world-size 2 && mds_ckpt verify -- -i && mds_ckpt diff -- -c -r &&
    test_must_fail mds_ckpt reshard --world-size 2 -- -c -s 2>err && grep "then the layout" err
'

test_done
