#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='a run that loses a node starts again on a spare one'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"

case $($MPIEXEC --version 2>&1) in
*HYDRA*) ;;
*) skip_all='needs the mpiexec of MPICH, which takes any command for ssh' && test_done ;;
esac

# Nodes a to d are this host under other names, which a stand-in for ssh tells the ranks.
printf '%s\n' a b c d >nodes
cat >far <<'EOF2'
#!/bin/sh
NODE=$2
export NODE
test ! -e "gone.$NODE" || exit 1
shift 2 # -x NODE
exec sh -c "$*"
EOF2
# ranks [OPTION]...: mds_pretrain, of which node b's may be as $fault says
cat >ranks <<'EOF2'
#!/bin/sh
case $fault:$NODE in
*:[cd] | :* | killed:a | stopped:a | preflight:a | nowhere:a | always:*) ;;
killed:b | stopped:b) # after the first checkpoint
    (
        until test -e ck/latest; do sleep 0.02; done
        kill -"$signal" $$
    ) 2>/dev/null &
    ;;
preflight:b) FAULTFS_PATH=preflight FAULTFS=eio:1000000 && export FAULTFS_PATH FAULTFS ;;
cut:a) # it says that the other one is silent, ends, and does not answer
    before=
    for last; do
        case $before in --events) events=$last ;; esac
        before=$last
    done
    (
        until test -e ck/latest; do sleep 0.02; done
        : >gone.a
        echo '{"event":"rank_lost","rank":1,"host":"b","cause":"silent","reason":"has been silent for 4 s"}' >>"$events"
        kill -KILL $$
    ) 2>/dev/null &
    ;;
nowhere:b) set -- "$@" --clip-grad 2 ;;
esac
if test "$fault" = always; then # at its first step
    : >"started.$NODE"
    (until test m.jsonl -nt "started.$NODE"; do sleep 0.05; done && kill -KILL $$) &
fi
exec mds_pretrain "$@"
EOF2
chmod +x far ranks
sed "s,^  kind: plain.*,  kind: hydra\n  command: $MPIEXEC\n  flags: [-launcher\, ssh\, -launcher-exec\, ./far],
    s,^  ranks: 2,  ranks: 1," "$srcdir/machines/localhost.yaml" >far.yaml
export HOSTFILE=nodes MACHINE=./far.yaml MODEL_SIZE_KEY=TINY SEQ_LEN=32 TRAIN_ITERS=30 fault='' signal=''
# on_nodes OPTIONS...: as a job of nodes a to d, or those in $HOSTFILE, would
on_nodes() {
    rm -rf excluded
    # shellcheck disable=SC2086  # a list of words
    timeout 60 mds_launch --nodes 2 --exclude-file excluded --program ./ranks -- $tiny --log-interval 30 \
        --save ck --load ck --save-interval 4 --keep-last 2 --metrics-jsonl m.jsonl "$@" >out 2>&1 </dev/null
    status=$?
    cat out
    return $status
}
losses() {
    sed -n "s/.*\"event\":\"step\".*\"iteration\":\([0-9]*\),.*\"lm_loss\":\([^,]*\).*/\1 \2/p" m.jsonl
}

test_expect_success 'an undisturbed run' '
    on_nodes && losses >whole && test "$(wc -l <whole)" -eq 30 && test ! -e excluded && rm -r ck m.jsonl
'
test_expect_success 'a rank that is killed: the job goes on with a spare node, to the same losses' '
    fault=killed signal=KILL && on_nodes && losses >got && test_cmp whole got &&
    grep "^[^ ]*mpiexec.* -hosts a,b " out && grep "^[^ ]*mpiexec.* -hosts a,c " out &&
    test "$(grep -c "^mds: warn: node b is left out: rank 1 was killed by signal 9" out)" -eq 1 &&
    grep "info: starting again from iteration [1-9][0-9]* (restart 1 of at most 10)" out &&
    grep "^b # 20.* UTC: rank 1 was killed by signal 9 (Killed)$" excluded && rm -r ck m.jsonl
'
test_expect_success 'a node that is silent: the same' '
    fault=stopped signal=STOP && on_nodes --distributed-timeout-minutes 0.02 && losses >got && test_cmp whole got &&
    grep "warn: node b is left out: rank 1 has been silent for 1.2 s$" out && rm -r ck m.jsonl
'
test_expect_success 'a node that is cut off, and says that the other one is silent: only the first is left out' '
    fault=cut && on_nodes && losses >got && test_cmp whole got && grep "warn: node a is left out: it does not answer$" out &&
    grep "^[^ ]*mpiexec.* -hosts b,c " out && ! grep "^b" excluded && rm -r ck m.jsonl gone.a
'
test_expect_success 'what the first start was told to load is not loaded again' '
    fault= && on_nodes --train-iters 3 && mv ck other && rm m.jsonl && fault=killed signal=KILL &&
    on_nodes --load other --finetune --load other && grep -e "--load ck --finetune=0" out &&
    grep "loaded ck/iter_" out && test "$(losses | wc -l)" -eq 30 && rm -r ck m.jsonl
'
test_expect_success 'no spare, no --save, or no restart allowed: the reason, and status 75' '
    fault=killed signal=KILL && printf "a\nb\n" >two && (HOSTFILE=two && test_expect_code 75 on_nodes) &&
    grep "^b # " excluded &&
    grep "error: the run is not started again: the job has no spare node for 1 node (--spare-nodes)" out && rm -r ck &&
    (MAX_RESTARTS=0 && export MAX_RESTARTS && test_expect_code 75 on_nodes) &&
    grep "not started again: .*--max-restarts" out && rm -r ck &&
    (fault=always && test_expect_code 75 on_nodes --save "" --load "" --train-iters 100000) &&
    grep "not started again: there is no --save to resume from" out
'
test_expect_success 'a crash that repeats without a new checkpoint does not loop' '
    fault="" && on_nodes --train-iters 100000 --exit-interval 4; test "$(cat ck/latest)" = iter_0000004 &&
    fault=always && test_expect_code 75 on_nodes --train-iters 100000 --save-interval 100000 &&
    grep "info: starting again from iteration 4 (restart 1 of" out && test "$(grep -c -e " -hosts " out)" -eq 2 && grep "not started again: no checkpoint was written since" out
'
test_expect_success 'a node that fails the check is left out, and the run starts on the rest' '
    rm -rf ck m.jsonl && fault=preflight && LD_PRELOAD=$builddir/tests/ckpt/faultfs.so \
        ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-} on_nodes --preflight &&
    losses >got && test_cmp whole got &&
    grep "^mds: warn: node b is left out: preflight: rank 1 --save: ck/.*: Input/output error" out &&
    grep "^mds: info: starting without it" out && ! grep "restart 1" out && grep "^b # .*--save: ck" excluded
'
test_expect_success 'all nodes fail the check: none of them is blamed' '
    printf "a\nb\nc\n" >three && fault= && (HOSTFILE=three && test_expect_code 1 on_nodes --preflight --save /proc/ck) &&
    grep "fault: rank 0 on .* --save: /proc/ck: cannot create this folder" out && test ! -e excluded
'
# forgetful STATUS WORDS...: a launcher that always ends with that status, and before that runs the words; $more are options
forgetful() {
    ends=$1 && shift
    printf '#!/bin/sh\ntrap "" USR1\n%s "$@"\n%s\nexit %s\n' "$MPIEXEC" "$*" "$ends" >forgetful && chmod +x forgetful
    # shellcheck disable=SC2086  # a list of words
    mds_launch --nodes 2 --launcher-command ./forgetful -- $tiny --save ck --exit-interval 3 ${more-}
    status=$?
    rm -rf ck
    return $status
}
test_expect_success 'a launcher that forgets the status of the ranks' '
    fault="" && rm -rf ck && test_expect_code 85 forgetful 0 && test_expect_code 86 forgetful 0 kill -TERM "\$PPID" &&
    (more="--data-path gone.h5" && test_expect_code 1 forgetful 137)
'
for end in 0 85; do
    echo "{\"event\":\"finished\",\"status\":$end}" >finished.$end
done
test_expect_success 'ranks that end with 0, and do not say that the run is done' '
    silent() {
        printf "#!/bin/sh\ntrap \"\" USR1\n%s\n" "$*" >silent && chmod +x silent
        mds_launch --nodes 2 --launcher-command ./silent -- $tiny --save ck --events ev
    } &&
    test_expect_code 75 silent : 2>err && grep "error: the ranks ended without saying that the run is done" err &&
    test_expect_code 85 silent "kill -USR1 \$PPID; sleep 0.2" && test_expect_code 86 silent "kill -TERM \$PPID; sleep 0.2" &&
    grep "\"failed\",\"reason\":\"the ranks said nothing .* status is 0\",\"status\":75}" ev &&
    test_expect_code 0 silent "cat finished.0 >>ev" && test_expect_code 85 silent "cat finished.85 >>ev" &&
    test_expect_code 75 silent "tr -d \\\\n <finished.0 >>ev" # a line that is not whole
'
test_expect_success 'launchers that kill the ranks at SIGTERM, as srun and mpirun do: they are sent SIGUSR1 first' '
    cat >killing <<-\EOF &&
	#!/bin/sh
	trap "echo got USR1; kill -TERM \$PPID" USR1
	trap "echo got TERM; exit 85" TERM
	kill -TERM $PPID
	for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done
	EOF
    chmod +x killing && test_expect_code 86 mds_launch --nodes 2 --launcher-command ./killing -- $tiny --save ck >out 2>&1; cat out
    grep "^got" out >got && printf "got USR1\ngot TERM\n" >want && test_cmp want got
'
test_expect_success 'a mistake of the user is not tried again' '
    fault= && test_expect_code 1 on_nodes --train-iters 0 && test "$(grep -c -e " -hosts " out)" -le 1 &&
    test_expect_code 1 on_nodes --data-path gone.h5 && test ! -e excluded
'

test_done
