#include "comm/internal.h"

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
            acc[i] = (x[i] > acc[i]) | (x[i] != x[i]) ? x[i] : acc[i];
}

void mds_comm_reduce(float *out, const float *own, const float *others, int64_t stride,
                     int64_t len, int me, int n, enum mds_comm_op op)
{
    float acc[BLOCK];

    for (int64_t at = 0; at < len; at += BLOCK) {
        int64_t part = len - at < BLOCK ? len - at : BLOCK;

        for (int r = 0; r < n; r++) {
            const float *x = r == me ? own : others + (r < me ? r : r - 1) * stride;

            if (r == 0)
                memcpy(acc, x + at, (size_t)part * sizeof *acc);
            else
                fold_into(acc, x + at, part, op);
        }
        memcpy(out + at, acc, (size_t)part * sizeof *acc);
    }
}

double mds_comm_fold(double a, double b, enum mds_comm_op op)
{
    if (op == MDS_COMM_SUM)
        return a + b;
    return b > a || b != b ? b : a;
}
