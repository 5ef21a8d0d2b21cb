/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "launch/launch.h"
#include "launch/supervise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum mds_rc run_ranks(const struct mds_launch *l,
                             const struct mds_argv *arguments, int *ok)
{
    struct mds_argv command = {0};
    struct mds_outcome outcome;
    struct mds_str line = {0};
    enum mds_rc rc = mds_launch_command(l, arguments, &command);

    if (!rc) {
        mds_argv_format(&command, NULL, &line);
        printf("%s\n", line.s ? line.s : "");
    }
    if (!rc && !l->options->print)
        rc = mds_supervise(&command, &outcome);
    if (!rc && !l->options->print)
        *ok = outcome.status == 0;
    mds_str_fini(&line);
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
                                     const struct mds_argv *arguments)
{
    char before[128] = "its own choice of network";
    int ok = 0;

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
    MDS_TRY(run_ranks(l, arguments, &ok));
    if (ok)
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

static enum mds_rc check_nodes(const struct mds_launch *l)
{
    struct mds_argv arguments = {0};
    struct mds_estimate estimate;
    enum mds_rc rc = mds_launch_choose_layout(l, &arguments, &estimate);
    int ok = 1;

    if (!rc)
        rc = run_ranks(l, &arguments, &ok);
    if (!rc && !ok)
        rc = may_blame_network(l)
                 ? try_plain_network(l, &arguments)
                 : mds_fail(MDS_EUSER, "check: the nodes are not fit for this run; see "
                                       "above");
    mds_argv_fini(&arguments);
    return rc;
}

enum mds_rc mds_launch_check(const struct mds_launch_options *options, int argc,
                             char *const *argv)
{
    struct mds_argv all = {0};
    struct mds_launch l;
    enum mds_rc rc;

    for (int i = 0; i < argc; i++)
        mds_argv_add(&all, "%s", argv[i]);
    mds_argv_add(&all, "--preflight-only");
    rc = all.failed ? mds_fail(MDS_EMEM, "no host memory for a command")
                    : mds_launch_open(options, 0, (int)all.n, all.v, &l);
    if (!rc) {
        mds_placement_warn(&l.placement);
        rc = check_nodes(&l);
        mds_launch_close(&l);
    }
    mds_argv_fini(&all);
    return rc;
}
