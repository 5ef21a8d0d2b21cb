/* Flash attention, forward: a task is a run of queries of one head; it walks over the
 * keys block by block with an online softmax. */
#include "kernels/cpu/attention.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/random.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vmath.h"

/* Queries of a task: packing a block of keys serves this many. */
enum { RUN = 4 * MDSK_QUERIES };

/* A thread's memory. */
struct room {
    float *keys;   /* K^T packed, [D, MDSK_KEYS] */
    float *values; /* V packed, [MDSK_KEYS, D] */
    float *p;      /* scores, then probabilities [MDSK_QUERIES, MDSK_KEYS] */
    float *o;      /* [RUN, width] sums of p v, not yet divided */
    float *max;    /* [RUN] */
    float *sum;    /* [RUN] */
    float *mask;
    int64_t width; /* D in whole panels */
};

static int64_t room_floats(int64_t D)
{
    return (2 * MDSK_KEYS + RUN) * mdsk_panels(D) + MDSK_QUERIES * MDSK_KEYS + 2 * RUN +
           MDSK_KEYS + 2 * MDSK_MASK_SPAN;
}

static struct room room_at(float *at, int64_t D)
{
    struct room w = {.width = mdsk_panels(D)};

    w.keys = at;
    w.values = w.keys + MDSK_KEYS * w.width;
    w.p = w.values + MDSK_KEYS * w.width;
    w.o = w.p + MDSK_QUERIES * MDSK_KEYS;
    w.max = w.o + RUN * w.width;
    w.sum = w.max + RUN;
    w.mask = w.sum + RUN;
    return w;
}

/* One row of scores becomes probabilities relative to its maximum so far, and what was
 * summed under an older maximum is scaled down to it. */
MDSK_DISPATCH static void softmax_row(float *p, int64_t seen, int64_t n, float scale,
                                      float *max, float *sum, float *o, int64_t width)
{
    float old = *max, top = -INFINITY, total = 0, shrink;

#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < seen; j++) {
        p[j] *= scale;
        top = p[j] > top ? p[j] : top;
    }
    top = top > old ? top : old;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < seen; j++) {
        p[j] = mdsk_expf(p[j] - top);
        total += p[j];
    }
    for (int64_t j = seen; j < n; j++)
        p[j] = 0;
    shrink = mdsk_expf(old - top);
    if (top > old) {
#pragma omp simd
        for (int64_t d = 0; d < width; d++)
            o[d] *= shrink;
    }
    *max = top;
    *sum = *sum * shrink + total;
}

MDSK_DISPATCH static void apply_mask(float *p, int64_t n, const float *mask)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        p[j] *= mask[j];
}

/* The pair's scores, softmax and product with the values; `row` is its first row in the
 * run, `packed` the keys of the block. */
static void attend(const struct mdsk_attention_fwd *a, const struct mdsk_pair *pair,
                   const struct room *w, int64_t row, int64_t packed)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_tile_a q = {mdsk_head(&a->q, pair->b, pair->i, pair->h),
                            a->q.token_stride, 1};
    struct mdsk_tile_a p = {w->p, MDSK_KEYS, 1};
    struct mdsk_tile_b k = {w->keys, s->D}, v = {w->values, packed};

    mdsk_tile_mm(pair->m, pair->n, s->D, &q, &k, w->p, MDSK_KEYS, 0);
    for (int64_t r = 0; r < pair->m; r++) {
        int64_t seen = mdsk_pair_seen(s, pair, r);

        softmax_row(w->p + r * MDSK_KEYS, seen, pair->n, s->scale, &w->max[row + r],
                    &w->sum[row + r], w->o + (row + r) * w->width, w->width);
        if (s->dropout.p > 0)
            apply_mask(w->p + r * MDSK_KEYS, seen, mdsk_pair_mask(s, pair, r, w->mask));
    }
    mdsk_tile_mm(pair->m, s->D, pair->n, &p, &v, w->o + row * w->width, w->width, 1);
}

MDSK_DISPATCH static void divide(int64_t n, const float *x, float by, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / by;
}

/* Queries first .. last-1 of head h of sequence b. */
static void run(const struct mdsk_attention_fwd *a, int64_t b, int64_t h, int64_t first,
                int64_t last, const struct room *w)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t keys = mdsk_min(s->Sk, last + s->q_offset), g = h / (s->A / s->G);

    memset(w->o, 0, (size_t)(RUN * w->width) * sizeof *w->o);
    for (int64_t r = 0; r < last - first; r++) {
        w->max[r] = -INFINITY;
        w->sum[r] = 0;
    }
    for (int64_t j = 0; j < keys; j += MDSK_KEYS) {
        int64_t n = mdsk_min(MDSK_KEYS, keys - j);

        mdsk_tile_pack(s->D, n, mdsk_head(&a->k, b, j, g), 1, a->k.token_stride,
                       w->keys);
        mdsk_tile_pack(n, s->D, mdsk_head(&a->v, b, j, g), a->v.token_stride, 1,
                       w->values);
        for (int64_t i = first; i < last; i += MDSK_QUERIES) {
            struct mdsk_pair pair = {.b = b, .h = h, .i = i, .j = j};

            mdsk_pair_clip(s, &pair);
            if (pair.n > 0)
                attend(a, &pair, w, i - first, n);
        }
    }
    for (int64_t r = 0; r < last - first; r++) {
        divide(s->D, w->o + r * w->width, w->sum[r], mdsk_head(&a->o, b, first + r, h));
        a->lse[(b * s->A + h) * s->Sq + first + r] = w->max[r] + logf(w->sum[r]);
    }
}

/* Long runs of a causal mask come first, so that the last to finish is a short one. */
int mdsk_attention_fwd_cpu(void *stream, const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t runs = mdsk_ceil_div(s->Sq, RUN), heads = s->B * s->A;
    int64_t floats = room_floats(s->D);
    int threads = mdsk_threads_for(heads * s->Sq * s->D);
    float *room = mdsk_scratch(threads * floats);

    (void)stream;
    if (!room)
        return -ENOMEM;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t t = 0; t < runs * heads; t++) {
        struct room w = room_at(room + omp_get_thread_num() * floats, s->D);
        int64_t first = (runs - 1 - t / heads) * RUN, h = t % heads;

        run(a, h / s->A, h % s->A, first, mdsk_min(first + RUN, s->Sq), &w);
    }
    return 0;
}
