/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention for Hopper, backward: one pass over the keys.
 *
 * A thread block has a tile of keys of one key/value head, for which it sums dk
 * and dv in registers over all tiles of queries that see any of them, and over
 * the query heads of the group.  What the tile adds to dq is added to f32 sums
 * in memory.
 *
 *   s^T = k q^T     p^T = exp2(scale log2(e) s^T - log2(e) lse)   dv += p^T d_o
 *   dp^T = v d_o^T  ds^T = p^T (dp^T - delta)     dk += ds^T q    dq += ds k
 *
 * ALiBi is part of the exponent: slope log2(e) times the number of a query in its tile
 * is in its row's lse, and the tile's distance from a key is subtracted from that.
 *
 * With dropout, a pair's factor f (0 or 1 / (1 - p)) makes it dv += (f p)^T d_o and
 * ds = p (f dp - delta); its bits are asked for while the next scores are computed.
 *
 * Scores are computed transposed, so p^T and ds^T are, as they lie in
 * registers, operands of the products for dv and dk; ds^T also goes to shared
 * memory, for dq.
 *
 * Two warp groups have 64 keys each.  A third one starts the copies.  A group's
 * products for dq need ds of both, so they are done one tile later, when the
 * other surely has got there: the groups need not run in step, and the products
 * of one fill the gaps that the other's exponentials leave. */
#ifndef MDSK_HOPPER_BACKWARD_CUH
#define MDSK_HOPPER_BACKWARD_CUH

#include "kernels/cuda/hopper/backward_copies.cuh"
#include "kernels/cuda/hopper/dropout.cuh"

namespace mdsk::hopper
{

/* ---- the warp groups that sum dk and dv ---- */

/* s = p where the pair is seen, else 0; column c of the thread's pairs. */
template <int M>
__device__ void mask(const backward_args &w, const float *rows, int query, int key,
                     float (&p)[M / 2])
{
    int lane = threadIdx.x % 32, last = w.Sk - 1;

#pragma unroll
    for (int j = 0; j < M / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int i = 8 * j + 2 * (lane % 4) + e;
            int first = __float_as_int(rows[2 * M + i]);
            int end = min(query + i + w.q_offset, last);

            if (key < first || key > end)
                p[4 * j + e] = 0;
            if (key + 8 < first || key + 8 > end)
                p[4 * j + 2 + e] = 0;
        }
}

/* Store a tile of sums [64, D] of a warp group. */
template <class T, int D>
__device__ void store_sums(float (&sum)[D / 2], float factor, uint8_t *shared,
                           const CUtensorMap *map, int barrier, const place &at,
                           int key)
{
    int thread = threadIdx.x % GROUP, row = thread / 32 * 16 + thread % 16;

    named_sync(barrier, GROUP); /* all products have read what was there */
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t x[4];
        uint8_t *panel = shared + i / 4 * 64 * PANEL_ROW;

#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] = hopper::pack<T>(sum[8 * i + 2 * e] * factor,
                                   sum[8 * i + 2 * e + 1] * factor);
        store_matrices(shared_address(panel) +
                           panel_chunk(row, i % 4 * 2 + thread % 32 / 16),
                       x[0], x[1], x[2], x[3]);
    }
    async_fence();
    named_sync(barrier, GROUP);
    if (thread == 0) {
        for (int p = 0; p < bwd_tile<D>::panels; p++)
            store_box(map, shared + p * 64 * PANEL_ROW, PANEL * p, key, at.g, at.b);
        store_commit();
    }
}

/* No query sees the tile. */
template <int D>
__device__ void store_zeros(const backward_args &w, const place &at, bwd_shared<D> &sh)
{
    uint4 *zero = (uint4 *)sh.k[0];

    for (int i = threadIdx.x; i < 64 * PANEL_ROW / 16; i += THREADS)
        zero[i] = make_uint4(0, 0, 0, 0);
    async_fence();
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int p = 0; p < bwd_tile<D>::panels; p++)
        for (int key = at.key; key < at.key + bwd_tile<D>::keys; key += 64) {
            store_box(&w.dk, zero, PANEL * p, key, at.g, at.b);
            store_box(&w.dv, zero, PANEL * p, key, at.g, at.b);
        }
    store_commit();
    store_wait_read<0>();
}

/* x [64, M] = a b^T, for rows of D elements, in panels of 64; started only.  The first
 * 16 KEPT elements of a are in registers. */
template <class T, int D, int M, int KEPT>
__device__ void start_scores(float (&x)[M / 2], const uint32_t (&kept)[4 * KEPT + 1],
                             uint64_t a, uint32_t a_panel, uint64_t b)
{
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < D / 16; n++) {
        const uint64_t from_a = a + n / 4 * (a_panel / 16) + n % 4 * 2;
        const uint64_t from_b = b + n / 4 * (M * PANEL_ROW / 16) + n % 4 * 2;

        if (n < KEPT)
            wgmma<T, M, 0>(x, kept + 4 * n, from_b, n > 0);
        else
            wgmma<T, M, 0, 0>(x, from_a, from_b, n > 0);
    }
    wgmma_commit();
}

/* The first 16 KEPT elements of 16 rows for each warp, from row `row` of panels on. */
template <int KEPT>
__device__ void keep(uint32_t (&kept)[4 * KEPT + 1], const uint8_t *panels,
                     uint32_t panel, int row)
{
    const uint32_t lane = threadIdx.x % 32;

#pragma unroll
    for (int n = 0; n < KEPT; n++)
        load_matrices(shared_address(panels) + n / 4 * panel +
                          panel_chunk(row + lane % 16, n % 4 * 2 + lane / 16),
                      kept + 4 * n);
}

/* dv += p d_o and dk += ds q; or =, for the first tile. */
template <class T, int D>
__device__ void start_sums(float (&dv)[D / 2], float (&dk)[D / 2],
                           const uint32_t (&p)[bwd_tile<D>::queries / 4],
                           const uint32_t (&ds)[bwd_tile<D>::queries / 4],
                           const typename bwd_shared<D>::stage &from, int add)
{
    constexpr int M = bwd_tile<D>::queries;
    const uint64_t d_o = by_mn(from.d_o[0], bwd_shared<D>::query_panel);
    const uint64_t q = by_mn(from.q[0], bwd_shared<D>::query_panel);

    wgmma_fence();
#pragma unroll
    for (int n = 0; n < M / 16; n++)
        wgmma<T, D, 1>(dv, p + 4 * n, d_o + 128 * n, add + n > 0);
#pragma unroll
    for (int n = 0; n < M / 16; n++)
        wgmma<T, D, 1>(dk, ds + 4 * n, q + 128 * n, add + n > 0);
    wgmma_commit();
}

/* dq [64, 64] = ds k; k and ds at the panels that this warp group has of it. */
template <class T, int D>
__device__ void start_dq(float (&dq)[32], const uint8_t *ds, uint64_t k)
{
    const uint64_t a = by_mn(ds, 0);

    wgmma_fence();
#pragma unroll
    for (int n = 0; n < bwd_tile<D>::keys / 16; n++)
        wgmma<T, 64, 1, 1>(dq, a + 128 * n, k + 128 * n, n > 0);
    wgmma_commit();
}

/* ALiBi of head h in units of exp2; 0 without. */
__device__ inline float log2_slope(const backward_args &w, int h)
{
    return mdsk_attention_slope(&w.shape, h) * 1.44269504f;
}

/* The part of ALiBi that rows lack, of the thread's keys `key` and key + 8: distances
 * from the first query of a tile. */
template <bool ALIBI>
__device__ inline float2 distances(const backward_args &w, int h, int query, int key)
{
    if constexpr (ALIBI) {
        const float slope = log2_slope(w, h);
        const float near = mdsk_attention_distance(&w.shape, query, key);

        return make_float2(slope * near, slope * (near + 8));
    }
    return make_float2(0, 0);
}

/* s = p: rows has log2(e) lse, and of ALiBi what is not in shift. */
template <bool ALIBI, int M>
__device__ void exponentials(float (&s)[M / 2], float factor, float2 shift,
                             const float *rows)
{
#pragma unroll
    for (int j = 0; j < M / 8; j++) {
        float2 lse = *(const float2 *)(rows + 8 * j + 2 * (threadIdx.x % 4));

        float2 next = lse; /* of the key 8 on */

        if (ALIBI) {
            next = make_float2(lse.x - shift.y, lse.y - shift.y);
            lse = make_float2(lse.x - shift.x, lse.y - shift.x);
        }
        s[4 * j] = exp2_fast(s[4 * j] * factor - lse.x);
        s[4 * j + 1] = exp2_fast(s[4 * j + 1] * factor - lse.y);
        s[4 * j + 2] = exp2_fast(s[4 * j + 2] * factor - next.x);
        s[4 * j + 3] = exp2_fast(s[4 * j + 3] * factor - next.y);
    }
}

/* Dropout's bits of the pairs that a thread has of a tile of M queries and 64 keys of
 * its warp group, or nothing. */
template <bool DROPOUT, int M> struct kept_pairs {
    uint32_t bits[M / 64];

    __device__ void find(const backward_args &w, int b, int head, int query, int key)
    {
        if constexpr (DROPOUT)
            kept_of_columns<M / 2>(w.dropout, b, head, query, key, bits);
    }

    /* p and dp of what is dropped become 0, and other dp's are scaled; p is scaled with
     * the sums that it is in. */
    __device__ void apply(const backward_args &w, float (&dp)[M / 2]) const
    {
        if constexpr (DROPOUT) {
#pragma unroll
            for (int i = 0; i < M / 2; i++)
                dp[i] = keep_or_zero(bits, i, dp[i]) * w.dropout.scale;
        }
    }

    /* p of what is dropped becomes negative. */
    __device__ void mark(float (&p)[M / 2]) const
    {
        if constexpr (DROPOUT) {
#pragma unroll
            for (int i = 0; i < M / 2; i++)
                p[i] = bits[i / 32] >> i % 32 & 1 ? p[i] : -p[i];
        }
    }

    __device__ float left_of(int i, float p) const
    {
        if constexpr (DROPOUT)
            return keep_or_zero(bits, i, p);
        return p;
    }
};

/* p and ds = p (dp - delta) in 16 bits. */
template <class T, int M, bool DROPOUT>
__device__ void round_scores(const float (&p)[M / 2], float (&dp)[M / 2],
                             const float *delta, const kept_pairs<DROPOUT, M> &kept,
                             uint32_t (&p16)[M / 4], uint32_t (&ds16)[M / 4])
{
#pragma unroll
    for (int j = 0; j < M / 8; j++) {
        float2 d = *(const float2 *)(delta + 8 * j + 2 * (threadIdx.x % 4));

        dp[4 * j] = p[4 * j] * (dp[4 * j] - d.x);
        dp[4 * j + 1] = p[4 * j + 1] * (dp[4 * j + 1] - d.y);
        dp[4 * j + 2] = p[4 * j + 2] * (dp[4 * j + 2] - d.x);
        dp[4 * j + 3] = p[4 * j + 3] * (dp[4 * j + 3] - d.y);
        p16[2 * j] = hopper::pack<T>(kept.left_of(4 * j, p[4 * j]),
                                     kept.left_of(4 * j + 1, p[4 * j + 1]));
        p16[2 * j + 1] = hopper::pack<T>(kept.left_of(4 * j + 2, p[4 * j + 2]),
                                         kept.left_of(4 * j + 3, p[4 * j + 3]));
        ds16[2 * j] = hopper::pack<T>(dp[4 * j], dp[4 * j + 1]);
        ds16[2 * j + 1] = hopper::pack<T>(dp[4 * j + 2], dp[4 * j + 3]);
    }
}

/* Give dq to the thread that adds it to memory. */
template <int D>
__device__ void hand_over(const float (&dq)[32], int half, int number,
                          bwd_shared<D> &sh)
{
    barrier_wait(&sh.dq_empty[half], number & 1 ^ 1);
#pragma unroll
    for (int c = 0; c < 8; c++)
        sh.dq[half][c * GROUP + threadIdx.x % GROUP] =
            make_float4(dq[4 * c], dq[4 * c + 1], dq[4 * c + 2], dq[4 * c + 3]);
    async_fence();
    barrier_arrive(&sh.dq_full[half][number & 1]);
}

template <class T, int D, bool ALIBI, bool DROPOUT>
__device__ void sum_group(const backward_args &w, const place &at, walk to, int length,
                          bwd_shared<D> &sh)
{
    using t = bwd_tile<D>;
    using shared = bwd_shared<D>;
    constexpr int M = t::queries, KEPT = DROPOUT ? t::kept_with_dropout : t::kept;
    const int half = __shfl_sync(~0u, threadIdx.x / GROUP, 0) - 1;
    const int lane = threadIdx.x % 32, row = 64 * half + threadIdx.x % GROUP / 32 * 16;
    const uint64_t k = by_k(sh.k[0] + 64 * half * PANEL_ROW);
    const uint64_t v = by_k(sh.v[0] + 64 * half * PANEL_ROW);
    /* of each pair of matrices of ds, where this thread's row begins */
    const uint32_t ds_row =
        shared_address(sh.ds[0][0]) + panel_chunk(row + lane % 16, lane / 16);
    /* dq of 64 queries and 64 elements: which of them, and of k */
    const uint64_t k_for_dq = by_mn(sh.k[t::panels > 1 ? half : 0], 0);
    const int ds_for_dq = t::panels > 1 ? 0 : half;
    float dk[D / 2], dv[D / 2], s[M / 2], dq[32];
    uint32_t kept[4 * KEPT + 1] = {0}, none[1] = {0};
    ring<t::stages> stage;
    kept_pairs<DROPOUT, M> left;
    ring<BUFFERS> buffer, old;

    barrier_wait(&sh.k_full, 0);
    keep<KEPT>(kept, sh.k[0], shared::key_panel, row);
    barrier_wait(&sh.v_full, 0);
    barrier_wait(&sh.q_full[0], 0);
    start_scores<T, D, M, KEPT>(s, kept, k, shared::key_panel, by_k(sh.stage[0].q[0]));
    left.find(w, at.b, at.g * w.group + to.head, to.tile * M, at.key + row);
    wgmma_wait<0>();
    hold(s);
    if (half == 1)
        named_arrive(TURN, 2 * GROUP); /* the first one begins */
    for (int i = 0; i < length; i++) {
        const float *rows = sh.rows[stage.stage][0];
        float dp[M / 2];
        uint32_t p16[M / 4], ds16[M / 4];

        barrier_wait(&sh.d_o_full[stage.stage], stage.round);
        start_scores<T, D, M, 0>(dp, none, v, shared::key_panel,
                                 by_k(sh.stage[stage.stage].d_o[0]));
        exponentials<ALIBI, M>(s, w.scale * 1.44269504f,
                               distances<ALIBI>(w, at.g * w.group + to.head,
                                                to.tile * M, at.key + row + lane / 4),
                               rows);
        if (to.is_masked())
            mask<M>(w, rows, to.tile * M, at.key + row + lane / 4, s);
        wgmma_wait<0>();
        hold(dp);
        left.apply(w, dp);
        round_scores<T, M, DROPOUT>(s, dp, rows + M, left, p16, ds16);
        barrier_wait(&sh.ds_empty[buffer.stage], buffer.round ^ 1);
#pragma unroll
        for (int j = 0; j < M / 16; j++)
            store_matrices(
                ((ds_row + buffer.stage * (uint32_t)sizeof sh.ds[0]) ^ j % 4 * 32) +
                    j / 4 * shared::key_panel,
                ds16[4 * j], ds16[4 * j + 1], ds16[4 * j + 2], ds16[4 * j + 3]);
        async_fence();
        barrier_arrive(&sh.ds_full[buffer.stage]);
        buffer.next();

        /* The groups take turns with their products, so that one has the tensor cores
         * while the other computes exponentials. */
        named_sync(TURN + half, 2 * GROUP);
        start_sums<T, D>(dv, dk, p16, ds16, sh.stage[stage.stage], i);
        if (i > 0) /* else products of no use, but without a branch */
            barrier_wait(&sh.ds_full[old.stage], old.round);
        start_dq<T, D>(dq, sh.ds[old.stage][ds_for_dq], k_for_dq);
        wgmma_wait<1>();
        hold(dk);
        hold(dv);
        hold(p16);
        hold(ds16);
        barrier_arrive(&sh.empty[stage.stage]);
        stage.next();
        if (i + 1 < length) /* likewise */
            barrier_wait(&sh.q_full[stage.stage], stage.round);
        start_scores<T, D, M, KEPT>(s, kept, k, shared::key_panel,
                                    by_k(sh.stage[stage.stage].q[0]));
        named_arrive(TURN + 1 - half, 2 * GROUP);
        wgmma_wait<1>();
        hold(dq);
        if (i > 0) {
            barrier_arrive(&sh.ds_empty[old.stage]);
            old.next();
            hand_over<D>(dq, half, i - 1, sh);
        }
        to.next();
        left.find(w, at.b, at.g * w.group + to.head, to.tile * M, at.key + row);
        wgmma_wait<0>();
        hold(s);
    }
    barrier_wait(&sh.ds_full[old.stage], old.round);
    start_dq<T, D>(dq, sh.ds[old.stage][ds_for_dq], k_for_dq);
    wgmma_wait<0>();
    hold(dq);
    hand_over<D>(dq, half, length - 1, sh);

    /* All tiles have been read: their memory takes the sums. */
    named_sync(SUMMING, 2 * GROUP);
    uint8_t *out = sh.stage[0].q[0] + half * 2 * t::panels * 64 * PANEL_ROW;

    store_sums<T, D>(dv, DROPOUT ? w.dropout.scale : 1, out, &w.dv, EACH + half, at,
                     at.key + 64 * half);
    out += t::panels * 64 * PANEL_ROW;
    store_sums<T, D>(dk, w.scale, out, &w.dk, EACH + half, at, at.key + 64 * half);
    if (threadIdx.x % GROUP == 0)
        store_wait_read<0>();
}

template <class T, int D, bool ALIBI, bool DROPOUT>
__global__ void __launch_bounds__(THREADS, 1)
    bwd_kernel(const __grid_constant__ backward_args w)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    bwd_shared<D> &sh = *(bwd_shared<D> *)memory;
    const place at = place_of(w, bwd_tile<D>::keys);

    if (threadIdx.x == 0) {
        barrier_init(&sh.k_full, 1);
        barrier_init(&sh.v_full, 1);
        for (int i = 0; i < bwd_tile<D>::stages; i++) {
            barrier_init(&sh.q_full[i], 1);
            barrier_init(&sh.d_o_full[i], 1);
            barrier_init(&sh.empty[i], 2 * GROUP);
        }
        for (int i = 0; i < BUFFERS; i++) {
            barrier_init(&sh.ds_full[i], 2 * GROUP);
            barrier_init(&sh.ds_empty[i], 2 * GROUP);
            barrier_init(&sh.dq_full[i][0], GROUP);
            barrier_init(&sh.dq_full[i][1], GROUP);
            barrier_init(&sh.dq_empty[i], 1);
        }
        barrier_init_fence();
    }
    const walk to = walk_of<D>(w, at, sh);

    const int length = w.group * to.count;

    if (length == 0) {
        store_zeros<D>(w, at, sh);
        return;
    }
    if (threadIdx.x < GROUP) {
        give_registers<FEW_REGISTERS>();
        copy_group<D>(w, at, to, length, sh);
    } else {
        take_registers<MANY_REGISTERS>();
        sum_group<T, D, ALIBI, DROPOUT>(w, at, to, length, sh);
    }
}

} // namespace mdsk::hopper

#endif
