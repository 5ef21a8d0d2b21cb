/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/batch.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "data/best_fit.h"
#include "infer/marginals.h"
#include "infer/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sequence: where its tokens are among all, and where it stands in its row.
 *
 * The first `shared` ones are those of item `head`, which is in the same row before it,
 * and only the others stand there, as a document that goes on behind them (struct
 * mds_engine_rows).  The last token of the prefix is among the others: what
 * follows it is predicted by its row.  A head is its own, and shares nothing. */
struct item {
    int64_t first, row, at;
    int64_t head, shared;
    int64_t span; /* a head's: tokens of its row, with those of which it is the head */
    int64_t end;  /* where these end so far, while rows are filled */
    int64_t next; /* a head's: another one, where this one's row is full; or -1 */
};

/* Of a sequence that begins with less than such a part of another one all is computed:
 * it costs copies and a call of attention to share it. */
enum { LEAST_SHARE = 16 };

struct mds_infer_batch {
    struct mds_infer_model *m; /* borrowed */
    int64_t S, row;            /* tokens that a row evaluates, and that it has: S + 1 */
    int64_t most;              /* tokens of sequences in a row */
    int shares;                /* what sequences begin with, in longer rows */
    int64_t micro, accumulation, replicas;
    int64_t full; /* rows that are worth a run: whole steps */
    int32_t *ids; /* [tokens], of all sequences */
    double *loglik;
    int64_t tokens, room;
    int64_t in_rows;    /* of these tokens, those that are not shared */
    double all, shared; /* tokens of all runs */
    int64_t alone; /* sequences of more than half a row: no two of them share one */
    struct item *item;
    int32_t *length;
    int64_t items, item_room;
    int64_t *used;                     /* tokens in each row of the last run */
    int32_t *token, *start, *position; /* [accumulation, micro, S + 1]: this replica's
                                          rows */
    double *loss;                      /* [replicas, accumulation, micro, S] */
    struct mds_infer_words words;      /* on rank 0: of all tokens of sequences */
    struct mds_infer_marginals marginals; /* likewise */
    struct mds_infer_reader reader;
    struct mds_progress progress; /* of a step */
};

enum mds_rc mds_infer_batch_create(struct mds_infer_model *m,
                                   struct mds_infer_batch **out)
{
    const struct mds_config *c = &m->run->config;
    struct mds_infer_batch *b = mds_zalloc(1, sizeof *b);
    enum mds_rc rc = MDS_OK;
    size_t own;

    if (!b)
        return MDS_EMEM;
    b->m = m;
    b->S = c->model.seq_length;
    b->row = b->S + 1;
    b->most = c->train.token_losses ? b->row : b->S;
    b->shares = c->train.shared_prefixes;
    b->micro = c->batch.micro;
    b->accumulation = c->batch.accumulation;
    b->replicas = mds_groups_size(&m->groups, MDS_AXIS_DATA);
    own = (size_t)(b->accumulation * b->micro);
    b->full = MDS_INFER_BATCH_STEPS * b->replicas * (int64_t)own;
    b->token = mds_zalloc(own * (size_t)b->row, sizeof *b->token);
    b->start = mds_zalloc(own * (size_t)b->row, sizeof *b->start);
    b->position = mds_zalloc(own * (size_t)b->row, sizeof *b->position);
    if (c->train.token_losses)
        b->loss = mds_zalloc((size_t)b->replicas * own * (size_t)b->S, sizeof *b->loss);
    if (!b->token || !b->start || !b->position || (c->train.token_losses && !b->loss))
        rc = MDS_EMEM;
    if (!rc && c->train.hidden == MDS_HIDDEN_LOGITS &&
        mds_tokenizer_bases(m->vocabulary.tokenizer) <= MDS_INFER_WORD_BASES)
        rc = mds_infer_words_init(&b->words, m->vocabulary.tokenizer);
    if (!rc && m->marginal_bases)
        rc = mds_infer_marginals_init(&b->marginals, &m->vocabulary);
    if (rc)
        mds_infer_batch_destroy(b);
    else
        *out = b;
    return rc;
}

void mds_infer_batch_read_by(struct mds_infer_batch *b, struct mds_infer_reader r)
{
    b->reader = r;
}

void mds_infer_batch_destroy(struct mds_infer_batch *b)
{
    if (!b)
        return;
    free(b->ids);
    free(b->loglik);
    free(b->item);
    free(b->length);
    free(b->used);
    free(b->token);
    free(b->start);
    free(b->position);
    free(b->loss);
    mds_infer_words_fini(&b->words);
    mds_infer_marginals_fini(&b->marginals);
    free(b);
}

/* ---- sequences that wait ---- */

static enum mds_rc grow_tokens(struct mds_infer_batch *b, int64_t n)
{
    int64_t room = mds_max(2 * b->room, b->tokens + n);

    if (b->tokens + n <= b->room)
        return MDS_OK;
    MDS_TRY(mds_resize(&b->ids, (size_t)room, sizeof *b->ids));
    MDS_TRY(mds_resize(&b->loglik, (size_t)room, sizeof *b->loglik));
    if (b->words.n > 0)
        MDS_TRY(mds_infer_words_resize(&b->words, room));
    if (b->marginals.bases > 0)
        MDS_TRY(mds_infer_marginals_resize(&b->marginals, room));
    b->room = room;
    return MDS_OK;
}

/* it: its head, and what it shares with that. */
static enum mds_rc add(struct mds_infer_batch *b, const int32_t *ids, int64_t n,
                       struct item it, int64_t *item)
{
    int64_t room = b->item_room;
    struct item *head;

    if (n < 1 || n > b->most)
        return mds_fail(MDS_EBUG,
                        "a sequence of %" PRId64 " tokens, in rows of %" PRId64, n,
                        b->most);
    MDS_TRY(grow_tokens(b, n));
    MDS_TRY(mds_reserve(&b->item, &room, b->items + 1, sizeof *b->item));
    MDS_TRY(mds_reserve(&b->length, &b->item_room, b->items + 1, sizeof *b->length));
    memcpy(b->ids + b->tokens, ids, (size_t)n * sizeof *ids);
    it.first = b->tokens;
    it.next = -1;
    b->item[b->items] = it;
    b->length[b->items] = (int32_t)n;
    b->tokens += n;
    b->in_rows += n - it.shared;
    b->all += (double)n;
    b->shared += (double)it.shared;
    head = &b->item[it.head];
    b->alone -= 2 * head->span > b->most;
    head->span += n - it.shared;
    b->alone += 2 * head->span > b->most;
    *item = b->items++;
    return MDS_OK;
}

enum mds_rc mds_infer_batch_add(struct mds_infer_batch *b, const int32_t *ids,
                                int64_t n, int64_t *item)
{
    return add(b, ids, n, (struct item){.head = b->items}, item);
}

/* Tokens that ids [n] can share with a head. */
static int64_t shared_with(const struct mds_infer_batch *b, int64_t head,
                           const int32_t *ids, int64_t n)
{
    const int32_t *other = b->ids + b->item[head].first;
    int64_t most = mds_min(n, b->length[head]), same = 0;

    while (same < most && ids[same] == other[same])
        same++;
    return same - 1;
}

enum mds_rc mds_infer_batch_add_beside(struct mds_infer_batch *b, int64_t beside,
                                       const int32_t *ids, int64_t n, int64_t *item)
{
    int64_t head = b->item[beside].head, last = head;

    for (; b->shares && head >= 0; head = b->item[head].next) {
        int64_t shared = shared_with(b, head, ids, n);

        last = head;
        if (LEAST_SHARE * shared >= n && b->item[head].span + n - shared <= b->most)
            return add(b, ids, n, (struct item){.head = head, .shared = shared}, item);
    }
    MDS_TRY(mds_infer_batch_add(b, ids, n, item));
    b->item[last].next = *item;
    return MDS_OK;
}

double mds_infer_batch_shared(const struct mds_infer_batch *b)
{
    return b->all > 0 ? b->shared / b->all : 0;
}

int mds_infer_batch_is_full(const struct mds_infer_batch *b)
{
    const int64_t parts = 32; /* one of them stays empty in rows of many sequences */

    return b->alone >= b->full || b->in_rows >= b->full * b->most / parts * (parts - 1);
}

const double *mds_infer_batch_loglik(const struct mds_infer_batch *b, int64_t item)
{
    return b->loglik + b->item[item].first;
}

/* Where what the model says behind token i of an item is kept. */
static int64_t place_of(const struct mds_infer_batch *b, int64_t item, int64_t i)
{
    const struct item *it = &b->item[item];

    return i + (i < it->shared ? b->item[it->head].first : it->first);
}

int mds_infer_batch_bases(const struct mds_infer_batch *b, int64_t item, int64_t i,
                          double *out)
{
    return b->marginals.bases > 0 &&
           mds_infer_marginals_of(&b->marginals, place_of(b, item, i - 1),
                                  b->ids[b->item[item].first + i], out);
}

int mds_infer_batch_counts(const struct mds_infer_batch *b, int64_t item, int64_t i)
{
    const int32_t *ids = b->ids + b->item[item].first;

    return i > 0 && ids[i] != mds_tokenizer_unknown(b->m->vocabulary.tokenizer);
}

struct mds_infer_sum mds_infer_batch_sum(const struct mds_infer_batch *b, int64_t item)
{
    const double *loglik = mds_infer_batch_loglik(b, item);
    struct mds_infer_sum s = {0, 0};

    for (int64_t i = 1; i < b->length[item]; i++) {
        if (!mds_infer_batch_counts(b, item, i))
            continue;
        s.loglik += loglik[i];
        s.tokens++;
    }
    return s;
}

double mds_infer_batch_divergence(const struct mds_infer_batch *b, int64_t item,
                                  int64_t other)
{
    int64_t x = b->item[item].first, y = b->item[other].first;
    int64_t n = b->length[item] - 1, first = 0; /* nothing is behind the last token */
    double sum = 0;

    if (b->words.n == 0)
        return NAN;
    while (first < n && b->ids[x + first] == b->ids[y + first])
        first++;
    for (int64_t i = first; i < n; i++)
        sum += mds_infer_words_divergence(&b->words, x + i, y + i);
    return first < n ? sum / (double)(n - first) : NAN;
}

void mds_infer_batch_clear(struct mds_infer_batch *b)
{
    b->items = b->tokens = b->in_rows = b->alone = 0;
}

/* ---- rows ---- */

/* span[heads]: of all heads, in their order. */
static int64_t list_spans(const struct mds_infer_batch *b, int32_t *span)
{
    int64_t heads = 0;

    for (int64_t i = 0; i < b->items; i++)
        if (b->item[i].head == i)
            span[heads++] = (int32_t)b->item[i].span;
    return heads;
}

/* bin: the row of each head.  What goes on behind a head's beginning follows the head,
 * and comes after it among the items. */
static void place_items(struct mds_infer_batch *b, const int64_t *bin)
{
    for (int64_t i = 0; i < b->items; i++) {
        struct item *it = &b->item[i], *head = &b->item[it->head];

        if (it == head) {
            it->row = *bin++;
            it->end = b->used[it->row];
            b->used[it->row] += it->span;
        }
        it->row = head->row;
        it->at = head->end;
        head->end += b->length[i] - it->shared;
    }
}

/* Rows in the order in which they are evaluated, and the place of each sequence. */
static enum mds_rc pack(struct mds_infer_batch *b, int64_t *rows)
{
    int64_t *bin = mds_zalloc((size_t)b->items, sizeof *bin);
    int32_t *span = mds_zalloc((size_t)b->items, sizeof *span);
    enum mds_rc rc = bin && span ? MDS_OK : MDS_EMEM;

    free(b->used);
    b->used = NULL;
    if (!rc)
        rc = mds_best_fit(span, list_spans(b, span), b->most, bin, rows);
    if (!rc)
        b->used = mds_zalloc((size_t)*rows, sizeof *b->used);
    if (!rc && !b->used)
        rc = MDS_EMEM;
    if (!rc)
        place_items(b, bin);
    free(span);
    free(bin);
    return rc;
}

/* The rows of one step: rows first .. end - 1 of all.  Replica r has those from
 * first + r * each on; what is beyond the end stays empty. */
struct step {
    int64_t first, end, micro_batches, each;
};

static struct step next_step(const struct mds_infer_batch *b, int64_t first,
                             int64_t rows)
{
    int64_t at_once = b->replicas * b->micro;
    int64_t n = mds_min(mds_ceil_div(rows - first, at_once), b->accumulation);

    return (struct step){.first = first,
                         .end = mds_min(first + n * at_once, rows),
                         .micro_batches = n,
                         .each = n * b->micro};
}

/* A row with one sequence has no other document, so that any attention kernel will do:
 * what is behind its end changes nothing before it. */
static void put_item(struct mds_infer_batch *b, int64_t i, int64_t row)
{
    const struct item *it = &b->item[i];
    int64_t at = row * b->row + it->at, n = b->length[i] - it->shared;

    memcpy(b->token + at, b->ids + it->first + it->shared,
           (size_t)n * sizeof *b->token);
    for (int64_t k = at; k < at + n; k++) {
        b->start[k] = (int32_t)it->at;
        b->position[k] = (int32_t)(it->at - it->shared);
    }
}

/* What is behind the last of several sequences is a document of its own, all of
 * which is at position 0: rows may be longer than a table of positions. */
static void end_row(struct mds_infer_batch *b, int64_t row, int64_t used)
{
    int32_t *start = b->start + row * b->row;

    for (int64_t k = used; start[used - 1] > 0 && k < b->row; k++)
        start[k] = (int32_t)used;
}

static void put_rows(struct mds_infer_batch *b, const struct step *s)
{
    int64_t own = mds_groups_rank(&b->m->groups, MDS_AXIS_DATA);
    int64_t first = s->first + own * s->each, tokens = s->each * b->row;

    for (int64_t i = 0; i < tokens; i++) {
        b->token[i] = -1;
        b->start[i] = 0;
        b->position[i] = (int32_t)(i % b->row);
    }
    for (int64_t i = 0; i < b->items; i++)
        if (b->item[i].row >= first && b->item[i].row < first + s->each)
            put_item(b, i, b->item[i].row - first);
    for (int64_t row = first; row < mds_min(first + s->each, s->end); row++)
        end_row(b, row - first, b->used[row]);
}

/* A target's loss is kept at the token before it, of what is shared with the head. */
static void take_losses(struct mds_infer_batch *b, const struct step *s)
{
    for (int64_t i = 0; i < b->items; i++) {
        const struct item *it = &b->item[i];
        const double *loss = b->loss + (it->row - s->first) * b->S + it->at;
        double *out = b->loglik + it->first;

        if (it->row < s->first || it->row >= s->end)
            continue;
        out[0] = 0;
        for (int64_t k = 1; k <= it->shared; k++)
            out[k] = b->loglik[b->item[it->head].first + k];
        for (int64_t k = it->shared + 1; k < b->length[i]; k++)
            out[k] = -loss[k - it->shared - 1];
    }
}

/* Sums over bases in place of the losses of their tokens. */
static void take_bases(struct mds_infer_batch *b, const struct step *s)
{
    for (int64_t i = 0; i < b->items; i++) {
        double *out = b->loglik + b->item[i].first, base[MDS_INFER_MARGINAL_BASES];

        if (b->item[i].row < s->first || b->item[i].row >= s->end)
            continue;
        for (int64_t k = 1; k < b->length[i]; k++) {
            if (!mds_infer_batch_bases(b, i, k, base))
                continue;
            out[k] = 0;
            for (int j = 0; j < b->marginals.bases; j++)
                out[k] += base[j];
        }
    }
}

struct reading {
    struct mds_infer_batch *b;
    const struct step *s;
};

/* Tokens first .. first + n - 1 of an item. */
static enum mds_rc read_tokens(struct mds_infer_batch *b,
                               const struct mds_engine_hidden *p, int64_t item,
                               int64_t first, int64_t n, const float *values)
{
    if (b->reader.read)
        return b->reader.read(b->reader.ctx, item, first, n, values);
    for (int64_t i = 0; i < n; i++) {
        int64_t token = b->item[item].first + first + i;
        const float *logits = values + i * p->columns;

        if (b->words.n > 0)
            mds_infer_words_put(&b->words, token, p->column, p->columns, logits);
        if (b->marginals.bases > 0)
            mds_infer_marginals_put(&b->marginals, token, p->column, p->columns,
                                    logits);
    }
    return MDS_OK;
}

/* What of this part belongs to sequences. */
static enum mds_rc read_part(void *ctx, const struct mds_engine_hidden *p)
{
    const struct reading *r = ctx;
    struct mds_infer_batch *b = r->b;
    int64_t row =
        r->s->first + p->replica * r->s->each + p->micro_batch * b->micro + p->row;

    for (int64_t i = 0; i < b->items; i++) {
        const struct item *it = &b->item[i];
        int64_t first = mds_max(p->first, it->at);
        int64_t end = it->at + b->length[i] - it->shared;
        int64_t n = mds_min(p->first + p->n, end) - first;

        if (it->row == row && n > 0)
            MDS_TRY(read_tokens(b, p, i, first - it->at + it->shared, n,
                                p->values + (first - p->first) * p->columns));
    }
    return MDS_OK;
}

static const double first_report_s = 30;

/* A document of millions of tokens is one step. */
static void report_block(void *ctx, const struct mds_step_position *at)
{
    struct mds_infer_batch *b = ctx;
    int due = mds_progress_is_due(&b->progress);

    mds_log(due ? MDS_LOG_INFO : MDS_LOG_DEBUG,
            "rows of %" PRId64 " tokens: %.0f s so far, layer %d of %" PRId64
            ", micro-batch %d of %" PRId64,
            b->S, mds_clock_s() - b->progress.began_s, at->layer + 1,
            b->m->run->config.model.layers, at->micro_batch + 1, b->accumulation);
}

static enum mds_rc run_step(struct mds_infer_batch *b, const struct step *s,
                            struct mds_kind_losses *sums)
{
    const struct mds_engine_rows rows = {
        .token = b->token, .start = b->start, .position = b->position};

    put_rows(b, s);
    b->progress = mds_progress_doubling(first_report_s);
    mds_engine_report_to(b->m->engine, report_block, b);
    MDS_TRY(mds_engine_eval(b->m->engine, &rows, s->micro_batches, sums));
    if (b->m->run->config.train.hidden)
        MDS_TRY(mds_engine_each_hidden(b->m->engine, s->micro_batches, read_part,
                                       &(struct reading){b, s}));
    if (!b->loss)
        return MDS_OK;
    MDS_TRY(mds_engine_token_losses(b->m->engine, s->micro_batches, b->loss));
    take_losses(b, s);
    if (b->marginals.bases > 0 && b->m->world.rank == 0)
        take_bases(b, s);
    return MDS_OK;
}

enum mds_rc mds_infer_batch_run(struct mds_infer_batch *b)
{
    struct mds_kind_losses *sums;
    int64_t rows = 0;
    struct step s = {0};
    enum mds_rc rc;

    if (b->items == 0)
        return MDS_OK;
    sums = mds_zalloc((size_t)b->accumulation, sizeof *sums);
    rc = sums ? pack(b, &rows) : MDS_EMEM;
    while (!rc && s.end < rows) {
        s = next_step(b, s.end, rows);
        rc = mds_infer_model_may_leave(b->m);
        if (!rc)
            rc = run_step(b, &s, sums);
    }
    free(sums);
    return rc;
}
