/* SPDX-License-Identifier: BSD-3-Clause */
/* What mds_launch writes to a run's events. */
#ifndef MDS_LAUNCH_RUN_EVENTS_H
#define MDS_LAUNCH_RUN_EVENTS_H

#include "launch/launch.h"

/* It starts the ranks, so that it is known where to look for what does not start. */
void mds_record_launch(const struct mds_launch *l);

/* It will start them again, without the nodes of these losses, from this iteration (-1:
 * not a training).  restart: how many so far. */
void mds_record_restart(const struct mds_losses *lost, int64_t iteration,
                        int64_t restart);

void mds_record_failure(int status, const char *reason);

#endif
