/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of rows in the order of experts, and the experts' linear layers, which are
 * where Hopper's kernel does not serve a product for each expert, for which the host
 * waits for the numbers of rows. */
#include "kernels/cuda/hopper/experts.h"
#include "kernels/experts.h"

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

template <class T> struct dispatch {
    struct mdsk_dispatch a;

    template <int N> __device__ void run(int64_t c, int64_t at) const
    {
        float v[N];

        load((const T *)a.x + a.from[c] / a.k * a.H + at, v);
        store(v, (T *)a.y + c * a.H + at);
    }
};

template <class T> struct combine {
    struct mdsk_combine a;

    template <int N> __device__ void run(int64_t r, int64_t at) const
    {
        float sum[N] = {};

        for (int64_t j = 0; j < a.k; j++) {
            float v[N];

            load((const T *)a.x + (int64_t)a.to[r * a.k + j] * a.H + at, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += v[i];
        }
        store(sum, (T *)a.y + r * a.H + at);
    }
};

/* N elements of f(x) from column `at` on; x: the row, of F columns or twice as many. */
template <class A, int N, class T>
__device__ void activate(const T *x, int64_t F, int64_t at, float (&y)[N])
{
    float u[N];

    load(x + at, y);
    if constexpr (A::is_gated)
        load(x + F + at, u);
#pragma unroll
    for (int i = 0; i < N; i++)
        if constexpr (A::is_gated)
            y[i] = A::fwd(y[i], u[i]);
        else
            y[i] = A::fwd(y[i]);
}

/* dx of those from dy. */
template <class A, int N, class T>
__device__ void activate_bwd(const T *x, int64_t F, int64_t at, const float (&dy)[N],
                             T *dx)
{
    float v[N], u[N];

    load(x + at, v);
    if constexpr (A::is_gated)
        load(x + F + at, u);
#pragma unroll
    for (int i = 0; i < N; i++)
        if constexpr (A::is_gated)
            A::bwd(v[i], u[i], dy[i], &v[i], &u[i]);
        else
            v[i] = A::bwd(v[i], dy[i]);
    store(v, dx + at);
    if constexpr (A::is_gated)
        store(u, dx + F + at);
}

template <class T, class A> struct weigh {
    struct mdsk_weigh a;

    template <int N> __device__ void run(int64_t c, int64_t at) const
    {
        constexpr int wide = A::is_gated ? 2 : 1;
        float v[N], w = a.weight[a.from ? a.from[c] : c];

        activate<A>((const T *)a.x + c * wide * a.F, a.F, at, v);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] *= w;
        store(v, (T *)a.y + c * a.F + at);
    }
};

/* A warp a copy. */
template <class T, class A, int N>
__global__ void weigh_bwd_kernel(struct mdsk_weigh_bwd a)
{
    constexpr int wide = A::is_gated ? 2 : 1;
    int64_t c = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const T *x = (const T *)a.x + c * wide * a.F;
    T *dx = (T *)a.dx + c * wide * a.F;
    float w, sum = 0;

    if (c >= a.R * a.k)
        return;
    w = a.weight[a.from ? a.from[c] : c];
    for (int64_t at = threadIdx.x * N; at < a.F; at += 32 * N) {
        float y[N], dy[N];

        load((const T *)a.dy + c * a.F + at, dy);
        activate<A>(x, a.F, at, y);
#pragma unroll
        for (int i = 0; i < N; i++) {
            sum += y[i] * dy[i];
            dy[i] *= w;
        }
        activate_bwd<A>(x, a.F, at, dy, dx);
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        a.dweight[a.from ? a.from[c] : c] = sum;
}

/* f over rows of `width` elements, by vectors where these fit. */
template <template <class> class F, class A>
int each_of(void *stream, const A *a, int64_t rows, int64_t width)
{
    return with_storage(a->dtype, aligned({a->x, a->y}), [&](auto type, auto wide) {
        typedef decltype(type) T;
        constexpr int N = wide();

        if (N > 1 && width % N == 0)
            return each_row<N>(stream, rows, width, F<T>{*a});
        return each_row<1>(stream, rows, width, F<T>{*a});
    });
}

/* ---- linear layers ---- */

/* Where each expert's rows begin, on the host. */
int fetch_first(void *stream, const int32_t *first, int64_t E, int32_t *out)
{
    cudaError_t err = cudaMemcpyAsync(out, first, (size_t)(E + 1) * sizeof *out,
                                      cudaMemcpyDeviceToHost, (cudaStream_t)stream);

    if (err == cudaSuccess)
        err = cudaStreamSynchronize((cudaStream_t)stream);
    return mdsk_cuda_rc(err);
}

/* The address of a row of `width` elements. */
template <class P> P *row(P *x, enum mdsk_dtype t, int64_t r, int64_t width)
{
    return (P *)((uintptr_t)x + (uintptr_t)(r * width) * mdsk_dtype_size(t));
}

} // namespace

extern "C" int mdsk_dispatch_cuda(void *stream, const struct mdsk_dispatch *a)
{
    return each_of<dispatch>(stream, a, a->R * a->k, a->H);
}

extern "C" int mdsk_combine_cuda(void *stream, const struct mdsk_combine *a)
{
    return each_of<combine>(stream, a, a->R, a->H);
}

extern "C" int mdsk_weigh_cuda(void *stream, const struct mdsk_weigh *a)
{
    return with_storage(a->dtype, aligned({a->x, a->y}), [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();

        return with_function<T>(a->kind, [&](auto f) {
            weigh<T, decltype(f)> rows = {*a};

            return N > 1 && a->F % N == 0
                       ? each_row<N>(stream, a->R * a->k, a->F, rows)
                       : each_row<1>(stream, a->R * a->k, a->F, rows);
        });
    });
}

extern "C" int mdsk_weigh_bwd_cuda(void *stream, const struct mdsk_weigh_bwd *a)
{
    bool wide = aligned({a->x, a->dy, a->dx});

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        constexpr int warps = 8;
        unsigned blocks = mdsk_cuda_blocks(ceil_div(a->R * a->k, warps));

        return with_function<T>(a->kind, [&](auto f) {
            typedef decltype(f) A;
            auto kernel =
                a->F % N == 0 ? weigh_bwd_kernel<T, A, N> : weigh_bwd_kernel<T, A, 1>;

            return launch(kernel, blocks, dim3(32, warps), stream, *a);
        });
    });
}

extern "C" int mdsk_experts_fwd_cuda(void *stream, const struct mdsk_experts_fwd *a)
{
    int32_t first[MDSK_EXPERTS_MOST + 1];
    int err = mdsk_hopper_experts_fwd((cudaStream_t)stream, a);

    if (err != -ENOTSUP)
        return err;
    err = fetch_first(stream, a->first, a->E, first);

    for (int64_t e = 0; e < a->E && !err; e++) {
        struct mdsk_linear_fwd one = {};

        one.R = first[e + 1] - first[e];
        one.in = a->in;
        one.out = a->out;
        one.dtype = a->dtype;
        one.x = row(a->x, a->dtype, first[e], a->in);
        one.w = row(a->w, a->dtype, e, a->step);
        one.y = row(a->y, a->dtype, first[e], a->out);
        err = one.R > 0 ? mdsk_linear_fwd_cuda(stream, &one) : 0;
    }
    return err;
}

extern "C" int mdsk_experts_bwd_input_cuda(void *stream,
                                           const struct mdsk_experts_bwd_input *a)
{
    int32_t first[MDSK_EXPERTS_MOST + 1];
    int err = mdsk_hopper_experts_bwd_input((cudaStream_t)stream, a);

    if (err != -ENOTSUP)
        return err;
    err = fetch_first(stream, a->first, a->E, first);

    for (int64_t e = 0; e < a->E && !err; e++) {
        struct mdsk_linear_bwd_input one = {};

        one.R = first[e + 1] - first[e];
        one.in = a->in;
        one.out = a->out;
        one.dtype = a->dtype;
        one.dy = row(a->dy, a->dtype, first[e], a->out);
        one.w = row(a->w, a->dtype, e, a->step);
        one.dx = row(a->dx, a->dtype, first[e], a->in);
        err = one.R > 0 ? mdsk_linear_bwd_input_cuda(stream, &one) : 0;
    }
    return err;
}

extern "C" int mdsk_experts_bwd_weight_cuda(void *stream,
                                            const struct mdsk_experts_bwd_weight *a)
{
    int32_t first[MDSK_EXPERTS_MOST + 1];
    int err = mdsk_hopper_experts_bwd_weight((cudaStream_t)stream, a);

    if (err != -ENOTSUP)
        return err;
    err = fetch_first(stream, a->first, a->E, first);

    for (int64_t e = 0; e < a->E && !err; e++) {
        struct mdsk_linear_bwd_weight one = {};

        one.R = first[e + 1] - first[e];
        one.in = a->in;
        one.out = a->out;
        one.dtype = a->dtype;
        one.write = a->write;
        one.x = row(a->x, a->dtype, first[e], a->in);
        one.dy = row(a->dy, a->dtype, first[e], a->out);
        one.dw = a->dw + e * a->step;
        if (one.R > 0)
            err = mdsk_linear_bwd_weight_cuda(stream, &one);
        else if (one.write)
            err = mdsk_cuda_rc(
                cudaMemsetAsync(one.dw, 0, (size_t)(a->in * a->out) * sizeof *one.dw,
                                (cudaStream_t)stream));
    }
    return err;
}
