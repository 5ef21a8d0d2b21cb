/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels before and after backward.cuh's, and their launches. */
#ifndef MDSK_HOPPER_BACKWARD_KERNEL_CUH
#define MDSK_HOPPER_BACKWARD_KERNEL_CUH

#include "kernels/cuda/hopper/backward_wide.cuh"
#include "kernels/cuda/launch.cuh"

namespace mdsk::hopper
{

/* ---- before: the rows ---- */

/* lse2, delta and first keys of a tile of queries, a warp a row or several; and its sum
 * of dq = 0. */
template <class T, int D>
__global__ void __launch_bounds__(256)
    rows_kernel(const __grid_constant__ backward_args w)
{
    const struct mdsk_heads &o = w.o, &d_o = w.d_o_heads;
    using t = bwd_tile<D>;
    constexpr int LANES = D <= 64 ? 8 : D <= 128 ? 16 : 32, M = t::queries;
    const int heads = w.G * w.group, local = blockIdx.y;
    const int64_t b = w.b + local / heads, h = w.g * w.group + local % heads;
    const int64_t tile = (int64_t)local * w.query_tiles + blockIdx.x;
    const int lane = threadIdx.x % LANES;
    float *rows = w.rows + tile * t::row_floats;
    float4 *dq = (float4 *)(w.dq_sum + tile * t::sums);

    if (threadIdx.x < 4)
        rows[3 * M + threadIdx.x] = 0;
    for (int i = threadIdx.x; i < t::sums / 4; i += 256)
        dq[i] = make_float4(0, 0, 0, 0);
    for (int r = threadIdx.x / LANES; r < M; r += 256 / LANES) {
        int64_t i = (int64_t)blockIdx.x * M + r;
        float sum = 0;

        if (i < w.Sq && 8 * lane < w.D) {
            float x[8], y[8];

            load((const T *)o.data + b * o.batch_stride + h * o.head_stride +
                     i * o.token_stride + 8 * lane,
                 x);
            load((const T *)d_o.data + b * d_o.batch_stride + h * d_o.head_stride +
                     i * d_o.token_stride + 8 * lane,
                 y);
#pragma unroll
            for (int e = 0; e < 8; e++)
                sum += x[e] * y[e];
        }
#pragma unroll
        for (int other = LANES / 2; other > 0; other /= 2)
            sum += __shfl_xor_sync(~0u, sum, other);
        if (lane == 0) {
            float l = i < w.Sq ? w.lse[(b * w.A + h) * w.lse_stride + i] : -INFINITY;

            rows[r] = l == -INFINITY
                          ? INFINITY
                          : l * 1.44269504f + log2_slope(w, (int)h) * (float)r;
            rows[M + r] = sum;
            rows[2 * M + r] = __int_as_float(
                i < w.Sq
                    ? (int)min(mdsk_attention_first_key(&w.shape, b, i), (int64_t)w.Sk)
                    : w.Sk);
        }
    }
}

/* ---- after: dq ---- */

template <class T, int D>
__global__ void __launch_bounds__(GROUP)
    dq_kernel(const __grid_constant__ backward_args w)
{
    using t = bwd_tile<D>;
    constexpr int M = t::queries, ROW = t::panels * PANEL + 8;
    __shared__ alignas(16) T tile[M][ROW];
    const int heads = w.G * w.group, local = blockIdx.y, thread = threadIdx.x;
    const int64_t b = w.b + local / heads, h = w.g * w.group + local % heads;
    const float4 *sum =
        (const float4 *)(w.dq_sum +
                         ((int64_t)local * w.query_tiles + blockIdx.x) * t::sums);
    T *head = (T *)w.dq.data + b * w.dq.batch_stride + h * w.dq.head_stride;
    int row = thread / 32 * 16 + thread % 32 / 4, column = 2 * (thread % 4);

#pragma unroll 4
    for (int c = 0; c < t::sums / GROUP / 4; c++) {
        float4 x = sum[c * GROUP + thread];
        float v[4] = {x.x, x.y, x.z, x.w};
        int r = row, k = 8 * (c % 8) + column;

        (t::panels > 1 ? k : r) += c / 8 * 64;
#pragma unroll
        for (int e = 0; e < 4; e++)
            tile[r + e / 2 * 8][k + e % 2] = narrow<T>(v[e] * w.scale);
    }
    __syncthreads();
    for (int i = thread; i < M * D / 8; i += GROUP) {
        int r = i / (D / 8), k = i % (D / 8) * 8;
        int64_t query = (int64_t)blockIdx.x * M + r;

        if (query < w.Sq && k < w.D)
            *(uint4 *)(head + query * w.dq.token_stride + k) =
                *(const uint4 *)&tile[r][k];
    }
}

template <class T, int D, bool ALIBI, bool DROPOUT>
int launch_sums(cudaStream_t stream, const struct backward_args *a)
{
    const int64_t pairs = (int64_t)a->B * a->G;
    const unsigned blocks = mdsk_cuda_blocks(a->key_tiles * pairs);

    if constexpr (D > 128) {
        int err =
            launch_with(sizeof(bwd_shared<WIDE>), wide_keys_kernel<T, ALIBI, DROPOUT>,
                        blocks, THREADS, stream, *a);

        return err ? err
                   : launch_with(
                         sizeof(wide_queries_shared),
                         wide_queries_kernel<T, ALIBI, DROPOUT>,
                         mdsk_cuda_blocks((a->Sq + 127) / 128 * a->group * pairs),
                         THREADS, stream, *a);
    } else
        return launch_with(sizeof(bwd_shared<D>), bwd_kernel<T, D, ALIBI, DROPOUT>,
                           blocks, THREADS, stream, *a);
}

template <class T, int D>
int launch_backward(cudaStream_t stream, const struct backward_args *a)
{
    const dim3 tiles((unsigned)a->query_tiles, (unsigned)(a->B * a->G * a->group));
    const bool alibi = a->shape.alibi_heads > 0, dropout = a->shape.dropout.p > 0;
    int err = launch(rows_kernel<T, D>, tiles, 256, stream, *a);

    if (!err)
        err = (alibi     ? dropout ? launch_sums<T, D, true, true>
                                   : launch_sums<T, D, true, false>
                   : dropout ? launch_sums<T, D, false, true>
                         : launch_sums<T, D, false, false>)(stream, a);
    if (err || D > 128)
        return err;
    if constexpr (D <= 128)
        err = launch(dq_kernel<T, D>, tiles, GROUP, stream, *a);
    return err;
}

} // namespace mdsk::hopper

#define MDSK_BACKWARD(TYPE, width, NAME)                                               \
    extern "C" int NAME(cudaStream_t stream, const struct backward_args *a)            \
    {                                                                                  \
        return mdsk::hopper::launch_backward<TYPE, width>(stream, a);                  \
    }

#endif
