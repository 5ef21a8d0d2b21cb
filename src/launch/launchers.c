/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers tell each rank in its environment. */
#include "base/host.h"
#include "base/units.h"
#include "launch/placement.h"

#include <stdlib.h>
#include <string.h>

int mds_env_number(const char *name)
{
    const char *text = getenv(name);
    int64_t n;

    return text && mds_parse_count(text, &n) == 0 && n >= 0 && n < (1 << 30) ? (int)n
                                                                             : -1;
}

/* Names of one launcher's variables; NULL: it has none. */
struct names {
    const char *source, *rank, *ranks, *local_rank, *local_ranks, *node, *nodes;
};

/* SLURM_* in an allocation without srun are the batch step's: batch_nodes.c. */
static const struct names launchers[] = {
    {"PALS", "PALS_RANKID", NULL, "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PALS_NODEID",
     NULL},
    {"hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL,
     "SLURM_NODEID", "SLURM_STEP_NUM_NODES"},
    {"flux run", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL, NULL,
     "FLUX_JOB_NNODES"},
};

static int first_env_number(const char *name)
{
    return name ? mds_env_number(name) : -1;
}

/* Inside mpiexec or mpirun srun's variables belong to its proxy; and the batch script
 * is a step of one task, too. */
static int is_srun_step(void)
{
    return getenv("SLURM_STEP_ID") && first_env_number("SLURM_STEP_NUM_TASKS") > 0 &&
           !getenv("MPI_LOCALRANKID") && !getenv("OMPI_COMM_WORLD_RANK") &&
           !getenv("PALS_RANKID");
}

/* PMI_RANK alone is no sign of hydra: srun --mpi=pmi2 sets it, too. */
static int launcher_of_ranks(const struct names *l)
{
    if (strcmp(l->source, "hydra") == 0 && !getenv(l->local_rank))
        return 0;
    if (strcmp(l->source, "srun") == 0 && !is_srun_step())
        return 0;
    return first_env_number(l->rank) >= 0;
}

void mds_find_launchers(struct mds_placement *p)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct names *l = &launchers[i];
        struct mds_finding *f =
            launcher_of_ranks(l) ? mds_placement_add(p, l->source) : NULL;

        if (!f)
            continue;
        f->rank = first_env_number(l->rank);
        f->ranks = first_env_number(l->ranks);
        f->local_rank = first_env_number(l->local_rank);
        f->local_ranks = first_env_number(l->local_ranks);
        f->node = first_env_number(l->node);
        f->nodes = first_env_number(l->nodes);
        if (strcmp(l->source, "srun") == 0)
            f->local_ranks =
                mds_slurm_list_entry(getenv("SLURM_STEP_TASKS_PER_NODE"), f->node);
    }
}
