#include "comm/internal.h"
#include "base/minmax.h"
#include "kernels/half.h"

#include <string.h>

enum { BLOCK = 1024 }; /* floats: stays in the first-level cache for all ranks */

/* a + b, or the larger one, or the one that is NaN. */
static void fold_into(float *restrict acc, const float *restrict x, int64_t len,
                      enum mds_comm_op op)
{
    if (op == MDS_COMM_SUM)
        for (int64_t i = 0; i < len; i++)
            acc[i] += x[i];
    else
        for (int64_t i = 0; i < len; i++)
            acc[i] = ((x[i] > acc[i]) | (x[i] != x[i])) ? x[i] : acc[i];
}

/* len numbers of x from the at-th on, in f32: there, or in block. */
static const float *widen(const void *x, int64_t at, int64_t len, enum mdsk_dtype dtype,
                          float *block)
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

static void narrow(void *out, int64_t at, int64_t len, enum mdsk_dtype dtype,
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

static const void *numbers_of(const struct mds_comm_sum *s, int rank)
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
            const float *x = widen(numbers_of(s, r), at, part, s->dtype, wide);

            if (r == 0)
                memcpy(acc, x, (size_t)part * sizeof *acc);
            else
                fold_into(acc, x, part, s->op);
        }
        narrow(s->out, at, part, s->dtype, acc);
    }
}

double mds_comm_fold(double a, double b, enum mds_comm_op op)
{
    if (op == MDS_COMM_SUM)
        return a + b;
    return b > a || b != b ? b : a;
}
