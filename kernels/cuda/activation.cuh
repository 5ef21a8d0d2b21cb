/* SPDX-License-Identifier: BSD-3-Clause */
/* The activation functions, of one element. */
#ifndef MDSK_CUDA_ACTIVATION_CUH
#define MDSK_CUDA_ACTIVATION_CUH

#include <errno.h>

#include "kernels/activation.h"
#include "kernels/cuda/storage.cuh"

namespace mdsk
{

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

/* The activation functions: y from x, or from gate and up; and dx from dy. */
template <class T> struct gelu {
    static constexpr bool is_gated = false;

    static __device__ float fwd(float x)
    {
        float other;

        return x * gelu_gate<T>(x, &other);
    }

    /* d/dx x s(t(x)) = s + x s (1 - s) t' */
    static __device__ float bwd(float x, float dy)
    {
        float other, s = gelu_gate<T>(x, &other);
        float slope = two_root * (1 + 3 * cubic * x * x);

        return dy * (s + x * s * other * slope);
    }
};

template <class T> struct exact_gelu {
    static constexpr bool is_gated = false;

    static __device__ float fwd(float x)
    {
        return x * normcdff(x);
    }

    /* d/dx x Phi(x) = Phi + x phi */
    static __device__ float bwd(float x, float dy)
    {
        return dy * (normcdff(x) + x * (0.3989422804f * exp_for<T>(-0.5f * x * x)));
    }
};

template <class T> struct squared_relu {
    static constexpr bool is_gated = false;

    static __device__ float fwd(float x)
    {
        float v = x > 0 ? x : 0;

        return v * v;
    }

    static __device__ float bwd(float x, float dy)
    {
        return dy * (2 * (x > 0 ? x : 0));
    }
};

template <class T> struct swiglu {
    static constexpr bool is_gated = true;

    static __device__ float fwd(float gate, float up)
    {
        float other;

        return gate * (sigmoid<T>(gate, &other) * up);
    }

    static __device__ void bwd(float gate, float up, float dy, float *dgate, float *dup)
    {
        float other, s = sigmoid<T>(gate, &other);

        *dgate = up * (dy * s * (1 + gate * other));
        *dup = dy * (gate * s);
    }
};

/* call(f) for the function of this kind. */
template <class T, class Call> int with_function(mdsk_activation_kind kind, Call call)
{
    switch (kind) {
#define MDSK_CASE(NAME, name, ...)                                                     \
    case MDSK_##NAME:                                                                  \
        return call(name<T>());
        MDSK_ACTIVATIONS(MDSK_CASE)
#undef MDSK_CASE
    default:
        return -EINVAL;
    }
}

} // namespace mdsk

#endif
