/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/sums.h"
#include "base/minmax.h"
#include "tensor/op.h"

static enum mds_rc cast_elements(const struct mds_par *p, int64_t n,
                                 enum mdsk_dtype from, const void *x,
                                 enum mdsk_dtype to, void *y)
{
    struct mdsk_cast a = {.n = n, .from = from, .to = to, .x = x, .y = y};

    return mds_op_cast(p->dev, &a);
}

static enum mds_rc queue_add_f32(const struct mds_par *p, int64_t n, const void *x,
                                 float *sum)
{
    struct mdsk_add a = {.n = n, .x = x, .y = sum};

    return mds_op_add(p->dev, &a);
}

/* Convert 16-bit numbers to f32, 2^24 at a time: this fills a GPU, and the buffer is
 * small beside x. */
static enum mds_rc add_widened(const struct mds_par *p, int64_t n, const void *x,
                               float *sum)
{
    const int64_t most = INT64_C(1) << 24;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    float *wide = NULL;

    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, mds_min(n, most), &wide));
    for (int64_t at = 0; at < n; at += most) {
        int64_t m = mds_min(n - at, most);

        MDS_TRY(cast_elements(p, m, p->dtype, mds_par_at(p, x, at), MDSK_F32, wide));
        MDS_TRY(queue_add_f32(p, m, wide, sum + at));
    }
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

enum mds_rc mds_accumulate(const struct mds_par *p, int first, int64_t n, const void *x,
                           float *sum)
{
    if (first)
        return cast_elements(p, n, p->dtype, x, MDSK_F32, sum);
    return p->dtype == MDSK_F32 ? queue_add_f32(p, n, x, sum)
                                : add_widened(p, n, x, sum);
}

enum mds_rc mds_accumulate_store(const struct mds_par *p, int64_t n, const float *sum,
                                 void *y)
{
    return cast_elements(p, n, MDSK_F32, sum, p->dtype, y);
}
