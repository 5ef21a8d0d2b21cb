/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/kernels/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

const struct tolerance tolerance = {
    .o = 1e-6, .lse = 3e-7, .dq = 3e-6, .dk = 3e-6, .dv = 1e-6};

double spare(enum mdsk_dtype t)
{
    static const double more[] = {[MDSK_BF16] = 3e-3, [MDSK_F16] = 4e-4};

    return t != MDSK_F32 && strcmp(backend()->name, "cuda") == 0 ? more[t] : 0;
}

static struct mdsk_heads strides(enum layout layout, int64_t heads, int64_t S,
                                 int64_t D)
{
    struct mdsk_heads h = {0};

    if (layout == HEAD_MAJOR) {
        h.head_stride = S * D;
        h.token_stride = D;
        h.batch_stride = heads * S * D;
    } else {
        h.head_stride = layout == FUSED ? D + 2 : D;
        h.token_stride = heads * h.head_stride + (layout == FUSED ? 7 : 0);
        h.batch_stride = S * h.token_stride;
    }
    return h;
}

struct mdsk_heads heads(enum mdsk_dtype t, struct vec *x, struct mdsk_heads at)
{
    at.data = vec_as(t, x);
    return at;
}

static int64_t at(const struct mdsk_heads *x, int64_t b, int64_t s, int64_t h)
{
    return b * x->batch_stride + s * x->token_stride + h * x->head_stride;
}

/* The first of the tokens, counted from key 0, that token `at` of sequence b sees. */
static int64_t document_start(enum documents documents, int64_t b, int64_t at)
{
    static const int lengths[] = {1, 63, 64, 65, 127, 2, 128, 129, 1, 17, 300};
    int64_t start = 0;
    int i = (int)b * 3;

    if (documents != MIXED)
        return documents == SINGLE ? at : 0;
    while (start + lengths[i % 11] <= at)
        start += lengths[i++ % 11];
    return start;
}

static void set_starts(struct problem *p, enum documents documents)
{
    struct mdsk_attention_shape *s = &p->s;

    p->start = malloc((size_t)((s->first_query + s->Sq) * s->B) * sizeof *p->start);
    for (int64_t t = 0; t < (s->first_query + s->Sq) * s->B; t++) {
        int64_t at = t / s->B - s->first_query + s->q_offset;

        p->start[t] = (int32_t)(s->first_key +
                                document_start(documents, t % s->B, at > 0 ? at : 0));
    }
    s->start = p->start;
}

void problem_init(struct problem *p, const struct shape *c)
{
    int64_t nq, nk;

    *p = (struct problem){.s = {.B = c->B,
                                .A = c->A,
                                .G = c->G,
                                .Sq = c->Sq,
                                .Sk = c->Sk,
                                .D = c->D,
                                .q_offset = c->q_offset,
                                .window = c->window,
                                .scale = 1 / sqrtf((float)c->D),
                                .dropout = {c->p, 0x123456789abcdef, 5, 9},
                                .first_sample = 3,
                                .first_head = 1,
                                .first_query = 1000,
                                .first_key = 1000 + c->Sk % 4}};
    if (c->documents)
        set_starts(p, c->documents);
    p->at_q = strides(c->layout, c->A, c->Sq, c->D);
    p->at_k = strides(c->layout, c->G, c->Sk, c->D);
    nq = c->B * p->at_q.batch_stride;
    nk = c->B * p->at_k.batch_stride;
    p->q = vec_random(nq, 1, 1);
    p->k = vec_random(nk, 2, 1);
    p->v = vec_random(nk, 3, 1);
    p->d_o = vec_random(nq, 4, 1);
    p->o = vec_zero(nq);
    p->dq = vec_zero(nq);
    p->dk = vec_zero(nk);
    p->dv = vec_zero(nk);
    p->lse = vec_unset(c->B * c->A * c->Sq);
    p->delta = vec_unset(c->B * c->A * c->Sq);
}

void problem_fini(struct problem *p)
{
    struct vec *all[] = {&p->q,   &p->k,  &p->v,  &p->o,  &p->lse,
                         &p->d_o, &p->dq, &p->dk, &p->dv, &p->delta};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vec_free(all[i]);
    free(p->start);
}

void run_fwd(struct problem *p)
{
    struct mdsk_attention_fwd a = {.shape = p->s,
                                   .q = heads(p->s.dtype, &p->q, p->at_q),
                                   .k = heads(p->s.dtype, &p->k, p->at_k),
                                   .v = heads(p->s.dtype, &p->v, p->at_k),
                                   .o = heads(p->s.dtype, &p->o, p->at_q),
                                   .lse = p->lse.f,
                                   .lse_stride = p->lse_stride};

    assert_int_equal(backend()->attention_fwd(NULL, &a), 0);
}

void run_bwd(struct problem *p)
{
    struct mdsk_attention_bwd a = {.shape = p->s,
                                   .q = heads(p->s.dtype, &p->q, p->at_q),
                                   .k = heads(p->s.dtype, &p->k, p->at_k),
                                   .v = heads(p->s.dtype, &p->v, p->at_k),
                                   .o = heads(p->s.dtype, &p->o, p->at_q),
                                   .d_o = heads(p->s.dtype, &p->d_o, p->at_q),
                                   .dq = heads(p->s.dtype, &p->dq, p->at_q),
                                   .dk = heads(p->s.dtype, &p->dk, p->at_k),
                                   .dv = heads(p->s.dtype, &p->dv, p->at_k),
                                   .lse = p->lse.f,
                                   .lse_stride = p->lse_stride,
                                   .delta = p->delta.f};

    assert_int_equal(backend()->attention_bwd(NULL, &a), 0);
}

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* What dropout leaves of the probability of (b, h, i, j). */
static double factor(const struct mdsk_attention_shape *s, int64_t b, int64_t h,
                     int64_t i, int64_t j)
{
    int64_t key = s->first_key + j;
    uint32_t word[4];

    if (!(s->dropout.p > 0))
        return 1;
    mdsk_dropout_block(s->dropout.seed, s->dropout.site, s->dropout.step,
                       s->first_sample + b,
                       ((s->first_head + h) << 32) + s->first_query + i, key / 4, word);
    return word[key % 4] >= mdsk_dropout_threshold(s->dropout.p)
               ? 1 / (1 - (double)s->dropout.p)
               : 0;
}

static int sees(const struct mdsk_attention_shape *s, int64_t b, int64_t i, int64_t j)
{
    int64_t before = i + s->q_offset - j;

    if (s->start && s->first_key + j < s->start[(s->first_query + i) * s->B + b])
        return 0;
    return before >= 0 && (s->window == 0 || before < s->window);
}

/* ALiBi, by the recipe of its authors: the slopes of 2^k heads are a geometric sequence
 * that begins with its factor 2^(-8 / 2^k). */
static double bias(const struct mdsk_attention_shape *s, int64_t h, int64_t i,
                   int64_t j)
{
    double power = exp2(floor(log2((double)s->alibi_heads)));
    double n = (double)(s->first_head + h), slope;

    if (s->alibi_heads == 0)
        return 0;
    slope = n < power ? pow(exp2(-8 / power), n + 1)
                      : pow(exp2(-8 / (2 * power)), 2 * (n - power) + 1);
    return slope * (double)(s->first_key + j - s->first_query - i);
}

/* Probabilities of query i into prob[Sk], zero where masked; returns lse. */
static double probabilities(const struct problem *p, int64_t b, int64_t h, int64_t i,
                            double *prob)
{
    const struct mdsk_attention_shape *s = &p->s;
    const double *q = p->q.d + at(&p->at_q, b, i, h);
    double max = -INFINITY, sum = 0;

    for (int64_t j = 0; j < s->Sk; j++) {
        const double *k = p->k.d + at(&p->at_k, b, j, h / (s->A / s->G));

        prob[j] = -INFINITY;
        if (sees(s, b, i, j))
            prob[j] = dot(s->D, q, k) * (double)s->scale + bias(s, h, i, j);
        max = fmax(max, prob[j]);
    }
    for (int64_t j = 0; j < s->Sk; j++)
        sum += prob[j] = prob[j] > -INFINITY ? exp(prob[j] - max) : 0;
    for (int64_t j = 0; j < s->Sk; j++)
        prob[j] /= sum > 0 ? sum : 1;
    return max + log(sum);
}

void reference_fwd(struct problem *p)
{
    const struct mdsk_attention_shape *s = &p->s;
    double *prob = malloc((size_t)s->Sk * sizeof *prob);

    for (int64_t t = 0; t < s->B * s->A * s->Sq; t++) {
        int64_t b = t / s->Sq / s->A, h = t / s->Sq % s->A, i = t % s->Sq;
        double *o = p->o.d + at(&p->at_q, b, i, h);

        p->lse.d[t] = probabilities(p, b, h, i, prob);
        for (int64_t d = 0; d < s->D; d++)
            o[d] = 0;
        for (int64_t j = 0; j < s->Sk; j++) {
            const double *v = p->v.d + at(&p->at_k, b, j, h / (s->A / s->G));
            double w = prob[j] > 0 ? prob[j] * factor(s, b, h, i, j) : 0;

            for (int64_t d = 0; d < s->D; d++)
                o[d] += w * v[d];
        }
    }
    free(prob);
}

/* One query's share of all gradients; prob as left by probabilities(). */
static void reference_query(struct problem *p, int64_t b, int64_t h, int64_t i,
                            const double *prob)
{
    const struct mdsk_attention_shape *s = &p->s;
    int64_t D = s->D, q = at(&p->at_q, b, i, h);
    double delta = dot(D, p->d_o.d + q, p->o.d + q);

    for (int64_t j = 0; j < s->Sk; j++) {
        int64_t k = at(&p->at_k, b, j, h / (s->A / s->G));
        double keep, ds;

        if (!(prob[j] > 0))
            continue;
        keep = factor(s, b, h, i, j);
        ds = prob[j] * (dot(D, p->d_o.d + q, p->v.d + k) * keep - delta) *
             (double)s->scale;
        for (int64_t d = 0; d < D; d++) {
            p->dv.d[k + d] += prob[j] * keep * p->d_o.d[q + d];
            p->dq.d[q + d] += ds * p->k.d[k + d];
            p->dk.d[k + d] += ds * p->q.d[q + d];
        }
    }
}

void reference_bwd(struct problem *p)
{
    const struct mdsk_attention_shape *s = &p->s;
    double *prob = malloc((size_t)s->Sk * sizeof *prob);

    for (int64_t t = 0; t < s->B * s->A * s->Sq; t++) {
        int64_t b = t / s->Sq / s->A, h = t / s->Sq % s->A, i = t % s->Sq;

        probabilities(p, b, h, i, prob);
        reference_query(p, b, h, i, prob);
    }
    free(prob);
}
