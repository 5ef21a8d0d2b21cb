/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/search_space.h"
#include "base/alloc.h"
#include "base/minmax.h"

#include <stdlib.h>

/* ---- ways to save memory ---- */

static const struct {
    int64_t zero;
    enum mds_place_kind optimizer, params;
} placements[MDS_PLAN_PLACEMENTS] = {
    {0, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE}, {1, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE},
    {2, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE}, {3, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE},
    {1, MDS_PLACE_CPU, MDS_PLACE_DEVICE},    {3, MDS_PLACE_CPU, MDS_PLACE_DEVICE},
    {3, MDS_PLACE_CPU, MDS_PLACE_CPU},
};

void mds_plan_set_placement(struct mds_layout *l, int placement)
{
    l->zero = placements[placement].zero;
    l->offload_optimizer = placements[placement].optimizer;
    l->offload_params = placements[placement].params;
}

int mds_plan_placement_shards(int placement)
{
    return placements[placement].zero > 0 &&
           placements[placement].optimizer == MDS_PLACE_DEVICE;
}

int64_t mds_plan_sequence_tile(const struct mds_plan_request *r,
                               const struct mds_layout *l)
{
    return mds_config_tile(&r->run->config.model, l->ulysses * l->ring);
}

int64_t mds_plan_blocks(const struct mds_plan_request *r, const struct mds_layout *l)
{
    const struct mds_config *c = &r->run->config;

    return c->parallel.virtual_layers ? c->parallel.virtual_layers
                                      : c->model.layers / l->pipeline;
}

int64_t mds_plan_offloadable(const struct mds_plan_request *r,
                             const struct mds_layout *l)
{
    return r->machine->node.gpus > 0 ? mds_max_offload_layers(mds_plan_blocks(r, l))
                                     : 0;
}

void mds_plan_set_least_memory(const struct mds_plan_request *r, struct mds_layout *l,
                               int placement, int level, int64_t tile)
{
    enum { LAST = MDS_PLAN_LEAST_LEVELS - 1 };
    static const int least[MDS_PLAN_LEAST_PLACEMENTS] = {6, 5, 3};

    mds_plan_set_placement(l, least[placement]);
    mds_act_set_level(&l->act, MDS_PLAN_LEAST_LEVEL + level, tile);
    l->act.offload_layers = mds_plan_offloadable(r, l) * (LAST - level) / LAST;
}

enum mds_rc mds_plan_estimate(const struct mds_plan_request *r,
                              const struct mds_layout *user, unsigned fixed,
                              enum mds_predict_how how, struct mds_plan_entry *e,
                              int64_t *runs)
{
    struct mds_config c;
    int rank[MDS_PREDICT_RANKS];

    *runs = 0;
    e->layout = mds_layout_keep(e->layout, user, fixed);
    if (mds_layout_apply(r->run, &e->layout, r->world, &c))
        return MDS_OK;
    *runs = mds_predict_ranks(&c, (int)r->world, rank);
    c.train.eval_iters = 0;
    return mds_predict_as(how, &c, (int)r->world, (int)r->per_node, r->machine,
                          &e->estimate);
}

/* ---- grids ---- */

struct grid_lister {
    const struct mds_plan_request *r;
    const struct mds_layout *user;
    unsigned fixed;
    struct mds_plan_grids *out;
};

/* Those that share most first: tensor ranks share all.  Of grids that differ in how
 * many ranks share each sequence, or experts, the one with most is the first. */
static int most_shared_first(const void *a, const void *b)
{
    const struct mds_layout *x = a, *y = b;

    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? 1 : -1;
    if (x->pipeline != y->pipeline)
        return x->pipeline > y->pipeline ? 1 : -1;
    if (x->ulysses * x->ring != y->ulysses * y->ring)
        return x->ulysses * x->ring < y->ulysses * y->ring ? 1 : -1;
    if (x->ring != y->ring)
        return x->ring > y->ring ? 1 : -1;
    return (x->expert < y->expert) - (x->expert > y->expert);
}

static enum mds_rc append_grid(const struct grid_lister *s, struct mds_layout l)
{
    struct mds_layout kept = mds_layout_keep(l, s->user, s->fixed);
    struct mds_plan_grids *g = s->out;

    if (kept.tensor != l.tensor || kept.pipeline != l.pipeline ||
        kept.ulysses != l.ulysses || kept.ring != l.ring || kept.expert != l.expert)
        return MDS_OK;
    MDS_TRY(mds_grow(&g->v, g->n, sizeof *g->v));
    l.sequence_parallel = l.tensor > 1;
    l.micro = s->user->micro;
    l.global = s->user->global;
    g->v[g->n++] = l;
    return MDS_OK;
}

/* Of `ranks` with different tokens. */
static enum mds_rc list_expert_sizes(const struct grid_lister *s, struct mds_layout l,
                                     int64_t ranks)
{
    int64_t experts = mds_max(s->r->run->config.model.experts.n, 1);

    for (l.expert = 1; l.expert <= ranks && l.expert <= experts; l.expert++)
        if (ranks % l.expert == 0 && experts % l.expert == 0)
            MDS_TRY(append_grid(s, l));
    return MDS_OK;
}

static enum mds_rc list_sequence_sizes(const struct grid_lister *s, int64_t tensor,
                                       int64_t pipeline)
{
    int64_t rest = s->r->world / tensor / pipeline;

    for (int64_t u = 1; u <= rest; u++)
        for (int64_t ring = 1; rest % u == 0 && ring <= rest / u; ring++)
            if (rest / u % ring == 0)
                MDS_TRY(list_expert_sizes(s,
                                          (struct mds_layout){.tensor = tensor,
                                                              .pipeline = pipeline,
                                                              .ulysses = u,
                                                              .ring = ring},
                                          rest));
    return MDS_OK;
}

static enum mds_rc list_grids(const struct grid_lister *s)
{
    const struct mds_model_config *m = &s->r->run->config.model;
    int64_t world = s->r->world;

    for (int64_t t = 1; t <= world && (!m->heads || t <= m->heads); t++)
        for (int64_t p = 1; world % t == 0 && p <= world / t && p <= m->layers; p++)
            if (world / t % p == 0)
                MDS_TRY(list_sequence_sizes(s, t, p));
    return MDS_OK;
}

enum mds_rc mds_plan_grids_list(const struct mds_plan_request *r,
                                const struct mds_layout *user, unsigned fixed,
                                struct mds_plan_grids *out)
{
    struct mds_plan_grids g = {0};
    const struct grid_lister s = {r, user, fixed, &g};
    enum mds_rc rc = list_grids(&s);

    if (rc) {
        mds_plan_grids_fini(&g);
        return rc;
    }
    if (g.n > 0)
        qsort(g.v, g.n, sizeof *g.v, most_shared_first);
    *out = g;
    return MDS_OK;
}

void mds_plan_grids_fini(struct mds_plan_grids *g)
{
    free(g->v);
    *g = (struct mds_plan_grids){0};
}

int mds_plan_shards_less(const struct mds_layout *grid, const struct mds_layout *other)
{
    int64_t shares = grid->ulysses * grid->ring;

    return grid->tensor == other->tensor && grid->pipeline == other->pipeline &&
           grid->sequence_parallel == other->sequence_parallel &&
           grid->expert <= other->expert && shares > 1 &&
           shares < other->ulysses * other->ring;
}
