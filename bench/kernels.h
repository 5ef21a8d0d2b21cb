/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel benchmark: a device to time on, and the sizes of operations. */
#ifndef MDS_BENCH_KERNELS_H
#define MDS_BENCH_KERNELS_H

#include "kernels/table.h"

#include <stdint.h>
#include <time.h>

/* Timing of one operation: zero-initialise, repeat the operation while lap() returns 1;
 * then s is the seconds of one repetition. */
struct laps {
    int runs;
    double begin_s, lap_s;
    double s;
};

/* Sizes of a GPT's operations; lists end with zeros. */
struct bench_sizes {
    int64_t rows, hidden, heads, head_dim, ffn; /* rows: tokens of a micro-batch */
    struct {
        int64_t rows, cols;
    } norm[8];
    struct {
        int64_t rows;
        int32_t words;
    } vocab[3];
    struct {
        int64_t sequences, tokens;
        float dropout;
    } attention[4];
    int64_t head_rows, parameters;
    int64_t square; /* rows and columns of the GEMM whose rate is the floor's */
};

/* A device.  Its functions exit on failure. */
struct bench_device {
    const struct mdsk_table *(*kernels)(void);
    struct bench_sizes sizes;
    /* Print its name. */
    void (*describe)(void);
    void *(*alloc)(int64_t bytes);
    void (*put)(void *there, const void *here, int64_t bytes);
    /* Free everything that was allocated. */
    void (*free_all)(void);
    int (*lap)(struct laps *l);
    /* Exit with the device's error text unless rc is 0. */
    void (*check_rc)(int rc, const char *what);
    /* Seconds to copy so that `bytes` are read and written. */
    double (*copy_s)(double bytes);
    /* FLOP/s of GEMMs that the kernels could have used instead; NULL: none. */
    double (*other_product_flops)(void);
};

/* The clock of devices that have none of their own. */
static inline double bench_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const struct bench_device *bench_cpu(int threads);

/* NULL in a build without CUDA. */
const struct bench_device *bench_cuda(void);

/* What is being timed. */
struct bench {
    const struct bench_device *dev;
    const struct mdsk_table *kern;
    enum mdsk_dtype dtype;
};

/* Time every operation at the device's sizes, and print a line for each. */
void bench_operations(const struct bench *b);

/* An operation at other sizes, a line for each of its directions: rows of norms; casts
 * to FP8; tokens of width H, spread evenly over a vocabulary; rows of logits. */
void bench_norm(const struct bench *b, int64_t rows, int64_t cols);
void bench_fp8_cast(const struct bench *b, int64_t rows, int64_t cols);
void bench_embedding(const struct bench *b, int64_t tokens, int64_t H, int32_t words);
void bench_loss(const struct bench *b, int64_t rows, int32_t words);

/* Linear layers of E experts, whose rows differ by half of their mean, a line for each
 * direction: beside the same product of all rows with one matrix. */
void bench_experts(const struct bench *b, int64_t rows, int64_t in, int64_t out,
                   int64_t E);

/* What an optimizer's step does with that many parameters, a line each. */
void bench_step(const struct bench *b, int64_t parameters);

/* A line of seconds, for bench/ceiling.py and bench/account.py: "product ROWS IN OUT"
 * forward, gradient of the input, of the weight; "fp8-product ROWS IN OUT" the same
 * GEMMs of FP8 codes (hybrid); "attention SEQUENCES TOKENS HEADS HEAD_DIM" forward,
 * backward. */
void bench_product(const struct bench *b, int64_t rows, int64_t in, int64_t out);
void bench_fp8_product(const struct bench *b, int64_t rows, int64_t in, int64_t out);
void bench_attention(const struct bench *b, int64_t sequences, int64_t tokens,
                     int64_t heads, int64_t head_dim, int64_t window);

#endif
