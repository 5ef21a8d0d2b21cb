/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/internal.h"
#include "base/minmax.h"
#include "kernels/half.h"

#include <string.h>

enum { BLOCK = 1024 }; /* floats: stays in the L1 cache for all ranks */

static void add_f32(float *restrict acc, const float *restrict x, int64_t len)
{
    for (int64_t i = 0; i < len; i++)
        acc[i] += x[i];
}

/* Elements at .. at + len - 1 of x in f32: x itself, or converted into block. */
static const float *load_as_f32(const void *x, int64_t at, int64_t len,
                                enum mdsk_dtype dtype, float *block)
{
    const uint16_t *half = (const uint16_t *)x + at;

    if (dtype == MDSK_F32)
        return (const float *)x + at;
    if (dtype == MDSK_BF16)
        for (int64_t i = 0; i < len; i++)
            block[i] = mdsk_bf16_to_f32(half[i]);
    else
        for (int64_t i = 0; i < len; i++)
            block[i] = mdsk_f16_to_f32(half[i]);
    return block;
}

static void store_rounded(void *out, int64_t at, int64_t len, enum mdsk_dtype dtype,
                          const float *acc)
{
    uint16_t *half = (uint16_t *)out + at;

    if (dtype == MDSK_F32)
        memcpy((float *)out + at, acc, (size_t)len * sizeof *acc);
    else if (dtype == MDSK_BF16)
        for (int64_t i = 0; i < len; i++)
            half[i] = mdsk_f32_to_bf16(acc[i]);
    else
        for (int64_t i = 0; i < len; i++)
            half[i] = mdsk_f32_to_f16(acc[i]);
}

static const void *numbers_of_rank(const struct mds_comm_sum *s, int rank)
{
    int64_t row = rank < s->me ? rank : rank - 1;

    if (rank == s->me)
        return s->own;
    return (const char *)s->others +
           row * s->stride * (int64_t)mdsk_dtype_size(s->dtype);
}

void mds_comm_reduce(const struct mds_comm_sum *s)
{
    float acc[BLOCK], wide[BLOCK];

    for (int64_t at = 0; at < s->len; at += BLOCK) {
        int64_t part = mds_min(s->len - at, BLOCK);

        for (int r = 0; r < s->n; r++) {
            const float *x =
                load_as_f32(numbers_of_rank(s, r), at, part, s->dtype, wide);

            if (r == 0)
                memcpy(acc, x, (size_t)part * sizeof *acc);
            else
                add_f32(acc, x, part);
        }
        store_rounded(s->out, at, part, s->dtype, acc);
    }
}
