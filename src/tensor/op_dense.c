/* SPDX-License-Identifier: BSD-3-Clause */
/* Contracts of GEMMs, norms, activations, attention and rotary positions. */
#include "tensor/contract.h"

static int shape_ok(const struct mdsk_attention_shape *s)
{
    return s->B >= 1 && s->A >= 1 && s->G >= 1 && s->Sq >= 1 && s->Sk >= 1 &&
           s->D >= 1 && s->A % s->G == 0 && s->q_offset >= 0 && s->window >= 0 &&
           s->dropout.p >= 0 && s->dropout.p < 1 &&
           (s->alibi_heads == 0 ||
            (s->first_head + s->A <= s->alibi_heads && s->scale > 0));
}

/* The distance between heads' rows of lse. */
static int stride_ok(int64_t stride, int64_t Sq)
{
    return stride == 0 || stride >= Sq;
}

enum mds_rc mds_check_linear_fwd(struct mds_dev *dev, const struct mdsk_linear_fwd *a)
{
    if (a->R < 1 || a->in < 1 || a->out < 1)
        return mds_contract_broken("linear_fwd", "R, in, out >= 1");
    if (!a->x || !a->w || !a->y)
        return mds_contract_broken("linear_fwd", "x, w, y given");
    if (a->y == a->x || a->gelu == a->x || a->gelu == a->y)
        return mds_contract_broken("linear_fwd", "x, y and gelu are apart");
    return mds_contract_dtype(dev, "linear_fwd", a->dtype);
}

enum mds_rc mds_check_linear_bwd_input(struct mds_dev *dev,
                                       const struct mdsk_linear_bwd_input *a)
{
    if (a->R < 1 || a->in < 1 || a->out < 1)
        return mds_contract_broken("linear_bwd_input", "R, in, out >= 1");
    if (!a->dy || !a->w || !a->dx)
        return mds_contract_broken("linear_bwd_input", "dy, w, dx given");
    if (a->dx == a->dy || a->dx == a->u)
        return mds_contract_broken("linear_bwd_input", "dx is neither dy nor u");
    return mds_contract_dtype(dev, "linear_bwd_input", a->dtype);
}

enum mds_rc mds_check_linear_bwd_weight(struct mds_dev *dev,
                                        const struct mdsk_linear_bwd_weight *a)
{
    if (a->R < 1 || a->in < 1 || a->out < 1)
        return mds_contract_broken("linear_bwd_weight", "R, in, out >= 1");
    if (!a->x || !a->dy || !a->dw)
        return mds_contract_broken("linear_bwd_weight", "x, dy, dw given");
    return mds_contract_dtype(dev, "linear_bwd_weight", a->dtype);
}

static int is_fp8(enum mdsk_dtype t)
{
    return t == MDSK_E4M3 || t == MDSK_E5M2;
}

static int is_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

enum mds_rc mds_check_fp8_cast(struct mds_dev *dev, const struct mdsk_fp8_cast *a)
{
    if (a->R < 1 || a->C < 1)
        return mds_contract_broken("fp8_cast", "R, C >= 1");
    if (!a->x || !a->scale || (!a->rows && !a->cols))
        return mds_contract_broken("fp8_cast", "x, scale, and rows or cols given");
    if (a->amax_known && !a->amax)
        return mds_contract_broken("fp8_cast", "amax given if it is known");
    if (a->activated && a->sum)
        return mds_contract_broken("fp8_cast", "activated without sum");
    if (!is_fp8(a->to))
        return mds_contract_broken("fp8_cast", "to E4M3 or E5M2");
    if (!is_aligned(a->rows) || !is_aligned(a->cols) || !is_aligned(a->scale))
        return mds_contract_broken("fp8_cast", "rows, cols, scale aligned to 16 bytes");
    return mds_contract_dtype(dev, "fp8_cast", a->dtype);
}

enum mds_rc mds_check_fp8_gemm(struct mds_dev *dev, const struct mdsk_fp8_gemm *a)
{
    if (a->M < 1 || a->N < 1 || a->K < 1)
        return mds_contract_broken("fp8_gemm", "M, N, K >= 1");
    if (!a->a.code || !a->a.scale || !a->b.code || !a->b.scale || !a->y)
        return mds_contract_broken("fp8_gemm", "a, b and their scales, y given");
    if (!is_fp8(a->a.type) || !is_fp8(a->b.type) ||
        (a->a.type == MDSK_E5M2 && a->b.type == MDSK_E5M2))
        return mds_contract_broken("fp8_gemm", "a and b of FP8, one of them E4M3");
    if ((a->add && a->dtype != MDSK_F32) || (a->bias && a->dtype == MDSK_F32))
        return mds_contract_broken("fp8_gemm", "add with f32, bias with 16 bits only");
    return mds_contract_dtype(dev, "fp8_gemm", a->dtype);
}

enum mds_rc mds_check_norm_fwd(struct mds_dev *dev, const struct mdsk_norm_fwd *a)
{
    enum mdsk_norm_step step = a->part.step;

    if (a->R < 1 || a->H < 1 || !(a->eps > 0))
        return mds_contract_broken("norm_fwd", "R, H >= 1, eps > 0");
    if (step && (a->part.W < a->H || a->r || a->amax))
        return mds_contract_broken("norm_fwd", "steps: W >= H, no r, no amax");
    if ((a->part.sums != NULL) != (step == MDSK_NORM_SUMS || step == MDSK_NORM_SQUARES))
        return mds_contract_broken("norm_fwd", "sums of SUMS and SQUARES");
    if ((a->part.totals != NULL) !=
        (step == MDSK_NORM_REST ||
         (step == MDSK_NORM_SQUARES && a->kind == MDSK_LAYERNORM)))
        return mds_contract_broken("norm_fwd", "totals where they are read");
    if (!a->x || !a->gamma || !a->rstd)
        return mds_contract_broken("norm_fwd", "x, gamma, rstd given");
    if (!a->y && a->amax)
        return mds_contract_broken("norm_fwd", "amax with y, and only then");
    if (!a->r != !a->sum)
        return mds_contract_broken("norm_fwd", "sum is given with r, and only then");
    if (a->kind == MDSK_LAYERNORM && !a->mean)
        return mds_contract_broken("norm_fwd", "mean given in LayerNorm");
    if (a->kind == MDSK_RMSNORM && a->beta)
        return mds_contract_broken("norm_fwd", "no beta in RMSNorm");
    if (a->y && (a->y == a->x || a->y == a->r || a->y == a->sum))
        return mds_contract_broken("norm_fwd", "y aliases none");
    return mds_contract_dtype(dev, "norm_fwd", a->dtype);
}

enum mds_rc mds_check_norm_bwd(struct mds_dev *dev, const struct mdsk_norm_bwd *a)
{
    int sums = a->part.step == MDSK_NORM_SUMS;

    if (a->R < 1 || a->H < 1)
        return mds_contract_broken("norm_bwd", "R, H >= 1");
    if (a->part.step == MDSK_NORM_SQUARES || (a->part.step && a->part.W < a->H))
        return mds_contract_broken("norm_bwd", "steps SUMS and REST, W >= H");
    if ((a->part.sums != NULL) != sums ||
        (a->part.totals != NULL) != (a->part.step == MDSK_NORM_REST))
        return mds_contract_broken("norm_bwd", "sums of SUMS, totals of REST");
    if (!a->x || !a->gamma || !a->rstd || !a->dy || sums == (a->dx && a->dgamma))
        return mds_contract_broken("norm_bwd", "x, gamma, rstd, dy, dx, dgamma given");
    if (a->kind == MDSK_LAYERNORM && !a->mean)
        return mds_contract_broken("norm_bwd", "mean given in LayerNorm");
    if (a->dx == a->dy || a->dx == a->x)
        return mds_contract_broken("norm_bwd", "dx aliases none but d");
    return mds_contract_dtype(dev, "norm_bwd", a->dtype);
}

enum mds_rc mds_check_attention_fwd(struct mds_dev *dev,
                                    const struct mdsk_attention_fwd *a)
{
    if (!shape_ok(&a->shape))
        return mds_contract_broken(
            "attention_fwd",
            "shape: sizes >= 1, G divides A, q_offset, window >= 0, 0 <= p < 1; with "
            "alibi_heads no more heads, scale > 0");
    if (!a->q.data || !a->k.data || !a->v.data || !a->o.data || !a->lse)
        return mds_contract_broken("attention_fwd", "q, k, v, o, lse given");
    if (!stride_ok(a->lse_stride, a->shape.Sq))
        return mds_contract_broken("attention_fwd", "lse_stride 0 or >= Sq");
    MDS_TRY(mds_contract_dtype(dev, "attention_fwd", a->shape.dtype));
    mds_dev_charge_scratch(dev, mdsk_attention_fwd_scratch(a));
    return MDS_OK;
}

enum mds_rc mds_check_attention_bwd(struct mds_dev *dev,
                                    const struct mdsk_attention_bwd *a)
{
    if (!shape_ok(&a->shape))
        return mds_contract_broken(
            "attention_bwd",
            "shape: sizes >= 1, G divides A, q_offset, window >= 0, 0 <= p < 1; with "
            "alibi_heads no more heads, scale > 0");
    if (!a->q.data || !a->k.data || !a->v.data || !a->o.data || !a->lse)
        return mds_contract_broken("attention_bwd", "q, k, v, o, lse given");
    if (!stride_ok(a->lse_stride, a->shape.Sq))
        return mds_contract_broken("attention_bwd", "lse_stride 0 or >= Sq");
    if (!a->d_o.data || !a->dq.data || !a->dk.data || !a->dv.data || !a->delta)
        return mds_contract_broken("attention_bwd", "d_o, dq, dk, dv, delta given");
    MDS_TRY(mds_contract_dtype(dev, "attention_bwd", a->shape.dtype));
    mds_dev_charge_scratch(dev, mdsk_attention_bwd_scratch(a));
    return MDS_OK;
}

enum mds_rc mds_check_attention_cached(struct mds_dev *dev,
                                       const struct mdsk_attention_cached *a)
{
    const struct mdsk_attention_shape *s = &a->shape;

    if (!shape_ok(s) || s->Sq != 1 || s->Sk != s->q_offset + 1 || s->Sk > a->tokens ||
        s->first_query != s->q_offset || s->first_key != 0)
        return mds_contract_broken("attention_cached",
                                   "one query, behind the keys of the cache");
    if (s->start || s->dropout.p > 0 || s->unfused || s->D % 8 || s->D > MDSK_CACHED_D)
        return mds_contract_broken("attention_cached",
                                   "no starts, dropout or unfused; D of whole 8");
    if (!a->q.data || !a->k.data || !a->v.data || !a->new_k.data || !a->new_v.data ||
        !a->o.data)
        return mds_contract_broken("attention_cached",
                                   "q, k, v, new_k, new_v, o given");
    if (a->rot < 0 || a->rot % 2 || a->rot > s->D || (a->rot > 0 && !a->frequency))
        return mds_contract_broken("attention_cached", "rot even, up to D");
    return mds_contract_dtype(dev, "attention_cached", s->dtype);
}

enum mds_rc mds_check_attention_merge(struct mds_dev *dev,
                                      const struct mdsk_attention_merge *a)
{
    if (a->B < 1 || a->A < 1 || a->Sq < 1 || a->D < 1)
        return mds_contract_broken("attention_merge", "B, A, Sq, D >= 1");
    if (!a->acc.data || !a->o2.data || !a->lse || !a->lse2)
        return mds_contract_broken("attention_merge", "acc, o2, lse, lse2 given");
    if (a->acc.data == a->o2.data || a->lse == a->lse2)
        return mds_contract_broken("attention_merge", "acc is not o2, lse not lse2");
    if (!stride_ok(a->lse_stride, a->Sq) || !stride_ok(a->lse2_stride, a->Sq))
        return mds_contract_broken("attention_merge", "lse strides 0 or >= Sq");
    return mds_contract_dtype(dev, "attention_merge", a->dtype);
}

enum mds_rc mds_check_attention_most(struct mds_dev *dev,
                                     const struct mdsk_attention_most *a)
{
    (void)dev;
    if (a->B < 1 || a->A < 1 || a->Sq < 1)
        return mds_contract_broken("attention_most", "B, A, Sq >= 1");
    if (!a->lse || !a->most || a->lse == a->most)
        return mds_contract_broken("attention_most", "lse, most given and apart");
    if (!stride_ok(a->lse_stride, a->Sq))
        return mds_contract_broken("attention_most", "lse_stride 0 or >= Sq");
    return MDS_OK;
}

enum mds_rc mds_check_rope(struct mds_dev *dev, const struct mdsk_rope *a)
{
    if (a->B < 1 || a->S < 1 || a->A < 1)
        return mds_contract_broken("rope", "B, S, A >= 1");
    if (a->rot < 2 || a->rot % 2 || a->rot > a->D)
        return mds_contract_broken("rope", "rot even, 2 .. D");
    if (!a->x.data || !a->frequency || !(a->scale > 0))
        return mds_contract_broken("rope", "x and frequency given, scale > 0");
    return mds_contract_dtype(dev, "rope", a->dtype);
}

enum mds_rc mds_check_activation_fwd(struct mds_dev *dev,
                                     const struct mdsk_activation_fwd *a)
{
    if (a->R < 1 || a->F < 1)
        return mds_contract_broken("activation_fwd", "R, F >= 1");
    if (!a->x || !a->y || a->x == a->y)
        return mds_contract_broken("activation_fwd", "x, y given and apart");
    return mds_contract_dtype(dev, "activation_fwd", a->dtype);
}

enum mds_rc mds_check_activation_bwd(struct mds_dev *dev,
                                     const struct mdsk_activation_bwd *a)
{
    if (a->R < 1 || a->F < 1)
        return mds_contract_broken("activation_bwd", "R, F >= 1");
    if (!a->x || !a->dy || !a->dx)
        return mds_contract_broken("activation_bwd", "x, dy, dx given");
    if (mdsk_activation_of(a->kind)->gated && a->dx == a->dy)
        return mds_contract_broken("activation_bwd",
                                   "dx is not dy where there is a gate");
    return mds_contract_dtype(dev, "activation_bwd", a->dtype);
}
