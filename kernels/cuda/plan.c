/* SPDX-License-Identifier: BSD-3-Clause */
/* The plans of products by cuBLASLt, one for each shape.  Which of its algorithms runs
 * is found by timing the first few that it suggests (race.c). */
#include "kernels/cuda/product.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct mdsk_cuda_plan *plans;

static int make(cudaStream_t stream, const struct mdsk_cuda_shape *s,
                const struct mdsk_cuda_operands *o, struct mdsk_cuda_plan **out)
{
    struct mdsk_cuda_plan *p = calloc(1, sizeof *p);
    int err;

    if (!p)
        return -ENOMEM;
    p->shape = *s;
    err = mdsk_cuda_describe(p, o);
    if (err) {
        free(p);
        return err;
    }
    if (p->usable)
        mdsk_cuda_race(stream, p, o);
    *out = p;
    return 0;
}

int mdsk_cuda_find_plan(cudaStream_t stream, const struct mdsk_cuda_shape *s,
                        const struct mdsk_cuda_operands *o, struct mdsk_cuda_plan **out)
{
    struct mdsk_cuda_plan *p = plans;
    int err;

    while (p && memcmp(&p->shape, s, sizeof *s) != 0)
        p = p->next;
    if (p) {
        mdsk_cuda_race_hot(stream, p, o);
    } else {
        err = make(stream, s, o, &p);
        if (err)
            return err;
        p->next = plans;
        plans = p;
    }
    *out = p;
    return 0;
}

int mdsk_cuda_run(cudaStream_t stream, const struct mdsk_cuda_shape *s,
                  const struct mdsk_cuda_operands *o)
{
    struct mdsk_cuda_plan *p = NULL;
    int err = mdsk_cuda_find_plan(stream, s, o, &p);

    if (err)
        return err;
    if (!p->usable) {
        mdsk_cuda_fail("cuBLASLt", "no algorithm for a product");
        return -ENOTSUP;
    }
    return mdsk_cuda_multiply(stream, p, o);
}
