/* Fronts of embedding, loss, element-wise operations and the optimizer. */
#include "tensor/front.h"

enum mds_rc mds_op_embedding_fwd(struct mds_dev *dev,
                                 const struct mdsk_embedding_fwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->B < 1 || a->S < 1 || a->H < 1 || a->words < 1)
        return mds_front_broken("embedding_fwd", "B, S, H, words >= 1");
    if (a->first_word < 0 || a->first_token < 0)
        return mds_front_broken("embedding_fwd", "first_word, first_token >= 0");
    if (!a->token || !a->word || !a->y)
        return mds_front_broken("embedding_fwd", "token, word, y given");
    MDS_TRY(mds_front_dtype(dev, "embedding_fwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_EMBEDDING_FWD, mdsk_embedding_fwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "embedding_fwd",
                              kern->embedding_fwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_embedding_bwd(struct mds_dev *dev,
                                 const struct mdsk_embedding_bwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->B < 1 || a->S < 1 || a->H < 1 || a->words < 1)
        return mds_front_broken("embedding_bwd", "B, S, H, words >= 1");
    if (a->first_word < 0 || a->first_token < 0)
        return mds_front_broken("embedding_bwd", "first_word, first_token >= 0");
    if (!a->token || !a->dy || !a->dword)
        return mds_front_broken("embedding_bwd", "token, dy, dword given");
    MDS_TRY(mds_front_dtype(dev, "embedding_bwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_EMBEDDING_BWD, mdsk_embedding_bwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "embedding_bwd",
                              kern->embedding_bwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_xent_stats(struct mds_dev *dev, const struct mdsk_xent_stats *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->words < 1 || a->valid < 0 || a->valid > a->words ||
        a->ld < a->words)
        return mds_front_broken("xent_stats", "R, words >= 1, valid <= words <= ld");
    if (!a->logits || !a->target || !a->max || !a->sum || !a->target_logit)
        return mds_front_broken("xent_stats",
                                "logits, target, max, sum, target_logit given");
    MDS_TRY(mds_front_dtype(dev, "xent_stats", a->dtype));
    mds_dev_charge(dev, MDS_OP_XENT_STATS, mdsk_xent_stats_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "xent_stats",
                              kern->xent_stats(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_xent_loss(struct mds_dev *dev, const struct mdsk_xent_loss *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->parts < 1 || (a->parts > 1 && a->part_stride < a->R))
        return mds_front_broken("xent_loss", "R, parts >= 1, part_stride >= R");
    if (a->parts > 1 && a->lse == a->max)
        return mds_front_broken("xent_loss", "lse is max with one part only");
    if (!a->target || !a->max || !a->sum || !a->target_logit || !a->lse)
        return mds_front_broken("xent_loss",
                                "target, max, sum, target_logit, lse given");
    if (!a->loss_sum || !a->count)
        return mds_front_broken("xent_loss", "loss_sum, count given");
    mds_dev_charge(dev, MDS_OP_XENT_LOSS, mdsk_xent_loss_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "xent_loss",
                              kern->xent_loss(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_xent_bwd(struct mds_dev *dev, const struct mdsk_xent_bwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->words < 1 || a->valid < 0 || a->valid > a->words ||
        a->ld < a->words)
        return mds_front_broken("xent_bwd", "R, words >= 1, valid <= words <= ld");
    if (!a->logits || !a->target || !a->lse)
        return mds_front_broken("xent_bwd", "logits, target, lse given");
    MDS_TRY(mds_front_dtype(dev, "xent_bwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_XENT_BWD, mdsk_xent_bwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "xent_bwd", kern->xent_bwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_dropout(struct mds_dev *dev, const struct mdsk_dropout *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->rows.B < 1 || a->rows.S < 1 || a->H < 1)
        return mds_front_broken("dropout", "B, S, H >= 1");
    if (!(a->key.p > 0) || a->key.p >= 1)
        return mds_front_broken("dropout", "0 < p < 1");
    if (!a->x || !a->y)
        return mds_front_broken("dropout", "x, y given");
    MDS_TRY(mds_front_dtype(dev, "dropout", a->dtype));
    mds_dev_charge(dev, MDS_OP_DROPOUT, mdsk_dropout_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "dropout", kern->dropout(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_copy_rows(struct mds_dev *dev, const struct mdsk_copy_rows *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->C < 1 || a->ldx < a->C || a->ldy < a->C)
        return mds_front_broken("copy_rows", "R, C >= 1, ldx, ldy >= C");
    if (!a->x || !a->y || a->x == a->y)
        return mds_front_broken("copy_rows", "x, y given and apart");
    mds_dev_charge(dev, MDS_OP_COPY_ROWS, mdsk_copy_rows_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "copy_rows",
                              kern->copy_rows(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_cast(struct mds_dev *dev, const struct mdsk_cast *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->n < 1)
        return mds_front_broken("cast", "n >= 1");
    if (!a->x || !a->y || a->x == a->y)
        return mds_front_broken("cast", "x, y given and apart");
    MDS_TRY(mds_front_dtype(dev, "cast", a->from));
    MDS_TRY(mds_front_dtype(dev, "cast", a->to));
    mds_dev_charge(dev, MDS_OP_CAST, mdsk_cast_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "cast", kern->cast(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_add(struct mds_dev *dev, const struct mdsk_add *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->n < 1)
        return mds_front_broken("add", "n >= 1");
    if (!a->x || !a->y)
        return mds_front_broken("add", "x, y given");
    MDS_TRY(mds_front_dtype(dev, "add", a->dtype));
    mds_dev_charge(dev, MDS_OP_ADD, mdsk_add_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "add", kern->add(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_sum_squares(struct mds_dev *dev, const struct mdsk_sum_squares *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->n < 1)
        return mds_front_broken("sum_squares", "n >= 1");
    if (!a->x || !a->sum)
        return mds_front_broken("sum_squares", "x, sum given");
    mds_dev_charge(dev, MDS_OP_SUM_SQUARES, mdsk_sum_squares_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "sum_squares",
                              kern->sum_squares(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_adamw(struct mds_dev *dev, const struct mdsk_adamw *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->n < 1)
        return mds_front_broken("adamw", "n >= 1");
    if (!a->master || !a->m || !a->v || !a->grad)
        return mds_front_broken("adamw", "master, m, v, grad given");
    if (a->spans < 1 || a->spans > MDSK_ADAMW_SPANS ||
        a->span_end[a->spans - 1] != a->n)
        return mds_front_broken("adamw", "spans that end at n");
    if (!(a->correction1 > 0) || !(a->correction2 > 0))
        return mds_front_broken("adamw", "corrections > 0");
    MDS_TRY(mds_front_dtype(dev, "adamw", a->dtype));
    mds_dev_charge(dev, MDS_OP_ADAMW, mdsk_adamw_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "adamw", kern->adamw(mds_dev_stream(dev), a));
}
