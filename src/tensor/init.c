/* SPDX-License-Identifier: BSD-3-Clause */
/* Initial values of parameters. */
#include "kernels/normal.h"
#include "base/minmax.h"
#include "tensor/params.h"

#include <string.h>

/* Length of a row that is contiguous in the whole parameter, too: all of the shard,
 * unless columns are sharded. */
static int64_t contiguous_cols(const struct mds_param *p)
{
    return p->spec.shard == MDS_SHARD_COLS ? p->cols : p->count;
}

/* Fill elements first .. first + n - 1 of the shard; the first and the last row may be
 * partial. */
static void fill_normal(const struct mds_param *p, struct mdsk_normal a, int64_t first,
                        int64_t n, float *out)
{
    int64_t cols = contiguous_cols(p);

    a.stride = p->spec.shard == MDS_SHARD_COLS ? p->spec.cols : 0;
    while (n > 0) {
        int64_t at = first % cols, rest = cols - at;

        a.first = mds_param_whole_index(p, first);
        a.rows = at == 0 && n >= cols ? n / cols : 1;
        a.cols = mds_min(n, rest);
        a.out = out;
        mdsk_normal_fill(&a);
        first += a.rows * a.cols;
        out += a.rows * a.cols;
        n -= a.rows * a.cols;
    }
}

void mds_param_init_values(const struct mds_param *p, uint64_t seed, int64_t first,
                           int64_t n, float *out)
{
    const struct mds_param_spec *spec = &p->spec;
    struct mdsk_normal normal = {
        .key = mds_param_hash(spec->name) ^ seed * UINT64_C(0x9E3779B97F4A7C15),
        .std = spec->std,
    };

    if (spec->init == MDS_INIT_NORMAL) {
        fill_normal(p, normal, first, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = spec->init == MDS_INIT_ONE ? 1.0f : 0.0f;
}

void mds_unit_init_values(const struct mds_params *ps, int unit, uint64_t seed,
                          int64_t first, int64_t n, float *out)
{
    const struct mds_param_unit *u = mds_params_unit(ps, unit);

    memset(out, 0, (size_t)n * sizeof *out);
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(ps, id);
        struct mds_param_overlap here = mds_param_overlap(ps, p, first, n);

        if (here.n > 0)
            mds_param_init_values(p, seed, here.first, here.n, out + here.at);
    }
}
