/* SPDX-License-Identifier: BSD-3-Clause */
/* Which attention problems the kernels for Hopper compute, and what they are told. */
#include "kernels/cuda/hopper/attention.h"

#include "kernels/attention_scratch.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/hopper/forward.h"

/* Keys and values that are read at the same time should fit; a part of what L2 has,
 * because its halves hold some lines twice. */
#define L2_BYTES (INT64_C(32) << 20)

static int is_supported(const struct mdsk_attention_shape *s)
{
    return mdsk_cuda_capability() == 90 && mdsk_attention_is_for_hopper(s) &&
           s->scale > 0 && (!(s->dropout.p > 0) || mdsk_hopper_dropout_fits(s));
}

/* How many of n heads of keys are worked on side by side: as many as fit L2, in
 * sections of about equal size. */
static int section_of(const struct mdsk_attention_shape *s)
{
    int64_t n = s->B * s->G, near = s->window + 16384, sections;
    int64_t keys = s->window > 0 && near < s->Sk ? near : s->Sk;
    int64_t fit = L2_BYTES / (keys * s->D * 2 * (int64_t)sizeof(uint16_t));

    fit = fit < 1 ? 1 : fit < n ? fit : n;
    sections = (n + fit - 1) / fit;
    return (int)((n + sections - 1) / sections);
}

/* Two zeros on the device; NULL if there is no memory. */
static unsigned *counters(cudaStream_t stream)
{
    static unsigned *zeros;

    if (!zeros) {
        zeros = mdsk_cuda_alloc(stream, 2 * sizeof *zeros);
        if (zeros)
            cudaMemsetAsync(zeros, 0, 2 * sizeof *zeros, stream);
    }
    return zeros;
}

static forward_call *kernel_for(const struct mdsk_attention_shape *s)
{
    static forward_call *const calls[2][4] = {
        {mdsk_forward_bf16_64, mdsk_forward_bf16_96, mdsk_forward_bf16_128,
         mdsk_forward_bf16_256},
        {mdsk_forward_f16_64, mdsk_forward_f16_96, mdsk_forward_f16_128,
         mdsk_forward_f16_256}};

    return calls[s->dtype != MDSK_BF16][s->D <= 64    ? 0
                                        : s->D <= 96  ? 1
                                        : s->D <= 128 ? 2
                                                      : 3];
}

/* Where the parts' o and lse go, and what follows the kernel. */
static int split_keys(cudaStream_t stream, struct forward_args *a,
                      const struct mdsk_attention_fwd *f)
{
    const struct mdsk_attention_shape *s = &f->shape;
    const struct mdsk_attention_split split = mdsk_attention_fwd_split(s);

    a->parts = (int)split.parts;
    a->part_tiles = (int)split.tiles;
    if (split.parts == 1)
        return 0;
    a->part_o = mdsk_cuda_scratch(stream, MDSK_CUDA_ATTEND,
                                  mdsk_attention_fwd_hopper_scratch(f));
    if (!a->part_o)
        return -ENOMEM;
    a->part_lse = a->part_o + split.parts * s->B * s->A * s->Sq * s->D;
    return 0;
}

static int run(cudaStream_t stream, const struct mdsk_attention_fwd *f)
{
    const struct mdsk_attention_shape *s = &f->shape;
    const float log2_e = 1.44269504f, tolerance = 8;
    struct forward_args a = {
        .lse = f->lse,
        .start = s->start,
        .counter = counters(stream),
        .lse_stride = f->lse_stride ? f->lse_stride : s->Sq,
        .start_stride = s->start_stride ? s->start_stride : s->B,
        .q_offset = s->q_offset,
        .window = s->window,
        .first_query = s->first_query,
        .first_key = s->first_key,
        .B = (int)s->B,
        .A = (int)s->A,
        .G = (int)s->G,
        .Sq = (int)s->Sq,
        .Sk = (int)s->Sk,
        .D = (int)s->D,
        .alibi_heads = s->alibi_heads,
        .first_head = s->first_head,
        .section = section_of(s),
        .scale = s->scale,
        .scale_log2 = s->scale * log2_e,
        .tolerance = tolerance / (s->scale * log2_e),
        .has_dropout = s->dropout.p > 0,
        .dropout = mdsk_hopper_dropout_of(s),
    };
    int err = a.counter ? split_keys(stream, &a, f) : -ENOMEM;

    if (!err)
        err = kernel_for(s)(stream, &a, f);
    if (!err && a.parts > 1)
        err = mdsk_cuda_attention_merge_parts(stream, f, a.parts, a.part_o, a.part_lse);
    return err;
}

int mdsk_hopper_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_fwd f = mdsk_attention_fwd_packed(a);
    const struct mdsk_attention_shape *s = &f.shape;

    if (!is_supported(s) || !mdsk_tensor_map_can(&f.q, s->B, s->A, s->Sq, s->D) ||
        !mdsk_tensor_map_can(&f.k, s->B, s->G, s->Sk, s->D) ||
        !mdsk_tensor_map_can(&f.v, s->B, s->G, s->Sk, s->D) ||
        !mdsk_tensor_map_can(&f.o, s->B, s->A, s->Sq, s->D) || s->B * s->A > INT32_MAX)
        return -ENOTSUP;
    return run(stream, &f);
}
