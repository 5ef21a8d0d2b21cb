/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of a global batch: tokens, and where their documents begin. */
#include "base/alloc.h"
#include "train/run.h"

static int64_t row_tokens(const struct run *r)
{
    return r->config->model.seq_length + 1;
}

enum mds_rc mds_run_alloc_rows(struct run *r)
{
    size_t n = (size_t)(local_rows(r) * row_tokens(r));

    r->tokens = mds_zalloc(n, sizeof *r->tokens);
    if (mds_data_has_starts(&r->config->data))
        r->starts = mds_zalloc(n, sizeof *r->starts);
    return r->tokens && (r->starts || !mds_data_has_starts(&r->config->data))
               ? MDS_OK
               : MDS_EMEM;
}

enum mds_rc mds_run_read_rows(const struct run *r, enum mds_split split, int64_t first,
                              struct mds_engine_rows *out)
{
    int64_t row = row_tokens(r);

    for (int64_t i = 0; i < local_rows(r); i++)
        MDS_TRY(mds_dataset_sample(r->spec->data, split, first + i, r->tokens + i * row,
                                   r->starts ? r->starts + i * row : NULL));
    *out = (struct mds_engine_rows){.token = r->tokens, .start = r->starts};
    return MDS_OK;
}
