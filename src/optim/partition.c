/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/partition.h"
#include "base/alloc.h"
#include "base/minmax.h"

#include <stdlib.h>

static void cut_units(struct zero_partition *p)
{
    for (int i = 0; i < p->units; i++) {
        int64_t first, count = mds_partition_unit(p, i)->count;
        struct zero_shard *s = &p->shard[i];

        s->at = p->own;
        s->n = s->block = count;
        if (p->sharded) {
            mds_comm_shard(count, p->size, 0, &first, &s->block);
            mds_comm_shard(count, p->size, p->rank, &s->first, &s->n);
        }
        p->own += s->block;
    }
}

/* The unit's parameters, clipped to the shard.  Neighbours that are treated alike form
 * one group, including the gaps between them, which hold zeros and stay zero. */
static int find_param_groups(const struct zero_partition *p, int unit,
                             struct zero_param_group *out)
{
    const struct mds_param_unit *pu = mds_partition_unit(p, unit);
    const struct zero_shard *shard = &p->shard[unit];
    int n = 0;

    for (int k = 0; k < pu->params; k++) {
        const struct mds_param *q = mds_params_get(p->params, pu->first_param + k);
        int64_t next = k + 1 < pu->params ? q[1].offset - pu->first : pu->count;
        int64_t from = mds_max(q->offset - pu->first, shard->first);
        int64_t to = mds_min(next, shard->first + shard->n);
        const struct mds_param_spec *s = &q->spec;

        if (from >= to)
            continue;
        if (n == 0 || out[n - 1].decay != s->decay ||
            out[n - 1].duplicate != s->duplicate)
            out[n++] = (struct zero_param_group){
                .first = from, .decay = s->decay, .duplicate = s->duplicate};
        out[n - 1].n = to - out[n - 1].first;
    }
    return n;
}

enum mds_rc mds_partition_init(struct zero_partition *p, struct mds_params *params,
                               struct mds_comm *group, int sharded)
{
    int groups = 0;

    *p = (struct zero_partition){.params = params,
                                 .group = group,
                                 .sharded = sharded,
                                 .rank = mds_comm_rank(group),
                                 .size = mds_comm_size(group),
                                 .units = mds_params_units(params)};
    p->shard = mds_zalloc((size_t)p->units, sizeof *p->shard);
    p->param_group = mds_zalloc((size_t)mds_params_n(params), sizeof *p->param_group);
    if (!p->shard || !p->param_group)
        return MDS_EMEM;
    cut_units(p);
    for (int i = 0; i < p->units; i++) {
        p->shard[i].first_group = groups;
        p->shard[i].groups = find_param_groups(p, i, p->param_group + groups);
        groups += p->shard[i].groups;
    }
    return MDS_OK;
}

void mds_partition_fini(struct zero_partition *p)
{
    free(p->param_group);
    free(p->shard);
}

struct zero_range mds_partition_own(const struct zero_partition *p, int unit)
{
    const struct zero_shard *s = &p->shard[unit];

    return (struct zero_range){.unit = unit, .first = s->first, .n = s->n};
}

int mds_partition_next_range(const struct zero_partition *p, int64_t longest,
                             struct zero_range *range)
{
    int64_t next = range->first + range->n, left = 0;

    if (range->unit >= 0)
        left = p->shard[range->unit].first + p->shard[range->unit].n - next;
    while (left <= 0) {
        if (++range->unit == p->units)
            return 0;
        next = p->shard[range->unit].first;
        left = p->shard[range->unit].n;
    }
    range->first = next;
    range->n = mds_min(longest, left);
    return 1;
}

int64_t mds_partition_at(const struct zero_partition *p, const struct zero_range *range,
                         int sharded)
{
    const struct zero_shard *s = &p->shard[range->unit];

    if (!sharded)
        return mds_partition_unit(p, range->unit)->first + range->first;
    return s->at + range->first - s->first;
}

int64_t mds_partition_elements(const struct zero_partition *p, int sharded)
{
    return sharded ? p->own : mds_params_span(p->params);
}
