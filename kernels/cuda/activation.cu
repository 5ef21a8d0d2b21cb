/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/activation.h"

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

/* 1 / (1 + exp(-x)), and in *other its complement, each to full relative precision. */
template <class T> __device__ float sigmoid(float x, float *other)
{
    float e = exp_for<T>(-x);
    float s = inverse_for<T>(1 + e);

    *other = e < INFINITY ? e * s : 1;
    return s;
}

/* 0.5 (1 + tanh(u)) = sigmoid(2u); twice sqrt(2/pi), and the cubic's coefficient. */
constexpr float two_root = 1.5957691216f, cubic = 0.044715f;

template <class T> __device__ float gelu_gate(float v, float *other)
{
    return sigmoid<T>(v * (two_root + two_root * cubic * (v * v)), other);
}

template <class T> struct gelu {
    const T *x;
    T *y;

    template <int N> __device__ void run(int64_t i) const
    {
        float v[N], other;

        load(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] *= gelu_gate<T>(v[j], &other);
        store(v, y + i);
    }
};

/* d/dx x s(t(x)) = s + x s (1 - s) t' */
template <class T> struct gelu_bwd {
    const T *x, *dy;
    T *dx;

    template <int N> __device__ void run(int64_t i) const
    {
        float v[N], d[N];

        load(x + i, v);
        load(dy + i, d);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float other, s = gelu_gate<T>(v[j], &other);
            float slope = two_root * (1 + 3 * cubic * v[j] * v[j]);

            d[j] *= s + v[j] * s * other * slope;
        }
        store(d, dx + i);
    }
};

/* Row r of x is F of gate, then F of up. */
template <class T> struct swiglu {
    const T *x;
    T *y;
    int64_t F;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        const T *gate = x + 2 * r * F + c;
        float g[N], u[N], other;

        load(gate, g);
        load(gate + F, u);
#pragma unroll
        for (int j = 0; j < N; j++)
            g[j] *= sigmoid<T>(g[j], &other) * u[j];
        store(g, y + r * F + c);
    }
};

template <class T> struct swiglu_bwd {
    const T *x, *dy;
    T *dx;
    int64_t F;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        int64_t at = 2 * r * F + c;
        float g[N], u[N], d[N];

        load(x + at, g);
        load(x + at + F, u);
        load(dy + r * F + c, d);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float other, s = sigmoid<T>(g[j], &other);

            u[j] *= d[j] * s * (1 + g[j] * other);
            d[j] *= g[j] * s;
        }
        store(u, dx + at);
        store(d, dx + at + F);
    }
};

} // namespace

extern "C" int mdsk_activation_fwd_cuda(void *stream,
                                        const struct mdsk_activation_fwd *a)
{
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    bool gated = a->kind == MDSK_SWIGLU;
    bool wide = aligned({a->x, a->y}) && (!gated || a->F * size % 16 == 0);

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        const T *x = (const T *)a->x;
        T *y = (T *)a->y;

        if (gated)
            return each_row<width()>(stream, a->R, a->F, swiglu<T>{x, y, a->F});
        return each<width()>(stream, a->R * a->F, gelu<T>{x, y});
    });
}

extern "C" int mdsk_activation_bwd_cuda(void *stream,
                                        const struct mdsk_activation_bwd *a)
{
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype);
    bool gated = a->kind == MDSK_SWIGLU;
    bool wide = aligned({a->x, a->dy, a->dx}) && (!gated || a->F * size % 16 == 0);

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        const T *x = (const T *)a->x, *dy = (const T *)a->dy;
        T *dx = (T *)a->dx;

        if (gated)
            return each_row<width()>(stream, a->R, a->F,
                                     swiglu_bwd<T>{x, dy, dx, a->F});
        return each<width()>(stream, a->R * a->F, gelu_bwd<T>{x, dy, dx});
    });
}
