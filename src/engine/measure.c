/* SPDX-License-Identifier: BSD-3-Clause */
/* What a step needs, measured by a dry run: a step without memory and kernels. */
#include "base/alloc.h"
#include "engine/internal.h"

#include <stdlib.h>

/* One training step and one evaluation, if the run has them. */
static enum mds_rc run_dry_step(struct mds_engine *e)
{
    struct mds_step_result result;
    struct mds_kind_losses *losses;
    int64_t n = e->config->batch.accumulation;
    enum mds_rc rc;

    MDS_TRY(mds_zero_init_weights(e->zero, 0));
    if (!e->config->train.skip_train) {
        MDS_TRY(mds_engine_backward(e, 1, 0, n, NULL, &result));
        MDS_TRY(mds_engine_update(e, 0));
    }
    if (e->config->train.prefill > 0)
        return mds_engine_decode_dry(e);
    if (e->config->train.eval_iters == 0)
        return MDS_OK;
    losses = mds_zalloc((size_t)n, sizeof *losses);
    if (!losses)
        return MDS_EMEM;
    rc = mds_engine_eval(e, NULL, n, losses);
    free(losses);
    return rc;
}

enum mds_rc mds_engine_create_dry(const struct mds_config *config, struct mds_dev *dry,
                                  struct mds_dev *dry_host,
                                  const struct mds_groups *groups,
                                  struct mds_engine **out)
{
    const struct mds_engine_need plenty = {.state_bytes = INT64_C(1) << 52,
                                           .step_bytes = INT64_C(1) << 52,
                                           .host_bytes = INT64_C(1) << 52};
    const struct mds_engine_spec spec = {.config = config,
                                         .dev = dry,
                                         .host = dry_host,
                                         .groups = groups,
                                         .need = &plenty,
                                         .threads = 1};

    return mds_engine_create(&spec, out);
}

enum mds_rc mds_engine_dry_run(const struct mds_config *config, struct mds_dev *dry,
                               const struct mds_groups *groups,
                               struct mds_engine_need *need)
{
    const struct mds_dev_spec host_spec = {.name = "dry"};
    struct mds_engine *e = NULL;
    struct mds_dev *host = NULL;
    int64_t whole_bytes = 0;
    enum mds_rc rc;

    MDS_TRY(mds_dev_create(&host_spec, &host));
    rc = mds_engine_create_dry(config, dry, host, groups, &e);
    if (!rc)
        rc = run_dry_step(e);
    if (!rc)
        rc = mds_engine_whole_bytes(e, &whole_bytes);
    if (!rc)
        *need = (struct mds_engine_need){.state_bytes = e->state.peak,
                                         .step_bytes = e->step.peak,
                                         .host_bytes = e->host.peak,
                                         .zero = mds_zero_host_bytes(e->zero),
                                         .save_bytes = mds_engine_save_bytes(e),
                                         .copy_bytes = e->save.peak,
                                         .whole_bytes = whole_bytes,
                                         .attention_bytes =
                                             mds_dev_ledger(dry)->scratch_bytes,
                                         .memory = mds_dev_ledger(dry)->memory,
                                         .host = mds_dev_ledger(host)->memory};
    mds_engine_destroy(e);
    mds_dev_destroy(host);
    return rc;
}

/* The lists are compiled by the first step that uses them. */
static enum mds_rc show_step(const struct mds_config *config, struct mds_dev *dry,
                             struct mds_dev *host, const struct mds_groups *groups,
                             FILE *f)
{
    struct mds_engine *e = NULL;
    enum mds_rc rc = mds_engine_create_dry(config, dry, host, groups, &e);

    if (!rc)
        rc = run_dry_step(e);
    if (!rc)
        mds_gpt_show_step(e->gpt_step, f);
    mds_engine_destroy(e);
    return rc;
}

enum mds_rc mds_engine_show_step(const struct mds_config *config,
                                 const struct mds_groups *groups, FILE *f)
{
    const struct mds_dev_spec spec = {.name = "dry"};
    struct mds_dev *dry = NULL, *host = NULL;
    enum mds_rc rc = mds_dev_create(&spec, &dry);

    if (!rc)
        rc = mds_dev_create(&spec, &host);
    if (!rc)
        rc = show_step(config, dry, host, groups, f);
    mds_dev_destroy(host);
    mds_dev_destroy(dry);
    return rc;
}

enum mds_rc mds_engine_measure(const struct mds_config *config, int world, int rank,
                               int per_node, struct mds_engine_need *need)
{
    const struct mds_dev_spec spec = {.name = "dry"};
    struct mds_groups groups = {0};
    struct mds_dev *dev = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_dev_create(&spec, &dev));
    rc = mds_groups_create(&config->parallel, world, rank, NULL, &groups);
    if (!rc)
        rc = mds_engine_dry_run(config, dev, &groups, need);
    if (!rc)
        need->overhead_bytes =
            mds_groups_nccl_bytes(&groups, per_node, MDS_COMM_CHANNELS) +
            need->attention_bytes;
    mds_groups_fini(&groups);
    mds_dev_destroy(dev);
    return rc;
}
