#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Pre-train a Llama, as train_llama_alcf.sh of argonne-lcf/Megatron-DeepSpeed does:
#
#     DATA_PATH=corpus.h5 TRAIN_ITERS=1000 ALCF/train-llama.sh
#
# The variables of its ALCF/helpers.sh count.  What is not set is as it is there, but for the
# layout (mds_launch chooses TP, PP, SP and ZERO_STAGE unless one of the first three is set),
# the base of the rotary frequencies (10000; ROPE_THETA), the initial weights (Megatron's) and
# the length (TRAIN_TOKENS, 10e9).  Options go to mds_launch, and behind -- to mds_pretrain.
# As a batch job:
#
#     ALCF/train-llama.sh submit QUEUE NODES WALLTIME PROJECT
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
if [ ! -r "$here/setup.sh" ]; then # qsub and sbatch run a copy: they know of what
    cd "${PBS_O_WORKDIR:-${SLURM_SUBMIT_DIR:-.}}" || exit
    name=train-llama.sh
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

tell_type "bf16 (there fp16 on Polaris, else bf16)" "$@"
[ -z "$MODEL_SIZE_KEY" ] || unset MODEL_ARCH
[ -n "$MODEL_ARCH" ] || : "${MODEL_SIZE_KEY:=LLAMA7B}"
: "${DTYPE:=bf16}" "${LR:=2e-4}"
: "${MDS_LR_DECAY_STYLE:=${LR_DECAY_STYLE:-cosine}}" "${MDS_WEIGHT_DECAY:=${WEIGHT_DECAY:-0.1}}"
: "${MDS_LR_WARMUP_FRACTION:=${LR_WARMUP_FRAC:-0.05}}" "${MDS_ADAM_BETA2:=${ADAM_BETA2:-0.95}}"
: "${MDS_ADAM_EPS:=${ADAM_EPS:-1e-5}}" "${MDS_EVAL_INTERVAL:=${EVAL_INTERVAL:-100}}"
: "${MDS_EVAL_ITERS:=${EVAL_ITERS:-20}}" "${MDS_LOG_INTERVAL:=${LOG_INTERVAL:-1}}"
: "${MDS_SPLIT:=${TRAIN_SPLIT:-990},${VAL_SPLIT:-10},${TEST_SPLIT:-0}}"
# A GPT of the same size.
if [ -n "$NO_LLAMA" ]; then
    MDS_POSITION_EMBEDDING_TYPE=learned_absolute MDS_NORMALIZATION=LayerNorm MDS_SWIGLU=0
    MDS_LINEAR_BIAS=1 MDS_TIED_HEAD=1 NUM_KV_HEAD=0 FFN_HIDDEN_SIZE=0
    export MDS_POSITION_EMBEDDING_TYPE MDS_NORMALIZATION MDS_SWIGLU MDS_LINEAR_BIAS \
        MDS_TIED_HEAD NUM_KV_HEAD FFN_HIDDEN_SIZE
fi
if [ -n "$CKPT_DIR" ]; then
    : "${MDS_SAVE:=${SAVE:-$CKPT_DIR}}" "${MDS_LOAD:=${LOAD:-$CKPT_DIR}}"
    export MDS_SAVE MDS_LOAD
fi
# A list has a weight, a path and the name of a corpus in each line, or a comment.
if [ -z "$DATA_PATH" ] && [ -n "$DATA_FILE_LIST" ]; then
    DATA_PATH=$(awk '!/^[ \t]*#/ && NF > 1 { print $1, $2 }' < "$DATA_FILE_LIST") || exit
    export DATA_PATH
fi
if [ -z "$TRAIN_ITERS$TRAIN_ITER$TRAIN_TOKENS$MDS_TRAIN_SAMPLES" ]; then
    TRAIN_TOKENS=10e9
fi
if [ -z "$GLOBAL_BATCH$GAS$GRAD_ACC_STEPS$GRADIENT_ACCUMULATION_STEPS" ]; then
    GRAD_ACC_STEPS=8
fi
unset NO_LLAMA TRAIN_SPLIT VAL_SPLIT TEST_SPLIT CKPT_DIR DATA_FILE_LIST
export MODEL_SIZE_KEY DTYPE LR MDS_LR_DECAY_STYLE MDS_WEIGHT_DECAY MDS_LR_WARMUP_FRACTION
export MDS_ADAM_BETA2 MDS_ADAM_EPS MDS_EVAL_INTERVAL MDS_EVAL_ITERS MDS_LOG_INTERVAL MDS_SPLIT
export TRAIN_TOKENS GRAD_ACC_STEPS

exec "$launch" "$@"
