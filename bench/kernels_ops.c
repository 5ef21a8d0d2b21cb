/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation at a device's sizes. */
#include "bench/kernels_timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- products and attention ---- */

struct linear {
    struct mdsk_linear_fwd fwd;
    struct mdsk_linear_bwd_input input;
    struct mdsk_linear_bwd_weight weight;
    struct laps l[3];
};

static void time_products(const struct bench *b, int64_t rows, int64_t in, int64_t out,
                          int bias, struct linear *p)
{
    void *x = random_tensor(b, rows * in), *w = random_tensor(b, in * out),
         *y = random_tensor(b, rows * out);

    *p = (struct linear){.fwd = {.R = rows,
                                 .in = in,
                                 .out = out,
                                 .dtype = b->dtype,
                                 .x = x,
                                 .w = w,
                                 .b = bias ? random_tensor(b, out) : NULL,
                                 .y = y},
                         .input = {.R = rows,
                                   .in = in,
                                   .out = out,
                                   .dtype = b->dtype,
                                   .dy = y,
                                   .w = w,
                                   .dx = x},
                         .weight = {.R = rows,
                                    .in = in,
                                    .out = out,
                                    .dtype = b->dtype,
                                    .x = x,
                                    .dy = y,
                                    .dw = zero_floats(b, in * out),
                                    .db = bias ? zero_floats(b, out) : NULL}};
    TIME(b, &p->l[0], linear_fwd, &p->fwd);
    TIME(b, &p->l[1], linear_bwd_input, &p->input);
    TIME(b, &p->l[2], linear_bwd_weight, &p->weight);
    b->dev->free_all();
}

static void report_linear(const struct bench *b, const char *name, int64_t rows,
                          int64_t in, int64_t out)
{
    struct linear p;
    char text[40];

    time_products(b, rows, in, out, 1, &p);
    snprintf(text, sizeof text, "linear %s fwd", name);
    print_line(b, text, &p.l[0], mdsk_linear_fwd_cost(&p.fwd));
    snprintf(text, sizeof text, "linear %s bwd input", name);
    print_line(b, text, &p.l[1], mdsk_linear_bwd_input_cost(&p.input));
    snprintf(text, sizeof text, "linear %s bwd weight", name);
    print_line(b, text, &p.l[2], mdsk_linear_bwd_weight_cost(&p.weight));
}

void bench_product(const struct bench *b, int64_t rows, int64_t in, int64_t out)
{
    struct linear p;

    time_products(b, rows, in, out, 0, &p);
    printf("product %lld %lld %lld %.9f %.9f %.9f\n", (long long)rows, (long long)in,
           (long long)out, p.l[0].s, p.l[1].s, p.l[2].s);
}

/* first [E+1]: experts with 3/4 and 5/4 of the mean in turns. */
static int32_t *uneven_rows(const struct bench *b, int64_t rows, int64_t E)
{
    int32_t *there = b->dev->alloc((E + 1) * (int64_t)sizeof *there);
    int32_t first[MDSK_EXPERTS_MOST + 1];

    for (int64_t e = 0; e <= E; e++)
        first[e] = (int32_t)(rows * (4 * e - (e < E ? e % 2 : 0)) / (4 * E));
    b->dev->put(there, first, (E + 1) * (int64_t)sizeof *there);
    return there;
}

static void print_experts(const char *name, const struct laps *l,
                          const struct laps *dense, double flops)
{
    printf("experts %-12s %10.1f us %9.1f GFLOP/s  dense %10.1f us  %.2f\n", name,
           l->s * 1e6, flops / l->s * 1e-9, dense->s * 1e6, dense->s / l->s);
}

void bench_experts(const struct bench *b, int64_t rows, int64_t in, int64_t out,
                   int64_t E)
{
    struct mdsk_experts_fwd fwd = {.rows = rows,
                                   .E = E,
                                   .in = in,
                                   .out = out,
                                   .step = in * out,
                                   .dtype = b->dtype};
    struct mdsk_experts_bwd_input input = {.rows = rows,
                                           .E = E,
                                           .in = in,
                                           .out = out,
                                           .step = in * out,
                                           .dtype = b->dtype};
    struct mdsk_experts_bwd_weight weight = {.rows = rows,
                                             .E = E,
                                             .in = in,
                                             .out = out,
                                             .step = in * out,
                                             .dtype = b->dtype};
    struct laps l[3] = {{0}};
    double flops = mdsk_experts_fwd_cost(&fwd).flops;
    struct linear dense;

    time_products(b, rows, in, out, 0, &dense);
    fwd.first = input.first = weight.first = uneven_rows(b, rows, E);
    fwd.x = weight.x = input.dx = random_tensor(b, rows * in);
    fwd.w = input.w = random_tensor(b, E * in * out);
    fwd.y = random_tensor(b, rows * out);
    input.dy = weight.dy = fwd.y;
    weight.dw = zero_floats(b, E * in * out);
    TIME(b, &l[0], experts_fwd, &fwd);
    TIME(b, &l[1], experts_bwd_input, &input);
    TIME(b, &l[2], experts_bwd_weight, &weight);
    b->dev->free_all();
    print_experts("fwd", &l[0], &dense.l[0], flops);
    print_experts("bwd input", &l[1], &dense.l[1], flops);
    print_experts("bwd weight", &l[2], &dense.l[2], flops);
}

/* Codes [rows, cols] of random numbers, with their scale. */
static struct mdsk_fp8_operand random_codes(const struct bench *b, int64_t rows,
                                            int64_t cols, enum mdsk_dtype type)
{
    struct mdsk_fp8_cast a = {.R = rows,
                              .C = cols,
                              .dtype = b->dtype,
                              .to = type,
                              .x = random_tensor(b, rows * cols),
                              .rows = b->dev->alloc(rows * mdsk_fp8_ld(cols)),
                              .scale = b->dev->alloc(16)};

    b->dev->check_rc(b->kern->fp8_cast(NULL, &a), "fp8_cast");
    return (struct mdsk_fp8_operand){type, a.rows, a.scale};
}

/* Seconds of y [M, N] = a b^T, or y += a b^T in f32; a is of type `type`. */
static double time_fp8_gemm(const struct bench *b, int64_t M, int64_t N, int64_t K,
                            enum mdsk_dtype type, int add)
{
    struct mdsk_fp8_gemm a = {.M = M,
                              .N = N,
                              .K = K,
                              .dtype = add ? MDSK_F32 : b->dtype,
                              .fast = type == MDSK_E4M3,
                              .add = add,
                              .a = random_codes(b, M, K, type),
                              .b = random_codes(b, N, K, MDSK_E4M3)};
    struct laps l = {0};

    a.y = add ? (void *)zero_floats(b, M * N) : b->dev->alloc(M * N * 2);
    TIME(b, &l, fp8_gemm, &a);
    b->dev->free_all();
    return l.s;
}

void bench_fp8_product(const struct bench *b, int64_t rows, int64_t in, int64_t out)
{
    double fwd = time_fp8_gemm(b, rows, out, in, MDSK_E4M3, 0);
    double input = time_fp8_gemm(b, rows, in, out, MDSK_E5M2, 0);
    double weight = time_fp8_gemm(b, out, in, rows, MDSK_E5M2, 1);

    printf("fp8-product %lld %lld %lld %.9f %.9f %.9f\n", (long long)rows,
           (long long)in, (long long)out, fwd, input, weight);
}

struct attention {
    struct mdsk_attention_fwd fwd;
    struct mdsk_attention_bwd bwd;
    struct laps l[2];
};

static struct mdsk_heads random_heads(const struct bench *b, int64_t B, int64_t S,
                                      int64_t A, int64_t D)
{
    return (struct mdsk_heads){random_tensor(b, B * S * A * D), S * A * D, A * D, D};
}

static void time_attention(const struct bench *b, int64_t B, int64_t S, int64_t A,
                           int64_t D, int64_t window, float dropout,
                           struct attention *p)
{
    struct mdsk_attention_shape s = {.B = B,
                                     .A = A,
                                     .G = A,
                                     .Sq = S,
                                     .Sk = S,
                                     .D = D,
                                     .window = window,
                                     .scale = 0.1f,
                                     .dtype = b->dtype};
    struct mdsk_heads at[8];

    s.dropout.p = dropout;
    for (int i = 0; i < 8; i++)
        at[i] = random_heads(b, B, S, A, D);
    *p = (struct attention){.fwd = {.shape = s,
                                    .q = at[0],
                                    .k = at[1],
                                    .v = at[2],
                                    .o = at[3],
                                    .lse = random_floats(b, B * A * S)},
                            .bwd = {.shape = s,
                                    .q = at[0],
                                    .k = at[1],
                                    .v = at[2],
                                    .o = at[3],
                                    .d_o = at[4],
                                    .dq = at[5],
                                    .dk = at[6],
                                    .dv = at[7],
                                    .delta = random_floats(b, B * A * S)}};
    p->bwd.lse = p->fwd.lse;
    TIME(b, &p->l[0], attention_fwd, &p->fwd);
    TIME(b, &p->l[1], attention_bwd, &p->bwd);
    b->dev->free_all();
}

static void report_attention(const struct bench *b, int64_t B, int64_t S, float dropout)
{
    const struct bench_sizes *z = &b->dev->sizes;
    struct attention p;
    char text[40];

    time_attention(b, B, S, z->heads, z->head_dim, 0, dropout, &p);
    snprintf(text, sizeof text, "attention %lld%s fwd", (long long)S,
             dropout > 0 ? " dropout" : "");
    print_line(b, text, &p.l[0], mdsk_attention_fwd_cost(&p.fwd));
    snprintf(text, sizeof text, "attention %lld%s bwd", (long long)S,
             dropout > 0 ? " dropout" : "");
    print_line(b, text, &p.l[1], mdsk_attention_bwd_cost(&p.bwd));
}

void bench_attention(const struct bench *b, int64_t sequences, int64_t tokens,
                     int64_t heads, int64_t head_dim, int64_t window)
{
    struct attention p;

    time_attention(b, sequences, tokens, heads, head_dim, window, 0, &p);
    printf("attention %lld %lld %lld %lld %.9f %.9f", (long long)sequences,
           (long long)tokens, (long long)heads, (long long)head_dim, p.l[0].s,
           p.l[1].s);
    if (window > 0)
        printf(" window %lld, %.3g and %.3g TFLOP/s", (long long)window,
               mdsk_attention_fwd_cost(&p.fwd).flops / p.l[0].s / 1e12,
               mdsk_attention_bwd_cost(&p.bwd).flops / p.l[1].s / 1e12);
    printf("\n");
}

/* ---- the others ---- */

void bench_norm(const struct bench *b, int64_t rows, int64_t cols)
{
    int64_t n = rows * cols;
    struct mdsk_norm_fwd f = {.R = rows, .H = cols, .dtype = b->dtype, .eps = 1e-5f};
    struct mdsk_norm_bwd g = {.R = rows, .H = cols, .dtype = b->dtype};
    struct laps l[2] = {0};
    char text[40];

    f.x = random_tensor(b, n);
    f.r = random_tensor(b, n);
    g.x = f.sum = random_tensor(b, n);
    g.dy = f.y = random_tensor(b, n);
    g.d = g.dx = random_tensor(b, n);
    g.gamma = f.gamma = random_tensor(b, cols);
    f.beta = random_tensor(b, cols);
    g.mean = f.mean = random_floats(b, rows);
    g.rstd = f.rstd = random_floats(b, rows);
    g.dgamma = random_floats(b, cols);
    g.dbeta = random_floats(b, cols);
    TIME(b, &l[0], norm_fwd, &f);
    TIME(b, &l[1], norm_bwd, &g);
    snprintf(text, sizeof text, "norm %lld x %lld fwd", (long long)rows,
             (long long)cols);
    print_line(b, text, &l[0], mdsk_norm_fwd_cost(&f));
    snprintf(text, sizeof text, "norm %lld x %lld bwd", (long long)rows,
             (long long)cols);
    print_line(b, text, &l[1], mdsk_norm_bwd_cost(&g));
    b->dev->free_all();
}

void bench_fp8_cast(const struct bench *b, int64_t rows, int64_t cols)
{
    static const struct {
        const char *name;
        int by_rows, by_columns, search, sum, gelu;
    } casts[] = {
        {"rows, searched", 1, 0, 1, 0, 0},
        {"both, searched", 1, 1, 1, 0, 0},
        {"both+sums, searched", 1, 1, 1, 1, 0},
        {"both of GELU, searched", 1, 1, 1, 0, 1},
        {"rows", 1, 0, 0, 0, 0},
        {"transposed", 0, 1, 0, 0, 0},
        {"both", 1, 1, 0, 0, 0},
    };
    void *x = random_tensor(b, rows * cols),
         *by_rows = b->dev->alloc(rows * mdsk_fp8_ld(cols)),
         *by_columns = b->dev->alloc(cols * mdsk_fp8_ld(rows));
    float *scale = b->dev->alloc(16), *sum = zero_floats(b, cols);
    uint32_t *amax = b->dev->alloc(16);

    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        struct mdsk_fp8_cast a = {.R = rows,
                                  .C = cols,
                                  .dtype = b->dtype,
                                  .to = MDSK_E4M3,
                                  .x = x,
                                  .rows = casts[i].by_rows ? by_rows : NULL,
                                  .cols = casts[i].by_columns ? by_columns : NULL,
                                  .scale = scale,
                                  .sum = casts[i].sum ? sum : NULL,
                                  .amax = amax,
                                  .amax_known = !casts[i].search,
                                  .activated = casts[i].gelu,
                                  .kind = MDSK_GELU};
        struct laps l = {0};
        char text[64];

        TIME(b, &l, fp8_cast, &a);
        snprintf(text, sizeof text, "fp8_cast %s", casts[i].name);
        print_line(b, text, &l, mdsk_fp8_cast_cost(&a));
    }
    b->dev->free_all();
}

static void report_activation(const struct bench *b, enum mdsk_activation_kind kind)
{
    const char *name = mdsk_activation_of(kind)->name;
    int64_t R = b->dev->sizes.rows, F = b->dev->sizes.ffn, n = R * F;
    struct mdsk_activation_fwd f = {
        kind, R, F, b->dtype, random_tensor(b, 2 * n), random_tensor(b, n)};
    struct mdsk_activation_bwd g = {
        kind, R, F, b->dtype, f.x, f.y, random_tensor(b, 2 * n), NULL};
    struct laps l[2] = {0};
    char text[40];

    TIME(b, &l[0], activation_fwd, &f);
    TIME(b, &l[1], activation_bwd, &g);
    snprintf(text, sizeof text, "%s fwd", name);
    print_line(b, text, &l[0], mdsk_activation_fwd_cost(&f));
    snprintf(text, sizeof text, "%s bwd", name);
    print_line(b, text, &l[1], mdsk_activation_bwd_cost(&g));
    b->dev->free_all();
}

void bench_embedding(const struct bench *b, int64_t S, int64_t H, int32_t words)
{
    struct mdsk_embedding_fwd f = {.B = 1,
                                   .S = S,
                                   .H = H,
                                   .words = words,
                                   .dtype = b->dtype,
                                   .token = random_tokens(b, S, words),
                                   .word = random_tensor(b, words * H),
                                   .y = random_tensor(b, S * H)};
    struct mdsk_embedding_bwd g = {.B = 1,
                                   .S = S,
                                   .H = H,
                                   .words = words,
                                   .dtype = b->dtype,
                                   .token = f.token,
                                   .dy = f.y,
                                   .dword = random_floats(b, words * H)};
    struct laps l[2] = {0};
    char text[40];

    TIME(b, &l[0], embedding_fwd, &f);
    TIME(b, &l[1], embedding_bwd, &g);
    snprintf(text, sizeof text, "embedding %lld of %d fwd", (long long)S, words);
    print_line(b, text, &l[0], mdsk_embedding_fwd_cost(&f));
    snprintf(text, sizeof text, "embedding %lld of %d bwd", (long long)S, words);
    print_line(b, text, &l[1], mdsk_embedding_bwd_cost(&g));
    b->dev->free_all();
}

void bench_loss(const struct bench *b, int64_t rows, int32_t words)
{
    void *logits = random_tensor(b, rows * words);
    struct mdsk_xent_stats s = {.R = rows,
                                .words = words,
                                .valid = words,
                                .ld = words,
                                .dtype = b->dtype,
                                .logits = logits,
                                .target = random_tokens(b, rows, words),
                                .max = random_floats(b, rows),
                                .sum = random_floats(b, rows),
                                .target_logit = random_floats(b, rows)};
    struct mdsk_xent_bwd g = {.R = rows,
                              .words = words,
                              .valid = words,
                              .ld = words,
                              .dtype = b->dtype,
                              .logits = logits,
                              .target = s.target,
                              .lse = s.max,
                              .scale = 1};
    struct mdsk_xent_stats both = s;
    struct laps l[3] = {0};
    char text[40];

    both.gradient = 1;
    both.scale = 1;
    TIME(b, &l[0], xent_stats, &s);
    TIME(b, &l[1], xent_bwd, &g);
    TIME(b, &l[2], xent_stats, &both);
    snprintf(text, sizeof text, "loss %lld x %d stats", (long long)rows, words);
    print_line(b, text, &l[0], mdsk_xent_stats_cost(&s));
    snprintf(text, sizeof text, "loss %lld x %d bwd", (long long)rows, words);
    print_line(b, text, &l[1], mdsk_xent_bwd_cost(&g));
    snprintf(text, sizeof text, "loss %lld x %d at once", (long long)rows, words);
    print_line(b, text, &l[2], mdsk_xent_stats_cost(&both));
    b->dev->free_all();
}

static void report_elements(const struct bench *b)
{
    const struct bench_sizes *z = &b->dev->sizes;
    int64_t R = z->rows, F = z->ffn, H = z->hidden, n = R * F;
    void *x = random_tensor(b, n), *y = random_tensor(b, n);
    struct mdsk_dropout drop = {.rows = {1, R, 0, 0},
                                .H = F,
                                .dtype = b->dtype,
                                .key = {0.1f, 1, 2, 3},
                                .x = x,
                                .y = y};
    struct mdsk_add add = {n, b->dtype, x, y, NULL};
    struct mdsk_copy_rows copy = {R, F / 2, F, F / 2, b->dtype, x, y};
    double frequency[64]; /* heads have at most 128 elements */
    struct mdsk_rope rope = {.B = F / H,
                             .S = R,
                             .A = z->heads,
                             .D = z->head_dim,
                             .rot = z->head_dim,
                             .frequency = frequency,
                             .scale = 1,
                             .dtype = b->dtype,
                             .x = {x, H, F, z->head_dim}};
    struct laps l[4] = {0};

    for (int64_t i = 0; i < rope.rot / 2; i++)
        frequency[i] = pow(1e4, -2 * (double)i / (double)rope.rot);
    TIME(b, &l[0], dropout, &drop);
    TIME(b, &l[1], add, &add);
    TIME(b, &l[2], copy_rows, &copy);
    TIME(b, &l[3], rope, &rope);
    print_line(b, "dropout", &l[0], mdsk_dropout_cost(&drop));
    print_line(b, "add", &l[1], mdsk_add_cost(&add));
    print_line(b, "copy rows", &l[2], mdsk_copy_rows_cost(&copy));
    print_line(b, "rope", &l[3], mdsk_rope_cost(&rope));
    b->dev->free_all();
}

static void report_merge(const struct bench *b)
{
    const struct bench_sizes *z = &b->dev->sizes;
    int64_t R = z->rows, A = z->heads, D = z->head_dim, n = R * A * D;
    struct mdsk_attention_merge a = {.B = 1,
                                     .A = A,
                                     .Sq = R,
                                     .D = D,
                                     .dtype = b->dtype,
                                     .acc = {random_floats(b, n), n, A * D, D},
                                     .o2 = {random_tensor(b, n), n, A * D, D},
                                     .lse = random_floats(b, A * R),
                                     .lse2 = random_floats(b, A * R)};
    struct laps l = {0};

    TIME(b, &l, attention_merge, &a);
    print_line(b, "attention merge", &l, mdsk_attention_merge_cost(&a));
    b->dev->free_all();
}

void bench_step(const struct bench *b, int64_t n)
{
    float *master = random_floats(b, n), *grad = random_floats(b, n);
    void *weight = b->dtype == MDSK_F32 ? NULL : random_tensor(b, n);
    struct mdsk_sum_squares squares = {n, grad, b->dev->alloc(sizeof(double))};
    struct mdsk_cast cast = {n, MDSK_F32, b->dtype, master, weight ? weight : grad};
    struct mdsk_adamw adamw = {.n = n,
                               .spans = 1,
                               .decays = 1,
                               .span_end = {n},
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .eps = 1e-8f,
                               .correction1 = 1,
                               .correction2 = 1,
                               .grad_scale = 1,
                               .master = master,
                               .m = zero_floats(b, n),
                               .v = zero_floats(b, n),
                               .grad = grad,
                               .dtype = b->dtype,
                               .weight = weight};
    struct laps l[3] = {0};

    TIME(b, &l[0], sum_squares, &squares);
    TIME(b, &l[1], cast, &cast);
    TIME(b, &l[2], adamw, &adamw);
    print_line(b, "sum of squares", &l[0], mdsk_sum_squares_cost(&squares));
    print_line(b, "cast", &l[1], mdsk_cast_cost(&cast));
    print_line(b, "adamw", &l[2], mdsk_adamw_cost(&adamw));
    b->dev->free_all();
}

void bench_operations(const struct bench *b)
{
    const struct bench_sizes *z = &b->dev->sizes;

    measure_product(b);
    for (int i = 0; z->norm[i].rows; i++)
        bench_norm(b, z->norm[i].rows, z->norm[i].cols);
    for (int kind = 0; kind < MDSK_ACTIVATION_KINDS; kind++)
        report_activation(b, kind);
    for (int i = 0; z->vocab[i].rows; i++) {
        bench_embedding(b, z->rows, z->hidden, z->vocab[i].words);
        bench_loss(b, z->vocab[i].rows, z->vocab[i].words);
    }
    report_elements(b);
    bench_step(b, z->parameters);
    report_merge(b);
    report_linear(b, "qkv", z->rows, z->hidden, 3 * z->hidden);
    report_linear(b, "out", z->rows, z->hidden, z->hidden);
    report_linear(b, "fc1", z->rows, z->hidden, z->ffn);
    report_linear(b, "fc2", z->rows, z->ffn, z->hidden);
    report_linear(b, "head", z->head_rows, z->hidden, z->vocab[0].words);
    for (int i = 0; z->attention[i].tokens; i++)
        report_attention(b, z->attention[i].sequences, z->attention[i].tokens,
                         z->attention[i].dropout);
}
