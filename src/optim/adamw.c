#include "optim/adamw.h"
#include "base/alloc.h"
#include "tensor/op.h"

#include <math.h>
#include <stdlib.h>

/* Consecutive elements of the flat buffers with the same weight decay. */
struct range {
    int64_t first, n;
    int decay;
};

struct mds_adamw {
    struct mds_optim_config cfg;
    struct mds_params *ps; /* borrowed */
    struct mds_dev *dev;   /* borrowed */
    float *m, *v;          /* in the arena */
    int64_t steps;
    int ranges;
    struct range *range;
};

int64_t mds_adamw_bytes(const struct mds_params *ps)
{
    return 2 * mds_params_span(ps) * (int64_t)sizeof(float);
}

/* A range reaches up to where the next begins: gaps hold zeros and stay zeros. */
static enum mds_rc find_ranges(struct mds_adamw *o)
{
    struct range *r = mds_zalloc((size_t)mds_params_n(o->ps), sizeof *r);
    int n = 0;

    if (!r)
        return MDS_EMEM;
    for (int id = 0; id < mds_params_n(o->ps); id++) {
        const struct mds_param *p = mds_params_get(o->ps, id);

        if (n == 0 || r[n - 1].decay != p->spec.decay) {
            r[n] = (struct range){.first = p->offset, .decay = p->spec.decay};
            n++;
        }
        r[n - 1].n = p->offset + p->count - r[n - 1].first;
    }
    o->range = r;
    o->ranges = n;
    return MDS_OK;
}

enum mds_rc mds_adamw_create(const struct mds_optim_config *cfg, struct mds_params *ps,
                             struct mds_dev *dev, struct mds_arena *arena,
                             struct mds_adamw **out)
{
    struct mds_adamw *o = mds_zalloc(1, sizeof *o);
    int64_t bytes = mds_params_span(ps) * (int64_t)sizeof(float);
    void *m = NULL, *v = NULL;
    enum mds_rc rc;

    if (!o)
        return MDS_EMEM;
    o->cfg = *cfg;
    o->ps = ps;
    o->dev = dev;
    rc = find_ranges(o);
    if (rc)
        goto destroy;
    rc = mds_arena_take(arena, MDS_MEM_OPTIM, bytes, &m);
    if (rc)
        goto destroy;
    rc = mds_arena_take(arena, MDS_MEM_OPTIM, bytes, &v);
    if (rc)
        goto destroy;
    mds_dev_zero(dev, m, bytes);
    mds_dev_zero(dev, v, bytes);
    o->m = m;
    o->v = v;
    *out = o;
    return MDS_OK;

destroy:
    mds_adamw_destroy(o);
    return rc;
}

void mds_adamw_destroy(struct mds_adamw *o)
{
    if (!o)
        return;
    free(o->range);
    free(o);
}

enum mds_rc mds_adamw_grad_squares(struct mds_adamw *o, double *sum)
{
    struct mdsk_sum_squares a = {
        .n = mds_params_span(o->ps), .x = mds_params_grads(o->ps), .sum = sum};

    return mds_op_sum_squares(o->dev, &a);
}

enum mds_rc mds_adamw_step(struct mds_adamw *o, double lr, double grad_scale)
{
    const struct mds_optim_config *c = &o->cfg;
    double t = (double)++o->steps;
    struct mdsk_adamw a = {.lr = (float)lr,
                           .beta1 = (float)c->beta1,
                           .beta2 = (float)c->beta2,
                           .eps = (float)c->eps,
                           .correction1 = (float)(1.0 - pow(c->beta1, t)),
                           .correction2 = (float)(1.0 - pow(c->beta2, t)),
                           .grad_scale = (float)grad_scale};

    for (int i = 0; i < o->ranges; i++) {
        const struct range *r = &o->range[i];

        a.n = r->n;
        a.weight_decay = r->decay ? (float)c->weight_decay : 0;
        a.master = mds_params_weights(o->ps) + r->first;
        a.grad = mds_params_grads(o->ps) + r->first;
        a.m = o->m + r->first;
        a.v = o->v + r->first;
        MDS_TRY(mds_op_adamw(o->dev, &a));
    }
    return MDS_OK;
}

double mds_clip_scale(double clip, double norm)
{
    double scale = clip / (norm + 1e-6);

    return clip > 0 && scale < 1 ? scale : 1;
}
