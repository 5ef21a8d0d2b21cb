/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: attention by parts: of the keys, of the queries, and merged. */
#include "tests/kernels/problem.h"

#include <math.h>
#include <string.h>

/* Rows of lse that lie further apart: the same numbers, and nothing between them. */
static void lse_stride(int unfused)
{
    static const struct shape c = {2, 3, 3, 65, 65, 8, 0, 0, 0, PACKED, JOINED};
    enum { STRIDE = 70, ROWS = 6, SQ = 65 };
    struct vec wide = vec_zero(ROWS * STRIDE);
    struct problem p, apart;

    problem_init(&p, &c);
    problem_init(&apart, &c);
    p.s.unfused = apart.s.unfused = unfused;
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
    static const struct shape cases[] = {
        {2, 4, 2, 150, 150, 17, 0, 0, 0, FUSED, JOINED},
        {1, 2, 2, 100, 177, 16, 77, 0, 0, HEAD_MAJOR, JOINED}};

    (void)state;
    for (int t = 0; t < 4 * DTYPES; t++) {
        const enum mdsk_dtype type = dtypes[t % DTYPES];
        const struct shape *c = &cases[t / DTYPES % 2];
        struct problem p;
        struct vec acc, lse;
        int64_t first = c->q_offset;

        problem_init(&p, c);
        p.s.dtype = type;
        p.s.unfused = t / DTYPES / 2;
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
static void backward_by_parts(int unfused)
{
    static const struct shape c = {1, 2, 2, 100, 177, 16, 77, 0, 0, PACKED, JOINED};
    static const int64_t cut[] = {0, 90, 150, 177};
    struct problem p, parts;
    struct vec dq;

    problem_init(&p, &c);
    problem_init(&parts, &c);
    p.s.unfused = unfused;
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

/* Of the queries of all sequences, whatever the stride; what was there counts too. */
static void test_most(void **state)
{
    const int64_t B = 3, A = 5, Sq = 4100, stride = Sq + 7;
    struct vec lse = vec_unset(B * A * stride);
    double expected[5] = {0};
    float most[5] = {0, 0, 0, 0, 100};
    struct mdsk_attention_most a = {
        .B = B, .A = A, .Sq = Sq, .lse_stride = stride, .lse = lse.f, .most = most};

    (void)state;
    for (int64_t i = 0; i < B * A * Sq; i++) {
        int64_t h = i / Sq % A;
        double x = 40 * sin((double)(i * i % 10007)) + (double)h - 3;

        lse.f[i / Sq * stride + i % Sq] = (float)x;
        expected[h] = fmax(expected[h], (float)x);
    }
    for (int64_t i = 0; i < B * Sq; i++) /* of head 1: below 0, but for no keys */
        lse.f[(i / Sq * A + 1) * stride + i % Sq] = i % 3 ? -1 - (float)i : -INFINITY;
    lse.f[(1 * A + 2) * stride + 17] = 77;
    lse.f[(2 * A + 3) * stride + Sq - 1] = NAN;
    assert_int_equal(backend()->attention_most(NULL, &a), 0);
    assert_true(most[0] == (float)expected[0] && expected[0] > 30);
    assert_true(most[1] == 0 && most[2] == 77 && isnan(most[3]) && most[4] == 100);
    vec_free(&lse);
}

/* ---- one more token over a cache ---- */

enum { CACHED_B = 2, CACHED_A = 6, CACHED_G = 2, CACHED_TOKENS = 300 };

struct cached {
    struct mdsk_attention_cached a;
    struct vec rows, kv, o; /* [B, (A + 2 G) D], [tokens, B, 2 G D], [B, A D] */
    int32_t place;
};

static void cached_init(struct cached *c, enum mdsk_dtype type, int64_t D,
                        int64_t place, int64_t window, int64_t alibi)
{
    int64_t row = (CACHED_A + 2 * CACHED_G) * D, kv = 2 * CACHED_G * D;
    int64_t size = (int64_t)mdsk_dtype_size(type);
    char *own, *all;

    c->rows = vec_random(CACHED_B * row, 1, 1);
    c->kv = vec_random(CACHED_TOKENS * CACHED_B * kv, 2, 1);
    c->o = vec_unset(CACHED_B * CACHED_A * D);
    c->place = (int32_t)place;
    own = vec_as(type, &c->rows);
    all = vec_as(type, &c->kv);
    c->a = (struct mdsk_attention_cached){
        .shape = {.B = CACHED_B,
                  .A = CACHED_A,
                  .G = CACHED_G,
                  .Sq = 1,
                  .Sk = place + 1,
                  .D = D,
                  .q_offset = place,
                  .first_query = place,
                  .window = window,
                  .scale = 1 / sqrtf((float)D),
                  .dtype = type,
                  .first_head = 1,
                  .alibi_heads = alibi},
        .q = {own, row, CACHED_B * row, D},
        .k = {all, kv, CACHED_B * kv, D},
        .v = {all + CACHED_G * D * size, kv, CACHED_B * kv, D},
        .new_k = {own + CACHED_A * D * size, row, CACHED_B * row, D},
        .new_v = {own + (CACHED_A + CACHED_G) * D * size, row, CACHED_B * row, D},
        .o = {vec_as(type, &c->o), CACHED_A * D, CACHED_B * CACHED_A * D, D},
        .tokens = CACHED_TOKENS};
}

/* A rotated number between two of 16 bits may go the other way than the reference's. */
static double rounds_apart(enum mdsk_dtype type)
{
    return type == MDSK_F32 ? 0 : 1e-3;
}

/* The token's query and key are turned, and rounded. */
static void turn_reference(struct cached *c)
{
    int64_t D = c->a.shape.D, half = c->a.rot / 2;
    int64_t row = (CACHED_A + 2 * CACHED_G) * D;

    for (int64_t h = 0; h < CACHED_B * (CACHED_A + CACHED_G); h++) {
        int64_t b = h / (CACHED_A + CACHED_G), own = h % (CACHED_A + CACHED_G);
        double *x = c->rows.d + b * row + own * D;

        for (int64_t i = 0; i < half; i++) {
            double t = (double)c->place * c->a.frequency[i], lo = x[i],
                   hi = x[i + half];
            double scale = (double)c->a.rope_scale;

            x[i] = rounded(c->a.shape.dtype, (lo * cos(t) - hi * sin(t)) * scale);
            x[i + half] =
                rounded(c->a.shape.dtype, (hi * cos(t) + lo * sin(t)) * scale);
        }
    }
}

/* The token's own key and value, where they belong; all else is as it was. */
static void append_reference(struct cached *c)
{
    int64_t kv = 2 * CACHED_G * c->a.shape.D, q = CACHED_A * c->a.shape.D;

    for (int64_t b = 0; b < CACHED_B; b++)
        for (int64_t i = 0; i < kv; i++)
            c->kv.d[(c->place * CACHED_B + b) * kv + i] =
                c->rows.d[b * (q + kv) + q + i];
}

/* o of head h of sequence b; the cache has the token's own key. */
static void attend_reference(struct cached *c, int64_t b, int64_t h)
{
    const struct mdsk_attention_shape *s = &c->a.shape;
    int64_t D = s->D, kv = 2 * CACHED_G * D, g = h / (CACHED_A / CACHED_G);
    int64_t first =
        s->window > 0 && c->place >= s->window ? c->place + 1 - s->window : 0;
    const double *q = c->rows.d + b * (CACHED_A * D + kv) + h * D;
    double *o = c->o.d + (b * CACHED_A + h) * D, p[CACHED_TOKENS], sum = 0;

    for (int64_t i = 0; i < D; i++)
        o[i] = 0;
    for (int64_t k = first; k <= c->place; k++) {
        const double *key = c->kv.d + (k * CACHED_B + b) * kv + g * D;

        p[k] = (double)mdsk_attention_slope(s, h) * (double)(k - c->place) +
               inner(D, q, key) * (double)s->scale;
        p[k] = exp(p[k]);
        sum += p[k];
    }
    for (int64_t k = first; k <= c->place; k++)
        for (int64_t i = 0; i < D; i++)
            o[i] +=
                p[k] / sum * c->kv.d[(k * CACHED_B + b) * kv + (CACHED_G + g) * D + i];
}

/* Few keys and many, heads of each width that kernels have, a window, ALiBi, all of a
 * head rotated or half of it; the place as an argument, and on the device. */
static void test_cached(void **state)
{
    static const int64_t widths[] = {8, 40, 64, 72, 128, 200, MDSK_CACHED_D};
    static const int64_t places[] = {0, 1, 30, 63, 64, 65, 200, CACHED_TOKENS - 1};

    (void)state;
    for (int t = 0; t < 7 * 8 * DTYPES; t++) {
        enum mdsk_dtype type = dtypes[t % DTYPES];
        int64_t place = places[t / DTYPES % 8], D = widths[t / DTYPES / 8];
        struct cached c;

        cached_init(&c, type, D, place, t % 4 == 3 ? 50 : 0, t % 5 == 4 ? 8 : 0);
        c.a.place = t % 2 ? &c.place : NULL;
        c.a.rot = t % 8 < 3 ? 0 : t % 8 < 6 ? D : D / 2;
        c.a.frequency = rotary_frequencies(10000, c.a.rot);
        c.a.rope_scale = t % 7 ? 1 : 1.25f;
        assert_int_equal(backend()->attention_cached(NULL, &c.a), 0);
        turn_reference(&c);
        append_reference(&c);
        vec_back(type, &c.kv);
        assert_near("keys and values", &c.kv,
                    c.a.rot == 0 ? 0 : tolerance.o + rounds_apart(type));
        for (int64_t b = 0; b < CACHED_B; b++)
            for (int64_t h = 0; h < CACHED_A; h++)
                attend_reference(&c, b, h);
        assert_near_as(type, "o of one more token", &c.o,
                       tolerance.o + spare(type) +
                           (c.a.rot == 0 ? 0 : rounds_apart(type)));
        vec_free(&c.rows);
        vec_free(&c.kv);
        vec_free(&c.o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lse_stride),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_backward_by_parts),
        cmocka_unit_test(test_merge_nothing),
        cmocka_unit_test(test_most),
        cmocka_unit_test(test_cached),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
