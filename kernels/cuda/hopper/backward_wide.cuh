/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention for Hopper, backward, for heads of more than 128 elements: two passes.
 *
 * Registers do not hold dk and dv of more than 64 keys, and with so few keys a block
 * would add to dq in memory for every other product.  So there are two kernels, which
 * compute scores twice, seven products instead of five, but add to nothing: the same
 * call gives the same bits.
 *
 *   keys      a block has 64 keys and walks over queries.  One warp group sums dv,
 *             from s^T and p, another one dk, from dp^T and the p of the first.
 *   queries   a block has 128 queries, a warp group 64, and walks over keys: dq. */
#ifndef MDSK_HOPPER_BACKWARD_WIDE_CUH
#define MDSK_HOPPER_BACKWARD_WIDE_CUH

#include "kernels/cuda/hopper/backward.cuh"

namespace mdsk::hopper
{

enum { WIDE = 256, WIDE_PANELS = WIDE / PANEL, WIDE_PANEL = 64 * PANEL_ROW };

/* ---- dk and dv ---- */

template <> struct bwd_shared<WIDE> {
    alignas(1024) uint8_t k[WIDE_PANELS][WIDE_PANEL];
    uint8_t v[WIDE_PANELS][WIDE_PANEL];
    struct stage {
        uint8_t q[WIDE_PANELS][WIDE_PANEL];
        uint8_t d_o[WIDE_PANELS][WIDE_PANEL];
    } stage[2];
    float4 p[BUFFERS][8 * GROUP]; /* as the pairs lie in registers */
    float rows[2][3][64];
    uint64_t k_full, v_full, q_full[2], d_o_full[2], empty[2];
    uint64_t p_full[BUFFERS], p_empty[BUFFERS];
    int end[2];
};

/* x [64, 64] = a b^T, started only. */
template <class T, int KEPT>
__device__ void start_wide_scores(float (&x)[32], const uint32_t (&kept)[4 * KEPT + 1],
                                  const uint8_t *a, const uint8_t *b)
{
    start_scores<T, WIDE, 64, KEPT>(x, kept, by_k(a), WIDE_PANEL, by_k(b));
}

/* sum [64, 256] += a b, or = for the first; b [64, 256]. */
template <class T>
__device__ void start_wide_sum(float (&sum)[WIDE / 2], const uint32_t (&a)[16],
                               const uint8_t *b, int add)
{
    const uint64_t from = by_mn(b, WIDE_PANEL);

    wgmma_fence();
#pragma unroll
    for (int n = 0; n < 4; n++)
        wgmma<T, WIDE, 1>(sum, a + 4 * n, from + 128 * n, add + n > 0);
    wgmma_commit();
}

template <class T>
__device__ inline void pack_scores(const float (&x)[32], uint32_t (&out)[16])
{
#pragma unroll
    for (int i = 0; i < 16; i++)
        out[i] = hopper::pack<T>(x[2 * i], x[2 * i + 1]);
}

template <class T, bool ALIBI, bool DROPOUT>
__device__ void sum_dv(const backward_args &w, const place &at, walk to, int length,
                       bwd_shared<WIDE> &sh)
{
    using t = bwd_tile<WIDE>;
    constexpr int KEPT = DROPOUT ? t::kept_with_dropout : t::kept;
    const int thread = threadIdx.x % GROUP;
    const int key = at.key + thread / 32 * 16 + thread % 32 / 4;
    float dv[WIDE / 2], s[32];
    uint32_t p16[16], kept[4 * KEPT + 1];
    kept_pairs<DROPOUT, 64> left;
    ring<2> stage, old;
    ring<BUFFERS> buffer;

    barrier_wait(&sh.k_full, 0);
    keep<KEPT>(kept, sh.k[0], WIDE_PANEL, thread / 32 * 16);
    for (int i = 0; i < length; i++) {
        const float *rows = sh.rows[stage.stage][0];

        barrier_wait(&sh.q_full[stage.stage], stage.round);
        start_wide_scores<T, KEPT>(s, kept, sh.k[0], sh.stage[stage.stage].q[0]);
        left.find(w, at.b, at.g * w.group + to.head, to.tile * 64,
                  at.key + thread / 32 * 16);
        wgmma_wait<1>();
        hold(dv);
        hold(p16);
        if (i > 0) {
            barrier_arrive(&sh.empty[old.stage]);
            old.next();
        }
        wgmma_wait<0>();
        hold(s);
        exponentials<ALIBI, 64>(
            s, w.scale * 1.44269504f,
            distances<ALIBI>(w, at.g * w.group + to.head, to.tile * 64, key), rows);
        if (to.is_masked())
            mask<64>(w, rows, to.tile * 64, key, s);
        barrier_wait(&sh.p_empty[buffer.stage], buffer.round ^ 1);
        left.mark(s);
#pragma unroll
        for (int c = 0; c < 8; c++)
            sh.p[buffer.stage][c * GROUP + thread] =
                make_float4(s[4 * c], s[4 * c + 1], s[4 * c + 2], s[4 * c + 3]);
        barrier_arrive(&sh.p_full[buffer.stage]);
        buffer.next();
        if (DROPOUT) {
#pragma unroll
            for (int c = 0; c < 32; c++)
                s[c] = fmaxf(s[c], 0);
        }
        pack_scores<T>(s, p16);
        barrier_wait(&sh.d_o_full[stage.stage], stage.round);
        start_wide_sum<T>(dv, p16, sh.stage[stage.stage].d_o[0], i);
        stage.next();
        to.next();
    }
    wgmma_wait<0>();
    hold(dv);
    /* k has been read, by this group alone. */
    store_sums<T, WIDE>(dv, DROPOUT ? w.dropout.scale : 1, sh.k[0], &w.dv, EACH, at,
                        at.key);
    if (thread == 0)
        store_wait_read<0>();
}

/* ds of a pair; p < 0 says that dropout drops it. */
template <bool DROPOUT>
__device__ inline float ds_of(const backward_args &w, float p, float dp, float delta)
{
    if constexpr (DROPOUT)
        return fabsf(p) * ((p > 0 ? dp * w.dropout.scale : 0) - delta);
    return p * (dp - delta);
}

template <class T, bool DROPOUT>
__device__ void sum_dk(const backward_args &w, const place &at, int length,
                       bwd_shared<WIDE> &sh)
{
    using t = bwd_tile<WIDE>;
    const int thread = threadIdx.x % GROUP;
    float dk[WIDE / 2], dp[32];
    uint32_t ds16[16], kept[4 * t::kept + 1];
    ring<2> stage, old;
    ring<BUFFERS> buffer;

    barrier_wait(&sh.v_full, 0);
    keep<t::kept>(kept, sh.v[0], WIDE_PANEL, thread / 32 * 16);
    for (int i = 0; i < length; i++) {
        const float *delta = sh.rows[stage.stage][1];

        barrier_wait(&sh.d_o_full[stage.stage], stage.round);
        start_wide_scores<T, t::kept>(dp, kept, sh.v[0], sh.stage[stage.stage].d_o[0]);
        wgmma_wait<1>();
        hold(dk);
        hold(ds16);
        if (i > 0) {
            barrier_arrive(&sh.empty[old.stage]);
            old.next();
        }
        barrier_wait(&sh.q_full[stage.stage], stage.round);
        wgmma_wait<0>();
        hold(dp);
        barrier_wait(&sh.p_full[buffer.stage], buffer.round);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            float4 p = sh.p[buffer.stage][c * GROUP + thread];
            float2 d = *(const float2 *)(delta + 8 * c + 2 * (thread % 4));

            dp[4 * c] = ds_of<DROPOUT>(w, p.x, dp[4 * c], d.x);
            dp[4 * c + 1] = ds_of<DROPOUT>(w, p.y, dp[4 * c + 1], d.y);
            dp[4 * c + 2] = ds_of<DROPOUT>(w, p.z, dp[4 * c + 2], d.x);
            dp[4 * c + 3] = ds_of<DROPOUT>(w, p.w, dp[4 * c + 3], d.y);
        }
        barrier_arrive(&sh.p_empty[buffer.stage]);
        buffer.next();
        pack_scores<T>(dp, ds16);
        start_wide_sum<T>(dk, ds16, sh.stage[stage.stage].q[0], i);
        stage.next();
    }
    wgmma_wait<0>();
    hold(dk);
    store_sums<T, WIDE>(dk, w.scale, sh.v[0], &w.dk, EACH + 1, at, at.key);
    if (thread == 0)
        store_wait_read<0>();
}

template <class T, bool ALIBI, bool DROPOUT>
__global__ void __launch_bounds__(THREADS, 1)
    wide_keys_kernel(const __grid_constant__ backward_args w)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    bwd_shared<WIDE> &sh = *(bwd_shared<WIDE> *)memory;
    const place at = place_of(w, 64);

    if (threadIdx.x == 0) {
        barrier_init(&sh.k_full, 1);
        barrier_init(&sh.v_full, 1);
        for (int i = 0; i < 2; i++) {
            barrier_init(&sh.q_full[i], 1);
            barrier_init(&sh.d_o_full[i], 1);
            barrier_init(&sh.empty[i], 2 * GROUP);
            barrier_init(&sh.p_full[i], GROUP);
            barrier_init(&sh.p_empty[i], GROUP);
        }
        barrier_init_fence();
    }
    const walk to = walk_of<WIDE>(w, at, sh);
    const int length = w.group * to.count;

    if (length == 0) {
        store_zeros<WIDE>(w, at, sh);
        return;
    }
    if (threadIdx.x < GROUP) {
        give_registers<FEW_REGISTERS>();
        if (threadIdx.x == 0)
            load_all<WIDE>(w, at, to, length, sh);
    } else {
        take_registers<MANY_REGISTERS>();
        if (threadIdx.x < 2 * GROUP)
            sum_dv<T, ALIBI, DROPOUT>(w, at, to, length, sh);
        else
            sum_dk<T, DROPOUT>(w, at, length, sh);
    }
}

/* ---- dq ---- */

struct wide_queries_shared {
    alignas(1024) uint8_t q[2][WIDE_PANELS][WIDE_PANEL]; /* of each warp group */
    uint8_t d_o[2][WIDE_PANELS][WIDE_PANEL];
    uint8_t k[2][WIDE_PANELS][WIDE_PANEL]; /* stages */
    uint8_t v[WIDE_PANELS][WIDE_PANEL];
    uint64_t q_full, k_full[2], k_empty[2], v_full, v_empty;
};

/* 128 queries of a head, and the tiles [first, end) of keys that they see. */
struct wide_place {
    int b, h, g, query, first, end;
    const float *rows; /* of the head */
};

/* One of the three numbers that rows_kernel left for a query. */
__device__ inline float row_of(const float *rows, int query, int which)
{
    return rows[(int64_t)(query / 64) * bwd_tile<WIDE>::row_floats + which * 64 +
                query % 64];
}

/* As place_of, with the last queries, which see most keys, first. */
__device__ inline wide_place wide_place_of(const backward_args &w)
{
    const int tiles = (w.Sq + 127) / 128, pairs = w.B * w.G;
    const int in_section = tiles * w.group * w.key_section;
    const int section = blockIdx.x / in_section;
    const int at = blockIdx.x - section * in_section;
    const int width = min(w.key_section, pairs - section * w.key_section) * w.group;
    const int n = at / width, head = at - n * width;
    const int pair = section * w.key_section + head / w.group;
    wide_place out;
    int last;

    out.b = w.b + pair / w.G;
    out.g = w.g + pair % w.G;
    out.h = out.g * w.group + head % w.group;
    out.query = (tiles - 1 - n) * 128;
    out.rows = w.rows + ((int64_t)pair * w.group + head % w.group) * w.query_tiles *
                            bwd_tile<WIDE>::row_floats;
    last = min(out.query + 127, w.Sq - 1);
    out.first = __float_as_int(row_of(out.rows, out.query, 2)) / 64;
    out.end = max((int)min((int64_t)last + w.q_offset + 64, (int64_t)w.Sk + 63) / 64,
                  out.first);
    return out;
}

__device__ inline void load_wide(uint8_t (*to)[WIDE_PANEL], const CUtensorMap *map,
                                 uint64_t *full, int row, int head, int sequence)
{
    for (int p = 0; p < WIDE_PANELS; p++)
        load_box(to[p], map, full, PANEL * p, row, head, sequence);
}

__device__ inline void load_for_queries(const backward_args &w, const wide_place &at,
                                        wide_queries_shared &sh)
{
    ring<2> stage;
    uint32_t round = 0;

    barrier_expect(&sh.q_full, sizeof sh.q + sizeof sh.d_o);
    for (int half = 0; half < 2; half++) {
        load_wide(sh.q[half], &w.q, &sh.q_full, at.query + 64 * half, at.h, at.b);
        load_wide(sh.d_o[half], &w.d_o, &sh.q_full, at.query + 64 * half, at.h, at.b);
    }
    for (int n = at.end - 1; n >= at.first; n--) {
        barrier_wait(&sh.k_empty[stage.stage], stage.round ^ 1);
        barrier_expect(&sh.k_full[stage.stage], sizeof sh.k[0]);
        load_wide(sh.k[stage.stage], &w.k, &sh.k_full[stage.stage], 64 * n, at.g, at.b);
        stage.next();
        barrier_wait(&sh.v_empty, round ^ 1);
        barrier_expect(&sh.v_full, sizeof sh.v);
        load_wide(sh.v, &w.v, &sh.v_full, 64 * n, at.g, at.b);
        round ^= 1;
    }
}

/* Of the two queries of a thread: log2(e) lse and delta, and the keys [first, end) that
 * they see. */
struct wide_rows {
    float lse[2], delta[2];
    int first[2], end[2];
};

__device__ inline wide_rows wide_rows_of(const backward_args &w, const wide_place &at,
                                         int query)
{
    wide_rows out;

#pragma unroll
    for (int e = 0; e < 2; e++) {
        int i = query + 8 * e;
        bool is = i < w.Sq;

        out.lse[e] = is ? row_of(at.rows, i, 0) : INFINITY;
        out.delta[e] = is ? row_of(at.rows, i, 1) : 0;
        out.first[e] = is ? __float_as_int(row_of(at.rows, i, 2)) : w.Sk;
        out.end[e] = (int)min((int64_t)i + w.q_offset + 1, (int64_t)w.Sk);
    }
    return out;
}

/* s = p, of tile n of keys; the first of a thread's is `distance` from the first of the
 * queries. */
template <bool ALIBI>
__device__ inline void wide_exponentials(const wide_rows &r, float factor, int n,
                                         bool masked, float slope, float distance,
                                         float (&s)[32])
{
#pragma unroll
    for (int i = 0; i < 32; i++) {
        float lse = r.lse[i / 2 % 2];

        if (ALIBI)
            lse -= slope * (distance + i / 4 * 8 + i % 2);
        s[i] = exp2_fast(s[i] * factor - lse);
    }
    if (!masked)
        return;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        int key = 64 * n + i / 4 * 8 + 2 * (threadIdx.x % 4) + i % 2, e = i / 2 % 2;

        if (key < r.first[e] || key >= r.end[e])
            s[i] = 0;
    }
}

/* Store dq of 64 queries. */
template <class T>
__device__ void store_wide_dq(const backward_args &w, const wide_place &at,
                              float (&dq)[WIDE / 2], int half, wide_queries_shared &sh)
{
    place to = {at.b, at.h, 0, 0};

    /* q has been read, by this group alone. */
    if (at.query + 64 * half < w.Sq)
        store_sums<T, WIDE>(dq, w.scale, sh.q[half][0], &w.dq_map, EACH + half, to,
                            at.query + 64 * half);
    if (threadIdx.x % GROUP == 0)
        store_wait_read<0>();
}

template <class T, bool ALIBI, bool DROPOUT>
__device__ void sum_dq(const backward_args &w, const wide_place &at, int half,
                       wide_queries_shared &sh)
{
    const int thread = threadIdx.x % GROUP, first = at.query + 64 * half;
    const wide_rows r = wide_rows_of(w, at, first + thread / 32 * 16 + thread % 32 / 4);
    const int last = min(first + 63, w.Sq - 1);
    /* Tiles [whole, whole_end) have no pair that do not see one another. */
    const int whole = (__float_as_int(row_of(at.rows, last, 2)) + 63) / 64;
    const int whole_end = min((int64_t)first + w.q_offset + 1, (int64_t)w.Sk) / 64;
    const float slope = ALIBI ? log2_slope(w, at.h) : 0;
    float dq[WIDE / 2], s[32], dp[32];
    uint32_t left[1];
    uint32_t ds16[16], none[1];
    ring<2> stage, old;
    uint32_t round = 0;
    int add = 0;

#pragma unroll
    for (int i = 0; i < WIDE / 2; i++)
        dq[i] = 0;
    barrier_wait(&sh.q_full, 0);
    for (int n = at.end - 1; n >= at.first; n--) {
        barrier_wait(&sh.k_full[stage.stage], stage.round);
        start_wide_scores<T, 0>(s, none, sh.q[half][0], sh.k[stage.stage][0]);
        barrier_wait(&sh.v_full, round);
        start_wide_scores<T, 0>(dp, none, sh.d_o[half][0], sh.v[0]);
        wgmma_wait<1>();
        hold(dq);
        hold(ds16);
        hold(s);
        if (add) {
            barrier_arrive(&sh.k_empty[old.stage]);
            old.next();
        }
        if (DROPOUT)
            kept_of_rows<32>(w.dropout, at.b, at.h,
                             first + thread / 32 * 16 + thread % 32 / 4, 64 * n, left);
        wide_exponentials<ALIBI>(
            r, w.scale * 1.44269504f, n, n < whole || n >= whole_end, slope,
            ALIBI ? mdsk_attention_distance(&w.shape, first, 64 * n + 2 * (thread % 4))
                  : 0,
            s);
        wgmma_wait<0>();
        hold(dp);
        barrier_arrive(&sh.v_empty);
        round ^= 1;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            if (DROPOUT)
                dp[i] = keep_or_zero(left, i, dp[i]) * w.dropout.scale;
            dp[i] = s[i] * (dp[i] - r.delta[i / 2 % 2]);
        }
        pack_scores<T>(dp, ds16);
        start_wide_sum<T>(dq, ds16, sh.k[stage.stage][0], add);
        add = 1;
        stage.next();
    }
    wgmma_wait<0>();
    hold(dq);
    store_wide_dq<T>(w, at, dq, half, sh);
}

template <class T, bool ALIBI, bool DROPOUT>
__global__ void __launch_bounds__(THREADS, 1)
    wide_queries_kernel(const __grid_constant__ backward_args w)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    wide_queries_shared &sh = *(wide_queries_shared *)memory;
    const wide_place at = wide_place_of(w);

    if (threadIdx.x == 0) {
        barrier_init(&sh.q_full, 1);
        barrier_init(&sh.v_full, 1);
        barrier_init(&sh.v_empty, 2 * GROUP);
        for (int i = 0; i < 2; i++) {
            barrier_init(&sh.k_full[i], 1);
            barrier_init(&sh.k_empty[i], 2 * GROUP);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < GROUP) {
        give_registers<FEW_REGISTERS>();
        if (threadIdx.x == 0)
            load_for_queries(w, at, sh);
    } else {
        take_registers<MANY_REGISTERS>();
        sum_dq<T, ALIBI, DROPOUT>(w, at, __shfl_sync(~0u, threadIdx.x / GROUP, 0) - 1,
                                  sh);
    }
}

} // namespace mdsk::hopper

#endif
