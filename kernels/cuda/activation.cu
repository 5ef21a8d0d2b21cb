/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/amax.cuh"

namespace
{

using namespace mdsk;

template <class T, class F> struct ungated_fwd {
    const T *x;
    T *y;

    template <int N> __device__ void run(int64_t i) const
    {
        float v[N];

        load(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = F::fwd(v[j]);
        store(v, y + i);
    }
};

/* All elements are one row.  Backward functions return the largest magnitude. */
template <class T, class F> struct ungated_bwd {
    const T *x, *dy;
    T *dx;

    template <int N> __device__ uint32_t run(int64_t, int64_t i) const
    {
        float v[N], d[N];

        load(x + i, v);
        load(dy + i, d);
#pragma unroll
        for (int j = 0; j < N; j++)
            d[j] = F::bwd(v[j], d[j]);
        store(d, dx + i);
        return amax_stored<T>(amax_of(d));
    }
};

/* Row r of x is n elements of gate, then n of up. */
template <class T, class F> struct gated_fwd {
    const T *x;
    T *y;
    int64_t n;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        const T *gate = x + 2 * r * n + c;
        float g[N], u[N];

        load(gate, g);
        load(gate + n, u);
#pragma unroll
        for (int j = 0; j < N; j++)
            g[j] = F::fwd(g[j], u[j]);
        store(g, y + r * n + c);
    }
};

template <class T, class F> struct gated_bwd {
    const T *x, *dy;
    T *dx;
    int64_t n;

    template <int N> __device__ uint32_t run(int64_t r, int64_t c) const
    {
        int64_t at = 2 * r * n + c;
        float g[N], u[N], d[N];

        load(x + at, g);
        load(x + at + n, u);
        load(dy + r * n + c, d);
#pragma unroll
        for (int j = 0; j < N; j++)
            F::bwd(g[j], u[j], d[j], &g[j], &u[j]);
        store(g, dx + at);
        store(u, dx + at + n);
        return amax_stored<T>(max(amax_of(g), amax_of(u)));
    }
};

template <int N, class F>
int each_row_bwd(void *stream, const struct mdsk_activation_bwd *a, int64_t R,
                 int64_t C, const F &f)
{
    return a->amax ? each_row_amax<N>(stream, R, C, f, a->amax)
                   : each_row<N>(stream, R, C, f);
}

/* Whether 16-byte loads are possible: rows of gated functions must consist of them;
 * ungated functions treat the tensor as one row. */
bool is_wide(mdsk_activation_kind kind, int64_t F, enum mdsk_dtype dtype)
{
    return !mdsk_activation_of(kind)->gated ||
           F * (int64_t)mdsk_dtype_size(dtype) % 16 == 0;
}

} // namespace

extern "C" int mdsk_activation_fwd_cuda(void *stream,
                                        const struct mdsk_activation_fwd *a)
{
    bool wide = aligned({a->x, a->y}) && is_wide(a->kind, a->F, a->dtype);

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        const T *x = (const T *)a->x;
        T *y = (T *)a->y;

        return with_function<T>(a->kind, [&](auto f) {
            typedef decltype(f) F;

            if constexpr (F::is_gated)
                return each_row<width()>(stream, a->R, a->F,
                                         gated_fwd<T, F>{x, y, a->F});
            else
                return each<width()>(stream, a->R * a->F, ungated_fwd<T, F>{x, y});
        });
    });
}

extern "C" int mdsk_activation_bwd_cuda(void *stream,
                                        const struct mdsk_activation_bwd *a)
{
    bool wide = aligned({a->x, a->dy, a->dx}) && is_wide(a->kind, a->F, a->dtype);

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        const T *x = (const T *)a->x, *dy = (const T *)a->dy;
        T *dx = (T *)a->dx;

        return with_function<T>(a->kind, [&](auto f) {
            typedef decltype(f) F;

            if constexpr (F::is_gated)
                return each_row_bwd<width()>(stream, a, a->R, a->F,
                                             gated_bwd<T, F>{x, dy, dx, a->F});
            else
                return each_row_bwd<width()>(stream, a, 1, a->R * a->F,
                                             ungated_bwd<T, F>{x, dy, dx});
        });
    });
}
