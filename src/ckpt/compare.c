/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/compare.h"
#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sums {
    double squares, of_difference, most;
    int64_t unequal;
};

static void add_differences(const float *a, const float *b, int64_t n, struct sums *s)
{
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        s->squares += (double)a[i] * (double)a[i];
        if (memcmp(&a[i], &b[i], sizeof a[i]) == 0)
            continue;
        if (isnan(d))
            d = INFINITY;
        s->unequal++;
        s->of_difference += d * d;
        if (s->most < d)
            s->most = d;
    }
}

static struct mds_ckpt_distance distance_from_sums(const struct sums *s)
{
    struct mds_ckpt_distance d = {.most = s->most, .unequal = s->unequal};

    if (s->of_difference > 0)
        d.relative = s->squares > 0 && isfinite(s->of_difference)
                         ? sqrt(s->of_difference / s->squares)
                         : INFINITY;
    return d;
}

enum mds_rc mds_ckpt_compare(struct mds_ckpt_reader *a, int64_t ta,
                             struct mds_ckpt_reader *b, int64_t tb,
                             enum mds_ckpt_what what, int64_t rows,
                             struct mds_ckpt_distance *out)
{
    struct mds_ckpt_tensor t = mds_ckpt_reader_index(a)->tensor[ta];
    int64_t elements = mds_ckpt_rows_buffer(mds_ckpt_reader_index(a));
    float *va = mds_zalloc((size_t)elements, sizeof *va);
    float *vb = mds_zalloc((size_t)elements, sizeof *vb);
    enum mds_rc rc = va && vb ? MDS_OK : MDS_EMEM;
    struct mds_ckpt_part part = {0};
    struct sums s = {0};

    t.rows = rows;
    while (!rc && mds_ckpt_next_rows(&t, elements, &part)) {
        rc = mds_ckpt_reader_part(a, what, ta, &part, va);
        if (!rc)
            rc = mds_ckpt_reader_part(b, what, tb, &part, vb);
        if (!rc)
            add_differences(va, vb, part.rows * part.cols, &s);
    }
    free(va);
    free(vb);
    if (!rc)
        *out = distance_from_sums(&s);
    return rc;
}
