#!/bin/bash -l
# flux: --job-name=GPT33B-512000-4n
# flux: --queue=batch
# flux: --bank=GenomeLM
# flux: --time-limit=43200s
# flux: --nodes=4
# flux: --output=runs/GPT33B-512000-4n/job-{{id}}.log
# Written by mds_launch submit for h200.  Started again, it goes on from the newest checkpoint.
PATH=/soft/mds/bin:$PATH
run=runs/GPT33B-512000-4n
checkpoints=runs/GPT33B-512000-4n/checkpoints
[ ! -e "$run/done" ] || exit 0
before=$(cat "$checkpoints/latest" 2> /dev/null)
timeout --foreground --preserve-status --signal=USR1 42000 mds_launch \
    --machine h200-flux.yaml \
    --nodes 4 \
    --ranks-per-node 8 \
    --ranks 32 \
    --exclude-file runs/GPT33B-512000-4n/exclude \
    --max-restarts 10 \
    -- \
    --device cuda \
    --model-size-key GPT33B \
    --num-layers 80 \
    --hidden-size 6144 \
    --num-attention-heads 64 \
    --seq-length 512000 \
    --tensor-model-parallel-size 4 \
    --pipeline-model-parallel-size 1 \
    --ds-sequence-parallel-size 1 \
    --context-parallel-size 1 \
    --sequence-parallel \
    --zero-stage 1 \
    --min-lr 1e-05 \
    --lr-decay-style cosine \
    --lr-warmup-fraction 0.01 \
    --train-iters 1000 \
    --eval-iters 0 \
    --dtype bf16 \
    --activation-memory inputs=10 \
    --recompute-granularity selective \
    --cpu-checkpointing \
    --sequence-tile 4096 \
    --loss-tile 4096 \
    --data-path genomes.h5 \
    --log-interval 1 \
    --metrics-jsonl runs/GPT33B-512000-4n/metrics.jsonl \
    --events runs/GPT33B-512000-4n/events.jsonl \
    --save runs/GPT33B-512000-4n/checkpoints \
    --load runs/GPT33B-512000-4n/checkpoints \
    --save-interval 2 \
    --keep-last 3 \
    --exit-duration-in-mins 700 &
pid=$!
[ -z "$WANDB_PROJECT$MLFLOW_TRACKING_URI" ] ||
    mds_track --follow $pid "$run" >> "$run/track.log" 2>&1 &
warned=
# the ranks save, and leave with status 85
trap 'woken=1; [ -n "$warned" ] || kill -USR1 $pid; warned=1' USR1
trap 'stopped=1; kill -USR1 $$' TERM
woken=1
while [ -n "$woken" ]; do # a signal ends the wait, not the run
    woken=
    wait $pid
    status=$?
done
wait # for mds_track
# 85: out of time; 86: preempted or cancelled
[ -z "$stopped" ] || [ "$status" -ne 85 ] || status=86
[ "$status" -ne 86 ] || stopped=1
if [ "$status" -eq 0 ]; then
    touch "$run/done"
    exit 0
fi
FLUX_URI=$(flux getattr parent-uri) && export FLUX_URI
excluded=
if [ -s "$run/exclude" ]; then # nodes that the run has lost
    excluded=$(sed 's/#.*//' "$run/exclude" | tr -s ' \t' '\n' | sed 's/,*$//; /^$/d' | sort -u | paste -sd, -)
fi
if [ "$(cat "$checkpoints/latest" 2> /dev/null)" != "$before" ] && [ -z "$stopped" ] && [ "$status" -ne 1 ]; then
    { [ -n "$excluded" ] && flux batch --requires=-hosts:"$excluded" "$run/job.sh"; } ||
        flux batch "$run/job.sh"
fi
exit "$status"
