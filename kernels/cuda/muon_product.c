/* SPDX-License-Identifier: BSD-3-Clause */
/* The products of Newton-Schulz by cuBLASLt. */
#include "kernels/cuda/gemm.h"

/* Every matrix of a batch is aligned as the first, or less. */
static int32_t batch_alignment(const struct mdsk_muon_product *a, int32_t first)
{
    int64_t apart = a->m * a->k | a->k * a->n | a->m * a->n;
    int64_t all = first | apart * (int64_t)mdsk_dtype_size(a->dtype);

    return (int32_t)(a->batch > 1 ? all & -all : first);
}

/* y^T = w^T x^T, as cuBLASLt is column-major: gemm.c. */
int mdsk_muon_product_cuda(void *stream, const struct mdsk_muon_product *a)
{
    const float factors[] = {a->alpha, a->beta};
    const struct mdsk_cuda_gemm_operands o = {
        .a = a->w, .b = a->x, .c = a->y, .z = a->z, .factors = factors};
    struct mdsk_cuda_gemm_shape s =
        mdsk_cuda_gemm_shape_of(a->n, a->m, a->k, a->dtype, a->dtype, &o);

    s.batch = a->batch;
    s.flip_a = a->flip_w;
    s.flip_b = a->flip_x;
    s.add = a->z != NULL;
    s.alignment = batch_alignment(a, s.alignment);
    return mdsk_cuda_gemm(stream, &s, &o);
}
