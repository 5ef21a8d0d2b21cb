/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept where and in which numbers: do ZeRO, offload, recompute and precision go
 * together? */
#include "config/config_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each rank looks at its own node's folder. */
static void check_nvme_folder(const struct mds_config_run *run, struct mds_diag *diag)
{
    const char *path = run->config.parallel.nvme_path;
    const char *why = NULL;
    struct stat st;

    if (stat(path, &st))
        why = strerror(errno);
    else if (!S_ISDIR(st.st_mode))
        why = strerror(ENOTDIR);
    else if (access(path, W_OK | X_OK))
        why = strerror(errno);
    if (why)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.nvme_path"),
                       "--nvme-path %s: %s; it must be a folder that can be written",
                       path, why);
}

static void check_offload(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_parallel_config *p = &run->config.parallel;

    if (p->offload_params != MDS_PLACE_DEVICE && p->zero_stage < 3)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.offload_params"),
                       "--offload-param-device cpu: weights rest only with ZeRO 3, and "
                       "this is stage %lld; give --zero-stage 3, or none",
                       (long long)p->zero_stage);
    else if (p->offload_params != MDS_PLACE_DEVICE &&
             p->offload_optimizer == MDS_PLACE_DEVICE)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.offload_params"),
                       "--offload-param-device cpu: the host updates the weights that "
                       "rest there; give --offload-device cpu (--cpu-optimizer), too");
    if (p->offload_optimizer != MDS_PLACE_NVME)
        return;
    if (!p->nvme_path)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.offload_optimizer"),
                       "--offload-device nvme needs a folder on a local disk; give "
                       "--nvme-path (NVME_PATH), such as /local/scratch");
    else if (run->action == MDS_ACTION_RUN && !run->config.train.dry_run)
        check_nvme_folder(run, diag);
}

static struct mds_act_ranks ranks_of(const struct mds_config *c)
{
    const struct mds_parallel_config *p = &c->parallel;

    return (struct mds_act_ranks){
        .tensor = p->tensor,
        .sequence = p->ulysses * p->ring,
        .sequence_parallel = p->sequence_parallel,
        .hidden = c->model.hidden,
        .blocks = mds_stage_blocks(c),
        .whose = p->virtual_stages > 1 ? "stage's chunk"
                 : p->pipeline > 1     ? "stage"
                                       : "model",
    };
}

static void check_activations(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_act_ranks ranks = ranks_of(&run->config);
    struct mds_act_finding f;

    for (int at = 0; mds_act_check(&run->config.train.act, &ranks, &at, &f);) {
        const char *origin = mds_config_origin(run, f.key);

        if (f.effect == MDS_ACT_FAULT)
            mds_diag_fault(diag, origin, "%s", f.text);
        else
            mds_diag_warn(diag, origin, "%s", f.text);
        if (f.effect == MDS_ACT_OFF)
            mds_settings_derived(&run->settings, f.key, "nothing to cut");
    }
}

static void check_scale(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_train_config *t = &run->config.train;

    if (t->loss_scale > 0 && t->type != MDS_TYPE_F16)
        mds_diag_warn(diag, mds_config_origin(run, "optim.loss_scale"),
                      "--loss-scale %g is not used: only fp16 needs it", t->loss_scale);
    if (t->type == MDS_TYPE_F16 && t->min_loss_scale > t->initial_loss_scale)
        mds_diag_fault(diag, mds_config_origin(run, "optim.min_loss_scale"),
                       "--min-loss-scale %g is above --initial-loss-scale %g",
                       t->min_loss_scale, t->initial_loss_scale);
}

void mds_config_check_memory(struct mds_config_run *run, struct mds_diag *diag)
{
    check_offload(run, diag);
    check_activations(run, diag);
    check_scale(run, diag);
}
