/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/window.h"
#include "base/minmax.h"

#include <string.h>

/* Of a window of n bases that the chromosome has room for. */
static int64_t first_of(int64_t pos, int64_t longer, enum mds_infer_place place,
                        int64_t n, int unit)
{
    switch (place) {
    case MDS_INFER_LEFT:
        return pos;
    case MDS_INFER_RIGHT:
        return mds_round_up(pos + longer, unit) - n;
    case MDS_INFER_MIDDLE:
        break;
    }
    return pos - (n - longer) / 2;
}

int mds_infer_window_place(const struct mds_infer_allele *a, enum mds_infer_place place,
                           int64_t bases, int unit, struct mds_infer_window *out)
{
    int64_t longer = mds_max(a->ref, a->alt), more = a->alt - a->ref;
    int64_t shortest = mds_min(a->chromosome, a->chromosome + more);
    int64_t n = mds_min(bases, shortest) / unit * unit;
    int64_t first = first_of(a->pos, longer, place, n, unit);

    first = mds_max(mds_min(first, shortest - n), 0) / unit * unit;
    *out =
        (struct mds_infer_window){.first = first, .n = n, .read = mds_max(n, n - more)};
    return first <= a->pos && a->pos + longer <= first + n;
}

void mds_infer_window_apply(const struct mds_infer_allele *a,
                            const struct mds_infer_window *w,
                            const unsigned char *bases, const unsigned char *alt,
                            unsigned char *out)
{
    int64_t at = a->pos - w->first, behind = w->n - at - a->alt;

    memcpy(out, bases, (size_t)at);
    memcpy(out + at, alt, (size_t)a->alt);
    memcpy(out + at + a->alt, bases + at + a->ref, (size_t)behind);
}
