/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: a mixture of experts. */
#include "tests/kernels/check.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Relative Euclidean distance from the double reference. */
static const struct {
    double scores, weight, dlogits, rows, products;
} tolerance = {
    .scores = 1e-6, .weight = 1e-6, .dlogits = 3e-6, .rows = 1e-6, .products = 2e-6};

static const struct shape {
    int64_t R, H, E, k, groups;
    int of_all, sigmoid, biased;
    double scale;
} shapes[] = {{1, 1, 1, 1, 1, 0, 0, 0, 1},       {1, 3, 2, 1, 1, 1, 0, 0, 1},
              {5, 17, 4, 2, 1, 0, 0, 0, 1},      {65, 33, 5, 5, 5, 0, 0, 0, 1},
              {130, 64, 8, 2, 2, 1, 0, 0, 1},    {700, 65, 33, 6, 7, 0, 0, 0, 2.5},
              {1500, 8, 256, 3, 3, 1, 0, 0, 1},  {5, 17, 4, 2, 1, 1, 0, 0, 0.5},
              {1, 3, 2, 1, 1, 1, 1, 0, 1},       {7, 17, 5, 1, 1, 1, 1, 1, 3},
              {65, 33, 5, 5, 5, 0, 1, 1, 1},     {130, 64, 8, 2, 2, 0, 1, 0, 1},
              {700, 65, 33, 6, 7, 0, 1, 1, 2.5}, {1500, 8, 256, 3, 3, 0, 1, 1, 1}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* A router and its map. */
struct router {
    struct shape s;
    enum mdsk_dtype dtype;
    struct vec x, w, scores, weight, dweight, dx, before, dlogits, dw, dw_before, load;
    struct vec bias; /* zeros unless s.biased */
    int32_t *choice, *unbiased, *first, *to, *from;
    double balance, z;
};

static int32_t *integers(int64_t n)
{
    int32_t *x = malloc((size_t)n * sizeof *x);

    assert_non_null(x);
    memset(x, 0x7f, (size_t)n * sizeof *x);
    return x;
}

static void router_init(struct router *r, struct shape s, enum mdsk_dtype dtype)
{
    *r = (struct router){.s = s, .dtype = dtype, .balance = 0.3, .z = 0.05};
    r->x = vec_random(s.R * s.H, 1, 1);
    r->w = vec_random(s.E * s.H, 2, 1 / sqrt((double)s.H));
    r->scores = vec_unset(s.R * (s.E + 1));
    r->weight = vec_unset(s.R * s.k);
    r->dweight = vec_random(s.R * s.k, 3, 1);
    r->dx = vec_random(s.R * s.H, 4, 1);
    r->before = vec_random(s.R * s.H, 4, 1);
    r->dlogits = vec_unset(s.R * s.E);
    r->dw = vec_random(s.E * s.H, 5, 1);
    r->dw_before = vec_random(s.E * s.H, 5, 1);
    r->load = vec_unset(s.groups * s.E);
    r->bias = vec_random(s.E, 6, s.biased ? 0.2 : 0);
    r->choice = integers(s.R * s.k);
    r->unbiased = integers(s.R * s.k);
    r->first = integers(s.E + 1);
    r->to = integers(s.R * s.k);
    r->from = integers(s.R * s.k);
}

static void router_fini(struct router *r)
{
    struct vec *all[] = {&r->x,       &r->w,         &r->scores, &r->weight,
                         &r->dweight, &r->dx,        &r->before, &r->dlogits,
                         &r->dw,      &r->dw_before, &r->load,   &r->bias};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vec_free(all[i]);
    free(r->choice);
    free(r->unbiased);
    free(r->first);
    free(r->to);
    free(r->from);
}

static void router_run_fwd(struct router *r)
{
    const struct shape *s = &r->s;
    struct mdsk_route a = {.R = s->R,
                           .H = s->H,
                           .E = s->E,
                           .k = s->k,
                           .dtype = r->dtype,
                           .of_all = s->of_all,
                           .sigmoid = s->sigmoid,
                           .scale = (float)s->scale,
                           .x = vec_as(r->dtype, &r->x),
                           .w = vec_as(r->dtype, &r->w),
                           .bias = s->biased ? r->bias.f : NULL,
                           .unbiased = s->biased ? r->unbiased : NULL,
                           .scores = r->scores.f,
                           .weight = r->weight.f,
                           .choice = r->choice};
    struct mdsk_route_sort sort = {.R = s->R,
                                   .E = s->E,
                                   .k = s->k,
                                   .choice = r->choice,
                                   .first = r->first,
                                   .to = r->to,
                                   .from = r->from};
    struct mdsk_route_load load = {.R = s->R,
                                   .E = s->E,
                                   .k = s->k,
                                   .groups = s->groups,
                                   .choice = r->choice,
                                   .load = r->load.f};

    assert_int_equal(backend()->route(NULL, &a), 0);
    assert_int_equal(backend()->route_sort(NULL, &sort), 0);
    assert_int_equal(backend()->route_load(NULL, &load), 0);
    vec_adopt(&r->load);
}

static void router_run_bwd(struct router *r)
{
    const struct shape *s = &r->s;
    struct mdsk_route_bwd a = {.R = s->R,
                               .H = s->H,
                               .E = s->E,
                               .k = s->k,
                               .groups = s->groups,
                               .dtype = r->dtype,
                               .of_all = s->of_all,
                               .sigmoid = s->sigmoid,
                               .scale = (float)s->scale,
                               .balance = (float)r->balance,
                               .z = (float)r->z,
                               .x = vec_as(r->dtype, &r->x),
                               .w = vec_as(r->dtype, &r->w),
                               .scores = r->scores.f,
                               .weight = r->weight.f,
                               .dweight = r->dweight.f,
                               .load = r->load.f,
                               .choice = r->choice,
                               .dx = vec_as(r->dtype, &r->dx),
                               .dlogits = r->dlogits.f,
                               .dw = r->dw.f};

    assert_int_equal(backend()->route_bwd(NULL, &a), 0);
}

static double logit(const struct router *r, int64_t row, int64_t e)
{
    double sum = 0;

    for (int64_t i = 0; i < r->s.H; i++)
        sum += r->x.d[row * r->s.H + i] * r->w.d[e * r->s.H + i];
    return sum;
}

/* A score: its softmax is that of logits, too. */
static double score(const struct router *r, int64_t row, int64_t e)
{
    double x = logit(r, row, e);

    return r->s.sigmoid ? 1 / (1 + exp(-x)) : exp(x);
}

/* Scores and weights of the experts that the kernel has chosen; and what the router
 * adds to the loss, before coefficients. */
static void router_sums(struct router *r, double *sums)
{
    const struct shape *s = &r->s;

    for (int64_t row = 0; row < s->R; row++) {
        double *p = r->scores.d + row * (s->E + 1), *w = r->weight.d + row * s->k;
        const int32_t *choice = r->choice + row * s->k;
        double all = 0, sum = 0, chosen = 0;

        for (int64_t e = 0; e < s->E; e++) {
            all += score(r, row, e);
            sum += exp(logit(r, row, e));
        }
        for (int64_t j = 0; j < s->k; j++)
            chosen += score(r, row, choice[j]);
        if (s->of_all)
            chosen = s->sigmoid ? 1 : all;
        for (int64_t j = 0; j < s->k; j++)
            w[j] = s->scale * score(r, row, choice[j]) / chosen;
        for (int64_t e = 0; e < s->E; e++) {
            double share = score(r, row, e) / all;

            p[e] = s->sigmoid ? logit(r, row, e) : share;
            sums[0] += r->load.d[row % s->groups * s->E + e] * share;
        }
        p[s->E] = log(sum);
        sums[1] += p[s->E] * p[s->E];
    }
}

/* The loss whose gradients the kernel computes. */
static double router_loss(void *ctx)
{
    struct router *r = ctx;
    double sums[2] = {0, 0};

    router_sums(r, sums);
    return (float)r->balance * sums[0] + (float)r->z * sums[1] +
           inner(r->s.R * r->s.k, r->weight.d, r->dweight.d);
}

/* The k largest in order, each once.  Scores that are nearly equal may be taken for one
 * another. */
static void assert_largest(const struct router *r, const int32_t *all, double biased)
{
    const struct shape *s = &r->s;

    for (int64_t row = 0; row < s->R; row++) {
        const int32_t *choice = all + row * s->k;
        double last = INFINITY;
        int larger = 0;

        for (int64_t j = 0; j < s->k; j++) {
            double is;

            assert_in_range(choice[j], 0, s->E - 1);
            for (int64_t i = 0; i < j; i++)
                assert_int_not_equal(choice[i], choice[j]);
            is = score(r, row, choice[j]) + biased * r->bias.d[choice[j]];
            assert_true(is <= last * (1 + 1e-5) + 1e-6);
            last = is;
        }
        for (int64_t e = 0; e < s->E; e++)
            larger += score(r, row, e) + biased * r->bias.d[e] >
                      last + 1e-5 * fabs(last) + 1e-6;
        assert_true(larger < s->k);
    }
}

static void assert_sorted(const struct router *r)
{
    const struct shape *s = &r->s;

    assert_int_equal(r->first[0], 0);
    assert_int_equal(r->first[s->E], s->R * s->k);
    for (int64_t e = 0; e < s->E; e++)
        for (int64_t c = r->first[e]; c < r->first[e + 1]; c++) {
            assert_int_equal(r->choice[r->from[c]], e);
            assert_int_equal(r->to[r->from[c]], c);
            assert_true(c == r->first[e] || r->from[c] > r->from[c - 1]);
        }
}

static void assert_counted(const struct router *r)
{
    const struct shape *s = &r->s;
    double *count = calloc((size_t)(s->groups * s->E), sizeof *count);

    assert_non_null(count);
    for (int64_t c = 0; c < s->R * s->k; c++)
        count[c / s->k % s->groups * s->E + r->choice[c]]++;
    for (int64_t i = 0; i < s->groups * s->E; i++)
        assert_true(count[i] == r->load.d[i]);
    free(count);
}

static void test_route(void **state)
{
    (void)state;
    for (int t = 0; t < SHAPES * DTYPES; t++) {
        struct router r;

        if (!is_sampled(t, DTYPES))
            continue;
        router_init(&r, shapes[t / DTYPES], dtypes[t % DTYPES]);
        router_run_fwd(&r);
        router_loss(&r);
        assert_near("scores", &r.scores, tolerance.scores);
        assert_near("weights", &r.weight, tolerance.weight);
        assert_largest(&r, r.choice, 1);
        if (r.s.biased)
            assert_largest(&r, r.unbiased, 0);
        assert_sorted(&r);
        assert_counted(&r);
        router_fini(&r);
    }
}

static void test_route_losses(void **state)
{
    (void)state;
    for (int t = 0; t < SHAPES; t++) {
        double sums[2] = {3, 7}, is[2] = {3, 7};
        struct router r;
        struct mdsk_route_losses a;

        router_init(&r, shapes[t], MDSK_F32);
        router_run_fwd(&r);
        router_sums(&r, sums);
        a = (struct mdsk_route_losses){.R = r.s.R,
                                       .E = r.s.E,
                                       .groups = r.s.groups,
                                       .sigmoid = r.s.sigmoid,
                                       .scores = r.scores.f,
                                       .load = r.load.f,
                                       .sum = is};
        assert_int_equal(backend()->route_losses(NULL, &a), 0);
        for (int i = 0; i < 2; i++)
            assert_true(fabs(is[i] - sums[i]) <= tolerance.scores * fabs(sums[i]));
        router_fini(&r);
    }
}

/* The gradient of a row's logits, by hand. */
static void softmax_reference_bwd(const struct router *r, int64_t row, double *dl)
{
    const struct shape *s = &r->s;
    const double *p = r->scores.d + row * (s->E + 1);
    double mean = 0, among = 0;

    for (int64_t e = 0; e < s->E; e++)
        dl[e] = (float)r->balance * r->load.d[row % s->groups * s->E + e];
    for (int64_t j = row * s->k; j < (row + 1) * s->k; j++) {
        if (s->of_all)
            dl[r->choice[j]] += s->scale * r->dweight.d[j];
        among += r->weight.d[j] / s->scale * r->dweight.d[j];
    }
    for (int64_t e = 0; e < s->E; e++)
        mean += p[e] * dl[e];
    for (int64_t e = 0; e < s->E; e++)
        dl[e] = p[e] * (dl[e] - mean + 2 * (float)r->z * p[s->E]);
    for (int64_t j = row * s->k; j < (row + 1) * s->k && !s->of_all; j++)
        dl[r->choice[j]] += r->weight.d[j] * (r->dweight.d[j] - among);
}

/* The same by the gradient of each sigmoid: of weights, then of shares. */
static void sigmoid_reference_bwd(const struct router *r, int64_t row, double *dl)
{
    const struct shape *s = &r->s;
    const double *l = r->scores.d + row * (s->E + 1);
    double sum = 0, mean = 0, chosen = 0, among = 0;

    for (int64_t e = 0; e < s->E; e++) {
        sum += score(r, row, e);
        mean += score(r, row, e) * r->load.d[row % s->groups * s->E + e];
    }
    for (int64_t e = 0; e < s->E; e++)
        dl[e] = (float)r->balance *
                (r->load.d[row % s->groups * s->E + e] - mean / sum) / sum;
    for (int64_t j = row * s->k; j < (row + 1) * s->k; j++) {
        chosen += score(r, row, r->choice[j]);
        among += score(r, row, r->choice[j]) * r->dweight.d[j];
    }
    for (int64_t j = row * s->k; j < (row + 1) * s->k; j++)
        dl[r->choice[j]] +=
            s->scale *
            (s->of_all ? r->dweight.d[j] : (r->dweight.d[j] - among / chosen) / chosen);
    for (int64_t e = 0; e < s->E; e++)
        dl[e] = dl[e] * score(r, row, e) * (1 - score(r, row, e)) +
                2 * (float)r->z * l[s->E] * exp(l[e] - l[s->E]);
}

/* What follows from the gradients of logits. */
static void router_reference_bwd(struct router *r)
{
    const struct shape *s = &r->s;

    for (int64_t row = 0; row < s->R; row++) {
        double *dl = r->dlogits.d + row * s->E;

        if (s->sigmoid)
            sigmoid_reference_bwd(r, row, dl);
        else
            softmax_reference_bwd(r, row, dl);
        for (int64_t e = 0; e < s->E; e++)
            for (int64_t i = 0; i < s->H; i++) {
                r->dx.d[row * s->H + i] += dl[e] * r->w.d[e * s->H + i];
                r->dw.d[e * s->H + i] += dl[e] * r->x.d[row * s->H + i];
            }
    }
}

static void test_route_bwd(void **state)
{
    (void)state;
    for (int t = 0; t < SHAPES * DTYPES; t++) {
        struct router r;

        if (!is_sampled(t, DTYPES))
            continue;
        router_init(&r, shapes[t / DTYPES], dtypes[t % DTYPES]);
        router_run_fwd(&r);
        router_run_bwd(&r);
        router_loss(&r);
        router_reference_bwd(&r);
        assert_near("dlogits", &r.dlogits, tolerance.dlogits);
        assert_near_as(r.dtype, "dx", &r.dx, tolerance.rows);
        assert_near("dw", &r.dw, tolerance.rows);
        if (r.dtype == MDSK_F32) {
            assert_slope("x", &r.x, r.dx.f, r.before.f, router_loss, &r, 20);
            assert_slope("w", &r.w, r.dw.f, r.dw_before.f, router_loss, &r, 20);
        }
        router_fini(&r);
    }
}

/* ---- copies of rows ---- */

static void test_dispatch_and_combine(void **state)
{
    (void)state;
    for (int t = 0; t < SHAPES * DTYPES; t++) {
        const struct shape s = shapes[t / DTYPES];
        struct vec y = vec_unset(s.R * s.k * s.H), sum = vec_unset(s.R * s.H);
        struct router r;
        struct mdsk_dispatch d;
        struct mdsk_combine c;

        router_init(&r, s, dtypes[t % DTYPES]);
        router_run_fwd(&r);
        d = (struct mdsk_dispatch){.R = s.R,
                                   .H = s.H,
                                   .k = s.k,
                                   .dtype = r.dtype,
                                   .from = r.from,
                                   .x = vec_as(r.dtype, &r.x),
                                   .y = vec_as(r.dtype, &y)};
        assert_int_equal(backend()->dispatch(NULL, &d), 0);
        for (int64_t i = 0; i < s.R * s.k * s.H; i++)
            y.d[i] = r.x.d[r.from[i / s.H] / s.k * s.H + i % s.H];
        assert_near_as(r.dtype, "copies", &y, 0);
        c = (struct mdsk_combine){.R = s.R,
                                  .H = s.H,
                                  .k = s.k,
                                  .dtype = r.dtype,
                                  .to = r.to,
                                  .x = vec_as(r.dtype, &y),
                                  .y = vec_as(r.dtype, &sum)};
        assert_int_equal(backend()->combine(NULL, &c), 0);
        for (int64_t i = 0; i < s.R * s.H; i++)
            sum.d[i] = (double)s.k * r.x.d[i];
        assert_near_as(r.dtype, "sum of copies", &sum, tolerance.rows);
        vec_free(&y);
        vec_free(&sum);
        router_fini(&r);
    }
}

/* f(x) of SwiGLU, or of the exact GELU. */
static double activated(const double *x, int64_t F, int gated)
{
    return gated ? x[0] / (1 + exp(-x[0])) * x[F]
                 : x[0] * 0.5 * (1 + erf(x[0] / sqrt(2)));
}

static void activated_bwd(const double *x, int64_t F, int gated, double dy, double *dx)
{
    const double pi = acos(-1);
    double s = 1 / (1 + exp(-x[0]));

    if (gated) {
        dx[0] = dy * s * (1 + x[0] * (1 - s)) * x[F];
        dx[F] = dy * x[0] * s;
    } else {
        dx[0] = dy * (0.5 * (1 + erf(x[0] / sqrt(2))) +
                      x[0] * exp(-x[0] * x[0] / 2) / sqrt(2 * pi));
    }
}

/* from: the router's, or NULL: weights are in the order of copies. */
static void weigh(struct router *r, enum mdsk_activation_kind kind, const int32_t *from)
{
    const struct shape *s = &r->s;
    int gated = kind == MDSK_SWIGLU;
    int64_t copies = s->R * s->k, wide = (gated + 1) * s->H;
    struct vec x = vec_random(copies * wide, 7, 1), y = vec_unset(copies * s->H);
    struct vec dy = vec_random(copies * s->H, 8, 1), dx = vec_unset(copies * wide);
    struct vec dweight = vec_unset(copies);
    /* few elements are large, so the size of the difference is theirs */
    double limit = tolerance.rows + (r->dtype == MDSK_F32 ? 0 : 0x1p-10);
    struct mdsk_weigh a = {.kind = kind,
                           .R = s->R,
                           .F = s->H,
                           .k = s->k,
                           .dtype = r->dtype,
                           .from = from,
                           .weight = r->weight.f,
                           .x = vec_as(r->dtype, &x),
                           .y = vec_as(r->dtype, &y)};
    struct mdsk_weigh_bwd b = {.kind = kind,
                               .R = s->R,
                               .F = s->H,
                               .k = s->k,
                               .dtype = r->dtype,
                               .from = from,
                               .weight = r->weight.f,
                               .x = a.x,
                               .dy = vec_as(r->dtype, &dy),
                               .dx = vec_as(r->dtype, &dx),
                               .dweight = dweight.f};

    assert_int_equal(backend()->weigh(NULL, &a), 0);
    assert_int_equal(backend()->weigh_bwd(NULL, &b), 0);
    for (int64_t c = 0; c < copies; c++) {
        double sum = 0, w = r->weight.f[from ? from[c] : c];

        for (int64_t i = 0; i < s->H; i++) {
            const double *u = x.d + c * wide + i;
            double d = dy.d[c * s->H + i];

            y.d[c * s->H + i] = w * activated(u, s->H, gated);
            activated_bwd(u, s->H, gated, w * d, dx.d + c * wide + i);
            sum += activated(u, s->H, gated) * d;
        }
        dweight.d[from ? from[c] : c] = sum;
    }
    assert_near_as(r->dtype, "weighed", &y, limit);
    assert_near_as(r->dtype, "dx", &dx, limit);
    assert_near("dweight", &dweight, tolerance.rows);
    vec_free(&x);
    vec_free(&y);
    vec_free(&dy);
    vec_free(&dx);
    vec_free(&dweight);
}

static void test_weigh(void **state)
{
    (void)state;
    for (int t = 0; t < SHAPES * DTYPES; t++) {
        struct router r;

        if (!is_sampled(t, DTYPES))
            continue;
        router_init(&r, shapes[t / DTYPES], dtypes[t % DTYPES]);
        router_run_fwd(&r);
        weigh(&r, MDSK_SWIGLU, r.from);
        weigh(&r, MDSK_EXACT_GELU, r.from);
        weigh(&r, MDSK_SWIGLU, NULL);
        router_fini(&r);
    }
}

/* ---- linear layers ---- */

enum { EXPERTS = 9 };

/* Weights of experts are `step` elements apart. */
struct layers {
    enum mdsk_dtype dtype;
    int64_t rows, in, out, step;
    int32_t first[EXPERTS + 1];
    struct vec x, y, dy, dx, w, dw;
};

static void layers_init(struct layers *l, enum mdsk_dtype dtype, int64_t in,
                        int64_t out, int times)
{
    static const int32_t first[] = {0, 0, 1, 8, 8, 8, 75, 130, 131, 131};

    *l = (struct layers){.dtype = dtype, .in = in, .out = out, .step = in * out + 64};
    for (int e = 0; e <= EXPERTS; e++)
        l->first[e] = first[e] * times;
    l->rows = l->first[EXPERTS];
    l->x = vec_random(l->rows * in, 1, 1);
    l->y = vec_unset(l->rows * out);
    l->dy = vec_random(l->rows * out, 2, 1);
    l->dx = vec_unset(l->rows * in);
    l->w = vec_random(EXPERTS * l->step, 3, 1);
    l->dw = vec_random(EXPERTS * l->step, 4, 1);
}

static void layers_fini(struct layers *l)
{
    vec_free(&l->x);
    vec_free(&l->y);
    vec_free(&l->dy);
    vec_free(&l->dx);
    vec_free(&l->w);
    vec_free(&l->dw);
}

static void layers_run(struct layers *l, int write)
{
    struct mdsk_experts_fwd f = {.rows = l->rows,
                                 .E = EXPERTS,
                                 .in = l->in,
                                 .out = l->out,
                                 .step = l->step,
                                 .dtype = l->dtype,
                                 .first = l->first,
                                 .w = vec_as(l->dtype, &l->w),
                                 .x = vec_as(l->dtype, &l->x),
                                 .y = vec_as(l->dtype, &l->y)};
    struct mdsk_experts_bwd_input bx = {.rows = l->rows,
                                        .E = EXPERTS,
                                        .in = l->in,
                                        .out = l->out,
                                        .step = l->step,
                                        .dtype = l->dtype,
                                        .first = l->first,
                                        .w = f.w,
                                        .dy = vec_as(l->dtype, &l->dy),
                                        .dx = vec_as(l->dtype, &l->dx)};
    struct mdsk_experts_bwd_weight bw = {.rows = l->rows,
                                         .E = EXPERTS,
                                         .in = l->in,
                                         .out = l->out,
                                         .step = l->step,
                                         .dtype = l->dtype,
                                         .write = write,
                                         .first = l->first,
                                         .dw = l->dw.f,
                                         .x = f.x,
                                         .dy = bx.dy};

    assert_int_equal(backend()->experts_fwd(NULL, &f), 0);
    assert_int_equal(backend()->experts_bwd_input(NULL, &bx), 0);
    assert_int_equal(backend()->experts_bwd_weight(NULL, &bw), 0);
}

/* What is between the weights of two experts stays as it was. */
static void layers_reference(struct layers *l, int write)
{
    memset(l->y.d, 0, (size_t)l->y.n * sizeof *l->y.d);
    memset(l->dx.d, 0, (size_t)l->dx.n * sizeof *l->dx.d);
    for (int e = 0; e < EXPERTS; e++) {
        const double *w = l->w.d + e * l->step;
        double *dw = l->dw.d + e * l->step;

        if (write)
            memset(dw, 0, (size_t)(l->in * l->out) * sizeof *dw);
        for (int64_t r = l->first[e]; r < l->first[e + 1]; r++)
            for (int64_t o = 0; o < l->out; o++)
                for (int64_t i = 0; i < l->in; i++) {
                    double x = l->x.d[r * l->in + i], dy = l->dy.d[r * l->out + o];

                    l->y.d[r * l->out + o] += x * w[o * l->in + i];
                    l->dx.d[r * l->in + i] += dy * w[o * l->in + i];
                    dw[o * l->in + i] += dy * x;
                }
    }
}

static void test_layers(void **state)
{
    /* in, out, and how many times 131 rows */
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 17, 1},    {65, 33, 1},
                                       {128, 96, 1}, {264, 136, 5}, {72, 2056, 20}};
    enum { SIZES = sizeof sizes / sizeof *sizes };

    (void)state;
    for (int t = 0; t < 2 * SIZES * DTYPES; t++) {
        const int64_t *size = sizes[t / DTYPES % SIZES];
        int write = t / DTYPES / SIZES;
        struct layers l;

        if (!is_sampled(t, DTYPES) && size[2] <= 5)
            continue;
        if (size[2] > 5 && (write || dtypes[t % DTYPES] != MDSK_BF16))
            continue; /* the reference takes a second */
        layers_init(&l, dtypes[t % DTYPES], size[0], size[1], (int)size[2]);
        layers_run(&l, write);
        layers_reference(&l, write);
        assert_near_as(l.dtype, "y", &l.y, tolerance.products);
        assert_near_as(l.dtype, "dx", &l.dx, tolerance.products);
        assert_near("dw", &l.dw, tolerance.products);
        layers_fini(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_route),     cmocka_unit_test(test_route_losses),
        cmocka_unit_test(test_route_bwd), cmocka_unit_test(test_dispatch_and_combine),
        cmocka_unit_test(test_weigh),     cmocka_unit_test(test_layers),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
