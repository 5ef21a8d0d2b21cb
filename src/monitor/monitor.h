/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said when a rank is killed, hangs or leaves.  comm and transport tell this
 * room what the rank does; it knows calls as data, and no groups.  In order of sources,
 * each of which calls only those before it. */
#ifndef MDS_MONITOR_MONITOR_H
#define MDS_MONITOR_MONITOR_H

#include "base/host.h"
#include "base/status.h"
#include "monitor/call.h"

#include <sys/types.h>

/* ---- what this rank is doing (watch.c) ---- */

enum { MDS_WATCH_GROUP = 32 }; /* bytes of a group's name, with its end */

struct mds_watch_record {
    char group[MDS_WATCH_GROUP];
    struct mds_comm_call call; /* file NULL: none yet */
};

struct mds_watch {
    struct mds_watch_record entered; /* the latest call, done or not */
    struct mds_watch_record now;     /* waited in, while `waits` */
    struct mds_watch_record last;    /* completed */
    double since;                    /* when the waiting began */
    int rank;                        /* of the world; -1: MPI has not said */
    int waited_for;                  /* a rank of the world, or -1 */
    int waits;
};

/* Keep all that in *place from now on, for the rest of the process.  Returns it, or
 * with NULL where it is kept. */
struct mds_watch *mds_watch_use(struct mds_watch *place);

/* A call was made; this rank waits in it, for `awaited` (a rank of the world, or -1),
 * until end; it was completed. */
void mds_watch_entered(const char *group, const struct mds_comm_call *call);
void mds_watch_begin(const char *group, const struct mds_comm_call *call);
void mds_watch_awaited(int rank);
void mds_watch_end(void);
void mds_watch_done(const char *group, const struct mds_comm_call *call);

/* Where this rank waits and what it completed, in a line, cut to fit; returns its
 * length.  Also from a signal handler. */
int mds_watch_line(char *line, int size);

/* The text on a line of its own, and that one if MPI has started; write's result. */
ssize_t mds_watch_write(const char *text);

/* A call in words, without and with its group; as watch_line. */
int mds_watch_call_text(const struct mds_comm_call *call, char *text, int size);
int mds_watch_record_text(const struct mds_watch_record *r, char *text, int size);

/* ---- what starts the ranks of a node for MPICH's mpiexec (proxy.c) ----
 *
 * find: once, in a rank, before its sentinel is; harmless with other launchers.
 * is_gone: whether it was found, and has ended.
 * kill: mpiexec returns then, whatever it waits for.  Also from a signal handler. */
void mds_proxy_find(void);
int mds_proxy_is_gone(void);
void mds_proxy_kill(void);

/* The first part of a file of /proc, as text; "" if there is none. */
void mds_proxy_read_text(const char *path, char *text, size_t size);

/* ---- the sentinel (sentinel.c) ----
 *
 * A process beside each rank, that writes one line if the rank is gone without a word:
 * launchers may end all others at once, and then nobody else is left to say anything.
 *
 * start: before MPI and the accelerator are, for nothing of theirs may be shared with
 * another process.  Where it cannot be had the run goes on without.
 *
 * create_flag, use_flag: once MPI has started, one rank of a node makes a page of
 * memory that is named by where[2], and all use it: of ranks that are killed together
 * the first one's sentinel speaks, the others are silent.
 *
 * suppress: this rank's end has a reason that is known; suppress_node: that of all
 * ranks here.  Also from a signal handler.
 *
 * dismiss: this rank is about to end well.  Returns when the sentinel is gone. */
void mds_sentinel_start(void);
void mds_sentinel_create_flag(int where[2]);
void mds_sentinel_use_flag(const int where[2]);
void mds_sentinel_suppress(void);
void mds_sentinel_suppress_node(void);
void mds_sentinel_dismiss(void);

/* ---- signals that end a rank (signals.c) ----
 *
 * start: once MPI has said which rank this is.  Write the line if SIGTERM comes while
 * this rank waits, unless the program has its own use for that signal, or knows why it
 * comes: suppress. */
void mds_signals_start(int rank, int ranks);
void mds_signals_suppress(void);

/* ---- a limit for what has none of its own (watchdog.c) ----
 *
 * How long a rank may be silent; 600 s until set.
 *
 * start, stop: around calls inside of which nothing can be asked.  If one lasts longer
 * than that, this rank writes `line`, kept until stop, and what it does, and leaves.
 * waits_longer: by a second, in which a launcher that hears of another rank's end ends
 * this one.  Not one inside another. */
void mds_watchdog_set_limit_s(double s);
double mds_watchdog_limit_s(void);
void mds_watchdog_start(const char *line, int waits_longer);
void mds_watchdog_stop(void);
#define MDS_WATCHDOG_LINE(what)                                                        \
    "mds: error: " what " lasts longer than a rank may be silent "                     \
    "(--distributed-timeout-minutes); look for what other ranks said last"

/* ---- between all ranks of the run (alarm.c) ----
 *
 * One that gives up waiting, or ends the run, tells the others, who look now and then.
 *
 * answer: for one that is giving up, again and again: tell the others that do which
 * rank this one awaits (-1: unknown), and take what they tell.
 *
 * follow: from `awaited` on, by what was told, to the rank that has said nothing: the
 * one that holds up all of them.  `awaited` itself if there is none. */
enum mds_alarm { MDS_ALARM_GIVES_UP = 1, MDS_ALARM_ENDS };
void mds_alarm_ring(enum mds_alarm why);
int mds_alarm_heard(enum mds_alarm why); /* by which rank; -1: by none */
void mds_alarm_answer(int awaited);
int mds_alarm_follow(int awaited);

/* ---- a peer that has been silent for too long (silence.c) ----
 *
 * listen: now and then, in a long wait: whether another rank ends the run, which is
 * then no death to tell of.
 *
 * go_on: the same, by one that waits in a call of the group: MDS_OK while it may.  The
 * failure tells of `awaited`, a rank of the world; what is waited for has been logged
 * by then, and the other ranks know. */
void mds_silence_listen(void);
enum mds_rc mds_silence_go_on(const char *group, int awaited, double silent_s);

#endif
