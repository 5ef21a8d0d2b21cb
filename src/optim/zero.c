/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation. */
#include "optim/zero.h"
#include "base/alloc.h"
#include "kernels/table.h"
#include "optim/internal.h"

#include <stdlib.h>

static enum mds_rc check_spec(const struct mds_zero_spec *s)
{
    if (s->stage < 0 || s->stage > 3)
        return mds_fail(MDS_EUSER, "zero stage %d: there are 0 to 3", s->stage);
    if (s->weights == MDS_PLACE_NVME)
        return mds_fail(MDS_ENOSUP,
                        "weights cannot rest in a file; offload them to cpu");
    if (s->weights == MDS_PLACE_CPU && s->stage < 3)
        return mds_fail(MDS_EUSER,
                        "weights offloaded to the host need zero stage 3, not %d",
                        s->stage);
    if (s->weights == MDS_PLACE_CPU && s->optimizer == MDS_PLACE_DEVICE)
        return mds_fail(MDS_EUSER, "weights offloaded to the host need the optimizer "
                                   "offloaded too");
    if (s->optimizer == MDS_PLACE_NVME && !s->nvme_path)
        return mds_fail(MDS_EUSER, "optimizer states in a file need a folder for it");
    return MDS_OK;
}

static void fill_in(struct mds_zero *z, const struct mds_zero_spec *spec)
{
    z->spec = *spec;
    z->optim = *spec->optim;
    if (!spec->host)
        z->spec.host = spec->dev;
    z->params = spec->params;
    z->dev = spec->dev;
    z->group = spec->group;
    z->stage =
        mds_comm_size(z->group) > 1 || spec->weights == MDS_PLACE_CPU ? spec->stage : 0;
    z->dry = !mds_dev_kernels(z->dev);
    z->dtype = mds_params_dtype(z->params);
    z->elem = (int64_t)mdsk_dtype_size(z->dtype);
}

/* States first: weights that rest on the host may be among them. */
static enum mds_rc build(struct mds_zero *z, struct mds_arena *arena)
{
    const struct mds_param_hooks hooks = {.ctx = z,
                                          .acquire = mds_zero_acquire,
                                          .release = mds_zero_release,
                                          .grad_begin = mds_zero_grad_begin,
                                          .grad_ready = mds_zero_grad_ready};

    if (z->spec.optimizer != MDS_PLACE_DEVICE && !z->dry && z->spec.threads > 0)
        mdsk_cpu_set_threads(z->spec.threads);
    MDS_TRY(mds_partition_init(&z->parts, z->params, z->group, z->stage > 0));
    z->unit = mds_zalloc((size_t)z->parts.units, sizeof *z->unit);
    if (!z->unit)
        return MDS_EMEM;
    MDS_TRY(mds_zero_states_take(z, arena));
    MDS_TRY(mds_zero_weights_take(z, arena));
    MDS_TRY(mds_zero_grads_take(z, arena));
    if (z->spec.optimizer == MDS_PLACE_NVME)
        MDS_TRY(mds_zero_file_create(z));
    if (z->spec.optimizer != MDS_PLACE_DEVICE)
        MDS_TRY(mds_zero_offload_create(z));
    mds_params_hook(z->params, &hooks);
    return MDS_OK;
}

enum mds_rc mds_zero_create(const struct mds_zero_spec *spec, struct mds_arena *arena,
                            struct mds_zero **out)
{
    struct mds_zero *z;
    enum mds_rc rc;

    MDS_TRY(check_spec(spec));
    z = mds_zalloc(1, sizeof *z);
    if (!z)
        return MDS_EMEM;
    fill_in(z, spec);
    rc = build(z, arena);
    if (rc) {
        mds_zero_destroy(z);
        return rc;
    }
    *out = z;
    return MDS_OK;
}

/* Weights of the last update may still be on their way to others, who count on them,
 * and some were gathered for nothing.  After a failure this returns at once: then comm/
 * knows that the group is broken. */
static void finish_gathers(struct mds_zero *z)
{
    for (int i = 0; i < z->parts.units && z->unit; i++)
        (void)mds_comm_wait(&z->unit[i].gather);
    for (int s = 0; s < z->weight_pool.slots; s++)
        (void)mds_comm_wait(&z->fetch[s]);
}

void mds_zero_destroy(struct mds_zero *z)
{
    const struct mds_param_hooks none = {0};

    if (!z)
        return;
    finish_gathers(z);
    mds_params_hook(z->params, &none);
    mds_zero_offload_destroy(z);
    mds_zero_file_destroy(z);
    mds_zero_states_fini(z);
    free(z->follower);
    free(z->bucket);
    free(z->unit);
    mds_partition_fini(&z->parts);
    free(z);
}

struct mds_zero_host mds_zero_host_bytes(const struct mds_zero *z)
{
    return z->host_bytes;
}
