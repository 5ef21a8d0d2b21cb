#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2086  # test bodies are evaluated by sharness, variables too; lists of words
test_description='mds_launch status, continue and cancel'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"

# The state of every job is what is in the file `state`; nothing if that is not there.
printf '#!/bin/sh\necho "squeue $*" >>asked.log\ntest ! -e state || cat state\n' >bin/squeue
printf '#!/bin/sh\necho "qstat $*" >>asked.log\ntest ! -e state || echo "    job_state = $(cat state)"\n' >bin/qstat
printf '#!/bin/sh\necho "flux $*" >>asked.log\ntest ! -e state || cat state\n' >bin/flux
printf '#!/bin/sh\necho "$*" >>cancelled.log\n' >bin/scancel
cp bin/scancel bin/qdel
chmod +x bin/*

# run_dir NAME SCHEDULER EVENT...: a run folder with these events, each {...} without its version and time
run_dir() {
    mkdir -p "runs/$1" && printf 'name: %s\nscheduler: %s\n' "$1" "$2" >"runs/$1/run.yaml" && echo "#!/bin/sh" >"runs/$1/job.sh" &&
        into=runs/$1/events.jsonl && shift 2 &&
        for event; do
            echo "{\"v\":1,\"time\":$(date +%s),$event}" >>"$into"
        done
}
# steps NAME ITERATION LOSS: a metrics.jsonl that ends so
steps() {
    for i in $(seq $(($2 - 3)) "$2"); do
        echo "{\"event\":\"step\",\"wall_time_s\":$(date +%s),\"iteration\":$i,\"elapsed_s\":0.5,\"lm_loss\":$3,\"tokens_per_s\":14100}"
    done >"runs/$1/metrics.jsonl"
    printf '{"event":"step","iter' >>"runs/$1/metrics.jsonl" # being written
}
# row NAME PATTERN: its line of the table, columns separated by |
row() {
    mds_launch status | sed 's/   *//; s/   */|/g' >table && cat table && grep -e "^$1 *|*$2" table
}
submitted='"event":"submitted","jobs":"12 13"'
launched='"event":"launched","host":"n1"'
started='"event":"started","iteration":0,"last_iteration":600,"leaves_after_s":3600'

test_expect_success 'a real run: what status says while it trains, cancel, continue, and when it is done' '
    export MACHINE=localhost NGPUS=2 MODEL_SIZE_KEY=TINY SEQ_LEN=64 &&
    { TRAIN_ITERS=100000000 timeout 60 mds_launch --runs real --name a -- $tiny --log-interval 10000 --save-interval 20 >out 2>&1 & } && run=$! &&
    until grep -q "\"saved\"" real/a/events.jsonl; do kill -0 $run && sleep 0.1 || return 1; done &&
    mds_launch status real >got && cat got && grep "^run  *state  *step  *loss  *valid  *tokens/s  *ETA  *left  *last event$" got &&
    grep "^a  *running  *[0-9]*/100000000  *[0-9.]*  *-  *[0-9.]* k  *[0-9].*  *-  *saved at [0-9]*, [0-9.]* s ago$" got &&
    test_must_fail mds_launch continue --runs real a 2>err && grep "error: a is running: it needs no other job" err &&
    mds_launch cancel --runs real a >got && grep "^a will save and leave" got && { wait $run; test $? -eq 86; } &&
    grep "\"cancelled\"}$" real/a/events.jsonl && grep "\"finished\".*\"reason\":\"signal\",\"status\":86\|\"finished\".*\"status\":85" real/a/events.jsonl &&
    at=$(sed "s/iter_0*//" real/a/checkpoints/latest) && mds_launch status real/a >got && grep "^a  *saved  *$at/100000000 " got &&
    test_must_fail mds_launch cancel --runs real a 2>err && grep "error: a: there is nothing to cancel: it is saved" err &&
    sed -i "s/100000000/$((at + 3))/" real/a/job.sh && mds_launch continue --runs real a >out 2>&1 && cat out && grep "loaded real/a/checkpoints" out &&
    mds_launch status real >got && grep "^a  *done  *$((at + 3))/$((at + 3)) .*finished at $((at + 3)): iterations" got &&
    test_must_fail mds_launch continue --runs real a 2>err && grep "error: a is done" err &&
    unset MACHINE NGPUS MODEL_SIZE_KEY SEQ_LEN
'
test_expect_success 'a job that waits, that runs, and that is gone' '
    rm -f state && run_dir s slurm "$submitted" && row s "silent|-|" && echo PD >state && row s "queued|-|" && grep -e "-o %t -j 13" asked.log &&
    echo R >state && row s "starting|" && run_dir s slurm "$launched" "$started" && steps s 120 4.005 &&
    row s "running|120/600|4.0050|-|14.10 k|4 min 00 s|[15][9 ][ h]" &&
    run_dir s slurm "\"event\":\"evaluated\",\"iteration\":120,\"split\":\"validation\",\"loss\":4.021" \
        "\"event\":\"evaluated\",\"iteration\":120,\"split\":\"test\",\"loss\":9" && row s "running|120/600|4.0050|4.0210|"
'
test_expect_success 'PBS, too' '
    echo Q >state && run_dir p pbs "\"event\":\"submitted\",\"jobs\":\"7.polaris\"" && row p "queued|" && grep "qstat -f 7.polaris" asked.log &&
    echo R >state && row p "starting|"
'
test_expect_success 'Flux, too' '
    echo S >state && run_dir f flux "\"event\":\"submitted\",\"jobs\":\"f7x fA2\"" && row f "queued|" &&
    grep "flux jobs -no {status_abbrev} fA2" asked.log && mds_launch cancel f && grep "^flux cancel f7x fA2" asked.log &&
    echo CA >state && row f "silent|" && echo C >state && row f "starting|"
'
test_expect_success 'ends: done, saved, lost; a run that says nothing any more' '
    rm -f state && run_dir d none "$launched" "$started" "\"event\":\"finished\",\"iteration\":600,\"reason\":\"iterations\",\"status\":0,\"training_loss\":3.5" &&
    row d "done|600/600|3.5000|" &&
    run_dir u none "$started" "\"event\":\"walltime\",\"reason\":\"duration\"" && row u "leaving|" &&
    run_dir u none "\"event\":\"finished\",\"iteration\":30,\"reason\":\"duration\",\"status\":85" && row u "saved|30/600|" &&
    run_dir l none "$started" "\"event\":\"rank_lost\",\"rank\":1,\"host\":\"n9\",\"reason\":\"was killed by signal 9 (Killed)\"" &&
    row l "failed|.*rank lost on n9: was killed by signal 9 (Killed), " &&
    run_dir l none "\"event\":\"restarted\",\"iteration\":20" && row l "starting|" &&
    run_dir q none && echo "{\"v\":1,\"time\":1000,$started}" >runs/q/events.jsonl && row q "silent|0/600|" &&
    run_dir n none && row n "written|-|" && echo torn >>runs/n/events.jsonl && row n "written|-|"
'
test_expect_success 'continue submits the next job; a run that is done, or has one, needs none' '
    echo R >state && test_must_fail mds_launch continue s 2>err && grep "error: s is running" err && rm state &&
    run_dir s slurm "\"event\":\"finished\",\"iteration\":120,\"reason\":\"duration\",\"status\":85" && rm -f sbatch.log &&
    mds_launch continue s >out && cat out && grep "^runs/s: 1$" out && grep "^--parsable runs/s/job.sh" sbatch.log &&
    tail -n 1 runs/s/events.jsonl | grep "\"event\":\"submitted\",\"jobs\":\"1\"}" && echo PD >state && row s "queued|120/600|" &&
    test_must_fail mds_launch continue s 2>err && grep "error: s is queued" err &&
    test_must_fail mds_launch continue d 2>err && grep "error: d is done" err &&
    test_must_fail mds_launch continue nothing 2>err && grep "error: runs/nothing: no such run" err
'
test_expect_success 'cancel: what waits is cancelled at once; what runs is told by an event' '
    mds_launch cancel s && grep "^1$" cancelled.log && ! grep "cancelled" runs/s/events.jsonl &&
    rm cancelled.log && echo R >state && run_dir s slurm "$submitted" "$launched" "$started" && mds_launch cancel runs/s >out && cat out &&
    test ! -e cancelled.log && tail -n 1 runs/s/events.jsonl | grep "\"event\":\"cancelled\"}" && row s "leaving|"
'
test_expect_success 'a name that is not ASCII keeps the columns in line' '
    run_dir "gén-µ" none "$launched" && mds_launch status >table && cat table && awk "/^(f|gén-µ) / { gsub(/é|µ/, \"x\"); print match(\$0, /(starting|silent|queued) /) }" table |
        LC_ALL=C sort -u >got && test "$(wc -l <got)" -eq 1
'
test_expect_success 'what a terminal would act on is printed as a question mark' '
    odd=$(printf "odd\033[31m\tname") && run_dir "$odd" slurm "$started" && mds_launch status >table && cat -v table &&
    grep "^odd?.31m?name  *silent\|^odd?.31m?name  *running" table && ! grep "$(printf "\033")" table && rm -r "runs/$odd"
'
test_expect_success 'status --watch goes on' '
    { mds_launch status --watch >watched & } && pid=$! && sleep 3 && kill $pid && test "$(grep -c "^run " watched)" -ge 2
'
test_expect_success 'a folder without runs' '
    mkdir empty && test_must_fail mds_launch status empty 2>err && grep "error: status: empty has no run" err &&
    test_must_fail mds_launch status gone 2>err && grep "gone is not a folder of runs" err
'

test_expect_success 'a run comes before those whose names go on from its own' '
    for name in x x-2; do mkdir -p order/$name && echo "name: $name" >order/$name/run.yaml || return 1; done &&
    mds_launch status order >got && cat got && sed -n "2,\$s/ .*//p" got >names && printf "x\nx-2\n" >want && test_cmp want names
'
test_done
