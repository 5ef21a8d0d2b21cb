/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/scheduler.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

const char *const mds_scheduler_names[] = {"none",   "pbs",  "slurm",
                                           "cobalt", "flux", NULL};

/* A requeued job keeps its request.  To exclude nodes a new one is submitted, unless
 * Slurm refuses it because too few nodes are left. */
#define SLURM_AGAIN(OPTIONS)                                                           \
    "    # not if it was cancelled\n"                                                  \
    "    squeue -h -o %T -j \"$SLURM_JOB_ID\" | grep -q RUNNING && {\n"                \
    "        { [ -n \"$excluded\" ] && "                                               \
    "sbatch" OPTIONS " --exclude=\"$excluded\" \"$run/job.sh\"; } ||\n"                \
    "            scontrol requeue \"$SLURM_JOB_ID\"\n"                                 \
    "    }\n"

static const char *const flux_list[] = {"flux", "hostlist", "local", NULL};

/* As mds_scheduler_names. */
static const struct mds_scheduler rows[] = {
    {.prefix = "", .submit = "sh", .again = "    exec sh \"$run/job.sh\"\n"},
    {.prefix = "#PBS ",
     .name = "-N ",
     .queue = "-q ",
     .project = "-A ",
     .walltime = "-l walltime=",
     .output = "-o ",
     .fixed = "-j oe",
     .rerun = {"-r n", "-r y"},
     .outlive = "-W tolerate_node_failures=all",
     .log = "",
     .live = 1,
     .folder = "PBS_O_WORKDIR",
     .id = "PBS_JOBID",
     .array = "-J ",
     .task = "PBS_ARRAY_INDEX",
     .array_id = "${PBS_ARRAY_ID%%[*}\\[][^,]*",
     .cores = "NCPUS",
     .nodefile = "PBS_NODEFILE",
     .source = "PBS (PBS_NODEFILE)",
     .submit = "qsub",
     .after = "-W depend=afterany:",
     .cancel = "qdel",
     .state = "qstat -f \"$job\" | sed -n 's/ *job_state = //p'",
     .runs = "R E",
     .waits = "Q H W T S",
     .again = "    qsub \"$run/job.sh\"\n"},
    {.prefix = "#SBATCH ",
     .name = "--job-name=",
     .queue = "--partition=",
     .project = "--account=",
     .walltime = "--time=",
     .nodes = "--nodes=",
     .output = "--output=",
     .warning = "--signal=B:USR1@",
     .exclude = "--exclude=",
     .fixed = "--open-mode=append",
     .rerun = {"--no-requeue", "--requeue"},
     .outlive = "--no-kill",
     .log = "job-%j.log",
     .special = "%\\",
     .id = "SLURM_JOB_ID",
     .array = "--array=",
     .task = "SLURM_ARRAY_TASK_ID",
     .array_id = "$SLURM_ARRAY_JOB_ID",
     .nodelist = "SLURM_JOB_NODELIST",
     .old_nodelist = "SLURM_NODELIST",
     .node_count = "SLURM_JOB_NUM_NODES",
     .gpus = "SLURM_GPUS_ON_NODE",
     .source = "Slurm (SLURM_JOB_NODELIST)",
     .submit = "sbatch --parsable",
     .after = "--dependency=afterany:",
     .cancel = "scancel",
     .state = "squeue -h -o %t -j \"$job\"",
     .runs = "R CG SI SO",
     .waits = "PD CF S ST RD RF RH RQ RS SE",
     .again = SLURM_AGAIN(""),
     .again_task = SLURM_AGAIN(" --array=\"$task\""),
     /* If the ranks have left before its time of grace is over, Slurm takes the end of
      * a preempted job for a failure, and does not requeue it. */
     .preempted = "if scontrol show job \"$SLURM_JOB_ID\" | "
                  "grep -q 'PreemptTime=[0-9]'; then\n"
                  "    scontrol requeue \"$SLURM_JOB_ID\" && exit \"$status\"\n"
                  "fi\n",
     .update = "scontrol update JobId=\"$job\" ExcNodeList=\"$excluded\""},
    {.prefix = "#COBALT ",
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
     .state = "qstat --header State \"$job\" | sed 1,2d",
     .runs = "running exiting killing",
     .waits = "queued starting user_hold admin_hold dep_hold maxrun_hold",
     .again = "    qsub \"$run/job.sh\"\n"},
    /* Its --signal reaches ranks, too, which a second signal ends unsaved.  A job is a
     * Flux of its own, and has no variable with its nodes.  Ids begin with f in place
     * of a letter that is not ASCII. */
    {.prefix = "# flux: ",
     .seconds = 1,
     .name = "--job-name=",
     .queue = "--queue=",
     .project = "--bank=",
     .walltime = "--time-limit=",
     .nodes = "--nodes=",
     .output = "--output=",
     .exclude = "--requires=-hosts:",
     .log = "job-{{id}}.log",
     .special = "{",
     .id = "FLUX_ENCLOSING_ID",
     .nodelist = "FLUX_ENCLOSING_ID",
     .list = flux_list,
     .source = "Flux (flux hostlist local)",
     .submit = "env FLUX_F58_FORCE_ASCII=1 flux batch",
     .after = "--dependency=afterany:",
     .cancel = "flux cancel",
     .state = "flux jobs -no '{status_abbrev}' \"$job\"",
     .runs = "R C",
     .waits = "D P S",
     .leave = "FLUX_URI=$(flux getattr parent-uri) && export FLUX_URI\n",
     .again = "    { [ -n \"$excluded\" ] && "
              "flux batch --requires=-hosts:\"$excluded\" \"$run/job.sh\"; } ||\n"
              "        flux batch \"$run/job.sh\"\n"},
};

static_assert(sizeof mds_scheduler_names / sizeof *mds_scheduler_names ==
                  sizeof rows / sizeof *rows + 1,
              "a name for each row");

const struct mds_scheduler *mds_scheduler_at(int row)
{
    return &rows[row];
}

const char *mds_scheduler_nodefile(void)
{
    for (int i = 0; mds_scheduler_names[i]; i++) {
        const char *path = rows[i].nodefile ? getenv(rows[i].nodefile) : NULL;

        if (path && *path)
            return path;
    }
    return NULL;
}

const char *mds_scheduler_job(void)
{
    const char *id = NULL;

    for (int i = 0; mds_scheduler_names[i] && !id; i++)
        id = rows[i].id ? getenv(rows[i].id) : NULL;
    return id;
}
