/* SPDX-License-Identifier: BSD-3-Clause */
/* Large GEMMs: OpenBLAS if configure found it, else the built-in GEMM, on the threads
 * of team.c.  16-bit operands are converted to f32 first. */
#ifndef MDSK_CPU_GEMM_H
#define MDSK_CPU_GEMM_H

#include "kernels/types.h"

/* An operand of a GEMM: element (i, j) is data[i * ld + j], or data[j * ld + i] if
 * transposed is set.  Borrowed. */
struct mdsk_operand {
    const float *data;
    int64_t ld;
    int transposed;
};

/* C = A B, or C += A B if add is set;  A [m, k], B [k, n], C [m, n] row-major with
 * stride ldc.  The same bits for any number of threads.  Returns 0, -ENOMEM, or -ENOENT
 * if OpenBLAS cannot be opened. */
int mdsk_gemm(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
              const struct mdsk_operand *b, float *c, int64_t ldc, int add);

/* The same with the built-in GEMM, whatever configure found. */
int mdsk_gemm_builtin(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                      const struct mdsk_operand *b, float *c, int64_t ldc, int add);

/* The same; a row of C has the same bits whatever other rows there are.  Fast where B
 * alone is transposed. */
int mdsk_gemm_rows(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                   const struct mdsk_operand *b, float *c, int64_t ldc, int add);

/* Which of them: by_rows 1: mdsk_gemm_rows. */
typedef int mdsk_gemm_fn(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                         const struct mdsk_operand *b, float *c, int64_t ldc, int add);
static inline mdsk_gemm_fn *mdsk_gemm_of(int by_rows)
{
    return by_rows ? mdsk_gemm_rows : mdsk_gemm;
}

/* An operand in 16 or 8 bits; ld and transposed as in mdsk_operand.  scale, code: its
 * FP8 format and scale (fp8.h); without them it has the dtype of the GEMM. */
struct mdsk_half_operand {
    const void *data;
    int64_t ld;
    int transposed;
    enum mdsk_dtype code;
    const float *scale;
};

/* C = A B + bias with 16-bit operands: A [m, k], B [k, n] and the row bias [n] (NULL:
 * 0) of dtype.  C [m, n] is packed and of type
 * `to`: either dtype, rounded once, or f32.  With f32 bias is NULL, and add adds A B to
 * C.  factors: C = factors[0] (A B + bias) + factors[1] Z before it is rounded, with Z
 * as C; both may be NULL. */
struct mdsk_gemm_half {
    int64_t m, n, k;
    enum mdsk_dtype dtype, to;
    int by_rows;
    struct mdsk_half_operand a, b;
    const void *bias;
    void *c;
    int add;
    const float *factors;
    const void *z;
};

/* Returns 0 or -ENOMEM. */
int mdsk_gemm_half(const struct mdsk_gemm_half *p);

/* sum[n] += column sums of x [R, n], in an order that depends on R alone.  Returns 0 or
 * -ENOMEM. */
int mdsk_add_column_sums(int64_t R, int64_t n, enum mdsk_dtype dtype, const void *x,
                         float *sum);

/* Open the library and let it allocate its memory for n threads, which is what
 * mdsk_threads says.  Returns 0, -ENOMEM or -ENOENT. */
int mdsk_gemm_start(int n);

/* Name of the library in use, and its version if it has one, to out[size]. */
void mdsk_gemm_library(char *out, size_t size);

#endif
