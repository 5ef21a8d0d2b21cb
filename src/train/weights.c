/* SPDX-License-Identifier: BSD-3-Clause */
/* Initial weights from a file, and exports of whole tensors. */
#include "ckpt/weights.h"
#include "train/run.h"

struct fill_context {
    const struct mds_weights_reader *reader;
    const struct mds_params *local;
};

static enum mds_rc fill_from_file(void *ctx, enum mds_zero_what what, int unit,
                                  int64_t first, int64_t n, float *out)
{
    const struct fill_context *f = ctx;

    (void)what; /* moments are not asked for */
    mds_weights_reader_fill(f->reader, f->local, unit, first, n, out);
    return MDS_OK;
}

enum mds_rc mds_run_start_weights(const struct run *r)
{
    const char *path = r->config->output.init_weights;
    struct mds_params *whole = NULL;
    struct mds_weights_reader *reader = NULL;
    struct fill_context f = {.local = mds_engine_params(r->engine)};
    enum mds_rc rc;

    if (!path)
        return mds_zero_init_weights(mds_engine_zero(r->engine),
                                     (uint64_t)r->config->train.seed);
    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    rc = mds_weights_reader_open(path, whole, r->config->model.vocab, &reader);
    f.reader = reader;
    if (!rc)
        rc = mds_zero_load(mds_engine_zero(r->engine), fill_from_file, &f, 0);
    mds_weights_reader_close(reader);
    mds_params_destroy(whole);
    return rc;
}

static enum mds_rc discard_tensor(void *ctx, const struct mds_param *p,
                                  const float *values)
{
    (void)ctx, (void)p, (void)values;
    return MDS_OK;
}

enum mds_rc mds_run_export(const struct run *r, enum mds_zero_what what,
                           const char *path)
{
    struct mds_params *whole = NULL;
    struct mds_weights_writer *w = NULL;
    enum mds_rc rc;

    if (!is_rank0(r))
        return mds_engine_each_whole(r->engine, what, discard_tensor, NULL);
    MDS_TRY(mds_engine_whole_params(r->config, &whole));
    rc = mds_weights_writer_create(path, whole, &w);
    mds_params_destroy(whole);
    if (rc)
        return rc;
    rc = mds_engine_each_whole(r->engine, what, mds_weights_writer_add, w);
    if (!rc)
        return mds_weights_writer_finish(w);
    mds_weights_writer_abort(w);
    return rc;
}
