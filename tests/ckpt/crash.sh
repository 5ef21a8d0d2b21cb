#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank is killed at some moment of a run that saves after every step: what is there then
# is the state after some step, whole, and the run goes on from it as if never stopped.
# Every other time it saves in the background.  In fp32, then in fp16, whose first steps
# overflow.
#
# CRASH_ROUNDS: how often in fp32 (20); in fp16 a third of that.  CRASH_SEED: which moments.
# shellcheck source=tests/ckpt/run.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/ckpt/run.sh"
rounds=${CRASH_ROUNDS:-20}
seed=${CRASH_SEED:-$(date +%s)}
echo "# CRASH_SEED=$seed"

# choose_moments ROUNDS: which of four ranks, and after how many milliseconds: "RANK SECONDS"
choose_moments() {
    awk -v n="$1" -v seed="$seed" 'BEGIN { srand(seed)
        for (i = 0; i < n; i++) printf "%d %.3f\n", int(4 * rand()), 0.6 * rand() }'
}

# start OPTIONS...: four ranks that leave their process ids in pids/
start() {
    rm -rf pids status && mkdir pids || return 1
    {
        # shellcheck disable=SC2086
        timeout -k 5 60 $MPIEXEC -n 4 sh -c 'echo >pids/$$ && exec mds_pretrain "$@"' sh \
            $model $words --train-iters 100000000 --save ck --load ck --save-interval 1 \
            --keep-last 2 "$@" < /dev/null > log 2>&1
        echo $? > status
    } &
    # until it has loaded, and saves
    until grep -q "info: saved" log 2> /dev/null; do
        [ ! -e status ] || return 1
        sleep 0.02
    done
}

# kill_rank N SECONDS
kill_rank() {
    sleep "$2"
    # shellcheck disable=SC2046
    set -- "$1" $(ls pids)
    shift $(($1 + 1))
    kill -KILL "$1"
    wait
    [ "$(cat status)" -ne 0 ]
}

# one_step STEPS_FILE: one step more, by one rank, from what is there; it saves nothing.
one_step() {
    # shellcheck disable=SC2086
    pretrain 1 $words --tensor-model-parallel-size 1 --train-iters 100000000 --exit-interval 1 \
        --load ck --metrics-jsonl "$1"
    [ $? -eq 1 ] && [ "$(losses "$1" | wc -l)" -eq 1 ]
}

# crash_round TYPE RANK SECONDS
crash_round() {
    round=$((round + 1))
    : > log
    how=
    [ $((round % 2)) -eq 0 ] || how=--async-save
    # shellcheck disable=SC2086  # a word or none
    start $how && kill_rank "$2" "$3" && mds_ckpt verify ck > log 2>&1 &&
        one_step "step-$1-$round.jsonl"
    tap_line $? "$1: rank $2 killed after $3 s $how, on from step $(losses "step-$1-$round.jsonl" |
        cut -d ' ' -f 1) (left: $(find ck -name '*.partial' | wc -l) partial)"
}

# series TYPE ROUNDS LIMIT
series() {
    words="--tensor-model-parallel-size 2 --zero-stage 1 --lr-decay-style constant --dtype $1
        --initial-loss-scale 16777216"
    round=0
    rm -rf ck
    choose_moments "$2" > moments
    while read -r rank after; do
        crash_round "$1" "$rank" "$after"
    done < moments
    [ "$(find ck -name 'iter_???????' | wc -l)" -le 3 ]
    tap_line $? "$1: no more checkpoints than asked for: $(find ck -name 'iter_*' | wc -l)"

    # As many steps as the rounds have got to, which depends on the machine.
    cat "step-$1"-*.jsonl > steps.jsonl
    last=$(losses steps.jsonl | cut -d ' ' -f 1 | sort -n | tail -n 1)
    # shellcheck disable=SC2086
    pretrain 1 $words --tensor-model-parallel-size 1 --train-iters "$last" --metrics-jsonl "all-$1.jsonl" &&
        near "$3" "all-$1.jsonl" steps.jsonl > figures
    tap_line $? "$1: after each kill the step of a run of $last that never stopped: $(cat figures)"
}

series fp32 "$rounds" 1e-5
series fp16 $(((rounds + 2) / 3)) 5e-3
grep -q '"skipped":1' all-fp16.jsonl && grep -q '"skipped":0' all-fp16.jsonl
tap_line $? "fp16: some steps overflowed, others did not"
finish
