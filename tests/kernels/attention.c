/* kernels: causal attention, fused and plain, against the whole matrix in double. */
#include "tests/kernels/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

/* Relative Euclidean distance from the double reference. */
static const struct {
    double o, lse, dq, dk, dv;
} tolerance = {.o = 1e-6, .lse = 3e-7, .dq = 3e-6, .dk = 3e-6, .dv = 1e-6};

/* What is allowed besides on GPUs, whose products take probabilities of 16 bits. */
static double spare(enum mdsk_dtype t)
{
    static const double more[] = {[MDSK_BF16] = 3e-3, [MDSK_F16] = 4e-4};

    return t != MDSK_F32 && strcmp(backend()->name, "cuda") == 0 ? more[t] : 0;
}

/* What sums in f32 lose grows as the root of their length. */
static double grown(const struct mdsk_attention_shape *s)
{
    return fmax(1, sqrt((double)s->Sk / 300));
}

/* How the heads lie in memory. */
enum layout { PACKED, FUSED, HEAD_MAJOR };

struct shape {
    int64_t B, A, G, Sq, Sk, D, q_offset;
    float p;
    enum layout layout;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 0, 0, PACKED},
    {1, 1, 1, 3, 3, 3, 0, 0, PACKED},
    {2, 3, 3, 17, 17, 5, 0, 0, FUSED},
    {1, 4, 2, 65, 65, 17, 0, 0, FUSED},
    {2, 6, 2, 129, 129, 64, 0, 0, FUSED},
    {1, 2, 1, 300, 300, 33, 0, 0, HEAD_MAJOR},
    {1, 2, 2, 50, 177, 16, 127, 0, PACKED}, /* the last queries of a longer sequence */
    {1, 2, 2, 97, 33, 16, 0, 0, PACKED},    /* fewer keys than queries */
    {1, 3, 1, 65, 129, 9, 500, 0, HEAD_MAJOR}, /* all keys behind: no mask */
    {2, 4, 2, 99, 99, 32, 0, 0.3f, FUSED},
    {1, 2, 1, 70, 130, 17, 60, 0.1f, PACKED},
    {1, 1, 1, 65, 65, 200, 0, 0, PACKED},
    /* for the plain one alone: wide heads, and more queries than go at a time */
    {1, 2, 1, 40, 40, 300, 0, 0, FUSED},
    {1, 1, 1, 3000, 3000, 3, 0, 0, FUSED},
};

enum { ALL_SHAPES = sizeof shapes / sizeof *shapes, SHAPES = ALL_SHAPES - 2 };

/* One problem.  Queries have A heads of Sq tokens, keys G heads of Sk; an array of
 * heads is a vec with the strides of its mdsk_heads. */
struct problem {
    struct mdsk_attention_shape s;
    struct vec q, k, v, o, lse, d_o, dq, dk, dv, delta;
    struct mdsk_heads at_q, at_k; /* strides alone */
    int64_t lse_stride;
};

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

static struct mdsk_heads heads(enum mdsk_dtype t, struct vec *x, struct mdsk_heads at)
{
    at.data = vec_as(t, x);
    return at;
}

static int64_t at(const struct mdsk_heads *x, int64_t b, int64_t s, int64_t h)
{
    return b * x->batch_stride + s * x->token_stride + h * x->head_stride;
}

static void problem_init(struct problem *p, const struct shape *c)
{
    int64_t nq, nk;

    *p = (struct problem){.s = {.B = c->B,
                                .A = c->A,
                                .G = c->G,
                                .Sq = c->Sq,
                                .Sk = c->Sk,
                                .D = c->D,
                                .q_offset = c->q_offset,
                                .scale = 1 / sqrtf((float)c->D),
                                .dropout = {c->p, 0x123456789abcdef, 5, 9},
                                .first_sample = 3,
                                .first_head = 1,
                                .first_query = 1000,
                                .first_key = 1002}};
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

static void problem_fini(struct problem *p)
{
    struct vec *all[] = {&p->q,   &p->k,  &p->v,  &p->o,  &p->lse,
                         &p->d_o, &p->dq, &p->dk, &p->dv, &p->delta};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vec_free(all[i]);
}

static void run_fwd(struct problem *p)
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

static void run_bwd(struct problem *p)
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

/* Probabilities of query i into prob[Sk], zero where masked; returns lse. */
static double probabilities(const struct problem *p, int64_t b, int64_t h, int64_t i,
                            double *prob)
{
    const struct mdsk_attention_shape *s = &p->s;
    const double *q = p->q.d + at(&p->at_q, b, i, h);
    double max = -INFINITY, sum = 0;

    for (int64_t j = 0; j < s->Sk; j++) {
        const double *k = p->k.d + at(&p->at_k, b, j, h / (s->A / s->G));

        prob[j] = j <= i + s->q_offset ? dot(s->D, q, k) * (double)s->scale : -INFINITY;
        max = fmax(max, prob[j]);
    }
    for (int64_t j = 0; j < s->Sk; j++)
        sum += prob[j] = exp(prob[j] - max);
    for (int64_t j = 0; j < s->Sk; j++)
        prob[j] /= sum;
    return max + log(sum);
}

static void reference_fwd(struct problem *p)
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

static void reference_bwd(struct problem *p)
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

/* The elements between the heads belong to nobody and stay 0 on both sides. */
static void against_the_matrix(int plain, int n)
{
    for (int t = 0; t < DTYPES * n; t++) {
        const enum mdsk_dtype type = dtypes[t % DTYPES];
        struct problem p;
        double more;

        problem_init(&p, &shapes[t / DTYPES]);
        p.s.dtype = type;
        p.s.plain = plain;
        more = grown(&p.s);
        run_fwd(&p);
        reference_fwd(&p);
        assert_near_as(type, "attention o", &p.o, more * tolerance.o + spare(type));
        assert_near("attention lse", &p.lse, more * tolerance.lse + spare(type) / 100);
        run_bwd(&p); /* from o as it is stored, and so does the reference */
        reference_bwd(&p);
        assert_near_as(type, "attention dq", &p.dq, more * tolerance.dq + spare(type));
        assert_near_as(type, "attention dk", &p.dk, more * tolerance.dk + spare(type));
        assert_near_as(type, "attention dv", &p.dv, more * tolerance.dv + spare(type));
        problem_fini(&p);
    }
}

static void test_against_the_matrix(void **state)
{
    (void)state;
    against_the_matrix(0, SHAPES);
}

static void test_plain_against_the_matrix(void **state)
{
    (void)state;
    against_the_matrix(1, ALL_SHAPES);
}

static double problem_loss(void *ctx)
{
    struct problem *p = ctx;

    reference_fwd(p);
    return inner(p->o.n, p->o.d, p->d_o.d);
}

static void test_slopes(void **state)
{
    static const int cases[] = {3, 6, 9, 10};
    enum { CASES = sizeof cases / sizeof *cases };

    (void)state;
    for (int t = 0; t < 2 * CASES; t++) {
        struct problem p;

        problem_init(&p, &shapes[cases[t % CASES]]);
        p.s.plain = t / CASES;
        run_fwd(&p);
        run_bwd(&p);
        assert_slope("attention dq", &p.q, p.dq.f, NULL, problem_loss, &p, 40);
        assert_slope("attention dk", &p.k, p.dk.f, NULL, problem_loss, &p, 40);
        assert_slope("attention dv", &p.v, p.dv.f, NULL, problem_loss, &p, 40);
        problem_fini(&p);
    }
}

/* Scores of hundreds must not overflow, and a later larger maximum rescales. */
static void large_scores(int plain)
{
    static const struct shape c = {1, 1, 1, 200, 200, 16, 0, 0, PACKED};
    struct problem p;

    problem_init(&p, &c);
    p.s.plain = plain;
    for (int64_t i = 0; i < p.k.n; i++) {
        p.k.f[i] *= (float)(i / 16) / 4;
        p.k.d[i] = (double)p.k.f[i];
    }
    run_fwd(&p);
    reference_fwd(&p);
    assert_near("attention o, large scores", &p.o, 1e-4);
    assert_near("attention lse, large scores", &p.lse, 1e-6);
    problem_fini(&p);
}

static void test_large_scores(void **state)
{
    (void)state;
    large_scores(0);
    large_scores(1);
}

/* Rows of lse that lie further apart: the same numbers, and nothing between them. */
static void lse_stride(int plain)
{
    static const struct shape c = {2, 3, 3, 65, 65, 8, 0, 0, PACKED};
    enum { STRIDE = 70, ROWS = 6, SQ = 65 };
    struct vec wide = vec_zero(ROWS * STRIDE);
    struct problem p, apart;

    problem_init(&p, &c);
    problem_init(&apart, &c);
    p.s.plain = apart.s.plain = plain;
    run_fwd(&p);
    run_bwd(&p);
    vec_free(&apart.lse);
    apart.lse = wide;
    apart.lse_stride = STRIDE;
    run_fwd(&apart);
    run_bwd(&apart);
    for (int i = 0; i < ROWS * STRIDE; i++)
        assert_true(wide.f[i] ==
                    (i % STRIDE < SQ ? p.lse.f[i / STRIDE * SQ + i % STRIDE] : 0));
    assert_memory_equal(p.dq.f, apart.dq.f, (size_t)p.dq.n * sizeof(float));
    assert_memory_equal(p.dv.f, apart.dv.f, (size_t)p.dv.n * sizeof(float));
    problem_fini(&p);
    problem_fini(&apart);
}

static void test_lse_stride(void **state)
{
    (void)state;
    lse_stride(0);
    lse_stride(1);
}

/* Keys from .. from+n-1 of p alone, for its queries from `query` on, merged into acc
 * and lse, which have the layout of p. */
static void merge_keys(struct problem *p, int64_t from, int64_t n, int64_t query,
                       struct vec *acc, struct vec *lse)
{
    const struct mdsk_attention_shape *s = &p->s;
    int64_t stride = s->Sq + 3, rows = s->B * s->A;
    int64_t size = (int64_t)mdsk_dtype_size(s->dtype);
    struct vec o2 = vec_unset(acc->n), lse2 = vec_unset(rows * stride);
    struct mdsk_attention_fwd f = {.shape = *s,
                                   .q = heads(p->s.dtype, &p->q, p->at_q),
                                   .k = heads(p->s.dtype, &p->k, p->at_k),
                                   .v = heads(p->s.dtype, &p->v, p->at_k),
                                   .o = heads(p->s.dtype, &o2, p->at_q),
                                   .lse = lse2.f,
                                   .lse_stride = stride};
    struct mdsk_attention_merge m = {.B = s->B,
                                     .A = s->A,
                                     .Sq = s->Sq - query,
                                     .D = s->D,
                                     .dtype = s->dtype,
                                     .acc = heads(MDSK_F32, acc, p->at_q),
                                     .o2 = f.o,
                                     .lse = lse->f + query,
                                     .lse2 = lse2.f,
                                     .lse_stride = s->Sq,
                                     .lse2_stride = stride};

    f.shape.Sq -= query;
    f.shape.Sk = n;
    f.shape.q_offset += query - from;
    f.q.data = (char *)f.q.data + query * p->at_q.token_stride * size;
    f.k.data = (char *)f.k.data + from * p->at_k.token_stride * size;
    f.v.data = (char *)f.v.data + from * p->at_k.token_stride * size;
    m.acc.data = acc->f + query * p->at_q.token_stride;
    assert_int_equal(backend()->attention_fwd(NULL, &f), 0);
    assert_int_equal(backend()->attention_merge(NULL, &m), 0);
    vec_free(&o2);
    vec_free(&lse2);
}

/* Three parts of the keys, of which later ones serve later queries only, one after the
 * other make what all keys make at once; the first meets no keys so far. */
static void test_merge(void **state)
{
    /* the parts come rounded, the sum is f32 */
    static const double merged[] = {
        [MDSK_F32] = 0, [MDSK_BF16] = 0x1p-9, [MDSK_F16] = 0x1p-12};
    static const struct shape cases[] = {{2, 4, 2, 150, 150, 17, 0, 0, FUSED},
                                         {1, 2, 2, 100, 177, 16, 77, 0, HEAD_MAJOR}};

    (void)state;
    for (int t = 0; t < 4 * DTYPES; t++) {
        const enum mdsk_dtype type = dtypes[t % DTYPES];
        const struct shape *c = &cases[t / DTYPES % 2];
        struct problem p;
        struct vec acc, lse;
        int64_t first = c->q_offset;

        problem_init(&p, c);
        p.s.dtype = type;
        p.s.plain = t / DTYPES / 2;
        acc = vec_unset(p.o.n);
        lse = vec_unset(p.lse.n);
        for (int64_t i = 0; i < lse.n; i++)
            lse.f[i] = -INFINITY;
        merge_keys(&p, 0, first + 30, 0, &acc, &lse);
        merge_keys(&p, first + 30, 35, 30, &acc, &lse);
        merge_keys(&p, first + 65, p.s.Sk - first - 65, 65, &acc, &lse);
        reference_fwd(&p); /* of q, k, v as they were rounded */
        for (int64_t i = 0; i < acc.n; i++) {
            acc.d[i] = p.o.d[i];
            acc.f[i] = isnan(acc.f[i]) ? 0 : acc.f[i]; /* between the heads */
        }
        memcpy(lse.d, p.lse.d, (size_t)lse.n * sizeof *lse.d);
        assert_near("merged o", &acc, tolerance.o + merged[type] + spare(type));
        assert_near("merged lse", &lse, tolerance.lse + spare(type) / 100);
        problem_fini(&p);
        vec_free(&acc);
        vec_free(&lse);
    }
}

/* With o and lse of all keys, the gradients by parts of the keys are those of the
 * whole: dk and dv lie side by side, dq is their sum. */
static void backward_by_parts(int plain)
{
    static const struct shape c = {1, 2, 2, 100, 177, 16, 77, 0, PACKED};
    static const int64_t cut[] = {0, 90, 150, 177};
    struct problem p, parts;
    struct vec dq;

    problem_init(&p, &c);
    problem_init(&parts, &c);
    p.s.plain = plain;
    dq = vec_zero(p.q.n);
    run_fwd(&p);
    run_bwd(&p);
    for (int t = 0; t < 3; t++) {
        int64_t query = cut[t] > c.q_offset ? cut[t] - c.q_offset : 0;
        int64_t q = query * parts.at_q.token_stride;
        int64_t k = cut[t] * parts.at_k.token_stride;
        struct mdsk_attention_bwd a = {.shape = p.s,
                                       .q = heads(MDSK_F32, &p.q, p.at_q),
                                       .k = heads(MDSK_F32, &p.k, p.at_k),
                                       .v = heads(MDSK_F32, &p.v, p.at_k),
                                       .o = heads(MDSK_F32, &p.o, p.at_q),
                                       .d_o = heads(MDSK_F32, &p.d_o, p.at_q),
                                       .dq = heads(MDSK_F32, &parts.dq, p.at_q),
                                       .dk = heads(MDSK_F32, &parts.dk, p.at_k),
                                       .dv = heads(MDSK_F32, &parts.dv, p.at_k),
                                       .lse = p.lse.f + query,
                                       .lse_stride = c.Sq,
                                       .delta = parts.delta.f};
        struct mdsk_heads *at_q[] = {&a.q, &a.o, &a.d_o, &a.dq};
        struct mdsk_heads *at_k[] = {&a.k, &a.v, &a.dk, &a.dv};

        for (int i = 0; i < 4; i++) {
            at_q[i]->data = (float *)at_q[i]->data + q;
            at_k[i]->data = (float *)at_k[i]->data + k;
        }
        a.shape.Sq -= query;
        a.shape.Sk = cut[t + 1] - cut[t];
        a.shape.q_offset += query - cut[t];
        assert_int_equal(backend()->attention_bwd(NULL, &a), 0);
        for (int64_t i = q; i < dq.n; i++)
            dq.f[i] += parts.dq.f[i];
    }
    for (int64_t i = 0; i < dq.n; i++)
        dq.d[i] = (double)p.dq.f[i];
    for (int64_t i = 0; i < p.k.n; i++) {
        parts.dk.d[i] = (double)p.dk.f[i];
        parts.dv.d[i] = (double)p.dv.f[i];
    }
    assert_near("dq of parts", &dq, tolerance.dq);
    assert_near("dk of parts", &parts.dk, tolerance.dk);
    assert_near("dv of parts", &parts.dv, tolerance.dv);
    vec_free(&dq);
    problem_fini(&p);
    problem_fini(&parts);
}

static void test_backward_by_parts(void **state)
{
    (void)state;
    backward_by_parts(0);
    backward_by_parts(1);
}

/* No keys on either side: nothing happens, and what is not set is not read. */
static void test_merge_nothing(void **state)
{
    float acc[4] = {1, 2, 3, 4}, o2[4] = {NAN, NAN, NAN, NAN};
    float lse[2] = {0.5f, -INFINITY}, lse2[2] = {-INFINITY, -INFINITY};
    struct mdsk_attention_merge m = {.B = 1,
                                     .A = 1,
                                     .Sq = 2,
                                     .D = 2,
                                     .acc = {acc, 4, 2, 2},
                                     .o2 = {o2, 4, 2, 2},
                                     .lse = lse,
                                     .lse2 = lse2};

    (void)state;
    assert_int_equal(backend()->attention_merge(NULL, &m), 0);
    for (int i = 0; i < 4; i++)
        assert_true(acc[i] == (float)(i + 1));
    assert_true(lse[0] == 0.5f && lse[1] == -INFINITY);
}

static void same_bits(const struct shape *c, int threads_a, int threads_b)
{
    struct problem p[2];
    size_t queries, keys;

    for (int t = 0; t < 2; t++) {
        problem_init(&p[t], c);
        mdsk_cpu_set_threads(t ? threads_b : threads_a);
        run_fwd(&p[t]);
        run_bwd(&p[t]);
    }
    queries = (size_t)p[0].o.n * sizeof(float);
    keys = (size_t)p[0].k.n * sizeof(float);
    assert_memory_equal(p[0].o.f, p[1].o.f, queries);
    assert_memory_equal(p[0].dq.f, p[1].dq.f, queries);
    assert_memory_equal(p[0].dk.f, p[1].dk.f, keys);
    assert_memory_equal(p[0].dv.f, p[1].dv.f, keys);
    problem_fini(&p[0]);
    problem_fini(&p[1]);
    mdsk_cpu_set_threads(2);
}

/* 5 threads on 4 heads take the two walks of the backward pass, 2 and 1 the single. */
static void test_same_bits_for_any_threads(void **state)
{
    static const struct shape c = {2, 4, 2, 333, 333, 64, 0, 0.2f, FUSED};

    (void)state;
    same_bits(&c, 2, 2);
    same_bits(&c, 1, 2);
    same_bits(&c, 1, 3);
    same_bits(&c, 1, 5);
}

static void test_cost(void **state)
{
    struct mdsk_attention_fwd a = {
        .shape = {.B = 2, .A = 3, .G = 1, .Sq = 5, .Sk = 5, .D = 7}};

    (void)state;
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 15);
    assert_true(mdsk_attention_fwd_cost(&a).bytes ==
                4.0 * (2 * 2 * 5 * 3 * 7 + 2 * 2 * 5 * 1 * 7 + 2 * 5 * 3));
    a.shape.q_offset = 2; /* sees 3, 4, 5, 5, 5 */
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 22);
    a.shape.q_offset = 9;
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 25);
    a.shape.q_offset = 0;
    a.shape.Sk = 100;
    assert_true(mdsk_attention_fwd_cost(&a).flops == 4.0 * 7 * 6 * 15);
}

/* Of a million tokens only a few queries' scores are there at a time. */
static void test_plain_memory(void **state)
{
    const int64_t MiB = 1 << 20;
    struct mdsk_attention_fwd f = {.shape = {.B = 4,
                                             .A = 32,
                                             .G = 8,
                                             .Sq = 1 << 20,
                                             .Sk = 1 << 20,
                                             .D = 128,
                                             .dtype = MDSK_BF16}};
    struct mdsk_attention_bwd b = {.shape = f.shape};

    (void)state;
    assert_int_equal(mdsk_attention_fwd_scratch(&f), 0);
    f.shape.plain = b.shape.plain = 1;
    assert_in_range(mdsk_attention_fwd_scratch(&f), 512 * MiB, 640 * MiB);
    assert_in_range(mdsk_attention_bwd_scratch(&b), (512 + 1024) * MiB,
                    (512 + 1024 + 256) * MiB);
    f.shape.Sq = f.shape.Sk = b.shape.Sq = b.shape.Sk = 2048;
    assert_in_range(mdsk_attention_fwd_scratch(&f), 24 * MiB, 32 * MiB);
    assert_in_range(mdsk_attention_bwd_scratch(&b), 48 * MiB, 64 * MiB);
    assert_true(mdsk_attention_bwd_cost(&b).bytes >
                (4 * 4 + 5 * 2) * 128 * 2048.0 * 2048 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_matrix),
        cmocka_unit_test(test_plain_against_the_matrix),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_lse_stride),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_backward_by_parts),
        cmocka_unit_test(test_merge_nothing),
        cmocka_unit_test(test_same_bits_for_any_threads),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_plain_memory),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
