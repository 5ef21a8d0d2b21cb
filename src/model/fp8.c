/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers in FP8: operands are cast just before their GEMM, each with a scale
 * from the values that this call has.  Tensor cores of compute capability 9.0 multiply
 * rows by rows only, so the backward GEMMs take transposed codes.  Those of x can be
 * written by forward's cast, and saved. */
#include "model/modules.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "device/arena.h"
#include "tensor/op.h"

#include <stdlib.h>
#include <string.h>

/* Allocate what the cast writes: codes as asked for and a scale, if it has none. */
static enum mds_rc alloc_codes(const struct context *c, struct mdsk_fp8_cast *a,
                               int by_rows, int by_columns)
{
    if (!a->scale)
        MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, 1, &a->scale));
    if (by_rows)
        MDS_TRY(mds_arena_alloc(c->par.arena, MDS_MEM_WORK, a->R * mdsk_fp8_ld(a->C),
                                &a->rows));
    if (by_columns)
        MDS_TRY(mds_arena_alloc(c->par.arena, MDS_MEM_WORK, a->C * mdsk_fp8_ld(a->R),
                                &a->cols));
    return MDS_OK;
}

/* Cast x or a weight, to E4M3.  *out: the codes of its rows, or of its columns. */
static enum mds_rc cast(const struct context *c, struct mdsk_fp8_cast *a, int by_rows,
                        struct mdsk_fp8_operand *out)
{
    a->dtype = c->par.dtype;
    a->to = MDSK_E4M3;
    MDS_TRY(alloc_codes(c, a, by_rows, !by_rows));
    *out = (struct mdsk_fp8_operand){a->to, by_rows ? a->rows : a->cols, a->scale};
    return mds_op_fp8_cast(c->par.dev, a);
}

/* ---- inputs ---- */

/* Where the scale is in saved codes: behind those of x [R, in] transposed. */
static int64_t scale_at(int64_t R, int64_t in)
{
    return in * mdsk_fp8_ld(R);
}

int64_t mds_gpt_fp8_codes_bytes(int64_t R, int64_t in)
{
    return scale_at(R, in) + (int64_t)sizeof(float);
}

static float *scale_of(void *codes, int64_t R, int64_t in)
{
    return (float *)((char *)codes + scale_at(R, in));
}

/* Forward (by_rows) also writes transposed codes to in->codes, unless that is NULL.
 * Backward casts to transposed codes, where none were saved. */
static enum mds_rc cast_input(const struct context *c, int64_t R, int64_t C,
                              const struct linear_input *in, int by_rows,
                              struct mdsk_fp8_operand *out)
{
    struct mdsk_fp8_cast a = {.R = R,
                              .C = C,
                              .x = in->x,
                              .cols = in->codes,
                              .amax = in->amax,
                              .amax_known = in->amax != NULL,
                              .activated = in->activated,
                              .kind = c->g->cfg.activation};

    if (in->codes)
        a.scale = scale_of(in->codes, R, C);
    return cast(c, &a, by_rows, out);
}

/* ---- largest magnitudes ---- */

enum mds_rc mds_gpt_fp8_step_begin(const struct context *c, struct fp8_amax *m)
{
    size_t n = (size_t)mds_params_n(c->g->ps);
    void *all = NULL;

    if (!m->searched)
        m->searched = mds_zalloc(n, sizeof *m->searched);
    if (!m->searched)
        return MDS_EMEM;
    memset(m->searched, 0, n * sizeof *m->searched);
    MDS_TRY(mds_arena_alloc(c->par.arena, MDS_MEM_WORK,
                            (int64_t)(3 * n * sizeof *m->weight), &all));
    m->weight = all;
    m->input = m->weight + n;
    m->grad = m->input + n;
    return MDS_OK;
}

void mds_gpt_fp8_free(struct fp8_amax *m)
{
    free(m->searched);
}

uint32_t *mds_gpt_fp8_input_amax(const struct context *c, const struct linear_ids *id)
{
    return id->fp8 ? &c->fp8_amax->input[id->weight] : NULL;
}

uint32_t *mds_gpt_fp8_grad_amax(const struct context *c, const struct linear_ids *id)
{
    return id->fp8 ? &c->fp8_amax->grad[id->weight] : NULL;
}

/* w: a weight, or a copy of some heads (head_groups.c).  Its largest magnitude is that
 * of its last cast; those of copies are searched each time. */
static enum mds_rc cast_weight(const struct context *c, const struct linear_ids *id,
                               const void *w, int by_rows, struct mdsk_fp8_operand *out)
{
    struct mdsk_fp8_cast a = {.R = id->out, .C = id->in, .x = w};
    uint8_t *searched = &c->fp8_amax->searched[id->weight];

    if (!id->part) {
        a.amax = &c->fp8_amax->weight[id->weight];
        a.amax_known = *searched;
        *searched = 1;
    }
    return cast(c, &a, by_rows, out);
}

/* ---- gradients ---- */

/* Codes of a gradient in one buffer: by rows, by columns, and the scale. */
static int64_t rows_space(int64_t R, int64_t out)
{
    return mds_round_up(R * mdsk_fp8_ld(out), MDS_ARENA_ALIGN);
}

static int64_t columns_space(int64_t R, int64_t out, int for_weight)
{
    return for_weight ? mds_round_up(out * mdsk_fp8_ld(R), MDS_ARENA_ALIGN) : 0;
}

int64_t mds_gpt_fp8_gradient_bytes(int64_t R, int64_t out, int for_weight)
{
    return rows_space(R, out) + columns_space(R, out, for_weight) +
           (int64_t)sizeof(float);
}

static enum mdsk_dtype gradient_type(const struct context *c)
{
    return c->g->cfg.fp8.format == MDS_FP8_HYBRID ? MDSK_E5M2 : MDSK_E4M3;
}

void mds_gpt_fp8_gradient_at(const struct context *c, int64_t R, int64_t out,
                             int for_weight, void *codes, struct linear_grad *dy)
{
    char *cols = (char *)codes + rows_space(R, out);
    float *scale = (float *)(cols + columns_space(R, out, for_weight));

    dy->rows = (struct mdsk_fp8_operand){gradient_type(c), codes, scale};
    dy->cols =
        (struct mdsk_fp8_operand){gradient_type(c), for_weight ? cols : NULL, scale};
}

enum mds_rc mds_gpt_fp8_cast_grad(const struct context *c, int64_t R, int64_t out,
                                  uint32_t *amax, float *db,
                                  const struct linear_grad *dy)
{
    struct mdsk_fp8_cast a = {.R = R,
                              .C = out,
                              .dtype = c->par.dtype,
                              .to = gradient_type(c),
                              .x = dy->dy,
                              .sum = dy->cols.code ? db : NULL,
                              .amax = amax,
                              .amax_known = amax != NULL,
                              .rows = (void *)dy->rows.code,
                              .cols = (void *)dy->cols.code,
                              .scale = (float *)dy->rows.scale};

    return mds_op_fp8_cast(c->par.dev, &a);
}

/* ---- GEMMs ---- */

enum mds_rc mds_gpt_fp8_cast_input(const struct context *c, const struct linear_ids *id,
                                   int64_t R, struct linear_input *in)
{
    return cast_input(c, R, id->in, in, 1, &in->cast);
}

enum mds_rc mds_gpt_fp8_linear_fwd(const struct context *c, const struct linear_ids *id,
                                   const struct mdsk_linear_fwd *a,
                                   const struct linear_input *in)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct mdsk_fp8_gemm g = {.M = a->R,
                              .N = a->out,
                              .K = a->in,
                              .dtype = a->dtype,
                              .fast = 1,
                              .bias = a->b,
                              .y = a->y};

    if (in->cast.code)
        g.a = in->cast;
    else
        MDS_TRY(cast_input(c, a->R, a->in, in, 1, &g.a));
    MDS_TRY(cast_weight(c, id, a->w, 1, &g.b));
    MDS_TRY(mds_op_fp8_gemm(c->par.dev, &g));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_fp8_linear_bwd_input(const struct context *c,
                                         const struct linear_ids *id,
                                         const struct mdsk_linear_bwd_input *a,
                                         const struct linear_grad *dy)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct mdsk_fp8_gemm g = {.M = a->R,
                              .N = a->in,
                              .K = a->out,
                              .dtype = a->dtype,
                              .a = dy->rows,
                              .y = a->dx};

    MDS_TRY(cast_weight(c, id, a->w, 0, &g.b));
    MDS_TRY(mds_op_fp8_gemm(c->par.dev, &g));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_fp8_linear_bwd_weight(const struct context *c,
                                          const struct mdsk_linear_bwd_weight *a,
                                          const struct linear_input *in,
                                          const struct linear_grad *dy)
{
    struct mds_arena_mark mark = mds_arena_mark(c->par.arena);
    struct mdsk_fp8_gemm g = {.M = a->out,
                              .N = a->in,
                              .K = a->R,
                              .dtype = MDSK_F32,
                              .add = !a->write,
                              .a = dy->cols,
                              .y = a->dw};

    if (in->codes)
        g.b = (struct mdsk_fp8_operand){MDSK_E4M3, in->codes,
                                        scale_of(in->codes, a->R, a->in)};
    else
        MDS_TRY(cast_input(c, a->R, a->in, in, 0, &g.b));
    MDS_TRY(mds_op_fp8_gemm(c->par.dev, &g));
    mds_arena_release(c->par.arena, mark);
    return MDS_OK;
}
