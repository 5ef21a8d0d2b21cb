/* SPDX-License-Identifier: BSD-3-Clause */
/* The table that rotary positions are computed from: config/rope.h has the formulas. */
#ifndef MDS_PARALLEL_ROPE_H
#define MDS_PARALLEL_ROPE_H

#include "base/status.h"
#include "config/config.h"

struct mds_rope {
    int64_t rot;        /* elements of a head that rotate */
    float scale;        /* cos and sin are multiplied by it */
    double frequency[]; /* [rot/2] radians a token, fastest first */
};

/* Of a resolved configuration; free() it. */
enum mds_rc mds_rope_create(const struct mds_model_config *m, struct mds_rope **out);

#endif
