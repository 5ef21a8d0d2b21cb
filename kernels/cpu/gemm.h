/* SPDX-License-Identifier: BSD-3-Clause */
/* Large GEMMs: OpenBLAS if configure found it, else the built-in GEMM.  16-bit operands
 * are converted to f32 first. */
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
 * stride ldc.  Returns 0 or -ENOMEM. */
int mdsk_gemm(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
              const struct mdsk_operand *b, float *c, int64_t ldc, int add);

/* The same with the built-in GEMM, whatever configure found. */
int mdsk_gemm_builtin(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                      const struct mdsk_operand *b, float *c, int64_t ldc, int add);

/* C = A B + bias with 16-bit operands: A [m, k], B [k, n] and the row bias [n] (NULL:
 * 0) of dtype; ld and transposed as in mdsk_operand.  C [m, n] is packed and of type
 * `to`: either dtype, rounded once, or f32.  With f32 bias is NULL, and add adds A B to
 * C. */
struct mdsk_gemm_half {
    int64_t m, n, k;
    enum mdsk_dtype dtype, to;
    struct {
        const void *data;
        int64_t ld;
        int transposed;
    } a, b;
    const void *bias;
    void *c;
    int add;
};

/* Returns 0 or -ENOMEM. */
int mdsk_gemm_half(const struct mdsk_gemm_half *p);

void mdsk_gemm_set_threads(int n);

/* The same, and let the library allocate its memory.  Returns 0 or -ENOMEM. */
int mdsk_gemm_start(int n);

/* Name of the library in use, and its version if it has one, to out[size]. */
void mdsk_gemm_library(char *out, size_t size);

#endif
