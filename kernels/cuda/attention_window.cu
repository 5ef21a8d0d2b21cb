/* SPDX-License-Identifier: BSD-3-Clause */
/* Add up the gradients of keys that two blocks of queries see. */
#include "kernels/cuda/attention.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

/* y += x, or y = 0 if x has no data. Row (b A + h) S + i is token i of head h of
 * sequence b. */
template <class T> struct add_heads {
    struct mdsk_heads x, y;
    int64_t A, S;

    __device__ static int64_t at(const struct mdsk_heads &t, int64_t b, int64_t h,
                                 int64_t i)
    {
        return b * t.batch_stride + h * t.head_stride + i * t.token_stride;
    }

    template <int N> __device__ void run(int64_t row, int64_t d) const
    {
        int64_t i = row % S, h = row / S % A, b = row / S / A;
        T *to = (T *)y.data + at(y, b, h, i) + d;
        float sum[N] = {0}, v[N];

        if (x.data) {
            load((const T *)x.data + at(x, b, h, i) + d, v);
            load((const T *)to, sum);
            for (int j = 0; j < N; j++)
                sum[j] += v[j];
        }
        store(sum, to);
    }
};

} // namespace

extern "C" int mdsk_cuda_heads_add(cudaStream_t stream,
                                   const struct mdsk_attention_shape *s,
                                   const struct mdsk_heads *x,
                                   const struct mdsk_heads *y)
{
    int64_t strides = y->batch_stride | y->token_stride | y->head_stride | s->D;
    bool wide = aligned({x->data, y->data});

    if (x->data)
        strides |= x->batch_stride | x->token_stride | x->head_stride;
    wide = wide && strides * (int64_t)mdsk_dtype_size(s->dtype) % 16 == 0;
    return with_storage(s->dtype, wide, [&](auto type, auto width) {
        return each_row<width()>(stream, s->B * s->A * s->Sk, s->D,
                                 add_heads<decltype(type)>{*x, *y, s->A, s->Sk});
    });
}
