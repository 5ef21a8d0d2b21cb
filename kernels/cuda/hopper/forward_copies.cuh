/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention for Hopper, forward: tiles, the order of work, and the warp group that
 * copies. */
#ifndef MDSK_HOPPER_FORWARD_COPIES_CUH
#define MDSK_HOPPER_FORWARD_COPIES_CUH

#include "kernels/cuda/hopper/forward.h"
#include "kernels/cuda/hopper/ptx.cuh"

namespace mdsk::hopper
{

/* WIDTH: the largest head size; KEYS: of a tile; GROUPS: of consumers. */
template <class T_, int WIDTH, int KEYS, int GROUPS, int STAGES, bool ALIBI,
          bool DROPOUT, bool SPLIT>
struct forward_plan {
    static constexpr bool alibi = ALIBI, dropout = DROPOUT, split = SPLIT;
    using T = T_;
    static constexpr int width = WIDTH, keys = KEYS, groups = GROUPS, stages = STAGES;
    static constexpr int rows = 64 * groups;
    static constexpr int consumers = 128 * groups, threads = consumers + 128;
    static constexpr int panels = (width + PANEL - 1) / PANEL;
    static constexpr int q_panel = rows * PANEL_ROW, k_panel = keys * PANEL_ROW;
    static constexpr int q_bytes = panels * q_panel, k_bytes = panels * k_panel;
    /* O in a place of its own, so that the next Q can come meanwhile, if there is room.
     */
    static constexpr int o_at =
        2 * q_bytes + 2 * stages * k_bytes <= 224 * 1024 ? q_bytes : 0;
    static constexpr int k_at = o_at + q_bytes, v_at = k_at + stages * k_bytes;
    static constexpr int tile_bytes = v_at + stages * k_bytes;
    static constexpr int consumer_registers = groups == 2 ? 240 : 160;
    static constexpr int producer_registers = groups == 2 ? 24 : 32;
};

/* A tile of queries, and the tiles of keys that they see. */
struct forward_tile {
    int sequence, head, first;  /* sequence < 0: no more tiles */
    int key_tile, key_tile_end; /* none if equal */
};

template <class P> struct forward_shared {
    uint64_t q_full, q_empty;
    uint64_t k_full[P::stages], k_empty[P::stages];
    uint64_t v_full[P::stages], v_empty[P::stages];
    struct forward_tile tile; /* with q_full */
    int part;                 /* likewise, if keys are split */
};

/* The keys [first_key, end_key) that query i sees. */
__device__ inline int forward_end_key(const struct forward_args &a, int i)
{
    int64_t end = i + a.q_offset + 1;

    return end < a.Sk ? (int)end : a.Sk;
}

__device__ inline int forward_first_key(const struct forward_args &a, int b, int i)
{
    int64_t first = a.window > 0 ? i + a.q_offset + 1 - a.window : 0;

    if (a.start) {
        int64_t document =
            a.start[(a.first_query + i) * a.start_stride + b] - a.first_key;

        first = document > first ? document : first;
    }
    return first < 0 ? 0 : first < a.Sk ? (int)first : a.Sk;
}

/* Tile number `index`: as many heads of keys side by side as L2 can hold, of these the
 * last queries first, and heads that share keys next to each other. */
template <class P>
__device__ inline struct forward_tile forward_tile_at(const struct forward_args &a,
                                                      unsigned index)
{
    unsigned group = (unsigned)(a.A / a.G);
    unsigned section_tiles = (unsigned)a.section * group * (unsigned)a.q_tiles;
    unsigned section = index / section_tiles, rest = index % section_tiles;
    unsigned left = (unsigned)(a.B * a.G) - section * (unsigned)a.section;
    unsigned heads = (left < (unsigned)a.section ? left : (unsigned)a.section) * group;
    unsigned q_tile = (unsigned)a.q_tiles - 1 - rest / heads;
    unsigned kv = section * (unsigned)a.section + rest % heads / group;
    struct forward_tile t;
    int last;

    t.sequence = (int)(kv / (unsigned)a.G);
    t.head = (int)(kv % (unsigned)a.G * group + rest % group);
    t.first = (int)q_tile * P::rows;
    last = min(t.first + P::rows, a.Sq) - 1;
    t.key_tile = forward_first_key(a, t.sequence, t.first) / P::keys;
    t.key_tile_end =
        max((forward_end_key(a, last) + P::keys - 1) / P::keys, t.key_tile);
    return t;
}

/* Of the keys of t, leave part number `part`, or none. */
__device__ inline void take_part(const struct forward_args &a, int part,
                                 struct forward_tile &t)
{
    t.key_tile_end = max(t.key_tile_end - part * a.part_tiles, t.key_tile);
    t.key_tile = max(t.key_tile, t.key_tile_end - a.part_tiles);
}

/* Where producer and consumers are in the rings of stages. */
template <class P> struct forward_rings {
    ring<P::stages> k, v;
};

/* ---- the producer: one thread ---- */

template <class P>
__device__ inline void load_keys(char *to, const CUtensorMap &map, uint64_t *full,
                                 int key_tile, int head, int sequence)
{
    barrier_expect(full, P::k_bytes);
#pragma unroll
    for (int p = 0; p < P::panels; p++)
        load_box(to + p * P::k_panel, &map, full, p * PANEL, key_tile * P::keys, head,
                 sequence);
}

/* Keys and values of a tile; keys are one tile ahead of values. */
template <class P>
__device__ inline void
produce_keys(const struct forward_args &a, char *tiles, struct forward_shared<P> &s,
             const struct forward_tile &t, struct forward_rings<P> &at)
{
    int head = t.head / (a.A / a.G);

    for (int n = t.key_tile_end - 1; n >= t.key_tile - 1; n--) {
        if (n >= t.key_tile) {
            barrier_wait(&s.k_empty[at.k.stage], at.k.round ^ 1);
            load_keys<P>(tiles + P::k_at + at.k.stage * P::k_bytes, a.k,
                         &s.k_full[at.k.stage], n, head, t.sequence);
            at.k.next();
        }
        if (n + 1 < t.key_tile_end) {
            barrier_wait(&s.v_empty[at.v.stage], at.v.round ^ 1);
            load_keys<P>(tiles + P::v_at + at.v.stage * P::k_bytes, a.v,
                         &s.v_full[at.v.stage], n + 1, head, t.sequence);
            at.v.next();
        }
    }
}

template <class P>
__device__ inline void produce(const struct forward_args &a, char *tiles,
                               struct forward_shared<P> &s)
{
    struct forward_rings<P> at;
    struct forward_tile t;
    unsigned index = blockIdx.x;

    for (uint32_t round = 0;; round ^= 1) {
        unsigned tile = index, part = 0;

        if (P::split) { /* the first part, which most tiles have, last */
            part = (unsigned)a.parts - 1 - index / a.tiles;
            tile = part < (unsigned)a.parts ? index % a.tiles : a.tiles;
        }
        if (tile < a.tiles)
            t = forward_tile_at<P>(a, tile);
        else
            t.sequence = -1;
        if (P::split)
            take_part(a, (int)part, t);
        barrier_wait(&s.q_empty, round ^ 1);
        s.tile = t;
        if (P::split)
            s.part = (int)part;
        if (t.sequence < 0)
            break;
        barrier_expect(&s.q_full, P::q_bytes);
#pragma unroll
        for (int p = 0; p < P::panels; p++)
            load_box(tiles + p * P::q_panel, &a.q, &s.q_full, p * PANEL, t.first,
                     t.head, t.sequence);
        produce_keys<P>(a, tiles, s, t, at);
        index = gridDim.x + atomicAdd(&a.counter[0], 1u);
    }
    barrier_arrive(&s.q_full);
    /* The last block leaves the counters as it found them. */
    if (atomicAdd(&a.counter[1], 1u) == gridDim.x - 1) {
        a.counter[0] = 0;
        a.counter[1] = 0;
    }
}

} // namespace mdsk::hopper

#endif
