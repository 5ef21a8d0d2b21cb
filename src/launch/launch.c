/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/launch.h"
#include "base/host.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "ckpt/configuration.h"
#include "data/inspect.h"

#include <string.h>

/* ---- machine, nodes and ranks ---- */

/* Ranks on each node. */
static enum mds_rc count_ranks_per_node(struct mds_launch *l)
{
    const struct mds_launch_options *o = l->options;
    const struct mds_placement *p = &l->placement;

    l->per_node = o->ranks_per_node ? o->ranks_per_node : p->slots;
    if (l->per_node)
        return MDS_OK;
    if (l->machine->node.gpus == 0)
        l->per_node = mds_machine_ranks_per_node(l->machine);
    else if (p->gpus > 0)
        l->per_node = p->gpus;
    else
        return mds_fail(
            MDS_EUSER,
            "no GPU: %s says there is none on a node of %s; correct that, or "
            "give --ranks-per-node (NGPU_PER_HOST)",
            p->gpus_from, l->machine->name);
    return MDS_OK;
}

/* Before a job the number of ranks says how many nodes to ask for. */
static int64_t nodes_to_ask_for(const struct mds_launch *l, int job)
{
    const struct mds_launch_options *o = l->options;
    const struct mds_placement *p = &l->placement;

    if (job && o->nodes_asked)
        return o->nodes_asked;
    if (o->nodes)
        return o->nodes;
    if (job && o->ranks && !mds_placement_hosts(p) &&
        l->machine->batch.scheduler != MDS_SCHEDULER_NONE)
        return mds_ceil_div(o->ranks, l->per_node);
    if (!job && o->spare_nodes > 0)
        return p->nodes + (int64_t)p->excluded - o->spare_nodes;
    return p->nodes;
}

static enum mds_rc count_nodes(struct mds_launch *l, int job)
{
    const struct mds_placement *p = &l->placement;
    int64_t there = p->nodes, excluded = (int64_t)p->excluded;

    l->nodes = nodes_to_ask_for(l, job);
    if (l->nodes > l->machine->node.count &&
        l->machine->batch.scheduler != MDS_SCHEDULER_NONE)
        mds_warn("%lld nodes, but %s has %lld by its profile (node.count)",
                 (long long)l->nodes, l->machine->name,
                 (long long)l->machine->node.count);
    if (job)
        return MDS_OK;
    if (l->nodes < 1)
        return mds_fail(MDS_EUSER,
                        "--spare-nodes %lld: %s has %lld node%s, so none is "
                        "left for the run",
                        (long long)l->options->spare_nodes, p->nodes_from,
                        (long long)(there + excluded), mds_plural(there + excluded));
    if (!mds_placement_hosts(p) || l->nodes <= there)
        return MDS_OK;
    if (excluded > 0)
        return mds_fail(MDS_EUSER,
                        "%lld nodes asked for, but %s has %lld, of which %lld %s "
                        "excluded",
                        (long long)l->nodes, p->nodes_from,
                        (long long)(there + excluded), (long long)excluded,
                        excluded == 1 ? "is" : "are");
    return mds_fail(MDS_EUSER, "%lld nodes asked for, but %s has %lld",
                    (long long)l->nodes, p->nodes_from, (long long)there);
}

/* A number of ranks decides how many nodes are needed, or how full one is. */
static enum mds_rc count_ranks(struct mds_launch *l)
{
    int64_t asked = l->options->ranks;

    l->ranks = l->nodes * l->per_node;
    if (!asked || asked == l->ranks)
        return MDS_OK;
    if (asked > l->ranks && (mds_placement_hosts(&l->placement) || l->options->nodes) &&
        l->options->ranks_per_node)
        return mds_fail(MDS_EUSER,
                        "%lld ranks (NGPUS, --ranks) are more than %lld nodes x %lld "
                        "ranks on each; leave one out",
                        (long long)asked, (long long)l->nodes, (long long)l->per_node);
    if (asked > l->ranks) {
        if (mds_placement_hosts(&l->placement) || l->machine->node.gpus > 0)
            return mds_fail(MDS_EUSER,
                            "%lld rank%s (NGPUS, --ranks), but %lld node%s with %lld "
                            "on each; give more --nodes",
                            (long long)asked, mds_plural(asked), (long long)l->nodes,
                            mds_plural(l->nodes), (long long)l->per_node);
        l->per_node = asked;
    }
    if (asked < l->per_node)
        l->per_node = asked;
    l->nodes = mds_ceil_div(asked, l->per_node);
    l->ranks = asked;
    return MDS_OK;
}

/* localhost's profile says nothing of GPUs: what this host has is taken from nvidia-smi
 * and the profile that knows such GPUs, unless all are hidden. */
static enum mds_rc use_detected_gpus(struct mds_launch *l, const struct mds_gpus *here,
                                     struct mds_diag *diag)
{
    const struct mds_machine *was = l->machine;

    if (!mds_machine_is_local(was) || was->node.gpus > 0 || here->count == 0 ||
        mds_gpus_count_visible() == 0)
        return MDS_OK;
    MDS_TRY(mds_machine_merge_gpus(here, diag, &l->machine));
    if (l->machine == was)
        mds_warn("no profile has gpu.names for '%s': ranks compute on the cpu",
                 here->name);
    else
        mds_info("found %d %s; plans use the speeds in %s", here->count, here->name,
                 l->machine->path);
    return MDS_OK;
}

enum mds_rc mds_launch_open(const struct mds_launch_options *options, int job, int argc,
                            char *const *argv, struct mds_launch *out)
{
    struct mds_launch l = {
        .options = options, .for_later = job, .scan = {.largest = -1}};
    struct mds_diag diag = {0};
    struct mds_gpus here;
    int known = mds_gpus_detect(&here);
    const struct mds_exclusions exclude = {options->exclude, options->exclude_file,
                                           options->nodes, options->spare_nodes};
    char host[MDS_HOST_SIZE];
    enum mds_rc rc;

    mds_host_name(host);
    rc = mds_machine_find(options->machine, host, &diag, &l.machine);
    if (!rc)
        rc = use_detected_gpus(&l, &here, &diag);
    mds_diag_fini(&diag);
    if (!rc)
        rc = mds_placement_find(l.machine, options->hostfile, job ? NULL : &exclude,
                                known ? &here : NULL, &l.placement);
    if (rc)
        goto destroy_machine;
    rc = count_ranks_per_node(&l);
    if (!rc)
        rc = count_nodes(&l, job);
    if (!rc)
        rc = count_ranks(&l);
    if (rc)
        goto fini_placement;
    mds_argv_add_words(&l.asked, (size_t)argc, argv);
    *out = l;
    return MDS_OK;

fini_placement:
    mds_placement_fini(&l.placement);
destroy_machine:
    mds_machine_destroy(l.machine);
    return rc;
}

void mds_launch_close(struct mds_launch *l)
{
    mds_argv_fini(&l->asked);
    mds_placement_fini(&l->placement);
    mds_machine_destroy(l->machine);
}

/* ---- configuration ---- */

/* A GPU for each rank; ranks on CPUs may be as many as they like.  Where a list of
 * visible GPUs is wrong the profile counts. */
static enum mds_rc check_gpus(const struct mds_launch *l,
                              const struct mds_config_run *run)
{
    int64_t there = l->machine->node.gpus;

    if (l->placement.gpus > there)
        there = l->placement.gpus;
    if (there == 0 || l->per_node <= there ||
        strcmp(run->config.output.device, "cpu") == 0)
        return MDS_OK;
    return mds_fail(
        MDS_EUSER,
        "%lld ranks a node (NGPU_PER_HOST, --ranks-per-node), but a node of "
        "%s has %lld GPU%s; give %lld at most, or --device cpu",
        (long long)l->per_node, l->machine->name, (long long)there, mds_plural(there),
        (long long)there);
}

static enum mds_rc check_dtype(const struct mds_launch *l,
                               const struct mds_config_run *run)
{
    const struct mds_machine *m = l->machine;

    if (mds_machine_supports_type(m, run->config.train.type) ||
        strcmp(run->config.output.device, "cpu") == 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: bf16 needs GPUs of compute capability 8.0, and %s of %s has "
                    "%.1f; give --fp16 (DTYPE=fp16)",
                    mds_settings_of(&run->settings, "model.dtype")->origin, m->gpu.kind,
                    m->name, m->gpu.capability);
}

enum mds_rc mds_launch_check_device(const struct mds_launch *l,
                                    const struct mds_config_run *run)
{
    MDS_TRY(check_gpus(l, run));
    return check_dtype(l, run);
}

/* Optimizer states that are to be on disk, without --nvme-path: they go to what the
 * profile calls a node's own disk, as with the ALCF scripts. */
static void default_nvme_path(const struct mds_launch *l, struct mds_config_run *run,
                              int log, struct mds_diag *diag)
{
    const char *scratch = l->machine->node.scratch;
    struct mds_settings *s = &run->settings;

    if (run->config.parallel.offload_optimizer != MDS_PLACE_NVME ||
        run->config.parallel.nvme_path || !scratch)
        return;
    mds_settings_put(s, mds_settings_row(s, "parallel.nvme_path"), scratch,
                     MDS_LEVEL_MACHINE,
                     mds_settings_of(&l->machine->facts, "node.scratch")->origin,
                     "node.scratch", diag);
    if (log)
        mds_info("optimizer states go to %s, scratch of %s's nodes; --nvme-path "
                 "(NVME_PATH) chooses another folder",
                 scratch, l->machine->name);
}

/* Options that only print would do so on every rank. */
static enum mds_rc check_action(const struct mds_launch *l,
                                const struct mds_config_run *run)
{
    if (run->config.train.dry_run)
        return mds_fail(MDS_EUSER,
                        "--dry-run: use `mds_launch plan`, or call mds_pretrain "
                        "itself, with --world-size %lld",
                        (long long)l->ranks);
    if (run->action != MDS_ACTION_RUN)
        return mds_fail(MDS_EUSER, "options that only print, such as --show-config, "
                                   "need no launcher: call mds_pretrain itself");
    return MDS_OK;
}

enum mds_rc mds_launch_config(const struct mds_launch *l, const struct mds_argv *extra,
                              int log, struct mds_config_run **out)
{
    struct mds_argv argv = {0};
    struct mds_diag diag = {0};
    enum mds_rc rc;

    *out = NULL;
    mds_argv_add(&argv, "mds_pretrain");
    mds_argv_add_option(&argv, "--machine", "%s", l->machine->path);
    mds_argv_add_words(&argv, l->asked.n, l->asked.v);
    if (extra)
        mds_argv_add_words(&argv, extra->n, extra->v);
    rc = argv.failed || l->asked.failed
             ? mds_fail(MDS_EMEM, "no host memory for arguments")
             : mds_config_read((int)argv.n, argv.v, &diag, out);
    if (!rc)
        rc = check_action(l, *out);
    if (!rc)
        rc = mds_ckpt_inherit_model(*out, &diag);
    if (!rc) {
        default_nvme_path(l, *out, log, &diag);
        mds_data_inspect(*out, mds_launch_scanned_words(l), log);
        (*out)->config.data.seen = l->seen;
    }
    if (!rc && log)
        mds_diag_log(&diag);
    if (!rc)
        rc = mds_launch_check_device(l, *out);
    if (!rc)
        rc = mds_machine_check_fp8(l->machine, &(*out)->config);
    if (rc && *out) {
        mds_config_run_destroy(*out);
        *out = NULL;
    }
    mds_diag_fini(&diag);
    mds_argv_fini(&argv);
    return rc;
}
