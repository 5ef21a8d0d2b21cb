/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU to time kernels on.  Laps are timed by events; their median counts.  Before
 * them the GPU is kept busy for a while: after idling it is faster than it can stay. */
#include "bench/kernels.h"

#include <config.h>

#include <stddef.h>

#ifdef HAVE_CUDA
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

enum { LAPS = 25, MOST = 64 };
static const double warm_s = 0.2;

static void check_rc(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench/kernels: %s: %s\n", what, mdsk_cuda_error_text());
    exit(1);
}

static void *taken[MOST];
static int n_taken;

static void *bench_alloc(int64_t bytes)
{
    void *p = NULL;

    check_rc(n_taken < MOST ? 0 : mdsk_cuda_fail("alloc", "too many blocks"), "memory");
    check_rc(mdsk_cuda_rc(cudaMalloc(&p, (size_t)bytes)), "cudaMalloc");
    return taken[n_taken++] = p;
}

static void free_all(void)
{
    while (n_taken > 0)
        cudaFree(taken[--n_taken]);
}

static void copy_to_device(void *there, const void *here, int64_t bytes)
{
    check_rc(
        mdsk_cuda_rc(cudaMemcpy(there, here, (size_t)bytes, cudaMemcpyHostToDevice)),
        "cudaMemcpy");
}

/* Event i begins lap i. */
static cudaEvent_t mark[LAPS + 1];

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double median_s(void)
{
    float ms[LAPS];

    check_rc(mdsk_cuda_rc(cudaDeviceSynchronize()), "kernels");
    for (int i = 0; i < LAPS; i++)
        cudaEventElapsedTime(&ms[i], mark[i], mark[i + 1]);
    qsort(ms, LAPS, sizeof *ms, by_size);
    return (double)ms[LAPS / 2] * 1e-3;
}

/* Whether the GPU has been busy for long enough. */
static int is_warm(struct laps *l)
{
    if (l->begin_s == 0)
        l->begin_s = bench_now_s();
    check_rc(mdsk_cuda_rc(cudaDeviceSynchronize()), "kernels");
    return bench_now_s() - l->begin_s > warm_s;
}

static int next_lap(struct laps *l)
{
    int i = l->runs;

    if (i == 0 && !is_warm(l))
        return 1;
    l->runs++;
    if (!mark[i])
        check_rc(mdsk_cuda_rc(cudaEventCreate(&mark[i])), "cudaEventCreate");
    cudaEventRecord(mark[i], NULL);
    if (i < LAPS)
        return 1;
    l->s = median_s();
    return 0;
}

/* At the rate of a copy of 1 GiB: kernels find their data as little in the cache. */
static double time_copy(double bytes)
{
    static double rate; /* bytes/s */
    const int64_t n = 1 << 30;
    struct laps l = {0};

    if (rate > 0)
        return bytes / rate;
    char *x = bench_alloc(2 * n);
    while (next_lap(&l))
        cudaMemcpyAsync(x + n, x, (size_t)n, cudaMemcpyDeviceToDevice, NULL);
    cudaFree(taken[--n_taken]); /* the caller's tensors stay */
    rate = 2 * (double)n / l.s;
    return bytes / rate;
}

static void print_device(void)
{
    struct cudaDeviceProp p;

    check_rc(mdsk_cuda_rc(cudaGetDeviceProperties(&p, 0)), "cudaGetDeviceProperties");
    printf("%s\n", p.name);
}

/* 24 layers, hidden 2048, 16 heads of 128, 32768 tokens; norms of other widths, too. */
static const struct bench_device cuda = {
    .kernels = mdsk_cuda,
    .sizes = {.rows = 32768,
              .hidden = 2048,
              .heads = 16,
              .head_dim = 128,
              .ffn = 8192,
              .norm = {{16384, 2048},
                       {32768, 768},
                       {32768, 2048},
                       {65536, 768},
                       {16384, 4096},
                       {8192, 8192},
                       {8192, 12288}},
              .vocab = {{8192, 50304}, {2097152, 72}},
              .attention = {{16, 2048, 0}, {1, 32768, 0}},
              .head_rows = 8192,
              .parameters = 200000000,
              .square = 8192},
    .describe = print_device,
    .alloc = bench_alloc,
    .put = copy_to_device,
    .free_all = free_all,
    .lap = next_lap,
    .check_rc = check_rc,
    .copy_s = time_copy,
};

const struct bench_device *bench_cuda(void)
{
    return &cuda;
}

#else
const struct bench_device *bench_cuda(void)
{
    return NULL;
}
#endif
