/* SPDX-License-Identifier: BSD-3-Clause */
/* y = x W^T + b of one row: as fast as W is read.  A warp computes an output at a time,
 * and asks for the next part of the weights before it uses the last; for the first ones
 * before the kernels queued before it are done, so that short ones among them cost
 * little time of their own. */
#include "kernels/cuda/linear.h"

#include <errno.h>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/early.cuh"

namespace
{

using namespace mdsk;

constexpr int warps = 8, in_flight = 8; /* loads of a lane */

/* A part of W: columns of an output, from this lane's first on. */
struct part {
    int64_t row, c;
};

/* Weights are read once: they are not to drive x out of the cache. */
template <int N, class T> __device__ pack<T, N> fetch_once(const T *p)
{
    pack<T, N> v;

    if constexpr (sizeof v == 16) {
        uint4 w = __ldcs((const uint4 *)p);

        memcpy(&v, &w, sizeof v);
        return v;
    } else {
        return fetch<N>(p);
    }
}

template <class T, int N>
__device__ void load_part(const struct mdsk_linear_fwd &a, struct part p,
                          pack<T, N> (&v)[in_flight])
{
    const T *w = (const T *)a.w + p.row * a.in + p.c;

#pragma unroll
    for (int i = 0; i < in_flight; i++)
        if (p.row < a.out && p.c + i * 32 * N < a.in)
            v[i] = fetch_once<N>(w + i * 32 * N);
}

template <class T, int N>
__device__ float dot(const T *x, int64_t c, int64_t in,
                     const pack<T, N> (&v)[in_flight])
{
    float sum = 0;

#pragma unroll
    for (int i = 0; i < in_flight; i++)
        if (c + i * 32 * N < in) {
            float a[N], b[N];

            unpack(v[i], a);
            load(x + c + i * 32 * N, b);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum += a[j] * b[j];
        }
    return sum;
}

template <class T>
__device__ void put(const struct mdsk_linear_fwd &a, int64_t row, float sum)
{
    sum = warp_sum(sum);
    if (threadIdx.x % 32 != 0)
        return;
    if (a.b)
        sum += widen(((const T *)a.b)[row]);
    ((T *)a.y)[row] = narrow<T>(sum);
    if (a.gelu)
        ((T *)a.gelu)[row] = narrow<T>(gelu<T>::fwd(sum));
}

template <int N>
__device__ struct part after(const struct mdsk_linear_fwd &a, struct part p)
{
    const int64_t step = 32 * N * in_flight, first = threadIdx.x % 32 * N;

    p.c += step;
    if (p.c - first < a.in)
        return p;
    return {p.row + (int64_t)gridDim.x * warps, first};
}

template <class T, int N>
__global__ __launch_bounds__(32 * warps) void one_row(struct mdsk_linear_fwd a)
{
    struct part p = {(int64_t)blockIdx.x * warps + threadIdx.x / 32,
                     threadIdx.x % 32 * N};
    struct part then = after<N>(a, p);
    pack<T, N> v[in_flight], next[in_flight];
    float sum = 0;

    let_next_begin();
    load_part(a, p, v);
    load_part(a, then, next);
    wait_for_earlier();
    while (p.row < a.out) {
        sum += dot((const T *)a.x, p.c, a.in, v);
        if (then.row != p.row) {
            put<T>(a, p.row, sum);
            sum = 0;
        }
#pragma unroll
        for (int i = 0; i < in_flight; i++)
            v[i] = next[i];
        p = then;
        then = after<N>(a, p);
        load_part(a, then, next);
    }
}

} // namespace

extern "C" int mdsk_cuda_one_row(cudaStream_t stream, const struct mdsk_linear_fwd *a)
{
    bool wide =
        aligned({a->w, a->x}) && a->in * (int64_t)mdsk_dtype_size(a->dtype) % 16 == 0;
    int64_t blocks = ceil_div(a->out, warps), most = 2 * mdsk_cuda_processors();

    if (a->R != 1)
        return -ENOTSUP;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        return launch_early(one_row<decltype(type), width()>,
                            mdsk_cuda_blocks(blocks < most ? blocks : most), 32 * warps,
                            stream, *a);
    });
}
