/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a run's events (base/events.h, docs/events.md), and what they say of how it
 * ended. */
#ifndef MDS_LAUNCH_EVENTS_H
#define MDS_LAUNCH_EVENTS_H

#include "base/host.h"
#include "config/tree.h"

#include <stdint.h>

/* Call f for each record of the file from byte *at on; *at becomes the end of the last
 * whole line.  Lines that are no records are skipped.  f returns a failure to end the
 * reading.  A file that is not there has none. */
typedef enum mds_rc mds_event_reader(void *to, const char *event,
                                     const struct mds_node *record);
enum mds_rc mds_events_read(const char *path, int64_t *at, mds_event_reader *f,
                            void *to);

/* A value of a record: NULL, or `otherwise`, if it is null or not there. */
const char *mds_event_text(const struct mds_node *record, const char *key);
double mds_event_number(const struct mds_node *record, const char *key,
                        double otherwise);

/* ---- how a start of the ranks ended ---- */

struct mds_loss {
    int rank;                 /* -1: no rank says so, but mds_launch */
    char host[MDS_HOST_SIZE]; /* as the node itself says; "": unknown */
    char why[192];            /* "was killed by signal 9 (Killed)" */
    int silent;               /* another rank says that it was */
};

enum { MDS_LOSSES = 64 };

/* Zero-initialise. */
struct mds_losses {
    struct mds_loss v[MDS_LOSSES];
    int n;
    int in_check;      /* --preflight found them: several, and nothing was trained */
    int out_of_memory; /* the kernel killed a rank because host memory ran out */
    int silent;        /* it was silent, as a host that is gone would be */
    int stuck;      /* ranks waited for one that did not come: 1 in MPI_Init, else 2 */
    int started;    /* they all began */
    int cancelled;  /* somebody asks the run to save and leave */
    int may_follow; /* the one here may have died because another did */
    int failed;     /* a rank has ended the run with an error that would repeat */
    int has_status, status; /* what to exit with, as the ranks say: the first failure's,
                               or that of the end */
};

/* Take the events of the file from byte *at on.  Faults that --preflight names are all
 * kept, and all ranks that are said to be silent.  Of ranks that die only the first is:
 * the launcher then ends the others, as it does when a rank has failed. */
void mds_losses_read(struct mds_losses *l, const char *path, int64_t *at);

/* Add a node to them, once. */
void mds_losses_add(struct mds_losses *l, int rank, const char *host, const char *why);

#endif
