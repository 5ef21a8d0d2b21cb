/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the splits have what a run reads of them. */
#include "data/dataset.h"

#include <inttypes.h>

static enum mds_rc check_evaluated(const struct mds_dataset *d,
                                   const struct mds_config *c)
{
    if (mds_dataset_samples(d, MDS_SPLIT_VALID) > 0 ||
        mds_dataset_samples(d, MDS_SPLIT_TEST) > 0)
        return MDS_OK;
    if (!c->data.paths)
        return mds_dataset_require(d, c->data.valid_paths ? MDS_SPLIT_VALID
                                                          : MDS_SPLIT_TEST);
    return mds_fail(MDS_EUSER,
                    "--skip-train: --split %s leaves neither validation nor test data "
                    "enough for one sequence of %" PRId64
                    " tokens and its target; --split 0,1,0 evaluates all of a file",
                    c->data.split, c->model.seq_length);
}

int64_t mds_dataset_evaluated(const struct mds_dataset *d, enum mds_split s,
                              const struct mds_config *c)
{
    int64_t there = mds_dataset_samples(d, s), batch = c->batch.global;

    return c->train.eval_iters > there / batch ? there : c->train.eval_iters * batch;
}

enum mds_rc mds_dataset_check(const struct mds_dataset *d, const struct mds_config *c)
{
    if (c->train.eval_iters == 0)
        return c->train.skip_train ? MDS_OK : mds_dataset_require(d, MDS_SPLIT_TRAIN);
    return c->train.skip_train ? check_evaluated(d, c) : mds_dataset_require_both(d);
}
