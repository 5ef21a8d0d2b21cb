/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of all experts, whose numbers of rows only the device knows.
 *
 *   forward           y  [rows, out] = x  W_e^T     x, W_e as they are stored
 *   bwd of the input  dx [rows, in]  = dy W_e       W_e transposed by wgmma
 *   bwd of weights    dW_e [out, in] += dy^T x      both transposed, over e's rows
 *
 * A block takes tiles C [128, N] = A [128, K] B [K, N] of all experts in turn.  One
 * warp group, the producer, starts copies of A and B, 64 of K at a time, into a ring of
 * stages, and is ahead by as many, also into the next tile; two others, consumers,
 * multiply, 64 rows each.
 *
 * A tile of rows at an expert's end reads rows of the next expert's, too, and leaves
 * them out when it writes.  A sum over an expert's rows ends with zeros in place of
 * them. */
#include "kernels/cuda/hopper/experts.h"

#include "kernels/cuda/hopper/ptx.cuh"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/storage.cuh"

namespace
{

using namespace mdsk::hopper;

enum { FORWARD, INPUT, WEIGHT };

/* Rows of a tile; of K in a stage; tiles of rows that follow each other, so that tiles
 * that are worked on at the same time share what they read. */
constexpr int M = 128, K = 64, TALL = 16;
constexpr int CONSUMERS = 256, THREADS = CONSUMERS + 128, WARPS = CONSUMERS / 32;

struct products {
    CUtensorMap a, b, c; /* c: of WEIGHT */
    const int32_t *first;
    void *y;   /* [rows, n] of the others */
    int E, m;  /* m: rows of a dW; others have an expert's rows */
    int n, k;  /* k: of the others */
    int write; /* dW, not added to it */
};

template <class T_, int KIND, int N_> struct plan {
    using T = T_;
    static constexpr int kind = KIND, N = N_, stages = N == 256 ? 4 : 6;
    static constexpr int panel = K * PANEL_ROW; /* bytes of 64 x 64 elements */
    static constexpr int a_bytes = M * PANEL_ROW, b_bytes = N * PANEL_ROW;
    static constexpr int stage_bytes = a_bytes + b_bytes;
    static constexpr int out_at = stages * stage_bytes;
    static constexpr int out_bytes = 4096; /* of a warp */
    static constexpr int bytes = out_at + WARPS * out_bytes;
};

template <class P> struct shared {
    uint64_t full[P::stages], empty[P::stages];
    int32_t first[MDSK_EXPERTS_MOST + 1];
};

/* A tile: of which expert, its first row (of A, and for WEIGHT of dW) and column. */
struct tile {
    int e, row, column;
};

/* The tiles of one block, one after the other. */
template <class P> struct walk {
    int64_t index = blockIdx.x, before = 0; /* before: tiles of experts before e */
    int e = 0;

    /* False after the last. */
    __device__ bool next(const struct products &p, const int32_t *first, struct tile &t)
    {
        const int across = (p.n + P::N - 1) / P::N;

        for (; e < p.E; e++) {
            int rows = P::kind == WEIGHT ? p.m : first[e + 1] - first[e];
            int down = (rows + M - 1) / M;

            if (index < before + (int64_t)down * across) {
                int at = (int)(index - before), top = at / (TALL * across) * TALL;
                int height = min(TALL, down - top), rest = at - top * across;

                t.e = e;
                t.row = (top + rest % height) * M + (P::kind == WEIGHT ? 0 : first[e]);
                t.column = rest / height * P::N;
                index += gridDim.x;
                return true;
            }
            before += (int64_t)down * across;
        }
        return false;
    }
};

/* What a tile sums over. */
template <class P>
__device__ int depth(const struct products &p, const int32_t *first,
                     const struct tile &t)
{
    return P::kind == WEIGHT ? first[t.e + 1] - first[t.e] : p.k;
}

/* ---- the producer: one thread ---- */

/* Boxes of 64 rows of K and 64 columns, side by side. */
template <class P, int WIDTH>
__device__ void load_across(char *to, const CUtensorMap &map, uint64_t *full, int x,
                            int y, int z)
{
#pragma unroll
    for (int i = 0; i < WIDTH / PANEL; i++)
        load_box(to + i * P::panel, &map, full, x + i * PANEL, y, z, 0);
}

/* The next 64 of K. */
template <class P>
__device__ void load_stage(const struct products &p, const struct tile &t, int begin,
                           int k, char *to, uint64_t *full)
{
    char *b = to + P::a_bytes;

    barrier_expect(full, P::stage_bytes);
    if (P::kind == WEIGHT) {
        load_across<P, M>(to, p.a, full, t.row, begin + k, 0);
        load_across<P, P::N>(b, p.b, full, t.column, begin + k, 0);
        return;
    }
    load_box(to, &p.a, full, k, t.row, 0, 0);
    if (P::kind == FORWARD)
        load_box(b, &p.b, full, k, t.column, t.e, 0);
    else
        load_across<P, P::N>(b, p.b, full, t.column, k, t.e);
}

template <class P>
__device__ void produce(const struct products &p, char *memory, struct shared<P> &s)
{
    struct walk<P> tiles;
    ring<P::stages> at;
    struct tile t;

    while (tiles.next(p, s.first, t)) {
        int end = depth<P>(p, s.first, t);

        for (int k = 0; k < end; k += K) {
            barrier_wait(&s.empty[at.stage], at.round ^ 1);
            load_stage<P>(p, t, s.first[t.e], k, memory + at.stage * P::stage_bytes,
                          &s.full[at.stage]);
            at.next();
        }
    }
}

/* ---- consumers ---- */

/* Zeros from row `begin` of K on, in a stage of WEIGHT, by all consumers. */
template <class P> __device__ void clear_end(char *stage, int begin)
{
    constexpr int panels = P::stage_bytes / P::panel, chunks = PANEL_ROW / 16;

    for (int i = threadIdx.x % CONSUMERS; i < panels * (K - begin) * chunks;
         i += CONSUMERS) {
        int row = i / chunks % (K - begin), in = i / chunks / (K - begin);

        *(uint4 *)(stage + in * P::panel + (begin + row) * PANEL_ROW +
                   i % chunks * 16) = make_uint4(0, 0, 0, 0);
    }
    async_fence();
    named_sync(1, CONSUMERS);
}

/* c (+)= A B of a stage; a commit. */
template <class P>
__device__ void multiply(const char *stage, int group, float (&c)[P::N / 2], int add)
{
    constexpr int mn_a = P::kind == WEIGHT, mn_b = P::kind != FORWARD;
    const char *a_at = stage + group * 64 * PANEL_ROW, *b_at = stage + P::a_bytes;
    uint64_t a = mn_a ? by_mn(a_at, P::panel) : by_k(a_at);
    uint64_t b = mn_b ? by_mn(b_at, P::panel) : by_k(b_at);

    wgmma_fence();
#pragma unroll
    for (int i = 0; i < K / 16; i++)
        wgmma<typename P::T, P::N, mn_a, mn_b>(c, a + i * (mn_a ? 128 : 2),
                                               b + i * (mn_b ? 128 : 2), add || i > 0);
    wgmma_commit();
}

/* This warp has read a stage. */
__device__ void release(uint64_t *empty)
{
    if (threadIdx.x % 32 == 0)
        barrier_arrive(empty);
}

/* c = the sums of a tile. */
template <class P>
__device__ void sum_up(char *memory, struct shared<P> &s, int group, int end,
                       ring<P::stages> &at, float (&c)[P::N / 2])
{
    int before = -1; /* the stage whose products may still run */

    for (int k = 0; k < end; k += K) {
        char *stage = memory + at.stage * P::stage_bytes;

        barrier_wait(&s.full[at.stage], at.round);
        if (P::kind == WEIGHT && end - k < K)
            clear_end<P>(stage, end - k);
        multiply<P>(stage, group, c, k > 0);
        if (before >= 0) {
            wgmma_wait<1>();
            release(&s.empty[before]);
        }
        before = at.stage;
        at.next();
    }
    wgmma_wait<0>();
    hold(c);
    if (before >= 0)
        release(&s.empty[before]);
}

/* A warp's 16 rows of y, 64 columns at a time by way of shared memory. */
template <class P>
__device__ void write_rows(const struct products &p, const struct tile &t, int end,
                           int row, const float (&c)[P::N / 2], char *out)
{
    const int lane = threadIdx.x % 32;
    typename P::T *y = (typename P::T *)p.y;

#pragma unroll
    for (int j = 0; j < P::N / PANEL; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *d = &c[32 * j + 8 * i];

            store_matrices(
                shared_address(out) +
                    panel_chunk((uint32_t)(lane % 16), (uint32_t)(2 * i + lane / 16)),
                pack<typename P::T>(d[0], d[1]), pack<typename P::T>(d[2], d[3]),
                pack<typename P::T>(d[4], d[5]), pack<typename P::T>(d[6], d[7]));
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = 4 * i + lane / 8, column = t.column + j * PANEL + lane % 8 * 8;

            if (row + r < end && column < p.n)
                *(uint4 *)(y + (int64_t)(row + r) * p.n + column) =
                    *(const uint4 *)(out +
                                     panel_chunk((uint32_t)r, (uint32_t)(lane % 8)));
        }
        __syncwarp();
    }
}

/* A warp's 16 rows of dW, 32 columns at a time, written or added by TMA. */
template <class P>
__device__ void write_weights(const struct products &p, const struct tile &t, int row,
                              const float (&c)[P::N / 2], char *out)
{
    const int lane = threadIdx.x % 32;

#pragma unroll
    for (int j = 0; j < P::N / 32; j++) {
        char *half = out + j % 2 * (P::out_bytes / 2);

        if (lane == 0)
            store_wait_read<1>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *d = &c[16 * j + 4 * i];
            uint32_t chunk = (uint32_t)(2 * i + lane % 4 / 2), r = (uint32_t)(lane / 4);

            *(float2 *)(half + panel_chunk(r, chunk) + lane % 2 * 8) =
                make_float2(d[0], d[1]);
            *(float2 *)(half + panel_chunk(r + 8, chunk) + lane % 2 * 8) =
                make_float2(d[2], d[3]);
        }
        async_fence();
        __syncwarp();
        if (lane == 0) {
            if (p.write)
                store_box(&p.c, half, t.column + 32 * j, row, t.e, 0);
            else
                add_box(&p.c, half, t.column + 32 * j, row, t.e, 0);
            store_commit();
        }
    }
}

template <class P>
__device__ void consume(const struct products &p, char *memory, struct shared<P> &s,
                        int group)
{
    const int warp = threadIdx.x % CONSUMERS / 32;
    char *out = memory + P::out_at + warp * P::out_bytes;
    struct walk<P> tiles;
    ring<P::stages> at;
    struct tile t;

    while (tiles.next(p, s.first, t)) {
        int end = depth<P>(p, s.first, t);
        int row = t.row + 64 * group + warp % 4 * 16;
        float c[P::N / 2];

#pragma unroll
        for (int i = 0; i < P::N / 2; i++)
            c[i] = 0; /* an expert may have no rows */
        sum_up<P>(memory, s, group, end, at, c);
        if (P::kind == WEIGHT)
            write_weights<P>(p, t, row, c, out);
        else
            write_rows<P>(p, t, s.first[t.e + 1], row, c, out);
    }
    if (threadIdx.x % 32 == 0)
        store_wait<0>();
}

template <class P>
__global__ void __launch_bounds__(THREADS, 1)
    products_kernel(const __grid_constant__ struct products p)
{
    extern __shared__ char dynamic[];
    __shared__ struct shared<P> s;
    char *memory = dynamic + (-shared_address(dynamic) & 1023);
    int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);

    for (int e = threadIdx.x; e <= p.E; e += THREADS)
        s.first[e] = p.first[e];
    if (threadIdx.x == 0) {
        prefetch_map(&p.a);
        prefetch_map(&p.b);
        for (int i = 0; i < P::stages; i++) {
            barrier_init(&s.full[i], 1);
            barrier_init(&s.empty[i], WARPS);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (group == 2) {
        give_registers<24>();
        if (threadIdx.x == CONSUMERS)
            produce<P>(p, memory, s);
    } else {
        take_registers<240>();
        consume<P>(p, memory, s, group);
    }
}

/* ---- on the host ---- */

template <class P> int run(cudaStream_t stream, const struct products &p)
{
    const int bytes = P::bytes + 1024;
    int err = mdsk_cuda_rc(cudaFuncSetAttribute(
        products_kernel<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));

    if (err)
        return err;
    products_kernel<P><<<mdsk_cuda_processors(), THREADS, bytes, stream>>>(p);
    return mdsk_cuda_rc(cudaGetLastError());
}

template <int KIND, int N>
int run_type(cudaStream_t stream, enum mdsk_dtype dtype, const struct products &p)
{
    return dtype == MDSK_BF16 ? run<plan<__nv_bfloat16, KIND, N>>(stream, p)
                              : run<plan<__half, KIND, N>>(stream, p);
}

/* Whether narrow tiles waste less of the last round of blocks than they cost. */
bool is_narrow(int64_t rows, int64_t E, int64_t n)
{
    const int64_t blocks = mdsk_cuda_processors(), down = rows / M + E / 2;
    int64_t wide = down * ((n + 255) / 256), narrow = down * ((n + 127) / 128);

    return (wide + blocks - 1) / blocks * 100 > (narrow + blocks - 1) / blocks * 54;
}

/* of x, y, dx, dy, w and dw */
template <class A>
bool is_supported(const A *a, const void *x, const void *y, const void *w)
{
    uintptr_t all = (uintptr_t)x | (uintptr_t)y | (uintptr_t)w;

    return mdsk_cuda_capability() == 90 && a->dtype != MDSK_F32 && a->in % 8 == 0 &&
           a->out % 8 == 0 && a->step % 8 == 0 && a->step < INT64_C(1) << 37 &&
           all % 16 == 0 && a->rows > 0 && a->rows < INT32_MAX - 1024 &&
           a->in < 1 << 30 && a->out < 1 << 30;
}

/* x [rows, width], read in boxes of `tall` rows and 64 elements. */
int map_rows(CUtensorMap *map, enum mdsk_dtype dtype, const void *x, int64_t rows,
             int64_t width, int tall)
{
    const int64_t dim[4] = {width, rows, 1, 1}, stride[3] = {width, 0, 0};
    const int box[4] = {PANEL, tall, 1, 1};

    return mdsk_tensor_map(map, dtype, (void *)x, dim, stride, box, 1);
}

/* Of all experts, in boxes of `tall` rows of 128 bytes. */
template <class A>
int map_weights(CUtensorMap *map, const A *a, enum mdsk_dtype dtype, const void *w,
                int tall)
{
    const int64_t dim[4] = {a->in, a->out, a->E, 1}, stride[3] = {a->in, a->step, 0};
    const int box[4] = {dtype == MDSK_F32 ? 32 : PANEL, tall, 1, 1};

    return mdsk_tensor_map(map, dtype, (void *)w, dim, stride, box, 1);
}

template <class A> struct products products_of(const A *a, int64_t n)
{
    struct products p = {};

    p.first = a->first;
    p.E = (int)a->E;
    p.n = (int)n;
    return p;
}

} // namespace

extern "C" int mdsk_hopper_experts_fwd(cudaStream_t stream,
                                       const struct mdsk_experts_fwd *a)
{
    bool narrow = is_narrow(a->rows, a->E, a->out);
    struct products p = products_of(a, a->out);
    int err;

    if (!is_supported(a, a->x, a->y, a->w))
        return -ENOTSUP;
    p.k = (int)a->in;
    p.y = a->y;
    err = map_rows(&p.a, a->dtype, a->x, a->rows, a->in, M);
    if (!err)
        err = map_weights(&p.b, a, a->dtype, a->w, narrow ? 128 : 256);
    if (err)
        return err;
    return narrow ? run_type<FORWARD, 128>(stream, a->dtype, p)
                  : run_type<FORWARD, 256>(stream, a->dtype, p);
}

extern "C" int mdsk_hopper_experts_bwd_input(cudaStream_t stream,
                                             const struct mdsk_experts_bwd_input *a)
{
    struct products p = products_of(a, a->in);
    int err;

    if (!is_supported(a, a->dy, a->dx, a->w))
        return -ENOTSUP;
    p.k = (int)a->out;
    p.y = a->dx;
    err = map_rows(&p.a, a->dtype, a->dy, a->rows, a->out, M);
    if (!err)
        err = map_weights(&p.b, a, a->dtype, a->w, K);
    if (err)
        return err;
    return is_narrow(a->rows, a->E, a->in) ? run_type<INPUT, 128>(stream, a->dtype, p)
                                           : run_type<INPUT, 256>(stream, a->dtype, p);
}

extern "C" int mdsk_hopper_experts_bwd_weight(cudaStream_t stream,
                                              const struct mdsk_experts_bwd_weight *a)
{
    struct products p = products_of(a, a->in);
    int err;

    if (!is_supported(a, a->dy, a->x, a->dw))
        return -ENOTSUP;
    p.m = (int)a->out;
    p.write = a->write;
    err = map_rows(&p.a, a->dtype, a->dy, a->rows, a->out, K);
    if (!err)
        err = map_rows(&p.b, a->dtype, a->x, a->rows, a->in, K);
    if (!err)
        err = map_weights(&p.c, a, MDSK_F32, a->dw, 16);
    return err ? err : run_type<WEIGHT, 256>(stream, a->dtype, p);
}
