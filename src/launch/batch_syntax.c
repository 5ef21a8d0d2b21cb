/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/batch_syntax.h"

#include <stdlib.h>

static const struct mds_batch_syntax dialects[MDS_SCHEDULERS] = {
    [MDS_SCHEDULER_NONE] = {.prefix = "", .submit = "sh", .again = "exec sh"},
    [MDS_SCHEDULER_PBS] = {.prefix = "#PBS ",
                           .name = "-N ",
                           .queue = "-q ",
                           .project = "-A ",
                           .walltime = "-l walltime=",
                           .output = "-o ",
                           .fixed = "-j oe",
                           .rerun = {"-r n", "-r y"},
                           .log = "",
                           .live = 1,
                           .folder = "PBS_O_WORKDIR",
                           .id = "PBS_JOBID",
                           .nodefile = "PBS_NODEFILE",
                           .source = "PBS (PBS_NODEFILE)",
                           .submit = "qsub",
                           .after = "-W depend=afterany:",
                           .cancel = "qdel",
                           .outlive = "-W tolerate_node_failures=all",
                           .again = "qsub"},
    [MDS_SCHEDULER_SLURM] = {.prefix = "#SBATCH ",
                             .name = "--job-name=",
                             .queue = "--partition=",
                             .project = "--account=",
                             .walltime = "--time=",
                             .nodes = "--nodes=",
                             .output = "--output=",
                             .warning = "--signal=",
                             .exclude = "--exclude=",
                             .fixed = "--open-mode=append",
                             .rerun = {"--no-requeue", "--requeue"},
                             .log = "job-%j.log",
                             .id = "SLURM_JOB_ID",
                             .nodelist = "SLURM_JOB_NODELIST",
                             .old_nodelist = "SLURM_NODELIST",
                             .node_count = "SLURM_JOB_NUM_NODES",
                             .gpus = "SLURM_GPUS_ON_NODE",
                             .source = "Slurm (SLURM_JOB_NODELIST)",
                             .submit = "sbatch --parsable",
                             .after = "--dependency=afterany:",
                             .cancel = "scancel",
                             .outlive = "--no-kill",
                             .preempted = "scontrol show job \"$SLURM_JOB_ID\" | "
                                          "grep -q 'PreemptTime=[0-9]'",
                             .update = "scontrol update JobId=\"$job\" "
                                       "ExcNodeList=\"$excluded\""},
    [MDS_SCHEDULER_COBALT] = {.prefix = "#COBALT ",
                              .name = "--jobname ",
                              .queue = "-q ",
                              .project = "-A ",
                              .walltime = "-t ",
                              .nodes = "-n ",
                              .output = "-O ",
                              .log = "job",
                              .id = "COBALT_JOBID",
                              .nodefile = "COBALT_NODEFILE",
                              .source = "Cobalt (COBALT_NODEFILE)",
                              .submit = "qsub",
                              .after = "--dependencies ",
                              .cancel = "qdel",
                              .again = "qsub"},
};

const struct mds_batch_syntax *mds_batch_syntax_of(enum mds_scheduler scheduler)
{
    return &dialects[scheduler];
}

const char *mds_batch_nodefile(void)
{
    for (int i = 0; i < MDS_SCHEDULERS; i++) {
        const char *path = dialects[i].nodefile ? getenv(dialects[i].nodefile) : NULL;

        if (path && *path)
            return path;
    }
    return NULL;
}
