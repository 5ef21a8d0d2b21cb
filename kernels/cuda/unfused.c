/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/unfused.h"

#include "kernels/cuda/gemm.h"

static void *alloc_scratch(void *stream, int64_t bytes)
{
    return mdsk_cuda_scratch(stream, MDSK_CUDA_ATTEND, bytes);
}

static int zero_bytes(void *stream, void *p, int64_t bytes)
{
    return mdsk_cuda_rc(cudaMemsetAsync(p, 0, (size_t)bytes, stream));
}

/* By columns C^T = B^T A^T. */
static int run_gemm(void *stream, const struct mdsk_unfused_gemm *p)
{
    const struct mdsk_cuda_gemm_operands o = {.a = p->b, .b = p->a, .c = p->c};
    struct mdsk_cuda_gemm_shape s =
        mdsk_cuda_gemm_shape_of(p->n, p->m, p->k, p->dtype, MDSK_F32, &o);

    s.flip_a = p->flip_b;
    s.flip_b = p->flip_a;
    s.add = p->add;
    return mdsk_cuda_gemm(stream, &s, &o);
}

const struct mdsk_unfused_steps mdsk_unfused_steps_cuda = {
    .scratch = alloc_scratch,
    .zero = zero_bytes,
    .pack = mdsk_cuda_unfused_pack,
    .unpack = mdsk_cuda_unfused_unpack,
    .gemm = run_gemm,
    .softmax_fwd = mdsk_cuda_unfused_softmax_fwd,
    .softmax_bwd = mdsk_cuda_unfused_softmax_bwd};
