/* Fronts of the dense operations: products, norms, activations, attention, rotary. */
#include "tensor/front.h"

static int shape_ok(const struct mdsk_attention_shape *s)
{
    return s->B >= 1 && s->A >= 1 && s->G >= 1 && s->Sq >= 1 && s->Sk >= 1 &&
           s->D >= 1 && s->A % s->G == 0 && s->q_offset >= 0 && s->dropout.p >= 0 &&
           s->dropout.p < 1;
}

/* The distance between heads' rows of lse. */
static int stride_ok(int64_t stride, int64_t Sq)
{
    return stride == 0 || stride >= Sq;
}

enum mds_rc mds_op_linear_fwd(struct mds_dev *dev, const struct mdsk_linear_fwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->in < 1 || a->out < 1)
        return mds_front_broken("linear_fwd", "R, in, out >= 1");
    if (!a->x || !a->w || !a->y)
        return mds_front_broken("linear_fwd", "x, w, y given");
    if (a->y == a->x || a->gelu == a->x || a->gelu == a->y)
        return mds_front_broken("linear_fwd", "x, y and gelu are apart");
    MDS_TRY(mds_front_dtype(dev, "linear_fwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_LINEAR_FWD, mdsk_linear_fwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "linear_fwd",
                              kern->linear_fwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_linear_bwd_input(struct mds_dev *dev,
                                    const struct mdsk_linear_bwd_input *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->in < 1 || a->out < 1)
        return mds_front_broken("linear_bwd_input", "R, in, out >= 1");
    if (!a->dy || !a->w || !a->dx)
        return mds_front_broken("linear_bwd_input", "dy, w, dx given");
    if (a->dx == a->dy || a->dx == a->u)
        return mds_front_broken("linear_bwd_input", "dx is neither dy nor u");
    MDS_TRY(mds_front_dtype(dev, "linear_bwd_input", a->dtype));
    mds_dev_charge(dev, MDS_OP_LINEAR_BWD_INPUT, mdsk_linear_bwd_input_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "linear_bwd_input",
                              kern->linear_bwd_input(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_linear_bwd_weight(struct mds_dev *dev,
                                     const struct mdsk_linear_bwd_weight *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->in < 1 || a->out < 1)
        return mds_front_broken("linear_bwd_weight", "R, in, out >= 1");
    if (!a->x || !a->dy || !a->dw)
        return mds_front_broken("linear_bwd_weight", "x, dy, dw given");
    MDS_TRY(mds_front_dtype(dev, "linear_bwd_weight", a->dtype));
    mds_dev_charge(dev, MDS_OP_LINEAR_BWD_WEIGHT, mdsk_linear_bwd_weight_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "linear_bwd_weight",
                              kern->linear_bwd_weight(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_norm_fwd(struct mds_dev *dev, const struct mdsk_norm_fwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->H < 1 || !(a->eps > 0))
        return mds_front_broken("norm_fwd", "R, H >= 1, eps > 0");
    if (!a->x || !a->gamma || !a->y || !a->rstd)
        return mds_front_broken("norm_fwd", "x, gamma, y, rstd given");
    if (!a->r != !a->sum)
        return mds_front_broken("norm_fwd", "sum is given with r, and only then");
    if (a->kind == MDSK_LAYERNORM && !a->mean)
        return mds_front_broken("norm_fwd", "mean given in LayerNorm");
    if (a->kind == MDSK_RMSNORM && a->beta)
        return mds_front_broken("norm_fwd", "no beta in RMSNorm");
    if (a->y == a->x || a->y == a->r || a->y == a->sum)
        return mds_front_broken("norm_fwd", "y aliases none");
    MDS_TRY(mds_front_dtype(dev, "norm_fwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_NORM_FWD, mdsk_norm_fwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "norm_fwd", kern->norm_fwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_norm_bwd(struct mds_dev *dev, const struct mdsk_norm_bwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->H < 1)
        return mds_front_broken("norm_bwd", "R, H >= 1");
    if (!a->x || !a->gamma || !a->rstd || !a->dy || !a->dx || !a->dgamma)
        return mds_front_broken("norm_bwd", "x, gamma, rstd, dy, dx, dgamma given");
    if (a->kind == MDSK_LAYERNORM && !a->mean)
        return mds_front_broken("norm_bwd", "mean given in LayerNorm");
    if (a->dx == a->dy || a->dx == a->x)
        return mds_front_broken("norm_bwd", "dx aliases none");
    MDS_TRY(mds_front_dtype(dev, "norm_bwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_NORM_BWD, mdsk_norm_bwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "norm_bwd", kern->norm_bwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_attention_fwd(struct mds_dev *dev,
                                 const struct mdsk_attention_fwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (!shape_ok(&a->shape))
        return mds_front_broken(
            "attention_fwd",
            "shape: sizes >= 1, G divides A, q_offset >= 0, 0 <= p < 1");
    if (!a->q.data || !a->k.data || !a->v.data || !a->o.data || !a->lse)
        return mds_front_broken("attention_fwd", "q, k, v, o, lse given");
    if (!stride_ok(a->lse_stride, a->shape.Sq))
        return mds_front_broken("attention_fwd", "lse_stride 0 or >= Sq");
    MDS_TRY(mds_front_dtype(dev, "attention_fwd", a->shape.dtype));
    mds_dev_charge(dev, MDS_OP_ATTENTION_FWD, mdsk_attention_fwd_cost(a));
    mds_dev_charge_scratch(dev, mdsk_attention_fwd_scratch(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "attention_fwd",
                              kern->attention_fwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_attention_bwd(struct mds_dev *dev,
                                 const struct mdsk_attention_bwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (!shape_ok(&a->shape))
        return mds_front_broken(
            "attention_bwd",
            "shape: sizes >= 1, G divides A, q_offset >= 0, 0 <= p < 1");
    if (!a->q.data || !a->k.data || !a->v.data || !a->o.data || !a->lse)
        return mds_front_broken("attention_bwd", "q, k, v, o, lse given");
    if (!stride_ok(a->lse_stride, a->shape.Sq))
        return mds_front_broken("attention_bwd", "lse_stride 0 or >= Sq");
    if (!a->d_o.data || !a->dq.data || !a->dk.data || !a->dv.data || !a->delta)
        return mds_front_broken("attention_bwd", "d_o, dq, dk, dv, delta given");
    MDS_TRY(mds_front_dtype(dev, "attention_bwd", a->shape.dtype));
    mds_dev_charge(dev, MDS_OP_ATTENTION_BWD, mdsk_attention_bwd_cost(a));
    mds_dev_charge_scratch(dev, mdsk_attention_bwd_scratch(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "attention_bwd",
                              kern->attention_bwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_attention_merge(struct mds_dev *dev,
                                   const struct mdsk_attention_merge *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->B < 1 || a->A < 1 || a->Sq < 1 || a->D < 1)
        return mds_front_broken("attention_merge", "B, A, Sq, D >= 1");
    if (!a->acc.data || !a->o2.data || !a->lse || !a->lse2)
        return mds_front_broken("attention_merge", "acc, o2, lse, lse2 given");
    if (a->acc.data == a->o2.data || a->lse == a->lse2)
        return mds_front_broken("attention_merge", "acc is not o2, lse not lse2");
    if (!stride_ok(a->lse_stride, a->Sq) || !stride_ok(a->lse2_stride, a->Sq))
        return mds_front_broken("attention_merge", "lse strides 0 or >= Sq");
    MDS_TRY(mds_front_dtype(dev, "attention_merge", a->dtype));
    mds_dev_charge(dev, MDS_OP_ATTENTION_MERGE, mdsk_attention_merge_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "attention_merge",
                              kern->attention_merge(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_rope(struct mds_dev *dev, const struct mdsk_rope *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->B < 1 || a->S < 1 || a->A < 1)
        return mds_front_broken("rope", "B, S, A >= 1");
    if (a->rot < 2 || a->rot % 2 || a->rot > a->D)
        return mds_front_broken("rope", "rot even, 2 .. D");
    if (!a->x.data || !(a->theta > 0))
        return mds_front_broken("rope", "x given, theta > 0");
    MDS_TRY(mds_front_dtype(dev, "rope", a->dtype));
    mds_dev_charge(dev, MDS_OP_ROPE, mdsk_rope_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "rope", kern->rope(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_activation_fwd(struct mds_dev *dev,
                                  const struct mdsk_activation_fwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->F < 1)
        return mds_front_broken("activation_fwd", "R, F >= 1");
    if (!a->x || !a->y || a->x == a->y)
        return mds_front_broken("activation_fwd", "x, y given and apart");
    MDS_TRY(mds_front_dtype(dev, "activation_fwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_ACTIVATION_FWD, mdsk_activation_fwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "activation_fwd",
                              kern->activation_fwd(mds_dev_stream(dev), a));
}

enum mds_rc mds_op_activation_bwd(struct mds_dev *dev,
                                  const struct mdsk_activation_bwd *a)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (a->R < 1 || a->F < 1)
        return mds_front_broken("activation_bwd", "R, F >= 1");
    if (!a->x || !a->dy || !a->dx)
        return mds_front_broken("activation_bwd", "x, dy, dx given");
    if (a->kind == MDSK_SWIGLU && a->dx == a->dy)
        return mds_front_broken("activation_bwd", "dx is not dy in SwiGLU");
    MDS_TRY(mds_front_dtype(dev, "activation_bwd", a->dtype));
    mds_dev_charge(dev, MDS_OP_ACTIVATION_BWD, mdsk_activation_bwd_cost(a));
    if (!kern)
        return MDS_OK;
    return mds_front_launched(dev, "activation_bwd",
                              kern->activation_bwd(mds_dev_stream(dev), a));
}
