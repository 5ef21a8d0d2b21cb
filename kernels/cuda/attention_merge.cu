/* Attention over one part of the keys and attention over another become one. */
#include "kernels/attention.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256;

__device__ int64_t stat_at(int64_t A, int64_t Sq, int64_t stride, int64_t b, int64_t h,
                           int64_t i)
{
    return (b * A + h) * (stride ? stride : Sq) + i;
}

/* acc = keep acc + take o2 on the elements of a query that this lane holds; what has
 * weight 0 may not be set, and is not read. */
template <class T, int N>
__device__ void blend(int64_t D, int lane, int lanes, float keep, float take,
                      const T *o2, float *acc)
{
    for (int64_t d = lane * N; d < D; d += lanes * N) {
        float x[N], y[N] = {};

        load(o2 + d, x);
        if (keep > 0)
            load(acc + d, y);
#pragma unroll
        for (int j = 0; j < N; j++)
            y[j] = y[j] * keep + x[j] * take;
        store(y, acc + d);
    }
}

/* `lanes` lanes of a warp take head h of query i, in the order in which heads lie in
 * memory as a rule. */
template <class T, int N>
__global__ __launch_bounds__(threads) void merge(struct mdsk_attention_merge a,
                                                 int lanes)
{
    int64_t t = ((int64_t)blockIdx.x * threads + threadIdx.x) / lanes;
    int64_t h = t % a.A, i = t / a.A % a.Sq, b = t / a.A / a.Sq;
    int lane = threadIdx.x % lanes;
    bool live = b < a.B;
    float *lse = a.lse + stat_at(a.A, a.Sq, a.lse_stride, b, h, i);
    float was = live ? *lse : 0;
    float more = live ? a.lse2[stat_at(a.A, a.Sq, a.lse2_stride, b, h, i)] : 0;
    float top = fmaxf(was, more), keep = expf(was - top), take = expf(more - top);

    __syncwarp(); /* all lanes have read lse */
    if (!live || more == -INFINITY)
        return;
    if (lane == 0)
        *lse = was == -INFINITY ? more : top + logf(keep + take);
    blend<T, N>(a.D, lane, lanes, keep / (keep + take), take / (keep + take),
                (const T *)a.o2.data + b * a.o2.batch_stride + i * a.o2.token_stride +
                    h * a.o2.head_stride,
                (float *)a.acc.data + b * a.acc.batch_stride + i * a.acc.token_stride +
                    h * a.acc.head_stride);
}

} // namespace

extern "C" int mdsk_attention_merge_cuda(void *stream,
                                         const struct mdsk_attention_merge *a)
{
    int64_t all = a->acc.batch_stride | a->acc.token_stride | a->acc.head_stride |
                  a->o2.batch_stride | a->o2.token_stride | a->o2.head_stride | a->D;
    int64_t queries = a->B * a->A * a->Sq, size = (int64_t)mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->acc.data, a->o2.data}) && all * size % 16 == 0;

    if (queries < 1)
        return 0;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        int lanes = 1;

        while (lanes < 32 && lanes * width() < a->D)
            lanes *= 2;
        return launch(merge<decltype(type), width()>,
                      mdsk_cuda_blocks(ceil_div(queries * lanes, threads)), threads,
                      stream, *a, lanes);
    });
}
