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

/* A way of keeping the inputs that full recompute alone keeps. */
static void need_full(const struct mds_config_run *run, const char *key,
                      const char *what, struct mds_diag *diag)
{
    enum mds_recompute is = run->config.train.act.recompute;

    if (is != MDS_RECOMPUTE_FULL)
        mds_diag_fault(diag, mds_config_origin(run, key),
                       "%s is about the inputs that full recompute keeps, and this is "
                       "%s; give --recompute-granularity full, or leave it out",
                       what, mds_recompute_names[is]);
}

static void check_modules(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_train_config *t = &run->config.train;
    const char *origin = mds_config_origin(run, "train.recompute_modules");

    if (t->act.recompute != MDS_RECOMPUTE_SELECTIVE)
        mds_diag_fault(diag, origin,
                       "--recompute-modules says what selective recompute computes "
                       "again; give --recompute-granularity selective, too");
    if (t->act.sequence_tile > 0)
        mds_diag_fault(diag, origin,
                       "--recompute-modules: with --sequence-tile norms and the MLP's "
                       "inside are never kept; leave out one of them");
    if (t->act.mlp_tile > 0 && t->act.recompute_modules & MDS_MODULE_MLP_ACT)
        mds_diag_warn(diag, origin,
                      "--recompute-modules mlp_act changes nothing: with --mlp-tile "
                      "none of the MLP's inside is kept");
}

/* Cutting what is whole on one rank only, or cut already, changes nothing. */
static void drop_partition(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_parallel_config *p = &run->config.parallel;
    int one = p->tensor == 1;

    if (!one && !p->sequence_parallel)
        return;
    mds_diag_warn(diag, mds_config_origin(run, "train.partition_activations"),
                  "--partition-activations is off: %s",
                  one ? "there is one tensor rank, --tensor-model-parallel-size 1"
                      : "--sequence-parallel has cut the inputs already");
    run->config.train.act.partition_activations = 0;
    mds_settings_derived(&run->settings, "train.partition_activations",
                         one ? "one tensor rank" : "cut already");
}

static void check_partition(struct mds_config_run *run, struct mds_diag *diag)
{
    int64_t hidden = run->config.model.hidden, tensor = run->config.parallel.tensor;

    need_full(run, "train.partition_activations", "--partition-activations", diag);
    drop_partition(run, diag);
    if (run->config.train.act.partition_activations && hidden % tensor != 0)
        mds_diag_fault(diag, mds_config_origin(run, "train.partition_activations"),
                       "--partition-activations: --hidden-size %lld does not divide "
                       "into parts for %lld tensor ranks; leave it out",
                       (long long)hidden, (long long)tensor);
}

/* Chunks are stretches of one rank's whole sequences. */
static void check_chunk(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_parallel_config *p = &run->config.parallel;
    const char *origin = mds_config_origin(run, "train.attention_chunk");

    if (run->config.train.act.attention_chunk == 0)
        return;
    if (run->config.train.act.sequence_tile == 0)
        mds_diag_fault(diag, origin,
                       "--attention-chunk: the rest of a block must not need whole "
                       "sequences either; give --sequence-tile, too");
    if (p->ulysses * p->ring > 1)
        mds_diag_fault(diag, origin,
                       "--attention-chunk is for ranks that have whole sequences; "
                       "leave out --ds-sequence-parallel-size and "
                       "--context-parallel-size, or the chunk");
    if (p->sequence_parallel && p->tensor > 1)
        mds_diag_fault(diag, origin,
                       "--attention-chunk does not go with --sequence-parallel; leave "
                       "out one of them");
}

/* Which blocks keep more than others, or elsewhere. */
static void check_kept(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_train_config *t = &run->config.train;
    int tiled_full = t->act.sequence_tile > 0 && t->act.recompute == MDS_RECOMPUTE_FULL;

    if (t->act.keep_attention > 0 && (!tiled_full || t->act.recompute_layers > 1))
        mds_diag_fault(diag, mds_config_origin(run, "train.keep_attention"),
                       "--keep-attention-layers adds to what full recompute keeps of "
                       "each block; give --recompute-granularity full with "
                       "--sequence-tile, and no --checkpoint-num-layers");
    if (t->act.device_inputs > 0 &&
        (t->act.sequence_tile == 0 || !t->act.offload_activations))
        mds_diag_fault(diag, mds_config_origin(run, "train.device_inputs"),
                       "--device-checkpoint-layers excepts blocks from "
                       "--cpu-checkpointing with --sequence-tile; give both");
}

static void check_recompute(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_train_config *t = &run->config.train;

    if (t->act.recompute_layers > 1)
        need_full(run, "train.recompute_layers", "--checkpoint-num-layers above 1",
                  diag);
    if (t->act.offload_activations && t->act.sequence_tile == 0)
        need_full(run, "train.offload_activations", "--cpu-checkpointing", diag);
    if (t->act.offload_layers > 0 && mds_recompute_of(&t->act) != MDS_RECOMPUTE_NONE)
        mds_diag_fault(diag, mds_config_origin(run, "train.offload_layers"),
                       "--cpu-offloading-num-layers is about blocks that keep what "
                       "backward reads, and this is %s recompute; leave it out, or "
                       "give --recompute-granularity none (in scripts "
                       "USE_ACTIVATION_CHECKPOINTING=0)",
                       mds_recompute_names[t->act.recompute]);
    if (t->act.sequence_tile > 0 && t->act.recompute == MDS_RECOMPUTE_NONE)
        mds_diag_fault(diag, mds_config_origin(run, "train.sequence_tile"),
                       "--sequence-tile needs blocks whose insides are computed again; "
                       "give --recompute-granularity full or selective");
    if (t->act.recompute_modules)
        check_modules(run, diag);
    if (t->act.partition_activations)
        check_partition(run, diag);
    check_chunk(run, diag);
    check_kept(run, diag);
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
    check_recompute(run, diag);
    check_scale(run, diag);
}
