/* SPDX-License-Identifier: BSD-3-Clause */
/* The forward kernels of one type, MDSK_HOPPER_TYPE. */
#include "kernels/cuda/hopper/forward.cuh"

namespace mdsk::hopper
{

/* Dropout in tiles of queries of two groups: three have no registers for it. */
template <int WIDTH, int KEYS, int GROUPS, bool ALIBI>
int forward_width(cudaStream_t stream, struct forward_args *a,
                  const struct mdsk_attention_fwd *f)
{
    using T = MDSK_HOPPER_TYPE;

    if (a->has_dropout)
        return forward_launch<forward_plan<T, WIDTH, KEYS, 2, 2, ALIBI, true, false>>(
            stream, a, f);
    if (a->parts > 1)
        return forward_launch<
            forward_plan<T, WIDTH, KEYS, GROUPS, 2, ALIBI, false, true>>(stream, a, f);
    return forward_launch<forward_plan<T, WIDTH, KEYS, GROUPS, 2, ALIBI, false, false>>(
        stream, a, f);
}

} // namespace mdsk::hopper

/* Largest head size, keys of a tile, groups of 64 queries: the fastest of those that
 * registers and shared memory allow. */
#define MDSK_FORWARD(width, keys, groups)                                              \
    extern "C" int MDSK_HOPPER_NAME(width)(cudaStream_t stream,                        \
                                           struct forward_args * a,                    \
                                           const struct mdsk_attention_fwd *f)         \
    {                                                                                  \
        using namespace mdsk::hopper;                                                  \
        return a->alibi_heads > 0                                                      \
                   ? forward_width<width, keys, groups, true>(stream, a, f)            \
                   : forward_width<width, keys, groups, false>(stream, a, f);          \
    }
MDSK_FORWARD(64, 128, 3)
MDSK_FORWARD(96, 128, 2)
MDSK_FORWARD(128, 128, 2)
MDSK_FORWARD(256, 80, 2)
