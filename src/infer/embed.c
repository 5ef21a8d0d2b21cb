/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/embed.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "infer/batch.h"
#include "infer/origin.h"
#include "infer/records.h"
#include "io/h5.h"
#include "io/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const mds_infer_pools[] = {"mean", "last", "none", NULL};

/* A sequence of one run of the batch. */
struct record {
    char *name;
    int64_t tokens, row, rows; /* row: its first one, of all */
    int64_t sum;               /* the same, of embedding.sum */
};

struct embedding {
    const struct mds_infer_embed *s;
    struct mds_infer_model *m;
    struct mds_infer_batch *batch;
    int64_t H;
    struct record *record;
    int64_t *of_item; /* [room]: the record of an item of the batch */
    int64_t records, room;
    int64_t rows;       /* of all sequences so far */
    double *sum;        /* [sums, H], of windows */
    int64_t sums;       /* 0 unless means are wanted */
    float *values;      /* [H] */
    int64_t done, none; /* sequences, and those without tokens */
    /* rank 0's */
    struct mds_str origin;
    struct mds_output out;
    struct mds_h5 *h5;
    struct mds_h5_dataset *hidden;
    struct mds_h5_dataset *start, *name;
};

static int writes(const struct embedding *g)
{
    return g->m->world.rank == 0;
}

/* Tokens that make a row; the sequence's unless windows are given. */
static int64_t window_of(const struct embedding *g, const struct record *r)
{
    if (g->s->pool == MDS_INFER_POOL_NONE)
        return 1;
    return g->s->window ? g->s->window : mds_max(r->tokens, 1);
}

/* ---- sequences that wait ---- */

static enum mds_rc add_record(struct embedding *g, const struct mds_infer_record *is)
{
    int64_t item, whole = !g->s->window && g->s->pool != MDS_INFER_POOL_NONE, w;
    int64_t room = g->room;
    struct record *r;

    MDS_TRY(mds_infer_model_check_length(g->m, "standard input", is->name, is->n,
                                         g->m->run->config.model.seq_length));
    MDS_TRY(mds_reserve(&g->record, &room, g->records + 1, sizeof *g->record));
    MDS_TRY(mds_reserve(&g->of_item, &g->room, g->records + 1, sizeof *g->of_item));
    r = &g->record[g->records];
    *r = (struct record){
        .name = mds_strdup(is->name), .tokens = is->n, .row = g->rows, .sum = g->sums};
    if (!r->name)
        return MDS_EMEM;
    w = window_of(g, r);
    r->rows = whole ? 1 : mds_ceil_div(is->n, w);
    g->records++;
    g->rows += r->rows;
    if (g->s->pool == MDS_INFER_POOL_MEAN)
        g->sums += r->rows;
    if (is->n == 0)
        return MDS_OK;
    MDS_TRY(mds_infer_batch_add(g->batch, is->ids, is->n, &item));
    g->of_item[item] = g->records - 1;
    return MDS_OK;
}

/* ---- results ---- */

static void add_to_means(struct embedding *g, const struct record *r, int64_t first,
                         int64_t n, const float *values)
{
    for (int64_t i = 0; i < n; i++) {
        double *sum = g->sum + (r->sum + (first + i) / window_of(g, r)) * g->H;

        for (int64_t h = 0; h < g->H; h++)
            sum[h] += (double)values[i * g->H + h];
    }
}

static enum mds_rc write_last(struct embedding *g, const struct record *r,
                              int64_t first, int64_t n, const float *values)
{
    int64_t w = window_of(g, r);

    for (int64_t i = 0; i < n; i++) {
        int64_t next = first + i + 1;

        if (next % w == 0 || next == r->tokens)
            MDS_TRY(mds_h5_dataset_write(g->hidden, r->row + (next - 1) / w, 1,
                                         values + i * g->H));
    }
    return MDS_OK;
}

static enum mds_rc read_part(void *ctx, int64_t item, int64_t first, int64_t n,
                             const float *values)
{
    struct embedding *g = ctx;
    const struct record *r = &g->record[g->of_item[item]];

    if (g->s->pool == MDS_INFER_POOL_NONE)
        return mds_h5_dataset_write(g->hidden, r->row + first, n, values);
    if (g->s->pool == MDS_INFER_POOL_LAST)
        return write_last(g, r, first, n, values);
    add_to_means(g, r, first, n, values);
    return MDS_OK;
}

static enum mds_rc write_means(struct embedding *g, const struct record *r)
{
    int64_t w = window_of(g, r);

    for (int64_t i = 0; i < r->rows; i++) {
        double n = (double)mds_min(w, r->tokens - i * w);

        for (int64_t h = 0; h < g->H; h++)
            g->values[h] = (float)(g->sum[(r->sum + i) * g->H + h] / n);
        MDS_TRY(mds_h5_dataset_write(g->hidden, r->row + i, 1, g->values));
    }
    return MDS_OK;
}

static enum mds_rc write_no_tokens(struct embedding *g, const struct record *r)
{
    for (int64_t h = 0; h < g->H; h++)
        g->values[h] = NAN;
    return mds_h5_dataset_write(g->hidden, r->row, r->rows, g->values);
}

static enum mds_rc finish_record(struct embedding *g, const struct record *r)
{
    int64_t end = r->row + r->rows;
    const char *name = r->name;

    g->none += r->tokens == 0;
    if (r->tokens == 0)
        MDS_TRY(write_no_tokens(g, r));
    else if (g->s->pool == MDS_INFER_POOL_MEAN)
        MDS_TRY(write_means(g, r));
    MDS_TRY(mds_h5_dataset_append(g->name, &name, 1));
    return mds_h5_dataset_append(g->start, &end, 1);
}

static enum mds_rc run_batch(struct embedding *g)
{
    enum mds_rc rc = MDS_OK;

    if (writes(g) && g->sums > 0) {
        g->sum = mds_zalloc((size_t)(g->sums * g->H), sizeof *g->sum);
        rc = g->sum ? MDS_OK : MDS_EMEM;
    }
    if (!rc)
        rc = mds_infer_batch_run(g->batch);
    for (int64_t i = 0; i < g->records; i++) {
        if (!rc && writes(g))
            rc = finish_record(g, &g->record[i]);
        free(g->record[i].name);
    }
    free(g->sum);
    g->sum = NULL;
    g->done += g->records;
    g->records = g->sums = 0;
    mds_infer_batch_clear(g->batch);
    return rc;
}

/* ---- the file ---- */

static enum mds_rc create_sets(struct embedding *g)
{
    const struct mds_infer_embed *s = g->s;
    const int64_t zero = 0;

    MDS_TRY(mds_h5_create(g->out.partial, g->out.path, &g->h5));
    MDS_TRY(mds_h5_put_string(g->h5, "model", g->m->path));
    MDS_TRY(mds_h5_put_int(g->h5, "layer", g->m->layer));
    MDS_TRY(mds_h5_put_string(g->h5, "pool", mds_infer_pools[s->pool]));
    MDS_TRY(mds_h5_put_int(g->h5, "pool_window", s->window));
    MDS_TRY(mds_h5_rows_create(g->h5, "/hidden", g->H, s->half, &g->hidden));
    MDS_TRY(mds_h5_dataset_create(g->h5, "/name", MDS_H5_TEXT, &g->name));
    MDS_TRY(mds_h5_dataset_create(g->h5, "/start", MDS_H5_I64, &g->start));
    return mds_h5_dataset_append(g->start, &zero, 1);
}

void mds_infer_embed_origin(const struct mds_infer_embed *s,
                            const struct mds_infer_model *m, struct mds_str *lines)
{
    mds_infer_origin_begin(lines, "embed", m);
    mds_str_add(lines, "layer: %" PRId64 "\npool: %s\npool_window: %" PRId64 "\n",
                m->layer, mds_infer_pools[s->pool], s->window);
    mds_str_add(lines, "output_type: %s\n", s->half ? "f16" : "f32");
    mds_infer_origin_add_inputs(lines, &s->inputs);
}

/* *complete: whether an earlier job has written all of it. */
static enum mds_rc check_origin(struct embedding *g, int *complete)
{
    struct mds_comm *world = mds_group(&g->m->groups, MDS_AXES_ALL);
    enum mds_rc rc = MDS_OK;

    *complete = 0;
    if (!g->s->resume)
        return MDS_OK;
    if (writes(g))
        rc = mds_infer_origin_check(g->s->output, &g->origin, complete);
    return rc ? rc : mds_comm_broadcast(world, complete, sizeof *complete, 0);
}

static enum mds_rc open_output(struct embedding *g)
{
    g->values = mds_zalloc((size_t)g->H, sizeof *g->values);
    if (!g->values)
        return MDS_EMEM;
    if (!writes(g))
        return MDS_OK;
    MDS_TRY(mds_output_check_new(g->s->output, g->s->overwrite));
    MDS_TRY(mds_output_open(g->s->output, &g->out));
    return create_sets(g);
}

/* Everything is closed whatever fails; the first failure counts. */
static enum mds_rc close_output(struct embedding *g, enum mds_rc rc)
{
    enum mds_rc next = mds_h5_dataset_close(g->hidden);

    rc = rc ? rc : next;
    next = mds_h5_dataset_close(g->name);
    rc = rc ? rc : next;
    next = mds_h5_dataset_close(g->start);
    rc = rc ? rc : next;
    next = g->h5 ? mds_h5_close(g->h5) : MDS_OK;
    rc = rc ? rc : next;
    if (!rc && writes(g))
        rc = mds_infer_origin_write(g->s->output, &g->origin);
    if (!rc && writes(g))
        return mds_output_commit(&g->out);
    mds_output_abandon(&g->out);
    return rc;
}

/* ---- all of it ---- */

static enum mds_rc embed_record(void *ctx, struct mds_infer_records *in,
                                struct mds_infer_record *r)
{
    struct embedding *g = ctx;

    (void)in;
    MDS_TRY(add_record(g, r));
    return mds_infer_batch_is_full(g->batch) ? run_batch(g) : MDS_OK;
}

static void report_end(const struct embedding *g)
{
    if (g->none > 0)
        mds_warn("%" PRId64 " of %" PRId64 " sequences have no tokens", g->none,
                 g->done);
    mds_info("%" PRId64 " sequence%s read behind block %" PRId64 " of %" PRId64
             ", %" PRId64 " row%s written",
             g->done, mds_plural(g->done), g->m->layer, g->m->layers, g->rows,
             mds_plural(g->rows));
}

static enum mds_rc embed_inputs(struct embedding *g)
{
    enum mds_rc rc = open_output(g);

    if (!rc)
        rc = mds_infer_records_each(&g->s->inputs, &g->m->vocabulary, embed_record, g);
    if (!rc)
        rc = run_batch(g);
    rc = close_output(g, rc);
    if (!rc && writes(g))
        report_end(g);
    return rc;
}

enum mds_rc mds_infer_embed_run(const struct mds_infer_embed *s,
                                struct mds_infer_model *m)
{
    struct embedding g = {.s = s, .m = m, .H = m->run->config.model.hidden};
    int complete = 0;
    enum mds_rc rc = mds_infer_batch_create(m, &g.batch);

    mds_infer_embed_origin(s, m, &g.origin);
    if (!rc)
        rc = check_origin(&g, &complete);
    if (!rc && !complete) {
        mds_infer_batch_read_by(g.batch, (struct mds_infer_reader){read_part, &g});
        rc = embed_inputs(&g);
    } else if (!rc && writes(&g)) {
        mds_info("%s is complete already", s->output);
    }
    mds_infer_batch_destroy(g.batch);
    mds_str_fini(&g.origin);
    free(g.record);
    free(g.of_item);
    free(g.values);
    return rc;
}
