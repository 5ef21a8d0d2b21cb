#!/bin/sh
# Pre-train a Llama, as train_llama_alcf.sh of argonne-lcf/Megatron-DeepSpeed does:
#
#     DATA_PATH=corpus.h5 TRAIN_ITERS=1000 ALCF/train-llama.sh
#
# The variables of its ALCF/helpers.sh count, and what is not set is as it is there, but for
# the layout: mds_launch chooses TP, PP, SP and ZERO_STAGE unless one of the first three is
# set.  Options go to mds_launch, and behind -- to mds_pretrain.  As a batch job:
#
#     ALCF/train-llama.sh submit QUEUE NODES WALLTIME PROJECT
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=ALCF/setup.sh
. "$here/setup.sh"

: "${MODEL_SIZE_KEY:=LLAMA7B}" "${DTYPE:=bf16}" "${LR:=2e-4}" "${LR_DECAY_STYLE:=cosine}"
: "${LR_WARMUP_FRAC:=0.05}" "${WEIGHT_DECAY:=0.1}" "${ADAM_BETA2:=0.95}" "${ADAM_EPS:=1e-5}"
: "${EVAL_INTERVAL:=100}" "${EVAL_ITERS:=20}" "${LOG_INTERVAL:=1}"
# A list has a weight, a path and the name of a corpus in each line.
if [ -z "$DATA_PATH" ] && [ -n "$DATA_FILE_LIST" ]; then
    DATA_PATH=$(awk 'NF > 1 { print $1, $2 }' "$DATA_FILE_LIST") || exit
    export DATA_PATH
fi
if [ -z "$TRAIN_ITERS$TRAIN_ITER$TRAIN_TOKENS" ]; then
    TRAIN_TOKENS=10e9
fi
if [ -z "$GLOBAL_BATCH$GAS$GRAD_ACC_STEPS" ]; then
    GRAD_ACC_STEPS=8
fi
export MODEL_SIZE_KEY DTYPE LR LR_DECAY_STYLE LR_WARMUP_FRAC WEIGHT_DECAY ADAM_BETA2 ADAM_EPS
export EVAL_INTERVAL EVAL_ITERS LOG_INTERVAL TRAIN_TOKENS GRAD_ACC_STEPS

exec "$launch" "$@"
