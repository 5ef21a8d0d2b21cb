/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be known of a run from data that are here, before it waits in a queue. */
#include "base/log.h"
#include "base/minmax.h"
#include "data/dataset.h"
#include "data/paths.h"
#include "data/source.h"
#include "launch/launch.h"
#include "metrics/flops.h"

void mds_launch_read_documents(struct mds_launch *l, struct mds_config_run *run)
{
    struct mds_config *c = &run->config;
    struct mds_flops_model model;
    double share;

    l->seen = c->data.seen =
        mds_data_seen(&c->data, c->model.seq_length, c->model.window);
    model = mds_flops_model_of(c);
    share = mds_flops_documents_share(&model);
    if (share < 1)
        mds_info("documents: attention computes %.3g %% of what it would across them",
                 100 * share);
}

int64_t mds_launch_steps(const struct mds_config *c, const struct mds_extent *done)
{
    const struct mds_extent start = {{0}}, step = mds_config_step(c);

    return mds_steps_left(&c->train.length, done ? done : &start, &step);
}

static int are_here(const char *option, const char *text)
{
    struct mds_paths paths;
    int here = 1;

    if (!text)
        return 1;
    if (mds_paths_parse(option, text, &paths))
        return 0;
    for (int i = 0; i < paths.n; i++)
        here &= mds_source_is_there(paths.path[i]);
    mds_paths_fini(&paths);
    return here;
}

static int is_all_here(const struct mds_data_config *d)
{
    return mds_config_data_paths(d) && are_here("--data-path", d->paths) &&
           are_here("--train-data-path", d->train_paths) &&
           are_here("--valid-data-path", d->valid_paths) &&
           are_here("--test-data-path", d->test_paths);
}

/* Megatron's files would have to be read whole for their largest id, which is left to
 * the job: here their vocabulary is the model's. */
static enum mds_rc check_splits(struct mds_dataset *d, struct mds_config_run *run)
{
    const struct mds_config *c = &run->config;

    MDS_TRY(mds_dataset_check(d, c));
    MDS_TRY(mds_dataset_set_vocab(d, mds_max(c->model.vocab, 1) - 1));
    MDS_TRY(mds_config_set_vocab(run, mds_dataset_vocab(d)));
    MDS_TRY(mds_dataset_log(d, !c->train.skip_train));
    return c->train.skip_train
               ? MDS_OK
               : mds_dataset_log_epochs(d, c->batch.global * mds_launch_steps(c, NULL));
}

enum mds_rc mds_launch_check_data(struct mds_config_run *run)
{
    const struct mds_config *c = &run->config;
    struct mds_dataset *d = NULL;
    enum mds_rc rc;

    if (!is_all_here(&c->data))
        return MDS_OK;
    MDS_TRY(
        mds_dataset_open(&c->data, c->model.seq_length, (uint64_t)c->train.seed, &d));
    rc = check_splits(d, run);
    mds_dataset_close(d);
    return rc;
}
