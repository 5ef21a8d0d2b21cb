/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the cpu backend: threads, scratch memory, sums, and dispatch by
 * instruction set. */
#ifndef MDSK_CPU_CPU_H
#define MDSK_CPU_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "kernels/activation.h"
#include "kernels/inline.h"

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_thread_num(void)
{
    return 0;
}
static inline void omp_set_num_threads(int n)
{
    (void)n;
}
#endif

/* Attribute of a function whose loops are compiled for several instruction sets; one is
 * chosen when the program starts.  Not for functions with OpenMP regions: GCC
 * outlines those without the attribute. */
#if defined MDS_SIMD_DISPATCH && defined __x86_64__
#define MDSK_DISPATCH                                                                  \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define MDSK_DISPATCH
#endif

/* Attribute of helpers of such functions: inlined, so compiled for each set as well. */
#define MDSK_INLINED static inline __attribute__((always_inline))

/* Elements of simple work per thread that make another thread worthwhile. */
enum { MDSK_GRAIN = 16384 };

static inline int64_t mdsk_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t mdsk_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Number of threads of parallel loops: without OpenMP 1. */
int mdsk_threads(void);
void mdsk_set_threads(int n);

/* Threads for a loop over so many elements: 1 if more would cost more than they
 * save. */
int mdsk_threads_for(int64_t elements);

/* Scratch of the calling thread for its current operation: `floats` floats, 64-byte
 * aligned, undefined contents, valid until the thread's next call; NULL if there is no
 * memory.  It grows to the largest request and is freed when the thread ends. */
float *mdsk_scratch(int64_t floats);

/* A second scratch, for GEMMs: the operations that call them hold the first. */
float *mdsk_scratch_gemm(int64_t floats);

/* One row of an activation function, in f32: x [F], gated [2F]; y, dy [F]; dx as x. */
void mdsk_activate_row(enum mdsk_activation_kind kind, int64_t F, const float *x,
                       float *y);
void mdsk_activate_row_bwd(enum mdsk_activation_kind kind, int64_t F, const float *x,
                           const float *dy, float *dx);

/* y[i] += x[i] for i < n, by the calling thread. */
void mdsk_add_to(int64_t n, const float *x, float *y);

/* y[i] += slope * (first + step * i) */
void mdsk_add_ramp(int64_t n, float slope, float first, float step, float *y);

/* Number of partial sums of a sum over rows.  It depends on the rows alone, so that the
 * order of additions, and every bit, is the same for any number of threads. */
static inline int64_t mdsk_parts(int64_t rows)
{
    return mdsk_min(64, mdsk_ceil_div(rows, 128));
}

/* out[i] += sum of partial[p][i] over p < parts, in that order; partial [parts, n]. */
void mdsk_add_partials(int64_t parts, int64_t n, const float *partial, float *out);

/* y = f(x) of a row's columns c .. c+n-1, rounded to a->dtype; n <= MDSK_STAGING.  It
 * does not use a->y. */
void mdsk_activate(const struct mdsk_activation_fwd *a, int64_t row, int64_t c,
                   int64_t n, float *y);

#endif
