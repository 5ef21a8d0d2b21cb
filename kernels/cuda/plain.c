/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/plain.h"

#include "kernels/cuda/product.h"

static void *room(void *stream, int64_t bytes)
{
    return mdsk_cuda_scratch(stream, MDSK_CUDA_ATTEND, bytes);
}

static int clear(void *stream, void *p, int64_t bytes)
{
    return mdsk_cuda_rc(cudaMemsetAsync(p, 0, (size_t)bytes, stream));
}

/* By columns C^T = B^T A^T. */
static int product(void *stream, const struct mdsk_plain_product *p)
{
    const struct mdsk_cuda_operands o = {p->b, p->a, NULL, p->c, NULL};
    struct mdsk_cuda_shape s =
        mdsk_cuda_shape_of(p->n, p->m, p->k, p->dtype, MDSK_F32, &o);

    s.flip_a = p->flip_b;
    s.flip_b = p->flip_a;
    s.add = p->add;
    return mdsk_cuda_run(stream, &s, &o);
}

const struct mdsk_plain_steps mdsk_plain_steps_cuda = {
    .room = room,
    .clear = clear,
    .pack = mdsk_cuda_plain_pack,
    .unpack = mdsk_cuda_plain_unpack,
    .product = product,
    .softmax = mdsk_cuda_plain_softmax,
    .slopes = mdsk_cuda_plain_slopes};
