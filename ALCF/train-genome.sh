#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Train on a whole genome as one sequence of codons, with a GenSLM-250M-like model whose heads
# have 128 elements:
#
#     ALCF/train-genome.sh NC_008253.fna.gz [mds_launch's options] [-- mds_pretrain's options]
#
# NC_008253 is E. coli 536, 1.65 million codons; any FASTA file will do.  All GPUs share the
# sequence (Ulysses).  FOLDER (genome) gets tokens.h5, checkpoints, steps.jsonl and loss.svg.
# The command goes on where the one before it ended; where a job is shorter than the run, say
# how long with MINUTES, and start it again while its status is 85.
#
# What a token costs is in docs/long-sequences.md.  On a single H200 the inputs of blocks wait
# on the host:
#
#     MDS_RECOMPUTE_GRANULARITY=full MDS_CPU_CHECKPOINTING=1 MDS_ACTIVATION_MEMORY=attention=20
#
# Several jobs:
#
#     TRAIN_ITERS=5 MINUTES=9 ALCF/train-genome.sh genome.fna.gz; [ $? -eq 85 ] && ...
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
if [ ! -r "$here/setup.sh" ]; then # qsub and sbatch run a copy: they know of what
    cd "${PBS_O_WORKDIR:-${SLURM_SUBMIT_DIR:-.}}" || exit
    name=train-genome.sh
    if [ -n "$SLURM_JOB_ID" ]; then
        job=$(scontrol show job "$SLURM_JOB_ID" 2> /dev/null)
    else # in lines of 80 columns
        job=$(qstat -f "$PBS_JOBID" 2> /dev/null | awk '{ printf /^\t/ ? "%s" : "\n%s", $0 }' | tr -d '\t')
    fi
    file=$(printf '%s\n' "$job" |
        sed -nE "s:.*(Command=|Submit_arguments = )(.* )?([^ ]*$name)( .*)?$:\3:p")
    for file in "$file" "ALCF/$name" "$(PATH=$PATH:$PBS_O_PATH command -v "$name")"; do
        here=$(CDPATH='' cd "$(dirname "$file")" && pwd)
        [ ! -r "$here/setup.sh" ] || break
    done
    if [ ! -r "$here/setup.sh" ]; then
        echo "$name: this copy cannot tell where ALCF/ is: submit it from the folder above" \
            "that, or put ALCF/ into PATH (module load mds)" >&2
        exit 1
    fi
fi
# shellcheck source=ALCF/setup.sh
. "$here/setup.sh"

fasta=$1
case $fasta in
'' | -*)
    echo "usage: $0 GENOME.fna[.gz] [mds_launch's options] [-- mds_pretrain's options]" >&2
    exit 2
    ;;
esac
shift
: "${FOLDER:=genome}" "${MINUTES:=0}"
tokens=$FOLDER/tokens.h5
steps=$FOLDER/steps.jsonl

mkdir -p "$FOLDER" || exit
# shellcheck disable=SC2154  # set by setup.sh
PATH=$(dirname "$launch"):$here/../scripts:$PATH
[ -f "$tokens" ] || mds_data make --tokenizer codon --output "$tokens" "$fasta" || exit
# Tokens, and checkpoints beside them, may be of another genome: then the sums differ.
sum=$(sha256sum < "$fasta") || exit
if ! mds_data info "$tokens" | grep -q "sha256 ${sum%% *}"; then
    echo "$tokens: made of something else than $fasta is now; name another FOLDER" >&2
    exit 1
fi

# The sequence is all of it, but for less than 1024 codons at the end: so all numbers of ranks
# that divide the heads divide the tokens, too.
codons=$(mds_data info "$tokens" | awk '$1 == "tokens" { print $2 }')
SEQ_LEN=$(((codons - 1) / 1024 * 1024))
if [ "$SEQ_LEN" -eq 0 ]; then
    echo "$fasta: ${codons:-no} codons; at least 1025 are needed" >&2
    exit 1
fi

: "${MODEL_SIZE_KEY:=GENSLM_250M}" "${HEADS:=8}" "${SP_TYPE:=ds}" "${ZERO_STAGE:=1}"
: "${DTYPE:=bf16}" "${TRAIN_ITERS:=3}" "${LR:=3e-4}" "${MICRO_BATCH:=1}"
# AdamW's first steps move every weight by the whole rate, and 2e-5 is too much for them: the
# loss rises.  However few steps there are, the rate grows from 1.5e-6 as in a long run.
: "${MDS_LR_WARMUP_ITERS:=200}"
if [ "$TRAIN_ITERS" -le "$MDS_LR_WARMUP_ITERS" ]; then
    : "${MDS_LR_DECAY_ITERS:=$((MDS_LR_WARMUP_ITERS + 1))}"
    export MDS_LR_DECAY_ITERS
fi
: "${MDS_RECOMPUTE_GRANULARITY:=selective}" "${MDS_SEQUENCE_TILE:=8192}"
export SEQ_LEN MODEL_SIZE_KEY HEADS SP_TYPE ZERO_STAGE DTYPE TRAIN_ITERS LR MICRO_BATCH
export MDS_LR_WARMUP_ITERS
export MDS_RECOMPUTE_GRANULARITY MDS_SEQUENCE_TILE

# Each job writes a file of its own.
keep_steps() {
    [ ! -s "$FOLDER/job.jsonl" ] || cat "$FOLDER/job.jsonl" >> "$steps" || return
    rm -f "$FOLDER/job.jsonl"
}

launched=
for word; do
    [ "$word" != -- ] || launched=1
done
[ -n "$launched" ] || set -- "$@" --
keep_steps || exit
"$launch" "$@" --data-path "$tokens" --split 1,0,0 --eval-iters 0 --log-interval 1 \
    --use-rotary-position-embeddings --rotary-base 1e7 --lr-decay-style constant \
    --save "$FOLDER/checkpoints" --load "$FOLDER/checkpoints" --keep-last 2 \
    --exit-duration-in-mins "$MINUTES" --metrics-jsonl "$FOLDER/job.jsonl"
status=$?
keep_steps
[ ! -s "$steps" ] || mds_plot "$steps" "$FOLDER/loss.svg" ||
    echo "$0: no plot of $steps" >&2
exit $status
