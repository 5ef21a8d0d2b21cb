/* SPDX-License-Identifier: BSD-3-Clause */
/* One function per launcher. */
#include "base/host.h"
#include "base/scheduler.h"
#include "config.h"
#include "launch/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- parts ---- */

/* Cores of each rank, for PALS deals out the system's CPU numbers in a row, and those
 * of second threads come after all cores.  Slurm counts what its administrator calls a
 * CPU, mostly hardware threads, and a step of too few gets half of the cores: in a job
 * it says how many it gave. */
static int64_t cores_per_rank(const struct mds_launch *l)
{
    int cpus = l->machine->launcher.kind == MDS_LAUNCHER_SRUN
                   ? mds_slurm_list_entry(getenv("SLURM_JOB_CPUS_PER_NODE"), 0)
                   : -1;
    int64_t n = (cpus > 0 ? cpus : l->machine->node.cores) / l->per_node;

    return n > 0 ? n : 1;
}

/* Words of a profile, with {depth} filled in. */
static void add_binding(const struct mds_launch *l, struct mds_argv *out)
{
    static const char placeholder[] = "{depth}";
    struct mds_argv words = {0};

    mds_argv_add_split(&words, l->machine->launcher.binding);
    for (size_t i = 0; i < words.n; i++) {
        const char *text = words.v[i], *at = strstr(text, placeholder);

        if (at)
            mds_argv_add(out, "%.*s%lld%s", (int)(at - text), text,
                         (long long)cores_per_rank(l), at + strlen(placeholder));
        else
            mds_argv_add(out, "%s", text);
    }
    out->failed |= words.failed;
    mds_argv_fini(&words);
}

static int gpu_is_listed(const char *list, int gpu)
{
    while (*list && atoi(list) != gpu) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return *list != 0;
}

/* Whether ranks take the last GPU first; of those that are visible by names
 * (GPU-1234...) they take the user's order. */
static int gpus_are_reversed(const struct mds_launch *l, const char *visible)
{
    return l->machine->gpu.order == MDS_GPU_REVERSE && l->machine->node.gpus > 1 &&
           !(visible && visible[strspn(visible, "0123456789,")]);
}

/* CUDA_VISIBLE_DEVICES for ranks that do not take the visible GPUs as they stand. */
static void add_gpu_order(const struct mds_launch *l, struct mds_str *out)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    for (int i = (int)l->machine->node.gpus; i-- > 0 && gpus_are_reversed(l, visible);)
        if (!visible || !*visible || gpu_is_listed(visible, i))
            mds_str_add(out, "%s%d", out->len ? "," : "", i);
}

/* Of the cores that a batch system gave a job: no choice of the user's. */
static int is_set_by_scheduler(const char *name, const char *value)
{
    int found = 0;

    for (int i = 0; mds_scheduler_names[i]; i++) {
        const struct mds_scheduler *d = mds_scheduler_at(i);
        const char *cores = d->cores && getenv(d->id) ? getenv(d->cores) : NULL;

        found |= cores && strcmp(value, cores) == 0;
    }
    return found && strcmp(name, "OMP_NUM_THREADS") == 0;
}

/* "{before}" of a value is what the variable was, and with nothing before no colon
 * either.  Without that hole what the user has set goes first. */
static void add_variable(const struct mds_variable *v, struct mds_argv *out)
{
    static const char placeholder[] = "{before}";
    const char *now = getenv(v->name), *at = strstr(v->value, placeholder);
    int n = at ? (int)(at - v->value) : 0;

    if (now && (!*now || is_set_by_scheduler(v->name, now)))
        now = NULL;
    if (!at) {
        mds_argv_add(out, "%s=%s", v->name, now ? now : v->value);
        return;
    }
    if (!now && n > 0 && at[-1] == ':')
        n--;
    mds_argv_add(out, "%s=%.*s%s%s", v->name, n, v->value, now ? now : "",
                 at + strlen(placeholder));
}

/* Each variable as `before`, then NAME=VALUE. */
static void add_environment(const struct mds_launch *l, const char *before,
                            struct mds_argv *out)
{
    struct mds_str gpus = {0};

    for (size_t i = 0; i < l->machine->variable_count; i++) {
        mds_argv_add_split(out, before);
        add_variable(&l->machine->environment[i], out);
    }
    add_gpu_order(l, &gpus);
    if (gpus.len) {
        mds_argv_add_split(out, before);
        mds_argv_add(out, "CUDA_VISIBLE_DEVICES=%s", gpus.s);
    }
    out->failed |= gpus.failed;
    mds_str_fini(&gpus);
}

static int sets_environment(const struct mds_launch *l)
{
    return l->machine->variable_count > 0 || l->machine->gpu.order == MDS_GPU_REVERSE;
}

/* The file the batch system wrote, or the user's, if all of its nodes are to be used.
 * Not one that says slots: some launchers cannot read them, others take them for a
 * limit. */
static const char *unchanged_hostfile(const struct mds_launch *l)
{
    const struct mds_hosts *h = mds_placement_hosts(&l->placement);

    if (!h || l->nodes != (int64_t)h->count || h->has_slots ||
        l->placement.excluded > 0)
        return NULL;
    if (l->options->hostfile && *l->options->hostfile)
        return l->options->hostfile;
    return mds_scheduler_nodefile();
}

/* "a,b" or, with slots, "a:4,b:4"; in the option's own word if that ends in a colon. */
static void add_host_list(const struct mds_launch *l, const char *option, int slots,
                          struct mds_argv *out)
{
    const struct mds_hosts *h = mds_placement_hosts(&l->placement);
    struct mds_str list = {0};

    for (size_t i = 0; h && i < h->count && (int64_t)i < l->nodes; i++) {
        mds_str_add(&list, "%s%s", i ? "," : "", h->name[i]);
        if (slots)
            mds_str_add(&list, ":%lld", (long long)l->per_node);
    }
    if (list.len && option[strlen(option) - 1] == ':') {
        mds_argv_add(out, "%s%s", option, list.s);
    } else if (list.len) {
        mds_argv_add_option(out, option, "%s", list.s);
    }
    out->failed |= list.failed;
    mds_str_fini(&list);
}

static void add_node_options(const struct mds_launch *l, const char *file_option,
                             const char *list_option, int slots, struct mds_argv *out)
{
    const char *file = unchanged_hostfile(l);

    if (file) {
        mds_argv_add(out, "%s", file_option);
        mds_argv_add(out, "%s", file);
    } else {
        add_host_list(l, list_option, slots, out);
    }
}

static void add_count_option(const char *option, int64_t n, struct mds_argv *out)
{
    mds_argv_add_option(out, option, "%lld", (long long)n);
}

/* ---- launchers ---- */

/* HPE PALS, mpiexec(1). */
static void add_pals_command(const struct mds_launch *l, struct mds_argv *out)
{
    mds_argv_add_split(out, l->machine->launcher.flags);
    add_count_option("-n", l->ranks, out);
    add_count_option("--ppn", l->per_node, out);
    add_node_options(l, "--hostfile", "--hosts", 0, out);
    add_binding(l, out);
    add_environment(l, "--env", out);
}

/* MPICH's mpiexec.hydra. */
static void add_hydra_command(const struct mds_launch *l, struct mds_argv *out)
{
    mds_argv_add_split(out, l->machine->launcher.flags);
    add_count_option("-n", l->ranks, out);
    add_count_option("-ppn", l->per_node, out);
    add_node_options(l, "-f", "-hosts", 0, out);
    add_binding(l, out);
    if (sets_environment(l)) {
        mds_argv_add(out, "env");
        add_environment(l, "", out);
    }
}

/* Open MPI's mpirun(1). */
static void add_openmpi_command(const struct mds_launch *l, struct mds_argv *out)
{
    struct mds_argv names = {0};

    mds_argv_add_split(out, l->machine->launcher.flags);
    add_node_options(l, "--hostfile", "--host", 1, out);
    add_count_option("-n", l->ranks, out);
    add_count_option("-npernode", l->per_node, out);
    add_binding(l, out);
    mds_argv_add_split(&names, l->machine->launcher.pass);
    for (size_t i = 0; i < names.n; i++) {
        mds_argv_add_option(out, "-x", "%s", names.v[i]);
    }
    out->failed |= names.failed;
    mds_argv_fini(&names);
    add_environment(l, "-x", out);
}

/* Slurm's srun(1).  It hands its own environment on.  Unless told so it lets the other
 * ranks wait for one that was killed until the job's time is over. */
static void add_srun_command(const struct mds_launch *l, struct mds_argv *out)
{
    mds_argv_add_split(out, l->machine->launcher.flags);
    mds_argv_add(out, "--kill-on-bad-exit=1");
    add_count_option("-N", l->nodes, out);
    add_count_option("-n", l->ranks, out);
    mds_argv_add(out, "--ntasks-per-node=%lld", (long long)l->per_node);
    if (l->options->hostfile || l->placement.excluded > 0 ||
        (mds_placement_hosts(&l->placement) &&
         l->nodes < (int64_t)mds_placement_hosts(&l->placement)->count))
        add_host_list(l, "-w", 0, out);
    add_binding(l, out);
}

/* flux run(1), which hands its own environment on.  Of nodes that are not its own alone
 * a run gets a core for each rank. */
static void add_flux_command(const struct mds_launch *l, struct mds_argv *out)
{
    const struct mds_hosts *h = mds_placement_hosts(&l->placement);

    mds_argv_add_split(out, l->machine->launcher.flags);
    mds_argv_add(out, "--exclusive");
    mds_argv_add(out, "-oexit-on-error");
    add_count_option("-N", l->nodes, out);
    add_count_option("-n", l->ranks, out);
    if (l->placement.excluded > 0 || (h && l->nodes < (int64_t)h->count))
        add_host_list(l, "--requires=hosts:", 0, out);
    add_binding(l, out);
}

/* mpiexec as in the MPI standard. */
static void add_plain_command(const struct mds_launch *l, struct mds_argv *out)
{
    mds_argv_add_split(out, l->machine->launcher.flags);
    add_count_option("-n", l->ranks, out);
    add_binding(l, out);
}

/* Launchers that pass their environment on: srun, flux, and on one host all. */
static int launcher_passes_environment(enum mds_launcher kind)
{
    return kind == MDS_LAUNCHER_SRUN || kind == MDS_LAUNCHER_FLUX ||
           kind == MDS_LAUNCHER_PLAIN;
}

/* --program, else mds_pretrain beside this one, else its name, to be found in PATH.  So
 * is mds_infer, if it has no folder. */
static void add_program(const struct mds_launch *l, struct mds_argv *out)
{
    const char *given = l->options->program, *name = given ? given : "mds_pretrain";
    int look = !given || strcmp(given, "mds_infer") == 0;
    char here[PATH_MAX], path[PATH_MAX + 16] = "";

    if (look && mds_program_folder(here, sizeof here) == 0)
        snprintf(path, sizeof path, "%s/%s", here, name);
    mds_argv_add(out, "%s", look && access(path, X_OK) == 0 ? path : name);
}

/* Without a word from profile or user: the launcher of the MPI that mds_pretrain was
 * built with, which where there are several may not be the mpiexec found first. */
static const char *launcher_command(const struct mds_launch *l)
{
    if (l->options->command)
        return l->options->command;
    if (l->machine->launcher.command)
        return l->machine->launcher.command;
    return MDS_MPIEXEC[0] == '/' && access(MDS_MPIEXEC, X_OK) ? "mpiexec" : MDS_MPIEXEC;
}

enum mds_rc mds_launch_command(const struct mds_launch *l,
                               const struct mds_argv *arguments, struct mds_argv *out)
{
    static void (*const add_command[])(const struct mds_launch *, struct mds_argv *) = {
        [MDS_LAUNCHER_PLAIN] = add_plain_command,
        [MDS_LAUNCHER_PALS] = add_pals_command,
        [MDS_LAUNCHER_HYDRA] = add_hydra_command,
        [MDS_LAUNCHER_OPENMPI] = add_openmpi_command,
        [MDS_LAUNCHER_SRUN] = add_srun_command,
        [MDS_LAUNCHER_FLUX] = add_flux_command,
    };
    const struct mds_machine *m = l->machine;

    if (m->launcher.kind == MDS_LAUNCHER_PLAIN && l->nodes > 1)
        return mds_fail(
            MDS_EUSER,
            "profile %s starts ranks on one host only, and there are %lld "
            "nodes; give --machine, or a profile with another launcher.kind",
            m->name, (long long)l->nodes);
    if (launcher_passes_environment((enum mds_launcher)m->launcher.kind) &&
        sets_environment(l)) {
        mds_argv_add(out, "env");
        add_environment(l, "", out);
    }
    mds_argv_add_split(out, launcher_command(l));
    add_command[m->launcher.kind](l, out);
    add_program(l, out);
    mds_argv_add_words(out, arguments->n, arguments->v);
    return out->failed ? mds_fail(MDS_EMEM, "no host memory for a command") : MDS_OK;
}

enum mds_rc mds_launch_print_command(const struct mds_argv *command)
{
    struct mds_str line = {0};
    int bad;

    mds_argv_format(command, NULL, &line);
    bad = line.failed || puts(line.s) < 0 || fflush(stdout);
    mds_str_fini(&line);
    return bad ? mds_fail(MDS_EIO, "standard output: %s", strerror(errno)) : MDS_OK;
}
