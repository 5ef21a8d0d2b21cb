#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What one layout saved, another goes on from, with the losses of a run that never stopped.
#
#     reshard.sh        each layout by itself, by one other, and by one rank; and where
#                       mds_ckpt has written it anew for the other
#     reshard.sh all    each by each
# shellcheck source=tests/ckpt/run.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/ckpt/run.sh"

cat > layouts << 'END'
one 1
tp2-pp2 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
dp4-z3 4 --zero-stage 3
u2-dp2-z1 4 --ds-sequence-parallel-size 2 --zero-stage 1
tp2-sp-dp2-z2 4 --tensor-model-parallel-size 2 --sequence-parallel --zero-stage 2
ring2-nvme 2 --context-parallel-size 2 --zero-stage 1 --offload-device nvme --nvme-path .
pp2i-dp2 4 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 1
tp4-cpu 4 --tensor-model-parallel-size 4 --cpu-optimizer
END

# The words of a layout, ranks first.
words_of() {
    sed -n "s/^$1 //p" layouts
}

# go_on LIMIT REFERENCE FROM LAYOUT
go_on() {
    # shellcheck disable=SC2046  # words
    pretrain $(words_of "$4") --train-iters 8 --load "save-$3" --metrics-jsonl go.jsonl &&
        near "$1" "$2" go.jsonl > figures
    tap_line $? "$3 -> $4: $(cat figures)"
    echo > figures
}

# rewritten FROM LAYOUT: the same by mds_ckpt reshard first, to the same bits as without
rewritten() {
    rm -rf made
    # shellcheck disable=SC2046  # words
    set -- "$1" "$2" $(words_of "$2")
    from=$1 to=$2 world=$3
    shift 3
    mv go.jsonl straight.jsonl
    mds_ckpt reshard "save-$from" made --world-size "$world" "$@" > log 2>&1 &&
        mds_ckpt verify made >> log 2>&1 && mds_ckpt diff "save-$from" made >> log 2>&1 &&
        test "$(find made -name 'rank_*' | wc -l)" -eq "$world" &&
        pretrain "$world" "$@" --train-iters 8 --load made --metrics-jsonl go.jsonl &&
        near 0 straight.jsonl go.jsonl > figures
    tap_line $? "$from -> made anew for $to: $(cat figures)"
    echo > figures
}

# The uninterrupted run of each, and one that stops half-way.
while read -r name words; do
    # shellcheck disable=SC2086
    pretrain $words --train-iters 8 --metrics-jsonl "$name.jsonl" &&
        near 1e-5 one.jsonl "$name.jsonl" > figures
    tap_line $? "$name like one rank: $(cat figures)"
    # shellcheck disable=SC2086
    pretrain $words --train-iters 8 --exit-interval 4 --save "save-$name"
    [ $? -eq 85 ]
    tap_line $? "$name stops with status 85"
done < layouts

other=tp4-cpu
while read -r name words; do
    go_on 0 "$name.jsonl" "$name" "$name"
    while read -r to words; do
        [ "$to" != "$name" ] || continue
        [ "$1" = all ] || [ "$to" = "$other" ] || [ "$to" = one ] || continue
        go_on 1e-5 one.jsonl "$name" "$to"
        [ "$to" = one ] || rewritten "$name" "$to"
    done < layouts
    other=$name
done < layouts

# 16 bits: the same layout, the same bits, loss scale included; another, almost.
for type in bf16 fp16; do
    z2="4 --zero-stage 2 --tensor-model-parallel-size 2 --$type --initial-loss-scale 65536
        --loss-scale-window 3"
    # shellcheck disable=SC2086
    {
        pretrain $z2 --train-iters 8 --metrics-jsonl $type.jsonl
        pretrain $z2 --train-iters 8 --exit-interval 4 --save save-$type
        pretrain $z2 --train-iters 8 --load save-$type --metrics-jsonl go.jsonl &&
            near 0 $type.jsonl go.jsonl > figures
        tap_line $? "$type: $(cat figures)"
        pretrain 2 --zero-stage 3 --$type --initial-loss-scale 65536 --train-iters 8 \
            --load save-$type --metrics-jsonl go.jsonl && near 5e-3 $type.jsonl go.jsonl > figures
        tap_line $? "$type -> another layout: $(cat figures)"
        pretrain 1 --train-iters 8 --load save-$type --metrics-jsonl go.jsonl &&
            near 2e-2 $type.jsonl go.jsonl > figures
        tap_line $? "$type -> fp32: $(cat figures)"
    }
done

# fp16 that stops between overflows: the same bits by the same layout, also by way of
# mds_ckpt; by another, almost.
over="--zero-stage 2 --tensor-model-parallel-size 2 --fp16 --train-iters 20"
# shellcheck disable=SC2086
{
    pretrain 4 $over --metrics-jsonl over.jsonl
    [ "$(grep -c '"skipped":1' over.jsonl)" -ge 11 ] && pretrain 4 $over --exit-interval 10 --save save-over
    [ $? -eq 85 ] && mds_ckpt verify save-over > log 2>&1
    tap_line $? "fp16 stops between overflows with status 85"
    pretrain 4 $over --load save-over --metrics-jsonl go.jsonl && near 0 over.jsonl go.jsonl > figures
    tap_line $? "fp16 with overflows: $(cat figures)"
    pretrain 2 --zero-stage 3 --fp16 --train-iters 20 --load save-over --metrics-jsonl go.jsonl &&
        near 5e-3 over.jsonl go.jsonl > figures
    tap_line $? "fp16 with overflows -> another layout: $(cat figures)"
    mv go.jsonl straight.jsonl
    rm -rf made
    mds_ckpt reshard save-over made --world-size 2 --zero-stage 3 > log 2>&1 &&
        mds_ckpt verify made >> log 2>&1 &&
        pretrain 2 --zero-stage 3 --fp16 --train-iters 20 --load made --metrics-jsonl go.jsonl &&
        near 0 straight.jsonl go.jsonl > figures
    tap_line $? "fp16 with overflows -> made anew for another layout: $(cat figures)"
}

# From one 16-bit type to the other: as that one goes on, almost.
for pair in bf16,fp16 fp16,bf16; do
    to=${pair#*,}
    pretrain 1 --"$to" --initial-loss-scale 65536 --train-iters 8 --load "save-${pair%,*}" \
        --metrics-jsonl go.jsonl && near 2e-2 "$to.jsonl" go.jsonl > figures
    tap_line $? "${pair%,*} -> $to: $(cat figures)"
done

# Eight ranks cut in every way, and what has nothing in common with that.
pretrain 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --zero-stage 3 \
    --train-iters 8 --exit-interval 4 --save save-tp2-pp2-dp2-z3
[ $? -eq 85 ]
tap_line $? "tp2-pp2-dp2-z3 stops with status 85"
for to in "8 --zero-stage 1" "4 --ds-sequence-parallel-size 4" 1; do
    # shellcheck disable=SC2086  # words, ranks first
    pretrain $to --train-iters 8 --load save-tp2-pp2-dp2-z3 --metrics-jsonl go.jsonl &&
        near 1e-5 one.jsonl go.jsonl > figures
    tap_line $? "tp2-pp2-dp2-z3 -> $to: $(cat figures)"
    echo > figures
done

# What would pass if moments did not matter proves nothing.
pretrain 1 --train-iters 8 --load save-one --no-load-optim --metrics-jsonl go.jsonl &&
    ! near 1e-5 one.jsonl go.jsonl > figures
tap_line $? "without moments other losses: $(cat figures)"

# Experts of any number of ranks, also by way of mds_ckpt: two or one of the four on each.
model="$model --disable-bias-linear --num-experts 4 --moe-ffn-hidden-size 48
    --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.1
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-bias-update-rate 0.02"
ep2="4 --expert-model-parallel-size 2 --zero-stage 1"
ep4="4 --expert-model-parallel-size 4"
tp2="2 --tensor-model-parallel-size 2 --sequence-parallel"
pretrain 1 --train-iters 8 --metrics-jsonl experts.jsonl
along="2 --context-parallel-size 2 --expert-model-parallel-size 2 --zero-stage 3"
both="4 --ds-sequence-parallel-size 2 --expert-model-parallel-size 4 --zero-stage 1"
for from in ep2 ep4 both; do
    eval words=\$$from
    # shellcheck disable=SC2154,SC2086  # words is set; ranks first
    {
        pretrain $words --train-iters 8 --metrics-jsonl "$from.jsonl"
        pretrain $words --train-iters 8 --exit-interval 4 --save "save-$from"
        [ $? -eq 85 ]
        tap_line $? "$from stops with status 85"
        pretrain $words --train-iters 8 --load "save-$from" --metrics-jsonl go.jsonl &&
            near 0 "$from.jsonl" go.jsonl > figures
        tap_line $? "$from -> $from: $(cat figures)"
    }
    for to in 1 "$ep2" "$ep4" "$tp2" "$along" "$both"; do
        # shellcheck disable=SC2086  # words, ranks first
        pretrain $to --train-iters 8 --load "save-$from" --metrics-jsonl go.jsonl &&
            near 1e-5 experts.jsonl go.jsonl > figures
        tap_line $? "$from -> $to: $(cat figures)"
        echo > figures
    done
done
rm -rf made
# shellcheck disable=SC2086  # words
pretrain $tp2 --train-iters 8 --load save-ep4 --metrics-jsonl straight.jsonl
# shellcheck disable=SC2086
mds_ckpt reshard save-ep4 made --world-size 4 --expert-model-parallel-size 2 --zero-stage 3 > log 2>&1 &&
    mds_ckpt verify made >> log 2>&1 && mds_ckpt diff save-ep4 made >> log 2>&1 &&
    test "$(find made -name 'rank_*' | wc -l)" -eq 4 &&
    pretrain $tp2 --train-iters 8 --load made --metrics-jsonl go.jsonl &&
    near 0 straight.jsonl go.jsonl > figures
tap_line $? "ep4 -> made anew for ep2: $(cat figures)"
echo > figures
rm -rf made
# shellcheck disable=SC2086
mds_ckpt reshard save-both made --world-size 4 --context-parallel-size 4 --expert-model-parallel-size 2 --zero-stage 3 > log 2>&1 &&
    mds_ckpt verify made >> log 2>&1 && mds_ckpt diff save-both made >> log 2>&1 &&
    pretrain $along --train-iters 8 --load made --metrics-jsonl go.jsonl &&
    near 1e-5 experts.jsonl go.jsonl > figures
tap_line $? "both -> made anew for a part of a ring: $(cat figures)"
echo > figures
mds_ckpt info made > log && grep -q '^biases of experts: -0.0[0-9]* to 0.0[0-9]*$' log &&
    mds_ckpt diff --tolerance 1e-3 save-ep2 save-ep4 > log 2>&1
tap_line $? "biases of experts are saved, and the same in each layout"
pretrain 1 --train-iters 8 --load save-ep4 --moe-router-bias-update-rate 0 --save still > log 2>&1 &&
    mds_ckpt diff --weights save-ep4 still > log 2>&1
grep -q 'weight' log && ! grep biases log
tap_line $? "--moe-router-bias-update-rate 0 leaves them as they are"
pretrain 1 --train-iters 8 --load save-ep4 --save moved > log 2>&1
mds_ckpt merge save-ep4 moved mean > log 2>&1 && ! mds_ckpt diff --weights mean moved > figures &&
    one=$(sed -n 's/^biases of experts: .* largest //p' figures) &&
    ! mds_ckpt diff --weights save-ep4 moved > figures &&
    two=$(sed -n 's/^biases of experts: .* largest //p' figures) &&
    awk -v one="$one" -v two="$two" 'BEGIN { exit !(one > 0.005 && two > 1.99 * one && two < 2.01 * one) }'
tap_line $? "merge takes the mean of them: $one, $two"
# The same weights without biases choose other experts.
gunzip -c "$srcdir/tests/data/lambda.fna.gz" | sed -n '1s/.*/>a/p; 2p' > a.fa
score() {
    # shellcheck disable=SC2086
    timeout 60 $MPIEXEC -n "$1" mds_infer score --load "$2" a.fa --threads 1 --tensor-model-parallel-size "$1" \
        2> log < /dev/null | awk 'NR == 2 { print $5 }'
}
pretrain 1 --train-iters 1 --load moved --finetune --lr 0 --override-model-config \
    --moe-router-enable-expert-bias=0 --save without
with=$(score 1 moved) cut=$(score 2 moved) without=$(score 1 without)
awk -v a="$with" -v b="$cut" -v c="$without" 'BEGIN {
    exit !(a < 0 && (a - b) ^ 2 < 1e-12 && (a - c) ^ 2 > 1e-12) }'
tap_line $? "mds_infer chooses with them: $with, on 2 ranks $cut, without $without"
finish
