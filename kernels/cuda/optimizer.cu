/* SPDX-License-Identifier: BSD-3-Clause */
/* AdamW and Muon, and the sum of squares for the gradient norm. */
#include "kernels/optimizer.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

/* What the rate makes of a span. */
struct adamw_rate {
    float keep, step, eps;
};

static adamw_rate rate_of(const struct mdsk_adamw *a, float width)
{
    float lr = a->lr / width;

    return {1 - lr * a->weight_decay, lr / a->correction1, a->eps / width};
}

template <class T> struct adamw {
    struct mdsk_adamw a;
    adamw_rate narrow, wide;
    float root;

    /* The span that element i is in. */
    __device__ int span_of(int64_t i) const
    {
        int s = 0;

        while (i >= a.span_end[s])
            s++;
        return s;
    }

    template <int N> __device__ void run(int64_t i) const
    {
        float w[N], m[N], v[N], g[N];
        int s;

        load(a.master + i, w);
        load(a.m + i, m);
        load(a.v + i, v);
        load((const float *)a.grad + i, g);
        s = span_of(i); /* while the loads are in flight */
#pragma unroll
        for (int j = 0; j < N; j++) {
            float d = g[j] * a.grad_scale;

            if (i + j >= a.span_end[s])
                s++;
            const adamw_rate &rate = a.wide >> s & 1 ? wide : narrow;

            m[j] = a.beta1 * m[j] + (1 - a.beta1) * d;
            v[j] = a.beta2 * v[j] + (1 - a.beta2) * d * d;
            w[j] = w[j] * (a.decays >> s & 1 ? rate.keep : 1) -
                   rate.step * m[j] / (sqrtf(v[j]) * root + rate.eps);
        }
        store(w, a.master + i);
        store(m, a.m + i);
        store(v, a.v + i);
        if (a.weight)
            store(w, (T *)a.weight + i);
    }
};

struct muon_momentum {
    struct mdsk_muon_momentum a;

    template <int N> __device__ void run(int64_t i) const
    {
        float m[N], g[N];

        load(a.m + i, m);
        load(a.grad + i, g);
#pragma unroll
        for (int j = 0; j < N; j++) {
            g[j] *= a.grad_scale;
            m[j] = a.beta * m[j] + (1 - a.beta) * g[j];
            g[j] = a.nesterov ? a.beta * m[j] + (1 - a.beta) * g[j] : m[j];
        }
        store(m, a.m + i);
        store(g, a.d + i);
    }
};

template <class From, class To> struct axpby {
    struct mdsk_axpby a;

    template <int N> __device__ void run(int64_t i) const
    {
        double norm = a.squares ? sqrt(*a.squares) : 1;
        float scale = (float)(1 / (norm > 1e-7 ? norm : 1e-7));
        float x[N] = {}, y[N] = {};

        if (a.x)
            load((const From *)a.x + i, x);
        if (a.b != 0)
            load((const To *)a.y + i, y);
#pragma unroll
        for (int j = 0; j < N; j++)
            y[j] = a.a * scale * x[j] + a.b * scale * y[j];
        store(y, (To *)a.y + i);
    }
};

template <class O, class T> struct muon_step {
    struct mdsk_muon_step a;
    float keep;

    template <int N> __device__ void run(int64_t i) const
    {
        float w[N], o[N];

        load(a.master + i, w);
        load((const O *)a.o + i, o);
#pragma unroll
        for (int j = 0; j < N; j++)
            w[j] = keep * w[j] - a.rate * o[j];
        store(w, a.master + i);
        if (a.weight)
            store(w, (T *)a.weight + i);
    }
};

/* A sum of squares is made in parts, as many on any device, so that the result has the
 * same bits: block p sums every gridDim.x-th tile of `threads` packs. */
constexpr int threads = 512;
constexpr int64_t max_parts = 1056;

template <bool WIDE>
__global__ void sum_squares(int64_t n, const float *x, double *part)
{
    constexpr int N = 4;
    int64_t step = (int64_t)gridDim.x * threads * N;
    int64_t i = ((int64_t)blockIdx.x * threads + threadIdx.x) * N;
    double sum = 0;

#pragma unroll 4
    for (; i + N <= n; i += step) {
        pack<float, N> v;

        if constexpr (WIDE)
            v = fetch<N>(x + i);
        else
            v = {x[i], x[i + 1], x[i + 2], x[i + 3]};
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += (double)v[j] * (double)v[j];
    }
    for (; i < n; i++) /* the last elements, fewer than a pack: one thread */
        sum += (double)x[i] * (double)x[i];
    sum = team_sum<threads>(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

__global__ void add_square_sums(int parts, const double *part, double *out)
{
    double sum = 0;

    for (int p = threadIdx.x; p < parts; p += threads)
        sum += part[p];
    sum = team_sum<threads>(sum);
    if (threadIdx.x == 0)
        *out += sum;
}

} // namespace

extern "C" int mdsk_adamw_cuda(void *stream, const struct mdsk_adamw *a)
{
    /* Four weights of a 16-bit type are 8 bytes, and need that alignment only. */
    bool wide = aligned({a->master, a->m, a->v, a->grad}) &&
                (uintptr_t)a->weight % (4 * mdsk_dtype_size(a->dtype)) == 0;
    float root = 1 / sqrtf(a->correction2), width = a->wide ? a->width : 1;
    adamw_rate normal = rate_of(a, 1), slow = rate_of(a, width);

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        constexpr int N = width() == 1 ? 1 : 4;

        return each<N>(stream, a->n, adamw<decltype(type)>{*a, normal, slow, root});
    });
}

extern "C" int mdsk_muon_momentum_cuda(void *stream, const struct mdsk_muon_momentum *a)
{
    muon_momentum f = {*a};

    return aligned({a->m, a->grad, a->d}) ? each<4>(stream, a->n, f)
                                          : each<1>(stream, a->n, f);
}

extern "C" int mdsk_axpby_cuda(void *stream, const struct mdsk_axpby *a)
{
    return with_storage(a->from, aligned({a->x, a->y}), [&](auto from, auto width) {
        return with_storage(a->to, false, [&](auto to, auto) {
            constexpr int N = decltype(width)::value == 1 ? 1 : 8;

            return each<N>(stream, a->n, axpby<decltype(from), decltype(to)>{*a});
        });
    });
}

extern "C" int mdsk_muon_step_cuda(void *stream, const struct mdsk_muon_step *a)
{
    bool wide = aligned({a->master, a->o, a->weight});
    float keep = 1 - a->lr * a->weight_decay;

    return with_storage(a->o_dtype, wide, [&](auto o, auto width) {
        return with_storage(a->dtype, false, [&](auto type, auto) {
            constexpr int N = decltype(width)::value == 1 ? 1 : 8;

            return each<N>(stream, a->n,
                           muon_step<decltype(o), decltype(type)>{*a, keep});
        });
    });
}

extern "C" int mdsk_sum_squares_cuda(void *stream, const struct mdsk_sum_squares *a)
{
    int64_t wanted = ceil_div(a->n, (int64_t)threads * 16);
    unsigned parts = (unsigned)(wanted < max_parts ? wanted : max_parts);
    double *part = (double *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                               max_parts * (int64_t)sizeof *part);
    int err;

    if (a->n < 1)
        return 0;
    if (!part)
        return -ENOMEM;
    err = launch(aligned({a->x}) ? sum_squares<true> : sum_squares<false>, parts,
                 threads, stream, a->n, a->x, part);
    return err ? err
               : launch(add_square_sums, 1, threads, stream, (int)parts, part, a->sum);
}
