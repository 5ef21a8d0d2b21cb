/* SPDX-License-Identifier: BSD-3-Clause */
/* Contracts of embedding, loss, element-wise operations and the optimizer. */
#include "tensor/contract.h"

enum mds_rc mds_check_embedding_fwd(struct mds_dev *dev,
                                    const struct mdsk_embedding_fwd *a)
{
    if (a->B < 1 || a->S < 1 || a->H < 1 || a->words < 1)
        return mds_contract_broken("embedding_fwd", "B, S, H, words >= 1");
    if (a->first_word < 0 || a->first_token < 0)
        return mds_contract_broken("embedding_fwd", "first_word, first_token >= 0");
    if (!a->token || !a->word || !a->y)
        return mds_contract_broken("embedding_fwd", "token, word, y given");
    return mds_contract_dtype(dev, "embedding_fwd", a->dtype);
}

enum mds_rc mds_check_next_token(struct mds_dev *dev, const struct mdsk_next_token *a)
{
    if (a->B < 1 || a->V < 1 || a->stride < a->V)
        return mds_contract_broken("next_token", "B, V >= 1, stride >= V");
    if (!a->logits || !a->place || !a->start || !a->token || !a->made)
        return mds_contract_broken("next_token",
                                   "logits, place, start, token, made given");
    return mds_contract_dtype(dev, "next_token", a->dtype);
}

enum mds_rc mds_check_embedding_bwd(struct mds_dev *dev,
                                    const struct mdsk_embedding_bwd *a)
{
    if (a->B < 1 || a->S < 1 || a->H < 1 || a->words < 1)
        return mds_contract_broken("embedding_bwd", "B, S, H, words >= 1");
    if (a->first_word < 0 || a->first_token < 0)
        return mds_contract_broken("embedding_bwd", "first_word, first_token >= 0");
    if (!a->token || !a->dy || !a->dword)
        return mds_contract_broken("embedding_bwd", "token, dy, dword given");
    return mds_contract_dtype(dev, "embedding_bwd", a->dtype);
}

static enum mds_rc check_kinds(const char *op, const struct mdsk_kinds *k, int weighs)
{
    if (k->n < 0 || k->n > 256 || (k->n > 1 && !k->of) ||
        (weighs && k->of && !k->weight))
        return mds_contract_broken(op, "0 <= kinds <= 256, and the lists of several");
    return MDS_OK;
}

enum mds_rc mds_check_xent_stats(struct mds_dev *dev, const struct mdsk_xent_stats *a)
{
    if (a->R < 1 || a->words < 1 || a->valid < 0 || a->valid > a->words ||
        a->ld < a->words)
        return mds_contract_broken("xent_stats", "R, words >= 1, valid <= words <= ld");
    if (!a->logits || !a->target || !a->max || !a->sum || !a->target_logit)
        return mds_contract_broken("xent_stats",
                                   "logits, target, max, sum, target_logit given");
    MDS_TRY(check_kinds("xent_stats", &a->kinds, a->gradient));
    return mds_contract_dtype(dev, "xent_stats", a->dtype);
}

enum mds_rc mds_check_xent_loss(struct mds_dev *dev, const struct mdsk_xent_loss *a)
{
    (void)dev; /* its numbers are f32 */

    if (a->R < 1 || a->parts < 1 || (a->parts > 1 && a->part_stride < a->R))
        return mds_contract_broken("xent_loss", "R, parts >= 1, part_stride >= R");
    if (a->parts > 1 && a->lse == a->max)
        return mds_contract_broken("xent_loss", "lse is max with one part only");
    if (!a->target || !a->max || !a->sum || !a->target_logit || !a->lse)
        return mds_contract_broken("xent_loss",
                                   "target, max, sum, target_logit, lse given");
    if (!a->loss_sum || !a->count)
        return mds_contract_broken("xent_loss", "loss_sum, count given");
    return check_kinds("xent_loss", &a->kinds, 0);
}

enum mds_rc mds_check_xent_bwd(struct mds_dev *dev, const struct mdsk_xent_bwd *a)
{
    if (a->R < 1 || a->words < 1 || a->valid < 0 || a->valid > a->words ||
        a->ld < a->words)
        return mds_contract_broken("xent_bwd", "R, words >= 1, valid <= words <= ld");
    if (!a->logits || !a->target || !a->lse)
        return mds_contract_broken("xent_bwd", "logits, target, lse given");
    MDS_TRY(check_kinds("xent_bwd", &a->kinds, 1));
    return mds_contract_dtype(dev, "xent_bwd", a->dtype);
}

enum mds_rc mds_check_dropout(struct mds_dev *dev, const struct mdsk_dropout *a)
{
    if (a->rows.B < 1 || a->rows.S < 1 || a->H < 1)
        return mds_contract_broken("dropout", "B, S, H >= 1");
    if (!(a->key.p > 0) || a->key.p >= 1)
        return mds_contract_broken("dropout", "0 < p < 1");
    if (!a->x || !a->y)
        return mds_contract_broken("dropout", "x, y given");
    return mds_contract_dtype(dev, "dropout", a->dtype);
}

enum mds_rc mds_check_copy_rows(struct mds_dev *dev, const struct mdsk_copy_rows *a)
{
    (void)dev; /* of any type */

    if (a->R < 1 || a->C < 1 || a->ldx < a->C || a->ldy < a->C)
        return mds_contract_broken("copy_rows", "R, C >= 1, ldx, ldy >= C");
    if (!a->x || !a->y || a->x == a->y)
        return mds_contract_broken("copy_rows", "x, y given and apart");
    return MDS_OK;
}

enum mds_rc mds_check_cast(struct mds_dev *dev, const struct mdsk_cast *a)
{
    if (a->n < 1)
        return mds_contract_broken("cast", "n >= 1");
    if (!a->x || !a->y || a->x == a->y)
        return mds_contract_broken("cast", "x, y given and apart");
    MDS_TRY(mds_contract_dtype(dev, "cast", a->from));
    return mds_contract_dtype(dev, "cast", a->to);
}

enum mds_rc mds_check_add(struct mds_dev *dev, const struct mdsk_add *a)
{
    if (a->n < 1)
        return mds_contract_broken("add", "n >= 1");
    if (!a->x || !a->y)
        return mds_contract_broken("add", "x, y given");
    return mds_contract_dtype(dev, "add", a->dtype);
}

enum mds_rc mds_check_sum_squares(struct mds_dev *dev, const struct mdsk_sum_squares *a)
{
    (void)dev; /* its numbers are f32 */

    if (a->n < 1)
        return mds_contract_broken("sum_squares", "n >= 1");
    if (!a->x || !a->sum)
        return mds_contract_broken("sum_squares", "x, sum given");
    return MDS_OK;
}

enum mds_rc mds_check_adamw(struct mds_dev *dev, const struct mdsk_adamw *a)
{
    if (a->n < 1)
        return mds_contract_broken("adamw", "n >= 1");
    if (!a->master || !a->m || !a->v || !a->grad)
        return mds_contract_broken("adamw", "master, m, v, grad given");
    if (a->spans < 1 || a->spans > MDSK_ADAMW_SPANS ||
        a->span_end[a->spans - 1] != a->n)
        return mds_contract_broken("adamw", "spans that end at n");
    if (a->wide && !(a->width > 0))
        return mds_contract_broken("adamw", "width > 0");
    if (!(a->correction1 > 0) || !(a->correction2 > 0))
        return mds_contract_broken("adamw", "corrections > 0");
    return mds_contract_dtype(dev, "adamw", a->dtype);
}

enum mds_rc mds_check_muon_momentum(struct mds_dev *dev,
                                    const struct mdsk_muon_momentum *a)
{
    (void)dev; /* its numbers are f32 */

    if (a->n < 1)
        return mds_contract_broken("muon_momentum", "n >= 1");
    if (!a->m || !a->grad || !a->d || a->m == a->d || a->grad == a->d)
        return mds_contract_broken("muon_momentum", "m, grad, d given and apart");
    return MDS_OK;
}

enum mds_rc mds_check_axpby(struct mds_dev *dev, const struct mdsk_axpby *a)
{
    if (a->n < 1)
        return mds_contract_broken("axpby", "n >= 1");
    if (!a->y || a->x == a->y)
        return mds_contract_broken("axpby", "y given, and not x");
    MDS_TRY(mds_contract_dtype(dev, "axpby", a->from));
    return mds_contract_dtype(dev, "axpby", a->to);
}

enum mds_rc mds_check_muon_product(struct mds_dev *dev,
                                   const struct mdsk_muon_product *a)
{
    if (a->batch < 1 || a->m < 1 || a->n < 1 || a->k < 1)
        return mds_contract_broken("muon_product", "batch, m, n, k >= 1");
    if (!a->x || !a->w || !a->y || a->y == a->x || a->y == a->w || a->y == a->z)
        return mds_contract_broken("muon_product", "x, w, y given, y apart");
    return mds_contract_dtype(dev, "muon_product", a->dtype);
}

enum mds_rc mds_check_muon_step(struct mds_dev *dev, const struct mdsk_muon_step *a)
{
    if (a->n < 1)
        return mds_contract_broken("muon_step", "n >= 1");
    if (!a->master || !a->o)
        return mds_contract_broken("muon_step", "master, o given");
    MDS_TRY(mds_contract_dtype(dev, "muon_step", a->o_dtype));
    return mds_contract_dtype(dev, "muon_step", a->dtype);
}
