# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034,SC2154  # setup.sh comes before it
# For the tests of what fails on one rank alone: two ranks, of which one meets trouble.
mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"

small='--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1
    --zero-stage 1'
# pretrain OPTIONS...: on two ranks, which would wait minutes for each other
pretrain() {
    # MPIEXEC and the options are lists of words
    # shellcheck disable=SC2086
    timeout 20 $MPIEXEC -n 2 mds_pretrain --data-path t.h5 $small "$@" >out 2>&1 </dev/null
}
# on RANK FAULT PATH OPTIONS...: with files of that path failing under that rank (faultfs.c)
on() {
    rank=$1 fault=$2 path=$3
    shift 3
    test -z "$path" || export FAULTFS_PATH="$path"
    FAULTFS=$fault FAULTFS_RANK=$rank ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        LD_PRELOAD=$builddir/tests/ckpt/faultfs.so pretrain "$@"
    status=$?
    unset FAULTFS_PATH
    cat out
    return $status
}
# ends WORDS RANK FAULT PATH OPTIONS...: the run fails in seconds, and one line has the words
ends() {
    words=$1
    shift
    on "$@"
    status=$?
    test $status -ne 0 && test $status -ne 124 && test "$(grep -c "error: " out)" -eq 1 &&
        grep "error: " out | grep -e "$words"
}
