/* SPDX-License-Identifier: BSD-3-Clause */
/* Load and store weights and activations: any type in memory, f32 in registers. */
#ifndef MDSK_CUDA_STORAGE_CUH
#define MDSK_CUDA_STORAGE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <errno.h>
#include <initializer_list>
#include <string.h>
#include <type_traits>

#include "kernels/types.h"

namespace mdsk
{

typedef __nv_bfloat16 bf16;
typedef __half f16;

__device__ inline float widen(float x)
{
    return x;
}

__device__ inline float widen(bf16 x)
{
    return __bfloat162float(x);
}

__device__ inline float widen(f16 x)
{
    return __half2float(x);
}

/* Rounded to nearest even. */
template <class T> __device__ inline T narrow(float x)
{
    if constexpr (std::is_same_v<T, bf16>)
        return __float2bfloat16_rn(x);
    else if constexpr (std::is_same_v<T, f16>)
        return __float2half_rn(x);
    else
        return x;
}

/* N neighbouring elements, moved by one load or store: at most 16 bytes. */
template <class T, int N> struct alignas(sizeof(T) * N) pack {
    T x[N];

    __device__ float operator[](int i) const
    {
        return widen(x[i]);
    }
};

/* The most elements that one load or store moves. */
template <class T> constexpr int widest = 16 / (int)sizeof(T);

template <int N, class T> __device__ inline pack<T, N> fetch(const T *p)
{
    return *reinterpret_cast<const pack<T, N> *>(p);
}

/* v = p.  Two bf16 numbers are widened from their 32-bit word; one by one, the compiler
 * would first split the word. */
template <class T, int N>
__device__ inline void unpack(const pack<T, N> &p, float (&v)[N])
{
    if constexpr (std::is_same_v<T, bf16> && N > 1) {
        uint32_t w[N / 2];

        memcpy(w, &p, sizeof w);
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            v[2 * i] = __uint_as_float(w[i] << 16);
            v[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = p[i];
    }
}

/* v = p[0 .. N-1], with as few loads as possible */
template <class T, int N> __device__ inline void load(const T *p, float (&v)[N])
{
    constexpr int M = N < widest<T> ? N : widest<T>;

#pragma unroll
    for (int i = 0; i < N; i += M) {
        float w[M];

        unpack(fetch<M>(p + i), w);
#pragma unroll
        for (int j = 0; j < M; j++)
            v[i + j] = w[j];
    }
}

/* p[0 .. N-1] = v, rounded */
template <class T, int N> __device__ inline void store(const float (&v)[N], T *p)
{
    constexpr int M = N < widest<T> ? N : widest<T>;

#pragma unroll
    for (int i = 0; i < N; i += M) {
        pack<T, M> q;

#pragma unroll
        for (int j = 0; j < M; j++)
            q.x[j] = narrow<T>(v[i + j]);
        *reinterpret_cast<pack<T, M> *>(p + i) = q;
    }
}

/* p[0 .. N-1] += v */
template <int N> __device__ inline void add_to(float *p, const float (&v)[N])
{
    float sum[N];

    load(p, sum);
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] += v[i];
    store(sum, p);
}

/* Whether all addresses are aligned to 16 bytes.  NULL is. */
inline bool aligned(std::initializer_list<const void *> addresses)
{
    for (const void *p : addresses)
        if ((uintptr_t)p % 16 != 0)
            return false;
    return true;
}

/* f(T(), width) for the storage type; width is a constant: the most elements of a
 * 16-byte load if `wide`, else 1. */
template <class F> int with_storage(enum mdsk_dtype dtype, bool wide, F f)
{
    auto with_width = [&](auto type) {
        if (wide)
            return f(type, std::integral_constant<int, widest<decltype(type)>>());
        return f(type, std::integral_constant<int, 1>());
    };

    switch (dtype) {
    case MDSK_F32:
        return with_width(float());
    case MDSK_BF16:
        return with_width(bf16());
    case MDSK_F16:
        return with_width(f16());
    default:
        return -EINVAL;
    }
}

/* On the special function units only: within 2 ulp in f32; subnormals become 0. */
__device__ inline float fast_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float fast_inverse(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* exp(x) and 1 / x, accurate enough for the storage type T.  For 16-bit types the exact
 * functions would take longer than the memory traffic. */
template <class T> __device__ inline float exp_for(float x)
{
    if constexpr (std::is_same_v<T, float>)
        return expf(x);
    else
        return fast_exp2(x * 1.4426950409f);
}

template <class T> __device__ inline float inverse_for(float x)
{
    if constexpr (std::is_same_v<T, float>)
        return 1 / x;
    else
        return fast_inverse(x);
}

} // namespace mdsk

#endif
