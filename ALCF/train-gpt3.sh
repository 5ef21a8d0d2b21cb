#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Pre-train a GPT, as the scripts of argonne-lcf/Megatron-DeepSpeed do:
#
#     MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 ZERO_STAGE=1 ALCF/train-gpt3.sh
#
# Every variable of those scripts counts; what is not set here is as it is there, but that the
# learning rate decays over this run, and DTYPE is that of the machine's profile.  Options go to
# mds_launch, and behind -- to mds_pretrain: ALCF/train-gpt3.sh --print -- --lr 1e-4
# mds_launch chooses the layout, the fastest that fits, unless SP_TYPE or a size (TP, PP, SP,
# MPSIZE, ...) is set: then all else is as there (all other GPUs tensor-parallel, the optimizer on
# the host, full recompute), and a line says how much faster a plan would be.
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
if [ ! -r "$here/setup.sh" ]; then # qsub and sbatch run a copy: they know of what
    cd "${PBS_O_WORKDIR:-${SLURM_SUBMIT_DIR:-.}}" || exit
    name=train-gpt3.sh
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

tell_type "the machine profile's, bf16 or on V100 fp16 (there fp16)" "$@"
[ -n "$MODEL_ARCH" ] || : "${MODEL_SIZE_KEY:=GPT13B}"
: "${TRAIN_ITERS:=${TRAIN_ITER:-10}}"
if [ -z "$SEQ_LEN$SEQ" ]; then
    SEQ_LEN=2048
    export SEQ_LEN
fi
unset TRAIN_ITER
[ -z "$TRAIN_TOKENS$MDS_TRAIN_SAMPLES" ] || unset TRAIN_ITERS
: "${MDS_LR_DECAY_STYLE:=${LR_DECAY_STYLE:-cosine}}"
[ -n "$LR" ] || : "${MDS_MIN_LR:=${MIN_LR:-1e-5}}"
: "${MDS_LR_WARMUP_FRACTION:=${LR_WARMUP_FRAC:-0.01}}" "${MDS_LOG_INTERVAL:=${LOG_INTERVAL:-1}}"
if [ -z "$EVAL_INTERVAL$MDS_EVAL_INTERVAL" ]; then
    : "${MDS_EVAL_ITERS:=${EVAL_ITERS:-0}}"
    export MDS_EVAL_ITERS
fi

# sizes_in FILE: what a file of settings says of the layout
sizes_in() {
    sed 's/#.*//' "$1" 2> /dev/null | tr '{,"' '\n' |
        grep -E '^ *(tensor|pipeline|ulysses|ring|sp_type)(:| *$)'
}

given=$SP_TYPE$TP$MPSIZE$PP$PPSIZE$SP$SPSIZE$MDS_CONTEXT_PARALLEL_SIZE
[ -z "$MDS_CONFIG" ] || given=$given$(sizes_in "$MDS_CONFIG")
previous=
for word; do
    case $previous$word in
    --layoutplan | --layout=plan) given='' && break ;;
    --layoutgiven | --layout=given) given=1 ;;
    --sp-type* | --*-parallel-size*) given=1 ;;
    --config=*) given=$given$(sizes_in "${word#*=}") ;;
    --config?*) given=$given$(sizes_in "$word") ;;
    esac
    previous=
    case $word in
    --layout | --config) previous=$word ;;
    esac
done
if [ -n "$given" ]; then
    : "${SP_TYPE:=megatron}" "${OFFLOAD_DEVICE:=cpu}" "${USE_ACTIVATION_CHECKPOINTING:=1}"
fi
export MODEL_SIZE_KEY TRAIN_ITERS
[ -z "$given" ] || export SP_TYPE OFFLOAD_DEVICE USE_ACTIVATION_CHECKPOINTING
[ -z "$MDS_MIN_LR" ] || export MDS_MIN_LR
export MDS_LR_DECAY_STYLE MDS_LR_WARMUP_FRACTION MDS_LOG_INTERVAL
[ -n "$TRAIN_ITERS" ] || unset TRAIN_ITERS

exec "$launch" "$@"
