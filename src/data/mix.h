/* SPDX-License-Identifier: BSD-3-Clause */
/* Which source of a weighted mix gives sample i. */
#ifndef MDS_DATA_MIX_H
#define MDS_DATA_MIX_H

#include "base/status.h"

#include <stdint.h>

enum { MDS_MIX_PERIOD = 65536 };

struct mds_mix;

/* Weights are rounded to whole slots of a period, at least one each.  Slots are
 * assigned by error diffusion: each goes to the source that is furthest behind its
 * share.  The period then repeats, so looking up sample i takes constant time.
 * MDS_EUSER for a weight that is not positive. */
enum mds_rc mds_mix_create(const double *weights, int n, struct mds_mix **out);
void mds_mix_destroy(struct mds_mix *m); /* NULL is fine */

/* Slots of source k in a period. */
int64_t mds_mix_share(const struct mds_mix *m, int k);

/* How many of the first i samples each source gives: counts[n]. */
void mds_mix_count(const struct mds_mix *m, int64_t i, int64_t *counts);

/* Sample i of the mix is sample *within of source *source. */
void mds_mix_pick(const struct mds_mix *m, int64_t i, int *source, int64_t *within);

#endif
