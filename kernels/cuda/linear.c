/* SPDX-License-Identifier: BSD-3-Clause */
/* y = x W^T + b and its gradients by cuBLASLt, with its epilogues where they are
 * faster. */
#include "kernels/cuda/linear.h"

#include <errno.h>

#include "kernels/cuda/gemm.h"

enum { TIMED_RUNS = 4 }; /* of the kernel that an epilogue could replace */

/* With the bias as epilogue; if cuBLASLt cannot do that, fill y with the bias and let
 * the GEMM add to it. */
static int gemm_and_bias(void *stream, const struct mdsk_linear_fwd *a)
{
    struct mdsk_cuda_gemm_operands o = {.a = a->w, .b = a->x, .bias = a->b, .c = a->y};
    struct mdsk_cuda_gemm_shape s =
        mdsk_cuda_gemm_shape_of(a->out, a->R, a->in, a->dtype, a->dtype, &o);
    struct mdsk_cuda_gemm_plan *p = NULL;
    int err;

    s.flip_a = 1;
    if (!a->b)
        return mdsk_cuda_gemm(stream, &s, &o);
    s.epilogue = CUBLASLT_EPILOGUE_BIAS;
    err = mdsk_cuda_find_gemm_plan(stream, &s, &o, &p);
    if (err || p->usable)
        return err ? err : mdsk_cuda_run_gemm_plan(stream, p, &o);
    s.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    s.add = 1;
    o.bias = NULL;
    err = mdsk_cuda_broadcast_row(stream, a->R, a->out, a->dtype, a->b, a->y);
    return err ? err : mdsk_cuda_gemm(stream, &s, &o);
}

static int gelu_fwd(cudaStream_t stream, const void *what)
{
    const struct mdsk_linear_fwd *a = what;
    struct mdsk_activation_fwd act = mdsk_linear_gelu_fwd(a);

    return mdsk_activation_fwd_cuda(stream, &act);
}

/* In place: dx is dy on entry. */
static int gelu_bwd(cudaStream_t stream, const void *what)
{
    const struct mdsk_linear_bwd_input *a = what;
    struct mdsk_activation_bwd act = mdsk_linear_gelu_bwd(a);

    return mdsk_activation_bwd_cuda(stream, &act);
}

/* Two ways to compute the same: a GEMM with an epilogue, or a GEMM and then a separate
 * kernel.  Timing them is harmless: both write only what the real run writes again. */
struct choice {
    struct mdsk_cuda_gemm_shape fused, unfused;
    struct mdsk_cuda_gemm_operands fused_operands, unfused_operands;
    mdsk_cuda_work_fn *work;
    const void *what;
};

/* GELU's epilogues need rows of whole 16-byte vectors. cuBLASLt suggests algorithms for
 * other shapes as well, but those read and write outside their operands. */
static int suits_gelu(const struct mdsk_cuda_gemm_shape *s)
{
    const int64_t step = 8;

    return s->in != MDSK_F32 && s->alignment >= 16 && s->m % step == 0 &&
           s->k % step == 0;
}

/* *fused: NULL if two launches are faster, or the only way. */
static int choose_launches(cudaStream_t stream, const struct choice *c,
                           const struct mdsk_cuda_gemm_plan **fused)
{
    struct mdsk_cuda_gemm_plan *p = NULL, *f = NULL;
    int err;

    *fused = NULL;
    if (!suits_gelu(&c->fused))
        return 0;
    err = mdsk_cuda_find_gemm_plan(stream, &c->unfused, &c->unfused_operands, &p);
    if (!err)
        err = mdsk_cuda_find_gemm_plan(stream, &c->fused, &c->fused_operands, &f);
    if (err || !f->usable || f->ms <= 0 || p->ms <= 0)
        return err;
    if (f->separate_ms <= 0 && mdsk_cuda_can_autotune(stream))
        f->separate_ms = mdsk_cuda_time(stream, c->work, c->what, TIMED_RUNS);
    if (f->separate_ms > 0 && f->ms < p->ms + f->separate_ms)
        *fused = f;
    return 0;
}

static int choose_fwd(cudaStream_t stream, const struct mdsk_linear_fwd *a,
                      struct choice *c, const struct mdsk_cuda_gemm_plan **fused)
{
    *c = (struct choice){
        .fused_operands =
            {.a = a->w, .b = a->x, .bias = a->b, .c = a->gelu, .aux = a->y},
        .unfused_operands = {.a = a->w, .b = a->x, .bias = a->b, .c = a->y},
        .work = gelu_fwd,
        .what = a};
    c->fused = mdsk_cuda_gemm_shape_of(a->out, a->R, a->in, a->dtype, a->dtype,
                                       &c->fused_operands);
    c->unfused = mdsk_cuda_gemm_shape_of(a->out, a->R, a->in, a->dtype, a->dtype,
                                         &c->unfused_operands);
    c->fused.flip_a = c->unfused.flip_a = 1;
    c->fused.epilogue =
        a->b ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    c->unfused.epilogue = a->b ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    return choose_launches(stream, c, fused);
}

int mdsk_linear_fwd_cuda(void *stream, const struct mdsk_linear_fwd *a)
{
    const struct mdsk_cuda_gemm_plan *fused = NULL;
    struct choice c;
    int err = a->by_rows ? mdsk_cuda_one_row(stream, a) : -ENOTSUP;

    if (err != -ENOTSUP)
        return err;
    err = a->gelu ? choose_fwd(stream, a, &c, &fused) : 0;
    if (err || fused)
        return err ? err : mdsk_cuda_run_gemm_plan(stream, fused, &c.fused_operands);
    err = gemm_and_bias(stream, a);
    return err || !a->gelu ? err : gelu_fwd(stream, a);
}

int mdsk_linear_bwd_input_cuda(void *stream, const struct mdsk_linear_bwd_input *a)
{
    struct choice c = {
        .fused_operands = {.a = a->w, .b = a->dy, .c = a->dx, .aux = a->u},
        .unfused_operands = {.a = a->w, .b = a->dy, .c = a->dx},
        .work = gelu_bwd,
        .what = a};
    const struct mdsk_cuda_gemm_plan *fused = NULL;
    int err = 0;

    c.fused = mdsk_cuda_gemm_shape_of(a->in, a->R, a->out, a->dtype, a->dtype,
                                      &c.fused_operands);
    c.unfused = mdsk_cuda_gemm_shape_of(a->in, a->R, a->out, a->dtype, a->dtype,
                                        &c.unfused_operands);
    c.fused.epilogue = CUBLASLT_EPILOGUE_DGELU;
    if (a->u)
        err = choose_launches(stream, &c, &fused);
    if (err || fused)
        return err ? err : mdsk_cuda_run_gemm_plan(stream, fused, &c.fused_operands);
    err = mdsk_cuda_gemm(stream, &c.unfused, &c.unfused_operands);
    return err || !a->u ? err : gelu_bwd(stream, a);
}

static int gemm_and_add_bias_grad(cudaStream_t stream,
                                  const struct mdsk_cuda_gemm_plan *p,
                                  const struct mdsk_cuda_gemm_operands *o, int64_t out,
                                  float *db)
{
    int err = mdsk_cuda_run_gemm_plan(stream, p, o);

    return err ? err : mdsk_cuda_add_sums(stream, out, o->bias, db);
}

/* Column sums of dy into db; run only to be timed. */
static int run_column_sums(cudaStream_t stream, const void *what)
{
    const struct mdsk_linear_bwd_weight *a = what;

    return mdsk_cuda_column_sums(stream, a->R, a->out, a->dtype, a->dy, a->db);
}

/* Milliseconds, measured at the first call for this shape. */
static float column_sums_ms(cudaStream_t stream, const struct mdsk_linear_bwd_weight *a,
                            struct mdsk_cuda_gemm_plan *p)
{
    struct mdsk_linear_bwd_weight mine = *a;
    int64_t size = a->out * (int64_t)sizeof *a->db;

    if (p->separate_ms > 0 || !mdsk_cuda_can_autotune(stream))
        return p->separate_ms;
    mine.db = mdsk_cuda_alloc(stream, size);
    if (!mine.db)
        return 0;
    cudaMemsetAsync(mine.db, 0, (size_t)size, stream);
    p->separate_ms = mdsk_cuda_time(stream, run_column_sums, &mine, TIMED_RUNS);
    mdsk_cuda_free(stream, mine.db);
    return p->separate_ms;
}

/* The GEMM can sum dy's columns in its epilogue, but few algorithms support that, and
 * they may be slower than two passes.  *fused: NULL if two passes are faster. */
static int choose_bias_grad(cudaStream_t stream, const struct mdsk_linear_bwd_weight *a,
                            const struct mdsk_cuda_gemm_shape *s,
                            const struct mdsk_cuda_gemm_operands *o,
                            const struct mdsk_cuda_gemm_plan **fused)
{
    struct mdsk_cuda_gemm_operands alone = *o;
    struct mdsk_cuda_gemm_shape plain = *s;
    struct mdsk_cuda_gemm_plan *p = NULL, *f = NULL;
    int err;

    plain.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    alone.bias = NULL;
    err = mdsk_cuda_find_gemm_plan(stream, &plain, &alone, &p);
    if (!err)
        err = mdsk_cuda_find_gemm_plan(stream, s, o, &f);
    *fused = NULL;
    if (!err && f->usable && p->ms > 0 && f->ms > 0 &&
        f->ms < p->ms + column_sums_ms(stream, a, p))
        *fused = f;
    return err;
}

int mdsk_linear_bwd_weight_cuda(void *stream, const struct mdsk_linear_bwd_weight *a)
{
    struct mdsk_cuda_gemm_operands o = {.a = a->x, .b = a->dy, .c = a->dw};
    struct mdsk_cuda_gemm_shape s =
        mdsk_cuda_gemm_shape_of(a->in, a->out, a->R, a->dtype, MDSK_F32, &o);
    const struct mdsk_cuda_gemm_plan *fused = NULL;
    int err = 0;

    s.flip_b = 1;
    s.add = !a->write;
    if (a->db && a->dtype != MDSK_F32) {
        struct mdsk_cuda_gemm_shape both = s;
        struct mdsk_cuda_gemm_operands with = o;

        both.epilogue = CUBLASLT_EPILOGUE_BGRADB;
        with.bias =
            mdsk_cuda_scratch(stream, MDSK_CUDA_BIAS, a->out * (int64_t)sizeof *a->db);
        if (!with.bias)
            return -ENOMEM;
        err = choose_bias_grad(stream, a, &both, &with, &fused);
        if (err || fused)
            return err ? err
                       : gemm_and_add_bias_grad(stream, fused, &with, a->out, a->db);
    }
    err = mdsk_cuda_gemm(stream, &s, &o);
    if (err || !a->db)
        return err;
    return mdsk_cuda_column_sums(stream, a->R, a->out, a->dtype, a->dy, a->db);
}
