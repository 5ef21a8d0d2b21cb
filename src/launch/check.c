/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "base/units.h"
#include "launch/launch.h"
#include "launch/run_folder.h"
#include "launch/supervise.h"
#include "parallel/group_tests.h"
#include "plan/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the profile predicts ---- */

/* A layout on a machine. */
struct layout {
    struct mds_network network;
    const struct mds_parallel_config *parallel;
    int world;
};

/* What a test takes in the group of rank 0, by a run on dry groups. */
struct prediction {
    char name[32];
    int ranks;
    double s, bytes_s;
};

static enum mds_rc predict_test(const struct layout *l,
                                const struct mds_group_test *test, int64_t bytes,
                                struct prediction *out)
{
    static char unused[3]; /* three addresses */
    const struct mds_group_buffers b = {unused, unused + 1, unused + 2};
    struct mds_groups groups = {0};
    const struct mds_group *g = groups.made;
    const struct mds_comm_stats *sent;
    struct mds_rank_span span;
    enum mds_rc rc = MDS_OK;

    MDS_TRY(mds_groups_create(l->parallel, l->world, 0, NULL, &groups));
    while (g->axes != test->axes)
        g++;
    span = mds_groups_span(&groups, g);
    sent = mds_comm_stats(g->comm);
    if (mds_comm_size(g->comm) > 1)
        rc = test->run(g->comm, &b, bytes);
    snprintf(out->name, sizeof out->name, "%.12s %.16s", mds_comm_tag(g->comm),
             test->name);
    out->ranks = mds_comm_size(g->comm);
    out->s = 0;
    for (int k = 0; k < MDS_COMM_KINDS; k++) {
        int64_t calls = sent->of[k].calls;

        if (calls > 0) /* all of one size */
            out->s += (double)calls *
                      mds_network_call_s(&l->network, span, (enum mds_comm_kind)k,
                                         sent->of[k].wire_bytes / calls);
    }
    out->bytes_s = (double)sent->wire_bytes / out->s;
    mds_groups_fini(&groups);
    return rc;
}

static enum mds_rc print_predictions(const struct layout *l)
{
    const char *name = l->network.machine->name;
    char time[32], rate[32];

    printf("predicted from the links in profile %s:\n  %-24s %6s %12s %12s\n", name,
           "group", "ranks", "64 KiB", "long, B/s");
    for (const struct mds_group_test *t = mds_group_tests; t->name; t++) {
        int64_t bytes = mds_group_test_long(!l->network.direct);
        struct prediction brief, whole;

        MDS_TRY(predict_test(l, t, MDS_GROUP_TEST_SHORT, &brief));
        MDS_TRY(predict_test(l, t, bytes, &whole));
        if (whole.ranks > 1)
            printf("  %-24s %6d %12s %12s\n", whole.name, whole.ranks,
                   mds_format_step(brief.s, time, sizeof time),
                   mds_format_count(whole.bytes_s, rate, sizeof rate));
    }
    fflush(stdout); /* errors come after */
    return MDS_OK;
}

/* For the layout in `arguments`. */
static enum mds_rc predict_collectives(const struct mds_launch *l,
                                       const struct mds_argv *arguments)
{
    struct mds_config_run *run = NULL;
    struct mds_diag diag = {0};
    enum mds_rc rc;

    if (l->ranks == 1)
        return MDS_OK;
    MDS_TRY(mds_launch_config(l, arguments, 0, &run));
    rc = mds_config_resolve(run, l->ranks, &diag);
    if (!rc) {
        const struct layout layout = {
            mds_network_of(l->machine, &run->config, (int)l->per_node),
            &run->config.parallel, (int)l->ranks};

        rc = print_predictions(&layout);
    }
    mds_diag_fini(&diag);
    mds_config_run_destroy(run);
    return rc;
}

/* ---- the check ---- */

enum result { FIT, FAULTS, FAILED };

/* FAULTS: of nodes.  FAILED: in a collective, or for any other reason. */
static enum result result_of(const struct mds_outcome *o)
{
    if (o->status == 0)
        return FIT;
    return o->lost.in_check ? FAULTS : FAILED;
}

static enum mds_rc run_ranks(const struct mds_launch *l,
                             const struct mds_argv *arguments, const char *events,
                             enum result *out)
{
    struct mds_argv command = {0};
    struct mds_outcome outcome;
    enum mds_rc rc = mds_launch_command(l, arguments, &command);

    if (!rc)
        rc = mds_launch_print_command(&command);
    if (!rc && !l->options->print)
        rc = mds_supervise(&command, -1, events, &outcome);
    if (!rc && !l->options->print)
        *out = result_of(&outcome);
    mds_argv_fini(&command);
    return rc;
}

/* Whether NCCL may have used a network other than the one that always works. */
static int may_blame_network(const struct mds_launch *l)
{
    const char *net = getenv("NCCL_NET");

    return l->nodes > 1 && l->machine->node.gpus > 0 &&
           !(net && strcmp(net, "Socket") == 0);
}

static enum mds_rc try_plain_network(const struct mds_launch *l,
                                     const struct mds_argv *arguments,
                                     const char *events)
{
    char before[128] = "its own choice of network";
    enum result result = FAILED;

    for (size_t i = 0; i < l->machine->variable_count; i++)
        if (strcmp(l->machine->environment[i].name, "NCCL_NET") == 0)
            snprintf(before, sizeof before, "NCCL_NET=%s",
                     l->machine->environment[i].value);
    if (getenv("NCCL_NET"))
        snprintf(before, sizeof before, "NCCL_NET=%s", getenv("NCCL_NET"));
    mds_info("check: trying again with NCCL_NET=Socket, to tell whether the network is "
             "to blame");
    if (setenv("NCCL_NET", "Socket", 1))
        return MDS_EMEM;
    MDS_TRY(run_ranks(l, arguments, events, &result));
    if (result == FIT)
        return mds_fail(MDS_EUSER,
                        "check: NCCL fails with %s and works with NCCL_NET=Socket: "
                        "load the module of that network's plugin, look at the "
                        "network's adapters on the nodes named above, or set "
                        "NCCL_NET=Socket, which is slow",
                        before);
    return mds_fail(MDS_EUSER,
                    "check: it fails with %s and with NCCL_NET=Socket; see "
                    "above",
                    before);
}

/* Nodes can be compared without a model: a small one, which all usual layouts divide,
 * stands in for it. */
static enum mds_rc add_stand_in_model(struct mds_launch *l)
{
    struct mds_config_run *run = NULL;
    const struct mds_model_config *m;

    MDS_TRY(mds_launch_config(l, NULL, 0, &run));
    m = &run->config.model;
    if (!m->layers && !m->hidden && !m->heads) {
        mds_info(
            "check: no model is given: the groups of the layout that is set, or of "
            "data parallelism, are tested");
        mds_argv_add_split(&l->asked, "--num-layers 32 --hidden-size 256 "
                                      "--num-attention-heads 32 --seq-length 2048");
    }
    mds_config_run_destroy(run);
    return MDS_OK;
}

static enum mds_rc check_nodes(struct mds_launch *l, const char *events)
{
    struct mds_argv arguments = {0};
    struct mds_estimate estimate;
    enum mds_rc rc = mds_launch_choose_layout(l, &arguments, &estimate);
    enum result result = FIT;

    if (!rc)
        rc = run_ranks(l, &arguments, events, &result);
    if (!rc && !l->options->print)
        rc = predict_collectives(l, &arguments);
    if (!rc && result != FIT)
        rc = result == FAILED && may_blame_network(l)
                 ? try_plain_network(l, &arguments, events)
                 : mds_fail(MDS_EUSER, "check: the nodes are not fit for this run; see "
                                       "above");
    mds_argv_fini(&arguments);
    return rc;
}

enum mds_rc mds_launch_check(const struct mds_launch_options *options, int argc,
                             char *const *argv)
{
    struct mds_events_file events = {.path = ""};
    struct mds_argv all = {0};
    struct mds_launch l;
    enum mds_rc rc;

    mds_argv_add_words(&all, (size_t)argc, argv);
    mds_argv_add(&all, "--preflight-only");
    rc = all.failed ? mds_fail(MDS_EMEM, "no host memory for a command")
                    : mds_launch_open(options, 0, (int)all.n, all.v, &l);
    if (!rc) {
        mds_placement_warn(&l.placement);
        rc = add_stand_in_model(&l);
        if (!rc)
            rc = mds_events_file_open(&l, &events);
        if (!rc)
            rc = check_nodes(&l, events.path);
        mds_events_file_close(&events);
        mds_launch_close(&l);
    }
    mds_argv_fini(&all);
    return rc;
}
