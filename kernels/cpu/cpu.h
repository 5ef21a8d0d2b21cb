/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the cpu backend share: threads, scratch memory, sums, and the
 * choice of instruction set. */
#ifndef MDSK_CPU_CPU_H
#define MDSK_CPU_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_thread_num(void)
{
    return 0;
}
#endif

/* Before a function whose loops should be compiled for several instruction sets, one of
 * which is taken when the program starts.  Not for functions with OpenMP regions: GCC
 * outlines those without the attribute. */
#if defined MDS_SIMD_DISPATCH && defined __x86_64__
#define MDSK_DISPATCH                                                                  \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define MDSK_DISPATCH
#endif

/* Before a helper of such functions: inlined, it is compiled for each of their sets. */
#define MDSK_INLINED static inline __attribute__((always_inline))

/* Elements of simple work that make a thread worth waking. */
enum { MDSK_GRAIN = 16384 };

static inline int64_t mdsk_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t mdsk_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Threads the next parallel loop may use. */
int mdsk_threads(void);
void mdsk_set_threads(int n);

/* Threads for a loop over so many elements: 1 where waking others costs more. */
int mdsk_threads_for(int64_t elements);

/* Memory for the calling thread's current operation: `floats` floats, 64-byte aligned,
 * contents undefined, valid until the thread's next call; NULL if there is none.  It
 * grows to the largest request and is freed when the thread ends. */
float *mdsk_scratch(int64_t floats);

/* The same, beside it: for products, which operations call that hold scratch. */
float *mdsk_scratch_product(int64_t floats);

/* y[i] += x[i] for i < n, by the calling thread. */
void mdsk_add_to(int64_t n, const float *x, float *y);

/* Row sums run in parts whose number depends on the rows alone, so that the order of
 * additions, and with it every bit, is the same for any number of threads. */
static inline int64_t mdsk_parts(int64_t rows)
{
    return mdsk_min(64, mdsk_ceil_div(rows, 128));
}

/* out[i] += sum of partial[p][i] over p < parts, in that order; partial [parts, n]. */
void mdsk_add_partials(int64_t parts, int64_t n, const float *partial, float *out);

#endif
