/* SPDX-License-Identifier: BSD-3-Clause */
/* --trace-dir: initial weights, step-1 gradients and every batch, for comparisons. */
#include "base/minmax.h"
#include "ckpt/safetensors.h"
#include "io/folder.h"
#include "train/run.h"

/* Steps to trace, from the first of this job on: as many as asked for, and not more
 * than are made. */
static int64_t traced_steps(const struct run *r)
{
    int64_t steps = r->config->output.trace_steps;

    return mds_min(steps, steps_left(r));
}

/* tokens [steps, global batch, S+1]: any rank can name all samples of all ranks.  Steps
 * of unlike sizes are not traced (config_batch.c). */
static enum mds_rc write_batches(const struct run *r, struct mds_st_writer *w,
                                 int32_t *row)
{
    int64_t n = r->config->model.seq_length + 1;
    int64_t shape[3] = {traced_steps(r), next_step(r).in[MDS_SAMPLES], n};

    MDS_TRY(mds_st_writer_declare(w, "tokens", MDS_ST_I32, 3, shape));
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        MDS_TRY(mds_dataset_sample(r->spec->data, MDS_SPLIT_TRAIN, r->samples + i,
                                   &(struct mds_sample){row, NULL, NULL}));
        MDS_TRY(mds_st_writer_write(w, row, (size_t)n * sizeof *row));
    }
    return MDS_OK;
}

static enum mds_rc write_batches_file(const struct run *r)
{
    char path[MDS_PATH_SIZE];
    struct mds_st_writer *w = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_path_join(r->config->output.trace_dir, "batches.safetensors", path));
    MDS_TRY(mds_st_writer_create(path, &w));
    rc = write_batches(r, w, r->rows.token);
    if (rc) {
        mds_st_writer_abort(w);
        return rc;
    }
    return mds_st_writer_finish(w);
}

enum mds_rc mds_run_trace_start(const struct run *r)
{
    const char *dir = r->config->output.trace_dir;
    char path[MDS_PATH_SIZE];

    if (!dir)
        return MDS_OK;
    if (is_rank0(r))
        MDS_TRY(mds_folder_ensure(dir));
    MDS_TRY(mds_path_join(dir, "weights.safetensors", path));
    MDS_TRY(mds_run_export(r, MDS_ZERO_WEIGHT, path));
    return is_rank0(r) ? write_batches_file(r) : MDS_OK;
}

enum mds_rc mds_run_trace_grads(const struct run *r, int64_t step)
{
    char path[MDS_PATH_SIZE];

    if (!r->config->output.trace_dir || step != 1)
        return MDS_OK;
    MDS_TRY(mds_path_join(r->config->output.trace_dir, "grads.safetensors", path));
    return mds_run_export(r, MDS_ZERO_GRAD, path);
}
