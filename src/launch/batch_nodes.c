/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes that a batch system gave this job. */
#include "launch/placement.h"

#include <stdio.h>
#include <stdlib.h>

static enum mds_rc add_nodefile_finding(struct mds_placement *p, const char *source,
                                        const char *path)
{
    struct mds_finding *f = mds_placement_add(p, source);

    if (!f)
        return MDS_OK;
    MDS_TRY(mds_hosts_read(path, 0, &f->hosts));
    f->nodes = (int)f->hosts.count;
    return MDS_OK;
}

static enum mds_rc add_slurm_finding(struct mds_placement *p)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    struct mds_finding *f;

    if (!list)
        list = getenv("SLURM_NODELIST");
    if (!list)
        return MDS_OK;
    f = mds_placement_add(p, "Slurm (SLURM_JOB_NODELIST)");
    if (!f)
        return MDS_OK;
    MDS_TRY(mds_hosts_expand(list, &f->hosts));
    f->nodes = mds_env_number("SLURM_JOB_NUM_NODES");
    if (f->nodes < 0)
        f->nodes = (int)f->hosts.count;
    if (f->nodes != (int)f->hosts.count)
        snprintf(f->note, sizeof f->note, "SLURM_JOB_NUM_NODES is %d, the list has %zu",
                 f->nodes, f->hosts.count);
    f->gpus = mds_env_number("SLURM_GPUS_ON_NODE");
    return MDS_OK;
}

enum mds_rc mds_find_batch(struct mds_placement *p)
{
    const char *pbs = getenv("PBS_NODEFILE"), *cobalt = getenv("COBALT_NODEFILE");

    if (pbs && *pbs)
        MDS_TRY(add_nodefile_finding(p, "PBS (PBS_NODEFILE)", pbs));
    MDS_TRY(add_slurm_finding(p));
    if (cobalt && *cobalt)
        MDS_TRY(add_nodefile_finding(p, "Cobalt (COBALT_NODEFILE)", cobalt));
    return MDS_OK;
}
