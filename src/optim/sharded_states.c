/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/sharded_states.h"
#include "base/minmax.h"
#include "tensor/op.h"

#include <math.h>

static enum mds_rc launch_on_host(struct mds_dev *dev, const struct mdsk_adamw *a)
{
    (void)dev;
    return mdsk_adamw_cpu(NULL, a)
               ? mds_fail(MDS_EMEM,
                          "optimizer update on the host: no memory for scratch")
               : MDS_OK;
}

/* ---- memory ---- */

enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights, enum mdsk_dtype dtype,
                            enum mds_place_kind place)
{
    int on_device = place == MDS_PLACE_DEVICE;
    int first;

    *st = (struct zero_states){.storage = s, .parts = s->parts, .optim = *optim};
    st->launch = on_device ? mds_op_adamw : launch_on_host;
    st->dtype = dtype;
    st->master_is_weights = dtype == MDSK_F32 && weights->place == place;
    if (st->master_is_weights)
        st->array[ZERO_MASTER] = *weights;
    first = st->master_is_weights ? ZERO_M : ZERO_MASTER;
    st->array[first] =
        (struct zero_array){.place = place, .elem = sizeof(float), .sharded = 1};
    MDS_TRY(
        mds_storage_alloc(s, MDS_MEM_OPTIM, &st->array[first], ZERO_STATES - first));
    for (int k = ZERO_M; k < ZERO_STATES && on_device; k++)
        mds_dev_zero(s->dev, st->array[k].base, s->parts->own * st->array[k].elem);
    return mds_swap_create(s, st->array, &st->swap);
}

void mds_states_fini(struct zero_states *st)
{
    mds_swap_destroy(st->swap);
    for (int k = st->master_is_weights ? ZERO_M : ZERO_MASTER; k < ZERO_STATES; k++)
        if (st->storage)
            mds_storage_release(st->storage, &st->array[k]);
}

/* ---- ranges ---- */

enum mds_rc mds_states_get(struct zero_states *st, enum zero_state what,
                           const struct zero_range *p, float *host)
{
    MDS_TRY(mds_swap_wait(st->swap));
    return mds_storage_get(st->storage, &st->array[what], p, host);
}

enum mds_rc mds_states_put(struct zero_states *st, enum zero_state what,
                           const struct zero_range *p, float *host)
{
    MDS_TRY(mds_swap_wait(st->swap));
    return mds_storage_put(st->storage, &st->array[what], p, host);
}

enum mds_rc mds_states_wait(struct zero_states *st)
{
    return mds_swap_wait(st->swap);
}

/* ---- the update ---- */

/* *a with its pointers advanced by `skip` elements, and no spans yet. */
static struct mdsk_adamw update_from(const struct mdsk_adamw *a, int64_t skip)
{
    struct mdsk_adamw b = *a;

    b.n = 0;
    b.spans = 0;
    b.decays = 0;
    b.master += skip;
    b.m += skip;
    b.v += skip;
    b.grad += skip;
    if (b.weight)
        b.weight = (char *)b.weight + skip * (int64_t)mdsk_dtype_size(b.dtype);
    return b;
}

static void add_span(struct mdsk_adamw *a, int64_t n, int decay)
{
    uint32_t bit = 1u << a->spans;

    a->decays |= decay ? bit : 0;
    a->n += n;
    a->span_end[a->spans++] = a->n;
}

/* As few launches as possible: a bias alone does not fill a GPU. */
enum mds_rc mds_states_launch(const struct zero_partition *parts,
                              const struct zero_range *p, const struct mdsk_adamw *a,
                              zero_launch_fn *launch, struct mds_dev *dev)
{
    const struct zero_shard *s = &parts->shard[p->unit];
    struct mdsk_adamw b = update_from(a, 0);

    for (int i = s->first_group; i < s->first_group + s->groups; i++) {
        const struct zero_param_group *r = &parts->param_group[i];
        int64_t from = mds_max(r->first, p->first);
        int64_t n = mds_min(r->first + r->n, p->first + p->n) - from;

        if (n <= 0)
            continue;
        if (b.spans == MDSK_ADAMW_SPANS) {
            MDS_TRY(launch(dev, &b));
            b = update_from(a, from - p->first);
        }
        add_span(&b, n, r->decay);
    }
    return b.spans > 0 ? launch(dev, &b) : MDS_OK;
}

enum mds_rc mds_states_begin(struct zero_states *st, double lr, double grad_scale,
                             struct mdsk_adamw *a)
{
    const struct mds_optim_config *c = &st->optim;
    double t = (double)++st->updates;

    *a = (struct mdsk_adamw){.lr = (float)lr,
                             .beta1 = (float)c->beta1,
                             .beta2 = (float)c->beta2,
                             .eps = (float)c->eps,
                             .weight_decay = (float)c->weight_decay,
                             .correction1 = (float)(1.0 - pow(c->beta1, t)),
                             .correction2 = (float)(1.0 - pow(c->beta2, t)),
                             .grad_scale = (float)grad_scale,
                             .dtype = st->dtype};
    st->rc = mds_swap_begin(st->swap);
    return st->rc;
}

static enum mds_rc update_next_range(struct zero_states *st, struct zero_range *p,
                                     const struct mdsk_adamw *unit)
{
    struct mdsk_adamw a = *unit;
    float *at[ZERO_SWAP_ARRAYS];
    int64_t skip;

    MDS_TRY(mds_swap_in(st->swap, p, at));
    skip = p->first - st->parts->shard[p->unit].first;
    a.master = at[ZERO_MASTER];
    a.m = at[ZERO_M];
    a.v = at[ZERO_V];
    a.grad += skip;
    if (a.weight)
        a.weight = (char *)a.weight + skip * (int64_t)mdsk_dtype_size(a.dtype);
    MDS_TRY(mds_states_launch(st->parts, p, &a, st->launch, st->storage->dev));
    mds_swap_out(st->swap);
    return MDS_OK;
}

enum mds_rc mds_states_update(struct zero_states *st, int unit,
                              const struct mdsk_adamw *a)
{
    int64_t left = st->parts->shard[unit].n;
    struct zero_range p;

    for (; left > 0 && !st->rc; left -= p.n)
        st->rc = update_next_range(st, &p, a);
    return st->rc;
}
