/* SPDX-License-Identifier: BSD-3-Clause */
/* How attention is split on GPUs, and the scratch memory that it takes. */
#include <math.h>

#include "kernels/attention_scratch.h"
#include "kernels/unfused/attention.h"

/* Whether offsets in x, with `unit` bytes per element, exceed 32 bits. */
static int exceeds_32bit(const struct mdsk_heads *x,
                         const struct mdsk_attention_shape *s, int64_t B, int64_t A,
                         int64_t unit)
{
    int64_t end =
        (B - 1) * x->batch_stride + (A - 1) * x->head_stride + s->Sq * x->token_stride;

    return end > INT32_MAX / unit;
}

/* cuDNN 9.19 computes wrong addresses for rows of o and d_o beyond 2^31 bytes: with
 * 2^20 tokens x 2048, dv was right, dq and dk were not. dq was right at 1.6e9 elements;
 * more has not been tested. */
static int needs_copy(const struct mdsk_attention_bwd *a, int64_t B, int64_t A)
{
    const int64_t size = (int64_t)mdsk_dtype_size(a->shape.dtype);

    return exceeds_32bit(&a->o, &a->shape, B, A, size) ||
           exceeds_32bit(&a->d_o, &a->shape, B, A, size) ||
           exceeds_32bit(&a->dq, &a->shape, B, A, 1);
}

static struct mdsk_attention_part part_of_heads(const struct mdsk_attention_shape *s,
                                                int64_t bytes_per_head)
{
    int64_t group = s->A / s->G, groups = s->G, most = MDSK_ATTENTION_SCRATCH;

    while (groups > 1 && (s->G % groups || groups * group * bytes_per_head > most))
        groups--;
    return (struct mdsk_attention_part){1, groups * group, 0};
}

struct mdsk_attention_part mdsk_attention_bwd_part(const struct mdsk_attention_bwd *a,
                                                   int64_t bytes_per_head)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_attention_part part = {s->B, s->A, 0};

    if (s->B * s->A * bytes_per_head <= MDSK_ATTENTION_SCRATCH &&
        !needs_copy(a, s->B, s->A))
        return part;
    part = part_of_heads(s, bytes_per_head);
    part.copies = needs_copy(a, 1, part.A);
    return part;
}

/* 131,072 rows of queries, over all heads, fill an H200's multiprocessors eight times.
 * With more than 32,768 queries in a block, its thread blocks no longer read the same
 * keys at about the same time. */
struct mdsk_attention_blocks
mdsk_attention_fwd_blocks(const struct mdsk_attention_shape *s)
{
    const int64_t L2 = INT64_C(48) << 20, rows = 131072, least = 1024, parts = 16;
    int64_t queries = 32768, keys;

    if (2 * s->Sk * s->D * (int64_t)mdsk_dtype_size(s->dtype) <= L2)
        return (struct mdsk_attention_blocks){s->Sq, s->Sk};
    while (queries > least && queries * s->B * s->A > rows)
        queries /= 2;
    keys = mdsk_ceil_div(s->Sk, parts * queries) * queries;
    return (struct mdsk_attention_blocks){queries < s->Sq ? queries : s->Sq, keys};
}

int64_t mdsk_attention_window_block(const struct mdsk_attention_shape *s)
{
    const int64_t least = 8192, step = 1024;
    int64_t n = s->window < least ? least : mdsk_ceil_div(s->window, step) * step;

    return n < s->Sq ? n : s->Sq;
}

/* cuDNN's backward pass has a thread block for 128 keys of a head: 16384 keys, over all
 * heads, give one to each multiprocessor of an H200.  More queries in a block do not
 * make such a call more efficient, they only make it longer. */
int64_t mdsk_attention_window_bwd_block(const struct mdsk_attention_shape *s)
{
    const int64_t keys = 16384, most = 8192, step = 128;
    int64_t n = keys / s->A - s->window;

    n = n < most ? n : most;
    n = n > s->window ? n : s->window;
    n = mdsk_ceil_div(n, step) * step;
    return n < s->Sq ? n : s->Sq;
}

/* The longest call's queries, and no more keys than they see.  The last block takes a
 * rest that would be too short for a call (cuda/cudnn_window.c). */
static struct mdsk_attention_bwd window_call(const struct mdsk_attention_bwd *a)
{
    const int64_t aligned = 128, shortest = 32;
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t seen = s->Sk + s->window - 1 - s->q_offset;
    int64_t end = seen < s->Sq ? seen : s->Sq, n = mdsk_attention_window_bwd_block(s);
    struct mdsk_attention_bwd call = *a;
    int64_t keys;

    call.shape.Sq = end > n && end % n < shortest ? n + end % n : n;
    keys = call.shape.Sq + s->window + aligned;
    call.shape.Sk = keys < s->Sk ? keys : s->Sk;
    return call;
}

/* Bytes of the keys' gradients for each query head. */
static int64_t window_keys_per_head(const struct mdsk_attention_shape *call)
{
    return 2 * (int64_t)mdsk_dtype_size(call->dtype) * call->Sk * call->D * call->G /
           call->A;
}

struct mdsk_attention_part
mdsk_attention_window_part(const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_bwd call = window_call(a);
    const int64_t dq = (int64_t)sizeof(float) * call.shape.Sq * call.shape.D;

    return mdsk_attention_bwd_part(&call, dq + window_keys_per_head(&call.shape));
}

int mdsk_attention_is_for_hopper(const struct mdsk_attention_shape *s)
{
    return s->dtype != MDSK_F32 && s->D % 8 == 0 && s->D <= 256;
}

struct mdsk_attention_fwd mdsk_attention_fwd_packed(const struct mdsk_attention_fwd *a)
{
    struct mdsk_attention_fwd f = *a;
    struct mdsk_attention_shape *s = &f.shape;
    const int64_t group = s->A / s->G, size = (int64_t)mdsk_dtype_size(s->dtype);
    const int64_t first = mdsk_attention_window_key(s, 0);
    struct mdsk_heads *queries[] = {&f.q, &f.o}, *keys[] = {&f.k, &f.v};

    /* A slope or random numbers by head stay with the heads. */
    if (s->Sq > 1 || group == 1 || s->start || s->alibi_heads > 0 || s->dropout.p > 0 ||
        a->lse_stride > 1 || first >= s->Sk)
        return f;
    for (int i = 0; i < 2; i++) {
        queries[i]->token_stride = queries[i]->head_stride;
        queries[i]->head_stride *= group;
        if (keys[i]->data)
            keys[i]->data =
                (char *)keys[i]->data + first * keys[i]->token_stride * size;
    }
    s->Sk = mdsk_attention_end_key(s, 0) - first;
    s->q_offset = s->Sk;
    s->window = 0;
    s->Sq = group;
    s->A = s->G;
    f.lse_stride = group;
    return f;
}

/* Of an H100 and an H200. */
enum { PROCESSORS = 132 };

/* The tiles of queries of a head, and how many tiles of keys one sees. */
struct tiling {
    int64_t rows, keys, n;
};

static int64_t key_tiles(const struct mdsk_attention_shape *s, const struct tiling *t,
                         int64_t tile)
{
    int64_t query = tile * t->rows, next = query + t->rows;
    int64_t end = mdsk_attention_end_key(s, (next < s->Sq ? next : s->Sq) - 1);
    int64_t n =
        mdsk_ceil_div(end, t->keys) - mdsk_attention_window_key(s, query) / t->keys;

    return n > 0 ? n : 0;
}

/* The time of all heads in units of a tile of keys, if c of them make a part, on so
 * many multiprocessors, which take the longest parts first: all parts, shared evenly,
 * or for any length so many rounds of parts that are at least so long.  A part
 * costs as much as two tiles besides, to start and for o, which is written and read
 * again; the kernel that reads it, three. */
static double split_time(const struct mdsk_attention_shape *s, const struct tiling *t,
                         int64_t c, int is_split)
{
    const double processors = PROCESSORS, heads = (double)(s->B * s->A);
    double all = 0, parts = 0, as_long[4] = {0}, time;

    for (int64_t i = 0; i < t->n; i++) {
        int64_t length = key_tiles(s, t, i);

        all += heads * (double)length;
        parts += heads * (double)mdsk_ceil_div(length, c);
        for (int k = 0; k < 4; k++)
            as_long[k] +=
                heads * (double)(length / c + (4 * (length % c) >= (k + 1) * c));
    }
    time = all / processors;
    for (int k = 0; k < 4; k++)
        time =
            fmax(time, ceil(as_long[k] / processors) * (double)(k + 1) / 4 * (double)c);
    return is_split ? time + 3 + 2 * parts / processors : time;
}

struct mdsk_attention_split
mdsk_attention_fwd_split(const struct mdsk_attention_shape *s)
{
    const struct tiling t = {.rows = s->D <= 64 ? 192 : 128,
                             .keys = s->D <= 128 ? 128 : 80,
                             .n = mdsk_ceil_div(s->Sq, t.rows)};
    const int64_t units = s->B * s->A * t.n, most_units = 2 * PROCESSORS,
                  most_parts = 4 * PROCESSORS;
    struct mdsk_attention_split best = {1, INT32_MAX};
    int64_t longest = 0;
    double least;

    if (units > most_units || s->dropout.p > 0)
        return best;
    for (int64_t i = 0; i < t.n; i++)
        longest = key_tiles(s, &t, i) > longest ? key_tiles(s, &t, i) : longest;
    if (longest < 2)
        return best;
    least = 0.9 * split_time(s, &t, longest, 0); /* worth the scratch memory */
    /* In a few parts; or so that all processors have one, or two, three or four. */
    for (int i = 2; i <= 12; i++) {
        const int64_t n = i <= 8 ? i : (i - 8) * PROCESSORS / units;
        const int64_t c = n > 1 ? mdsk_ceil_div(longest, n) : longest;
        double time;

        if (c == longest || n > longest || n * units > most_parts)
            continue;
        time = split_time(s, &t, c, 1);
        if (time < least) {
            least = time;
            best = (struct mdsk_attention_split){mdsk_ceil_div(longest, c), c};
        }
    }
    return best;
}

int64_t mdsk_attention_fwd_cudnn_scratch(const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int64_t o = s->D * (int64_t)mdsk_dtype_size(s->dtype), lse = sizeof(float);
    struct mdsk_attention_blocks blocks;

    if (s->window > 0)
        return s->B * s->A * mdsk_attention_window_block(s) * lse;
    blocks = mdsk_attention_fwd_blocks(s);
    return blocks.keys == s->Sk ? 0 : s->B * s->A * blocks.queries * (o + lse);
}

int64_t mdsk_attention_fwd_hopper_scratch(const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_fwd f = mdsk_attention_fwd_packed(a);
    const struct mdsk_attention_shape *s = &f.shape;
    int64_t parts;

    if (!mdsk_attention_is_for_hopper(s))
        return 0;
    parts = mdsk_attention_fwd_split(s).parts;
    return parts > 1 ? parts * s->B * s->A * s->Sq * (s->D + 1) * (int64_t)sizeof(float)
                     : 0;
}

int64_t mdsk_attention_fwd_scratch(const struct mdsk_attention_fwd *a)
{
    int64_t cudnn, hopper;

    if (a->shape.unfused)
        return mdsk_unfused_attention_bytes(&a->shape, a->shape.dtype, 0);
    if (a->shape.dtype == MDSK_F32)
        return 0;
    cudnn = mdsk_attention_fwd_cudnn_scratch(a);
    hopper = mdsk_attention_fwd_hopper_scratch(a);
    return cudnn > hopper ? cudnn : hopper;
}

int64_t mdsk_attention_bwd_cudnn_scratch(const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int64_t sum = (int64_t)sizeof(float), column = 2 * sum;
    struct mdsk_attention_bwd call = s->window > 0 ? window_call(a) : *a;
    struct mdsk_attention_part part;
    int64_t copies, bytes;

    part = s->window > 0 ? mdsk_attention_window_part(a)
                         : mdsk_attention_bwd_part(a, sum * s->Sq * s->D);
    copies = part.copies ? 3 * (int64_t)mdsk_dtype_size(s->dtype) : 0;
    bytes = call.shape.Sq * ((sum + copies) * s->D + column);
    if (s->window > 0)
        bytes += window_keys_per_head(&call.shape);
    return part.B * part.A * bytes;
}

int mdsk_attention_bwd_hopper_tile(const struct mdsk_attention_shape *s)
{
    return s->D <= 64 ? 128 : 64;
}

int64_t mdsk_attention_bwd_hopper_head(const struct mdsk_attention_shape *s)
{
    const int64_t tile = mdsk_attention_bwd_hopper_tile(s), width = s->D <= 64    ? 64
                                                                    : s->D <= 128 ? 128
                                                                                  : 0;

    if (!mdsk_attention_is_for_hopper(s))
        return 0;
    return mdsk_ceil_div(s->Sq, tile) * (tile * (width + 3) + 4) *
           (int64_t)sizeof(float);
}

struct mdsk_attention_part
mdsk_attention_bwd_hopper_part(const struct mdsk_attention_shape *s)
{
    int64_t bytes = mdsk_attention_bwd_hopper_head(s);

    if (s->B * s->A * bytes <= MDSK_ATTENTION_SCRATCH)
        return (struct mdsk_attention_part){s->B, s->A, 0};
    return part_of_heads(s, bytes);
}

int64_t mdsk_attention_bwd_scratch(const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_attention_part part;
    int64_t cudnn, hopper;

    if (s->unfused)
        return mdsk_unfused_attention_bytes(s, s->dtype, 1);
    if (s->dtype == MDSK_F32)
        return 0;
    cudnn = mdsk_attention_bwd_cudnn_scratch(a);
    part = mdsk_attention_bwd_hopper_part(s);
    hopper = part.B * part.A * mdsk_attention_bwd_hopper_head(s);
    return cudnn > hopper ? cudnn : hopper;
}
