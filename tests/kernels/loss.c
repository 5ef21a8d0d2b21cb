/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: what the vocabulary is in - embedding, and softmax cross-entropy, with all
 * words or with those of one rank. */
#include "tests/kernels/check.h"

#include <math.h>
#include <string.h>

/* Relative Euclidean distance from the double reference.  sum: sqrt(3000) / 2^24, as
 * builds without vectors add up 3000 terms one after the other. */
static const struct {
    double stats, sum, loss, gradient, embedding;
} tolerance = {
    .stats = 1e-6, .sum = 3.3e-6, .loss = 3e-7, .gradient = 1e-6, .embedding = 2e-7};

/* ---- loss ------------------------------------------------------------------------ */

enum { KINDS = 3 };

static const float weights[KINDS] = {1, 0.1f, 0};

/* words columns of which `valid` are words, rows ld apart. */
struct xent {
    int64_t R, words, valid, ld, first_word;
    enum mdsk_dtype dtype;
    float scale, z;
    int at_once; /* the gradient */
    struct vec logits, max, sum, target_logit, lse;
    int32_t target[256];
    unsigned char kind[256];
    struct mdsk_kinds kinds; /* none, or these */
};

static const struct {
    int64_t R, words, valid, ld, first_word;
} shapes[] = {
    {1, 1, 1, 1, 0},          {3, 3, 3, 3, 0},          {17, 80, 65, 83, 0},
    {129, 17, 17, 17, 40},    {65, 640, 513, 700, 100}, {5, 16, 1, 16, 3},
    {9, 3000, 2900, 3008, 0}, {255, 72, 69, 72, 0},     {33, 21, 19, 24, 7},
    {100, 256, 250, 264, 0},  {9, 2048, 2041, 2048, 0}, {35, 1000, 999, 1008, 5},
    {34, 400, 393, 400, 0},   {77, 120, 118, 128, 0}};

enum { SHAPES = sizeof shapes / sizeof *shapes, CASES = 2 * DTYPES * SHAPES };

static void xent_init(struct xent *x, int t)
{
    *x = (struct xent){.R = shapes[t].R,
                       .words = shapes[t].words,
                       .valid = shapes[t].valid,
                       .ld = shapes[t].ld,
                       .first_word = shapes[t].first_word,
                       .scale = 0.375f};
    x->logits = vec_random(x->R * x->ld, 1, 3);
    x->max = vec_unset(x->R);
    x->sum = vec_unset(x->R);
    x->target_logit = vec_unset(x->R);
    x->lse = vec_unset(x->R);
    for (int64_t r = 0; r < x->R; r++) /* none, here, and (with a first word) before */
        x->target[r] = r % 5 == 3
                           ? -1
                           : (int32_t)(r % 7 == 4 ? x->first_word - 1
                                                  : x->first_word + r % x->valid);
}

static void give_kinds(struct xent *x)
{
    for (int64_t r = 0; r < x->R; r++)
        x->kind[r] = (unsigned char)(r * r % KINDS);
    x->kinds = (struct mdsk_kinds){KINDS, x->kind, weights};
}

/* The t-th of all shapes in all types, without kinds and penalty, and with both. */
static void xent_of(struct xent *x, int t)
{
    xent_init(x, t / DTYPES % SHAPES);
    x->dtype = dtypes[t % DTYPES];
    if (t / DTYPES / SHAPES == 0)
        return;
    give_kinds(x);
    x->z = 0.07f;
}

static double weight_of(const struct xent *x, int64_t r)
{
    return x->kinds.of ? (double)weights[x->kind[r]] : 1;
}

static void xent_fini(struct xent *x)
{
    vec_free(&x->logits);
    vec_free(&x->max);
    vec_free(&x->sum);
    vec_free(&x->target_logit);
    vec_free(&x->lse);
}

static int has_target_here(const struct xent *x, int64_t r)
{
    return x->target[r] >= 0 && x->target[r] >= x->first_word &&
           x->target[r] < x->first_word + x->valid;
}

static void run_stats(struct xent *x)
{
    struct mdsk_xent_stats a = {.R = x->R,
                                .words = x->words,
                                .valid = x->valid,
                                .ld = x->ld,
                                .first_word = x->first_word,
                                .dtype = x->dtype,
                                .gradient = x->at_once,
                                .scale = x->scale,
                                .z = x->z,
                                .kinds = x->kinds,
                                .logits = vec_as(x->dtype, &x->logits),
                                .target = x->target,
                                .max = x->max.f,
                                .sum = x->sum.f,
                                .target_logit = x->target_logit.f};

    assert_int_equal(backend()->xent_stats(NULL, &a), 0);
}

static void run_loss(struct xent *x, float *lse, double *loss, double *count)
{
    struct mdsk_xent_loss a = {.R = x->R,
                               .parts = 1,
                               .target = x->target,
                               .max = x->max.f,
                               .sum = x->sum.f,
                               .target_logit = x->target_logit.f,
                               .lse = lse,
                               .loss_sum = loss,
                               .count = count,
                               .kinds = x->kinds};

    assert_int_equal(backend()->xent_loss(NULL, &a), 0);
}

static void run_bwd(struct xent *x)
{
    struct mdsk_xent_bwd a = {.R = x->R,
                              .words = x->words,
                              .valid = x->valid,
                              .ld = x->ld,
                              .first_word = x->first_word,
                              .dtype = x->dtype,
                              .logits = vec_as(x->dtype, &x->logits),
                              .target = x->target,
                              .lse = x->lse.f,
                              .scale = x->scale,
                              .z = x->z,
                              .kinds = x->kinds};

    assert_int_equal(backend()->xent_bwd(NULL, &a), 0);
}

/* Statistics into the d side; adds to the losses and numbers of each kind.  Returns the
 * sum of weighted losses, with the penalty. */
static double reference_by_kind(struct xent *x, double loss[KINDS], double count[KINDS])
{
    double weighted = 0;

    for (int64_t r = 0; r < x->R; r++) {
        const double *z = x->logits.d + r * x->ld;
        double max = -INFINITY, sum = 0;

        for (int64_t i = 0; i < x->valid; i++)
            max = fmax(max, z[i]);
        for (int64_t i = 0; i < x->valid; i++)
            sum += exp(z[i] - max);
        x->max.d[r] = max;
        x->sum.d[r] = sum;
        x->lse.d[r] = max + log(sum);
        x->target_logit.d[r] =
            has_target_here(x, r) ? z[x->target[r] - x->first_word] : 0;
        if (x->target[r] < 0)
            continue;
        loss[x->kind[r]] += x->lse.d[r] - x->target_logit.d[r];
        count[x->kind[r]]++;
        weighted += weight_of(x, r) * (x->lse.d[r] - x->target_logit.d[r] +
                                       (double)x->z * x->lse.d[r] * x->lse.d[r]);
    }
    return weighted;
}

static double reference(void *ctx)
{
    double loss[KINDS] = {0}, count[KINDS] = {0};

    return reference_by_kind(ctx, loss, count);
}

static double scaled_loss(void *ctx)
{
    return (double)((struct xent *)ctx)->scale * reference(ctx);
}

static void reference_bwd(struct xent *x)
{
    for (int64_t r = 0; r < x->R; r++)
        for (int64_t i = 0; i < x->words; i++) {
            double *z = x->logits.d + r * x->ld + i;
            int hit = has_target_here(x, r) && x->target[r] == x->first_word + i;

            if (x->target[r] < 0 || i >= x->valid)
                *z = 0;
            else
                *z = (double)x->scale * weight_of(x, r) *
                     ((1 + 2 * (double)x->z * x->lse.d[r]) * exp(*z - x->lse.d[r]) -
                      hit);
        }
}

static void test_against_reference(void **state)
{
    (void)state;
    for (int t = 0; t < CASES; t++) {
        double loss[KINDS] = {1, 5, 0}, count[KINDS] = {2, 0, 7};
        double want[KINDS] = {1, 5, 0}, targets[KINDS] = {2, 0, 7};
        struct xent x;

        xent_of(&x, t);
        run_stats(&x);
        reference_by_kind(&x, want, targets);
        assert_near("xent max", &x.max, tolerance.stats);
        assert_near("xent sum", &x.sum, tolerance.sum);
        assert_near("xent target_logit", &x.target_logit, tolerance.stats);
        run_loss(&x, x.lse.f, loss, count);
        assert_near("xent lse", &x.lse, tolerance.stats);
        for (int k = 0; k < KINDS; k++) {
            assert_true(count[k] == targets[k]);
            assert_true(fabs(loss[k] - want[k]) <= tolerance.loss * fabs(want[k]));
        }
        run_bwd(&x);
        reference_bwd(&x); /* beyond words both sides keep the random numbers */
        assert_near_as(x.dtype, "xent gradient", &x.logits, tolerance.gradient);
        xent_fini(&x);
    }
}

/* Statistics, and gradients in the same go. */
static void test_gradient_at_once(void **state)
{
    (void)state;
    for (int t = 0; t < CASES; t++) {
        struct xent x;

        xent_of(&x, t);
        x.at_once = 1;
        run_stats(&x);
        reference(&x);
        assert_near("xent max at once", &x.max, tolerance.stats);
        assert_near("xent sum at once", &x.sum, tolerance.sum);
        assert_near("xent target_logit at once", &x.target_logit, tolerance.stats);
        reference_bwd(&x);
        assert_near_as(x.dtype, "xent gradient at once", &x.logits, tolerance.gradient);
        xent_fini(&x);
    }
}

/* Rows without a target and columns that are no words become 0, whatever they held. */
static void test_nothing_becomes_zero(void **state)
{
    (void)state;
    for (int t = 0; t < CASES; t++) {
        struct xent x;

        xent_of(&x, t);
        x.at_once = 1;
        for (int64_t i = 0; i < x.R * x.ld; i++)
            if (i / x.ld % 3 == 0 && i % x.ld < x.words)
                x.logits.f[i] = NAN;
        run_stats(&x);
        vec_back(x.dtype, &x.logits);
        for (int64_t i = 0; i < x.R * x.ld; i++)
            if ((x.target[i / x.ld] < 0 || i % x.ld >= x.valid) && i % x.ld < x.words)
                assert_true(x.logits.f[i] == 0);
        xent_fini(&x);
    }
}

/* The only gradient the kernel knows is that of targets on this rank. */
static void test_slopes(void **state)
{
    (void)state;
    for (int with_kinds = 0; with_kinds < 2; with_kinds++) {
        double loss[KINDS] = {0}, count[KINDS] = {0};
        struct xent x;

        xent_init(&x, 2);
        if (with_kinds)
            give_kinds(&x);
        x.z = 0.07f * (float)with_kinds;
        run_stats(&x);
        run_loss(&x, x.lse.f, loss, count);
        run_bwd(&x);
        for (int64_t r = 0; r < x.R; r++) /* what lies between the rows */
            memset(x.logits.f + r * x.ld + x.words, 0, 3 * sizeof(float));
        assert_slope("xent gradient", &x.logits, x.logits.f, NULL, scaled_loss, &x,
                     10000);
        xent_fini(&x);
    }
}

/* lse may be max: the loss must not change. */
static void test_lse_in_place(void **state)
{
    double loss[2] = {0}, count[2] = {0};
    struct xent x;

    (void)state;
    xent_init(&x, 4);
    run_stats(&x);
    run_loss(&x, x.lse.f, &loss[0], &count[0]);
    run_loss(&x, x.max.f, &loss[1], &count[1]);
    assert_true(loss[0] == loss[1] && count[0] == count[1]);
    assert_memory_equal(x.max.f, x.lse.f, (size_t)x.R * sizeof(float));
    xent_fini(&x);
}

/* Three ranks share the words: lse and loss are those of one, and each rank's gradient
 * is its columns of the whole. */
static void test_parts_make_the_whole(void **state)
{
    enum { R = 9, WORDS = 12, PARTS = 3, EACH = WORDS / PARTS, STRIDE = R + 2 };
    struct vec whole = vec_random(R * WORDS, 1, 2), lse = vec_unset(R);
    float max[PARTS * STRIDE], sum[PARTS * STRIDE], hit[PARTS * STRIDE];
    float part[PARTS][R * EACH];
    int32_t target[R] = {0, 3, 4, 5, 9, -1, 6, 11, 8};
    double loss = 1, count = 2, want = 1, each[R];
    struct mdsk_xent_loss l = {R,   PARTS, STRIDE, target, max, sum,
                               hit, lse.f, &loss,  &count, {0}, each};

    (void)state;
    for (int p = 0; p < PARTS; p++) {
        struct mdsk_xent_stats a = {.R = R,
                                    .words = EACH,
                                    .valid = EACH,
                                    .ld = EACH,
                                    .first_word = p * EACH,
                                    .logits = part[p],
                                    .target = target,
                                    .max = max + p * STRIDE,
                                    .sum = sum + p * STRIDE,
                                    .target_logit = hit + p * STRIDE};

        for (int i = 0; i < R * EACH; i++)
            part[p][i] = whole.f[i / EACH * WORDS + p * EACH + i % EACH];
        assert_int_equal(backend()->xent_stats(NULL, &a), 0);
    }
    assert_int_equal(backend()->xent_loss(NULL, &l), 0);
    for (int r = 0; r < R; r++) {
        double total = 0, own = 0;

        for (int i = 0; i < WORDS; i++)
            total += exp(whole.d[r * WORDS + i]);
        lse.d[r] = log(total);
        if (target[r] >= 0)
            own = lse.d[r] - whole.d[r * WORDS + target[r]];
        want += own;
        assert_true(fabs(each[r] - own) <= tolerance.loss * own);
    }
    assert_near("xent lse of parts", &lse, tolerance.stats);
    assert_true(fabs(loss - want) <= tolerance.loss * want && count == 2 + R - 1);
    for (int p = 0; p < PARTS; p++) {
        struct mdsk_xent_bwd a = {.R = R,
                                  .words = EACH,
                                  .valid = EACH,
                                  .ld = EACH,
                                  .first_word = p * EACH,
                                  .logits = part[p],
                                  .target = target,
                                  .lse = lse.f,
                                  .scale = 1};

        assert_int_equal(backend()->xent_bwd(NULL, &a), 0);
    }
    for (int r = 0; r < R; r++) {
        float total = 0;

        for (int i = 0; i < WORDS; i++)
            total += part[i / EACH][r * EACH + i % EACH];
        assert_true(fabsf(total) < 1e-6f); /* a softmax less a one-hot sums to 0 */
    }
    vec_free(&whole);
    vec_free(&lse);
}

static void test_large_logits(void **state)
{
    float logits[4] = {1e4f, 1e4f - 1, -1e4f, -INFINITY}, max, sum, hit;
    int32_t target = 1;
    struct mdsk_xent_stats a = {.R = 1,
                                .words = 4,
                                .valid = 4,
                                .ld = 4,
                                .logits = logits,
                                .target = &target,
                                .max = &max,
                                .sum = &sum,
                                .target_logit = &hit};

    (void)state;
    assert_int_equal(backend()->xent_stats(NULL, &a), 0);
    assert_true(max == 1e4f && fabsf(sum - 1.36787944f) < 1e-6f && hit == 1e4f - 1);
}

/* A diverged run must show: NaN among the logits is NaN in the sum. */
static void test_nan_shows(void **state)
{
    float logits[3] = {1, NAN, 2}, max, sum, hit;
    int32_t target = 0;
    struct mdsk_xent_stats a = {.R = 1,
                                .words = 3,
                                .valid = 3,
                                .ld = 3,
                                .logits = logits,
                                .target = &target,
                                .max = &max,
                                .sum = &sum,
                                .target_logit = &hit};

    (void)state;
    assert_int_equal(backend()->xent_stats(NULL, &a), 0);
    assert_true(isnan(sum));
}

/* ---- embedding ------------------------------------------------------------------- */

static const int64_t widths[] = {1, 3, 17, 65, 129, 64, 3000};

enum { WIDTHS = sizeof widths / sizeof *widths };

/* This rank has words 10 .. 10+words-1; every third token is another rank's. */
static int32_t token_at(int64_t r, int64_t words)
{
    return r % 3 == 2 ? (r % 2 ? 9 : (int32_t)(10 + words))
                      : (int32_t)(10 + r * r % words);
}

/* Of documents of 9 tokens, or of one, as sequence b has them. */
static int32_t start_at(int64_t r, int64_t B, int64_t first_token)
{
    int64_t token = first_token + r / B;

    return (int32_t)(r % B == 1 ? 0 : token / 9 * 9);
}

static void test_embedding(void **state)
{
    enum { B = 3, S = 65, FIRST = 4, TOKENS = B * S };
    int32_t token[TOKENS], start[TOKENS];

    (void)state;
    for (int t = 0; t < 2 * DTYPES * WIDTHS; t++) {
        const enum mdsk_dtype type = dtypes[t / 2 % DTYPES];
        int64_t H = widths[t / 6], words = 7, apart = t / 6 % 2;
        struct vec word = vec_random(words * H, 1, 1), y = vec_unset(TOKENS * H);
        struct vec position = vec_random((FIRST + S) * H, 2, 1);
        struct mdsk_embedding_fwd a = {.B = B,
                                       .S = S,
                                       .H = H,
                                       .first_word = 10,
                                       .words = words,
                                       .first_token = FIRST,
                                       .dtype = type,
                                       .token = token,
                                       .start = apart ? start : NULL,
                                       .word = vec_as(type, &word),
                                       .position =
                                           t % 2 ? vec_as(type, &position) : NULL,
                                       .y = vec_as(type, &y)};

        for (int64_t i = 0; i < TOKENS * H; i++) {
            int64_t r = i / H, w = token_at(r, words) - 10, at;

            token[r] = token_at(r, words);
            start[r] = start_at(r, B, FIRST);
            at = FIRST + r / B - (apart ? start[r] : 0);
            y.d[i] = w >= 0 && w < words ? word.d[w * H + i % H] : 0;
            y.d[i] += t % 2 ? position.d[at * H + i % H] : 0;
        }
        assert_int_equal(backend()->embedding_fwd(NULL, &a), 0);
        assert_near_as(type, "embedding y", &y, tolerance.embedding);
        vec_free(&word);
        vec_free(&position);
        vec_free(&y);
    }
}

static void test_embedding_bwd(void **state)
{
    enum { B = 3, S = 65, FIRST = 4, TOKENS = B * S };
    int32_t token[TOKENS], start[TOKENS];

    (void)state;
    for (int t = 0; t < 2 * DTYPES * WIDTHS; t++) {
        const enum mdsk_dtype type = dtypes[t / 2 % DTYPES];
        int64_t H = widths[t / 6], words = 7, apart = t / 6 % 2;
        struct vec dword = vec_random(words * H, 1, 1);
        struct vec dposition = vec_random((FIRST + S) * H, 2, 1);
        struct vec dy = vec_random(TOKENS * H, 3, 1);
        struct mdsk_embedding_bwd a = {.B = B,
                                       .S = S,
                                       .H = H,
                                       .first_word = 10,
                                       .words = words,
                                       .first_token = FIRST,
                                       .dtype = type,
                                       .token = token,
                                       .start = apart ? start : NULL,
                                       .dy = vec_as(type, &dy),
                                       .dword = dword.f,
                                       .dposition = t % 2 ? dposition.f : NULL};

        for (int64_t i = 0; i < TOKENS * H; i++) {
            int64_t r = i / H, w = token_at(r, words) - 10, at;

            token[r] = token_at(r, words);
            start[r] = start_at(r, B, FIRST);
            at = FIRST + r / B - (apart ? start[r] : 0);
            if (w >= 0 && w < words)
                dword.d[w * H + i % H] += dy.d[i];
            if (t % 2)
                dposition.d[at * H + i % H] += dy.d[i];
        }
        assert_int_equal(backend()->embedding_bwd(NULL, &a), 0);
        assert_near("embedding dword", &dword, tolerance.embedding);
        assert_near("embedding dposition", &dposition, tolerance.embedding);
        vec_free(&dword);
        vec_free(&dposition);
        vec_free(&dy);
    }
}

static void test_embedding_bwd_same_bits_for_any_threads(void **state)
{
    enum { S = 500, H = 129, WORDS = 7 };
    struct vec dy = vec_random(S * H, 3, 1), first = vec_zero(WORDS * H);
    int32_t token[S];

    (void)state;
    for (int r = 0; r < S; r++)
        token[r] = token_at(r, WORDS);
    for (int t = 1; t <= 3; t++) {
        struct vec dword = vec_zero(WORDS * H);
        struct mdsk_embedding_bwd a = {.B = 1,
                                       .S = S,
                                       .H = H,
                                       .first_word = 10,
                                       .words = WORDS,
                                       .token = token,
                                       .dy = dy.f,
                                       .dword = t == 1 ? first.f : dword.f};

        mdsk_cpu_set_threads(t);
        assert_int_equal(backend()->embedding_bwd(NULL, &a), 0);
        assert_memory_equal(a.dword, first.f, WORDS * H * sizeof(float));
        vec_free(&dword);
    }
    vec_free(&dy);
    vec_free(&first);
    mdsk_cpu_set_threads(2);
}

/* ---- the next token ---- */

enum { ROWS = 6 };

/* Rows of random words; with two equal ones that are the largest, with NaN, with an
 * infinite one, with none but -inf.  What the first three should give is `want`. */
static void fill_rows(struct vec *logits, int64_t V, int64_t stride, int32_t want[ROWS])
{
    for (int64_t b = 0; b < ROWS; b++) {
        float *row = logits->f + b * stride;

        want[b] = 0;
        for (int64_t i = V; i < stride; i++)
            row[i] = 1e4f; /* padding */
        if (b == 1)
            row[V - 1] = row[V / 2] = 100;
        if (b == 3)
            row[V / 3] = NAN;
        if (b == 4)
            row[V - 1] = INFINITY;
        for (int64_t i = 0; b == 5 && i < V; i++)
            row[i] = -INFINITY;
    }
}

static void test_next_token(void **state)
{
    static const int64_t sizes[][2] = {{1, 1},       {5, 8},      {4098, 4104},
                                       {4098, 4099}, {513, 513},  {50257, 50304},
                                       {31, 32},     {8192, 8192}};

    (void)state;
    for (int t = 0; t < 8 * DTYPES; t++) {
        enum mdsk_dtype type = dtypes[t % DTYPES];
        int64_t V = sizes[t / DTYPES][0], stride = sizes[t / DTYPES][1];
        struct vec logits = vec_random(ROWS * stride, 7, 1);
        int32_t want[ROWS], token[ROWS], start[ROWS], place = -1;
        int32_t made[MDSK_TOKENS_AHEAD * ROWS], at = 40 % MDSK_TOKENS_AHEAD;
        struct mdsk_next_token a = {.B = ROWS,
                                    .V = V,
                                    .stride = stride,
                                    .dtype = type,
                                    .place = &place,
                                    .start = start,
                                    .token = token,
                                    .made = made};

        fill_rows(&logits, V, stride, want);
        a.logits = vec_as(type, &logits);
        vec_back(type, &logits);
        for (int b = 0; b < ROWS; b++) {
            const float *row = logits.f + b * stride;

            for (int32_t i = 1; i < V; i++)
                if (row[i] > row[want[b]])
                    want[b] = i;
            want[b] = b < 3 ? want[b] : -1;
            start[b] = -40;
        }
        memset(made, 0x55, sizeof made);
        assert_int_equal(backend()->next_token(NULL, &a), 0);
        assert_int_equal(place, 41);
        for (int b = 0; b < ROWS; b++) {
            assert_int_equal(token[b], want[b]);
            assert_int_equal(start[b], -41);
        }
        for (int i = 0; i < MDSK_TOKENS_AHEAD * ROWS; i++)
            assert_int_equal(made[i], i / ROWS == at ? want[i % ROWS] : 0x55555555);
        vec_free(&logits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_gradient_at_once),
        cmocka_unit_test(test_nothing_becomes_zero),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_lse_in_place),
        cmocka_unit_test(test_parts_make_the_whole),
        cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_nan_shows),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_embedding_bwd),
        cmocka_unit_test(test_embedding_bwd_same_bits_for_any_threads),
        cmocka_unit_test(test_next_token),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
