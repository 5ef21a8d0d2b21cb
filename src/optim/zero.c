/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/zero.h"
#include "base/alloc.h"
#include "optim/internal.h"

#include <stdlib.h>

/* Options were checked by config/. */
static enum mds_rc check_zero_spec(const struct mds_zero_spec *s)
{
    int on_device = s->weights == MDS_PLACE_DEVICE;
    int on_host = s->weights == MDS_PLACE_CPU && s->stage == 3 &&
                  s->optimizer != MDS_PLACE_DEVICE;
    int folder = s->nvme_path || s->optimizer != MDS_PLACE_NVME;

    if (s->stage >= 0 && s->stage <= 3 && (on_device || on_host) && folder)
        return MDS_OK;
    return mds_fail(MDS_EBUG,
                    "zero stage %d does not support weights in place %d, states in %d",
                    s->stage, (int)s->weights, (int)s->optimizer);
}

/* ---- hooks ---- */

static enum mds_rc acquire_weights(void *ctx, int unit)
{
    struct mds_zero *z = ctx;
    int ahead;

    MDS_TRY(mds_host_update_wait_unit(z->host_update, unit));
    MDS_TRY(mds_weights_acquire(&z->weights, unit, &ahead));
    if (ahead < 0)
        return MDS_OK;
    MDS_TRY(mds_host_update_wait_unit(z->host_update, ahead));
    return mds_weights_prefetch(&z->weights, ahead);
}

static enum mds_rc release_weights(void *ctx, int unit)
{
    struct mds_zero *z = ctx;

    return mds_weights_release(&z->weights, unit);
}

static enum mds_rc grad_begin(void *ctx, int unit)
{
    struct mds_zero *z = ctx;

    return mds_gradients_begin(&z->gradients, unit);
}

static enum mds_rc grad_ready(void *ctx, int unit)
{
    struct mds_zero *z = ctx;

    return mds_gradients_ready(&z->gradients, unit);
}

/* ---- creation ---- */

static struct zero_choice by_adamw(const struct mds_param_spec *spec)
{
    (void)spec;
    return (struct zero_choice){&mds_adamw, 2};
}

static struct zero_choice blocks_by_muon(const struct mds_param_spec *spec)
{
    return mds_muon_takes(spec) ? (struct zero_choice){&mds_muon, 1} : by_adamw(spec);
}

/* Muon's products are for the device alone, wherever states are stored. */
static int updates_on_host(const struct mds_zero_spec *spec)
{
    return spec->optimizer != MDS_PLACE_DEVICE && spec->optim->kind != MDS_MUON;
}

static enum mds_rc create_update(struct mds_zero *z, const struct mds_zero_spec *spec)
{
    if (updates_on_host(spec))
        return mds_host_update_create(&z->states, &z->gradients, &z->weights,
                                      z->storage.host, &z->host_update);
    if (spec->optim->kind != MDS_MUON)
        return MDS_OK;
    MDS_TRY(mds_muon_init(&z->muon[0], &z->states, &z->gradients.array, spec->group,
                          spec->stage_group ? spec->stage_group : spec->group,
                          z->storage.arena));
    for (int i = 0; i < z->parts.units; i++)
        if (z->parts.shard[i].group != spec->group)
            return mds_muon_init(&z->muon[1], &z->states, &z->gradients.array,
                                 z->parts.shard[i].group, spec->stage_part,
                                 z->storage.arena);
    return MDS_OK;
}

/* Only this function knows the ZeRO stage: it decides which of the three are
 * sharded. */
static enum mds_rc create_parts(struct mds_zero *z, const struct mds_zero_spec *spec,
                                struct mds_arena *arena)
{
    int alone = mds_comm_size(spec->group) == 1 && spec->weights == MDS_PLACE_DEVICE;
    int stage = alone ? 0 : spec->stage;
    int shard_states = stage >= 1, shard_gradients = stage >= 2;
    int shard_weights = stage >= 3;

    z->storage = (struct zero_storage){.parts = &z->parts,
                                       .dev = spec->dev,
                                       .host = spec->host ? spec->host : spec->dev,
                                       .arena = arena,
                                       .folder = spec->nvme_path,
                                       .threads = spec->threads,
                                       .dry = !mds_dev_kernels(spec->dev)};
    MDS_TRY(mds_partition_init(
        &z->parts, spec->params, spec->group, spec->unit_group, shard_states,
        spec->optim->kind == MDS_MUON ? blocks_by_muon : by_adamw));
    MDS_TRY(mds_weights_init(&z->weights, &z->storage, shard_weights, spec->overlap,
                             spec->weights));
    if (spec->evaluation)
        return MDS_OK;
    MDS_TRY(mds_states_init(&z->states, &z->storage, spec->optim, &z->weights.array,
                            spec->optimizer, updates_on_host(spec)));
    MDS_TRY(mds_gradients_init(&z->gradients, &z->storage, shard_gradients,
                               spec->overlap, spec->bucket_bytes));
    return create_update(z, spec);
}

enum mds_rc mds_zero_create(const struct mds_zero_spec *spec, struct mds_arena *arena,
                            struct mds_zero **out)
{
    struct mds_param_hooks hooks = {.acquire = acquire_weights,
                                    .release = release_weights,
                                    .grad_begin = grad_begin,
                                    .grad_ready = grad_ready};
    struct mds_zero *z;
    enum mds_rc rc;

    MDS_TRY(check_zero_spec(spec));
    z = mds_zalloc(1, sizeof *z);
    if (!z)
        return MDS_EMEM;
    z->evaluation = spec->evaluation;
    rc = create_parts(z, spec, arena);
    if (rc) {
        mds_zero_destroy(z);
        return rc;
    }
    hooks.ctx = z;
    mds_params_hook(spec->params, &hooks);
    *out = z;
    return MDS_OK;
}

void mds_zero_destroy(struct mds_zero *z)
{
    const struct mds_param_hooks none = {0};

    if (!z)
        return;
    if (z->parts.params)
        mds_params_hook(z->parts.params, &none);
    mds_weights_wait(&z->weights); /* the next waits for the device */
    mds_host_update_destroy(z->host_update);
    for (int i = 0; i < 2; i++)
        mds_muon_fini(&z->muon[i]);
    mds_gradients_fini(&z->gradients);
    mds_states_fini(&z->states);
    mds_weights_fini(&z->weights);
    mds_storage_fini(&z->storage);
    mds_partition_fini(&z->parts);
    free(z);
}

struct mds_zero_host mds_zero_host_bytes(const struct mds_zero *z)
{
    return (struct mds_zero_host){.memory_bytes = z->storage.memory_bytes,
                                  .file_bytes = z->storage.file_bytes};
}

/* ---- a step ---- */

void mds_zero_step_begin(struct mds_zero *z)
{
    z->weights.last = 0;
    mds_gradients_step_begin(&z->gradients);
}

void mds_zero_pass_begin(struct mds_zero *z, int last)
{
    z->weights.last = last;
    mds_gradients_pass_begin(&z->gradients, last);
}

enum mds_rc mds_zero_finish(struct mds_zero *z)
{
    return mds_gradients_finish(&z->gradients);
}

enum mds_rc mds_zero_sum_unit(struct mds_zero *z, int unit, struct mds_comm *group)
{
    return mds_gradients_sum_unit(&z->gradients, unit, group);
}

enum mds_rc mds_zero_grad_squares(struct mds_zero *z, double *sum)
{
    return mds_gradients_squares(&z->gradients, sum);
}

int mds_zero_is_sharded(const struct mds_zero *z)
{
    return z->parts.sharded;
}

/* ---- the update ---- */

enum mds_rc mds_zero_quiesce(struct mds_zero *z)
{
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(mds_host_update_wait_unit(z->host_update, i));
    return mds_weights_quiesce(&z->weights);
}

static enum mds_rc update_unit(struct mds_zero *z, int unit)
{
    MDS_TRY(mds_states_update_unit(&z->states, unit, &z->gradients.array));
    for (int i = 0; i < 2; i++)
        if (z->muon[i].n > 0)
            MDS_TRY(mds_muon_update_unit(&z->muon[i], unit));
    return mds_weights_gather(&z->weights, unit);
}

enum mds_rc mds_zero_update(struct mds_zero *z, double lr, double grad_scale)
{
    MDS_TRY(mds_zero_quiesce(z));
    MDS_TRY(mds_states_begin(&z->states, lr, grad_scale));
    if (z->host_update)
        return mds_host_update_begin(z->host_update);
    for (int i = 0; i < z->parts.units; i++)
        MDS_TRY(update_unit(z, i));
    mds_states_end(&z->states);
    return MDS_OK;
}

void mds_zero_scale_heads(struct mds_zero *z, const float *factor)
{
    z->states.step.head_factor = factor;
}

enum mds_rc mds_zero_check_update(struct mds_zero *z)
{
    MDS_TRY(mds_host_update_wait(z->host_update));
    return mds_states_wait(&z->states);
}

int64_t mds_zero_updates(const struct mds_zero *z)
{
    return z->states.step.number;
}
