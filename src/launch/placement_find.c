/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries all sources, and chooses nodes, GPUs and slots. */
#include "launch/placement.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/scheduler.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

/* Scripts write HOSTFILE=$PBS_NODEFILE: then who repeats a node is no user. */
static int is_batch_nodefile(const char *path)
{
    const char *written = mds_scheduler_nodefile();

    return written && strcmp(path, written) == 0;
}

static enum mds_rc add_hostfile_finding(struct mds_placement *p, const char *path)
{
    struct mds_finding *f = mds_placement_add(p, "HOSTFILE");

    if (!f)
        return MDS_OK;
    MDS_TRY(mds_hosts_read(path, !is_batch_nodefile(path), &f->hosts));
    f->nodes = (int)f->hosts.count;
    f->is_user = !is_batch_nodefile(path);
    return MDS_OK;
}

static void add_profile_finding(struct mds_placement *p, const struct mds_machine *m)
{
    struct mds_finding *f = mds_placement_add(p, "profile");

    if (f)
        f->gpus = (int)m->node.gpus;
}

/* Whether this host is one of the machine's nodes that has GPUs at all: on a login node
 * their number says nothing. */
static int is_compute_node(const struct mds_placement *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->found[i].hosts.count > 0 || p->found[i].rank >= 0)
            return 1;
    return 0;
}

/* Ranks are as many on each node as the least of them has slots.  A batch system's are
 * those of its chunks (mpiprocs), which on nodes with GPUs may be meant for cores. */
static void read_slots(struct mds_placement *p, struct mds_finding *f)
{
    int64_t least = f->hosts.slots[0], most = least, ranks;

    for (size_t i = 1; i < f->hosts.count; i++) {
        least = mds_min(least, f->hosts.slots[i]);
        most = mds_max(most, f->hosts.slots[i]);
    }
    ranks = !f->is_user && p->gpus > 0 ? mds_min(least, p->gpus) : least;
    f->local_ranks = f->hosts.slots[0];
    p->slots = (int)ranks;
    if (least < most)
        snprintf(f->note, sizeof f->note,
                 "nodes have %lld to %lld slots, and all get %lld rank%s",
                 (long long)least, (long long)most, (long long)ranks,
                 mds_plural(ranks));
    else if (ranks < least)
        snprintf(f->note, sizeof f->note,
                 "nodes have %lld slots, and a rank for each GPU, %lld",
                 (long long)least, (long long)ranks);
}

static void choose_counts(struct mds_placement *p, const struct mds_machine *m)
{
    int here = is_compute_node(p) || mds_machine_is_local(m);

    for (int i = 0; i < p->count; i++) {
        const struct mds_finding *f = &p->found[i];
        int counted = here || strcmp(f->source, "nvidia-smi") != 0;

        if (p->nodes < 1 && f->nodes > 0) {
            p->nodes = f->nodes;
            p->nodes_from = f->source;
        }
        if (p->gpus < 0 && f->gpus >= 0 && counted && m->node.gpus > 0) {
            p->gpus = f->gpus;
            p->gpus_from = f->source;
        }
    }
    if (p->nodes < 1) {
        p->nodes = 1;
        p->nodes_from = "this host alone";
    }
    if (p->gpus < 0) {
        p->gpus = (int)m->node.gpus;
        p->gpus_from = "profile";
    }
    for (int i = 0; i < p->count; i++)
        if (p->found[i].hosts.count > 0) { /* the list that counts */
            if (p->found[i].hosts.has_slots)
                read_slots(p, &p->found[i]);
            break;
        }
}

/* Remove nodes from the lists of all sources, so that these still agree. */
static void remove_hosts(struct mds_placement *p, const struct mds_hosts *bad)
{
    const struct mds_hosts *first = mds_placement_hosts(p);

    for (int i = 0; i < p->count; i++) {
        struct mds_finding *f = &p->found[i];
        size_t removed = mds_hosts_remove(&f->hosts, bad);

        f->nodes -= (int)removed;
        if (&f->hosts == first)
            p->excluded += removed;
    }
}

/* The job may have been told not to get them, or their names may be wrong. */
static void tell_unknown(const struct mds_hosts *all, const struct mds_hosts *bad)
{
    const char *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < bad->count; i++)
        if (mds_hosts_find(all, bad->name[i]) < 0 && n++ == 0)
            first = bad->name[i];
    if (n == 1)
        mds_info("--exclude: %s is not a node of this job", first);
    else if (n > 1)
        mds_info("--exclude: %s and %zu more are not nodes of this job", first, n - 1);
}

static enum mds_rc exclude_list(struct mds_placement *p, const char *text)
{
    const struct mds_hosts *first = mds_placement_hosts(p);
    struct mds_hosts bad = {0};

    if (!text || !*text)
        return MDS_OK;
    if (!first)
        return mds_fail(MDS_EUSER,
                        "--exclude %s: no list of this job's nodes was found; give one "
                        "with --hostfile",
                        text);
    MDS_TRY(mds_hosts_expand(text, &bad));
    tell_unknown(first, &bad);
    remove_hosts(p, &bad);
    mds_hosts_fini(&bad);
    return first->count > 0
               ? MDS_OK
               : mds_fail(MDS_EUSER, "--exclude %s: excludes all nodes of the job",
                          text);
}

enum mds_rc mds_placement_leave_out(struct mds_placement *p, const char *node)
{
    struct mds_hosts bad = {0};

    MDS_TRY(mds_hosts_expand(node, &bad));
    remove_hosts(p, &bad);
    mds_hosts_fini(&bad);
    return MDS_OK;
}

/* Those that were listed last first: what was wrong with the others may be over. */
static enum mds_rc exclude_file(struct mds_placement *p, const char *path,
                                int64_t needed)
{
    const struct mds_hosts *first = mds_placement_hosts(p);
    struct mds_hosts bad = {0};
    enum mds_rc rc = MDS_OK;

    if (!path || !*path || !first)
        return MDS_OK;
    MDS_TRY(mds_hosts_read_excluded(path, &bad));
    for (size_t i = bad.count; i-- > 0 && !rc;) {
        if (mds_hosts_find(first, bad.name[i]) < 0 ||
            mds_hosts_find(&bad, bad.name[i]) < (int64_t)i)
            continue;
        if ((int64_t)first->count > needed)
            rc = mds_placement_leave_out(p, bad.name[i]);
        else
            mds_warn("node %s is used although %s lists it: the run needs %lld "
                     "node%s, and there is no other",
                     bad.name[i], path, (long long)needed, mds_plural(needed));
    }
    mds_hosts_fini(&bad);
    return rc;
}

static int64_t nodes_needed(const struct mds_placement *p,
                            const struct mds_exclusions *e)
{
    const struct mds_hosts *left = mds_placement_hosts(p);

    if (e->nodes > 0 || !left)
        return e->nodes;
    return e->spare > 0 ? (int64_t)(left->count + p->excluded) - e->spare : 1;
}

static enum mds_rc exclude_hosts(struct mds_placement *p,
                                 const struct mds_exclusions *e)
{
    if (!e)
        return MDS_OK;
    MDS_TRY(exclude_list(p, e->list));
    return exclude_file(p, e->file, nodes_needed(p, e));
}

enum mds_rc mds_placement_find(const struct mds_machine *m, const char *hostfile,
                               const struct mds_exclusions *exclude,
                               const struct mds_gpus *here, struct mds_placement *out)
{
    struct mds_placement *p = out;
    enum mds_rc rc = MDS_OK;

    *p = (struct mds_placement){.nodes = -1, .gpus = -1};
    mds_host_name(p->host);
    if (hostfile && *hostfile)
        rc = add_hostfile_finding(p, hostfile);
    if (!rc) {
        mds_find_pmix(p);
        mds_find_launchers(p);
        rc = mds_find_batch(p);
    }
    if (!rc)
        rc = exclude_hosts(p, exclude);
    if (rc) {
        mds_placement_fini(p);
        return rc;
    }
    mds_find_gpus(p, here);
    add_profile_finding(p, m);
    choose_counts(p, m);
    return MDS_OK;
}
