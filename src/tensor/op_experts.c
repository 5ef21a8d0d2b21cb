/* SPDX-License-Identifier: BSD-3-Clause */
/* Contracts of a mixture of experts. */
#include "tensor/contract.h"

static int numbers_ok(int64_t R, int64_t E, int64_t k)
{
    return R >= 1 && E >= 1 && E <= MDSK_EXPERTS_MOST && k >= 1 && k <= E &&
           R <= INT32_MAX / k;
}

static const char numbers[] = "R, k >= 1, k <= E <= 256, R k copies in 32 bits";

enum mds_rc mds_check_route(struct mds_dev *dev, const struct mdsk_route *a)
{
    if (!numbers_ok(a->R, a->E, a->k) || a->H < 1)
        return mds_contract_broken("route", numbers);
    if (!a->x || !a->w || !a->choice || !a->weight)
        return mds_contract_broken("route", "x, w, choice, weight given");
    if (!(a->scale > 0) || (!a->sigmoid && (a->bias || a->unbiased)))
        return mds_contract_broken("route", "scale > 0, a bias for sigmoids only");
    return mds_contract_dtype(dev, "route", a->dtype);
}

enum mds_rc mds_check_route_sort(struct mds_dev *dev, const struct mdsk_route_sort *a)
{
    (void)dev; /* its numbers are i32 */

    if (!numbers_ok(a->R, a->E, a->k))
        return mds_contract_broken("route_sort", numbers);
    if (!a->choice || !a->first || !a->to || !a->from)
        return mds_contract_broken("route_sort", "choice, first, to, from given");
    return MDS_OK;
}

enum mds_rc mds_check_route_load(struct mds_dev *dev, const struct mdsk_route_load *a)
{
    (void)dev; /* its numbers are i32 and f32 */

    if (!numbers_ok(a->R, a->E, a->k) || a->groups < 1)
        return mds_contract_broken("route_load", numbers);
    if (!a->choice || !a->load)
        return mds_contract_broken("route_load", "choice, load given");
    return MDS_OK;
}

enum mds_rc mds_check_route_losses(struct mds_dev *dev,
                                   const struct mdsk_route_losses *a)
{
    (void)dev; /* its numbers are f32 and f64 */

    if (!numbers_ok(a->R, a->E, 1) || a->groups < 1)
        return mds_contract_broken("route_losses", numbers);
    if (!a->scores || !a->load || !a->sum)
        return mds_contract_broken("route_losses", "scores, load, sum given");
    return MDS_OK;
}

enum mds_rc mds_check_route_bwd(struct mds_dev *dev, const struct mdsk_route_bwd *a)
{
    if (!numbers_ok(a->R, a->E, a->k) || a->H < 1 || a->groups < 1)
        return mds_contract_broken("route_bwd", numbers);
    if (!a->x || !a->w || !a->scores || !a->weight || !a->choice || !a->dweight)
        return mds_contract_broken("route_bwd", "what forward had, and dweight, given");
    if (!a->dlogits || !a->dx || !a->dw || a->dx == a->x)
        return mds_contract_broken("route_bwd",
                                   "dlogits, dx, dw given, dx and x apart");
    if ((a->balance != 0 && !a->load) || !(a->scale > 0))
        return mds_contract_broken("route_bwd", "load given with balance, scale > 0");
    return mds_contract_dtype(dev, "route_bwd", a->dtype);
}

enum mds_rc mds_check_dispatch(struct mds_dev *dev, const struct mdsk_dispatch *a)
{
    if (!numbers_ok(a->R, a->k, a->k) || a->H < 1)
        return mds_contract_broken("dispatch", numbers);
    if (!a->from || !a->x || !a->y || a->x == a->y)
        return mds_contract_broken("dispatch", "from, x, y given, x and y apart");
    return mds_contract_dtype(dev, "dispatch", a->dtype);
}

enum mds_rc mds_check_combine(struct mds_dev *dev, const struct mdsk_combine *a)
{
    if (!numbers_ok(a->R, a->k, a->k) || a->H < 1)
        return mds_contract_broken("combine", numbers);
    if (!a->to || !a->x || !a->y || a->x == a->y)
        return mds_contract_broken("combine", "to, x, y given, x and y apart");
    return mds_contract_dtype(dev, "combine", a->dtype);
}

enum mds_rc mds_check_weigh(struct mds_dev *dev, const struct mdsk_weigh *a)
{
    if (!numbers_ok(a->R, a->k, a->k) || a->F < 1)
        return mds_contract_broken("weigh", numbers);
    if (!a->weight || !a->x || !a->y)
        return mds_contract_broken("weigh", "weight, x, y given");
    return mds_contract_dtype(dev, "weigh", a->dtype);
}

enum mds_rc mds_check_weigh_bwd(struct mds_dev *dev, const struct mdsk_weigh_bwd *a)
{
    if (!numbers_ok(a->R, a->k, a->k) || a->F < 1)
        return mds_contract_broken("weigh_bwd", numbers);
    if (!a->weight || !a->x || !a->dy || !a->dx || !a->dweight)
        return mds_contract_broken("weigh_bwd", "weight, x, dy, dx, dweight given");
    if (a->dx == a->x || a->dx == a->dy)
        return mds_contract_broken("weigh_bwd", "dx is not x or dy");
    return mds_contract_dtype(dev, "weigh_bwd", a->dtype);
}

static int layers_ok(int64_t rows, int64_t E, int64_t in, int64_t out, int64_t step)
{
    return rows >= 1 && E >= 1 && E <= MDSK_EXPERTS_MOST && in >= 1 && out >= 1 &&
           (E == 1 || step >= in * out);
}

static const char layers[] = "rows, in, out >= 1, 1 <= E <= 256, step >= in out";

enum mds_rc mds_check_experts_fwd(struct mds_dev *dev, const struct mdsk_experts_fwd *a)
{
    if (!layers_ok(a->rows, a->E, a->in, a->out, a->step))
        return mds_contract_broken("experts_fwd", layers);
    if (!a->first || !a->w || !a->x || !a->y || a->x == a->y)
        return mds_contract_broken("experts_fwd", "first, w, x, y given, x, y apart");
    return mds_contract_dtype(dev, "experts_fwd", a->dtype);
}

enum mds_rc mds_check_experts_bwd_input(struct mds_dev *dev,
                                        const struct mdsk_experts_bwd_input *a)
{
    if (!layers_ok(a->rows, a->E, a->in, a->out, a->step))
        return mds_contract_broken("experts_bwd_input", layers);
    if (!a->first || !a->w || !a->dy || !a->dx || a->dy == a->dx)
        return mds_contract_broken("experts_bwd_input",
                                   "first, w, dy, dx given, dy, dx apart");
    return mds_contract_dtype(dev, "experts_bwd_input", a->dtype);
}

enum mds_rc mds_check_experts_bwd_weight(struct mds_dev *dev,
                                         const struct mdsk_experts_bwd_weight *a)
{
    if (!layers_ok(a->rows, a->E, a->in, a->out, a->step))
        return mds_contract_broken("experts_bwd_weight", layers);
    if (!a->first || !a->dw || !a->x || !a->dy)
        return mds_contract_broken("experts_bwd_weight", "first, dw, x, dy given");
    return mds_contract_dtype(dev, "experts_bwd_weight", a->dtype);
}
