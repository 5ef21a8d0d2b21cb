/* How fast the kernels are beside what the machine can do.
 *
 *   bench/kernels [THREADS [SEQUENCES [f32 | bf16 | f16]]]
 *
 * Shapes are those of a GPT of 10M parameters (8 layers, hidden 320, 5 heads, 512
 * tokens a sequence), and attention once more at 2048 tokens.  The floor of a product
 * is its flops at the rate of the built-in or library product on 1536 x 1536 x 1536,
 * whichever is faster; the floor of the others is the time memcpy takes to move their
 * bytes through the same threads. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/product.h"
#include "kernels/half.h"
#include "kernels/table.h"

enum { H = 320, A = 5, D = 64, F = 4 * H, WORDS = 128, S = 512, PARAMETERS = 10000000 };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Laps of one operation: the best counts, since others use the machine too. */
struct laps {
    int runs;
    double begin_s, lap_s, best_s;
};

static int lap(struct laps *l)
{
    double now = now_s();

    if (l->runs == 0) {
        l->begin_s = now;
        l->best_s = INFINITY;
    } else if (now - l->lap_s < l->best_s) {
        l->best_s = now - l->lap_s;
    }
    l->runs++;
    l->lap_s = now_s();
    return l->runs < 5 || now - l->begin_s < 0.3;
}

static float *numbers(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);

    if (!x) {
        fprintf(stderr, "bench/kernels: no memory for %lld floats\n", (long long)n);
        exit(1);
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 7919 % 2001 - 1000) * 1e-3f;
    return x;
}

/* Of weights and activations. */
static enum mdsk_dtype dtype = MDSK_F32;

/* n numbers of that type, in room for n floats. */
static void *stored(int64_t n)
{
    float *x = numbers(n);
    uint16_t *h = (uint16_t *)(void *)x;

    for (int64_t i = 0; dtype != MDSK_F32 && i < n; i++)
        h[i] = dtype == MDSK_BF16 ? mdsk_f32_to_bf16(x[i]) : mdsk_f32_to_f16(x[i]);
    return x;
}

static double copy_s(double bytes)
{
    int threads = mdsk_threads();
    size_t part = (size_t)(bytes / 2 / threads);
    float *from = numbers((int64_t)part / 4 * threads + 1);
    float *to = numbers((int64_t)part / 4 * threads + 1);
    struct laps l = {0};

    while (lap(&l)) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int t = 0; t < threads; t++)
            memcpy(to + (size_t)t * (part / 4), from + (size_t)t * (part / 4), part);
    }
    free(from);
    free(to);
    return l.best_s;
}

static double product_flops;

static void report(const char *name, const struct laps *l, struct mdsk_cost c)
{
    double ms = l->best_s * 1e3;

    if (c.flops > 0) {
        double floor_ms = c.flops / product_flops * 1e3;

        printf("%-28s %8.3f ms %8.1f GFLOP/s   floor %7.3f ms  %3.0f %%\n", name, ms,
               c.flops / ms * 1e-6, floor_ms, 100 * floor_ms / ms);
    } else {
        double floor_ms = copy_s(c.bytes) * 1e3;

        printf("%-28s %8.3f ms %8.1f GB/s      floor %7.3f ms  %3.0f %%\n", name, ms,
               c.bytes / ms * 1e-6, floor_ms, 100 * floor_ms / ms);
    }
}

typedef int product_fn(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                       const struct mdsk_operand *b, float *c, int64_t ldc, int add);

static double rate(const char *name, product_fn *product)
{
    enum { N = 1536 };
    float *x = numbers(3 * N * N);
    struct mdsk_operand a = {x, N, 0}, b = {x + N * N, N, 0};
    struct laps l = {0};

    while (lap(&l))
        product(N, N, N, &a, &b, x + 2 * N * N, N, 0);
    free(x);
    printf("%-28s %8.3f ms %8.1f GFLOP/s\n", name, l.best_s * 1e3,
           2e-9 * N * N * N / l.best_s);
    return 2.0 * N * N * N / l.best_s;
}

static void time_linear(const char *name, int64_t R, int64_t in, int64_t out)
{
    void *x = stored(R * in), *w = stored(in * out), *y = stored(R * out);
    void *b = stored(out);
    float *dw = numbers(in * out), *db = numbers(out);
    struct mdsk_linear_fwd fwd = {R, in, out, dtype, x, w, b, y};
    struct mdsk_linear_bwd_input input = {R, in, out, dtype, y, w, x};
    struct mdsk_linear_bwd_weight weight = {R, in, out, dtype, x, y, dw, db};
    struct laps l[3] = {0};
    char text[40];

    while (lap(&l[0]))
        mdsk_cpu()->linear_fwd(NULL, &fwd);
    while (lap(&l[1]))
        mdsk_cpu()->linear_bwd_input(NULL, &input);
    while (lap(&l[2]))
        mdsk_cpu()->linear_bwd_weight(NULL, &weight);
    snprintf(text, sizeof text, "linear %s fwd", name);
    report(text, &l[0], mdsk_linear_fwd_cost(&fwd));
    snprintf(text, sizeof text, "linear %s bwd input", name);
    report(text, &l[1], mdsk_linear_bwd_input_cost(&input));
    snprintf(text, sizeof text, "linear %s bwd weight", name);
    report(text, &l[2], mdsk_linear_bwd_weight_cost(&weight));
    free(x);
    free(w);
    free(y);
    free(b);
    free(dw);
    free(db);
}

/* What the built-in gemm makes of the same layer. */
static void time_gemm(const char *name, int64_t R, int64_t in, int64_t out)
{
    float *x = numbers(R * in), *w = numbers(in * out), *y = numbers(R * out);
    struct mdsk_operand px = {x, in, 0}, wt = {w, in, 1}, dyt = {y, out, 1};
    struct mdsk_cost cost = {.flops = 2.0 * (double)R * (double)in * (double)out};
    struct laps l[2] = {0};
    char text[40];

    while (lap(&l[0]))
        mdsk_gemm(R, out, in, &px, &wt, y, out, 1);
    while (lap(&l[1]))
        mdsk_gemm(out, in, R, &dyt, &px, w, in, 1);
    snprintf(text, sizeof text, "built-in %s fwd", name);
    report(text, &l[0], cost);
    snprintf(text, sizeof text, "built-in %s bwd weight", name);
    report(text, &l[1], cost);
    free(x);
    free(w);
    free(y);
}

static void time_attention(int64_t B, int64_t tokens, float p)
{
    int64_t n = B * tokens * A * D;
    float *stats = numbers(2 * B * A * tokens);
    void *x[9];
    struct mdsk_attention_shape s = {.B = B,
                                     .A = A,
                                     .G = A,
                                     .Sq = tokens,
                                     .Sk = tokens,
                                     .D = D,
                                     .scale = 0.125f,
                                     .dtype = dtype};
    struct mdsk_attention_fwd f;
    struct mdsk_attention_bwd b;
    struct mdsk_heads at[9];
    struct laps l[2] = {0};
    char text[40];

    s.dropout.p = p;
    for (int i = 0; i < 9; i++) {
        x[i] = stored(n);
        at[i] = (struct mdsk_heads){x[i], tokens * A * D, A * D, D};
    }
    f = (struct mdsk_attention_fwd){
        .shape = s, .q = at[0], .k = at[1], .v = at[2], .o = at[3], .lse = stats};
    b = (struct mdsk_attention_bwd){.shape = s,
                                    .q = at[0],
                                    .k = at[1],
                                    .v = at[2],
                                    .o = at[3],
                                    .d_o = at[4],
                                    .dq = at[5],
                                    .dk = at[6],
                                    .dv = at[7],
                                    .lse = stats,
                                    .delta = stats + B * A * tokens};
    while (lap(&l[0]))
        mdsk_cpu()->attention_fwd(NULL, &f);
    while (lap(&l[1]))
        mdsk_cpu()->attention_bwd(NULL, &b);
    snprintf(text, sizeof text, "attention %lld%s fwd", (long long)tokens,
             p > 0 ? " dropout" : "");
    report(text, &l[0], mdsk_attention_fwd_cost(&f));
    snprintf(text, sizeof text, "attention %lld%s bwd", (long long)tokens,
             p > 0 ? " dropout" : "");
    report(text, &l[1], mdsk_attention_bwd_cost(&b));
    for (int i = 0; i < 9; i++)
        free(x[i]);
    free(stats);
}

static void time_norm(int64_t R)
{
    void *x = stored(R * H), *r = stored(R * H), *sum = stored(R * H);
    void *y = stored(R * H), *gamma = stored(H), *beta = stored(H);
    float *weight = numbers(2 * H), *stats = numbers(2 * R);
    struct mdsk_norm_fwd f = {.R = R,
                              .H = H,
                              .dtype = dtype,
                              .eps = 1e-5f,
                              .x = x,
                              .r = r,
                              .sum = sum,
                              .gamma = gamma,
                              .beta = beta,
                              .y = y,
                              .mean = stats,
                              .rstd = stats + R};
    struct mdsk_norm_bwd b = {.R = R,
                              .H = H,
                              .dtype = dtype,
                              .x = x,
                              .gamma = gamma,
                              .mean = stats,
                              .rstd = stats + R,
                              .dy = r,
                              .dx = sum,
                              .dgamma = weight,
                              .dbeta = weight + H};
    struct laps l[2] = {0};

    while (lap(&l[0]))
        mdsk_cpu()->norm_fwd(NULL, &f);
    while (lap(&l[1]))
        mdsk_cpu()->norm_bwd(NULL, &b);
    report("norm fwd, with residual", &l[0], mdsk_norm_fwd_cost(&f));
    report("norm bwd", &l[1], mdsk_norm_bwd_cost(&b));
    free(x);
    free(r);
    free(sum);
    free(y);
    free(gamma);
    free(beta);
    free(weight);
    free(stats);
}

static void time_activation(const char *name, enum mdsk_activation_kind kind, int64_t R)
{
    void *x = stored(2 * R * F), *y = stored(R * F), *dx = stored(2 * R * F);
    struct mdsk_activation_fwd f = {kind, R, F, dtype, x, y};
    struct mdsk_activation_bwd b = {kind, R, F, dtype, x, y, dx};
    struct laps l[2] = {0};
    char text[40];

    while (lap(&l[0]))
        mdsk_cpu()->activation_fwd(NULL, &f);
    while (lap(&l[1]))
        mdsk_cpu()->activation_bwd(NULL, &b);
    snprintf(text, sizeof text, "%s fwd", name);
    report(text, &l[0], mdsk_activation_fwd_cost(&f));
    snprintf(text, sizeof text, "%s bwd", name);
    report(text, &l[1], mdsk_activation_bwd_cost(&b));
    free(x);
    free(y);
    free(dx);
}

static void time_ends(int64_t R)
{
    void *x = stored(R * H), *word = stored(WORDS * H), *logits = stored(R * WORDS);
    float *row = numbers(3 * R), *dword = numbers(WORDS * H);
    int32_t *token = calloc((size_t)R, sizeof *token);
    struct mdsk_embedding_fwd ef = {.B = R / S,
                                    .S = S,
                                    .H = H,
                                    .words = WORDS,
                                    .dtype = dtype,
                                    .token = token,
                                    .word = word,
                                    .y = x};
    struct mdsk_embedding_bwd eb = {.B = R / S,
                                    .S = S,
                                    .H = H,
                                    .words = WORDS,
                                    .dtype = dtype,
                                    .token = token,
                                    .dy = x,
                                    .dword = dword};
    struct mdsk_xent_stats st = {.R = R,
                                 .words = WORDS,
                                 .valid = WORDS,
                                 .ld = WORDS,
                                 .dtype = dtype,
                                 .logits = logits,
                                 .target = token,
                                 .max = row,
                                 .sum = row + R,
                                 .target_logit = row + 2 * R};
    struct mdsk_xent_bwd xb = {.R = R,
                               .words = WORDS,
                               .valid = WORDS,
                               .ld = WORDS,
                               .dtype = dtype,
                               .logits = logits,
                               .target = token,
                               .lse = row,
                               .scale = 1};
    struct laps l[4] = {0};

    for (int64_t r = 0; token && r < R; r++)
        token[r] = (int32_t)(r * 37 % WORDS);
    while (token && lap(&l[0]))
        mdsk_cpu()->embedding_fwd(NULL, &ef);
    while (token && lap(&l[1]))
        mdsk_cpu()->embedding_bwd(NULL, &eb);
    while (token && lap(&l[2]))
        mdsk_cpu()->xent_stats(NULL, &st);
    while (token && lap(&l[3]))
        mdsk_cpu()->xent_bwd(NULL, &xb);
    report("embedding fwd", &l[0], mdsk_embedding_fwd_cost(&ef));
    report("embedding bwd", &l[1], mdsk_embedding_bwd_cost(&eb));
    report("xent stats", &l[2], mdsk_xent_stats_cost(&st));
    report("xent bwd", &l[3], mdsk_xent_bwd_cost(&xb));
    free(x);
    free(word);
    free(dword);
    free(logits);
    free(row);
    free(token);
}

static void time_elements(int64_t R)
{
    int64_t n = R * H;
    void *x = stored(n), *y = stored(n);
    struct mdsk_dropout drop = {.rows = {R / S, S, 0, 0},
                                .H = H,
                                .dtype = dtype,
                                .key = {0.1f, 1, 2, 3},
                                .x = x,
                                .y = y};
    struct mdsk_add add = {n, dtype, x, y};
    struct mdsk_rope rope = {.B = R / S,
                             .S = S,
                             .A = A,
                             .D = D,
                             .rot = D,
                             .theta = 1e4,
                             .dtype = dtype,
                             .x = {x, S * H, H, D}};
    struct laps l[3] = {0};

    while (lap(&l[0]))
        mdsk_cpu()->dropout(NULL, &drop);
    while (lap(&l[1]))
        mdsk_cpu()->add(NULL, &add);
    while (lap(&l[2]))
        mdsk_cpu()->rope(NULL, &rope);
    report("dropout", &l[0], mdsk_dropout_cost(&drop));
    report("add", &l[1], mdsk_add_cost(&add));
    report("rope", &l[2], mdsk_rope_cost(&rope));
    free(x);
    free(y);
}

static void time_step(void)
{
    int64_t n = PARAMETERS;
    float *x = numbers(4 * n);
    void *weight = dtype == MDSK_F32 ? NULL : stored(n);
    double sum = 0;
    struct mdsk_sum_squares squares = {n, x, &sum};
    struct mdsk_adamw adamw = {.n = n,
                               .lr = 1e-3f,
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .eps = 1e-8f,
                               .weight_decay = 0.1f,
                               .correction1 = 1,
                               .correction2 = 1,
                               .grad_scale = 1,
                               .master = x,
                               .m = x + n,
                               .v = x + 2 * n,
                               .grad = x + 3 * n,
                               .dtype = dtype,
                               .weight = weight};
    struct laps l[2] = {0};

    memset(x + n, 0, 2 * (size_t)n * sizeof *x);
    while (lap(&l[0]))
        mdsk_cpu()->sum_squares(NULL, &squares);
    while (lap(&l[1]))
        mdsk_cpu()->adamw(NULL, &adamw);
    report("sum of squares, 10M", &l[0], mdsk_sum_squares_cost(&squares));
    report("adamw, 10M", &l[1], mdsk_adamw_cost(&adamw));
    free(x);
    free(weight);
}

/* Whether the name is that of a type; it then is dtype. */
static int set_dtype(const char *name)
{
    static const char *const names[] = {"f32", "bf16", "f16"};

    for (int t = MDSK_F32; t <= MDSK_F16; t++) {
        if (strcmp(name, names[t]) == 0) {
            dtype = (enum mdsk_dtype)t;
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int64_t B = argc > 2 ? atoi(argv[2]) : 4, R = B * S;
    double built_in;

    if (threads < 1 || B < 1 || !set_dtype(argc > 3 ? argv[3] : "f32")) {
        fprintf(stderr,
                "usage: bench/kernels [THREADS [SEQUENCES [f32 | bf16 | f16]]]\n");
        return 1;
    }
    mdsk_cpu_set_threads(threads);
    printf("%s; %lld sequences of %d tokens\n", mdsk_cpu_describe(), (long long)B, S);
    product_flops = rate("product 1536^3", mdsk_product);
    built_in = rate("built-in product 1536^3", mdsk_gemm);
    product_flops = built_in > product_flops ? built_in : product_flops;
    time_linear("qkv", R, H, 3 * H);
    time_linear("out", R, H, H);
    time_linear("fc1", R, H, F);
    time_linear("fc2", R, F, H);
    time_gemm("qkv", R, H, 3 * H);
    time_gemm("out", R, H, H);
    time_gemm("fc2", R, F, H);
    time_attention(B, S, 0);
    time_attention(B, S, 0.1f);
    time_attention(1, 2048, 0);
    time_norm(R);
    time_activation("gelu", MDSK_GELU, R);
    time_activation("swiglu", MDSK_SWIGLU, R);
    time_ends(R);
    time_elements(R);
    time_step();
    return 0;
}
