/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/run_events.h"
#include "base/events.h"

#include <string.h>
#include <unistd.h>

/* "b,c": the hosts of the losses, each once. */
static void list_hosts(const struct mds_losses *lost, struct mds_str *out)
{
    for (int i = 0; i < lost->n; i++) {
        int k = 0;

        while (strcmp(lost->v[k].host, lost->v[i].host) != 0)
            k++;
        if (k == i)
            mds_str_add(out, "%s%s", out->len ? "," : "", lost->v[i].host);
    }
}

/* An event that is lost does not matter to the run. */
void mds_record_restart(const struct mds_losses *lost, int64_t iteration,
                        int64_t restart)
{
    struct mds_str hosts = {0};
    struct mds_event e;

    list_hosts(lost, &hosts);
    mds_event_begin(&e, "restarted");
    mds_event_add_int(&e, "iteration", iteration);
    mds_event_add_int(&e, "restart", restart);
    mds_event_add_text(&e, "without", hosts.s);
    (void)mds_event_end(&e);
    mds_str_fini(&hosts);
}

void mds_record_launch(const struct mds_launch *l)
{
    char host[MDS_HOST_SIZE];
    struct mds_event e;

    mds_host_name(host);
    mds_event_begin(&e, "launched");
    mds_event_add_text(&e, "host", host);
    mds_event_add_int(&e, "process", getpid());
    mds_event_add_int(&e, "ranks", l->ranks);
    mds_event_add_int(&e, "nodes", l->nodes);
    (void)mds_event_end(&e);
}

void mds_record_failure(int status, const char *reason)
{
    struct mds_event e;

    mds_event_begin(&e, "failed");
    mds_event_add_text(&e, "reason", reason);
    mds_event_add_int(&e, "status", status);
    (void)mds_event_end(&e);
}
