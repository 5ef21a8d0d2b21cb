/* SPDX-License-Identifier: BSD-3-Clause */
/* Large matrix products: OpenBLAS where configure found it, else the built-in gemm; of
 * operands in 16 bits, by way of f32. */
#ifndef MDSK_CPU_PRODUCT_H
#define MDSK_CPU_PRODUCT_H

#include "kernels/types.h"

/* A matrix of a product: element (i, j) is data[i * ld + j], or data[j * ld + i] where
 * transposed is set. */
struct mdsk_operand {
    const float *data;
    int64_t ld;
    int transposed;
};

/* C = A B, or C += A B where add is set;  A [m, k], B [k, n], C [m, n] row-major with
 * stride ldc.  Returns 0 or -ENOMEM. */
int mdsk_product(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                 const struct mdsk_operand *b, float *c, int64_t ldc, int add);

/* The same by the built-in gemm, whatever configure found. */
int mdsk_gemm(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
              const struct mdsk_operand *b, float *c, int64_t ldc, int add);

/* C = A B + bias of operands in 16 bits: A [m, k], B [k, n] and the row bias [n] (NULL:
 * 0) of dtype; ld and transposed as in mdsk_operand.  C [m, n], packed, is of type
 * to: dtype, rounded once; or f32, and then bias is NULL, and A B is added to C where
 * add is set. */
struct mdsk_half_product {
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
int mdsk_half_product(const struct mdsk_half_product *p);

void mdsk_product_set_threads(int n);

/* The same, and the memory that the library works in is taken.  Returns 0 or -ENOMEM.
 */
int mdsk_product_start(int n);

/* The library's name, and its version where it says one. */
void mdsk_product_library(char *out, size_t size);

#endif
