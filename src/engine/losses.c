/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss of each token of an evaluation, collected from the ranks that have them. */
#include "base/alloc.h"
#include "engine/internal.h"
#include "parallel/par.h"

#include <stdlib.h>
#include <string.h>

/* Which tokens a rank has the losses of. */
struct owner {
    int64_t counts, replica; /* counts 0: another rank has the same ones */
    int64_t tokens_here, runs;
    struct mds_token_run run[2];
};

static struct owner this_owner(const struct mds_engine *e)
{
    const struct mds_batch_config *b = &e->config->batch;
    struct mds_par par = {.groups = e->groups};
    struct owner o = {.replica = mds_groups_rank(e->groups, MDS_AXIS_DATA),
                      .tokens_here = e->tokens_here};

    mds_par_set_batch(&par, b->micro, e->config->model.seq_length, 0);
    o.counts = mds_groups_last_stage(e->groups) &&
               mds_groups_rank(e->groups, MDS_AXIS_TENSOR) == 0;
    o.runs = par.tokens.runs;
    for (int i = 0; i < par.tokens.runs; i++)
        o.run[i] = par.tokens.run[i];
    return o;
}

/* From [tokens here, B] to [B, S], for each micro-batch. */
static void place(const struct mds_engine *e, const struct owner *o, int64_t n,
                  const double *loss, double *out)
{
    int64_t B = e->config->batch.micro, S = e->config->model.seq_length;

    out += o->replica * n * B * S;
    for (int64_t i = 0; i < n; i++, out += B * S)
        for (int64_t k = 0; k < o->runs; k++)
            for (int64_t s = 0; s < o->run[k].n; s++)
                for (int64_t b = 0; b < B; b++)
                    out[b * S + o->run[k].first + s] = *loss++;
}

/* own[n] of this rank, all[ranks, n] of all. */
static enum mds_rc collect(const struct mds_engine *e, int64_t micro_batches,
                           double *own, double *all, struct owner *owner, double *out)
{
    struct mds_comm *world = mds_group(e->groups, MDS_AXES_ALL);
    struct owner o = this_owner(e);
    int64_t n = micro_batches * e->tokens_here, bytes = n * (int64_t)sizeof *own;

    if (o.counts)
        MDS_TRY(mds_dev_copy_out(e->dev, own, e->loss, bytes));
    MDS_TRY(mds_comm_gather_records(world, &o, sizeof o, owner));
    MDS_TRY(mds_comm_all_gather(world, own, all, bytes));
    for (int r = 0; r < mds_comm_size(world); r++)
        if (owner[r].counts)
            place(e, &owner[r], micro_batches, all + r * n, out);
    return MDS_OK;
}

enum mds_rc mds_engine_token_losses(const struct mds_engine *e, int64_t micro_batches,
                                    double *out)
{
    size_t n = (size_t)(micro_batches * e->tokens_here);
    size_t ranks = (size_t)mds_groups_size(e->groups, MDS_AXES_ALL);
    double *own = mds_zalloc(n, sizeof *own), *all = mds_zalloc(ranks * n, sizeof *all);
    struct owner *owner = mds_zalloc(ranks, sizeof *owner);
    enum mds_rc rc = MDS_EMEM;

    if (own && all && owner)
        rc = collect(e, micro_batches, own, all, owner, out);
    free(owner);
    free(all);
    free(own);
    return rc;
}
