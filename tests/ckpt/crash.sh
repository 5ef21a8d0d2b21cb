#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank is killed at some moment of a run that saves after every step: what is there then
# is the state after some step, whole, and the run goes on from it as if never stopped.
# Every other time it saves in the background.
#
# CRASH_ROUNDS: how often (20).  CRASH_SEED: which moments.
# shellcheck source=tests/ckpt/run.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/ckpt/run.sh"
rounds=${CRASH_ROUNDS:-20}
seed=${CRASH_SEED:-$(date +%s)}
echo "# CRASH_SEED=$seed"

words='--tensor-model-parallel-size 2 --zero-stage 1 --lr-decay-style constant'

# Which of four ranks, and after how many milliseconds: "RANK SECONDS" of each round.
awk -v n="$rounds" -v seed="$seed" 'BEGIN { srand(seed)
    for (i = 0; i < n; i++) printf "%d %.3f\n", int(4 * rand()), 0.6 * rand() }' > moments

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

# One step more, by one rank, from what is there.
one_step() {
    pretrain 1 --lr-decay-style constant --train-iters 100000000 --exit-interval 1 \
        --load ck --metrics-jsonl "step-$1.jsonl" &&
        [ "$(losses "step-$1.jsonl" | wc -l)" -eq 1 ]
}

round=0
while read -r rank after; do
    round=$((round + 1))
    : > log
    how=
    [ $((round % 2)) -eq 0 ] || how=--async-save
    # shellcheck disable=SC2086  # a word or none
    start $how && kill_rank "$rank" "$after" && mds_ckpt verify ck > log 2>&1 &&
        one_step $round
    tap_line $? "rank $rank killed after $after s $how, on from step $(losses step-$round.jsonl |
        cut -d ' ' -f 1) (left: $(find ck -name '*.partial' | wc -l) partial)"
done < moments
[ "$(find ck -name 'iter_???????' | wc -l)" -le 3 ]
tap_line $? "no more checkpoints than asked for: $(find ck -name 'iter_*' | wc -l)"

# As many steps as the rounds have got to, which depends on the machine.
cat step-*.jsonl > steps.jsonl
last=$(losses steps.jsonl | cut -d ' ' -f 1 | sort -n | tail -n 1)
pretrain 1 --lr-decay-style constant --train-iters "$last" --metrics-jsonl all.jsonl &&
    near 1e-5 all.jsonl steps.jsonl > figures
tap_line $? "after each kill the step of a run of $last that never stopped: $(cat figures)"
finish
