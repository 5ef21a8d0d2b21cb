#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034,SC2086  # test bodies are evaluated by sharness, variables too; lists of words
test_description='--events: what happens to a run, for other programs'
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/cli/setup.sh"

mds_data make --tokenizer codon --output t.h5 "$srcdir/tests/data/lambda.fna.gz"
small='--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --global-batch-size 4 --lr 1e-3
    --threads 1 --data-path t.h5 --log-interval 1000'

# run OPTIONS...: on two ranks
run() {
    timeout 60 $MPIEXEC -n 2 mds_pretrain $small --events ev.jsonl "$@" >out 2>&1 </dev/null
    status=$?
    cat out
    return $status
}
# start OPTIONS...: the same in the background, until it trains; the ranks' process ids are in pid.0 and pid.1
start() {
    rm -rf ev.jsonl ck pid.*
    timeout 60 $MPIEXEC -n 2 sh -c 'echo $$ >pid.${PMI_RANK:-$OMPI_COMM_WORLD_RANK} && exec mds_pretrain "$@"' sh \
        $small --train-iters 100000000 --events ev.jsonl "$@" >out 2>&1 </dev/null &
    run=$!
    until grep -q '"data"' ev.jsonl 2>/dev/null; do
        kill -0 $run || return 1
        sleep 0.1
    done
    sleep 0.5
}
# names: the events, in order
names() {
    sed -n 's/.*"event":"\([a-z_]*\)".*/\1/p' ev.jsonl
}
# has EVENT PATTERN...: there is one such event, with each of these
has() {
    grep "\"event\":\"$1\"," ev.jsonl >one && test "$(wc -l <one)" -eq 1 || return 1
    shift
    for pattern; do
        grep -e "$pattern" one || { cat one && return 1; }
    done
}

test_expect_success 'a run from start to end' '
    run --split 8,1,1 --train-iters 20 --eval-interval 10 --eval-iters 2 --save ck --save-interval 15 --metrics-jsonl m.jsonl &&
    names >got && cat ev.jsonl && printf "%s\n" started data evaluating evaluated saved saved evaluating evaluated evaluating \
        evaluated finished >want && test_cmp want got &&
    has started "\"v\":1,\"time\":[0-9]*\.[0-9]*," "\"layout\":\"pipeline 1 x data 2 " "\"ranks\":2,\"nodes\":1,\"hosts\":\"[^,\"]*\"" \
        "\"last_iteration\":20," "\"metrics\":\"m.jsonl\",\"save\":\"ck\"" &&
    has data "\"training_windows\":404,\"validation_windows\":50,\"test_windows\":50,\"read_windows\":80,\"epochs\":0.198" &&
    grep "\"evaluating\",\"iteration\":10,\"split\":\"validation\",\"windows\":8,\"expected_s\":[0-9]" ev.jsonl &&
    grep "\"evaluated\",\"iteration\":20,\"split\":\"test\",\"loss\":[0-9]" ev.jsonl &&
    grep "\"saved\",\"iteration\":15,\"path\":\"ck/iter_0000015\",\"bytes\":[1-9]" ev.jsonl &&
    has finished "\"reason\":\"iterations\",\"status\":0,\"saved\":20," "\"validation_loss\":[0-9.]*,\"test_loss\":[0-9.]*}"
'
if command -v python3 >/dev/null; then
    test_set_prereq PYTHON
fi
test_expect_success PYTHON 'each line is JSON' '
    python3 -c "import json, sys; [json.loads(line) for line in open(\"ev.jsonl\", \"rb\")]"
'
test_expect_success 'a run that goes on adds its events' '
    cp ev.jsonl before && run --train-iters 25 --save ck --load ck --eval-iters 0 && head -n "$(wc -l <before)" ev.jsonl >got &&
    test_cmp before got && grep "\"started\",\"iteration\":20,.*\"load\":\"ck\"" ev.jsonl
'
test_expect_success 'out of time: walltime, the checkpoint, and status 85' '
    rm -rf ev.jsonl ck && test_expect_code 85 run --train-iters 100000000 --eval-iters 0 --exit-duration-in-mins 1s --save ck &&
    names >got && printf "%s\n" started data walltime saved finished >want && test_cmp want got &&
    has started "\"leaves_after_s\":1," && has walltime "\"reason\":\"duration\"" && has finished "\"status\":85,"
'
test_expect_success 'a signal: the same, with its number' '
    start --exit-signal-handler --save ck && kill -USR1 $(cat pid.1) && { wait $run; has walltime "\"reason\":\"signal\",\"signal\":10}"; } &&
    has finished "\"status\":85,"
'
test_expect_success 'a rank that is killed: which, where, and what it did last' '
    start && kill -KILL "$(cat pid.1)" && test_must_fail wait $run && cat ev.jsonl &&
    grep -v "\"rank\":0,.*\"signal\":6," ev.jsonl >causes && mv causes ev.jsonl && # it may have ended first, of the other
    has rank_lost "\"rank\":1,\"host\":\"..*\",\"cause\":\"signal\",\"signal\":9,\"out_of_memory\":0" \
        "\"reason\":\"was killed by signal 9 (Killed)\"" "\"last_call\":\"[a-z].* at src/"
'
test_expect_success 'a silent rank is lost, too' '
    start --distributed-timeout-minutes 0.03 && kill -STOP "$(cat pid.1)" && test_must_fail wait $run && cat ev.jsonl &&
    has rank_lost "\"rank\":1,.*\"cause\":\"silent\",\"reason\":\"has been silent for 1.8 s\"" && has failed "\"status\":75}"
'
test_expect_success 'a run that fails: why, and with which status' '
    rm -f ev.jsonl && test_expect_code 1 run --train-iters 5 --data-path gone.h5 && names >got && echo failed >want &&
    test_cmp want got && has failed "\"rank\":0,\"host\":\"..*\",\"reason\":\"gone.h5: No such file" "\"status\":1}"
'
test_expect_success 'so does one rank whose configuration is wrong' '
    rm -f ev.jsonl && test_expect_code 1 mds_pretrain $small --train-iters 0 --events ev.jsonl &&
    has failed "\"reason\":\"[^\"]*--train-iters" "\"status\":1}"
'
test_expect_success 'a fault that --preflight finds' '
    rm -f ev.jsonl && test_must_fail run --train-iters 5 --preflight --save /proc/ck &&
    grep "\"unfit\",\"rank\":0,.*\"group\":0,\"reason\":\"--save: /proc/ck" ev.jsonl
'
test_expect_success 'a file that cannot be written is an error at the start' '
    test_expect_code 1 run --train-iters 5 --events none/ev.jsonl && grep "error: none/ev.jsonl: cannot be written: No such file" out
'

test_done
