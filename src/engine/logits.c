/* SPDX-License-Identifier: BSD-3-Clause */
/* How large attention's logits get: reading it back, and the factors by which heads are
 * scaled down when they get too large (docs/adr/0060). */
#include "base/alloc.h"
#include "engine/internal.h"

#include <math.h>
#include <stdlib.h>

static int64_t layers_of(const struct mds_engine *e)
{
    return e->config->model.layers;
}

/* Of queries, of all layers; 0 if logits are not looked at. */
static int64_t heads_of(const struct mds_engine *e)
{
    const struct mds_train_config *t = &e->config->train;
    int wanted = t->log_logits || e->config->optim.qk_clip;

    return wanted && !t->skip_train ? layers_of(e) * e->config->model.heads : 0;
}

static int64_t all_heads(const struct mds_engine *e)
{
    return layers_of(e) * (e->config->model.heads + e->config->model.kv_heads);
}

enum mds_rc mds_engine_alloc_logits(struct mds_engine *e)
{
    struct mds_engine_logits *l = &e->logit;
    int64_t n = heads_of(e);

    if (n == 0)
        return MDS_OK;
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_WORK, n * (int64_t)sizeof *l->bound,
                            &l->bound));
    l->here = mds_zalloc((size_t)n, sizeof *l->here);
    l->all = mds_zalloc((size_t)n, sizeof *l->all);
    l->layer = mds_zalloc((size_t)layers_of(e), sizeof *l->layer);
    l->factor = mds_zalloc((size_t)all_heads(e), sizeof *l->factor);
    return l->here && l->all && l->layer && l->factor ? MDS_OK : MDS_EMEM;
}

void mds_engine_free_logits(struct mds_engine *e)
{
    free(e->logit.here);
    free(e->logit.all);
    free(e->logit.layer);
    free(e->logit.factor);
}

void mds_engine_clear_logits(struct mds_engine *e)
{
    if (e->logit.bound)
        mds_dev_zero(e->dev, e->logit.bound,
                     heads_of(e) * (int64_t)sizeof *e->logit.bound);
}

/* Logits of a head are to shrink by `shrink` <= 1, less if others of its group shrink
 * more: keys, which the group shares, by the most of the group. */
static void set_group(const struct mds_optim_config *o, const double *bound, int64_t n,
                      float *queries, float *keys)
{
    double most = 1;

    for (int64_t i = 0; i < n; i++)
        if (bound[i] > o->qk_clip_threshold)
            most = fmin(most, o->qk_clip_threshold / bound[i]);
    *keys = (float)pow(most, 1 - o->qk_clip_alpha);
    for (int64_t i = 0; i < n; i++) {
        double shrink = fmin(1, o->qk_clip_threshold / bound[i]);

        queries[i] = bound[i] > 0 ? (float)fmin(1, shrink / *keys) : 1;
    }
}

/* All ranks have the bounds of all heads, so they compute the same. */
static void set_factors(struct mds_engine *e)
{
    int64_t A = e->config->model.heads, G = e->config->model.kv_heads, of = A / G;

    for (int64_t b = 0; b < layers_of(e); b++)
        for (int64_t g = 0; g < G; g++) {
            float *factor = e->logit.factor + b * (A + G);

            set_group(&e->config->optim, e->logit.all + b * A + g * of, of,
                      factor + g * of, factor + A + g);
        }
}

enum mds_rc mds_engine_read_logits(struct mds_engine *e)
{
    struct mds_engine_logits *l = &e->logit;
    int64_t n = heads_of(e), A = e->config->model.heads;

    if (n == 0)
        return MDS_OK;
    MDS_TRY(mds_dev_copy_out(e->dev, l->here, l->bound, n * (int64_t)sizeof *l->here));
    for (int64_t i = 0; i < n; i++)
        l->all[i] = (double)l->here[i];
    MDS_TRY(mds_comm_all_reduce_f64(mds_group(e->groups, MDS_AXES_ALL), l->all, (int)n,
                                    MDS_COMM_MAX));
    l->clipped = 0;
    for (int64_t i = 0; i < n; i++) {
        double *layer = &l->layer[i / A];

        *layer = i % A == 0 ? l->all[i] : fmax(*layer, l->all[i]);
        l->clipped +=
            e->config->optim.qk_clip && l->all[i] > e->config->optim.qk_clip_threshold;
    }
    if (e->config->optim.qk_clip)
        set_factors(e);
    return MDS_OK;
}

const float *mds_engine_head_factors(const struct mds_engine *e)
{
    return e->config->optim.qk_clip && e->logit.clipped > 0 ? e->logit.factor : NULL;
}
