/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradient's norm, and the update of a piece, on the device or the host. */
#include "base/minmax.h"
#include "optim/adamw.h"
#include "optim/internal.h"
#include "tensor/op.h"

int mds_zero_owns_slices(const struct mds_zero *z)
{
    return z->parts.sharded;
}

/* Consecutive ranges that are no duplicates, in one go. */
static enum mds_rc unit_squares(struct mds_zero *z, int unit, double *sum)
{
    const struct zero_range *r = z->parts.range + z->parts.shard[unit].range;
    int n = z->parts.shard[unit].ranges;

    for (int i = 0; i < n; i++) {
        struct zero_piece p = {.unit = unit, .first = r[i].first, .n = r[i].n};
        struct mdsk_sum_squares a = {.x = mds_zero_grad_at(z, &p), .sum = sum};

        if (r[i].duplicate)
            continue;
        while (i + 1 < n && !r[i + 1].duplicate)
            p.n += r[++i].n;
        a.n = p.n;
        MDS_TRY(mds_op_sum_squares(z->dev, &a));
    }
    return MDS_OK;
}

enum mds_rc mds_zero_grad_squares(struct mds_zero *z, double *sum)
{
    mds_dev_zero(z->dev, sum, sizeof *sum);
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(unit_squares(z, i, sum));
    return MDS_OK;
}

/* The update from `skip` elements further on, as yet of nothing. */
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

/* In as few launches as spans allow: a bias alone does not fill a GPU. */
enum mds_rc mds_zero_update_piece(const struct mds_zero *z, const struct zero_piece *p,
                                  const struct mdsk_adamw *a,
                                  enum mds_rc (*launch)(const struct mds_zero *z,
                                                        const struct mdsk_adamw *a))
{
    const struct zero_shard *u = &z->parts.shard[p->unit];
    struct mdsk_adamw b = update_from(a, 0);

    for (int i = u->range; i < u->range + u->ranges; i++) {
        const struct zero_range *r = &z->parts.range[i];
        int64_t from = mds_max(r->first, p->first);
        int64_t n = mds_min(r->first + r->n, p->first + p->n) - from;

        if (n <= 0)
            continue;
        if (b.spans == MDSK_ADAMW_SPANS) {
            MDS_TRY(launch(z, &b));
            b = update_from(a, from - p->first);
        }
        add_span(&b, n, r->decay);
    }
    return b.spans > 0 ? launch(z, &b) : MDS_OK;
}

static enum mds_rc launch_on_device(const struct mds_zero *z,
                                    const struct mdsk_adamw *a)
{
    return mds_op_adamw(z->dev, a);
}

static enum mds_rc launch_on_host(const struct mds_zero *z, const struct mdsk_adamw *a)
{
    (void)z;
    return mdsk_adamw_cpu(NULL, a)
               ? mds_fail(MDS_EMEM, "the host's update: no scratch memory")
               : MDS_OK;
}

enum mds_rc mds_zero_update_on_host(const struct mds_zero *z,
                                    const struct zero_piece *p,
                                    const struct mdsk_adamw *a)
{
    return mds_zero_update_piece(z, p, a, launch_on_host);
}

static enum mds_rc update_unit(struct mds_zero *z, int unit, struct mdsk_adamw a)
{
    const struct zero_shard *u = &z->parts.shard[unit];
    struct zero_piece p = mds_partition_piece(&z->parts, unit);

    a.master = z->master ? z->master + u->at : (float *)mds_zero_weight_at(z, &p);
    a.m = z->m + u->at;
    a.v = z->v + u->at;
    a.grad = mds_zero_grad_at(z, &p);
    a.dtype = z->dtype;
    a.weight = z->master ? mds_zero_weight_at(z, &p) : NULL;
    MDS_TRY(mds_zero_update_piece(z, &p, &a, launch_on_device));
    return mds_zero_weights_publish(z, unit);
}

enum mds_rc mds_zero_update(struct mds_zero *z, double lr, double grad_scale)
{
    struct mdsk_adamw a = mds_adamw_at(&z->optim, ++z->steps, lr, grad_scale);

    MDS_TRY(mds_zero_weights_settle(z));
    if (z->offload)
        return mds_zero_offload_update(z, &a);
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(update_unit(z, i, a));
    return MDS_OK;
}
