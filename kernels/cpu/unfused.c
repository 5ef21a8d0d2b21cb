/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of unfused attention, in f32 for every storage type. */
#include "kernels/cpu/unfused.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm.h"
#include "kernels/philox.h"

static void *alloc_scratch(void *stream, int64_t bytes)
{
    (void)stream;
    return mdsk_scratch(mdsk_ceil_div(bytes, (int64_t)sizeof(float)));
}

static int zero_bytes(void *stream, void *p, int64_t bytes)
{
    (void)stream;
    memset(p, 0, (size_t)bytes);
    return 0;
}

static int pack_heads(void *stream, const struct mdsk_unfused_tokens *t, void *packed)
{
    (void)stream;
#pragma omp parallel for schedule(static)                                              \
    num_threads(mdsk_threads_for(t->rows * t->width))
    for (int64_t i = 0; i < t->rows; i++) {
        float *row = (float *)packed + i * t->width;
        int64_t there = i < t->n ? t->D : 0;

        if (there > 0)
            mdsk_widen(t->dtype, t->heads.data,
                       mdsk_head_at(&t->heads, t->b, t->first + i, t->h), there, row);
        memset(row + there, 0, (size_t)(t->width - there) * sizeof *row);
    }
    return 0;
}

static int unpack_heads(void *stream, const struct mdsk_unfused_tokens *t,
                        const float *packed)
{
    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(t->n * t->D))
    for (int64_t i = 0; i < t->n; i++)
        mdsk_narrow(t->dtype, packed + i * t->width, t->D, t->heads.data,
                    mdsk_head_at(&t->heads, t->b, t->first + i, t->h));
    return 0;
}

static int run_gemm(void *stream, const struct mdsk_unfused_gemm *p)
{
    const struct mdsk_operand a = {p->a, p->flip_a ? p->m : p->k, p->flip_a};
    const struct mdsk_operand b = {p->b, p->flip_b ? p->k : p->n, p->flip_b};

    (void)stream;
    return mdsk_gemm(p->m, p->n, p->k, &a, &b, p->c, p->n, p->add);
}

/* What dropout multiplies the probabilities of query i by, into factor[begin .. end-1].
 */
static void dropout_factors(const struct mdsk_unfused_block *x, int64_t i,
                            int64_t begin, int64_t end, float *factor)
{
    const struct mdsk_attention_shape *s = &x->shape;
    const struct mdsk_dropout_key *d = &s->dropout;
    const uint32_t threshold = mdsk_dropout_threshold(d->p);
    int64_t token = mdsk_attention_token(s, x->h, x->first + i);
    uint32_t word[4] = {0};

    for (int64_t j = begin; j < end; j++) {
        int64_t key = s->first_key + x->key + j;

        if (j == begin || key % 4 == 0)
            mdsk_dropout_block(d->seed, d->site, d->step, s->first_sample + x->b, token,
                               key / 4, word);
        factor[j] = word[key % 4] >= threshold ? 1 / (1 - d->p) : 0;
    }
}

/* A query's scores as softmax takes them. */
struct row_scores {
    const float *raw;
    float scale, slope, distance; /* ALiBi's, of key 0 */
};

static struct row_scores row_scores_of(const struct mdsk_unfused_block *x,
                                       const float *scores, int64_t i)
{
    return (struct row_scores){
        scores + i * x->n, x->shape.scale, mdsk_attention_slope(&x->shape, x->h),
        mdsk_attention_distance(&x->shape, x->first + i, x->key)};
}

/* Less top. */
static float score(const struct row_scores *r, int64_t j, float top)
{
    return r->raw[j] * r->scale - top + r->slope * (r->distance + (float)j);
}

/* p [n] first holds dropout's dropout_factors, if there are any. */
static void softmax_fwd_row(int64_t begin, int64_t end, int64_t n,
                            const struct row_scores *scores, int drops, float *p,
                            float *lse)
{
    float top = -INFINITY;
    double sum = 0;

    for (int64_t j = begin; j < end; j++)
        top = fmaxf(top, score(scores, j, 0));
    for (int64_t j = begin; j < end; j++)
        sum += (double)expf(score(scores, j, top));
    for (int64_t j = begin; j < end; j++) {
        float prob = expf(score(scores, j, top)) / (float)sum;

        p[j] = drops ? prob * p[j] : prob;
    }
    for (int64_t j = 0; j < begin; j++)
        p[j] = 0;
    for (int64_t j = end; j < n; j++)
        p[j] = 0;
    *lse = top + logf((float)sum);
}

static int softmax_fwd_block(void *stream, const struct mdsk_unfused_block *x,
                             const struct mdsk_unfused_softmax_fwd *a)
{
    const int drops = x->shape.dropout.p > 0;

    (void)stream;
#pragma omp parallel for schedule(dynamic) num_threads(mdsk_threads_for(x->m * x->n))
    for (int64_t i = 0; i < x->m; i++) {
        float *p = (float *)a->p + i * x->n;
        int64_t begin = mdsk_unfused_begin(x, i), end = mdsk_unfused_end(x, i);
        struct row_scores scores = row_scores_of(x, a->scores, i);

        if (drops)
            dropout_factors(x, i, begin, end, p);
        softmax_fwd_row(begin, end, x->n, &scores, drops, p, &a->lse[i]);
    }
    return 0;
}

static float dot_product(int64_t n, const float *x, const float *y)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return (float)sum;
}

/* Row i; p as in softmax_fwd_row. */
static void softmax_bwd_row(const struct mdsk_unfused_block *x,
                            const struct mdsk_unfused_softmax_bwd *a, int64_t i)
{
    const float *o = (const float *)a->o + i * a->width;
    const float *d_o = (const float *)a->d_o + i * a->width;
    const struct row_scores scores = row_scores_of(x, a->scores, i);
    const float *d_p = a->d_p + i * x->n;
    float *p = (float *)a->p + i * x->n, *ds = (float *)a->ds + i * x->n;
    const int drops = x->shape.dropout.p > 0;
    const float scale = x->shape.scale, delta = dot_product(a->width, o, d_o);
    const int64_t begin = mdsk_unfused_begin(x, i), end = mdsk_unfused_end(x, i);

    if (drops)
        dropout_factors(x, i, begin, end, p);
    for (int64_t j = 0; j < begin; j++)
        p[j] = ds[j] = 0;
    for (int64_t j = begin; j < end; j++) {
        float prob = expf(score(&scores, j, a->lse[i])), f = drops ? p[j] : 1;

        p[j] = prob * f;
        ds[j] = prob * (f * d_p[j] - delta) * scale;
    }
    for (int64_t j = end; j < x->n; j++)
        p[j] = ds[j] = 0;
    a->delta[i] = delta;
}

static int softmax_bwd_block(void *stream, const struct mdsk_unfused_block *x,
                             const struct mdsk_unfused_softmax_bwd *a)
{
    (void)stream;
#pragma omp parallel for schedule(dynamic) num_threads(mdsk_threads_for(x->m * x->n))
    for (int64_t i = 0; i < x->m; i++)
        softmax_bwd_row(x, a, i);
    return 0;
}

const struct mdsk_unfused_steps mdsk_unfused_steps_cpu = {
    .wide = 1,
    .here = 1,
    .scratch = alloc_scratch,
    .zero = zero_bytes,
    .pack = pack_heads,
    .unpack = unpack_heads,
    .gemm = run_gemm,
    .softmax_fwd = softmax_fwd_block,
    .softmax_bwd = softmax_bwd_block};
