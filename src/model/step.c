/* One micro-batch through all parts. */
#include "model/parts.h"

/* Forward of all layers.  saved[l] may share buffers with other layers where the
 * recompute setting does not keep them; m [R,H] is the last layer's open branch. */
static enum mds_rc layers_fwd(const struct pass *p, const struct layer_saved *saved,
                              float *m)
{
    const float *x = saved[0].x, *r = NULL;

    MDS_TRY(gpt_embed_fwd(p, saved[0].x));
    for (int l = 0; l < p->g->cfg.layers; l++) {
        MDS_TRY(gpt_layer_fwd(p, l, x, r, &saved[l], m));
        x = saved[l].x1;
        r = m;
    }
    return MDS_OK;
}

/* Buffers for every layer: a set of their own where it is kept, else the shared one. */
static enum mds_rc take_saved(const struct pass *p, struct layer_saved *saved)
{
    struct layer_saved shared = {0};

    if (p->run->recompute != MDS_RECOMPUTE_NONE)
        MDS_TRY(gpt_layer_take(p, MDS_MEM_WORK, &shared));
    for (int l = 0; l < p->g->cfg.layers; l++) {
        saved[l] = shared;
        MDS_TRY(gpt_layer_take_kept(p, &saved[l]));
    }
    return MDS_OK;
}

static enum mds_rc train(const struct pass *p, float grad_scale,
                         struct mds_gpt_loss *loss, struct layer_saved *saved)
{
    int last = (int)p->g->cfg.layers - 1;
    int64_t n = p->R * p->g->cfg.hidden;
    float *m = NULL, *d = NULL;

    MDS_TRY(gpt_take(p, MDS_MEM_WORK, n, &m));
    MDS_TRY(take_saved(p, saved));
    MDS_TRY(layers_fwd(p, saved, m));
    MDS_TRY(gpt_take(p, MDS_MEM_ACT, n, &d));
    MDS_TRY(gpt_head(p, saved[last].x1, m, grad_scale, loss, d));
    for (int l = last; l >= 0; l--)
        MDS_TRY(gpt_layer_bwd(p, l, &saved[l], d));
    return gpt_embed_bwd(p, d);
}

/* Without backward one set of buffers serves all layers. */
static enum mds_rc eval(const struct pass *p, struct mds_gpt_loss *loss,
                        struct layer_saved *saved)
{
    float *m = NULL;

    MDS_TRY(gpt_take(p, MDS_MEM_WORK, p->R * p->g->cfg.hidden, &m));
    MDS_TRY(gpt_layer_take(p, MDS_MEM_WORK, &saved[0]));
    for (int l = 1; l < p->g->cfg.layers; l++)
        saved[l] = saved[0];
    MDS_TRY(layers_fwd(p, saved, m));
    return gpt_head(p, saved[0].x1, m, 0, loss, NULL);
}

static enum mds_rc check_batch(const struct mds_gpt *g, const struct mds_gpt_batch *b)
{
    if (b->B >= 1 && b->S >= 1 && (g->position < 0 || b->S <= g->cfg.max_positions))
        return MDS_OK;
    return mds_fail(MDS_EBUG, "gpt: batch of %lld x %lld tokens, %lld positions",
                    (long long)b->B, (long long)b->S, (long long)g->cfg.max_positions);
}

static enum mds_rc run_pass(struct mds_gpt *g, const struct mds_gpt_run *run,
                            const struct mds_gpt_batch *batch, int training,
                            float grad_scale, struct mds_gpt_loss *loss)
{
    struct pass p = {.g = g,
                     .run = run,
                     .batch = batch,
                     .R = batch->B * batch->S,
                     .training = training};
    struct mds_arena_mark mark = mds_arena_mark(run->arena);
    enum mds_rc rc;

    MDS_TRY(check_batch(g, batch));
    rc = training ? train(&p, grad_scale, loss, g->saved) : eval(&p, loss, g->saved);
    mds_arena_release(run->arena, mark);
    return rc;
}

enum mds_rc mds_gpt_train(struct mds_gpt *g, const struct mds_gpt_run *run,
                          const struct mds_gpt_batch *batch, float grad_scale,
                          struct mds_gpt_loss *loss)
{
    return run_pass(g, run, batch, 1, grad_scale, loss);
}

enum mds_rc mds_gpt_eval(struct mds_gpt *g, const struct mds_gpt_run *run,
                         const struct mds_gpt_batch *batch, struct mds_gpt_loss *loss)
{
    return run_pass(g, run, batch, 0, 0, loss);
}
