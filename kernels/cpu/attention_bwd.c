/* SPDX-License-Identifier: BSD-3-Clause */
/* Flash attention, backward: probabilities are computed again from lse, block pair by
 * block pair.
 *
 * For a block of keys, dk and dv are summed over all queries; dq is summed over the
 * blocks of keys in ascending order.  One pass that does both needs 5 matrix products
 * per pair, but has only one task per key/value head, and sums dq in the tensor, which
 * must be f32.  Two passes need 7 products and have a task per block.  Both add in the
 * same order, so the choice, which depends on the number of threads, changes no bit. */
#include "kernels/cpu/attention.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/unfused.h"
#include "kernels/cpu/random.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vmath.h"

enum {
    RUN = 4 * MDSK_QUERIES,  /* queries of a task of the second pass */
    WIDE = 2 * MDSK_QUERIES, /* rows of `wide` in a thread's scratch */
};
_Static_assert((int)WIDE >= (int)MDSK_KEYS, "a block of keys fits");

/* A thread's memory. */
struct scratch {
    float *kt, *vt, *k; /* K^T, V^T packed [D, MDSK_KEYS]; K packed */
    float *q, *d_o;     /* packed [MDSK_QUERIES, D] */
    float *p, *ds;      /* [MDSK_QUERIES, MDSK_KEYS] */
    float *dk, *dv;     /* [MDSK_KEYS, width] */
    float *dq;          /* [RUN, width], or of one pair [MDSK_QUERIES, width] */
    float *mask;
    float *wide;    /* f32 copy of 16-bit tensors: keys, or two blocks of queries */
    int64_t width;  /* D in whole panels */
    int64_t packed; /* keys of the block in k */
    struct mdsk_view q_rows, d_o_rows; /* of the pair */
};

static int64_t scratch_floats(const struct mdsk_attention_shape *s)
{
    return (5 * MDSK_KEYS + 2 * MDSK_QUERIES + RUN) * mdsk_panels(s->D) +
           2 * MDSK_QUERIES * MDSK_KEYS + MDSK_KEYS + 2 * MDSK_MASK_SPAN +
           mdsk_staging_floats(s->dtype, WIDE * s->D);
}

/* The calling thread's scratch memory. */
static struct scratch scratch_at(const struct mdsk_attention_shape *s, float *scratch)
{
    struct scratch w = {.width = mdsk_panels(s->D)};

    w.kt = scratch + omp_get_thread_num() * scratch_floats(s);
    w.vt = w.kt + MDSK_KEYS * w.width;
    w.k = w.vt + MDSK_KEYS * w.width;
    w.q = w.k + MDSK_KEYS * w.width;
    w.d_o = w.q + MDSK_QUERIES * w.width;
    w.p = w.d_o + MDSK_QUERIES * w.width;
    w.ds = w.p + MDSK_QUERIES * MDSK_KEYS;
    w.dk = w.ds + MDSK_QUERIES * MDSK_KEYS;
    w.dv = w.dk + MDSK_KEYS * w.width;
    w.dq = w.dv + MDSK_KEYS * w.width;
    w.mask = w.dq + RUN * w.width;
    w.wide = w.mask + MDSK_KEYS + 2 * MDSK_MASK_SPAN;
    return w;
}

MDSK_DISPATCH static float dot(int64_t n, const float *x, const float *y)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* A key, as an index into the pair's. */
static int64_t key_in_pair(const struct mdsk_pair *p, int64_t key)
{
    return key < p->j ? 0 : mdsk_min(key - p->j, p->n);
}

/* Dropout factors of query r: [n] floats at the returned address, in staging [MDSK_KEYS
 * + 2 * MDSK_MASK_SPAN]. */
static const float *dropout_mask(const struct mdsk_attention_shape *s,
                                 const struct mdsk_pair *p, int64_t r, float *staging)
{
    int64_t key = s->first_key + p->j, first = key / 4 * 4;

    for (int64_t e = first; e < key + p->n; e += MDSK_MASK_SPAN)
        mdsk_mask_span(&s->dropout, s->first_sample + p->b,
                       mdsk_attention_token(s, p->h, p->i + r), e, staging + e - first);
    return staging + key - first;
}

/* From scores p and the gradient ds of the dropped probabilities: p becomes the dropped
 * probabilities, ds the gradient of q k^T.  Columns outside first .. end-1 become 0. */
MDSK_DISPATCH static void score_row(int64_t first, int64_t end, int64_t n, float scale,
                                    float lse, float delta, const float *mask, float *p,
                                    float *ds)
{
    for (int64_t j = 0; j < first; j++)
        p[j] = ds[j] = 0;
    if (mask) {
#pragma omp simd
        for (int64_t j = first; j < end; j++) {
            float prob = mdsk_expf(p[j] * scale - lse);

            p[j] = prob * mask[j];
            ds[j] = prob * (ds[j] * mask[j] - delta) * scale;
        }
    } else {
#pragma omp simd
        for (int64_t j = first; j < end; j++) {
            p[j] = mdsk_expf(p[j] * scale - lse);
            ds[j] = p[j] * (ds[j] - delta) * scale;
        }
    }
    for (int64_t j = end; j < n; j++)
        p[j] = ds[j] = 0;
}

static void load_key_block(const struct mdsk_attention_bwd *a, int64_t b, int64_t g,
                           int64_t j, struct scratch *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_view k, v;

    w->packed = mdsk_min(MDSK_KEYS, s->Sk - j);
    k = mdsk_view(s, &a->k, b, j, g, w->packed, w->wide);
    mdsk_tile_pack(s->D, w->packed, k.data, 1, k.stride, w->kt);
    mdsk_tile_pack(w->packed, s->D, k.data, k.stride, 1, w->k);
    v = mdsk_view(s, &a->v, b, j, g, w->packed, w->wide);
    mdsk_tile_pack(s->D, w->packed, v.data, 1, v.stride, w->vt);
}

/* Probabilities and score gradients of a pair, into w->p and w->ds. */
static void score_block_bwd(const struct mdsk_attention_bwd *a,
                            const struct mdsk_pair *pair, struct scratch *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const float *lse =
        a->lse + pair->i + mdsk_head_row(s->A, s->Sq, a->lse_stride, pair->b, pair->h);
    const float *delta = a->delta + (pair->b * s->A + pair->h) * s->Sq + pair->i;
    struct mdsk_tile_b kt = {w->kt, s->D}, vt = {w->vt, s->D};
    struct mdsk_tile_a q, d_o;
    float slope = mdsk_attention_slope(s, pair->h) / s->scale;

    w->q_rows = mdsk_view(s, &a->q, pair->b, pair->i, pair->h, pair->m, w->wide);
    w->d_o_rows =
        mdsk_view(s, &a->d_o, pair->b, pair->i, pair->h, pair->m,
                  w->wide + mdsk_staging_floats(s->dtype, MDSK_QUERIES * s->D));
    q = (struct mdsk_tile_a){w->q_rows.data, w->q_rows.stride, 1};
    d_o = (struct mdsk_tile_a){w->d_o_rows.data, w->d_o_rows.stride, 1};
    mdsk_tile_mm(pair->m, pair->n, s->D, &q, &kt, w->p, MDSK_KEYS, 0);
    mdsk_tile_mm(pair->m, pair->n, s->D, &d_o, &vt, w->ds, MDSK_KEYS, 0);
    for (int64_t r = 0; r < pair->m; r++) {
        int64_t end = key_in_pair(pair, mdsk_attention_end_key(s, pair->i + r));
        int64_t first =
            key_in_pair(pair, mdsk_attention_first_key(s, pair->b, pair->i + r));
        const float *mask = NULL;

        if (s->dropout.p > 0)
            mask = dropout_mask(s, pair, r, w->mask);
        if (s->alibi_heads > 0)
            mdsk_add_ramp(pair->n, slope,
                          mdsk_attention_distance(s, pair->i + r, pair->j), 1,
                          w->p + r * MDSK_KEYS);
        score_row(mdsk_min(first, end), end, pair->n, s->scale, lse[r], delta[r], mask,
                  w->p + r * MDSK_KEYS, w->ds + r * MDSK_KEYS);
    }
}

/* dv += p^T d_o,  dk += ds^T q */
static void accumulate_dk_dv(int64_t D, const struct mdsk_pair *pair,
                             const struct scratch *w)
{
    struct mdsk_tile_a pt = {w->p, 1, MDSK_KEYS}, dst = {w->ds, 1, MDSK_KEYS};
    struct mdsk_tile_b q = {w->q, pair->m}, d_o = {w->d_o, pair->m};

    mdsk_tile_pack(pair->m, D, w->q_rows.data, w->q_rows.stride, 1, w->q);
    mdsk_tile_pack(pair->m, D, w->d_o_rows.data, w->d_o_rows.stride, 1, w->d_o);
    mdsk_tile_mm(pair->n, D, pair->m, &pt, &d_o, w->dv, w->width, 1);
    mdsk_tile_mm(pair->n, D, pair->m, &dst, &q, w->dk, w->width, 1);
}

/* dq = ds k, or dq += ds k; dq is [m, width]. */
static void compute_dq_block(int64_t D, const struct mdsk_pair *pair,
                             const struct scratch *w, float *dq, int and_add)
{
    struct mdsk_tile_a ds = {w->ds, MDSK_KEYS, 1};
    struct mdsk_tile_b k = {w->k, w->packed};

    mdsk_tile_mm(pair->m, D, pair->n, &ds, &k, dq, w->width, and_add);
}

/* dq += ds k in the tensor, of f32 */
static void accumulate_dq(const struct mdsk_attention_bwd *a,
                          const struct mdsk_pair *pair, const struct scratch *w)
{
    compute_dq_block(a->shape.D, pair, w, w->dq, 0);
    for (int64_t r = 0; r < pair->m; r++)
        mdsk_add_to(a->shape.D, w->dq + r * w->width,
                    mdsk_head(&a->dq, pair->b, pair->i + r, pair->h));
}

static void clear_queries(const struct mdsk_attention_bwd *a, int64_t b, int64_t h,
                          int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        memset(mdsk_head(&a->dq, b, i, h), 0, (size_t)a->shape.D * sizeof(float));
}

/* dk and dv of the block of keys at j, from every query that sees it; with dq the
 * block's share of the queries' gradients too. */
static void key_block_bwd(const struct mdsk_attention_bwd *a, int64_t b, int64_t g,
                          int64_t j, int with_dq, struct scratch *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t group = s->A / s->G;
    int64_t first = j > s->q_offset ? (j - s->q_offset) / MDSK_QUERIES : 0;

    load_key_block(a, b, g, j, w);
    memset(w->dk, 0, (size_t)(MDSK_KEYS * w->width) * sizeof *w->dk);
    memset(w->dv, 0, (size_t)(MDSK_KEYS * w->width) * sizeof *w->dv);
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        for (int64_t i = first * MDSK_QUERIES; i < s->Sq; i += MDSK_QUERIES) {
            struct mdsk_pair pair = {.b = b, .h = h, .i = i, .j = j};

            if (mdsk_attention_first_key(s, b, i) >= j + w->packed)
                break;
            if (!mdsk_pair_clip(s, &pair))
                continue;
            score_block_bwd(a, &pair, w);
            accumulate_dk_dv(s->D, &pair, w);
            if (with_dq)
                accumulate_dq(a, &pair, w);
        }
    }
    for (int64_t r = 0; r < w->packed; r++) {
        mdsk_narrow(s->dtype, w->dk + r * w->width, s->D, a->dk.data,
                    mdsk_head_at(&a->dk, b, j + r, g));
        mdsk_narrow(s->dtype, w->dv + r * w->width, s->D, a->dv.data,
                    mdsk_head_at(&a->dv, b, j + r, g));
    }
}

/* dq of queries first .. last-1 of head h, over all keys they see. */
static void query_range_bwd(const struct mdsk_attention_bwd *a, int64_t b, int64_t h,
                            int64_t first, int64_t last, struct scratch *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t keys = mdsk_attention_end_key(s, last - 1);

    memset(w->dq, 0, (size_t)(RUN * w->width) * sizeof *w->dq);
    for (int64_t j = mdsk_first_key_block(s, b, first); j < keys; j += MDSK_KEYS) {
        load_key_block(a, b, h / (s->A / s->G), j, w);
        for (int64_t i = first; i < last; i += MDSK_QUERIES) {
            struct mdsk_pair pair = {.b = b, .h = h, .i = i, .j = j};

            if (!mdsk_pair_clip(s, &pair))
                continue;
            score_block_bwd(a, &pair, w);
            compute_dq_block(s->D, &pair, w, w->dq + (i - first) * w->width, 1);
        }
    }
    for (int64_t r = 0; r < last - first; r++)
        mdsk_narrow(s->dtype, w->dq + r * w->width, s->D, a->dq.data,
                    mdsk_head_at(&a->dq, b, first + r, h));
}

static int threads_for(const struct mdsk_attention_bwd *a)
{
    return mdsk_threads_for(a->shape.B * a->shape.A * a->shape.Sq * a->shape.D);
}

static void compute_delta(const struct mdsk_attention_bwd *a, float *scratch)
{
    const struct mdsk_attention_shape *s = &a->shape;

#pragma omp parallel for schedule(static) num_threads(threads_for(a))
    for (int64_t t = 0; t < s->B * s->A * s->Sq; t++) {
        int64_t b = t / s->Sq / s->A, h = t / s->Sq % s->A, i = t % s->Sq;
        float *staging = scratch_at(s, scratch).wide;
        struct mdsk_view d_o = mdsk_view(s, &a->d_o, b, i, h, 1, staging);
        struct mdsk_view o = mdsk_view(s, &a->o, b, i, h, 1,
                                       staging + mdsk_staging_floats(s->dtype, s->D));

        a->delta[t] = dot(s->D, d_o.data, o.data);
    }
}

static void bwd_one_pass(const struct mdsk_attention_bwd *a, float *scratch)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t group = s->A / s->G;

#pragma omp parallel for schedule(dynamic) num_threads(threads_for(a))
    for (int64_t t = 0; t < s->B * s->G; t++) {
        struct scratch w = scratch_at(s, scratch);
        int64_t b = t / s->G, g = t % s->G;

        for (int64_t h = g * group; h < (g + 1) * group; h++)
            clear_queries(a, b, h, 0, s->Sq);
        for (int64_t j = 0; j < s->Sk; j += MDSK_KEYS)
            key_block_bwd(a, b, g, j, 1, &w);
    }
}

static void bwd_two_passes(const struct mdsk_attention_bwd *a, float *scratch)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t blocks = mdsk_ceil_div(s->Sk, MDSK_KEYS), pairs = s->B * s->G;
    int64_t runs = mdsk_ceil_div(s->Sq, RUN), heads = s->B * s->A;

#pragma omp parallel num_threads(threads_for(a))
    {
        struct scratch w = scratch_at(s, scratch);

#pragma omp for schedule(dynamic) nowait
        for (int64_t t = 0; t < blocks * pairs; t++)
            key_block_bwd(a, t % pairs / s->G, t % s->G, t / pairs * MDSK_KEYS, 0, &w);
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < runs * heads; t++) {
            int64_t first = (runs - 1 - t / heads) * RUN, h = t % heads;

            query_range_bwd(a, h / s->A, h % s->A, first, mdsk_min(first + RUN, s->Sq),
                            &w);
        }
    }
}

static int fused_bwd(const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int threads = threads_for(a);
    int64_t tasks = s->B * s->G;
    float *scratch = mdsk_scratch(threads * scratch_floats(s));

    if (!scratch)
        return -ENOMEM;
    compute_delta(a, scratch);
    if (s->dtype == MDSK_F32 &&
        5 * mdsk_ceil_div(tasks, threads) * threads <= 7 * tasks)
        bwd_one_pass(a, scratch);
    else
        bwd_two_passes(a, scratch);
    return 0;
}

int mdsk_attention_bwd_cpu(void *stream, const struct mdsk_attention_bwd *a)
{
    if (a->shape.unfused)
        return mdsk_unfused_attention_bwd(&mdsk_unfused_steps_cpu, stream, a);
    return fused_bwd(a);
}
