/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/rope.h"

#include "base/alloc.h"
#include "config/rope.h"

enum mds_rc mds_rope_create(const struct mds_model_config *m, struct mds_rope **out)
{
    int64_t rot = mds_rope_size(m);
    struct mds_rope *r =
        mds_zalloc(1, sizeof *r + (size_t)(rot / 2) * sizeof *r->frequency);

    if (!r)
        return MDS_EMEM;
    r->rot = rot;
    r->scale = (float)mds_rope_attention_factor(m);
    mds_rope_frequencies(m, r->frequency);
    *out = r;
    return MDS_OK;
}
