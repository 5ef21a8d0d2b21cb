/* Large matrix products: OpenBLAS where configure found it, else the built-in gemm. */
#ifndef MDSK_CPU_PRODUCT_H
#define MDSK_CPU_PRODUCT_H

#include <stdint.h>

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

void mdsk_product_set_threads(int n);

#endif
