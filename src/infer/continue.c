/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/continue.h"
#include "base/alloc.h"
#include "base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct work {
    struct mds_infer_model *m;
    const struct mds_infer_sampling *s;
    int32_t *made;
    int32_t *token; /* [prefill, B] */
    float *logits;  /* [B, vocab] */
    struct mds_infer_candidate *candidate;
    char *ended; /* [B] */
};

/* Prompts of one length. */
struct batch {
    const struct mds_infer_prompt *prompt;
    int64_t B;
};

static enum mds_rc alloc_work(struct work *w)
{
    const struct mds_config *c = &w->m->run->config;
    size_t B = (size_t)c->batch.micro, vocab = (size_t)c->model.vocab;

    w->token = mds_zalloc((size_t)c->train.prefill * B, sizeof *w->token);
    w->logits = mds_zalloc(B * vocab, sizeof *w->logits);
    w->candidate = mds_zalloc(vocab, sizeof *w->candidate);
    w->ended = mds_zalloc(B, 1);
    return w->token && w->logits && w->candidate && w->ended ? MDS_OK : MDS_EMEM;
}

static void free_work(struct work *w)
{
    free(w->token);
    free(w->logits);
    free(w->candidate);
    free(w->ended);
}

/* ---- one batch ---- */

/* Leaves the logits of what follows. */
static enum mds_rc read_prompts(struct work *w, const struct batch *b)
{
    int64_t n = b->prompt->n, most = w->m->run->config.train.prefill;

    for (int64_t first = 0; first < n; first += most) {
        struct mds_engine_tokens t = {.B = b->B, .first = first, .token = w->token};

        t.n = mds_min(most, n - first);
        for (int64_t i = 0; i < t.n * b->B; i++)
            w->token[i] = b->prompt[i % b->B].ids[first + i / b->B];
        MDS_TRY(
            mds_engine_decode(w->m->engine, &t, first + t.n == n ? w->logits : NULL));
    }
    return MDS_OK;
}

/* The next token of sequence i, to w->token. */
static enum mds_rc choose_token(struct work *w, const struct mds_infer_prompt *p,
                                int64_t i)
{
    int64_t vocab = w->m->run->config.model.vocab;
    int32_t *made = w->made + p->at, id;
    double u = 0;

    if (w->s->temperature > 0)
        u = mds_infer_uniform(w->s->seed, p->number, p->sample, p->n + *made);
    id = mds_infer_sample(w->s, w->logits + i * vocab, vocab, u, w->candidate);
    if (id < 0)
        return mds_fail(MDS_EUSER,
                        "%s: logits behind token %" PRId64 " of prompt %" PRId64
                        " are not finite numbers; in fp16 try --dtype bf16",
                        w->m->path, p->n + *made, p->number + 1);
    w->token[i] = id;
    w->ended[i] = id == w->m->vocabulary.eod;
    if (w->ended[i])
        return MDS_OK;
    made[1 + (*made)++] = id;
    w->ended[i] = *made == p->want;
    return MDS_OK;
}

/* Those that have ended go on until all have, unnoticed. */
static enum mds_rc run_batch(struct work *w, const struct batch *b)
{
    struct mds_engine_tokens t = {
        .B = b->B, .first = b->prompt->n, .n = 1, .token = w->token};
    int64_t left;

    memset(w->ended, 0, (size_t)b->B);
    MDS_TRY(read_prompts(w, b));
    for (;; t.first++) {
        left = 0;
        for (int64_t i = 0; i < b->B; i++) {
            if (!w->ended[i])
                MDS_TRY(choose_token(w, &b->prompt[i], i));
            left += !w->ended[i];
        }
        if (left == 0)
            return MDS_OK;
        MDS_TRY(mds_engine_decode(w->m->engine, &t, w->logits));
    }
}

/* ---- all of them ---- */

static int compare(const void *a, const void *b)
{
    const struct mds_infer_prompt *x = a, *y = b;

    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* Those of one length from the first of n on. */
static struct batch next_batch(const struct mds_infer_prompt *prompt, int64_t n,
                               int64_t most)
{
    struct batch b = {.prompt = prompt, .B = 1};

    while (b.B < mds_min(n, most) && prompt[b.B].n == prompt->n)
        b.B++;
    return b;
}

static enum mds_rc run_own(struct work *w, const struct mds_infer_prompt *prompt,
                           int64_t n)
{
    int64_t replicas = mds_groups_size(&w->m->groups, MDS_AXES_BATCH);
    int64_t own = mds_groups_rank(&w->m->groups, MDS_AXES_BATCH);
    struct batch b;

    for (int64_t at = 0, k = 0; at < n; at += b.B, k++) {
        b = next_batch(prompt + at, n - at, w->m->run->config.batch.micro);
        if (k % replicas == own)
            MDS_TRY(run_batch(w, &b));
    }
    return MDS_OK;
}

/* Each token was made by one replica, and its tensor ranks have the same. */
static enum mds_rc gather(const struct mds_infer_model *m, int32_t *made, int64_t size)
{
    struct mds_comm *world = mds_group(&m->groups, MDS_AXES_ALL);
    int ranks = mds_comm_size(world);
    int32_t *all;
    enum mds_rc rc;

    if (mds_groups_size(&m->groups, MDS_AXES_BATCH) == 1)
        return MDS_OK;
    all = mds_zalloc((size_t)ranks * (size_t)size, sizeof *all);
    if (!all)
        return MDS_EMEM;
    if (mds_groups_rank(&m->groups, MDS_AXIS_TENSOR) > 0)
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
    struct work w = {.m = m, .s = s, .made = made};
    enum mds_rc rc = alloc_work(&w);

    qsort(prompt, (size_t)n, sizeof *prompt, compare);
    if (!rc)
        rc = run_own(&w, prompt, n);
    free_work(&w);
    return rc ? rc : gather(m, made, size);
}
