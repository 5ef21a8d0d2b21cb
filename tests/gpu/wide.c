/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu: shapes for each code path of the cuda backend, compared with the cpu backend,
 * which tests/kernels compares with simple loops in double. */
#include "tests/kernels/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

/* Relative Euclidean distance between the two, beside the rounding of the type. */
static const double tolerance = 1e-5;

/* `want` holds the cpu's result and `got` the backend's: leave both in got. */
static void compare(enum mdsk_dtype t, const char *what, struct vec *got,
                    struct vec *want)
{
    vec_back(t, want);
    for (int64_t i = 0; i < got->n; i++)
        got->d[i] = (double)want->f[i];
    assert_near_as(t, what, got, tolerance);
}

/* ---- norms ---- */

struct norm {
    struct vec x, r, sum, gamma, beta, y, mean, rstd, dy, dx, dgamma, dbeta;
};

static struct norm norm_new(int64_t R, int64_t H)
{
    return (struct norm){.x = vec_random(R * H, 1, 1),
                         .r = vec_random(R * H, 2, 1),
                         .sum = vec_unset(R * H),
                         .gamma = vec_random(H, 3, 1),
                         .beta = vec_random(H, 4, 1),
                         .y = vec_unset(R * H),
                         .mean = vec_unset(R),
                         .rstd = vec_unset(R),
                         .dy = vec_random(R * H, 5, 1),
                         .dx = vec_random(R * H, 6, 1),
                         .dgamma = vec_random(H, 7, 1),
                         .dbeta = vec_random(H, 8, 1)};
}

static void norm_free(struct norm *n)
{
    struct vec *all[] = {&n->x,    &n->r,    &n->sum, &n->gamma, &n->beta,   &n->y,
                         &n->mean, &n->rstd, &n->dy,  &n->dx,    &n->dgamma, &n->dbeta};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vec_free(all[i]);
}

static void norm_run(const struct mdsk_table *table, enum mdsk_norm_kind kind,
                     enum mdsk_dtype t, int64_t R, int64_t H, struct norm *n)
{
    struct mdsk_norm_fwd f = {.kind = kind,
                              .R = R,
                              .H = H,
                              .dtype = t,
                              .eps = 1e-5f,
                              .x = vec_as(t, &n->x),
                              .r = vec_as(t, &n->r),
                              .sum = vec_as(t, &n->sum),
                              .gamma = vec_as(t, &n->gamma),
                              .beta =
                                  kind == MDSK_LAYERNORM ? vec_as(t, &n->beta) : NULL,
                              .y = vec_as(t, &n->y),
                              .mean = n->mean.f,
                              .rstd = n->rstd.f};
    struct mdsk_norm_bwd b = {.kind = kind,
                              .R = R,
                              .H = H,
                              .dtype = t,
                              .x = f.sum,
                              .gamma = f.gamma,
                              .mean = n->mean.f,
                              .rstd = n->rstd.f,
                              .dy = vec_as(t, &n->dy),
                              .d = R % 2 ? NULL : vec_as(t, &n->dx),
                              .dx = vec_as(t, &n->dx),
                              .dgamma = n->dgamma.f,
                              .dbeta = f.beta ? n->dbeta.f : NULL};

    if (kind == MDSK_RMSNORM)
        f.mean = NULL;
    b.mean = f.mean;
    assert_int_equal(table->norm_fwd(NULL, &f), 0);
    assert_int_equal(table->norm_bwd(NULL, &b), 0);
}

static void norm_compare(enum mdsk_norm_kind kind, enum mdsk_dtype t, int64_t R,
                         int64_t H)
{
    struct norm got = norm_new(R, H), want = norm_new(R, H);

    norm_run(backend(), kind, t, R, H, &got);
    norm_run(mdsk_cpu(), kind, t, R, H, &want);
    compare(t, "sum", &got.sum, &want.sum);
    compare(t, "y", &got.y, &want.y);
    compare(MDSK_F32, "rstd", &got.rstd, &want.rstd);
    compare(t, "dx", &got.dx, &want.dx);
    compare(MDSK_F32, "dgamma", &got.dgamma, &want.dgamma);
    compare(MDSK_F32, "dbeta", &got.dbeta, &want.dbeta);
    norm_free(&got);
    norm_free(&want);
}

/* A row per warp with 4 and 8 vectors per thread, per 256 and 512 threads, and rows
 * that do not fit registers; whole vectors, and odd columns. */
static void test_norm(void **state)
{
    static const int64_t shapes[][2] = {
        {100, 768}, {70, 2048}, {40, 4096},  {33, 8192}, {9, 12288}, {5, 20480},
        {3, 40960}, {3, 70000}, {100, 1001}, {19, 2501}, {3, 9001},  {2000, 64}};

    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int t = 0; t < DTYPES; t++)
            norm_compare(s % 2 ? MDSK_RMSNORM : MDSK_LAYERNORM, dtypes[t], shapes[s][0],
                         shapes[s][1]);
}

/* ---- loss ---- */

struct loss {
    struct vec logits, max, sum, hit;
    double total, count;
};

static void loss_run(const struct mdsk_table *table, enum mdsk_dtype t, int64_t R,
                     int64_t words, const int32_t *target, struct loss *x)
{
    void *logits = vec_as(t, &x->logits);
    struct mdsk_xent_stats s = {.R = R,
                                .words = words,
                                .valid = words - 3,
                                .ld = words,
                                .dtype = t,
                                .logits = logits,
                                .target = target,
                                .max = x->max.f,
                                .sum = x->sum.f,
                                .target_logit = x->hit.f};
    struct mdsk_xent_loss l = {.R = R,
                               .parts = 1,
                               .target = target,
                               .max = x->max.f,
                               .sum = x->sum.f,
                               .target_logit = x->hit.f,
                               .lse = x->max.f,
                               .loss_sum = &x->total,
                               .count = &x->count};
    struct mdsk_xent_bwd b = {.R = R,
                              .words = words,
                              .valid = words - 3,
                              .ld = words,
                              .dtype = t,
                              .logits = logits,
                              .target = target,
                              .lse = x->max.f,
                              .scale = 0.5f};

    assert_int_equal(table->xent_stats(NULL, &s), 0);
    assert_int_equal(table->xent_loss(NULL, &l), 0);
    assert_int_equal(table->xent_bwd(NULL, &b), 0);
}

static struct loss loss_new(int64_t R, int64_t words)
{
    return (struct loss){.logits = vec_random(R * words, 1, 3),
                         .max = vec_unset(R),
                         .sum = vec_unset(R),
                         .hit = vec_unset(R)};
}

static void loss_free(struct loss *x)
{
    vec_free(&x->logits);
    vec_free(&x->max);
    vec_free(&x->sum);
    vec_free(&x->hit);
}

static void test_loss(void **state)
{
    static const int64_t shapes[][2] = {
        {1500, 72}, {70, 2048}, {40, 8001}, {30, 50304}};
    int32_t target[1500];

    (void)state;
    for (int s = 0; s < 4 * DTYPES; s++) {
        const enum mdsk_dtype t = dtypes[s % DTYPES];
        int64_t R = shapes[s / DTYPES][0], words = shapes[s / DTYPES][1];
        struct loss got = loss_new(R, words), want = loss_new(R, words);

        for (int64_t r = 0; r < R; r++)
            target[r] = r % 11 == 5 ? -1 : (int32_t)(r * 7919 % (words - 3));
        loss_run(backend(), t, R, words, target, &got);
        loss_run(mdsk_cpu(), t, R, words, target, &want);
        compare(MDSK_F32, "lse", &got.max, &want.max);
        compare(t, "gradient", &got.logits, &want.logits);
        assert_true(fabs(got.total - want.total) <= 1e-6 * want.total);
        assert_true(got.count == want.count);
        loss_free(&got);
        loss_free(&want);
    }
}

/* ---- embedding ---- */

/* Few words, many words, and one word that makes up most of the text, across tiles. */
static int32_t token_at(int kind, int64_t r, int64_t words)
{
    if (kind == 2 && r % 50 != 0)
        return 11;
    return (int32_t)(r * 7919 % (words + 2)) - 1; /* some are other ranks' */
}

static void embedding_run(const struct mdsk_table *table, enum mdsk_dtype t, int64_t S,
                          int64_t H, int64_t words, const int32_t *token,
                          struct vec *dy, struct vec *dword)
{
    struct mdsk_embedding_bwd b = {.B = 1,
                                   .S = S,
                                   .H = H,
                                   .words = words,
                                   .dtype = t,
                                   .token = token,
                                   .dy = vec_as(t, dy),
                                   .dword = dword->f};

    assert_int_equal(table->embedding_bwd(NULL, &b), 0);
}

static void test_embedding_bwd(void **state)
{
    enum { S = 3000 };
    static const int64_t shapes[3][2] = {{1024, 70}, {264, 50304}, {136, 1000}};
    int32_t token[S];

    (void)state;
    for (int s = 0; s < 3 * DTYPES; s++) {
        const enum mdsk_dtype t = dtypes[s % DTYPES];
        int64_t H = shapes[s / DTYPES][0], words = shapes[s / DTYPES][1];
        struct vec dy = vec_random(S * H, 1, 1), again = vec_random(words * H, 2, 1);
        struct vec got = vec_random(words * H, 2, 1),
                   want = vec_random(words * H, 2, 1);

        for (int64_t r = 0; r < S; r++)
            token[r] = token_at(s / DTYPES, r, words);
        embedding_run(backend(), t, S, H, words, token, &dy, &got);
        embedding_run(backend(), t, S, H, words, token, &dy, &again);
        embedding_run(mdsk_cpu(), t, S, H, words, token, &dy, &want);
        assert_memory_equal(got.f, again.f, (size_t)got.n * sizeof *got.f);
        compare(MDSK_F32, "dword", &got, &want);
        vec_free(&dy);
        vec_free(&again);
        vec_free(&got);
        vec_free(&want);
    }
}

/* ---- the rest ---- */

static void test_rope(void **state)
{
    static const int64_t shapes[][5] = {/* B, S, A, D, rot */
                                        {1, 300, 16, 128, 128},
                                        {2, 77, 1, 64, 32},
                                        {3, 10, 40, 80, 80},
                                        {1, 3, 2, 2048, 2048}};

    (void)state;
    for (int s = 0; s < 4 * DTYPES; s++) {
        const int64_t *n = shapes[s / DTYPES];
        struct mdsk_rope a = {.B = n[0],
                              .S = n[1],
                              .A = n[2],
                              .D = n[3],
                              .rot = n[4],
                              .first_token = 1 << 20,
                              .frequency = rotary_frequencies(1e6, n[4]),
                              .scale = 1,
                              .dtype = dtypes[s % DTYPES]};
        int64_t row = a.A * a.D;
        struct vec got = vec_random(a.B * a.S * row, 1, 1);
        struct vec want = vec_random(a.B * a.S * row, 1, 1);

        /* sequence-major */
        a.x = (struct mdsk_heads){vec_as(a.dtype, &got), row, a.B * row, a.D};
        assert_int_equal(backend()->rope(NULL, &a), 0);
        a.x.data = vec_as(a.dtype, &want);
        assert_int_equal(mdsk_cpu()->rope(NULL, &a), 0);
        compare(a.dtype, "rope", &got, &want);
        vec_free(&got);
        vec_free(&want);
    }
}

static void check_activation(enum mdsk_activation_kind kind, enum mdsk_dtype t)
{
    enum { R = 37, F = 1376 };
    int64_t wide = mdsk_activation_inputs(kind, R, F);
    struct vec x = vec_random(wide, 1, 2), dy = vec_random(R * F, 2, 1);
    struct vec y[2] = {vec_unset(R * F), vec_unset(R * F)};
    struct vec dx[2] = {vec_unset(wide), vec_unset(wide)};

    for (int i = 0; i < 2; i++) {
        const struct mdsk_table *table = i ? mdsk_cpu() : backend();
        struct mdsk_activation_fwd f = {kind, R, F, t, vec_as(t, &x), vec_as(t, &y[i])};
        struct mdsk_activation_bwd b = {
            kind, R, F, t, f.x, vec_as(t, &dy), vec_as(t, &dx[i]), NULL};

        assert_int_equal(table->activation_fwd(NULL, &f), 0);
        assert_int_equal(table->activation_bwd(NULL, &b), 0);
    }
    compare(t, mdsk_activation_of(kind)->name, &y[0], &y[1]);
    compare(t, mdsk_activation_of(kind)->name, &dx[0], &dx[1]);
    for (int i = 0; i < 2; i++) {
        vec_free(&y[i]);
        vec_free(&dx[i]);
    }
    vec_free(&x);
    vec_free(&dy);
}

static void test_activations(void **state)
{
    (void)state;
    for (int kind = 0; kind < MDSK_ACTIVATION_KINDS; kind++)
        for (int s = 0; s < DTYPES; s++)
            check_activation(kind, dtypes[s]);
}

static void test_copy_rows(void **state)
{
    static const int64_t widths[] = {4096, 40, 36, 34, 33};
    enum { R = 50 };

    (void)state;
    for (int s = 0; s < 5 * 2; s++) {
        int64_t C = widths[s / 2], shift = s % 2;
        struct vec x = vec_random(R * 2 * C + 1, 1, 1);
        struct vec got = vec_zero(R * C + 1), want = vec_zero(R * C + 1);
        uint16_t *from = vec_as(MDSK_BF16, &x);
        struct mdsk_copy_rows a = {
            .R = R, .C = C, .ldx = 2 * C, .ldy = C, .dtype = MDSK_BF16};

        a.x = from + shift;
        a.y = (uint16_t *)vec_as(MDSK_BF16, &got) + shift;
        assert_int_equal(backend()->copy_rows(NULL, &a), 0);
        a.y = (uint16_t *)vec_as(MDSK_BF16, &want) + shift;
        assert_int_equal(mdsk_cpu()->copy_rows(NULL, &a), 0);
        assert_memory_equal(got.h, want.h, (size_t)got.n * sizeof *got.h);
        vec_free(&x);
        vec_free(&got);
        vec_free(&want);
    }
}

/* One row, as a stream of long sequences is: more blocks than a grid has in its second
 * dimension, of 2 bytes a thread. */
static void test_long_row(void **state)
{
    const int64_t C = 65535 * 256 + 4097;
    uint16_t *x = malloc((size_t)C * sizeof *x), *y = malloc((size_t)C * sizeof *y);
    struct mdsk_copy_rows a = {1, C, C, C, MDSK_BF16, x, y};

    (void)state;
    assert_non_null(x);
    assert_non_null(y);
    for (int64_t i = 0; i < C; i++)
        x[i] = (uint16_t)(i * 2654435761u >> 16);
    assert_int_equal(backend()->copy_rows(NULL, &a), 0);
    assert_memory_equal(x, y, (size_t)C * sizeof *x);
    free(x);
    free(y);
}

/* A bias gradient in a separate pass, with more partial sums than thread groups to add
 * them; rows of whole vectors, and odd rows. */
static void test_bias_sums(void **state)
{
    static const int64_t shapes[][2] = {{9000, 264}, {5000, 1001}, {130, 4096}};
    enum { IN = 8 };

    (void)state;
    mdsk_cuda_set_repeatable(1); /* no product sums along */
    for (int s = 0; s < 3 * DTYPES; s++) {
        const enum mdsk_dtype t = dtypes[s % DTYPES];
        int64_t R = shapes[s / DTYPES][0], out = shapes[s / DTYPES][1];
        struct vec x = vec_random(R * IN, 1, 1), dy = vec_random(R * out, 2, 1);
        struct vec dw = vec_zero(out * IN), got = vec_random(out, 3, 1);
        struct vec want = vec_random(out, 3, 1);
        struct mdsk_linear_bwd_weight a = {.R = R,
                                           .in = IN,
                                           .out = out,
                                           .dtype = t,
                                           .x = vec_as(t, &x),
                                           .dy = vec_as(t, &dy),
                                           .dw = dw.f,
                                           .db = got.f};

        assert_int_equal(backend()->linear_bwd_weight(NULL, &a), 0);
        a.db = want.f;
        assert_int_equal(mdsk_cpu()->linear_bwd_weight(NULL, &a), 0);
        compare(MDSK_F32, "db", &got, &want);
        vec_free(&x);
        vec_free(&dy);
        vec_free(&dw);
        vec_free(&got);
        vec_free(&want);
    }
    mdsk_cuda_set_repeatable(0);
}

/* An array that is not aligned to 16 bytes has the same sum. */
static void test_sum_squares_order(void **state)
{
    enum { N = 300001 };
    struct vec x = vec_random(N + 1, 1, 1);
    double sum[2] = {0, 0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mdsk_sum_squares a = {N, x.f + i, &sum[i]};

        if (i)
            memmove(x.f + 1, x.f, N * sizeof *x.f);
        assert_int_equal(backend()->sum_squares(NULL, &a), 0);
    }
    assert_true(sum[0] == sum[1]);
    vec_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_embedding_bwd),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_copy_rows),
        cmocka_unit_test(test_long_row),
        cmocka_unit_test(test_bias_sums),
        cmocka_unit_test(test_sum_squares_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
