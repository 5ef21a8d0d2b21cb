#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2154  # test bodies are evaluated by sharness, variables too
test_description='what the shell, the system or another run takes away'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"
# shellcheck source=tests/cli/tworanks.sh
. "${srcdir:?}/tests/cli/tworanks.sh"

one() {
    # shellcheck disable=SC2086  # a list of words
    timeout 20 mds_pretrain --data-path t.h5 $small --zero-stage 0 "$@"
}
genome=$srcdir/tests/data/lambda.fna.gz

# ---- descriptors ----

test_expect_success 'closed descriptors: what would be printed goes into no file' '
    one --train-iters 2 --save ck --metrics-jsonl m.jsonl 2>&- >out &&
    mds_ckpt verify ck && ! grep -v "^{.*}$" m.jsonl &&
    rm -r ck m.jsonl &&
    test_expect_code 1 one --train-iters 2 --save ck --metrics-jsonl m.jsonl <&- >&- 2>&- &&
    ! grep -v "^{.*}$" m.jsonl &&
    test_expect_code 1 one --train-iters 2 >&- 2>err && grep "error: standard output: Bad file" err &&
    test_expect_code 1 mds_data make --tokenizer codon --output t2.h5 "$genome" <&- >&- 2>&- &&
    test_expect_code 1 mds_launch where <&- >&- 2>&- &&
    mds_data info t2.h5
'
# The reader leaves once the run has begun; the run, of more lines than the pipe holds, cannot end
# before that.
test_expect_success 'nobody reads what is printed any more: all is saved, then it fails' '
    mkfifo pipe && { sed "/iteration  *1\//q" <pipe & } &&
    test_expect_code 1 one --train-iters 400 --save ck >pipe 2>err && wait &&
    test "$(grep -c "error: standard output: Broken pipe" err)" -eq 1 &&
    test "$(cat ck/latest)" = iter_0000400 && mds_ckpt verify ck
'

# More than the pipe and what is kept for it hold, while nobody reads.  Then somebody does.
test_expect_success 'a reader that has stopped holds up no step, and learns what was left out' '
    rm -f pipe slow && mkfifo pipe slow && { cat <pipe >seen & } && reader=$! && { sleep 60 <slow & } && asleep=$! &&
    { one --train-iters 1500 --log-interval 1 --save ck3 --metrics-jsonl slow >pipe 2>err & } && run=$! &&
    until grep -q "iteration  *1/" seen; do sleep 0.01; done && kill -STOP $reader &&
    until test -e ck3/latest || ! kill -0 $run 2>/dev/null; do sleep 0.1; done
    kill -CONT $reader && wait $run && wait $reader && kill $asleep && test -e ck3/latest || { cat err; return 1; }
    grep "mds: warn: [1-9][0-9]* lines were left out up to here: nobody read them" seen && tail -n 1 seen | grep "^done: iteration 1500 of 1500" &&
    grep "iteration *1500/" seen
'
test_expect_success 'nor does one of mds_launch: no rank seems to be silent' '
    rm -f pipe && mkfifo pipe && { sleep 60 <pipe & } && asleep=$! &&
    printf "T: {layers: 2, hidden: 32, heads: 4}\n" >table.yaml &&
    mds_launch --machine localhost --ranks 2 -- --model-table table.yaml --model-size-key T --seq-length 32 --global-batch-size 4 \
        --data-path t.h5 --eval-iters 0 --threads 1 --train-iters 1500 --log-interval 1 --distributed-timeout-minutes 3s >pipe 2>err; status=$?
    kill $asleep; cat err; test $status -eq 0
'

# ---- limits ----

# ulimit counts in blocks of 512 bytes or of 1024; MPI wants files of 5 MiB.
test_expect_success 'a file that may not grow so large: the run goes on, and fails at its end' '
    (ulimit -f 12000 && test_expect_code 1 one --train-iters 2 --hidden-size 256 --save big \
        --save-interval 1 --metrics-jsonl m.jsonl >out 2>&1) &&
    grep "warn: no checkpoint at iteration 1, training continues: .*File too large" out &&
    test "$(grep -c "error: " out)" -eq 1 && test "$(ls big)" = "" &&
    (ulimit -f 10 && test_expect_code 1 mds_data make --tokenizer codon --output t3.h5 \
        "$genome" 2>err) &&
    grep "error: t3.h5: .*File too large" err && ! ls t3*
'
# Not where a sanitizer needs addresses without end.
# shellcheck disable=SC3045  # ulimit knows -v wherever Linux is
(ulimit -v 500000 && mds_data --version) >/dev/null 2>&1 && test_set_prereq LIMIT_AS
test_expect_success LIMIT_AS 'few addresses: an error where libraries would ask for ever' '
    for kib in 250000 300000 350000 400000 450000; do
        (ulimit -v $kib && one --train-iters 2 >out 2>&1)
        status=$?
        cat out # who refuses depends on the libraries
        test $status -ne 124 && test "$(grep -c "mds: error: " out)" -le 1 || return 1
    done
'

# What only computing needs: OpenBLAS asks for memory before main, cuBLASLt takes 200 MB.
# shellcheck disable=SC3045
test_expect_success LIMIT_AS 'few addresses: programs that do not compute start, or say why not' '
    for kib in 150000 200000 250000 300000; do
        for p in mds_pretrain mds_data mds_launch mds_ckpt; do
            (ulimit -v $kib && timeout 10 $p --version >out 2>&1)
            status=$?
            cat out
            test $status -ne 124 && test -s out || return 1
        done
    done &&
    (ulimit -v 500000 && timeout 10 mds_pretrain --model-size-key GPT125M --show-config >out) &&
    grep "125,262,336" out
'
openblas=$(sed -n 's/^#define MDS_OPENBLAS_FILE "\(.*\)"/\1/p' "$builddir/config.h")
command -v objdump >/dev/null && test_set_prereq OBJDUMP
test_expect_success OBJDUMP 'no program is linked with what it opens at need' '
    for p in mds_pretrain mds_data mds_launch mds_ckpt; do
        objdump -p "$(command -v $p)" >needs && grep NEEDED needs || return 1
        ! grep -E "NEEDED.*(${openblas:-cublas}|cublas|cudnn|nccl)" needs || return 1
    done
'
[ -z "$openblas" ] || test_set_prereq OPENBLAS
# shellcheck disable=SC3045
test_expect_success OPENBLAS,LIMIT_AS 'too few addresses for the threads: who refuses them is told' '
    ! (ulimit -v 1500000 && one --train-iters 2 --threads 64 >out 2>&1) && cat out &&
    grep "BLAS with 64 threads .* ulimit -v or the kernel (vm.overcommit_memory) refuses: raise" out
'
test_expect_success OPENBLAS 'a library that cannot be opened is named, once it is needed' '
    mkdir none && : >"none/$openblas" &&
    (export LD_LIBRARY_PATH="$PWD/none${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" &&
        one --dry-run && test_expect_code 1 one --train-iters 2 2>err) &&
    grep "error: GEMM: .*/none/$openblas: .*; load the OpenBLAS module, or" err
'

# ---- files that change meanwhile ----

test_expect_success 'tokens that are cut, or replaced in place, while they are read' '
    for with in /dev/null "$genome"; do
        cp t.h5 now.h5 && : >out &&
        { one --data-path now.h5 --train-iters 100000000 >out 2>&1 & } && job=$! &&
        until grep -q "iteration  *3/" out; do sleep 0.05; done &&
        cat "$with" >now.h5 && test_expect_code 1 wait $job &&
        grep "error: now.h5: changed while it was being read: it had" out || return 1
    done
'

# ---- start and end ----

test_expect_success 'a rank that does not come up is not waited for without end' '
    cat >one_of_two <<-\EOF &&
	test "${PMI_RANK:-${OMPI_COMM_WORLD_RANK-}}" != 1 || exit 0
	exec mds_pretrain "$@"
	EOF
    # shellcheck disable=SC2086
    timeout 20 $MPIEXEC -n 2 sh one_of_two --data-path t.h5 $small --train-iters 2 \
        --distributed-timeout-minutes 0.02 >out 2>&1 </dev/null
    status=$?
    cat out
    test $status -ne 0 && test $status -ne 124 || return 1
    case $MPIEXEC in
    *openmpi*) ;; # finds out by itself
    *) grep "rank 0 .*error: MPI has not started 2 ranks in 1.2 s" out ;;
    esac
'

case $($MPIEXEC --version 2>&1) in
*HYDRA*) test_set_prereq HYDRA ;;
esac
test_expect_success HYDRA 'a node that never answers: mpiexec does not wait for it either' '
    cat >far <<-\EOF && chmod +x far &&
	#!/bin/sh
	shift # -x
	test "$1" != nodeb || exec sleep 20
	shift
	exec sh -c "$*"
	EOF
    # shellcheck disable=SC2086
    timeout 15 $MPIEXEC -launcher ssh -launcher-exec ./far -hosts nodea,nodeb -n 4 -ppn 2 mds_pretrain \
        --data-path t.h5 $small --train-iters 2 --distributed-timeout-minutes 0.02 >out 2>&1 </dev/null
    status=$?
    cat out
    test $status -ne 0 && test $status -ne 124 && grep "error: MPI has not started 4 ranks in 1.2 s" out
'
test_expect_success 'a rank that is stuck in the last file is not waited for without end' '
    on 0 late:15000 w.st --train-iters 2 --export-weights w.st --distributed-timeout-minutes 0.02
    test $status -ne 0 && test $status -ne 124 &&
    grep "rank 1 .*error: world: rank 0 has been silent for 1.2 s" out
'

# ---- two runs ----

# start OPTIONS...: two ranks that go on until a signal, and have saved twice; their process ids are
# in pids/, the job's is job, what it printed is in first
start() {
    rm -rf pids ck && mkdir pids && : >first
    # shellcheck disable=SC2086
    timeout 60 $MPIEXEC -n 2 sh -c 'echo >pids/$$ && exec mds_pretrain "$@"' sh --data-path t.h5 $small \
        --train-iters 100000000 --save ck --save-interval 1 --keep-last 1 \
        --exit-signal-handler "$@" >first 2>&1 </dev/null &
    job=$!
    until grep -q "iteration  *3/" first || ! kill -0 $job; do sleep 0.1; done
}
# stopped: it ends in order
stopped() {
    for pid in pids/*; do kill -USR1 "${pid#pids/}"; done
    wait "$job"
    test $? -eq 85
}
test_expect_success 'a run that saves to the folder of another is refused' '
    start && { pretrain --save ck --load ck --train-iters 100; test $? -eq 1; } &&
    test "$(grep -c "error: " out)" -eq 1 &&
    grep "error: ck: another run saves there (process [0-9]* on .*, since 20.* UTC): wait" out &&
    stopped && ! grep "warn: no checkpoint" first && mds_ckpt verify --all ck &&
    { pretrain --train-iters 100000000 --save ck --load ck --exit-interval 1; test $? -eq 85; }
'
test_expect_success HYDRA 'ranks whose launcher was killed end, and leave the folder to others' '
    start --save-interval 1000000 && set -- pids/* &&
    kill -KILL $(sed -n "s/^PPid:\t//p" "/proc/${1#pids/}/status") && wait $job
    status=$?
    cat first
    test $status -ne 0 && test $status -ne 124 &&
    { pretrain --train-iters 100000000 --save ck --load ck --exit-interval 1; test $? -eq 85; }
'
test_expect_success 'a run of another node is waited for: that one may be dying' '
    start && echo "process 1 on elsewhere, since long ago" >ck/.lock &&
    { pretrain --train-iters 100000000 --save ck --load ck --exit-interval 1 & } && next=$! &&
    until grep -q "warn: ck: another run saves there (process 1 on elsewhere, since long ago): waiting up to 120 s" out ||
        ! kill -0 $next; do sleep 0.1; done
    stopped && { wait $next; test $? -eq 85; } && ! grep "error:" out
'
test_expect_success 'a file system without locks: a warning, no more' '
    rm -rf ck && FAULTFS=unlockable FAULTFS_PATH=ck/.lock LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        pretrain --train-iters 2 --save ck --save-interval 1 &&
    test "$(grep -c "warn: ck/.lock: cannot be locked (Function not impl" out)" -eq 2 && # at the end, too
    mds_ckpt verify --all ck
'
test_expect_success 'a lock file of somebody else: a warning, no more' '
    FAULTFS=readonly FAULTFS_PATH=ck/.lock LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} \
        pretrain --train-iters 3 --load ck --save ck &&
    grep "warn: ck/.lock: cannot be locked (Read-only" out && mds_ckpt verify ck
'
test_expect_success 'a folder that is taken away: the next save makes it again' '
    start && mv ck aside && test -e aside/latest && stopped && mds_ckpt verify ck
'

# As batch systems do to jobs for which others have to wait.  One waits for the other then.
test_expect_success 'a job that is suspended for longer than a rank may be silent goes on' '
    start --distributed-timeout-minutes 0.02 --save-interval 1000000 &&
    set -- pids/* && kill -STOP "${1#pids/}" && sleep 0.2 && kill -STOP "${2#pids/}" && sleep 2 &&
    kill -CONT "${2#pids/}" && sleep 0.2 && kill -CONT "${1#pids/}" &&
    sleep 0.3 && stopped && ! grep "error: " first && mds_ckpt verify ck
'

# ---- the file system at the start ----

# A thousand ranks start at once: what each asks of the file system must not grow with their number.
if strace -o /dev/null true 2>/dev/null; then
    test_set_prereq STRACE
fi
# touches RANKS: how often each rank names the data file, the most calls of one rank that name any file, and how many
# ranks open the outputs
# shellcheck disable=SC2086  # lists of words
touches() {
    rm -rf st.* ck m.jsonl tb &&
    ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-} timeout 60 $MPIEXEC -n "$1" strace -ff -o st -e trace=%file \
        mds_pretrain --data-path t.h5 $small --train-iters 2 --metrics-jsonl m.jsonl --tensorboard-dir tb >out 2>&1 </dev/null ||
        return 1
    sed -i /^execve/d st.* &&
    grep -c "\"t.h5\"" st.* | sed -n "s/.*://; /^0/!p" | sort -u >"data$1"
    # shellcheck disable=SC2046  # names without blanks
    grep -v "\"/proc\|\"/sys\|\"/dev" $(grep -l "\"t.h5\"" st.*) | cut -d : -f 1 | uniq -c | sort -n |
        awk "{ n = \$1 } END { print n }" >"calls$1" &&
    grep -l "^open.*\"m.jsonl\|^open.*\"tb" st.* | wc -l >"outputs$1"
}
test_expect_success STRACE 'each rank opens the data a few times, and the first alone opens outputs' '
    touches 2 && touches 4 && cat data2 data4 outputs4 calls2 calls4 && test "$(cat calls4)" -le $(($(cat calls2) * 11 / 10)) &&
    test_cmp data2 data4 && test "$(sort -n data4 | tail -n 1)" -le 10 && test "$(cat outputs2 outputs4 | sort -u)" -eq 1
'

test_done
