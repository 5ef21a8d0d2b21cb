/* SPDX-License-Identifier: BSD-3-Clause */
/* The events of a run, as JSON lines that other programs read: docs/events.md has them.
 *
 * Who writes what:
 *   rank 0            what all ranks do: started, data, evaluating, saved, finished ...
 *   any rank          that it has failed, or that another is silent
 *   a rank's monitor  that its rank has died
 *   mds_launch        that it submits, launches or restarts ranks, or gives up
 *   mds_launch cancel that the run shall save and leave
 *
 * Each event is appended as a whole line by one write(2) to a file that is opened for
 * it (O_APPEND), so lines of several processes do not mix, and a crash loses nothing
 * that was written before.  If the file ends within a line, as after a full disk, the
 * next event begins a new one; readers skip what is no record.  NFS appends at the end
 * that a host last saw: there, lines that two hosts write in the same instant can
 * replace each other. */
#ifndef MDS_BASE_EVENTS_H
#define MDS_BASE_EVENTS_H

#include <stdint.h>

/* "v" of each record.  It changes if a key changes its meaning or goes. */
enum { MDS_EVENTS_VERSION = 1, MDS_EVENT_SIZE = 4096 };

/* A record under construction; about 4 KiB, no heap. */
struct mds_event {
    int n;
    char text[MDS_EVENT_SIZE];
};

/* Where events go from now on, in this process and in those that it forks; NULL:
 * nowhere, as at the start.  The path is copied. */
void mds_events_open(const char *path);

/* begin, any number of adds, end.  A text that does not fit is cut.  NULL, NAN and
 * infinities become null.  end returns 0, or -1 with errno if the line could not be
 * written.  All but add_real are async-signal-safe. */
void mds_event_begin(struct mds_event *e, const char *name);
void mds_event_add_text(struct mds_event *e, const char *key, const char *text);
void mds_event_add_int(struct mds_event *e, const char *key, int64_t value);
void mds_event_add_real(struct mds_event *e, const char *key, double value);
int mds_event_end(struct mds_event *e);

#endif
