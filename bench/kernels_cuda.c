/* How fast the cuda kernels are beside what the GPU can do.
 *
 *   bench/kernels_cuda [bf16 | f16 | f32]
 *
 * Shapes are those of a GPT of 1.3B parameters (hidden 2048, 16 heads of 128) over
 * 32768 tokens.  The floor of a product, and of attention, is its flops at the rate of
 * a product of 8192 x 8192 x 8192; that of the others is their bytes at the rate of a
 * copy of 1 GiB within the device.  Times are medians. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/half.h"

enum { R = 32768, H = 2048, A = 16, D = 128, F = 4 * H, WORDS = 50304, TILE = 8192 };

static enum mdsk_dtype dtype = MDSK_BF16;
static const struct mdsk_table *kern;

static void must(int err, const char *what)
{
    if (err == 0)
        return;
    fprintf(stderr, "bench/kernels_cuda: %s: %s\n", what, mdsk_cuda_why());
    exit(1);
}

/* ---- memory
 * --------------------------------------------------------------------------
 */

static void *taken[64];
static int n_taken;

static void *take(int64_t bytes)
{
    void *p = NULL;

    must(mdsk_cuda_rc(cudaMalloc(&p, (size_t)bytes)), "cudaMalloc");
    taken[n_taken++] = p;
    return p;
}

static void give_back(void)
{
    while (n_taken > 0)
        cudaFree(taken[--n_taken]);
}

/* n numbers of a type: the same few million again and again, since what products cost
 * depends on what they multiply. */
static void *numbers_as(enum mdsk_dtype t, int64_t n)
{
    enum { PIECE = 1 << 20 };
    static float piece[PIECE];
    static uint16_t half[PIECE];
    int64_t size = (int64_t)mdsk_dtype_size(t);
    char *p = take(n * size);
    uint32_t state = 1;

    for (int i = 0; i < PIECE; i++) {
        state = state * 1664525 + 1013904223;
        piece[i] = (float)(state >> 8) * 0x1p-23f - 1;
        half[i] =
            t == MDSK_F16 ? mdsk_f32_to_f16(piece[i]) : mdsk_f32_to_bf16(piece[i]);
    }
    for (int64_t i = 0; i < n; i += PIECE)
        must(mdsk_cuda_rc(cudaMemcpy(p + i * size,
                                     t == MDSK_F32 ? (void *)piece : (void *)half,
                                     (size_t)((n - i < PIECE ? n - i : PIECE) * size),
                                     cudaMemcpyHostToDevice)),
             "cudaMemcpy");
    return p;
}

static void *stored(int64_t n)
{
    return numbers_as(dtype, n);
}

static float *floats(int64_t n)
{
    return numbers_as(MDSK_F32, n);
}

/* R tokens of a vocabulary. */
static int32_t *tokens(int64_t n, int32_t words)
{
    int32_t *there = take(n * (int64_t)sizeof *there);
    int32_t *here = malloc((size_t)n * sizeof *here);

    must(here ? 0 : mdsk_cuda_fail("tokens", "no memory"), "malloc");
    for (int64_t i = 0; i < n; i++)
        here[i] = (int32_t)(i * 7919 % words);
    must(mdsk_cuda_rc(
             cudaMemcpy(there, here, (size_t)n * sizeof *here, cudaMemcpyHostToDevice)),
         "cudaMemcpy");
    free(here);
    return there;
}

/* ---- time
 * ----------------------------------------------------------------------------
 */

enum { WARM = 5, LAPS = 25 };

/* Laps of one operation; event i begins lap i. */
struct laps {
    int runs;
    cudaEvent_t event[LAPS + 1];
    double median_s;
};

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void finish(struct laps *l)
{
    float ms[LAPS];

    must(mdsk_cuda_rc(cudaDeviceSynchronize()), "kernels");
    for (int i = 0; i < LAPS; i++)
        cudaEventElapsedTime(&ms[i], l->event[i], l->event[i + 1]);
    qsort(ms, LAPS, sizeof *ms, by_size);
    l->median_s = (double)ms[LAPS / 2] * 1e-3;
    for (int i = 0; i <= LAPS; i++)
        cudaEventDestroy(l->event[i]);
}

static int lap(struct laps *l)
{
    int i = l->runs++ - WARM;

    if (i < 0)
        return 1;
    must(mdsk_cuda_rc(cudaEventCreate(&l->event[i])), "cudaEventCreate");
    cudaEventRecord(l->event[i], NULL);
    if (i < LAPS)
        return 1;
    finish(l);
    return 0;
}

static double copy_rate, product_rate; /* bytes/s, flops/s */

static void report(const char *name, const struct laps *l, struct mdsk_cost c)
{
    double us = l->median_s * 1e6, floor_us;

    if (c.flops > 0) {
        floor_us = c.flops / product_rate * 1e6;
        printf("%-26s %10.1f us %8.1f TFLOP/s  floor %10.1f us  %3.0f %%\n", name, us,
               c.flops / us * 1e-6, floor_us, 100 * floor_us / us);
    } else {
        floor_us = c.bytes / copy_rate * 1e6;
        printf("%-26s %10.1f us %8.1f GB/s     floor %10.1f us  %3.0f %%\n", name, us,
               c.bytes / us * 1e-3, floor_us, 100 * floor_us / us);
    }
    fflush(stdout);
}

static void measure_rates(void)
{
    enum { N = 8192 };
    const int64_t bytes = 1 << 30;
    struct mdsk_linear_fwd a = {.R = N, .in = N, .out = N, .dtype = dtype};
    char *x = take(2 * bytes);
    struct laps l[2] = {0};

    while (lap(&l[0]))
        cudaMemcpyAsync(x + bytes, x, (size_t)bytes, cudaMemcpyDeviceToDevice, NULL);
    copy_rate = 2 * (double)bytes / l[0].median_s;
    a.x = stored((int64_t)N * N);
    a.w = stored((int64_t)N * N);
    a.y = stored((int64_t)N * N);
    while (lap(&l[1]))
        must(kern->linear_fwd(NULL, &a), "product");
    product_rate = mdsk_linear_fwd_cost(&a).flops / l[1].median_s;
    printf("copy %.0f GB/s, product %.0f TFLOP/s\n", copy_rate * 1e-9,
           product_rate * 1e-12);
    give_back();
}

/* ---- operations
 * ----------------------------------------------------------------------
 */

static void time_linear(const char *name, int64_t rows, int64_t in, int64_t out)
{
    void *x = stored(rows * in), *w = stored(in * out), *y = stored(rows * out);
    struct mdsk_linear_fwd f = {rows, in, out, dtype, x, w, stored(out), y};
    struct mdsk_linear_bwd_input i = {rows, in, out, dtype, y, w, x};
    struct mdsk_linear_bwd_weight g = {
        rows, in, out, dtype, x, y, floats(in * out), floats(out)};
    struct laps l[3] = {0};
    char text[40];

    while (lap(&l[0]))
        must(kern->linear_fwd(NULL, &f), name);
    while (lap(&l[1]))
        must(kern->linear_bwd_input(NULL, &i), name);
    while (lap(&l[2]))
        must(kern->linear_bwd_weight(NULL, &g), name);
    snprintf(text, sizeof text, "linear %s fwd", name);
    report(text, &l[0], mdsk_linear_fwd_cost(&f));
    snprintf(text, sizeof text, "linear %s bwd input", name);
    report(text, &l[1], mdsk_linear_bwd_input_cost(&i));
    snprintf(text, sizeof text, "linear %s bwd weight", name);
    report(text, &l[2], mdsk_linear_bwd_weight_cost(&g));
    give_back();
}

static struct mdsk_heads heads(int64_t B, int64_t S)
{
    return (struct mdsk_heads){stored(B * S * A * D), A * D, B * A * D, D};
}

static void time_attention(int64_t B, int64_t S)
{
    struct mdsk_attention_shape s = {.B = B,
                                     .A = A,
                                     .G = A,
                                     .Sq = S,
                                     .Sk = S,
                                     .D = D,
                                     .scale = 0.088f,
                                     .dtype = dtype};
    struct mdsk_attention_fwd f = {.shape = s,
                                   .q = heads(B, S),
                                   .k = heads(B, S),
                                   .v = heads(B, S),
                                   .o = heads(B, S),
                                   .lse = floats(B * A * S)};
    struct mdsk_attention_bwd b = {.shape = s,
                                   .q = f.q,
                                   .k = f.k,
                                   .v = f.v,
                                   .o = f.o,
                                   .d_o = heads(B, S),
                                   .dq = heads(B, S),
                                   .dk = heads(B, S),
                                   .dv = heads(B, S),
                                   .lse = f.lse,
                                   .delta = floats(B * A * S)};
    struct laps l[2] = {0};
    char text[40];

    while (lap(&l[0]))
        must(kern->attention_fwd(NULL, &f), "attention fwd");
    while (lap(&l[1]))
        must(kern->attention_bwd(NULL, &b), "attention bwd");
    snprintf(text, sizeof text, "attention %lld fwd", (long long)S);
    report(text, &l[0], mdsk_attention_fwd_cost(&f));
    snprintf(text, sizeof text, "attention %lld bwd", (long long)S);
    report(text, &l[1], mdsk_attention_bwd_cost(&b));
    give_back();
}

static void time_merge(void)
{
    struct mdsk_attention_merge a = {.B = 1,
                                     .A = A,
                                     .Sq = R,
                                     .D = D,
                                     .dtype = dtype,
                                     .acc = {floats((int64_t)R * H), H, H, D},
                                     .o2 = {stored((int64_t)R * H), H, H, D},
                                     .lse = floats(A * R),
                                     .lse2 = floats(A * R)};
    struct laps l = {0};

    while (lap(&l))
        must(kern->attention_merge(NULL, &a), "merge");
    report("attention merge", &l, mdsk_attention_merge_cost(&a));
    give_back();
}

static void time_norm(const char *name, int64_t rows, int64_t wide)
{
    int64_t n = rows * wide;
    struct mdsk_norm_fwd f = {.R = rows,
                              .H = wide,
                              .dtype = dtype,
                              .eps = 1e-5f,
                              .x = stored(n),
                              .r = stored(n),
                              .sum = stored(n),
                              .gamma = stored(wide),
                              .beta = stored(wide),
                              .y = stored(n),
                              .mean = floats(rows),
                              .rstd = floats(rows)};
    struct mdsk_norm_bwd b = {.R = rows,
                              .H = wide,
                              .dtype = dtype,
                              .x = f.sum,
                              .gamma = f.gamma,
                              .mean = f.mean,
                              .rstd = f.rstd,
                              .dy = f.y,
                              .dx = stored(n),
                              .dgamma = floats(wide),
                              .dbeta = floats(wide)};
    struct laps l[2] = {0};
    char text[40];

    while (lap(&l[0]))
        must(kern->norm_fwd(NULL, &f), name);
    while (lap(&l[1]))
        must(kern->norm_bwd(NULL, &b), name);
    snprintf(text, sizeof text, "norm %s fwd", name);
    report(text, &l[0], mdsk_norm_fwd_cost(&f));
    snprintf(text, sizeof text, "norm %s bwd", name);
    report(text, &l[1], mdsk_norm_bwd_cost(&b));
    give_back();
}

static void time_activation(const char *name, enum mdsk_activation_kind kind)
{
    int64_t n = (int64_t)R * F;
    struct mdsk_activation_fwd f = {kind, R, F, dtype, stored(2 * n), stored(n)};
    struct mdsk_activation_bwd b = {kind, R, F, dtype, f.x, f.y, stored(2 * n)};
    struct laps l[2] = {0};
    char text[40];

    while (lap(&l[0]))
        must(kern->activation_fwd(NULL, &f), name);
    while (lap(&l[1]))
        must(kern->activation_bwd(NULL, &b), name);
    snprintf(text, sizeof text, "%s fwd", name);
    report(text, &l[0], mdsk_activation_fwd_cost(&f));
    snprintf(text, sizeof text, "%s bwd", name);
    report(text, &l[1], mdsk_activation_bwd_cost(&b));
    give_back();
}

static void time_embedding(const char *name, int32_t words)
{
    struct mdsk_embedding_fwd f = {.B = 1,
                                   .S = R,
                                   .H = H,
                                   .words = words,
                                   .dtype = dtype,
                                   .token = tokens(R, words),
                                   .word = stored((int64_t)words * H),
                                   .y = stored((int64_t)R * H)};
    struct mdsk_embedding_bwd b = {.B = 1,
                                   .S = R,
                                   .H = H,
                                   .words = words,
                                   .dtype = dtype,
                                   .token = f.token,
                                   .dy = f.y,
                                   .dword = floats((int64_t)words * H)};
    struct laps l[2] = {0};
    char text[40];

    while (lap(&l[0]))
        must(kern->embedding_fwd(NULL, &f), name);
    while (lap(&l[1]))
        must(kern->embedding_bwd(NULL, &b), name);
    snprintf(text, sizeof text, "embedding %s fwd", name);
    report(text, &l[0], mdsk_embedding_fwd_cost(&f));
    snprintf(text, sizeof text, "embedding %s bwd", name);
    report(text, &l[1], mdsk_embedding_bwd_cost(&b));
    give_back();
}

static void time_loss(const char *name, int64_t rows, int32_t words)
{
    struct mdsk_xent_stats s = {.R = rows,
                                .words = words,
                                .valid = words,
                                .ld = words,
                                .dtype = dtype,
                                .logits = stored(rows * words),
                                .target = tokens(rows, words),
                                .max = floats(rows),
                                .sum = floats(rows),
                                .target_logit = floats(rows)};
    struct mdsk_xent_bwd b = {.R = rows,
                              .words = words,
                              .valid = words,
                              .ld = words,
                              .dtype = dtype,
                              .logits = (void *)(uintptr_t)s.logits,
                              .target = s.target,
                              .lse = s.max,
                              .scale = 1};
    struct laps l[2] = {0};
    char text[40];

    while (lap(&l[0]))
        must(kern->xent_stats(NULL, &s), name);
    while (lap(&l[1]))
        must(kern->xent_bwd(NULL, &b), name);
    snprintf(text, sizeof text, "loss %s stats", name);
    report(text, &l[0], mdsk_xent_stats_cost(&s));
    snprintf(text, sizeof text, "loss %s bwd", name);
    report(text, &l[1], mdsk_xent_bwd_cost(&b));
    give_back();
}

static void time_elements(void)
{
    int64_t n = (int64_t)R * F;
    void *x = stored(n), *y = stored(n);
    struct mdsk_dropout drop = {.rows = {1, R, 0, 0},
                                .H = F,
                                .dtype = dtype,
                                .key = {0.1f, 1, 2, 3},
                                .x = x,
                                .y = y};
    struct mdsk_add add = {n, dtype, x, y};
    struct mdsk_copy_rows copy = {R, F / 2, F, F / 2, dtype, x, y};
    struct mdsk_rope rope = {.B = 4,
                             .S = R,
                             .A = A,
                             .D = D,
                             .rot = D,
                             .theta = 1e4,
                             .dtype = dtype,
                             .x = {x, H, 4 * H, D}};
    struct laps l[4] = {0};

    while (lap(&l[0]))
        must(kern->dropout(NULL, &drop), "dropout");
    while (lap(&l[1]))
        must(kern->add(NULL, &add), "add");
    while (lap(&l[2]))
        must(kern->copy_rows(NULL, &copy), "copy_rows");
    while (lap(&l[3]))
        must(kern->rope(NULL, &rope), "rope");
    report("dropout", &l[0], mdsk_dropout_cost(&drop));
    report("add", &l[1], mdsk_add_cost(&add));
    report("copy rows", &l[2], mdsk_copy_rows_cost(&copy));
    report("rope", &l[3], mdsk_rope_cost(&rope));
    give_back();
}

static void time_step(void)
{
    const int64_t n = 200000000;
    float *x = floats(4 * n);
    struct mdsk_sum_squares squares = {n, x, take(sizeof(double))};
    struct mdsk_scale scale = {n, 1, x};
    struct mdsk_cast cast = {n, MDSK_F32, dtype, x, stored(n)};
    struct mdsk_adamw adamw = {.n = n,
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .eps = 1e-8f,
                               .correction1 = 1,
                               .correction2 = 1,
                               .grad_scale = 1,
                               .master = x,
                               .m = x + n,
                               .v = x + 2 * n,
                               .grad = x + 3 * n,
                               .dtype = dtype,
                               .weight = cast.y};
    struct laps l[4] = {0};

    while (lap(&l[0]))
        must(kern->sum_squares(NULL, &squares), "sum_squares");
    while (lap(&l[1]))
        must(kern->scale(NULL, &scale), "scale");
    while (lap(&l[2]))
        must(kern->cast(NULL, &cast), "cast");
    while (lap(&l[3]))
        must(kern->adamw(NULL, &adamw), "adamw");
    report("sum of squares, 200M", &l[0], mdsk_sum_squares_cost(&squares));
    report("scale, 200M", &l[1], mdsk_scale_cost(&scale));
    report("cast, 200M", &l[2], mdsk_cast_cost(&cast));
    report("adamw, 200M", &l[3], mdsk_adamw_cost(&adamw));
    give_back();
}

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
    kern = mdsk_cuda();
    if (!set_dtype(argc > 1 ? argv[1] : "bf16")) {
        fprintf(stderr, "usage: bench/kernels_cuda [bf16 | f16 | f32]\n");
        return 1;
    }
    measure_rates();
    time_norm("2048", R, H);
    time_norm("768", 2 * R, 768);
    time_norm("4096", R / 2, 4096);
    time_norm("8192", R / 4, 8192);
    time_norm("12288", R / 4, 12288);
    time_activation("gelu", MDSK_GELU);
    time_activation("swiglu", MDSK_SWIGLU);
    time_embedding("50304", WORDS);
    time_embedding("72", 72);
    time_loss("50304", TILE, WORDS);
    time_loss("72", 64 * R, 72);
    time_elements();
    time_step();
    time_merge();
    time_linear("qkv", R, H, 3 * H);
    time_linear("fc1", R, H, F);
    time_linear("fc2", R, F, H);
    time_linear("head", TILE, H, WORDS);
    time_attention(16, 2048);
    time_attention(1, 32768);
    return 0;
}
