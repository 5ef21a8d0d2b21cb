/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention for Hopper, backward: tiles, the order of work, and the warp group that
 * copies. */
#ifndef MDSK_HOPPER_BACKWARD_COPIES_CUH
#define MDSK_HOPPER_BACKWARD_COPIES_CUH

#include "kernels/cuda/hopper/backward.h"
#include "kernels/cuda/hopper/ptx.cuh"

namespace mdsk::hopper
{

enum {
    BUFFERS = 2, /* of ds in shared memory */
    GROUP = 128, /* threads of a warp group */
    THREADS = 3 * GROUP,
    FEW_REGISTERS = 24, /* of the warp group that copies */
    MANY_REGISTERS = 240,
    /* named barriers: of both warp groups that sum; of each; and of each one's
     turn */
    SUMMING = 1,
    EACH = 2,
    TURN = 4,
};

/* Sizes for heads of up to D elements. */
template <int D> struct bwd_tile {
    static constexpr int queries = D <= 64 ? 128 : 64;
    static constexpr int keys = D <= 128 ? 128 : 64;
    /* of queries in shared memory */
    static constexpr int stages = D <= 64 || D > 128 ? 2 : 3;
    static constexpr int panels = (D + PANEL - 1) / PANEL;
    /* how often 16 elements of a key stay in registers, as shared memory is the
     * bottleneck: for as many as there are */
    static constexpr int kept = D == 96 ? 6 : D == 128 ? 5 : D == 256 ? 8 : 0;
    static constexpr int kept_with_dropout = D == 96 ? 6 : D == 256 ? 4 : 0;
    /* floats of a tile of dq, if it is summed in memory */
    static constexpr int sums = D <= 128 ? queries * panels * PANEL : 0;
    static constexpr int row_floats = 3 * queries + 4; /* of its rows */
};

template <int D> struct bwd_shared {
    using t = bwd_tile<D>;
    static constexpr int key_panel = t::keys * PANEL_ROW;
    static constexpr int query_panel = t::queries * PANEL_ROW;

    alignas(1024) uint8_t k[t::panels][key_panel];
    uint8_t v[t::panels][key_panel];
    struct stage {
        uint8_t q[t::panels][query_panel];
        uint8_t d_o[t::panels][query_panel];
    } stage[t::stages];
    uint8_t ds[BUFFERS][t::queries / PANEL][key_panel];
    float4 dq[2][8 * GROUP]; /* of each warp group, on its way to memory */
    float rows[t::stages][3][t::queries];
    uint64_t k_full, v_full, q_full[t::stages], d_o_full[t::stages], empty[t::stages];
    uint64_t ds_full[BUFFERS], ds_empty[BUFFERS], dq_full[2][2], dq_empty[2];
    int end[2]; /* of queries, see walk_of */
};

/* The queries that a tile of keys is seen by: `count` tiles from `first` on,
 * upwards or downwards, head after head.  Tiles below `causal` and from `limit`
 * on have pairs that do not see one another. */
struct walk {
    int first, count, step, causal, limit;
    int head, tile, left;

    __device__ bool is_masked() const
    {
        return tile < causal || tile >= limit;
    }

    __device__ void next()
    {
        tile += step;
        if (--left == 0) {
            tile = first;
            left = count;
            head++;
        }
    }
};

/* Where a thread block works. */
struct place {
    int b, g, key;  /* in the whole problem */
    int local_head; /* the group's first query head, in the part's scratch memory
                   */
};

/* Sections of heads one after the other; in each, the first keys, which most
 * queries see, first. */
__device__ inline place place_of(const backward_args &w, int keys)
{
    int pairs = w.B * w.G, section = blockIdx.x / (w.key_tiles * w.section);
    int at = blockIdx.x - section * w.key_tiles * w.section;
    int width = min(w.section, pairs - section * w.section), n = at / width;
    int pair = section * w.section + at - n * width;

    return {w.b + pair / w.G, w.g + pair % w.G, n * keys, pair * w.group};
}

/* The first query whose first key is at least `key`.  With documents: a search by a
 * warp. */
template <int D>
__device__ int first_query_from(const backward_args &w, const place &at, int key)
{
    constexpr int M = bwd_tile<D>::queries;
    const float *rows =
        w.rows + (int64_t)at.local_head * w.query_tiles * bwd_tile<D>::row_floats;
    int low = 0, high = w.Sq, lane = threadIdx.x % 32; /* it is in [low, high] */

    if (!w.shape.start)
        return (int)min(max(key - 1 - w.q_offset + w.shape.window, (int64_t)0),
                        (int64_t)w.Sq);
    while (low < high) {
        int step = (high - low + 31) / 32, i = low + step * lane;
        bool below =
            i < high &&
            __float_as_int(rows[(int64_t)(i / M) * (3 * M + 4) + 2 * M + i % M]) < key;
        int n = __popc(__ballot_sync(~0u, below));

        if (n == 0)
            break;
        high = min(high, low + step * n);
        low += step * (n - 1) + 1;
    }
    return low;
}

template <int D>
__device__ walk walk_of(const backward_args &w, const place &at, bwd_shared<D> &sh)
{
    constexpr int M = bwd_tile<D>::queries, N = bwd_tile<D>::keys;
    int first, end;
    walk out;

    if (threadIdx.x < 32 && w.limited) {
        end = first_query_from<D>(w, at, min(at.key + N, w.Sk));
        out.limit = first_query_from<D>(w, at, at.key + 1);
        if (threadIdx.x == 0) {
            sh.end[0] = (end + M - 1) / M;
            sh.end[1] = out.limit / M;
        }
    }
    __syncthreads();
    end = w.limited ? sh.end[0] : w.query_tiles;
    out.limit = w.limited ? sh.end[1] : w.query_tiles;
    first = max(at.key - w.q_offset, 0) / M;
    out.causal = at.key + N > w.Sk ? w.query_tiles
                                   : (max(at.key + N - 1 - w.q_offset, 0) + M - 1) / M;
    out.count = max(end - first, 0);
    /* Downwards, all blocks that start together begin with the same tile, and
   * each adds to it after the one before. */
    out.step = w.repeatable ? -1 : 1;
    out.first = w.repeatable ? end - 1 : first;
    out.head = 0;
    out.tile = out.first;
    out.left = out.count;
    return out;
}

/* Of a tile of queries, in scratch memory. */
__device__ inline int64_t tile_number(const backward_args &w, const place &at, int head,
                                      int tile)
{
    return (int64_t)(at.local_head + head) * w.query_tiles + tile;
}

/* ---- the warp group that copies: a thread for each direction ---- */

template <int D>
__device__ void load_queries(const backward_args &w, const place &at, const walk &to,
                             int stage, bwd_shared<D> &sh)
{
    using t = bwd_tile<D>;
    constexpr int M = t::queries;
    const int h = at.g * w.group + to.head;

    barrier_expect(&sh.q_full[stage], sizeof sh.stage[0].q + sizeof sh.rows[0]);
#pragma unroll
    for (int p = 0; p < t::panels; p++)
        load_box(sh.stage[stage].q[p], &w.q, &sh.q_full[stage], PANEL * p, to.tile * M,
                 h, at.b);
    load_bytes(sh.rows[stage],
               w.rows + tile_number(w, at, to.head, to.tile) * t::row_floats,
               sizeof sh.rows[0], &sh.q_full[stage]);
    barrier_expect(&sh.d_o_full[stage], sizeof sh.stage[0].d_o);
#pragma unroll
    for (int p = 0; p < t::panels; p++)
        load_box(sh.stage[stage].d_o[p], &w.d_o, &sh.d_o_full[stage], PANEL * p,
                 to.tile * M, h, at.b);
}

template <int D>
__device__ void load_keys(const backward_args &w, const place &at, bwd_shared<D> &sh)
{
    barrier_expect(&sh.k_full, sizeof sh.k);
    barrier_expect(&sh.v_full, sizeof sh.v);
    for (int p = 0; p < bwd_tile<D>::panels; p++)
        load_box(sh.k[p], &w.k, &sh.k_full, PANEL * p, at.key, at.g, at.b);
    for (int p = 0; p < bwd_tile<D>::panels; p++)
        load_box(sh.v[p], &w.v, &sh.v_full, PANEL * p, at.key, at.g, at.b);
}

template <int D>
__device__ void load_all(const backward_args &w, const place &at, walk to, int length,
                         bwd_shared<D> &sh)
{
    ring<bwd_tile<D>::stages> stage;

    load_keys<D>(w, at, sh);
    for (int i = 0; i < length; i++) {
        barrier_wait(&sh.empty[stage.stage], stage.round ^ 1);
        async_fence(); /* threads have read the rows, TMA overwrites them */
        load_queries<D>(w, at, to, stage.stage, sh);
        stage.next();
        to.next();
    }
}

/* Repeatable sums of dq: thread blocks add to a tile in the order of their keys.  Each
 * tile has the number of those that have added.  Blocks wait only for blocks with
 * smaller numbers, which run already or have ended. */
template <int D> __device__ unsigned *turn_of(const backward_args &w, int64_t tile)
{
    using t = bwd_tile<D>;

    return (unsigned *)(w.rows + tile * t::row_floats + 3 * t::queries);
}

template <int D>
__device__ void wait_for_turn(const backward_args &w, const place &at, int64_t tile)
{
    using t = bwd_tile<D>;
    unsigned before = at.key / t::keys, n;

    if (w.limited)
        before -=
            __float_as_int(w.rows[tile * t::row_floats + 2 * t::queries]) / t::keys;
    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(n)
                     : "l"(turn_of<D>(w, tile))
                     : "memory");
    while (n != before);
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* Once what this thread added is there. */
template <int D> __device__ void pass_turn(const backward_args &w, int64_t tile)
{
    store_wait<0>();
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turn_of<D>(w, tile))
                 : "memory");
}

/* Add dq to memory: of every other tile, from the first or the second on, what both
 * warp groups that sum have of it. */
template <int D>
__device__ void add_all(const backward_args &w, const place &at, walk to, int length,
                        int odd, bwd_shared<D> &sh)
{
    if (odd)
        to.next();
    for (int i = odd; i < length; i += 2) {
        int64_t tile = tile_number(w, at, to.head, to.tile);

        if (w.repeatable)
            wait_for_turn<D>(w, at, tile);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            barrier_wait(&sh.dq_full[half][odd], i >> 1 & 1);
            add_floats(w.dq_sum + tile * bwd_tile<D>::sums + half * 64 * 64,
                       sh.dq[half], sizeof sh.dq[half]);
            store_commit();
            store_wait_read<0>();
            barrier_arrive(&sh.dq_empty[half]);
        }
        if (w.repeatable)
            pass_turn<D>(w, tile);
        to.next();
        to.next();
    }
}

template <int D>
__device__ void copy_group(const backward_args &w, const place &at, const walk &to,
                           int length, bwd_shared<D> &sh)
{
    if (threadIdx.x == 0)
        load_all<D>(w, at, to, length, sh);
    else if (threadIdx.x == 32)
        add_all<D>(w, at, to, length, 0, sh);
    else if (threadIdx.x == 64)
        add_all<D>(w, at, to, length, 1, sh);
}

} // namespace mdsk::hopper

#endif
