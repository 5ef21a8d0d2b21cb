/* SPDX-License-Identifier: BSD-3-Clause */
/* y = x W^T + b of one row: as fast as W is read.  A warp computes an output at a time,
 * and asks for the next part of the weights before it uses the last; for the first ones
 * before the kernels queued before it are done, so that short ones among them cost
 * little time of their own. */
#include "kernels/cuda/linear.h"

#include <errno.h>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

constexpr int warps = 8, in_flight = 8; /* loads of a lane, twice */

/* What a lane loads at once: 16 bytes, or an element. */
template <class T, int N>
using word = std::conditional_t<sizeof(pack<T, N>) == 16, uint4, T>;

/* A part of W: columns of an output, from this lane's first on. */
struct part {
    int64_t row, c;
};

template <int N>
__device__ struct part after(const struct mdsk_linear_fwd &a, struct part p)
{
    const int64_t step = 32 * N * in_flight, first = threadIdx.x % 32 * N;

    p.c += step;
    if (p.c - first < a.in)
        return p;
    return {p.row + (int64_t)gridDim.x * warps, first};
}

/* Column i of a part.  Where parts are not whole, the last one again: a load without a
 * condition leaves the compiler free to have all of them under way. */
template <int N, bool whole>
__device__ int64_t column_at(const struct mdsk_linear_fwd &a, struct part p, int i)
{
    int64_t c = p.c + i * 32 * N;

    return whole || c < a.in ? c : a.in - N;
}

/* Weights are read once: they are not to drive x out of the cache. */
template <class T, int N, bool whole>
__device__ void load_part(const struct mdsk_linear_fwd &a, struct part p,
                          word<T, N> (&v)[in_flight])
{
    const T *w = (const T *)a.w + p.row * a.in;

    if (p.row >= a.out)
        return;
#pragma unroll
    for (int i = 0; i < in_flight; i++) {
        const T *at = w + column_at<N, whole>(a, p, i);

        if constexpr (N > 1)
            v[i] = __ldcs((const uint4 *)at);
        else
            v[i] = *at;
    }
}

template <class T, int N, bool whole>
__device__ float dot(const struct mdsk_linear_fwd &a, const T *x, struct part p,
                     const word<T, N> (&v)[in_flight])
{
    float sum = 0;

#pragma unroll
    for (int i = 0; i < in_flight; i++) {
        float b[N], w[N], some = 0;
        pack<T, N> raw;

        memcpy(&raw, &v[i], sizeof raw);
        unpack(raw, w);
        load(x + column_at<N, whole>(a, p, i), b);
#pragma unroll
        for (int j = 0; j < N; j++)
            some += w[j] * b[j];
        sum += whole || p.c + i * 32 * N < a.in ? some : 0;
    }
    return sum;
}

template <class T>
__device__ void put(const struct mdsk_linear_fwd &a, int64_t row, float sum, float bias)
{
    sum = warp_sum(sum) + bias;
    if (threadIdx.x % 32 != 0)
        return;
    ((T *)a.y)[row] = narrow<T>(sum);
    if (a.gelu)
        ((T *)a.gelu)[row] = narrow<T>(gelu<T>::fwd(sum));
}

/* Adds part p, which is there, to sum, and asks for part `more` in its place; then
 * follows p in its turn. */
template <class T, int N, bool whole>
__device__ void add_part(const struct mdsk_linear_fwd &a, const T *x, struct part p,
                         struct part then, struct part more, word<T, N> (&v)[in_flight],
                         float &sum)
{
    bool ends = then.row != p.row;
    float bias = ends && a.b ? widen(((const T *)a.b)[p.row]) : 0;

    sum += dot<T, N, whole>(a, x, p, v);
    load_part<T, N, whole>(a, more, v);
    if (!ends)
        return;
    put<T>(a, p.row, sum, bias);
    sum = 0;
}

template <class T, int N, bool whole>
__global__ __launch_bounds__(32 * warps, 2) void one_row(struct mdsk_linear_fwd a)
{
    const T *x = (const T *)a.x;
    struct part p = {(int64_t)blockIdx.x * warps + threadIdx.x / 32,
                     threadIdx.x % 32 * N};
    struct part q = after<N>(a, p);
    word<T, N> v[in_flight], u[in_flight];
    float sum = 0;

    let_next_begin();
    load_part<T, N, whole>(a, p, v);
    load_part<T, N, whole>(a, q, u);
    wait_for_earlier();
    while (p.row < a.out) {
        struct part more = after<N>(a, q);

        add_part<T, N, whole>(a, x, p, q, more, v, sum);
        p = more;
        if (q.row >= a.out)
            break;
        more = after<N>(a, p);
        add_part<T, N, whole>(a, x, q, p, more, u, sum);
        q = more;
    }
}

template <class T, int N, bool whole>
int launch_one_row(cudaStream_t stream, const struct mdsk_linear_fwd *a)
{
    int64_t blocks = ceil_div(a->out, warps), most = 2 * mdsk_cuda_processors();

    return launch_early(one_row<T, N, whole>,
                        mdsk_cuda_blocks(blocks < most ? blocks : most), 32 * warps,
                        stream, *a);
}

} // namespace

extern "C" int mdsk_cuda_one_row(cudaStream_t stream, const struct mdsk_linear_fwd *a)
{
    bool wide =
        aligned({a->w, a->x}) && a->in * (int64_t)mdsk_dtype_size(a->dtype) % 16 == 0;

    if (a->R != 1)
        return -ENOTSUP;
    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();

        return N > 1 && a->in % (32 * N * in_flight) == 0
                   ? launch_one_row<T, N, N != 1>(stream, a)
                   : launch_one_row<T, N, false>(stream, a);
    });
}
