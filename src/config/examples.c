/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/options.h"

#include <stddef.h>

const struct mds_option_example mds_pretrain_examples[] = {
    {"A small model in a single process, on a CPU or a GPU:",
     "mds_pretrain --num-layers 4 --hidden-size 128 --num-attention-heads 4 \\\n"
     "    --seq-length 256 --data-path tokens.h5 --train-iters 600"},
    {"Four GPUs, two of which share each matrix, with checkpoints to resume from:",
     "mpiexec -n 4 mds_pretrain --model-size-key GPT1_3B --seq-length 8192 --bf16 \\\n"
     "    --tensor-model-parallel-size 2 --sequence-parallel --zero-stage 1 \\\n"
     "    --data-path tokens.h5 --train-iters 1000 --save run --load run"},
    {"What a rank of that needs, predicted without any GPU:",
     "mds_pretrain --dry-run --world-size 4 --model-size-key GPT1_3B --bf16 \\\n"
     "    --seq-length 8192 --tensor-model-parallel-size 2 --zero-stage 1"},
    {"With the variables of the ALCF scripts; prints where each value comes from:",
     "MODEL_SIZE_KEY=GPT13B SEQ_LEN=8192 ZERO_STAGE=3 mds_pretrain --show-config"},
    {.what = NULL},
};
