/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/options.h"
#include "config/options.h"

#include <config.h>

#include <stddef.h>

#define AT(field) ((ptrdiff_t)offsetof(struct mds_launch_options, field))

/* Headings of --help. */
static const char general[] = "General";
static const char place[] = "Where";
static const char plan[] = "Planning";
static const char runs[] = "Run folders";
static const char state[] = "Status";
static const char report[] = "Report";
static const char job[] = "Jobs";

static const char *const layouts[] = {"auto", "plan", "given", NULL};

static const struct mds_option rows[] = {
    MDS_OPT_HELP_AND_VERSION(general),
    {general, "launch.print", "--print", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(print),
     NULL, .help = "print the command or the job script, and exit"},
    {general, "launch.program", "--program", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(program), "file",
     .help = "program that the ranks run; unset: the mds_pretrain beside this program; "
             "mds_infer: plan, run and submit read its words behind --",
     .path = MDS_PATH_FILE},

    {place, "launch.machine", "--machine", "MACHINE", MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(machine), "name",
     .help = "profile of the machine, a name or a file; unset: by this host's name"},
    {place, "launch.hostfile", "--hostfile", "HOSTFILE", MDS_OPT_STRING, NULL, 0, 0,
     NULL, AT(hostfile), "file",
     .help = "list of nodes, one per line; unset: the nodes of the batch job",
     .path = MDS_PATH_FILE},
    {place, "launch.exclude", "--exclude", "EXCLUDE", MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(exclude), "nodes",
     .help = "nodes not to use, such as n3,n[7-9] or n3+n7; mds_launch check names bad "
             "ones"},
    {place, "launch.exclude_file", "--exclude-file", "EXCLUDE_FILE", MDS_OPT_STRING,
     NULL, 0, 0, NULL, AT(exclude_file), "file",
     .help = "nodes to leave out, one a line, while there are enough others; those "
             "that the run loses are added",
     .path = MDS_PATH_FILE},
    {place, "launch.max_restarts", "--max-restarts", "MAX_RESTARTS", MDS_OPT_INT, "10",
     0, 1e6, NULL, AT(max_restarts), "times",
     .help = "how often a run may start again on a spare node of the job, from its "
             "newest checkpoint, after a rank died or was silent; two losses without a "
             "new checkpoint in between end it, too"},
    {place, "launch.nodes", "--nodes", "NHOSTS", MDS_OPT_INT, NULL, 1, 1e6, NULL,
     AT(nodes), "nodes", .help = "how many nodes to use; unset: all"},
    {place, "launch.ranks_per_node", "--ranks-per-node", "NGPU_PER_HOST", MDS_OPT_INT,
     NULL, 1, 4096, NULL, AT(ranks_per_node), "ranks",
     .help =
         "ranks on each node; unset: slots of the list of nodes, or one for each GPU"},
    {place, "launch.ranks", "--ranks", "NGPUS", MDS_OPT_INT, NULL, 1, 1e8, NULL,
     AT(ranks), "ranks", .help = "ranks altogether; unset: nodes x ranks on each"},
    {place, "launch.command", "--launcher-command", NULL, MDS_OPT_STRING, NULL, 0, 0,
     NULL, AT(command), "command",
     .help = "command that starts the ranks; unset: as the profile says"},

    {plan, "launch.layout", "--layout", NULL, MDS_OPT_ENUM, "auto", 0, 0, layouts,
     AT(layout), "how",
     .help =
         "plan: the fastest layout that fits, among those with the options given; "
         "given: only the options given; auto: plan, unless a parallel size or SP_TYPE "
         "is set or there are no GPUs"},
    {plan, "launch.check_memory", "--no-check-memory", NULL, MDS_OPT_FLAG, "1", 0, 0,
     NULL, AT(check_memory), NULL, "start even if memory is predicted to run out",
     .inverted = 1},
    {plan, "launch.max_seq", "--max-seq", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(max_seq), NULL, .help = "with plan: the longest sequence that fits"},
    {plan, "launch.rows", "--rows", NULL, MDS_OPT_INT, "6", 1, 1000, NULL, AT(rows),
     "rows", .help = "with plan: layouts to show"},
    {plan, "launch.plan_seconds", "--plan-seconds", NULL, MDS_OPT_SECONDS, "20", 0.1,
     1e6, NULL, AT(plan_s), "seconds",
     .help = "the longest a search may take, and the longest that reading Megatron's "
             "files for their largest id may take"},

    {runs, "launch.name", "--name", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(name),
     "name", .help = "name of the run and its job; unset: model, length and nodes"},
    {runs, "launch.tag", "--tag", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(tag),
     "word", .help = "end of the name; a sweep puts its values there"},
    {runs, "launch.folder", "--runs", NULL, MDS_OPT_STRING, "runs", 0, 0, NULL,
     AT(folder), "folder",
     .help = "run folders are made there: with submit and sweep, and for a run without "
             "--save (--save '' makes none)",
     .path = MDS_PATH_FOLDER},

    {state, "launch.watch", "--watch", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(watch),
     NULL, .help = "with status: print it again every two seconds"},

    {report, "launch.html", "--html", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, AT(html),
     "file",
     .help = "with report: write a page with tables and plots, too, which opens in a "
             "browser",
     .path = MDS_PATH_FILE},

    {job, "launch.queue", "--queue", "QUEUE", MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(queue), "name", .help = "with submit: queue (partition, QOS)"},
    {job, "launch.project", "--project", "PROJECT", MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(project), "name", .help = "with submit: project to charge"},
    {job, "launch.walltime", "--walltime", "DURATION", MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(walltime), "time", .help = "with submit: 1:00:00, 90min"},
    {job, "launch.nodes_asked", "--job-nodes", "NUM_NODES", MDS_OPT_INT, NULL, 1, 1e6,
     NULL, AT(nodes_asked), "nodes", .help = "with submit: nodes to ask for"},
    {job, "launch.spare_nodes", "--spare-nodes", "SPARE_NODES", MDS_OPT_INT, "0", 0,
     1e5, NULL, AT(spare_nodes), "nodes",
     .help = "nodes that the run does not use, but that replace nodes in --exclude and "
             "nodes "
             "that fail: with submit, so many more are asked for; in a job, the run "
             "uses all "
             "others"},
    {job, "launch.chain", "--chain", NULL, MDS_OPT_INT, "1", 1, 1000, NULL, AT(chain),
     "jobs",
     .help = "with submit: number of jobs in a row, each resuming from the one before"},
    {job, "launch.array", "--array", NULL, MDS_OPT_INT, "1", 1, 1e5, NULL, AT(array),
     "jobs",
     .help =
         "with submit of mds_infer: an array of so many jobs, which share the files "
         "to read; --output then needs a {}"},
    {job, "launch.margin", "--margin", NULL, MDS_OPT_SECONDS, NULL, 30, 1e8, NULL,
     AT(margin_s), "time",
     .help = "with submit: how long before the walltime to save and exit; unset: two "
             "minutes, two steps and a save, as predicted"},
    {job, "launch.requeue", "--no-requeue", NULL, MDS_OPT_FLAG, "1", 0, 0, NULL,
     AT(requeue), NULL, .inverted = 1,
     .help = "with submit: do not requeue a job that ends before its run is finished"},
    {job, "launch.write", "--write", NULL, MDS_OPT_FLAG, "0", 0, 0, NULL, AT(write),
     NULL,
     .help = "with submit and sweep: make run folders and scripts, and submit nothing"},
    {.help = NULL},
};

const struct mds_option_set mds_launch_options = {
    .program = "mds_launch",
    .version = PACKAGE_VERSION,
    .synopsis = "[subcommand] [option]... [-- mds_pretrain's option...]",
    .about =
        "Without a subcommand: starts mds_pretrain on the nodes of this job with the "
        "launcher of this machine.\n"
        "Subcommands: where prints what nodes and GPUs were found, and by whom; check "
        "compares the nodes before a long run; models lists the shapes that have "
        "names, and which fit; plan prints "
        "the layouts that fit, fastest first, and why others do not; check-profile "
        "FILE checks a machine's profile; submit [QUEUE [NODES [WALLTIME [PROJECT]]]] "
        "writes and submits a job; sweep FILE [QUEUE ...] submits one for each "
        "combination of values in a table; "
        "status [DIR] says how runs get on; continue NAME submits the next job of one, "
        "cancel NAME lets it save and leave; "
        "report DIR collects the results of run folders as CSV, Markdown and plots.\n"
        "What mds_pretrain reads from the environment (MODEL_SIZE_KEY, SEQ_LEN, ...) "
        "is read here, too, and passed on as options. A machine is described by a "
        "file, see docs/new-machine.md. mds_launch SUBCOMMAND --help says more of "
        "each.",
    .options = rows,
    .operands = "subcommand",
    .passed_to = &mds_pretrain_options,
};
