/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers in FP8: operands are cast just before their GEMM, each with a scale
 * from the values that this call has.  Tensor cores of compute capability 9.0 multiply
 * rows by rows only, so the backward GEMMs take transposed codes. */
#include "model/modules.h"
#include "tensor/op.h"

/* Which codes of a tensor a GEMM reads. */
enum side { BY_ROWS, BY_COLUMNS };

/* The tensor x [R, C] in FP8, in working memory.  sum: receives its column sums. */
static enum mds_rc cast(const struct context *c, int64_t R, int64_t C, const void *x,
                        enum mdsk_dtype to, enum side side, float *sum,
                        struct mdsk_fp8_operand *out)
{
    int64_t codes = side == BY_ROWS ? R * mdsk_fp8_ld(C) : C * mdsk_fp8_ld(R);
    struct mdsk_fp8_cast a = {
        .R = R, .C = C, .dtype = c->par.dtype, .to = to, .x = x, .sum = sum};
    void *at = NULL;

    MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, 1, &a.scale));
    MDS_TRY(mds_arena_alloc(c->par.arena, MDS_MEM_WORK, codes, &at));
    a.rows = side == BY_ROWS ? at : NULL;
    a.cols = side == BY_COLUMNS ? at : NULL;
    *out = (struct mdsk_fp8_operand){to, at, a.scale};
    return mds_op_fp8_cast(c->par.dev, &a);
}

static enum mdsk_dtype gradient_type(const struct context *c)
{
    return c->g->cfg.fp8.format == MDS_FP8_HYBRID ? MDSK_E5M2 : MDSK_E4M3;
}

enum mds_rc mds_gpt_fp8_linear_fwd(const struct context *c,
                                   const struct mdsk_linear_fwd *a)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct mdsk_fp8_gemm g = {.M = a->R,
                              .N = a->out,
                              .K = a->in,
                              .dtype = a->dtype,
                              .fast = 1,
                              .bias = a->b,
                              .y = a->y};
    struct mdsk_activation_fwd act = {.kind = MDSK_GELU,
                                      .R = a->R,
                                      .F = a->out,
                                      .dtype = a->dtype,
                                      .x = a->y,
                                      .y = a->gelu};

    MDS_TRY(cast(c, a->R, a->in, a->x, MDSK_E4M3, BY_ROWS, NULL, &g.a));
    MDS_TRY(cast(c, a->out, a->in, a->w, MDSK_E4M3, BY_ROWS, NULL, &g.b));
    MDS_TRY(mds_op_fp8_gemm(c->par.dev, &g));
    mds_arena_release(c->par.arena, mark);
    return a->gelu ? mds_op_activation_fwd(c->par.dev, &act) : MDS_OK;
}

enum mds_rc mds_gpt_fp8_linear_bwd_input(const struct context *c,
                                         const struct mdsk_linear_bwd_input *a)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct mdsk_fp8_gemm g = {
        .M = a->R, .N = a->in, .K = a->out, .dtype = a->dtype, .y = a->dx};
    struct mdsk_activation_bwd act = {.kind = MDSK_GELU,
                                      .R = a->R,
                                      .F = a->in,
                                      .dtype = a->dtype,
                                      .x = a->u,
                                      .dy = a->dx,
                                      .dx = a->dx};

    MDS_TRY(cast(c, a->R, a->out, a->dy, gradient_type(c), BY_ROWS, NULL, &g.a));
    MDS_TRY(cast(c, a->out, a->in, a->w, MDSK_E4M3, BY_COLUMNS, NULL, &g.b));
    MDS_TRY(mds_op_fp8_gemm(c->par.dev, &g));
    mds_arena_release(c->par.arena, mark);
    return a->u ? mds_op_activation_bwd(c->par.dev, &act) : MDS_OK;
}

enum mds_rc mds_gpt_fp8_linear_bwd_weight(const struct context *c,
                                          const struct mdsk_linear_bwd_weight *a)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct mdsk_fp8_gemm g = {.M = a->out,
                              .N = a->in,
                              .K = a->R,
                              .dtype = MDSK_F32,
                              .add = !a->write,
                              .y = a->dw};

    MDS_TRY(cast(c, a->R, a->out, a->dy, gradient_type(c), BY_COLUMNS, a->db, &g.a));
    MDS_TRY(cast(c, a->R, a->in, a->x, MDSK_E4M3, BY_COLUMNS, NULL, &g.b));
    MDS_TRY(mds_op_fp8_gemm(c->par.dev, &g));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}
