/* SPDX-License-Identifier: BSD-3-Clause */
/* The cast to FP8: one kernel finds the largest magnitude, a second one writes codes,
 * by rows and transposed, through a tile in shared memory, and sums columns. */
#include "kernels/fp8.h"

#include <cuda_fp8.h>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/amax.cuh"
#include "kernels/cuda/partial_sums.cuh"

namespace
{

using namespace mdsk;

constexpr int threads = 256;
constexpr int tile = 128;          /* rows and columns */
constexpr int words = tile / 4;    /* of four codes, in a row of the tile */
constexpr int64_t max_parts = 512; /* of column sums */

/* ---- what is cast ---- */

struct identity {
    static constexpr bool is_gated = false;
};

/* F of x [R, C], or gated [R, 2C], as type T holds it. */
template <class T, class F> struct source {
    static constexpr bool is_activated = !std::is_same_v<F, identity>;
    /* Loads in flight per thread, and blocks per multiprocessor: the fastest of a few
     * tried on an H200. */
    static constexpr int loads = is_activated ? 2 : 4;
    static constexpr int blocks = is_activated ? 6 : 4;
    const T *x;
    int64_t R, C;

    /* v = elements c .. c+N-1 of row r */
    template <int N> __device__ void get(int64_t r, int64_t c, float (&v)[N]) const
    {
        const T *p = x + (F::is_gated ? 2 : 1) * r * C + c;

        load(p, v);
        if constexpr (F::is_gated) {
            float up[N];

            load(p + C, up);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = widen(narrow<T>(F::fwd(v[i], up[i])));
        } else if constexpr (is_activated) {
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = widen(narrow<T>(F::fwd(v[i])));
        }
    }
};

/* call(source, width); width: elements of a load, 1 unless all rows are whole vectors
 * of 8. */
template <class Call> int with_source(const struct mdsk_fp8_cast *a, Call call)
{
    bool wide = aligned({a->x}) && a->C % 8 == 0;

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        const T *x = (const T *)a->x;

        if (!a->activated)
            return call(source<T, identity>{x, a->R, a->C}, width);
        return with_function<T>(a->kind, [&](auto f) {
            return call(source<T, decltype(f)>{x, a->R, a->C}, width);
        });
    });
}

/* ---- the largest magnitude ---- */

/* A block searches a tile.  Tiles are in the reverse of the order in which write_codes
 * takes them: what is read last is still in L2 when that begins. */
template <class S, int N>
__global__ __launch_bounds__(threads) void find_amax(S x, uint32_t *amax)
{
    constexpr int across = tile / N, step = threads / across; /* step: rows at a time */
    int64_t down = gridDim.x - 1 - blockIdx.x;
    int64_t right = (int64_t)gridDim.z * gridDim.y - 1 -
                    ((int64_t)blockIdx.z * gridDim.y + blockIdx.y);
    int64_t r = down * tile + threadIdx.x / across;
    int64_t c = right * tile + threadIdx.x % across * N;
    uint32_t seen = amax_so_far(amax), most = 0;

    for (int i = 0; i < tile && c < x.C; i += S::loads * step) {
        float v[S::loads][N] = {};

#pragma unroll
        for (int k = 0; k < S::loads; k++)
            if (r + i + k * step < x.R)
                x.get(r + i + k * step, c, v[k]);
#pragma unroll
        for (int k = 0; k < S::loads; k++)
            most = max(most, amax_of(v[k]));
    }
    raise_amax<threads>(amax, seen, most);
}

/* ---- codes ---- */

/* The codes of x and y, x in the lower byte. */
template <enum mdsk_dtype To> __device__ inline uint32_t codes_of(float x, float y)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE,
                                    To == MDSK_E4M3 ? __NV_E4M3 : __NV_E5M2);
}

struct casting {
    int64_t R, C, ldR, ldC; /* ld: mdsk_fp8_ld */
    int64_t depth;          /* rows of a block, in tiles one after the other */
    uint8_t *rows, *cols;
    const uint32_t *amax;
    float *scale, *parts; /* parts: column sums of each block's rows, or NULL */
};

/* The tile's word w of row r.  Rows 16 apart are in other banks, as `transpose` reads
 * them at the same time. */
__device__ inline int place(int r, int w)
{
    return r * words + (w ^ r / 16 * 4);
}

/* v[k] = elements c .. c+7 of row r + k * step; beyond the end of the row or of x
 * zeros.  All loads start before the first number is used. */
template <int N, class S>
__device__ inline void get_eights(const S &x, int64_t r, int step, int64_t c,
                                  float (&v)[S::loads][8])
{
    if (N > 1 && r + (S::loads - 1) * step < x.R && c + 8 <= x.C) {
#pragma unroll
        for (int k = 0; k < S::loads; k++)
            x.get(r + k * step, c, v[k]);
        return;
    }
#pragma unroll
    for (int i = 0; i < S::loads * 8; i++) {
        int64_t at = r + i / 8 * step;
        float one[1] = {};

        if (at < x.R && c + i % 8 < x.C)
            x.get(at, c + i % 8, one);
        v[i / 8][i % 8] = one[0];
    }
}

template <enum mdsk_dtype To>
__device__ inline uint2 codes_of_eight(const float (&v)[8], float factor)
{
    uint32_t code[2] = {};

#pragma unroll
    for (int i = 0; i < 8; i += 2)
        code[i / 4] |= codes_of<To>(v[i] * factor, v[i + 1] * factor) << 8 * (i % 4);
    return make_uint2(code[0], code[1]);
}

/* in: row i has bytes 0 .. 3; out: word j has byte j of rows 0 .. 3. */
__device__ inline void transpose_bytes(const uint32_t (&in)[4], uint32_t (&out)[4])
{
    uint32_t low01 = __byte_perm(in[0], in[1], 0x5140);
    uint32_t low23 = __byte_perm(in[2], in[3], 0x5140);
    uint32_t high01 = __byte_perm(in[0], in[1], 0x7362);
    uint32_t high23 = __byte_perm(in[2], in[3], 0x7362);

    out[0] = __byte_perm(low01, low23, 0x5410);
    out[1] = __byte_perm(low01, low23, 0x7632);
    out[2] = __byte_perm(high01, high23, 0x5410);
    out[3] = __byte_perm(high01, high23, 0x7632);
}

/* A thread writes 16 rows of four columns. */
__device__ inline void transpose(const casting &a, const uint32_t *codes, int64_t r0,
                                 int64_t c0)
{
    int part = threadIdx.x % 8, w = threadIdx.x / 8;
    int64_t r = r0 + 16 * part, c = c0 + 4 * w;
    uint32_t out[4][4]; /* [column][four rows] */

#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t in[4], column[4];

#pragma unroll
        for (int j = 0; j < 4; j++)
            in[j] = codes[place(16 * part + 4 * i + j, w)];
        transpose_bytes(in, column);
#pragma unroll
        for (int j = 0; j < 4; j++)
            out[j][i] = column[j];
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (r < a.ldR && c + j < a.C)
            *(uint4 *)(a.cols + (c + j) * a.ldR + r) =
                make_uint4(out[j][0], out[j][1], out[j][2], out[j][3]);
}

/* Codes of the tile at row r0 and column c0.  sum += a thread's eight columns of it. */
template <int N, enum mdsk_dtype To, class S>
__device__ inline void write_tile(const casting &a, const S &x, float factor,
                                  int64_t r0, int64_t c0, uint32_t *codes,
                                  float (&sum)[8])
{
    constexpr int step = threads / (words / 2); /* rows at a time */
    int w = threadIdx.x % (words / 2) * 2;
    int64_t c = c0 + 4 * w;

    for (int i = threadIdx.x / (words / 2); i < tile; i += S::loads * step) {
        float v[S::loads][8];

        get_eights<N>(x, r0 + i, step, c, v);
#pragma unroll
        for (int k = 0; k < S::loads; k++) {
            int64_t r = r0 + i + k * step;
            uint2 eight = codes_of_eight<To>(v[k], factor);

            if (a.rows && r < a.R && c < a.ldC)
                *(uint2 *)(a.rows + r * a.ldC + c) = eight;
            *(uint2 *)(codes + place(i + k * step, w)) = eight;
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[j] += v[k][j];
        }
    }
    __syncthreads();
    if (a.cols)
        transpose(a, codes, r0, c0);
    __syncthreads();
}

/* A column's sums are with the threads that have this one's number modulo words / 2. */
__device__ inline void store_sums(const casting &a, int64_t c0, float (&sum)[8])
{
    __shared__ float sums[threads / 32][tile];
    int64_t c = c0 + threadIdx.x;
    float all = 0;

#pragma unroll
    for (int j = 0; j < 8; j++) {
        sum[j] += __shfl_xor_sync(~0u, sum[j], words / 2);
        if (threadIdx.x % 32 < words / 2)
            sums[threadIdx.x / 32][threadIdx.x % 32 * 8 + j] = sum[j];
    }
    __syncthreads();
    if (threadIdx.x >= tile || c >= a.C)
        return;
    for (int i = 0; i < threads / 32; i++)
        all += sums[i][threadIdx.x];
    a.parts[blockIdx.x * a.C + c] = all;
}

template <class S, int N, enum mdsk_dtype To, bool Sums>
__global__ __launch_bounds__(threads, S::blocks) void write_codes(casting a, S x)
{
    __shared__ uint32_t codes[tile * words];
    int64_t first = blockIdx.x * a.depth, last = min(first + a.depth, a.ldR);
    int64_t c0 = ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * tile;
    float factor = mdsk_fp8_factor(To, *a.amax), sum[8] = {};

    if (first == 0 && c0 == 0 && threadIdx.x == 0)
        *a.scale = 1 / factor;
    for (int64_t r0 = first; r0 < last; r0 += tile)
        write_tile<N, To>(a, x, factor, r0, c0, codes, sum);
    if constexpr (Sums)
        store_sums(a, c0, sum);
}

template <int N, enum mdsk_dtype To, class S>
int cast(void *stream, const struct mdsk_fp8_cast *a, const S &x, const uint32_t *amax)
{
    void (*kernel)(casting, S) = write_codes<S, N, To, false>;
    int64_t ldR = mdsk_fp8_ld(a->R), ldC = mdsk_fp8_ld(a->C);
    int64_t tiles = ceil_div(ldR, tile), depth = ceil_div(tiles, max_parts);
    int64_t blocks = ceil_div(tiles, depth);
    casting f = {
        a->R, a->C,     ldR, ldC, depth * tile, (uint8_t *)a->rows, (uint8_t *)a->cols,
        amax, a->scale, NULL};
    unsigned y, z;
    int err;

    if constexpr (!S::is_activated)
        kernel = a->sum ? write_codes<S, N, To, true> : kernel;
    if (a->sum) {
        f.parts = (float *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE,
                                             blocks * a->C * (int64_t)sizeof *f.parts);
        if (!f.parts)
            return -ENOMEM;
    }
    mdsk_cuda_fold(ceil_div(ldC, tile), &y, &z);
    err = launch(kernel, dim3(mdsk_cuda_blocks(blocks), y, z), threads, stream, f, x);
    return err || !a->sum
               ? err
               : add_parts(stream, blocks, a->C, f.parts, a->sum, a->C, NULL);
}

int search(void *stream, const struct mdsk_fp8_cast *a, uint32_t *amax)
{
    int err = zero_amax(stream, amax);
    unsigned y, z;

    if (err)
        return err;
    mdsk_cuda_fold(ceil_div(a->C, tile), &y, &z);
    return with_source(a, [&](auto x, auto width) {
        return launch(find_amax<decltype(x), width()>,
                      dim3(mdsk_cuda_blocks(ceil_div(a->R, tile)), y, z), threads,
                      stream, x, amax);
    });
}

} // namespace

extern "C" int mdsk_fp8_cast_cuda(void *stream, const struct mdsk_fp8_cast *a)
{
    uint32_t *amax = a->amax;
    int err;

    if (!amax)
        amax = (uint32_t *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_AMAX, 4);
    if (!amax)
        return -ENOMEM;
    err = a->amax_known ? 0 : search(stream, a, amax);
    if (err)
        return err;
    return with_source(a, [&](auto x, auto width) {
        constexpr int N = width();

        return a->to == MDSK_E4M3 ? cast<N, MDSK_E4M3>(stream, a, x, amax)
                                  : cast<N, MDSK_E5M2>(stream, a, x, amax);
    });
}
