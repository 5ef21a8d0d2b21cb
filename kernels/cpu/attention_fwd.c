/* SPDX-License-Identifier: BSD-3-Clause */
/* Flash attention, forward: a task is a range of queries of one head; it goes through
 * the keys block by block with an online softmax.
 *
 * Scores are kept transposed, a row per key and a column per query: maxima and sums
 * over the keys then go down the columns, vector by vector, and never across one; keys
 * need no packing. */
#include "kernels/cpu/attention.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/unfused.h"
#include "kernels/cpu/random.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vmath.h"

/* Queries of a task: packing a block of values serves this many. */
enum { BLOCKS = 4, RANGE = BLOCKS * MDSK_QUERIES };

/* A thread's memory. */
struct scratch {
    float *q;      /* BLOCKS times Q^T packed, [D, MDSK_QUERIES] */
    float *values; /* V packed, [MDSK_KEYS, D] */
    float *p;      /* scores, then probabilities [MDSK_KEYS, MDSK_QUERIES] */
    float *o;      /* [RANGE, width] sums of p v, not yet divided */
    float *max;    /* [RANGE] of the scores so far */
    float *sum;    /* [RANGE] of exp(score - max) */
    float *shrink; /* [MDSK_QUERIES] exp(old max - new max) */
    float *wide;   /* [MDSK_KEYS, D] of what is stored in 16 bits */
    int64_t width; /* D in whole panels */
    struct mdsk_view keys;
};

static int64_t scratch_floats(const struct mdsk_attention_shape *s)
{
    return (2 * RANGE + MDSK_KEYS) * mdsk_panels(s->D) + MDSK_KEYS * MDSK_QUERIES +
           2 * RANGE + MDSK_QUERIES + mdsk_staging_floats(s->dtype, MDSK_KEYS * s->D);
}

static struct scratch scratch_at(float *at, int64_t D)
{
    struct scratch w = {.width = mdsk_panels(D)};

    w.q = at;
    w.values = w.q + RANGE * w.width;
    w.p = w.values + MDSK_KEYS * w.width;
    w.o = w.p + MDSK_KEYS * MDSK_QUERIES;
    w.max = w.o + RANGE * w.width;
    w.sum = w.max + RANGE;
    w.shrink = w.sum + RANGE;
    w.wide = w.shrink + MDSK_QUERIES;
    return w;
}

/* Scale the scores p [n, MDSK_QUERIES] and hide what the mask hides: key j of the block
 * from queries below first + j, and from those whose first key, seen[q], is behind it.
 * seen does not fall.  Then top[q] = max(top[q], scores of q). */
MDSK_DISPATCH static void scale_and_max(int64_t n, int64_t first, const int64_t *seen,
                                        float scale, float *p, float *top)
{
    int late = 0;

    for (int64_t j = 0; j < n; j++, p += MDSK_QUERIES) {
        int64_t hidden = mdsk_min(first + j, MDSK_QUERIES);

        while (late < MDSK_QUERIES && seen[late] <= j)
            late++;
#pragma omp simd
        for (int q = 0; q < MDSK_QUERIES; q++)
            p[q] *= scale;
        for (int64_t q = 0; q < hidden; q++)
            p[q] = -INFINITY;
        for (int q = late; q < MDSK_QUERIES; q++)
            p[q] = -INFINITY;
#pragma omp simd
        for (int q = 0; q < MDSK_QUERIES; q++)
            top[q] = p[q] > top[q] ? p[q] : top[q];
    }
}

/* Scores become probabilities relative to top, added to sum. */
MDSK_DISPATCH static void exp_and_sum(int64_t n, const float *top, float *p, float *sum)
{
    float part[MDSK_QUERIES] = {0};

    for (int64_t j = 0; j < n; j++, p += MDSK_QUERIES) {
#pragma omp simd
        for (int q = 0; q < MDSK_QUERIES; q++) {
            p[q] = mdsk_expf(p[q] - top[q]);
            part[q] += p[q];
        }
    }
#pragma omp simd
    for (int q = 0; q < MDSK_QUERIES; q++)
        sum[q] += part[q];
}

/* Scale the sums made with the old maximum to the new one. */
MDSK_DISPATCH static void shrink_sums(int64_t m, const float *old, const float *top,
                                      float *shrink, float *sum, float *o,
                                      int64_t width)
{
#pragma omp simd
    for (int q = 0; q < MDSK_QUERIES; q++) {
        shrink[q] = mdsk_expf(old[q] - top[q]);
        sum[q] *= shrink[q];
    }
    for (int64_t q = 0; q < m; q++) {
        if (shrink[q] == 1)
            continue;
#pragma omp simd
        for (int64_t d = 0; d < width; d++)
            o[q * width + d] *= shrink[q];
    }
}

/* seen[q]: the first key of the pair that its query q sees; queries that are not there
 * are as the last. */
static void first_keys_of(const struct mdsk_attention_shape *s,
                          const struct mdsk_pair *pair, int64_t *seen)
{
    for (int64_t q = 0; q < MDSK_QUERIES; q++)
        seen[q] =
            mdsk_attention_first_key(s, pair->b, pair->i + mdsk_min(q, pair->m - 1)) -
            pair->j;
}

/* ALiBi, on scores that are not yet scaled. */
static void add_distances(const struct mdsk_attention_shape *s,
                          const struct mdsk_pair *pair, float *p)
{
    float slope = mdsk_attention_slope(s, pair->h) / s->scale;

    for (int64_t j = 0; j < pair->n; j++)
        mdsk_add_ramp(MDSK_QUERIES, slope,
                      mdsk_attention_distance(s, pair->i, pair->j + j), -1,
                      p + j * MDSK_QUERIES);
}

/* The online softmax of one block: p holds scores, then probabilities. */
static void online_softmax(const struct mdsk_attention_shape *s,
                           const struct mdsk_pair *pair, const struct scratch *w,
                           int64_t row)
{
    float *max = w->max + row, old[MDSK_QUERIES];
    int64_t seen[MDSK_QUERIES];

    first_keys_of(s, pair, seen);
    if (s->alibi_heads > 0)
        add_distances(s, pair, w->p);
    memcpy(old, max, sizeof old);
    scale_and_max(pair->n, pair->j - pair->i - s->q_offset, seen, s->scale, w->p, max);
    shrink_sums(pair->m, old, max, w->shrink, w->sum + row, w->o + row * w->width,
                w->width);
    exp_and_sum(pair->n, max, w->p, w->sum + row);
}

MDSK_DISPATCH static void multiply_lanes(const float *factor, float *p)
{
#pragma omp simd
    for (int q = 0; q < MDSK_MASK_LANES; q++)
        p[q] *= factor[q];
}

/* Four keys of sixteen queries share a call of the generator. */
static void apply_dropout(const struct mdsk_attention_shape *s,
                          const struct mdsk_pair *pair, float *p)
{
    int64_t first = s->first_key + pair->j, last = first + pair->n;
    float factor[MDSK_MASK_SPAN];

    for (int64_t block = first / 4; block * 4 < last; block++) {
        for (int64_t q = 0; q < pair->m; q += MDSK_MASK_LANES) {
            mdsk_mask_tokens(&s->dropout, s->first_sample + pair->b,
                             mdsk_attention_token(s, pair->h, pair->i + q), block,
                             factor);
            for (int64_t key = block * 4; key < block * 4 + 4; key++)
                if (key >= first && key < last)
                    multiply_lanes(factor + key % 4 * MDSK_MASK_LANES,
                                   p + (key - first) * MDSK_QUERIES + q);
        }
    }
}

/* Scores of the pair, panel by panel of queries, each only down to its last key. */
static void score_block(const struct mdsk_attention_fwd *a,
                        const struct mdsk_pair *pair, const struct scratch *w,
                        int64_t row)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_tile_a k = {w->keys.data, w->keys.stride, 1};

    for (int64_t q = 0; q < pair->m; q += MDSK_NR) {
        struct mdsk_tile_b panel = {w->q + (row + q) * s->D, s->D};
        int64_t last = pair->i + q + MDSK_NR + s->q_offset - pair->j;

        mdsk_tile_mm(mdsk_min(pair->n, last), MDSK_NR, s->D, &k, &panel, w->p + q,
                     MDSK_QUERIES, 0);
    }
}

/* One pair of blocks; `row` is its first query in the run, `packed` the keys of the
 * block of values. */
static void attend_block(const struct mdsk_attention_fwd *a,
                         const struct mdsk_pair *pair, const struct scratch *w,
                         int64_t row, int64_t packed)
{
    struct mdsk_tile_a p = {w->p, 1, MDSK_QUERIES};
    struct mdsk_tile_b v = {w->values, packed};

    score_block(a, pair, w, row);
    online_softmax(&a->shape, pair, w, row);
    if (a->shape.dropout.p > 0)
        apply_dropout(&a->shape, pair, w->p);
    mdsk_tile_mm(pair->m, a->shape.D, pair->n, &p, &v, w->o + row * w->width, w->width,
                 1);
}

/* Queries first .. last-1 of head h of sequence b: pack them, clear their sums. */
static void load_queries(const struct mdsk_attention_fwd *a, int64_t b, int64_t h,
                         int64_t first, int64_t last, const struct scratch *w)
{
    int64_t D = a->shape.D;

    for (int64_t i = first; i < last; i += MDSK_QUERIES) {
        int64_t m = mdsk_min(MDSK_QUERIES, last - i);
        struct mdsk_view q = mdsk_view(&a->shape, &a->q, b, i, h, m, w->wide);

        mdsk_tile_pack(D, m, q.data, 1, q.stride, w->q + (i - first) * D);
    }
    memset(w->o, 0, (size_t)(RANGE * w->width) * sizeof *w->o);
    memset(w->p, 0, MDSK_KEYS * MDSK_QUERIES * sizeof *w->p);
    for (int64_t r = 0; r < RANGE; r++) {
        w->max[r] = -FLT_MAX; /* -INFINITY - -INFINITY is NaN where no key was seen */
        w->sum[r] = 0;
    }
}

MDSK_DISPATCH static void divide_row(int64_t n, const float *x, float by, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / by;
}

/* The block of n keys at j, and their values. */
static void load_key_block(const struct mdsk_attention_fwd *a, int64_t b, int64_t g,
                           int64_t j, int64_t n, struct scratch *w)
{
    struct mdsk_view v = mdsk_view(&a->shape, &a->v, b, j, g, n, w->wide);

    mdsk_tile_pack(n, a->shape.D, v.data, v.stride, 1, w->values);
    w->keys = mdsk_view(&a->shape, &a->k, b, j, g, n, w->wide);
}

/* Store the sums, divided, and lse, of a range of queries. */
static void store_queries(const struct mdsk_attention_fwd *a, int64_t b, int64_t h,
                          int64_t first, int64_t last, const struct scratch *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    float *lse = a->lse + mdsk_head_row(s->A, s->Sq, a->lse_stride, b, h);

    for (int64_t r = 0; r < last - first; r++) {
        int64_t at = mdsk_head_at(&a->o, b, first + r, h);
        float *sum = w->o + r * w->width, *o = mdsk_fill(s->dtype, a->o.data, at, sum);

        divide_row(s->D, sum, w->sum[r] > 0 ? w->sum[r] : 1, o);
        mdsk_put(s->dtype, o, s->D, a->o.data, at);
        lse[first + r] = w->max[r] + logf(w->sum[r]);
    }
}

static void query_range_fwd(const struct mdsk_attention_fwd *a, int64_t b, int64_t h,
                            int64_t first, int64_t last, struct scratch *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t keys = mdsk_attention_end_key(s, last - 1), g = h / (s->A / s->G);

    load_queries(a, b, h, first, last, w);
    for (int64_t j = mdsk_first_key_block(s, b, first); j < keys; j += MDSK_KEYS) {
        int64_t packed = mdsk_min(MDSK_KEYS, keys - j);

        load_key_block(a, b, g, j, packed, w);
        for (int64_t i = first; i < last; i += MDSK_QUERIES) {
            struct mdsk_pair pair = {.b = b, .h = h, .i = i, .j = j};

            if (mdsk_pair_clip(s, &pair))
                attend_block(a, &pair, w, i - first, packed);
        }
    }
    store_queries(a, b, h, first, last, w);
}

/* With a causal mask the longest ranges are started first, so that a short one finishes
 * last. */
static int fused_fwd(const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t runs = mdsk_ceil_div(s->Sq, RANGE), heads = s->B * s->A;
    int64_t floats = scratch_floats(s);
    int threads = mdsk_threads_for(heads * s->Sq * s->D);
    float *scratch = mdsk_scratch(threads * floats);

    if (!scratch)
        return -ENOMEM;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t t = 0; t < runs * heads; t++) {
        struct scratch w = scratch_at(scratch + omp_get_thread_num() * floats, s->D);
        int64_t first = (runs - 1 - t / heads) * RANGE, h = t % heads;

        query_range_fwd(a, h / s->A, h % s->A, first, mdsk_min(first + RANGE, s->Sq),
                        &w);
    }
    return 0;
}

int mdsk_attention_fwd_cpu(void *stream, const struct mdsk_attention_fwd *a)
{
    if (a->shape.unfused)
        return mdsk_unfused_attention_fwd(&mdsk_unfused_steps_cpu, stream, a);
    return fused_fwd(a);
}
