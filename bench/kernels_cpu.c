/* SPDX-License-Identifier: BSD-3-Clause */
/* The cpu to time kernels on.  The best lap counts, since others use the machine too.
 */
#include "bench/kernels.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 }; /* blocks taken at a time */

static void *taken[MOST];
static int n_taken;

static void *bench_alloc(int64_t bytes)
{
    void *p = n_taken < MOST ? malloc((size_t)bytes) : NULL;

    if (!p) {
        fprintf(stderr, "bench/kernels: no memory for %lld bytes\n", (long long)bytes);
        exit(1);
    }
    return taken[n_taken++] = p;
}

static void free_all(void)
{
    while (n_taken > 0)
        free(taken[--n_taken]);
}

static void copy_to_device(void *there, const void *here, int64_t bytes)
{
    memcpy(there, here, (size_t)bytes);
}

static int next_lap(struct laps *l)
{
    double now = bench_now_s();

    if (l->runs == 0) {
        l->begin_s = now;
        l->s = INFINITY;
    } else if (now - l->lap_s < l->s) {
        l->s = now - l->lap_s;
    }
    l->runs++;
    l->lap_s = bench_now_s();
    return l->runs < 5 || now - l->begin_s < 0.3;
}

static void check_rc(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench/kernels: %s: %s\n", what, strerror(-rc));
    exit(1);
}

/* memcpy of that many bytes by the same threads. */
static double time_copy(double bytes)
{
    int threads = mdsk_threads();
    size_t part = (size_t)(bytes / 2 / threads) + 1;
    char *from = malloc(part * (size_t)threads), *to = malloc(part * (size_t)threads);
    struct laps l = {0};

    check_rc(from && to ? 0 : -12, "copy");
    memset(from, 1, part * (size_t)threads);
    while (next_lap(&l)) {
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(static)
#endif
        for (int t = 0; t < threads; t++)
            memcpy(to + (size_t)t * part, from + (size_t)t * part, part);
    }
    free(from);
    free(to);
    return l.s;
}

/* Of the products that are built in: the library's may be slower. */
static double other_product_flops(void)
{
    enum { N = 1536 };
    float *x = bench_alloc((int64_t)sizeof *x * 3 * N * N);
    struct mdsk_operand a = {x, N, 0}, b = {x + N * N, N, 0};
    struct laps l = {0};

    for (int64_t i = 0; i < 2 * N * N; i++)
        x[i] = (float)(i * 7919 % 2001 - 1000) * 1e-3f;
    while (next_lap(&l))
        check_rc(mdsk_gemm_builtin(N, N, N, &a, &b, x + 2 * N * N, N, 0), "product");
    free_all();
    return 2.0 * N * N * N / l.s;
}

static void print_device(void)
{
    printf("%s\n", mdsk_cpu_describe());
}

/* 8 layers, hidden 320, 5 heads, 4 sequences of 512 tokens. */
static const struct bench_device cpu = {
    .kernels = mdsk_cpu,
    .sizes = {.rows = 2048,
              .hidden = 320,
              .heads = 5,
              .head_dim = 64,
              .ffn = 1280,
              .norm = {{2048, 320}},
              .vocab = {{2048, 128}},
              .attention = {{4, 512, 0}, {4, 512, 0.1f}, {1, 2048, 0}},
              .head_rows = 2048,
              .parameters = 10000000,
              .square = 1536},
    .describe = print_device,
    .alloc = bench_alloc,
    .put = copy_to_device,
    .free_all = free_all,
    .lap = next_lap,
    .check_rc = check_rc,
    .copy_s = time_copy,
    .other_product_flops = other_product_flops,
};

const struct bench_device *bench_cpu(int threads)
{
    mdsk_cpu_set_threads(threads);
    return &cpu;
}
