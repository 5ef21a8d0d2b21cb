/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathering whole tensors from the shards of all ranks. */
#include "base/alloc.h"
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

enum mds_rc mds_engine_whole_params(const struct mds_config *config,
                                    struct mds_params **out)
{
    struct mds_config alone = *config;
    struct mds_groups groups = {0};
    enum mds_rc rc;

    alone.parallel = (struct mds_parallel_config){
        .tensor = 1, .ulysses = 1, .ring = 1, .expert = 1, .pipeline = 1};
    alone.train.type = MDS_TYPE_F32;
    MDS_TRY(mds_groups_create(&alone.parallel, 1, 0, NULL, &groups));
    rc = mds_engine_rank_params(&alone, &groups, out);
    mds_groups_fini(&groups);
    return rc;
}

struct gather {
    struct mds_engine *e;
    enum mds_zero_what what;
    int unit;      /* in `values`; -1: none */
    float *values; /* of one unit on this rank */
    float *shards; /* of one parameter: every tensor rank's; NULL: one rank */
    float *whole;  /* the parameter */
};

/* Sizes of these buffers, in elements. */
struct buffer_sizes {
    int64_t values, shards, whole;
};

/* *first = the first rank along an axis that has the parameter; behind the last if none
 * has. */
static enum mds_rc find_along(const struct mds_engine *e, unsigned axis, int is_here,
                              int *first)
{
    int ranks = mds_groups_size(e->groups, axis);
    double vote = is_here ? ranks - mds_groups_rank(e->groups, axis) : 0;

    if (ranks > 1)
        MDS_TRY(mds_comm_all_reduce_f64(mds_group(e->groups, axis), &vote, 1,
                                        MDS_COMM_MAX));
    *first = ranks - (int)vote;
    return MDS_OK;
}

/* Fill g->whole from the shards of all tensor ranks, g->shards [tp, count]. */
static void assemble_param(const struct gather *g, const struct mds_param *p)
{
    int parts = mds_groups_size(g->e->groups, MDS_AXIS_TENSOR);

    for (int t = 0; t < parts; t++) {
        struct mds_param shard = *p;

        shard.spec.part = t;
        for (int64_t i = 0; i < p->count; i++)
            g->whole[mds_param_whole_index(&shard, i)] = g->shards[t * p->count + i];
    }
}

static enum mds_rc gather_param(struct gather *g, int id)
{
    const struct mds_param *p = mds_params_get(g->e->params, id);
    const struct mds_param_unit *u = mds_params_unit(g->e->params, p->unit);
    int64_t bytes = p->count * (int64_t)sizeof *g->whole;

    if (g->unit != p->unit)
        MDS_TRY(mds_zero_read(g->e->zero, g->what, p->unit, g->values));
    g->unit = p->unit;
    if (p->spec.shard == MDS_SHARD_NONE || !g->shards) {
        memcpy(g->whole, g->values + (p->offset - u->first), (size_t)bytes);
        return MDS_OK;
    }
    MDS_TRY(mds_comm_all_gather(mds_group(g->e->groups, MDS_AXIS_TENSOR),
                                g->values + (p->offset - u->first), g->shards, bytes));
    assemble_param(g, p);
    return MDS_OK;
}

/* Send g->whole from the rank along an axis that has it to the first one. */
static enum mds_rc send_to_first(const struct gather *g, unsigned axis, int from,
                                 int64_t bytes)
{
    struct mds_comm *group = mds_group(g->e->groups, axis);
    int here = mds_groups_rank(g->e->groups, axis);
    struct mds_comm_p2p req = {0};

    if (from == 0 || (here != 0 && here != from))
        return MDS_OK;
    if (here == 0)
        MDS_TRY(mds_comm_recv_start(group, g->whole, bytes, from, 0, &req));
    else
        MDS_TRY(mds_comm_send_start(group, g->whole, bytes, 0, 0, &req));
    return mds_comm_p2p_wait(&req);
}

/* g->whole = the parameter, on the first stage's first ranks; id -1: this rank does not
 * have it. */
static enum mds_rc fetch_param(struct gather *g, int id, int64_t count)
{
    const struct mds_groups *groups = g->e->groups;
    int64_t bytes = count * (int64_t)sizeof *g->whole;
    int expert, stage;

    MDS_TRY(find_along(g->e, MDS_AXIS_EXPERT, id >= 0, &expert));
    MDS_TRY(find_along(g->e, MDS_AXIS_PIPELINE,
                       expert < mds_groups_size(groups, MDS_AXIS_EXPERT), &stage));
    if (stage == mds_groups_rank(groups, MDS_AXIS_PIPELINE)) {
        if (id >= 0)
            MDS_TRY(gather_param(g, id));
        MDS_TRY(send_to_first(g, MDS_AXIS_EXPERT, expert, bytes));
    }
    return send_to_first(g, MDS_AXIS_PIPELINE, stage, bytes);
}

static int64_t largest_unit(const struct mds_params *ps)
{
    int64_t n = 1;

    for (int u = 0; u < mds_params_units(ps); u++)
        if (mds_params_unit(ps, u)->count > n)
            n = mds_params_unit(ps, u)->count;
    return n;
}

static int64_t largest_param(const struct mds_params *ps)
{
    int64_t n = 1;

    for (int id = 0; id < mds_params_n(ps); id++)
        if (mds_params_get(ps, id)->count > n)
            n = mds_params_get(ps, id)->count;
    return n;
}

static struct buffer_sizes sizes_for(const struct mds_engine *e,
                                     const struct mds_params *whole)
{
    int64_t param = largest_param(whole);

    return (struct buffer_sizes){
        .values = largest_unit(e->params),
        .shards = mds_groups_size(e->groups, MDS_AXIS_TENSOR) > 1 ? param : 0,
        .whole = param};
}

enum mds_rc mds_engine_whole_bytes(const struct mds_engine *e, int64_t *bytes)
{
    struct mds_params *whole = NULL;
    struct buffer_sizes n;

    *bytes = 0;
    if (!e->config->output.export_weights && !e->config->output.trace_dir)
        return MDS_OK;
    MDS_TRY(mds_engine_whole_params(e->config, &whole));
    n = sizes_for(e, whole);
    mds_params_destroy(whole);
    *bytes = (n.values + n.shards + n.whole) * (int64_t)sizeof(float);
    return MDS_OK;
}

/* What the update would use, before it clips. */
static void unscale_gradient(const struct mds_engine *e, float *v, int64_t n)
{
    for (int64_t i = 0; i < n && e->grad_scale != 1; i++)
        v[i] = (float)((double)v[i] / e->grad_scale);
}

static enum mds_rc gather_each(struct gather *g, const struct mds_params *whole,
                               enum mds_rc (*visit)(void *ctx,
                                                    const struct mds_param *p,
                                                    const float *values),
                               void *ctx)
{
    int first = mds_groups_rank(g->e->groups, MDS_AXES_ALL) == 0;

    for (int i = 0; i < mds_params_n(whole); i++) {
        const struct mds_param *p = mds_params_get(whole, i);
        int id = mds_params_find(g->e->params, p->spec.name);

        MDS_TRY(fetch_param(g, id, p->count));
        if (first && g->what == MDS_ZERO_GRAD)
            unscale_gradient(g->e, g->whole, p->count);
        if (first)
            MDS_TRY(visit(ctx, p, g->whole));
    }
    return MDS_OK;
}

enum mds_rc mds_engine_each_whole(struct mds_engine *e, enum mds_zero_what what,
                                  enum mds_rc (*visit)(void *ctx,
                                                       const struct mds_param *p,
                                                       const float *values),
                                  void *ctx)
{
    struct gather g = {.e = e, .what = what, .unit = -1};
    struct mds_params *whole = NULL;
    struct buffer_sizes n;
    enum mds_rc rc;

    MDS_TRY(mds_engine_whole_params(e->config, &whole));
    n = sizes_for(e, whole);
    g.values = mds_zalloc((size_t)n.values, sizeof *g.values);
    g.whole = mds_zalloc((size_t)n.whole, sizeof *g.whole);
    if (n.shards > 0)
        g.shards = mds_zalloc((size_t)n.shards, sizeof *g.shards);
    rc = g.values && g.whole && (g.shards || !n.shards) ? MDS_OK : MDS_EMEM;
    if (!rc)
        rc = gather_each(&g, whole, visit, ctx);
    free(g.values);
    free(g.shards);
    free(g.whole);
    mds_params_destroy(whole);
    return rc;
}
