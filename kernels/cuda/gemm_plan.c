/* SPDX-License-Identifier: BSD-3-Clause */
/* The plans of GEMMs by cuBLASLt, one per shape.  The algorithm is chosen by timing the
 * first few that cuBLASLt suggests (autotune.c). */
#include "kernels/cuda/gemm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct mdsk_cuda_gemm_plan *plans;

static int create_plan(cudaStream_t stream, const struct mdsk_cuda_gemm_shape *s,
                       const struct mdsk_cuda_gemm_operands *o,
                       struct mdsk_cuda_gemm_plan **out)
{
    struct mdsk_cuda_gemm_plan *p = calloc(1, sizeof *p);
    int err;

    if (!p)
        return -ENOMEM;
    p->shape = *s;
    err = mdsk_cuda_init_gemm_plan(p, o);
    if (err) {
        free(p);
        return err;
    }
    if (p->usable)
        mdsk_cuda_autotune(stream, p, o);
    *out = p;
    return 0;
}

int mdsk_cuda_find_gemm_plan(cudaStream_t stream, const struct mdsk_cuda_gemm_shape *s,
                             const struct mdsk_cuda_gemm_operands *o,
                             struct mdsk_cuda_gemm_plan **out)
{
    struct mdsk_cuda_gemm_plan *p = plans;
    int err;

    while (p && memcmp(&p->shape, s, sizeof *s) != 0)
        p = p->next;
    if (p) {
        mdsk_cuda_autotune_hot(stream, p, o);
    } else {
        err = create_plan(stream, s, o, &p);
        if (err)
            return err;
        p->next = plans;
        plans = p;
    }
    *out = p;
    return 0;
}

int mdsk_cuda_gemm(cudaStream_t stream, const struct mdsk_cuda_gemm_shape *s,
                   const struct mdsk_cuda_gemm_operands *o)
{
    struct mdsk_cuda_gemm_plan *p = NULL;
    int err = mdsk_cuda_find_gemm_plan(stream, s, o, &p);

    if (err)
        return err;
    if (!p->usable) {
        mdsk_cuda_fail("cuBLASLt", "no algorithm for a product");
        return -ENOTSUP;
    }
    return mdsk_cuda_run_gemm_plan(stream, p, o);
}
