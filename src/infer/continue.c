/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/continue.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "kernels/next_token.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Prompts of one length: of B rows, the first `own` continue a prompt of this rank.
 * Others are there because ranks in step have as many, and read `first`. */
struct batch {
    const struct mds_infer_prompt *prompt, *first;
    int64_t B, own;
};

/* A batch on its way. */
struct flight {
    struct batch b; /* B 0: none */
    int64_t first;  /* the place of the next token */
    int32_t *token; /* [B]: which that is; on the last stage, before others learn it */
    char *ended;    /* [B] */
    int32_t *ahead; /* [MDSK_TOKENS_AHEAD, B]: tokens that are known already: */
    int64_t known, used; /* so many, the first of which were taken */
};

struct work {
    struct mds_infer_model *m;
    const struct mds_infer_sampling *s;
    struct mds_comm *stages;
    /* If weights or experts are spread over replicas these go in step, with passes of
     * the same shape: so many, of which this is number of_step.  Else in_step is 1, and
     * they take batches in turn. */
    int64_t in_step, of_step;
    int32_t *made;
    int32_t *piece; /* [prefill, B] */
    float *logits;  /* [B, vocab] */
    struct mds_infer_candidate *candidate;
    struct flight *flight; /* [flights]: so many that no stage waits for another */
    int64_t flights;
    const struct mds_infer_prompt *prompt; /* those that are not on their way yet */
    int64_t left, batches;                 /* so many; batches before them */
};

static enum mds_rc alloc_work(struct work *w)
{
    const struct mds_config *c = &w->m->run->config;
    size_t B = (size_t)c->batch.micro, vocab = (size_t)c->model.vocab;
    int ok;

    w->flights = c->batch.accumulation;
    w->piece = mds_zalloc((size_t)c->train.prefill * B, sizeof *w->piece);
    w->logits = mds_zalloc(B * vocab, sizeof *w->logits);
    w->candidate = mds_zalloc(vocab, sizeof *w->candidate);
    w->flight = mds_zalloc((size_t)w->flights, sizeof *w->flight);
    ok = w->piece && w->logits && w->candidate && w->flight;
    for (int64_t i = 0; ok && i < w->flights; i++) {
        w->flight[i].token = mds_zalloc(B, sizeof *w->flight->token);
        w->flight[i].ended = mds_zalloc(B, 1);
        w->flight[i].ahead = mds_zalloc(B * MDSK_TOKENS_AHEAD, sizeof(int32_t));
        ok = w->flight[i].token && w->flight[i].ended && w->flight[i].ahead;
    }
    return ok ? MDS_OK : MDS_EMEM;
}

/* Whether a pass of one replica needs the others. */
static int goes_in_step(const struct mds_parallel_config *p)
{
    return (p->zero_stage == 3 && p->data > 1) || p->ulysses * p->ring % p->expert != 0;
}

static void free_work(struct work *w)
{
    for (int64_t i = 0; w->flight && i < w->flights; i++) {
        free(w->flight[i].token);
        free(w->flight[i].ended);
        free(w->flight[i].ahead);
    }
    free(w->piece);
    free(w->logits);
    free(w->candidate);
    free(w->flight);
}

/* ---- one batch ---- */

static struct mds_engine_tokens tokens_of(const struct work *w, const struct flight *f)
{
    return (struct mds_engine_tokens){.B = f->b.B,
                                      .batch = f - w->flight,
                                      .first = f->first,
                                      .n = 1,
                                      .token = f->token};
}

static const struct mds_infer_prompt *row_prompt(const struct batch *b, int64_t row)
{
    return row < b->own ? &b->prompt[row] : b->first;
}

/* Leaves the logits of what follows. */
static enum mds_rc read_prompts(struct work *w, struct flight *f)
{
    const struct batch *b = &f->b;
    const double first_report_s = 30;
    struct mds_progress progress = mds_progress_doubling(first_report_s);
    int64_t n = b->first->n, most = w->m->run->config.train.prefill;

    for (f->first = 0; f->first < n;) {
        struct mds_engine_tokens t = tokens_of(w, f);

        t.token = w->piece;
        t.n = mds_min(most, n - t.first);
        for (int64_t i = 0; i < t.n * b->B; i++)
            w->piece[i] = row_prompt(b, i % b->B)->ids[t.first + i / b->B];
        f->first += t.n;
        if (mds_progress_is_due(&progress))
            mds_info("%.0f s so far for a prompt: token %" PRId64 " of %" PRId64,
                     mds_clock_s() - progress.began_s, t.first, n);
        MDS_TRY(mds_engine_decode(w->m->engine, &t, f->first == n ? w->logits : NULL));
    }
    return MDS_OK;
}

static int is_last_stage(const struct work *w)
{
    return mds_comm_rank(w->stages) == mds_comm_size(w->stages) - 1;
}

static enum mds_rc check_token(const struct work *w, const struct flight *f, int64_t i)
{
    const struct mds_infer_prompt *p = &f->b.prompt[i];

    if (f->token[i] >= 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: logits behind token %" PRId64 " of prompt %" PRId64
                    " are not finite numbers; in fp16 try --dtype bf16",
                    w->m->path, p->n + w->made[p->at], p->number + 1);
}

static enum mds_rc draw_token(struct work *w, struct flight *f, int64_t i)
{
    const struct mds_infer_prompt *p = &f->b.prompt[i];
    int64_t vocab = w->m->run->config.model.vocab, place = p->n + w->made[p->at];
    double u = 0;

    if (w->s->temperature > 0)
        u = mds_infer_uniform(w->s->seed, p->number, p->sample, place);
    f->token[i] = mds_infer_sample(w->s, w->logits + i * vocab, vocab, u, w->candidate);
    return check_token(w, f, i);
}

/* The next tokens, by what the model said last. */
static enum mds_rc draw_tokens(struct work *w, struct flight *f)
{
    for (int64_t i = 0; is_last_stage(w) && i < f->b.B; i++)
        if (!f->ended[i])
            MDS_TRY(draw_token(w, f, i));
    return MDS_OK;
}

static void take_token(const struct work *w, struct flight *f, int64_t i)
{
    const struct mds_infer_prompt *p = &f->b.prompt[i];
    int32_t *made = w->made + p->at;

    f->ended[i] = f->token[i] == w->m->vocabulary.eod;
    if (f->ended[i])
        return;
    made[1 + (*made)++] = f->token[i];
    f->ended[i] = *made == p->want;
}

/* All stages learn what the last one drew.  The flight is over if all sequences have
 * ended, in step also those of the other replicas; those that did before go on until
 * then, unnoticed. */
static enum mds_rc take_tokens(const struct work *w, struct flight *f)
{
    double left = 0;

    MDS_TRY(mds_comm_broadcast(w->stages, f->token, f->b.B * (int64_t)sizeof *f->token,
                               mds_comm_size(w->stages) - 1));
    for (int64_t i = 0; i < f->b.B; i++) {
        if (!f->ended[i])
            take_token(w, f, i);
        left += !f->ended[i];
    }
    if (w->in_step > 1)
        MDS_TRY(mds_comm_all_reduce_f64(mds_group(&w->m->groups, MDS_AXES_TOKENS),
                                        &left, 1, MDS_COMM_MAX));
    if (left == 0)
        f->b.B = 0;
    return MDS_OK;
}

static enum mds_rc begin_flight(struct work *w, struct flight *f, struct batch b)
{
    f->b = b;
    f->known = f->used = 0;
    memset(f->ended, 1, (size_t)b.B);
    memset(f->ended, 0, (size_t)b.own);
    MDS_TRY(read_prompts(w, f));
    return draw_tokens(w, f);
}

/* Up to so many likeliest tokens at once, but none that nobody wants. */
static enum mds_rc know_tokens(struct work *w, struct flight *f, int64_t most)
{
    struct mds_engine_tokens t = tokens_of(w, f);
    int64_t want = 0;

    for (int64_t i = 0; i < f->b.B; i++)
        if (!f->ended[i])
            want = mds_max(want, f->b.prompt[i].want - w->made[f->b.prompt[i].at]);
    f->known = mds_min(most, want);
    f->used = 0;
    return mds_engine_decode_ahead(w->m->engine, &t, f->known, f->ahead);
}

static enum mds_rc take_known(struct work *w, struct flight *f)
{
    memcpy(f->token, f->ahead + f->used++ * f->b.B, (size_t)f->b.B * sizeof *f->token);
    for (int64_t i = 0; i < f->b.B; i++)
        if (!f->ended[i])
            MDS_TRY(check_token(w, f, i));
    return MDS_OK;
}

static enum mds_rc continue_flight(struct work *w, struct flight *f)
{
    int64_t ahead = w->s->temperature > 0 ? 0 : mds_engine_tokens_ahead(w->m->engine);
    struct mds_engine_tokens t;

    MDS_TRY(take_tokens(w, f));
    if (f->b.B == 0)
        return MDS_OK;
    t = tokens_of(w, f);
    if (ahead > 0 && f->used == f->known)
        MDS_TRY(know_tokens(w, f, ahead));
    f->first++;
    if (f->used < f->known)
        return take_known(w, f);
    MDS_TRY(mds_engine_decode(w->m->engine, &t, w->logits));
    return draw_tokens(w, f);
}

/* ---- all of them ---- */

static int compare(const void *a, const void *b)
{
    const struct mds_infer_prompt *x = a, *y = b;

    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* Those of one length from the first that is left on, of which replicas in step have
 * equal parts. */
static struct batch next_batch(struct work *w)
{
    int64_t most = mds_min(w->left, w->in_step * w->m->run->config.batch.micro), n = 0;
    struct batch b = {.first = w->prompt};
    int64_t at;

    while (n < most && b.first[n].n == b.first->n)
        n++;
    b.B = mds_ceil_div(n, w->in_step);
    at = mds_min(w->of_step * b.B, n);
    b.prompt = b.first + at;
    b.own = mds_min(b.B, n - at);
    w->prompt += n;
    w->left -= n;
    w->batches++;
    return b;
}

/* This replica's next one; B 0: there is none. */
static struct batch next_own_batch(struct work *w)
{
    int64_t replicas = mds_groups_size(&w->m->groups, MDS_AXIS_DATA) / w->in_step;
    int64_t own = mds_groups_rank(&w->m->groups, MDS_AXIS_DATA) / w->in_step;
    struct batch b;

    do
        b = next_batch(w);
    while (b.B > 0 && (w->batches - 1) % replicas != own);
    return b;
}

/* A token of each batch in turn: while a stage computes it, those before it have the
 * next ones. */
static enum mds_rc run_own(struct work *w)
{
    int64_t flying;

    do {
        flying = 0;
        for (int64_t i = 0; i < w->flights; i++) {
            struct flight *f = &w->flight[i];
            struct batch b = {.B = 0};

            if (f->b.B > 0)
                MDS_TRY(continue_flight(w, f));
            if (f->b.B == 0)
                b = next_own_batch(w);
            if (b.B > 0)
                MDS_TRY(begin_flight(w, f, b));
            flying += f->b.B;
        }
    } while (flying > 0);
    return mds_engine_decode_end(w->m->engine);
}

/* Each token was made by one replica, and all its ranks have the same. */
static enum mds_rc gather(const struct mds_infer_model *m, int32_t *made, int64_t size)
{
    struct mds_comm *world = mds_group(&m->groups, MDS_AXES_ALL);
    int ranks = mds_comm_size(world);
    int32_t *all;
    enum mds_rc rc;

    if (mds_groups_size(&m->groups, MDS_AXIS_DATA) == 1)
        return MDS_OK;
    all = mds_zalloc((size_t)ranks * (size_t)size, sizeof *all);
    if (!all)
        return MDS_EMEM;
    if (mds_groups_rank(&m->groups, MDS_AXES_ALL & ~(unsigned)MDS_AXIS_DATA) > 0)
        memset(made, 0, (size_t)size * sizeof *made);
    rc = mds_comm_all_gather(world, made, all, size * (int64_t)sizeof *made);
    memset(made, 0, (size_t)size * sizeof *made);
    for (int64_t i = 0; !rc && i < ranks * size; i++)
        made[i % size] += all[i];
    free(all);
    return rc;
}

enum mds_rc mds_infer_continue(struct mds_infer_model *m,
                               const struct mds_infer_sampling *s,
                               struct mds_infer_prompt *prompt, int64_t n,
                               int32_t *made, int64_t size)
{
    struct work w = {.m = m,
                     .s = s,
                     .stages = mds_group(&m->groups, MDS_AXIS_PIPELINE),
                     .in_step = 1,
                     .made = made,
                     .prompt = prompt,
                     .left = n};
    enum mds_rc rc = alloc_work(&w);

    if (goes_in_step(&m->run->config.parallel)) {
        w.in_step = mds_groups_size(&m->groups, MDS_AXIS_DATA);
        w.of_step = mds_groups_rank(&m->groups, MDS_AXIS_DATA);
    }
    qsort(prompt, (size_t)n, sizeof *prompt, compare);
    if (!rc)
        rc = run_own(&w);
    free_work(&w);
    return rc ? rc : gather(m, made, size);
}
