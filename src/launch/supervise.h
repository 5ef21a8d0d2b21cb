/* SPDX-License-Identifier: BSD-3-Clause */
/* Run the launcher's command as a child, and follow the events of its ranks. */
#ifndef MDS_LAUNCH_SUPERVISE_H
#define MDS_LAUNCH_SUPERVISE_H

#include "base/status.h"
#include "launch/argv.h"
#include "launch/events.h"

struct mds_outcome {
    int status; /* the command's, as a shell has it: 128 + n after signal n; all that is
                   taken from the launcher itself */
    struct mds_losses lost;
};

/* Run the command and wait for it.  Its output is passed on, and added to the file
 * `log` unless that is -1.  events: the file to which its ranks add theirs; NULL: they
 * have none.  SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 that are sent to this
 * process are sent to it, the first SIGTERM as SIGUSR1; the event `cancelled` counts as
 * a SIGTERM.  If the ranks have reported a loss and it has not ended a minute later, it
 * is ended: launchers may wait for a node that is gone. */
enum mds_rc mds_supervise(const struct mds_argv *command, int log, const char *events,
                          struct mds_outcome *out);

/* The last of those signals that this process has received; 0: none. */
int mds_supervise_caught(void);

#endif
