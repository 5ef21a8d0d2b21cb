/* SPDX-License-Identifier: BSD-3-Clause */
/* Merges GPU facts into the profile of a host that has none of its own. */
#include "device/device.h"
#include "plan/machine_impl.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Sections that are taken from the GPUs' profile; all others are the host's. */
static const char *const sections[] = {"gpu",   "rates",    "attention",
                                       "links", "overhead", NULL};

static void put_fact(struct mds_machine *m, const char *key, const char *text,
                     struct mds_diag *diag)
{
    mds_settings_put(&m->facts, mds_settings_row(&m->facts, key), text, MDS_LEVEL_FILE,
                     "nvidia-smi", key, diag);
}

static void put_number(struct mds_machine *m, const char *key, int64_t value,
                       struct mds_diag *diag)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    put_fact(m, key, text, diag);
}

/* Of a kind that comes with more or less memory: "A100-40GB" is "A100-80GB" here.  What
 * CUDA leaves of it the profile knows better for its own kind. */
static void put_memory(struct mds_machine *m, const struct mds_gpus *g,
                       struct mds_diag *diag)
{
    double gib = (double)g->memory / (1 << 30);
    char kind[64];

    if (g->memory <= 0 || fabs((double)g->memory / (double)m->gpu.memory - 1) < 0.05)
        return;
    snprintf(kind, sizeof kind, "%.*s-%.0fGB", (int)strcspn(m->gpu.kind, "-"),
             m->gpu.kind, gib);
    put_fact(m, "gpu.kind", kind, diag);
    put_number(m, "gpu.memory", g->memory, diag);
}

/* The host's file, then the GPUs' parts of `kind`. */
static enum mds_rc merge_gpu_facts(const struct mds_machine *host,
                                   const struct mds_machine *kind,
                                   const struct mds_gpus *g, struct mds_diag *diag,
                                   struct mds_machine *m)
{
    MDS_TRY(mds_machine_read(m, host->path, sections, 1, diag));
    MDS_TRY(mds_machine_read(m, kind->path, sections, 0, diag));
    put_number(m, "node.gpus", g->count, diag);
    put_number(m, "node.ranks", 0, diag);
    put_number(m, "node.cores", mds_host_cores(), diag);
    put_memory(m, g, diag);
    mds_machine_check(m, diag);
    return mds_diag_result(diag);
}

enum mds_rc mds_machine_merge_gpus(const struct mds_gpus *g, struct mds_diag *diag,
                                   struct mds_machine **m)
{
    struct mds_machine *kind = NULL, *both = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_machine_find_matching(offsetof(struct mds_machine, gpu.names), g->name,
                                      diag, &kind));
    if (!kind)
        return MDS_OK;
    /* what mds_pretrain is to take from a profile, such as bf16, is the GPUs', too */
    rc = mds_machine_create(kind->path, &both);
    if (!rc)
        rc = merge_gpu_facts(*m, kind, g, diag, both);
    mds_machine_destroy(kind);
    if (rc) {
        mds_machine_destroy(both);
        return rc;
    }
    mds_machine_destroy(*m);
    *m = both;
    return MDS_OK;
}
