/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of a global batch: tokens, where their documents begin, and their kinds. */
#include "base/alloc.h"
#include "train/run.h"

#include <stdlib.h>

static int64_t row_tokens(const struct run *r)
{
    return r->config->model.seq_length + 1;
}

enum mds_rc mds_run_alloc_rows(struct run *r)
{
    const struct mds_batch_config *b = &r->config->batch;
    size_t n = (size_t)(b->micro * b->accumulation * row_tokens(r));
    int starts = mds_data_has_starts(&r->config->data);
    int kinds = r->config->data.kinds.n > 0 || r->config->data.window_stride > 0;

    r->rows.token = mds_zalloc(n, sizeof *r->rows.token);
    if (starts)
        r->rows.start = mds_zalloc(n, sizeof *r->rows.start);
    if (kinds)
        r->rows.kind = mds_zalloc(n, sizeof *r->rows.kind);
    if (!r->rows.token || (starts && !r->rows.start) || (kinds && !r->rows.kind))
        return MDS_EMEM;
    return r->config->data.pack_documents == MDS_PACK_ON
               ? mds_balance_create(b->global, &r->balance)
               : MDS_OK;
}

void mds_run_free_rows(struct run *r)
{
    free(r->rows.token);
    free(r->rows.start);
    free(r->rows.kind);
    mds_balance_destroy(r->balance);
}

static struct mds_sample row_at(const struct run *r, int64_t i)
{
    const struct mds_sample *all = &r->rows;
    int64_t at = i * row_tokens(r);

    return (struct mds_sample){.token = all->token + at,
                               .start = all->start ? all->start + at : NULL,
                               .kind = all->kind ? all->kind + at : NULL};
}

/* The order of the rows of the next global batch; NULL: as they are. */
static enum mds_rc order_batch(const struct run *r, const int64_t **order)
{
    int64_t n = next_step(r).in[MDS_SAMPLES];

    *order = NULL;
    if (!r->balance)
        return MDS_OK;
    for (int64_t i = 0; i < n; i++)
        MDS_TRY(mds_dataset_pairs(r->spec->data, MDS_SPLIT_TRAIN, r->samples + i,
                                  &mds_balance_costs(r->balance)[i]));
    *order = mds_balance_order(r->balance, n);
    return MDS_OK;
}

struct mds_engine_rows mds_run_rows(const struct run *r)
{
    return (struct mds_engine_rows){
        .token = r->rows.token, .start = r->rows.start, .kind = r->rows.kind};
}

enum mds_rc mds_run_read_rows(const struct run *r)
{
    int64_t first = first_sample(r, 0), n = local_rows(r);
    const int64_t *order;

    MDS_TRY(order_batch(r, &order));
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = r->samples + (order ? order[first + i] : first + i);
        struct mds_sample row = row_at(r, i);

        MDS_TRY(mds_dataset_sample(r->spec->data, MDS_SPLIT_TRAIN, sample, &row));
    }
    return MDS_OK;
}

static void empty_row(const struct run *r, const struct mds_sample *row)
{
    for (int64_t i = 0; i < row_tokens(r); i++) {
        row->token[i] = -1;
        if (row->start)
            row->start[i] = 0;
        if (row->kind)
            row->kind[i] = 0;
    }
}

enum mds_rc mds_run_read_micro_batch(const struct run *r, enum mds_split split,
                                     int64_t first, int64_t n, int64_t micro_batch)
{
    int64_t micro = r->config->batch.micro;

    for (int64_t i = 0; i < micro; i++) {
        struct mds_sample row = row_at(r, micro_batch * micro + i);

        if (i >= n)
            empty_row(r, &row);
        else
            MDS_TRY(mds_dataset_sample(r->spec->data, split, first + i, &row));
    }
    return MDS_OK;
}

/* ---- is there anything to learn? ---- */

static int counts(const struct mds_kind_table *t, unsigned char kind)
{
    return kind != MDS_KIND_MASKED && (t->n == 0 || t->kind[kind].weight > 0);
}

static int has_target(const struct run *r, const struct mds_sample *row)
{
    const struct mds_data_config *d = &r->config->data;

    for (int64_t i = 1; i < row_tokens(r); i++)
        if ((!d->eod_mask_loss || row->start[i] == row->start[i - 1]) &&
            (!row->kind || counts(&d->kinds, row->kind[i])))
            return 1;
    return 0;
}

enum mds_rc mds_run_find_target(const struct run *r, enum mds_split split,
                                int64_t first, int64_t n, int *found)
{
    const struct mds_data_config *d = &r->config->data;
    struct mds_sample row = row_at(r, 0);

    *found = !d->eod_mask_loss && d->kinds.n == 0;
    for (int64_t i = 0; i < n && !*found; i++) {
        MDS_TRY(mds_dataset_sample(r->spec->data, split, first + i, &row));
        *found = has_target(r, &row);
    }
    return MDS_OK;
}
