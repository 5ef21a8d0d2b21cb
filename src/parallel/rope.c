/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/rope.h"

#include "base/alloc.h"

#include <math.h>

enum mds_rc mds_rope_create(const struct mds_model_config *m, struct mds_rope **out)
{
    int64_t rot = (int64_t)((double)m->head_dim * m->rotary_percent) / 2 * 2;
    struct mds_rope *r =
        mds_zalloc(1, sizeof *r + (size_t)(rot / 2) * sizeof *r->frequency);

    if (!r)
        return MDS_EMEM;
    r->rot = rot;
    r->scale = 1;
    for (int64_t i = 0; i < rot / 2; i++)
        r->frequency[i] = pow(m->rotary_base, -2 * (double)i / (double)rot);
    *out = r;
    return MDS_OK;
}
