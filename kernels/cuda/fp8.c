/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMs of FP8 by cuBLASLt, which has them in one orientation only on compute
 * capability 9.0: both operands lie row by row along the sum. */
#include "kernels/cuda/gemm.h"

/* Column-major, y^T [N,M] = b a^T: cuBLASLt's A is b. */
int mdsk_fp8_gemm_cuda(void *stream, const struct mdsk_fp8_gemm *a)
{
    struct mdsk_cuda_gemm_operands o = {.a = a->b.code,
                                        .b = a->a.code,
                                        .bias = a->bias,
                                        .c = a->y,
                                        .scale_a = a->b.scale,
                                        .scale_b = a->a.scale};
    struct mdsk_cuda_gemm_shape s =
        mdsk_cuda_gemm_shape_of(a->N, a->M, mdsk_fp8_ld(a->K), a->b.type, a->dtype, &o);

    s.in_b = (int32_t)a->a.type;
    s.flip_a = 1;
    s.add = a->add;
    s.fast = a->fast;
    s.epilogue = a->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    return mdsk_cuda_gemm(stream, &s, &o);
}
