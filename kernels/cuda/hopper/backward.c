/* SPDX-License-Identifier: BSD-3-Clause */
/* Which backward passes the kernels for Hopper compute, and what they are told. */
#include "kernels/cuda/hopper/backward.h"

#include "kernels/attention_scratch.h"

/* Of L2, as its halves hold some lines twice. */
#define L2_BYTES (INT64_C(32) << 20)

static int is_supported(const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const struct mdsk_heads *queries[] = {&a->q, &a->o, &a->d_o, &a->dq};
    const struct mdsk_heads *keys[] = {&a->k, &a->v, &a->dk, &a->dv};
    const int64_t most = INT64_C(1) << 29, most_heads = 65535;

    if (mdsk_cuda_capability() != 90 || mdsk_attention_bwd_hopper_head(s) == 0 ||
        s->Sq > most || s->Sk > most || s->B * s->A > most_heads ||
        (s->dropout.p > 0 && !mdsk_hopper_dropout_fits(s)))
        return 0;
    for (int i = 0; i < 4; i++)
        if (!mdsk_tensor_map_can(queries[i], s->B, s->A, s->Sq, s->D) ||
            !mdsk_tensor_map_can(keys[i], s->B, s->G, s->Sk, s->D))
            return 0;
    return 1;
}

/* How many of n key/value heads are worked on side by side: as many as have what is
 * read, or added to, of `rows` tokens in L2. */
static int section_of(const struct mdsk_attention_shape *s, int64_t n, int64_t rows,
                      int64_t bytes)
{
    int64_t near = s->window + 8192;
    int64_t fit = L2_BYTES / ((s->window > 0 && near < rows ? near : rows) * bytes);

    return (int)(fit < 1 ? 1 : fit < n ? fit : n);
}

static backward_call *kernels_for(const struct mdsk_attention_shape *s)
{
    static backward_call *const calls[2][4] = {
        {mdsk_backward_bf16_64, mdsk_backward_bf16_96, mdsk_backward_bf16_128,
         mdsk_backward_bf16_256},
        {mdsk_backward_f16_64, mdsk_backward_f16_96, mdsk_backward_f16_128,
         mdsk_backward_f16_256}};

    return calls[s->dtype != MDSK_BF16][s->D <= 64    ? 0
                                        : s->D <= 96  ? 1
                                        : s->D <= 128 ? 2
                                                      : 3];
}

/* Keys of a tile (backward_copies.cuh). */
static int keys_of(const struct mdsk_attention_shape *s)
{
    return s->D <= 128 ? 128 : 64;
}

static int make_maps(const struct mdsk_attention_bwd *a, struct backward_args *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int queries = mdsk_attention_bwd_hopper_tile(s), half = 64;
    const int keys = keys_of(s);
    const struct {
        CUtensorMap *map;
        const struct mdsk_heads *heads;
        int64_t n, tokens;
        int rows;
    } maps[] = {
        {&w->q, &a->q, s->A, s->Sq, queries},
        {&w->d_o, &a->d_o, s->A, s->Sq, queries},
        {&w->k, &a->k, s->G, s->Sk, keys},
        {&w->v, &a->v, s->G, s->Sk, keys},
        {&w->dk, &a->dk, s->G, s->Sk, half},
        {&w->dv, &a->dv, s->G, s->Sk, half},
        {&w->dq_map, &a->dq, s->A, s->Sq, half},
    };
    int err = 0;

    for (size_t i = 0; !err && i < sizeof maps / sizeof *maps; i++)
        err = mdsk_tensor_map_heads(maps[i].map, maps[i].heads, s->B, maps[i].n,
                                    maps[i].tokens, s->D, s->dtype, maps[i].rows);
    return err;
}

int mdsk_hopper_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int64_t head = mdsk_attention_bwd_hopper_head(s), keys = keys_of(s);
    const int tile = mdsk_attention_bwd_hopper_tile(s);
    struct mdsk_attention_part part;
    struct backward_args w = {
        .shape = *s,
        .o = a->o,
        .d_o_heads = a->d_o,
        .dq = a->dq,
        .lse = a->lse,
        .lse_stride = a->lse_stride ? a->lse_stride : s->Sq,
        .limited = s->window > 0 || s->start,
        .scale = s->scale,
        .repeatable = mdsk_cuda_is_repeatable(),
        .dropout = mdsk_hopper_dropout_of(s),
    };
    int err;

    if (!is_supported(a))
        return -ENOTSUP;
    part = mdsk_attention_bwd_hopper_part(s);
    w.A = (int)s->A;
    w.group = (int)(s->A / s->G);
    w.Sq = (int)s->Sq;
    w.Sk = (int)s->Sk;
    w.D = (int)s->D;
    w.q_offset = (int)(s->q_offset < s->Sk ? s->q_offset : s->Sk);
    w.query_tiles = (int)((s->Sq + tile - 1) / tile);
    w.key_tiles = (int)((s->Sk + keys - 1) / keys);
    w.B = (int)part.B;
    w.G = (int)(part.A / w.group);
    /* q and d_o, and dq if it is summed; k and v */
    w.section = section_of(s, part.B * w.G, s->Sq, s->D * (s->D <= 128 ? 8 : 4));
    w.key_section = section_of(s, part.B * w.G, s->Sk, s->D * 4);
    err = make_maps(a, &w);
    w.rows = mdsk_cuda_scratch(stream, MDSK_CUDA_ATTEND, part.B * part.A * head);
    if (err || !w.rows)
        return err ? err : -ENOMEM;
    w.dq_sum = w.rows + part.B * part.A * w.query_tiles * (3 * tile + 4);
    for (; !err && w.b < s->B; w.b += w.B)
        for (w.g = 0; !err && w.g < s->G; w.g += w.G)
            err = kernels_for(s)(stream, &w);
    return err;
}
