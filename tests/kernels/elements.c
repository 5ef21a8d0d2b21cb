/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: element by element, random numbers, rotary positions, and the functions the
 * cpu backend computes itself. */
#include "tests/kernels/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/vmath.h"
#include "kernels/half.h"
#include "kernels/normal.h"
#include "kernels/philox.h"

/* Relative Euclidean distance from the double reference; ulp for exp. */
static const struct {
    double dropout, simple, adamw, rope, exp_ulp, angle;
} tolerance = {.dropout = 1e-7,
               .simple = 1e-7,
               .adamw = 3e-7,
               .rope = 2e-7,
               .exp_ulp = 1.5,
               .angle = 1e-7};

/* kat_vectors of Random123, philox4x32-10. */
static void test_philox_known_answers(void **state)
{
    static const uint32_t known[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0xa4093822, 0x299f31d0, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344,
         0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};

    (void)state;
    for (int t = 0; t < 3; t++) {
        uint32_t out[4];

        mdsk_philox(known[t], known[t] + 2, out);
        assert_memory_equal(out, known[t] + 6, sizeof out);
    }
}

static void test_dropout(void **state)
{
    static const struct mdsk_dropout shapes[] = {
        {.rows = {1, 1, 0, 0}, .H = 1, .key = {0.5f, 1, 2, 3}},
        {.rows = {2, 3, 5, 7}, .H = 17, .key = {0.1f, 99, 2, 3}},
        {.rows = {3, 65, 1000000, (int64_t)1 << 33},
         .H = 129,
         .key = {0.9f, ~(uint64_t)0, 4, 5}},
        {.rows = {1, 200, 0, 0}, .H = 320, .key = {0.25f, 5, 6, 7}}};

    (void)state;
    for (int t = 0; t < 4 * DTYPES; t++) {
        struct mdsk_dropout a = shapes[t / DTYPES];
        int64_t n = a.rows.B * a.rows.S * a.H;
        struct vec x = vec_random(n, 1, 1), y = vec_unset(n);

        a.dtype = dtypes[t % DTYPES];
        a.x = vec_as(a.dtype, &x);
        a.y = vec_as(a.dtype, &y);
        assert_int_equal(backend()->dropout(NULL, &a), 0);
        for (int64_t i = 0; i < n; i++) {
            int64_t r = i / a.H, h = i % a.H;
            uint32_t word[4];

            mdsk_dropout_block(a.key.seed, a.key.site, a.key.step,
                               a.rows.first_sample + r % a.rows.B,
                               a.rows.first_token + r / a.rows.B, h / 4, word);
            y.d[i] = word[h % 4] >= mdsk_dropout_threshold(a.key.p)
                         ? x.d[i] / (1 - (double)a.key.p)
                         : 0;
        }
        assert_near_as(a.dtype, "dropout", &y, tolerance.dropout);
        a.y = vec_as(a.dtype, &x); /* in place */
        assert_int_equal(backend()->dropout(NULL, &a), 0);
        vec_back(a.dtype, &x);
        assert_memory_equal(x.f, y.f, (size_t)n * sizeof(float));
        vec_free(&x);
        vec_free(&y);
    }
}

/* About 1 - p of many are kept, and a shard's mask is a part of the whole's. */
static void test_dropout_rate_and_shards(void **state)
{
    enum { S = 400, H = 256 };
    struct vec x = vec_zero(S * H), y = vec_unset(S * H), part = vec_unset(H);
    struct mdsk_dropout a = {
        .rows = {1, S, 2, 0}, .H = H, .key = {0.3f, 1, 2, 3}, .x = x.f, .y = y.f};
    double kept = 0;

    (void)state;
    for (int i = 0; i < S * H; i++)
        x.f[i] = 1;
    assert_int_equal(backend()->dropout(NULL, &a), 0);
    for (int i = 0; i < S * H; i++)
        kept += y.f[i] > 0;
    assert_true(fabs(kept / (S * H) - 0.7) < 0.01); /* 7 standard deviations */
    a.rows = (struct mdsk_rows){1, 1, 2, 123};
    a.y = part.f;
    assert_int_equal(backend()->dropout(NULL, &a), 0);
    assert_memory_equal(part.f, y.f + 123 * H, H * sizeof(float));
    vec_free(&x);
    vec_free(&y);
    vec_free(&part);
}

/* Number i of a stream, by Box and Muller as they wrote it. */
static double normal_number(uint64_t key, uint64_t i)
{
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t ctr[4] = {(uint32_t)(i / 4), (uint32_t)(i / 4 >> 32), 0, 0}, w[4];
    double radius, angle;

    mdsk_philox(k, ctr, w);
    radius = sqrt(-2 * log(((double)w[i % 4 / 2 * 2] + 1) / 4294967296.0));
    angle = 2 * M_PI * ((double)w[i % 4 / 2 * 2 + 1] / 4294967296.0);
    return radius * (i % 2 ? sin(angle) : cos(angle));
}

/* Odd beginnings, rows of a wider whole, and numbers whose index needs 64 bits. */
static void test_normal(void **state)
{
    static const struct mdsk_normal cases[] = {
        {7, 0.02, 0, 0, 1, 1, NULL},
        {7, 1, 3, 0, 1, 50021, NULL},
        {UINT64_C(0x9E3779B97F4A7C15), 2, 2, 1000, 33, 17, NULL},
        {1, 1, (INT64_C(1) << 36) - 5, 131, 3, 130, NULL},
    };

    (void)state;
    for (int t = 0; t < 4; t++) {
        struct mdsk_normal a = cases[t];
        struct vec v = vec_unset(a.rows * a.cols);

        a.out = v.f;
        mdsk_normal_fill(&a);
        for (int64_t r = 0; r < a.rows; r++)
            for (int64_t c = 0; c < a.cols; c++)
                v.d[r * a.cols + c] =
                    a.std *
                    normal_number(a.key, (uint64_t)(a.first + r * a.stride + c));
        assert_near("normal", &v, 6e-8);
        for (int64_t i = 0; i < v.n; i++)
            assert_true(fabs((double)v.f[i] - v.d[i]) <= 1.2e-7 * fabs(v.d[i]));
        vec_free(&v);
    }
}

static void test_add(void **state)
{
    static const int64_t sizes[] = {1, 3, 17, 65, 129, 100003};

    (void)state;
    for (int t = 0; t < 6; t++) {
        int64_t n = sizes[t];
        struct vec x = vec_random(n, 1, 1), y = vec_random(n, 2, 1);
        struct mdsk_add add = {.n = n, .x = x.f, .y = y.f};

        assert_int_equal(backend()->add(NULL, &add), 0);
        for (int64_t i = 0; i < n; i++)
            y.d[i] += x.d[i];
        assert_near("add", &y, tolerance.simple);
        vec_free(&x);
        vec_free(&y);
    }
}

/* Columns from the middle of a matrix and back: what lies beside them stays. */
static void test_copy_rows(void **state)
{
    enum { R = 7, C = 5, LDX = 11, LDY = 9 };
    static const enum mdsk_dtype types[] = {MDSK_F32, MDSK_BF16, MDSK_I32, MDSK_F64};

    (void)state;
    for (int t = 0; t < 4; t++) {
        size_t size = mdsk_dtype_size(types[t]);
        unsigned char x[R * LDX * 8], y[R * LDY * 8];
        struct mdsk_copy_rows a = {
            .R = R, .C = C, .ldx = LDX, .ldy = LDY, .dtype = types[t]};

        a.x = x + 3 * size;
        a.y = y + 2 * size;
        for (size_t i = 0; i < sizeof x; i++)
            x[i] = (unsigned char)(i * 37 + 1);
        memset(y, 0, sizeof y);
        assert_int_equal(backend()->copy_rows(NULL, &a), 0);
        for (size_t r = 0; r < R; r++)
            for (size_t c = 0; c < LDY * size; c++) {
                int inside = c >= 2 * size && c < (2 + C) * size;

                assert_int_equal(y[r * LDY * size + c],
                                 inside ? x[r * LDX * size + c + size] : 0);
            }
    }
}

/* f32 there and back is rounding; between the 16-bit types the same through f32. */
static void test_cast(void **state)
{
    static const int64_t sizes[] = {1, 17, 513, 50001};

    (void)state;
    for (int t = 0; t < 4; t++) {
        int64_t n = sizes[t];
        struct vec x = vec_random(n, 1, 1), y = vec_unset(n);
        uint16_t *h = malloc((size_t)n * sizeof *h), *g = malloc((size_t)n * sizeof *g);
        struct mdsk_cast casts[] = {{n, MDSK_F32, MDSK_BF16, x.f, h},
                                    {n, MDSK_BF16, MDSK_F16, h, g},
                                    {n, MDSK_F16, MDSK_F32, g, y.f},
                                    {n, MDSK_F32, MDSK_F32, x.f, y.f}};

        for (int i = 0; i < 3; i++)
            assert_int_equal(backend()->cast(NULL, &casts[i]), 0);
        for (int64_t i = 0; i < n; i++) {
            uint16_t b = mdsk_f32_to_bf16(x.f[i]);

            assert_int_equal(h[i], b);
            assert_int_equal(g[i], mdsk_f32_to_f16(mdsk_bf16_to_f32(b)));
            assert_true(y.f[i] == mdsk_f16_to_f32(g[i]));
        }
        assert_int_equal(backend()->cast(NULL, &casts[3]), 0);
        assert_memory_equal(x.f, y.f, (size_t)n * sizeof(float));
        vec_free(&x);
        vec_free(&y);
        free(h);
        free(g);
    }
}

/* y += x rounds once, and so does y = x + z, where x or z may be y. */
static void test_add_rounds_once(void **state)
{
    static const int64_t sizes[] = {1, 65, 16385};

    (void)state;
    for (int t = 0; t < 3 * DTYPES * 4; t++) {
        const enum mdsk_dtype type = dtypes[t % DTYPES];
        int64_t n = sizes[t / DTYPES % 3];
        int way = t / DTYPES / 3; /* no z; z; z is y; x is y */
        struct vec x = vec_random(n, 1, 1), y = vec_random(n, 2, 1),
                   z = vec_random(n, 3, 1);
        struct vec *a = way == 3 ? &y : &x, *b = way == 1 || way == 3 ? &z : &y;
        struct mdsk_add add = {.n = n, .dtype = type, .y = vec_as(type, &y)};

        add.x = a == &y ? add.y : vec_as(type, a);
        add.z = way == 0 ? NULL : b == &y ? add.y : vec_as(type, b);
        assert_int_equal(backend()->add(NULL, &add), 0);
        vec_back(type, &y);
        for (int64_t i = 0; i < n; i++)
            assert_true(y.f[i] == (float)rounded(type, a->d[i] + b->d[i]));
        vec_free(&x);
        vec_free(&y);
        vec_free(&z);
    }
}

static void test_sum_squares(void **state)
{
    static const int64_t sizes[] = {1, 3, 17, 16384, 16385, 200003};

    (void)state;
    for (int t = 0; t < 6; t++) {
        struct vec x = vec_random(sizes[t], 1, 1);
        double want = 5 + inner(sizes[t], x.d, x.d), first = 0;

        for (int threads = 1; threads <= 3; threads++) {
            double sum = 5;
            struct mdsk_sum_squares a = {.n = sizes[t], .x = x.f, .sum = &sum};

            mdsk_cpu_set_threads(threads);
            assert_int_equal(backend()->sum_squares(NULL, &a), 0);
            assert_true(fabs(sum - want) < 1e-12 * want);
            first = threads == 1 ? sum : first;
            assert_true(sum == first);
        }
        vec_free(&x);
    }
    mdsk_cpu_set_threads(2);
}

/* Three steps by the formula of the contract, in double. */
static void adamw_reference(const struct mdsk_adamw *a, struct vec *w, struct vec *m,
                            struct vec *v, const struct vec *grad)
{
    for (int64_t i = 0, s = 0; i < a->n; i++) {
        double g = grad->d[i] * (double)a->grad_scale;
        double b1 = (double)a->beta1, b2 = (double)a->beta2;
        double decay, width, lr;

        s += i == a->span_end[s];
        decay = a->decays >> s & 1 ? (double)a->weight_decay : 0;
        width = a->wide >> s & 1 ? (double)a->width : 1;
        lr = (double)a->lr / width;

        m->d[i] = b1 * m->d[i] + (1 - b1) * g;
        v->d[i] = b2 * v->d[i] + (1 - b2) * g * g;
        w->d[i] -= lr * decay * w->d[i] + lr * (m->d[i] / (double)a->correction1) /
                                              (sqrt(v->d[i] / (double)a->correction2) +
                                               (double)a->eps / width);
    }
}

static void test_adamw(void **state)
{
    static const int64_t sizes[] = {1, 3, 17, 129, 50001};

    (void)state;
    for (int t = 0; t < 5 * DTYPES; t++) {
        const enum mdsk_dtype type = dtypes[t % DTYPES];
        int64_t n = sizes[t / DTYPES];
        struct vec w = vec_random(n, 1, 1), m = vec_zero(n), v = vec_zero(n);
        struct vec grad = vec_random(n, 2, 1), copy = vec_unset(n);
        struct mdsk_adamw a = {.n = n,
                               .lr = 0.01f,
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .eps = t % 2 ? 1e-8f : 0.1f,
                               .weight_decay = 0.1f,
                               .grad_scale = 0.5f,
                               .spans = n < 17 ? 1 : 5,
                               .decays = 0x15,
                               .wide = n == 3 ? 0 : 0x19,
                               .width = n == 3 ? 0 : 3,
                               .span_end = {n < 17 ? n : 1, 3, 8, n - 2, n},
                               .master = w.f,
                               .m = m.f,
                               .v = v.f,
                               .grad = grad.f,
                               .dtype = type,
                               .weight = vec_as(type, &copy)};

        for (int step = 1; step <= 3; step++) {
            a.correction1 = (float)(1 - pow(0.9, step));
            a.correction2 = (float)(1 - pow(0.95, step));
            assert_int_equal(backend()->adamw(NULL, &a), 0);
            adamw_reference(&a, &w, &m, &v, &grad);
        }
        assert_near("adamw w", &w, tolerance.adamw);
        assert_near("adamw m", &m, tolerance.adamw);
        assert_near("adamw v", &v, tolerance.adamw);
        vec_back(type, &copy);
        for (int64_t i = 0; i < n; i++)
            assert_true((double)copy.f[i] == rounded(type, (double)w.f[i]));
        vec_free(&w);
        vec_free(&m);
        vec_free(&v);
        vec_free(&grad);
        vec_free(&copy);
    }
}

/* Momentum, a combination of it with what is there (divided by the norm or not) in
 * another type, and a step: each by its formula in double. */
static void test_muon(void **state)
{
    static const int64_t sizes[] = {1, 3, 17, 129, 50001};

    (void)state;
    for (int t = 0; t < 5 * DTYPES * 4; t++) {
        const enum mdsk_dtype type = dtypes[t / 4 % DTYPES];
        int64_t n = sizes[t / 4 / DTYPES];
        int nesterov = t % 2, divides = t / 2 % 2;
        struct vec m = vec_random(n, 1, 1), grad = vec_random(n, 2, 1),
                   d = vec_unset(n);
        struct vec y = vec_random(n, 3, 1), w = vec_random(n, 4, 1),
                   copy = vec_unset(n);
        double squares = divides ? 7 : 0, norm = divides ? sqrt(7) : 1;
        struct mdsk_muon_momentum momentum = {n,   0.95f, 0.5f,  nesterov,
                                              m.f, d.f,   grad.f};
        struct mdsk_axpby combine = {.n = n,
                                     .from = MDSK_F32,
                                     .to = type,
                                     .a = 1.5f,
                                     .b = nesterov ? -0.25f : 0,
                                     .squares = divides ? &squares : NULL,
                                     .x = d.f,
                                     .y = vec_as(type, &y)};
        struct mdsk_muon_step step = {.n = n,
                                      .lr = 0.01f,
                                      .weight_decay = 0.1f,
                                      .rate = 0.02f,
                                      .master = w.f,
                                      .o = combine.y,
                                      .o_dtype = type,
                                      .dtype = type,
                                      .weight = vec_as(type, &copy)};

        assert_int_equal(backend()->muon_momentum(NULL, &momentum), 0);
        assert_int_equal(backend()->axpby(NULL, &combine), 0);
        assert_int_equal(backend()->muon_step(NULL, &step), 0);
        vec_back(type, &y);
        vec_back(type, &copy);
        for (int64_t i = 0; i < n; i++) {
            double beta = (double)momentum.beta, g = grad.d[i] / 2;

            m.d[i] = beta * m.d[i] + (1 - beta) * g;
            d.d[i] = nesterov ? beta * m.d[i] + (1 - beta) * g : m.d[i];
            y.d[i] = (1.5 * d.d[i] + (double)combine.b * y.d[i]) / norm;
            w.d[i] -= (double)step.lr * (double)step.weight_decay * w.d[i] +
                      (double)step.rate * (double)y.f[i];
            assert_true((double)copy.f[i] == rounded(type, (double)w.f[i]));
        }
        assert_near("muon m", &m, tolerance.adamw);
        assert_near("muon d", &d, tolerance.adamw);
        assert_near("muon y", &y, type == MDSK_F32 ? tolerance.adamw : 4e-3);
        assert_near("muon w", &w, tolerance.adamw);
        vec_free(&m);
        vec_free(&grad);
        vec_free(&d);
        vec_free(&y);
        vec_free(&w);
        vec_free(&copy);
    }
}

/* y = b y, in place. */
static void test_scale(void **state)
{
    static const int64_t sizes[] = {1, 17, 50001};

    (void)state;
    for (int t = 0; t < 3 * DTYPES; t++) {
        const enum mdsk_dtype type = dtypes[t % DTYPES];
        int64_t n = sizes[t / DTYPES];
        struct vec y = vec_random(n, 1, 1);
        struct mdsk_axpby a = {
            .n = n, .from = type, .to = type, .a = 5, .b = 0.3f, .y = vec_as(type, &y)};

        assert_int_equal(backend()->axpby(NULL, &a), 0);
        for (int64_t i = 0; i < n; i++)
            y.d[i] = rounded(type, (double)(a.b * (float)rounded(type, y.d[i])));
        vec_back(type, &y);
        assert_near("scaled", &y, type == MDSK_F32 ? tolerance.simple : 4e-3);
        vec_free(&y);
    }
}

/* x [B,S,A,D] with 3 spare elements a token. */
static void rope_reference(const struct mdsk_rope *a, double *x)
{
    for (int64_t t = 0; t < a->B * a->S * a->A; t++) {
        int64_t s = t / a->A % a->S, b = t / a->A / a->S;
        int64_t start = a->start ? a->start[s * a->B + b] : 0;
        double *head = x + t / a->A / a->S * a->x.batch_stride + s * a->x.token_stride +
                       t % a->A * a->x.head_stride;

        for (int64_t i = 0; i < a->rot / 2; i++) {
            double angle = (double)(a->first_token + s - start) * a->frequency[i];
            double c = (double)a->scale * cos(angle);
            double z = (double)(a->inverse ? -a->scale : a->scale) * sin(angle);
            double x0 = head[i], x1 = head[i + a->rot / 2];

            head[i] = x0 * c - x1 * z;
            head[i + a->rot / 2] = x1 * c + x0 * z;
        }
    }
}

static void test_rope(void **state)
{
    static int32_t start[2 * 129];
    static const struct mdsk_rope shapes[] = {
        {.B = 64, .S = 1, .A = 12, .D = 64, .rot = 48, .first_token = 299, .scale = 1},
        {.B = 1, .S = 1, .A = 1, .D = 2, .rot = 2, .first_token = 1, .scale = 1},
        {.B = 2, .S = 17, .A = 3, .D = 65, .rot = 64, .scale = 1},
        {.B = 1,
         .S = 129,
         .A = 4,
         .D = 64,
         .rot = 64,
         .first_token = 1000000,
         .scale = 1.25f},
        {.B = 2,
         .S = 129,
         .A = 2,
         .D = 33,
         .rot = 32,
         .first_token = 200,
         .scale = 1,
         .start = start},
        {.B = 2,
         .S = 33,
         .A = 1,
         .D = 17,
         .rot = 6,
         .first_token = 12345678,
         .scale = 0.75f},
        {.B = 1, .S = 5, .A = 2, .D = 1040, .rot = 1040, .scale = 1}};

    (void)state;
    for (int i = 0; i < 2 * 129; i++) /* the second sequence is one document */
        start[i] = i % 2 ? 0 : (200 + i / 2) / 13 * 13;
    for (int t = 0; t < 14 * DTYPES; t++) {
        struct mdsk_rope a = shapes[t / 2 / DTYPES];
        struct vec x;

        a.frequency = rotary_frequencies(t % 4 < 2 ? 10000 : 500000, a.rot);
        a.inverse = t % 2;
        a.x.head_stride = a.D;
        a.x.token_stride = a.A * a.D + 3;
        a.x.batch_stride = a.S * a.x.token_stride;
        x = vec_random(a.B * a.x.batch_stride, 1, 1);
        a.dtype = dtypes[t / 2 % DTYPES];
        a.x.data = vec_as(a.dtype, &x);
        assert_int_equal(backend()->rope(NULL, &a), 0);
        rope_reference(&a, x.d);
        assert_near_as(a.dtype, "rope", &x, tolerance.rope);
        vec_free(&x);
    }
}

static void test_rope_inverse_undoes(void **state)
{
    struct vec x = vec_random(50 * 4 * 32, 1, 1);
    struct mdsk_rope a = {.B = 1,
                          .S = 50,
                          .A = 4,
                          .D = 32,
                          .rot = 32,
                          .first_token = 777,
                          .frequency = rotary_frequencies(10000, 32),
                          .scale = 1,
                          .x = {x.f, 50 * 4 * 32, 4 * 32, 32}};

    (void)state;
    assert_int_equal(backend()->rope(NULL, &a), 0);
    a.inverse = 1;
    assert_int_equal(backend()->rope(NULL, &a), 0);
    assert_near("rope there and back", &x, 2 * tolerance.rope);
    vec_free(&x);
}

static void test_exp(void **state)
{
    double worst = 0;

    (void)state;
    for (double x = -87.3; x < 88.3; x += 1.7e-4) {
        double want = exp((double)(float)x);
        double ulp = ldexp(1, ilogb(want) - 23);

        worst = fmax(worst, fabs((double)mdsk_expf((float)x) - want) / ulp);
    }
    assert_true(worst <= tolerance.exp_ulp);
    assert_true(mdsk_expf(0) == 1);
    assert_true(mdsk_expf(-88) == 0 && mdsk_expf(-INFINITY) == 0);
    assert_true(mdsk_expf(1e30f) > 2e38f && isfinite(mdsk_expf(INFINITY)));
    assert_true(isnan(mdsk_expf(NAN)));
}

static void test_cos_sin(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        double t = i < 100000 ? i * 1e-3 - 50 : (i - 100000) * 100.03;
        float c, s;

        mdsk_cos_sin(t, &c, &s);
        assert_true(fabs((double)c - cos(t)) < tolerance.angle);
        assert_true(fabs((double)s - sin(t)) < tolerance.angle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_rate_and_shards),
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_add_rounds_once),
        cmocka_unit_test(test_copy_rows),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_muon),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_rope_inverse_undoes),
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_cos_sin),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
