/* SPDX-License-Identifier: BSD-3-Clause */
/* Flash attention, forward, for Hopper.
 *
 * A block takes tiles of `rows` queries of a head, one after the other, longest first.
 * One warp group, the producer, only starts copies: Q of a tile, then tiles of keys
 * and of values into rings of stages, from the last keys to the first.  The others,
 * consumers, have 64 queries each:
 *
 *   S = Q K'             wgmma, operands in shared memory
 *   P = exp(S - top)     in registers, as they are
 *   O += P V             wgmma, P from registers
 *
 * S of the next keys is started before the values of these, so the tensor cores have
 * work during the softmax; and consumers take turns at starting products, so that the
 * softmax of one falls into the products of another.
 *
 * top is a row's largest score, but follows it only if it rises by so much that P would
 * exceed 2^8 (P has an exponent, and sums are f32): mostly O is not rescaled.
 *
 * ALiBi, if there is any, is one multiply-add per score: slope times the column within
 * the tile.  The distance from a row to the tile goes into top.
 *
 * Dropout zeroes elements of P after they have been added up (dropout.cuh).
 *
 * If there are too few tiles of queries for the GPU, keys are split into parts.  Each
 * part of a tile's keys is a tile of its own, whose o goes to memory in f32.  They
 * are merged afterwards (attention_merge.cu). */
#ifndef MDSK_HOPPER_FORWARD_CUH
#define MDSK_HOPPER_FORWARD_CUH

#include "kernels/cuda/hopper/dropout.cuh"
#include "kernels/cuda/hopper/forward_copies.cuh"

namespace mdsk::hopper
{

/* ---- consumers ---- */

/* The first of the two queries that a thread has of a group's 64; the other is 8 on. */
__device__ inline int forward_row(const struct forward_tile &t, int group)
{
    int thread = threadIdx.x % 128;

    return t.first + 64 * group + thread / 32 * 16 + thread % 32 / 4;
}

/* Scores of tile n of the keys after or before those that a query sees become -inf. */
template <class P>
__device__ inline void mask_end(const struct forward_args &a, int row, int n,
                                float (&s)[P::keys / 2])
{
    int column = n * P::keys + 2 * (int)(threadIdx.x % 4);

#pragma unroll
    for (int half = 0; half < 2; half++) {
        int end = forward_end_key(a, row + 8 * half) - column;

#pragma unroll
        for (int i = 0; i < P::keys / 4; i++)
            if (i / 2 * 8 + i % 2 >= end)
                s[i / 2 * 4 + i % 2 + 2 * half] = -INFINITY;
    }
}

template <class P>
__device__ inline void mask_first(const struct forward_args &a, int sequence, int row,
                                  int n, float (&s)[P::keys / 2])
{
    int column = n * P::keys + 2 * (int)(threadIdx.x % 4);

#pragma unroll
    for (int half = 0; half < 2; half++) {
        int query = min(row + 8 * half, a.Sq - 1);
        int first = forward_first_key(a, sequence, query) - column;

#pragma unroll
        for (int i = 0; i < P::keys / 4; i++)
            if (i / 2 * 8 + i % 2 < first)
                s[i / 2 * 4 + i % 2 + 2 * half] = -INFINITY;
    }
}

/* The tiles [first, end) of keys that 64 queries from `row` on see all keys of. */
struct whole_keys {
    int first, end;
};

template <class P>
__device__ inline struct whole_keys whole_tiles(const struct forward_args &a,
                                                const struct forward_tile &t, int row)
{
    int key = forward_first_key(a, t.sequence, min(row + 63, a.Sq - 1));

    return {(key + P::keys - 1) / P::keys, forward_end_key(a, row) / P::keys};
}

template <class P>
__device__ inline void mask(const struct forward_args &a, const struct forward_tile &t,
                            int group, const struct whole_keys &whole, int n,
                            float (&s)[P::keys / 2])
{
    if (n >= whole.end)
        mask_end<P>(a, forward_row(t, group), n, s);
    if (n < whole.first)
        mask_first<P>(a, t.sequence, forward_row(t, group), n, s);
}

/* Add ALiBi to scores of tile n, in units of raw scores, but for shift, the part that
 * is the same in all of a row. */
template <class P>
__device__ inline void add_distances(const struct forward_args &a, float slope, int row,
                                     int n, float (&s)[P::keys / 2], float (&shift)[2])
{
    int64_t column = a.first_key + n * P::keys + 2 * (int)(threadIdx.x % 4);

    if constexpr (P::alibi) {
        shift[0] = slope * (float)(column - a.first_query - row);
        shift[1] = slope * (float)(column - a.first_query - row - 8);
#pragma unroll
        for (int i = 0; i < P::keys / 2; i++)
            s[i] = fmaf(slope, (float)(i / 4 * 8 + i % 2), s[i]);
    }
}

/* Of the thread's two rows: top as said above, in units of raw scores, and its part of
 * the sum of P. */
struct softmax_rows {
    float top[2], total[2];
};

/* s = exp(scale (s + shift - top)).  Whether top has changed: then earlier sums are to
 * be multiplied by factor. */
template <bool ALIBI, int N>
__device__ inline bool softmax(const struct forward_args &a, float (&s)[N],
                               const float (&shift)[2], struct softmax_rows &r,
                               float (&factor)[2])
{
    float most[2] = {s[0], s[2]}, base[2];
    bool rises = false;

#pragma unroll
    for (int i = 0; i < N; i++)
        most[i / 2 % 2] = fmaxf(most[i / 2 % 2], s[i]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (ALIBI)
            most[h] += shift[h];
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 1));
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 2));
        rises |= most[h] > r.top[h] + a.tolerance;
    }
    rises = __any_sync(~0u, rises);
    if (rises) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float top = fmaxf(r.top[h], most[h]);

            factor[h] =
                exp2_fast((r.top[h] - (top == -INFINITY ? 0 : top)) * a.scale_log2);
            r.total[h] *= factor[h];
            r.top[h] = top;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++)
        base[h] = r.top[h] == -INFINITY
                      ? 0
                      : (ALIBI ? r.top[h] - shift[h] : r.top[h]) * a.scale_log2;
#pragma unroll
    for (int i = 0; i < N; i++) {
        s[i] = exp2_fast(fmaf(s[i], a.scale_log2, -base[i / 2 % 2]));
        r.total[i / 2 % 2] += s[i];
    }
    return rises;
}

/* Dropout's bits of a thread's scores of tile n, or nothing. */
template <class P> struct kept_scores {
    uint32_t bits[(P::keys / 2 + 31) / 32];

    __device__ void find(const struct forward_args &a, const struct forward_tile &t,
                         int row, int n)
    {
        if constexpr (P::dropout)
            kept_of_rows<P::keys / 2>(a.dropout, t.sequence, t.head, row, n * P::keys,
                                      bits);
    }

    __device__ void apply(float (&s)[P::keys / 2]) const
    {
        if constexpr (P::dropout) {
#pragma unroll
            for (int i = 0; i < P::keys / 2; i++)
                s[i] = keep_or_zero(bits, i, s[i]);
        }
    }
};

template <class T, int N>
__device__ inline void pack_rows(const float (&s)[N], uint32_t (&p)[N / 2])
{
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        p[i] = pack<T>(s[2 * i], s[2 * i + 1]);
}

/* s = Q K'; a commit. */
template <class P>
__device__ inline void start_scores(const char *q, const char *k,
                                    float (&s)[P::keys / 2])
{
    uint64_t a = by_k(q), b = by_k(k);

    wgmma_fence();
#pragma unroll
    for (int i = 0; i < P::width / 16; i++)
        wgmma<typename P::T, P::keys, 0, 0>(
            s, a + (i / 4 * P::q_panel + i % 4 * 32) / 16,
            b + (i / 4 * P::k_panel + i % 4 * 32) / 16, i > 0);
    wgmma_commit();
}

/* o += P V; a commit. */
template <class P>
__device__ inline void start_values(const uint32_t (&p)[P::keys / 4], const char *v,
                                    float (&o)[P::width / 2])
{
    uint64_t b = by_mn(v, P::k_panel);

    hold(o);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < P::keys / 16; i++)
        wgmma<typename P::T, P::width, 1>(o, &p[4 * i], b + i * 128, 1);
    wgmma_commit();
}

/* All of the sum of row h of a thread's two; returns what o is to be multiplied by. */
template <class P>
__device__ inline float end_row(const struct forward_args &a, struct softmax_rows &r,
                                int h)
{
    r.total[h] += __shfl_xor_sync(~0u, r.total[h], 1);
    r.total[h] += __shfl_xor_sync(~0u, r.total[h], 2);
    return r.total[h] > 0 ? (P::dropout ? a.dropout.scale : 1) / r.total[h] : 0;
}

__device__ inline float lse_of(const struct forward_args &a,
                               const struct softmax_rows &r, int h)
{
    return r.top[h] * a.scale + logf(r.total[h]);
}

/* o / total to memory by way of shared memory, and lse. */
template <class P>
__device__ inline void
finish(const struct forward_args &a, const struct forward_tile &t, int group,
       float (&o)[P::width / 2], struct softmax_rows &r, char *tile)
{
    const int thread = threadIdx.x % 128, lane = thread % 32;
    uint32_t at = (uint32_t)(64 * group + thread / 32 * 16 + lane % 16);
    float inverse[2];
    int row = forward_row(t, group);

#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = row + 8 * h;

        inverse[h] = end_row<P>(a, r, h);
        if (lane % 4 == 0 && i < a.Sq)
            a.lse[((int64_t)t.sequence * a.A + t.head) * a.lse_stride + i] =
                lse_of(a, r, h);
    }
    if (thread == 0)
        store_wait_read<0>();
    named_sync(4 + group, 128);
#pragma unroll
    for (int i = 0; i < P::width / 16; i++) {
        uint32_t x[4];

#pragma unroll
        for (int c = 0; c < 4; c++)
            x[c] = pack<typename P::T>(o[8 * i + 2 * c] * inverse[c % 2],
                                       o[8 * i + 2 * c + 1] * inverse[c % 2]);
        store_matrices(shared_address(tile) + i / 4 * P::q_panel +
                           panel_chunk(at, (uint32_t)(2 * i % 8 + lane / 16)),
                       x[0], x[1], x[2], x[3]);
    }
    async_fence();
    named_sync(4 + group, 128);
    if (thread == 0 && t.first + 64 * group < a.Sq) {
#pragma unroll
        for (int p = 0; p < P::panels; p++)
            store_box(&a.o, tile + p * P::q_panel + 64 * group * PANEL_ROW, p * PANEL,
                      t.first + 64 * group, t.head, t.sequence);
        store_commit();
    }
}

/* o / total and lse of a part of the keys. */
template <class P>
__device__ inline void
finish_part(const struct forward_args &a, const struct forward_tile &t, int part,
            int group, const float (&o)[P::width / 2], struct softmax_rows &r)
{
    const int lane = threadIdx.x % 32;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = forward_row(t, group) + 8 * h;
        const float inverse = end_row<P>(a, r, h);
        int64_t at = (((int64_t)part * a.B + t.sequence) * a.A + t.head) * a.Sq + row;
        float *to = a.part_o + at * a.D + 2 * (lane % 4);

        if (row >= a.Sq)
            continue;
        if (lane % 4 == 0)
            a.part_lse[at] = lse_of(a, r, h);
#pragma unroll
        for (int i = 0; i < P::width / 8; i++)
            if (8 * i < a.D && t.key_tile < t.key_tile_end)
                *(float2 *)(to + 8 * i) = make_float2(o[4 * i + 2 * h] * inverse,
                                                      o[4 * i + 2 * h + 1] * inverse);
    }
}

/* o and r of 64 queries, over all keys of a
 * tile; there are some. */
template <class P>
__device__ inline void attend(const struct forward_args &a, char *tiles,
                              struct forward_shared<P> &s, const struct forward_tile &t,
                              int group, struct forward_rings<P> &at,
                              float (&o)[P::width / 2], struct softmax_rows &r)
{
    const auto whole = whole_tiles<P>(a, t, t.first + 64 * group);
    const char *q = tiles + 64 * group * PANEL_ROW;
    const float slope =
        P::alibi ? mdsk_alibi_slope(a.alibi_heads, a.first_head + t.head) / a.scale : 0;
    const int row = forward_row(t, group);
    float scores[P::keys / 2], factor[2], shift[2];
    uint32_t p[P::keys / 4];
    struct kept_scores<P> kept;
    int n = t.key_tile_end - 1;

    barrier_wait(&s.k_full[at.k.stage], at.k.round);
    start_scores<P>(q, tiles + P::k_at + at.k.stage * P::k_bytes, scores);
    kept.find(a, t, row, n);
    wgmma_wait<0>();
    hold(scores);
    barrier_arrive(&s.k_empty[at.k.stage]);
    at.k.next();
    add_distances<P>(a, slope, row, n, scores, shift);
    mask<P>(a, t, group, whole, n, scores);
    softmax<P::alibi>(a, scores, shift, r, factor);
    kept.apply(scores);
    pack_rows<typename P::T>(scores, p);
    for (n--; n >= t.key_tile; n--) {
        bool rises;

        barrier_wait(&s.k_full[at.k.stage], at.k.round);
        named_sync(1 + group, 256);
        start_scores<P>(q, tiles + P::k_at + at.k.stage * P::k_bytes, scores);
        barrier_wait(&s.v_full[at.v.stage], at.v.round);
        start_values<P>(p, tiles + P::v_at + at.v.stage * P::k_bytes, o);
        named_arrive(1 + (group + 1) % P::groups, 256);
        kept.find(a, t, row, n);
        wgmma_wait<1>();
        hold(scores);
        barrier_arrive(&s.k_empty[at.k.stage]);
        at.k.next();
        add_distances<P>(a, slope, row, n, scores, shift);
        mask<P>(a, t, group, whole, n, scores);
        rises = softmax<P::alibi>(a, scores, shift, r, factor);
        kept.apply(scores);
        wgmma_wait<0>();
        hold(o);
        hold(p);
        barrier_arrive(&s.v_empty[at.v.stage]);
        at.v.next();
        if (rises) {
#pragma unroll
            for (int i = 0; i < P::width / 2; i++)
                o[i] *= factor[i / 2 % 2];
        }
        pack_rows<typename P::T>(scores, p);
    }
    if (P::o_at > 0)
        barrier_arrive(&s.q_empty);
    barrier_wait(&s.v_full[at.v.stage], at.v.round);
    start_values<P>(p, tiles + P::v_at + at.v.stage * P::k_bytes, o);
    wgmma_wait<0>();
    hold(o);
    barrier_arrive(&s.v_empty[at.v.stage]);
    at.v.next();
}

template <class P>
__device__ inline void consume(const struct forward_args &a, char *tiles,
                               struct forward_shared<P> &s, int group)
{
    const int thread = threadIdx.x % 128;
    struct forward_rings<P> at;

    if (group == P::groups - 1)
        named_arrive(1, 256); /* the first turn is group 0's */
    for (uint32_t round = 0;; round ^= 1) {
        struct softmax_rows r = {{-INFINITY, -INFINITY}, {0, 0}};
        struct forward_tile t;
        float o[P::width / 2];
        int part;

        barrier_wait(&s.q_full, round);
        t = s.tile;
        part = P::split ? s.part : 0;
        if (t.sequence < 0)
            break;
#pragma unroll
        for (int i = 0; i < P::width / 2; i++)
            o[i] = 0;
        if (t.key_tile < t.key_tile_end)
            attend<P>(a, tiles, s, t, group, at, o, r);
        if constexpr (P::split)
            finish_part<P>(a, t, part, group, o, r);
        else
            finish<P>(a, t, group, o, r, tiles + P::o_at);
        if (P::o_at == 0 || t.key_tile >= t.key_tile_end) {
            if (thread == 0)
                store_wait_read<0>();
            barrier_arrive(&s.q_empty);
        }
    }
    if (thread == 0)
        store_wait_read<0>();
}

template <class P>
__global__ void __launch_bounds__(P::threads, 1)
    forward_kernel(const __grid_constant__ struct forward_args a)
{
    extern __shared__ char dynamic[];
    __shared__ struct forward_shared<P> s;
    char *tiles = dynamic + (-shared_address(dynamic) & 1023);
    int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);

    if (threadIdx.x == 0) {
        prefetch_map(&a.q);
        prefetch_map(&a.k);
        prefetch_map(&a.v);
        prefetch_map(&a.o);
        barrier_init(&s.q_full, 1);
        barrier_init(&s.q_empty, P::consumers);
        for (int i = 0; i < P::stages; i++) {
            barrier_init(&s.k_full[i], 1);
            barrier_init(&s.v_full[i], 1);
            barrier_init(&s.k_empty[i], P::consumers);
            barrier_init(&s.v_empty[i], P::consumers);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (group == 0) {
        give_registers<P::producer_registers>();
        if (threadIdx.x == 0)
            produce<P>(a, tiles, s);
    } else {
        take_registers<P::consumer_registers>();
        consume<P>(a, tiles, s, group - 1);
    }
}

/* Launch with all of a set but its maps, tiles and q_tiles. */
template <class P>
int forward_launch(cudaStream_t stream, struct forward_args *a,
                   const struct mdsk_attention_fwd *f)
{
    const struct mdsk_attention_shape *h = &f->shape;
    const int bytes = P::tile_bytes + 1024;
    int64_t tiles, most = mdsk_cuda_processors();
    int err =
        mdsk_tensor_map_heads(&a->q, &f->q, h->B, h->A, h->Sq, h->D, h->dtype, P::rows);

    if (!err)
        err = mdsk_tensor_map_heads(&a->k, &f->k, h->B, h->G, h->Sk, h->D, h->dtype,
                                    P::keys);
    if (!err)
        err = mdsk_tensor_map_heads(&a->v, &f->v, h->B, h->G, h->Sk, h->D, h->dtype,
                                    P::keys);
    if (!err)
        err =
            mdsk_tensor_map_heads(&a->o, &f->o, h->B, h->A, h->Sq, h->D, h->dtype, 64);
    if (err)
        return err;
    a->q_tiles = (int)((h->Sq + P::rows - 1) / P::rows);
    tiles = h->B * h->A * a->q_tiles;
    if (tiles * a->parts > INT32_MAX)
        return -ENOTSUP;
    a->tiles = (unsigned)tiles;
    tiles *= a->parts;
    err = mdsk_cuda_rc(cudaFuncSetAttribute(
        forward_kernel<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    if (err)
        return err;
    forward_kernel<P>
        <<<(unsigned)(tiles < most ? tiles : most), P::threads, bytes, stream>>>(*a);
    return mdsk_cuda_rc(cudaGetLastError());
}

} // namespace mdsk::hopper

#endif
