/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads, scratch memory, and sums over threads. */
#include "kernels/cpu/cpu.h"

#include <pthread.h>
#include <stdlib.h>

static int threads; /* 0: as many as OpenMP says */

int mdsk_threads(void)
{
#ifdef _OPENMP
    if (threads == 0)
        threads = omp_get_max_threads();
#else
    threads = 1;
#endif
    return threads;
}

int mdsk_threads_for(int64_t elements)
{
    int64_t worth = elements / MDSK_GRAIN;

    return worth < 2 ? 1 : (int)mdsk_min(worth, mdsk_threads());
}

void mdsk_set_threads(int n)
{
    threads = n;
}

struct scratch {
    float *data;
    int64_t floats;
};

/* The two scratch memories of a thread. */
struct scratches {
    struct scratch operation, product;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_missing;

static void free_thread_scratch(void *p)
{
    struct scratches *s = p;

    free(s->operation.data);
    free(s->product.data);
    free(s);
}

static void create_thread_key(void)
{
    key_missing = pthread_key_create(&key, free_thread_scratch);
}

static struct scratches *thread_scratch(void)
{
    struct scratches *s;

    pthread_once(&once, create_thread_key);
    if (key_missing)
        return NULL;
    s = pthread_getspecific(key);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (s && pthread_setspecific(key, s)) {
        free(s);
        s = NULL;
    }
    return s;
}

static float *grow_scratch(struct scratch *s, int64_t floats)
{
    size_t bytes = ((size_t)floats * sizeof(float) / 64 + 1) * 64;

    if (floats > s->floats || !s->data) {
        free(s->data);
        s->data = aligned_alloc(64, bytes);
        s->floats = s->data ? floats : 0;
    }
    return s->data;
}

float *mdsk_scratch(int64_t floats)
{
    struct scratches *s = thread_scratch();

    return s ? grow_scratch(&s->operation, floats) : NULL;
}

float *mdsk_scratch_gemm(int64_t floats)
{
    struct scratches *s = thread_scratch();

    return s ? grow_scratch(&s->product, floats) : NULL;
}

MDSK_DISPATCH void mdsk_add_to(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

MDSK_DISPATCH void mdsk_add_ramp(int64_t n, float slope, float first, float step,
                                 float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += slope * (first + step * (float)i);
}

void mdsk_add_partials(int64_t parts, int64_t n, const float *partial, float *out)
{
    enum { WIDE = 1024 };

#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(parts *n))
    for (int64_t i = 0; i < n; i += WIDE)
        for (int64_t p = 0; p < parts; p++)
            mdsk_add_to(mdsk_min(WIDE, n - i), partial + p * n + i, out + i);
}
