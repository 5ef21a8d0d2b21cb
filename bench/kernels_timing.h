/* SPDX-License-Identifier: BSD-3-Clause */
/* What operations are timed on, and the line that says how long one took. */
#ifndef MDS_BENCH_KERNELS_TIMING_H
#define MDS_BENCH_KERNELS_TIMING_H

#include "bench/kernels.h"

/* On the device, until free_all(): random numbers of the benchmark's type, of f32,
 * zeros, tokens of a vocabulary. */
void *random_tensor(const struct bench *b, int64_t n);
float *random_floats(const struct bench *b, int64_t n);
float *zero_floats(const struct bench *b, int64_t n);
int32_t *random_tokens(const struct bench *b, int64_t n, int32_t words);

/* Seconds of an operation of the table, over and over. */
#define TIME(b, l, op, args)                                                           \
    while ((b)->dev->lap(l))                                                           \
    (b)->dev->check_rc((b)->kern->op(NULL, args), #op)

/* Measure the rate that the floors in print_line are made of. */
void measure_product(const struct bench *b);
void print_line(const struct bench *b, const char *name, const struct laps *l,
                struct mdsk_cost c);

#endif
