/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: linear layers, and the built-in product beside the library's. */
#include "tests/kernels/check.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/tile.h"

/* Relative Euclidean distance from the double reference. */
static const struct {
    double linear, gemm, bias, gelu;
} tolerance = {.linear = 5e-7, .gemm = 5e-7, .bias = 3e-7, .gelu = 2e-6};

struct shape {
    int64_t R, in, out;
};

static const struct shape shapes[] = {{1, 1, 1},       {3, 5, 7},      {17, 65, 33},
                                      {129, 64, 48},   {65, 129, 3},   {200, 300, 17},
                                      {1030, 31, 129}, {5, 1027, 1050}};

/* Shapes that GELU's epilogues know, beside those they do not. */
static const struct shape gelu_shapes[] = {
    {3, 5, 7}, {17, 65, 33}, {128, 64, 256}, {255, 256, 64}};

enum {
    SHAPES = sizeof shapes / sizeof *shapes,
    GELU_SHAPES = sizeof gelu_shapes / sizeof *gelu_shapes
};

/* c = (add ? c : 0) + op(a) op(b), in double */
static void reference(int64_t m, int64_t n, int64_t k, const double *a, int ta,
                      const double *b, int tb, double *c, int add)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;

            for (int64_t p = 0; p < k; p++)
                sum += a[ta ? p * m + i : i * k + p] * b[tb ? j * k + p : p * n + j];
            c[i * n + j] = (add ? c[i * n + j] : 0) + sum;
        }
}

/* cuBLASLt's products of rows that are no whole number of 16 bytes are rounded before
 * their bias is added, and then again. */
static void assert_biased(enum mdsk_dtype t, const char *what, struct vec *y,
                          int64_t cols, int biased)
{
    double unit = t == MDSK_F32 ? 0 : t == MDSK_BF16 ? 0x1p-9 : 0x1p-12;
    int twice = biased && backend() != mdsk_cpu() && cols % 8 != 0;

    assert_near_as(t, what, y, tolerance.linear + (twice ? unit / 2 : 0));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double c = sqrt(2 / acos(-1)), t = tanh(c * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

/* Of 16-bit numbers: what GELU is taken of may have been rounded. */
static double gelu_tolerance(enum mdsk_dtype type)
{
    static const double off[] = {
        [MDSK_F32] = 0, [MDSK_BF16] = 0x1p-9, [MDSK_F16] = 0x1p-12};

    return tolerance.gelu + off[type];
}

/* y = x w^T, or with b added; and GELU of it.  Twice: the second call may go another
 * way.
 */
static void check_fwd(enum mdsk_dtype type, const struct shape *s, int biased,
                      int with_gelu, int by_rows)
{
    int64_t R = s->R, in = s->in, out = s->out;
    struct vec x = vec_random(R * in, 1, 1);
    struct vec w = vec_random(in * out, 2, with_gelu ? 0.2 : 0.5);
    struct vec b = vec_random(out, 3, 1), y = vec_unset(R * out);
    struct vec g = vec_unset(R * out);
    struct mdsk_linear_fwd a = {.R = R,
                                .in = in,
                                .out = out,
                                .dtype = type,
                                .by_rows = by_rows,
                                .x = vec_as(type, &x),
                                .w = vec_as(type, &w),
                                .b = biased ? vec_as(type, &b) : NULL,
                                .y = vec_as(type, &y),
                                .gelu = with_gelu ? vec_as(type, &g) : NULL};

    for (int call = 0; call < 2; call++)
        assert_int_equal(backend()->linear_fwd(NULL, &a), 0);
    for (int64_t i = 0; i < R * out; i++)
        y.d[i] = b.d[i % out];
    reference(R, out, in, x.d, 0, w.d, 1, y.d, biased);
    assert_biased(type, "linear_fwd y", &y, out, biased);
    if (with_gelu) {
        for (int64_t i = 0; i < R * out; i++)
            g.d[i] = gelu(y.d[i]);
        assert_near_as(type, "linear_fwd gelu", &g, gelu_tolerance(type));
    }
    vec_free(&x);
    vec_free(&w);
    vec_free(&b);
    vec_free(&y);
    vec_free(&g);
}

/* dx = dy w, or through the slope of GELU at u. */
static void check_bwd_input(enum mdsk_dtype type, const struct shape *s, int with_gelu)
{
    int64_t R = s->R, in = s->in, out = s->out;
    struct vec dy = vec_random(R * out, 1, 1), w = vec_random(in * out, 2, 0.5);
    struct vec u = vec_random(R * in, 3, 3), dx = vec_unset(R * in);
    struct mdsk_linear_bwd_input a = {.R = R,
                                      .in = in,
                                      .out = out,
                                      .dtype = type,
                                      .dy = vec_as(type, &dy),
                                      .w = vec_as(type, &w),
                                      .u = with_gelu ? vec_as(type, &u) : NULL,
                                      .dx = vec_as(type, &dx)};

    for (int call = 0; call < 2; call++)
        assert_int_equal(backend()->linear_bwd_input(NULL, &a), 0);
    reference(R, in, out, dy.d, 0, w.d, 0, dx.d, 0);
    for (int64_t i = 0; with_gelu && i < R * in; i++)
        dx.d[i] *= gelu_slope(u.d[i]);
    assert_near_as(type, "linear_bwd_input dx", &dx,
                   with_gelu ? gelu_tolerance(type) : tolerance.linear);
    vec_free(&dy);
    vec_free(&w);
    vec_free(&u);
    vec_free(&dx);
}

static void test_linear_fwd(void **state)
{
    (void)state;
    for (int t = 0; t < 2 * DTYPES * SHAPES; t++)
        check_fwd(dtypes[t / 2 % DTYPES], &shapes[t / 6], t % 2, 0, 0);
}

static void test_linear_gelu_fwd(void **state)
{
    (void)state;
    for (int t = 0; t < 2 * DTYPES * GELU_SHAPES; t++)
        check_fwd(dtypes[t / 2 % DTYPES], &gelu_shapes[t / 6], t % 2, 1, 0);
}

/* One row, whole vectors or not, of one part of a lane's loads and of several. */
static void test_linear_of_one_row(void **state)
{
    static const struct shape rows[] = {{1, 1, 1},     {1, 65, 33},   {1, 64, 8},
                                        {1, 2048, 40}, {1, 4104, 17}, {1, 1027, 9}};

    (void)state;
    for (int t = 0; t < 4 * DTYPES * 6; t++)
        check_fwd(dtypes[t / 4 % DTYPES], &rows[t / 4 / DTYPES], t % 2, t / 2 % 2, 1);
}

static void test_linear_bwd_input(void **state)
{
    (void)state;
    for (int t = 0; t < DTYPES * SHAPES; t++)
        check_bwd_input(dtypes[t % DTYPES], &shapes[t / 3], 0);
}

static void test_linear_gelu_bwd_input(void **state)
{
    (void)state;
    for (int t = 0; t < DTYPES * GELU_SHAPES; t++)
        check_bwd_input(dtypes[t % DTYPES], &gelu_shapes[t / 3], 1);
}

static void test_linear_bwd_weight(void **state)
{
    (void)state;
    for (int t = 0; t < 2 * DTYPES * SHAPES; t++) {
        const enum mdsk_dtype type = dtypes[t / 2 % DTYPES];
        int64_t R = shapes[t / 6].R, in = shapes[t / 6].in, out = shapes[t / 6].out;
        struct vec x = vec_random(R * in, 1, 1), dy = vec_random(R * out, 2, 1);
        struct vec dw = vec_random(in * out, 3, 1), db = vec_random(out, 4, 1);
        struct mdsk_linear_bwd_weight a = {.R = R,
                                           .in = in,
                                           .out = out,
                                           .dtype = type,
                                           .x = vec_as(type, &x),
                                           .dy = vec_as(type, &dy),
                                           .dw = dw.f,
                                           .db = t % 2 ? db.f : NULL};

        a.write = t / 2 % 2;
        assert_int_equal(backend()->linear_bwd_weight(NULL, &a), 0);
        reference(out, in, R, dy.d, 1, x.d, 0, dw.d, !a.write);
        assert_near("linear_bwd_weight dw", &dw, tolerance.linear);
        for (int64_t i = 0; t % 2 && i < R * out; i++)
            db.d[i % out] += dy.d[i];
        assert_near("linear_bwd_weight db", &db, tolerance.bias);
        vec_free(&x);
        vec_free(&dy);
        vec_free(&dw);
        vec_free(&db);
    }
}

/* Some elements of dw, each a sum over all rows.  Without the last eight rows they
 * would be off by 8e-3 or more; rounding is off by far less. */
static void assert_all_rows_count(const struct shape *s, const struct vec *x,
                                  const struct vec *dy, const struct vec *dw)
{
    enum { SEEN = 256 };
    struct vec seen = vec_zero(SEEN);

    for (int e = 0; e < SEEN; e++) {
        int64_t at = e * (s->in * s->out / SEEN), o = at / s->in, i = at % s->in;

        for (int64_t r = 0; r < s->R; r++)
            seen.d[e] += dy->d[r * s->out + o] * x->d[r * s->in + i];
        seen.f[e] = dw->f[at];
    }
    assert_near("linear_bwd_weight dw of many rows", &seen, 2e-3);
    vec_free(&seen);
}

/* cuBLASLt splits the rows of narrow layers into parts of equal length.  The longest
 * are for GPUs: a cpu takes minutes. */
static void test_linear_bwd_weight_of_many_rows(void **state)
{
    static const struct shape many[] = {{8200, 320, 320},  {16392, 256, 256},
                                        {16392, 512, 512}, {24584, 640, 640},
                                        {65544, 128, 384}, {131080, 256, 768}};
    int shapes_here = backend() == mdsk_cpu() ? 1 : sizeof many / sizeof *many;

    (void)state;
    for (int i = 0; i < shapes_here; i++) {
        const struct shape *s = &many[i];
        struct vec x = vec_random(s->R * s->in, 1, 1);
        struct vec dy = vec_random(s->R * s->out, 2, 1);
        struct vec dw = vec_unset(s->in * s->out), db = vec_zero(s->out);

        for (int t = 0; t < 2 * DTYPES; t++) {
            const enum mdsk_dtype type = dtypes[t / 2];
            struct mdsk_linear_bwd_weight a = {.R = s->R,
                                               .in = s->in,
                                               .out = s->out,
                                               .dtype = type,
                                               .write = 1,
                                               .x = vec_as(type, &x),
                                               .dy = vec_as(type, &dy),
                                               .dw = dw.f,
                                               .db = t % 2 ? db.f : NULL};

            assert_int_equal(backend()->linear_bwd_weight(NULL, &a), 0);
            assert_all_rows_count(s, &x, &dy, &dw);
        }
        vec_free(&x);
        vec_free(&dy);
        vec_free(&dw);
        vec_free(&db);
    }
}

/* Batches of products in every orientation, with a matrix added or not; more rows than
 * a block of the cpu's. */
static void test_muon_products(void **state)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1},
                                       {3, 7, 17, 5},
                                       {2, 64, 48, 129},
                                       {2, 1030, 9, 31},
                                       {4, 32, 32, 32}};

    (void)state;
    for (int t = 0; t < 5 * DTYPES * 8; t++) {
        const enum mdsk_dtype type = dtypes[t / 8 % DTYPES];
        const int64_t *s = sizes[t / 8 / DTYPES];
        int64_t batch = s[0], m = s[1], n = s[2], k = s[3];
        int adds = t >> 2 & 1;
        struct vec x = vec_random(batch * m * k, 1, 1);
        struct vec w = vec_random(batch * k * n, 2, 1);
        struct vec z = vec_random(batch * m * n, 3, 1), y = vec_unset(batch * m * n);
        struct mdsk_muon_product a = {.batch = batch,
                                      .m = m,
                                      .n = n,
                                      .k = k,
                                      .flip_x = t & 1,
                                      .flip_w = t >> 1 & 1,
                                      .dtype = type,
                                      .alpha = 2.25f,
                                      .beta = -4.75f,
                                      .x = vec_as(type, &x),
                                      .w = vec_as(type, &w),
                                      .z = adds ? vec_as(type, &z) : NULL,
                                      .y = vec_as(type, &y)};

        assert_int_equal(backend()->muon_product(NULL, &a), 0);
        for (int64_t b = 0; b < batch; b++)
            reference(m, n, k, x.d + b * m * k, a.flip_x, w.d + b * k * n, a.flip_w,
                      y.d + b * m * n, 0);
        for (int64_t i = 0; i < batch * m * n; i++)
            y.d[i] = 2.25 * y.d[i] + (adds ? -4.75 * z.d[i] : 0);
        assert_near_as(type, "muon_product y", &y, tolerance.linear);
        vec_free(&x);
        vec_free(&w);
        vec_free(&z);
        vec_free(&y);
    }
}

struct layer {
    int64_t R, in, out;
    struct vec x, w, b, dy;
};

static double layer_loss(void *ctx)
{
    struct layer *l = ctx;
    double sum = 0;

    for (int64_t r = 0; r < l->R; r++)
        for (int64_t o = 0; o < l->out; o++) {
            double y = l->b.d[o];

            for (int64_t i = 0; i < l->in; i++)
                y += l->x.d[r * l->in + i] * l->w.d[o * l->in + i];
            sum += y * l->dy.d[r * l->out + o];
        }
    return sum;
}

static void test_linear_slopes(void **state)
{
    struct layer l = {.R = 9, .in = 17, .out = 5};
    struct vec dx = vec_unset(9 * 17), dw = vec_zero(17 * 5), db = vec_zero(5);
    struct mdsk_linear_bwd_input input = {.R = 9, .in = 17, .out = 5, .dx = dx.f};
    struct mdsk_linear_bwd_weight weight = {
        .R = 9, .in = 17, .out = 5, .dw = dw.f, .db = db.f};

    (void)state;
    l.x = vec_random(9 * 17, 1, 1);
    l.w = vec_random(17 * 5, 2, 1);
    l.b = vec_random(5, 3, 1);
    l.dy = vec_random(9 * 5, 4, 1);
    input.dy = weight.dy = l.dy.f;
    input.w = l.w.f;
    weight.x = l.x.f;
    assert_int_equal(backend()->linear_bwd_input(NULL, &input), 0);
    assert_int_equal(backend()->linear_bwd_weight(NULL, &weight), 0);
    assert_slope("linear dx", &l.x, dx.f, NULL, layer_loss, &l, 60);
    assert_slope("linear dw", &l.w, dw.f, NULL, layer_loss, &l, 60);
    assert_slope("linear db", &l.b, db.f, NULL, layer_loss, &l, 60);
    vec_free(&l.x);
    vec_free(&l.w);
    vec_free(&l.b);
    vec_free(&l.dy);
    vec_free(&dx);
    vec_free(&dw);
    vec_free(&db);
}

/* Every orientation, sizes about the edges of the blocks (6, 8, 16, 96, 256, 1024) and
 * of mdsk_gemm's tiles (288 x 289, 19 x 560). */
static void test_gemm(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1},      {7, 17, 3},      {6, 16, 256},
                                       {97, 33, 257},  {13, 1041, 5},   {200, 48, 513},
                                       {8, 15, 700},   {129, 129, 129}, {545, 289, 130},
                                       {19, 1100, 901}};
    static mdsk_gemm_fn *const gemms[] = {mdsk_gemm, mdsk_gemm_builtin, mdsk_gemm_rows};

    (void)state;
    for (int t = 0; t < 3 * 80; t++) {
        mdsk_gemm_fn *const gemm = gemms[t / 80];
        const int64_t *s = sizes[t / 8 % 10];
        int64_t m = s[0], n = s[1], k = s[2];
        int ta = t & 1, tb = t >> 1 & 1, add = t >> 2 & 1;
        struct vec a = vec_random(m * k, 1, 1), b = vec_random(k * n, 2, 1);
        struct vec c = add ? vec_random(m * n, 3, 1) : vec_unset(m * n);
        struct mdsk_operand pa = {a.f, ta ? m : k, ta}, pb = {b.f, tb ? k : n, tb};

        assert_int_equal(gemm(m, n, k, &pa, &pb, c.f, n, add), 0);
        reference(m, n, k, a.d, ta, b.d, tb, c.d, add);
        assert_near("gemm", &c, tolerance.gemm);
        vec_free(&a);
        vec_free(&b);
        vec_free(&c);
    }
}

/* Columns of a wider C beyond n stay as they are. */
static void test_gemm_keeps_to_its_columns(void **state)
{
    struct vec a = vec_random(20 * 9, 1, 1), b = vec_random(9 * 19, 2, 1);
    struct vec c = vec_random(20 * 40, 3, 1);
    struct mdsk_operand pa = {a.f, 9, 0}, pb = {b.f, 19, 0};

    (void)state;
    assert_int_equal(mdsk_gemm_builtin(20, 19, 9, &pa, &pb, c.f, 40, 0), 0);
    assert_int_equal(mdsk_gemm(20, 19, 9, &pa, &pb, c.f, 40, 0), 0);
    for (int i = 0; i < 20; i++)
        for (int j = 19; j < 40; j++)
            assert_true((double)c.f[i * 40 + j] == c.d[i * 40 + j]);
    vec_free(&a);
    vec_free(&b);
    vec_free(&c);
}

/* Of C in one tile, in two and in 2 x 2, by every product and orientation. */
static void test_gemm_same_bits_for_any_threads(void **state)
{
    static const int64_t sizes[][3] = {
        {150, 210, 300}, {1040, 331, 97}, {70, 2100, 130}, {1041, 701, 750}};
    static const int threads[] = {1, 2, 3, 16};
    static mdsk_gemm_fn *const gemms[] = {mdsk_gemm, mdsk_gemm_builtin, mdsk_gemm_rows};

    (void)state;
    for (int t = 0; t < 4 * 4 * 3; t++) {
        const int64_t *s = sizes[t / 4 % 4], m = s[0], n = s[1], k = s[2];
        const int ta = t & 1, tb = t >> 1 & 1;
        struct vec a = vec_random(m * k, 1, 1), b = vec_random(k * n, 2, 1), c[4];
        struct mdsk_operand pa = {a.f, ta ? m : k, ta}, pb = {b.f, tb ? k : n, tb};

        for (int i = 0; i < 4; i++) {
            c[i] = vec_unset(m * n);
            mdsk_cpu_set_threads(threads[i]);
            assert_int_equal(gemms[t / 16](m, n, k, &pa, &pb, c[i].f, n, 0), 0);
            assert_memory_equal(c[i].f, c[0].f, (size_t)(m * n) * sizeof(float));
        }
        assert_int_equal(mdsk_gemm_builtin(m, n, k, &pa, &pb, c[1].f, n, 0), 0);
        for (int64_t i = 0; i < m * n; i++)
            c[0].d[i] = (double)c[1].f[i];
        assert_near("gemm in tiles", &c[0], tolerance.gemm);
        for (int i = 0; i < 4; i++)
            vec_free(&c[i]);
        vec_free(&a);
        vec_free(&b);
    }
    mdsk_cpu_set_threads(2);
}

/* Of layers that ask for it, a row at a time and all together, of all types. */
static void test_rows_do_not_depend_on_each_other(void **state)
{
    enum { R = 75, IN = 1037, OUT = 101 };
    struct vec x = vec_random(R * IN, 1, 1), w = vec_random(OUT * IN, 2, 1);
    struct vec b = vec_random(OUT, 3, 1), all = vec_unset(R * OUT),
               one = vec_unset(OUT);

    (void)state;
    for (int t = 0; t < 3; t++) {
        static const enum mdsk_dtype types[] = {MDSK_F32, MDSK_BF16, MDSK_F16};
        size_t size = mdsk_dtype_size(types[t]);
        struct mdsk_linear_fwd a = {.R = R,
                                    .in = IN,
                                    .out = OUT,
                                    .dtype = types[t],
                                    .by_rows = 1,
                                    .x = x.f,
                                    .w = w.f,
                                    .b = b.f,
                                    .y = all.f};

        if (size == 2) { /* any numbers of 16 bits, but none that are not finite */
            for (int64_t i = 0; i < R * IN; i++)
                ((uint16_t *)x.f)[i] = (uint16_t)(i * 7919 % 0x3000);
            for (int64_t i = 0; i < OUT * IN; i++)
                ((uint16_t *)w.f)[i] = (uint16_t)(i * 104729 % 0x3000);
            for (int64_t i = 0; i < OUT; i++)
                ((uint16_t *)b.f)[i] = (uint16_t)(i * 31 % 0x3000);
        }
        assert_int_equal(mdsk_cpu()->linear_fwd(NULL, &a), 0);
        a.R = 1;
        a.y = one.f;
        for (int64_t r = 0; r < R; r++) {
            a.x = (char *)x.f + (size_t)(r * IN) * size;
            assert_int_equal(mdsk_cpu()->linear_fwd(NULL, &a), 0);
            assert_memory_equal(one.f, (char *)all.f + (size_t)(r * OUT) * size,
                                OUT * size);
        }
    }
    vec_free(&x);
    vec_free(&w);
    vec_free(&b);
    vec_free(&all);
    vec_free(&one);
}

static void test_linear_repeats(void **state)
{
    enum { R = 300, IN = 65, OUT = 129 };
    struct vec x = vec_random(R * IN, 1, 1), dy = vec_random(R * OUT, 2, 1);
    struct vec dw[2] = {vec_zero(IN * OUT), vec_zero(IN * OUT)};
    struct vec db[2] = {vec_zero(OUT), vec_zero(OUT)};

    (void)state;
    for (int t = 0; t < 2; t++) {
        struct mdsk_linear_bwd_weight a = {.R = R,
                                           .in = IN,
                                           .out = OUT,
                                           .x = x.f,
                                           .dy = dy.f,
                                           .dw = dw[t].f,
                                           .db = db[t].f};

        assert_int_equal(backend()->linear_bwd_weight(NULL, &a), 0);
    }
    assert_memory_equal(dw[0].f, dw[1].f, IN * OUT * sizeof(float));
    assert_memory_equal(db[0].f, db[1].f, OUT * sizeof(float));
    for (int t = 0; t < 2; t++) {
        vec_free(&dw[t]);
        vec_free(&db[t]);
    }
    vec_free(&x);
    vec_free(&dy);
}

static void test_describe_names_library_and_threads(void **state)
{
    (void)state;
    mdsk_cpu_set_threads(2);
#ifdef _OPENMP
    assert_non_null(strstr(mdsk_cpu_describe(), ", 2 threads"));
#endif
    mdsk_cpu_set_threads(1);
    assert_non_null(strstr(mdsk_cpu_describe(), ", 1 thread"));
    assert_null(strstr(mdsk_cpu_describe(), "threads"));
    mdsk_cpu_set_threads(2);
}

/* OpenBLAS takes kernels of 2004 on a CPU that is newer than itself. */
static void test_kernels_are_as_new_as_the_cpu(void **state)
{
    (void)state;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        assert_null(strstr(mdsk_cpu_describe(), "(Prescott)"));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_fwd),
        cmocka_unit_test(test_linear_of_one_row),
        cmocka_unit_test(test_linear_bwd_input),
        cmocka_unit_test(test_linear_gelu_fwd),
        cmocka_unit_test(test_linear_gelu_bwd_input),
        cmocka_unit_test(test_linear_bwd_weight),
        cmocka_unit_test(test_linear_bwd_weight_of_many_rows),
        cmocka_unit_test(test_linear_slopes),
        cmocka_unit_test(test_muon_products),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_keeps_to_its_columns),
        cmocka_unit_test(test_gemm_same_bits_for_any_threads),
        cmocka_unit_test(test_rows_do_not_depend_on_each_other),
        cmocka_unit_test(test_linear_repeats),
        cmocka_unit_test(test_describe_names_library_and_threads),
        cmocka_unit_test(test_kernels_are_as_new_as_the_cpu),
    };

    mdsk_cpu_set_threads(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
