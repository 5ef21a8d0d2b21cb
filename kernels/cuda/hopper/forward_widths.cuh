/* SPDX-License-Identifier: BSD-3-Clause */
/* The forward kernels of one type, MDSK_HOPPER_TYPE. */
#include "kernels/cuda/hopper/forward.cuh"

/* Largest head size, keys of a tile, groups of 64 queries, stages: the fastest of those
 * that registers and shared memory allow. */
#define MDSK_FORWARD(width, keys, groups, stages)                                      \
    extern "C" int MDSK_HOPPER_NAME(width)(cudaStream_t stream,                        \
                                           struct forward_args * a,                    \
                                           const struct mdsk_attention_fwd *f)         \
    {                                                                                  \
        using namespace mdsk::hopper;                                                  \
        if (a->alibi_heads > 0)                                                        \
            return forward_launch<                                                     \
                forward_plan<MDSK_HOPPER_TYPE, width, keys, groups, stages, true>>(    \
                stream, a, f);                                                         \
        return forward_launch<                                                         \
            forward_plan<MDSK_HOPPER_TYPE, width, keys, groups, stages, false>>(       \
            stream, a, f);                                                             \
    }
MDSK_FORWARD(64, 128, 3, 2)
MDSK_FORWARD(96, 128, 2, 2)
MDSK_FORWARD(128, 128, 2, 2)
MDSK_FORWARD(256, 80, 2, 2)
