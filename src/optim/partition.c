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
            mds_comm_shard(count, mds_partition_ranks(p, i), 0, &first, &s->block);
            mds_comm_shard(count, mds_partition_ranks(p, i), mds_partition_rank(p, i),
                           &s->first, &s->n);
        }
        p->own += s->block;
    }
}

/* The unit's parameters, clipped to the shard.  Neighbours that are treated alike form
 * one group, including the gaps between them, which hold zeros and stay zero. */
static int find_param_groups(const struct zero_partition *p, int unit,
                             zero_choose_fn *choose, struct zero_param_group *out)
{
    const struct mds_param_unit *pu = mds_partition_unit(p, unit);
    const struct zero_shard *shard = &p->shard[unit];
    int n = 0;

    for (int k = 0; k < pu->params; k++) {
        const struct mds_param *q = mds_params_get(p->params, pu->first_param + k);
        int64_t next = k + 1 < pu->params ? q[1].offset - pu->first : pu->count;
        int64_t from = mds_max(q->offset - pu->first, shard->first);
        int64_t to = mds_min(next, shard->first + shard->n);
        struct zero_param_group g = {.first = from,
                                     .by = choose(&q->spec),
                                     .decay = q->spec.decay,
                                     .duplicate = q->spec.duplicate,
                                     .width = q->spec.width};

        if (from >= to)
            continue;
        if (n == 0 || out[n - 1].by.rule != g.by.rule || out[n - 1].decay != g.decay ||
            out[n - 1].duplicate != g.duplicate || out[n - 1].width != g.width)
            out[n++] = g;
        out[n - 1].n = to - out[n - 1].first;
    }
    return n;
}

/* One after the other.  They lie to a multiple of 64 as in a buffer of shards. */
static void place_second_moments(struct zero_partition *p, int groups)
{
    p->all_have_second = 1;
    for (int i = 0; i < groups; i++) {
        struct zero_param_group *g = &p->param_group[i];

        if (g->by.moments < 2) {
            p->all_have_second = 0;
            p->own_second = mds_round_up(p->own_second, MDS_UNIT_ALIGN);
            continue;
        }
        if (i == 0 || g[-1].by.rule != g->by.rule)
            p->own_second += g->first % MDS_UNIT_ALIGN;
        g->second = p->own_second;
        p->own_second += g->n;
    }
}

enum mds_rc mds_partition_init(struct zero_partition *p, struct mds_params *params,
                               struct mds_comm *group,
                               struct mds_comm *const *unit_group, int sharded,
                               zero_choose_fn *choose)
{
    int groups = 0;

    *p = (struct zero_partition){
        .params = params, .sharded = sharded, .units = mds_params_units(params)};
    p->shard = mds_zalloc((size_t)p->units, sizeof *p->shard);
    p->param_group = mds_zalloc((size_t)mds_params_n(params), sizeof *p->param_group);
    if (!p->shard || !p->param_group)
        return MDS_EMEM;
    for (int i = 0; i < p->units; i++)
        p->shard[i].group = unit_group ? unit_group[i] : group;
    cut_units(p);
    for (int i = 0; i < p->units; i++) {
        p->shard[i].first_group = groups;
        p->shard[i].groups = find_param_groups(p, i, choose, p->param_group + groups);
        groups += p->shard[i].groups;
    }
    place_second_moments(p, groups);
    return MDS_OK;
}

void mds_partition_fini(struct zero_partition *p)
{
    free(p->param_group);
    free(p->shard);
}

int mds_partition_next_group(const struct zero_partition *p,
                             const struct zero_range *range, struct zero_param_group *g)
{
    const struct zero_param_group *r =
        p->param_group + p->shard[range->unit].first_group;
    int64_t next = g->first + g->n;

    if (next >= range->first + range->n)
        return 0;
    while (next >= r->first + r->n)
        r++;
    *g = *r;
    g->second += next - r->first;
    g->first = next;
    g->n = mds_min(r->first + r->n, range->first + range->n) - next;
    return 1;
}

/* End a range where another rule begins. */
static void cut_to_one_rule(const struct zero_partition *p, struct zero_range *range)
{
    struct zero_param_group g = {.first = range->first};

    for (range->by.rule = NULL; mds_partition_next_group(p, range, &g);)
        if (!range->by.rule)
            range->by = g.by;
        else if (g.by.rule != range->by.rule)
            range->n = g.first - range->first;
}

static int64_t shard_end(const struct zero_partition *p, int unit)
{
    return p->shard[unit].first + p->shard[unit].n;
}

struct zero_range mds_partition_own(const struct zero_partition *p, int unit)
{
    const struct zero_shard *s = &p->shard[unit];
    struct zero_range own = {.unit = unit, .first = s->first, .n = s->n};

    if (s->n > 0)
        own.by = p->param_group[s->first_group].by;
    return own;
}

int mds_partition_next_range(const struct zero_partition *p, int64_t longest,
                             struct zero_range *range)
{
    int64_t next = range->first + range->n;

    while (range->unit < 0 || next == shard_end(p, range->unit)) {
        if (++range->unit == p->units)
            return 0;
        next = p->shard[range->unit].first;
    }
    range->first = next;
    range->n = mds_min(longest, shard_end(p, range->unit) - next);
    cut_to_one_rule(p, range);
    return 1;
}

int64_t mds_partition_at(const struct zero_partition *p, const struct zero_range *range,
                         enum zero_layout layout)
{
    const struct zero_shard *s = &p->shard[range->unit];
    struct zero_param_group g = {.first = range->first};

    if (layout == ZERO_WHOLE)
        return mds_partition_unit(p, range->unit)->first + range->first;
    if (layout == ZERO_SHARDS)
        return s->at + range->first - s->first;
    (void)mds_partition_next_group(p, range, &g);
    return g.second;
}

int64_t mds_partition_elements(const struct zero_partition *p, enum zero_layout layout)
{
    return layout == ZERO_WHOLE    ? mds_params_span(p->params)
           : layout == ZERO_SHARDS ? p->own
                                   : p->own_second;
}
