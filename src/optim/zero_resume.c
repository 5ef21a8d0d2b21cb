/* SPDX-License-Identifier: BSD-3-Clause */
/* States to and from files. */
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdlib.h>

void mds_zero_share(const struct mds_zero *z, int unit, int64_t *first, int64_t *n)
{
    mds_comm_slice(mds_params_unit(z->params, unit)->count, z->parts.size,
                   z->parts.rank, first, n);
}

enum mds_rc mds_zero_read_share(struct mds_zero *z, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *host)
{
    const struct zero_piece p = {.unit = unit, .first = first, .n = n};

    return mds_zero_state_get(z, what, &p, host);
}

int64_t mds_zero_updates(const struct mds_zero *z)
{
    return z->steps;
}

struct source {
    enum mds_rc (*fill)(void *ctx, enum mds_zero_what what, int unit, int64_t first,
                        int64_t n, float *out);
    void *ctx;
};

static enum mds_rc fill_weights(void *ctx, int unit, int64_t first, int64_t n,
                                float *out)
{
    const struct source *s = ctx;

    return s->fill(s->ctx, MDS_ZERO_WEIGHT, unit, first, n, out);
}

static enum mds_rc load_moments(struct mds_zero *z, const struct source *s,
                                enum mds_zero_what what, float *buf)
{
    struct zero_piece p = {.unit = -1};

    while (mds_partition_next(&z->parts, ZERO_CHUNK, &p)) {
        if (!z->dry)
            MDS_TRY(s->fill(s->ctx, what, p.unit, p.first, p.n, buf));
        MDS_TRY(mds_zero_state_put(z, what, &p, buf));
    }
    return MDS_OK;
}

enum mds_rc mds_zero_resume(struct mds_zero *z,
                            enum mds_rc (*fill)(void *ctx, enum mds_zero_what what,
                                                int unit, int64_t first, int64_t n,
                                                float *out),
                            void *ctx, int64_t updates)
{
    struct source s = {fill, ctx};
    float *buf;
    enum mds_rc rc;

    MDS_TRY(mds_zero_load(z, fill_weights, &s));
    buf = mds_zalloc(ZERO_CHUNK, sizeof *buf);
    if (!buf)
        return MDS_EMEM;
    z->steps = updates; /* moments are not zero from here on, whatever happens */
    rc = load_moments(z, &s, MDS_ZERO_M, buf);
    if (!rc)
        rc = load_moments(z, &s, MDS_ZERO_V, buf);
    free(buf);
    return rc;
}
