/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/elementwise.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/philox.h"

namespace
{

using namespace mdsk;

template <class T> struct add {
    const T *x, *z;
    T *y;

    template <int N> __device__ void run(int64_t i) const
    {
        float a[N], b[N];

        load(x + i, a);
        load(z + i, b);
        for (int j = 0; j < N; j++)
            b[j] += a[j];
        store(b, y + i);
    }
};

template <class From, class To> struct cast {
    const From *x;
    To *y;

    template <int N> __device__ void run(int64_t i) const
    {
        float v[N];

        load(x + i, v);
        store(v, y + i);
    }
};

/* W: the unit of copying, any type of its size; ldx and ldy count units. */
template <class W> struct copy {
    const W *x;
    W *y;
    int64_t ldx, ldy;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        for (int j = 0; j < N; j++)
            y[r * ldy + c + j] = x[r * ldx + c + j];
    }
};

/* Four adjacent elements use one block of random words.  c is a multiple of N, so the
 * blocks of one thread differ in low bits only (`|` below instead of `+`): the compiler
 * then shares the parts of the generator that depend on the high bits. */
template <class T> struct dropout {
    struct mdsk_dropout a;
    uint32_t threshold;
    float keep;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        constexpr int M = N < 4 ? N : 4;
        int64_t s = a.rows.B == 1 ? r : r / a.rows.B, at = r * a.H + c;
        int64_t sample = a.rows.first_sample + (r - s * a.rows.B);
        float v[N];

        load((const T *)a.x + at, v);
#pragma unroll
        for (int j = 0; j < N; j += M) {
            uint32_t word[4];

            mdsk_dropout_block(a.key.seed, a.key.site, a.key.step, sample,
                               a.rows.first_token + s,
                               (int64_t)((uint64_t)c / 4 | j / 4), word);
#pragma unroll
            for (int k = 0; k < M; k++) {
                uint32_t w = N == 1 ? word[c % 4] : word[k];

                v[j + k] = w >= threshold ? v[j + k] * keep : 0;
            }
        }
        store(v, (T *)a.y + at);
    }
};

template <class W> int copy_as(void *stream, const struct mdsk_copy_rows *a)
{
    int64_t size = (int64_t)mdsk_dtype_size(a->dtype), unit = sizeof(W);
    copy<W> f = {(const W *)a->x, (W *)a->y, a->ldx * size / unit,
                 a->ldy * size / unit};

    return each_row<1>(stream, a->R, a->C * size / unit, f);
}

} // namespace

/* Asks for one kernel: all are compiled for the same GPUs. */
extern "C" int mdsk_cuda_has_kernels(void)
{
    struct cudaFuncAttributes at;
    const void *kernel = (const void *)each_kernel<4, add<float>>;

    if (cudaFuncGetAttributes(&at, kernel) == cudaSuccess)
        return 1;
    cudaGetLastError(); /* clear it for the next launch */
    return 0;
}

extern "C" int mdsk_add_cuda(void *stream, const struct mdsk_add *a)
{
    const void *z = a->z ? a->z : a->y;

    return with_storage(a->dtype, aligned({a->x, z, a->y}), [&](auto type, auto width) {
        typedef decltype(type) T;

        return each<width()>(stream, a->n,
                             add<T>{(const T *)a->x, (const T *)z, (T *)a->y});
    });
}

extern "C" int mdsk_cast_cuda(void *stream, const struct mdsk_cast *a)
{
    bool wide = aligned({a->x, a->y});

    return with_storage(a->from, wide, [&](auto from, auto width) {
        return with_storage(a->to, false, [&](auto to, auto) {
            typedef decltype(from) From;
            typedef decltype(to) To;
            constexpr int N = decltype(width)::value == 1 ? 1 : 8;

            return each<N>(stream, a->n,
                           cast<From, To>{(const From *)a->x, (To *)a->y});
        });
    });
}

/* In the largest unit that divides addresses, widths and strides. */
extern "C" int mdsk_copy_rows_cuda(void *stream, const struct mdsk_copy_rows *a)
{
    uintptr_t size = mdsk_dtype_size(a->dtype);
    uintptr_t all = (uintptr_t)a->x | (uintptr_t)a->y | size * (uintptr_t)a->C |
                    size * (uintptr_t)a->ldx | size * (uintptr_t)a->ldy;

    if (all % 16 == 0)
        return copy_as<uint4>(stream, a);
    if (all % 8 == 0)
        return copy_as<uint2>(stream, a);
    if (all % 4 == 0)
        return copy_as<uint32_t>(stream, a);
    return copy_as<uint16_t>(stream, a);
}

extern "C" int mdsk_dropout_cuda(void *stream, const struct mdsk_dropout *a)
{
    uint32_t threshold = mdsk_dropout_threshold(a->key.p);
    float keep = 1 / (1 - a->key.p);
    bool wide = aligned({a->x, a->y});

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        dropout<T> f = {*a, threshold, keep};
        int64_t R = a->rows.B * a->rows.S;

        if (N > 1 && a->H % (2 * N) == 0)
            return each_row<2 * N>(stream, R, a->H, f);
        if (a->H % N == 0)
            return each_row<N>(stream, R, a->H, f);
        return each_row<1>(stream, R, a->H, f);
    });
}
