/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden states or logits of an evaluation, sent part by part from the ranks that have
 * them. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "engine/internal.h"
#include "parallel/par.h"

#include <stdlib.h>

enum { PART_ELEMENTS = 1 << 20 }; /* about so many at a time */

/* What a rank has: some columns, of its tokens of each of its replica's rows. */
struct owner {
    int64_t replica, column, columns; /* columns 0: none, or those of another rank */
    struct mds_shard_tokens tokens;
};

struct collection {
    const struct mds_engine *e;
    int64_t micro_batches;
    int64_t width; /* what a token has on a rank: of logits some are padding */
    char *raw;     /* a part [n, B, width], in the type of the model */
    float *values; /* [n, columns] of one row */
    enum mds_rc (*visit)(void *ctx, const struct mds_engine_hidden *part);
    void *ctx;
};

/* Tensor ranks have the same tokens without sequence parallelism. */
static struct owner owner_of_states(const struct mds_engine *e)
{
    int shares = !e->config->parallel.sequence_parallel;
    int counts = !(shares && mds_groups_rank(e->groups, MDS_AXIS_TENSOR) > 0);

    return (struct owner){.columns = counts ? e->config->model.hidden : 0,
                          .tokens = *mds_gpt_step_tokens(e->gpt_step)};
}

/* Of all tokens of the tensor ranks each has the logits of some words. */
static struct owner owner_of_logits(const struct mds_engine *e)
{
    int64_t words = mds_engine_words(e);
    int64_t first = words * mds_groups_rank(e->groups, MDS_AXIS_TENSOR);
    int64_t left = mds_max(e->config->model.vocab - first, 0);
    struct mds_par par = {.groups = e->groups};

    mds_par_set_batch(&par, e->config->batch.micro, e->config->model.seq_length, 0);
    return (struct owner){
        .column = first, .columns = mds_min(words, left), .tokens = par.tokens};
}

static int are_logits(const struct mds_engine *e)
{
    return e->config->train.hidden == MDS_HIDDEN_LOGITS;
}

static struct owner this_owner(const struct mds_engine *e)
{
    struct owner o = are_logits(e) ? owner_of_logits(e) : owner_of_states(e);

    o.replica = mds_groups_rank(e->groups, MDS_AXIS_DATA);
    if (!mds_groups_last_stage(e->groups))
        o.columns = 0;
    return o;
}

/* Bytes of a token of all rows. */
static int64_t token_bytes(const struct collection *c)
{
    return c->e->config->batch.micro * c->width *
           (int64_t)mdsk_dtype_size(mds_params_dtype(c->e->params));
}

static int64_t part_tokens(const struct collection *c)
{
    return mds_max(PART_ELEMENTS / (c->e->config->batch.micro * c->width), 1);
}

/* c->raw [n, B, width], row by row. */
static enum mds_rc visit_rows(const struct collection *c,
                              struct mds_engine_hidden *part)
{
    int64_t B = c->e->config->batch.micro, n = part->columns;
    enum mdsk_dtype type = mds_params_dtype(c->e->params);

    part->values = c->values;
    for (part->row = 0; part->row < B; part->row++) {
        for (int64_t s = 0; s < part->n; s++)
            for (int64_t h = 0; h < n; h++)
                c->values[s * n + h] =
                    mds_engine_value(type, c->raw, (s * B + part->row) * c->width + h);
        MDS_TRY(c->visit(c->ctx, part));
    }
    return MDS_OK;
}

/* A part of the rank `from`, whose tokens begin at its token `at`. */
static enum mds_rc move_part(const struct collection *c, int from, int64_t at,
                             struct mds_engine_hidden *part)
{
    const struct mds_engine *e = c->e;
    struct mds_comm *world = mds_group(e->groups, MDS_AXES_ALL);
    int here = mds_comm_rank(world);
    int64_t bytes = part->n * token_bytes(c);
    struct mds_comm_p2p req = {0};

    if (here == from)
        MDS_TRY(mds_dev_copy_out(e->dev, c->raw,
                                 e->hidden + part->micro_batch * e->hidden_bytes +
                                     at * token_bytes(c),
                                 bytes));
    if (here == from && from > 0)
        MDS_TRY(mds_comm_send_start(world, c->raw, bytes, 0, 0, &req));
    if (here == 0 && from > 0)
        MDS_TRY(mds_comm_recv_start(world, c->raw, bytes, from, 0, &req));
    if (from > 0)
        MDS_TRY(mds_comm_p2p_wait(&req));
    return here == 0 ? visit_rows(c, part) : MDS_OK;
}

static enum mds_rc move_micro_batch(const struct collection *c, int from,
                                    const struct owner *o, int64_t micro_batch)
{
    int64_t at = 0, most = part_tokens(c);

    for (int i = 0; i < o->tokens.runs; i++) {
        const struct mds_token_run *run = &o->tokens.run[i];

        for (int64_t s = 0; s < run->n; s += most) {
            struct mds_engine_hidden part = {.replica = o->replica,
                                             .column = o->column,
                                             .columns = o->columns,
                                             .micro_batch = micro_batch,
                                             .first = run->first + s,
                                             .n = mds_min(most, run->n - s)};

            MDS_TRY(move_part(c, from, at + s, &part));
        }
        at += run->n;
    }
    return MDS_OK;
}

static enum mds_rc collect(const struct collection *c, struct owner *owner)
{
    struct mds_comm *world = mds_group(c->e->groups, MDS_AXES_ALL);
    struct owner own = this_owner(c->e);
    int here = mds_comm_rank(world);

    MDS_TRY(mds_comm_gather_records(world, &own, sizeof own, owner));
    for (int r = 0; r < mds_comm_size(world); r++)
        for (int64_t i = 0; i < c->micro_batches; i++)
            if (owner[r].columns > 0 && (here == 0 || here == r))
                MDS_TRY(move_micro_batch(c, r, &owner[r], i));
    return MDS_OK;
}

enum mds_rc mds_engine_each_hidden(
    const struct mds_engine *e, int64_t micro_batches,
    enum mds_rc (*visit)(void *ctx, const struct mds_engine_hidden *part), void *ctx)
{
    struct collection c = {.e = e,
                           .micro_batches = micro_batches,
                           .width = are_logits(e) ? mds_engine_words(e)
                                                  : e->config->model.hidden,
                           .visit = visit,
                           .ctx = ctx};
    size_t ranks = (size_t)mds_groups_size(e->groups, MDS_AXES_ALL);
    size_t most = (size_t)part_tokens(&c);
    struct owner *owner = mds_zalloc(ranks, sizeof *owner);
    enum mds_rc rc = MDS_EMEM;

    c.raw = mds_zalloc(most, (size_t)token_bytes(&c));
    c.values = mds_zalloc(most * (size_t)c.width, sizeof *c.values);
    if (owner && c.raw && c.values)
        rc = collect(&c, owner);
    free(owner);
    free(c.values);
    free(c.raw);
    return rc;
}
