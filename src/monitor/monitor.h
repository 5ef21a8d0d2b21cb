/* SPDX-License-Identifier: BSD-3-Clause */
/* Error lines for ranks that are killed, hang or exit.  comm and transport report what
 * the rank does; this module knows calls as data and no groups.  In the order of its
 * sources, each of which calls only those before it. */
#ifndef MDS_MONITOR_MONITOR_H
#define MDS_MONITOR_MONITOR_H

#include "base/host.h"
#include "base/status.h"
#include "monitor/call.h"

#include <sys/types.h>

/* ---- what this rank is doing (watch.c) ---- */

enum { MDS_WATCH_GROUP = 32 }; /* bytes of a group's name, with its null byte */

struct mds_watch_record {
    char group[MDS_WATCH_GROUP];
    struct mds_comm_call call; /* file NULL: none yet */
};

struct mds_watch {
    struct mds_watch_record entered; /* the latest call, completed or not */
    struct mds_watch_record now;     /* the call it waits in, while `waits` */
    struct mds_watch_record last;    /* the last one completed */
    double since;                    /* when the wait began, mds_clock_s */
    int rank;                        /* in MPI_COMM_WORLD; -1: not known yet */
    int waited_for;                  /* a world rank, or -1 */
    int waits;
};

/* Keep the record in *place from now on, for the rest of the process.  NULL changes
 * nothing.  Returns where the record is kept. */
struct mds_watch *mds_watch_use(struct mds_watch *place);

/* entered: a call was made.  begin: this rank waits in it from now on; awaited: for
 * this world rank (-1: unknown); end: the wait is over.  done: the call is complete. */
void mds_watch_entered(const char *group, const struct mds_comm_call *call);
void mds_watch_begin(const char *group, const struct mds_comm_call *call);
void mds_watch_awaited(int rank);
void mds_watch_end(void);
void mds_watch_done(const char *group, const struct mds_comm_call *call);

/* Write one line: where this rank waits and what it completed last, cut to `size`.
 * Returns its length.  Async-signal-safe. */
int mds_watch_line(char *line, int size);

/* Write text as a line to standard error, followed by that line if MPI has started.
 * Returns the result of write(2). */
ssize_t mds_watch_write(const char *text);

/* Describe a call, without and with its group; otherwise like mds_watch_line. */
int mds_watch_call_text(const struct mds_comm_call *call, char *text, int size);
int mds_watch_record_text(const struct mds_watch_record *r, char *text, int size);

/* ---- MPICH's process on each node, hydra_pmi_proxy (proxy.c) ----
 *
 * find: call it once per rank, before mds_monitor_start; does nothing under other
 * launchers.
 * is_gone: whether it was found and has exited.
 * kill: makes mpiexec return, whatever it waits for.  Async-signal-safe. */
void mds_proxy_find(void);
int mds_proxy_is_gone(void);
void mds_proxy_kill(void);

/* Read the first size - 1 bytes of a file in /proc as text; "" if it does not exist. */
void mds_proxy_read_text(const char *path, char *text, size_t size);

/* ---- the monitor process (monitor_process.c) ----
 *
 * A second process per rank, which writes one error line if the rank dies without
 * having written one.  Launchers may kill all other ranks at once, so nobody else
 * could.
 *
 * start: before MPI and the accelerator are initialised, because it forks.  If it fails
 * the run goes on without a monitor.
 *
 * create_flag, use_flag: after MPI_Init one rank per node creates a shared-memory page,
 * identified by where[2], and all ranks of the node map it.  If ranks are killed
 * together, the first one's monitor writes its line and the others stay silent.
 *
 * suppress: no line for this rank, because its reason is known; suppress_node: none for
 * any rank of this node.  Async-signal-safe.
 *
 * stop: this rank is about to exit normally.  Returns when the monitor has exited. */
void mds_monitor_start(void);
void mds_monitor_create_flag(int where[2]);
void mds_monitor_use_flag(const int where[2]);
void mds_monitor_suppress(void);
void mds_monitor_suppress_node(void);
void mds_monitor_stop(void);

/* ---- signals that end a rank (signals.c) ----
 *
 * start: after MPI has given the rank.  Installs a SIGTERM handler that writes where
 * this rank waits, unless the program handles that signal itself.  suppress: the reason
 * for SIGTERM is known, write nothing. */
void mds_signals_start(int rank, int ranks);
void mds_signals_suppress(void);

/* ---- a timeout for blocking calls (watchdog.c) ----
 *
 * The limit is how long a rank may be silent, in seconds; 600 until set.
 *
 * start, stop: around blocking calls of MPI and NCCL, which have no timeout.  If one
 * takes longer than the limit, the rank writes `line` (borrowed until stop) and what it
 * does, and exits.  waits_longer: a second later, so that a launcher that hears of
 * another rank's exit can end this one first.  Calls must not nest. */
void mds_watchdog_set_limit_s(double s);
double mds_watchdog_limit_s(void);
void mds_watchdog_start(const char *line, int waits_longer);
void mds_watchdog_stop(void);
#define MDS_WATCHDOG_LINE(what)                                                        \
    "mds: error: " what " has not returned within the limit "                          \
    "(--distributed-timeout-minutes): see what other ranks logged last"

/* ---- messages between all ranks of the run before it aborts (abort_notice.c) ----
 *
 * A rank that times out, or that ends the run, notifies the others, which poll.
 *
 * send: notify all other ranks.  from: the rank that sent such a notice; -1: none.
 *
 * exchange: for a rank that is timing out, called repeatedly: tell the others that are
 * timing out, too, which rank this one waits for (-1: unknown), and receive theirs.
 *
 * find_culprit: follow those answers from `awaited` to the rank that has not answered,
 * the one that holds up all others, and tell them which it is.  culprit: that rank,
 * once it was found or told; NONE: they wait for each other, or one cannot say for
 * whom. */
enum { MDS_CULPRIT_UNKNOWN = -1, MDS_CULPRIT_NONE = -2 };
enum mds_abort_reason { MDS_ABORT_TIMEOUT = 1, MDS_ABORT_RUN_ENDS };
void mds_abort_notice_send(enum mds_abort_reason why);
int mds_abort_notice_from(enum mds_abort_reason why);
void mds_abort_notice_exchange(int awaited);
void mds_abort_notice_find_culprit(int awaited);
int mds_abort_notice_culprit(void);

/* ---- a peer that has been silent for too long (peer_timeout.c) ----
 *
 * set_hosts: the errors name hosts[rank] of a silent world rank from now on.  Borrowed
 * until the process ends.
 *
 * listen: call it now and then during a long wait.  If another rank ends the run, the
 * SIGTERM that follows needs no line.
 *
 * check: the same, for a rank that waits in a call of the group: MDS_OK until the limit
 * is reached or another rank times out.  The error then names the silent rank and its
 * host, starting from `awaited`, a world rank; the wait has been logged and the other
 * ranks notified.
 */
void mds_peer_timeout_set_hosts(const char (*hosts)[MDS_HOST_SIZE]);
void mds_peer_timeout_listen(void);
enum mds_rc mds_peer_timeout_check(const char *group, int awaited, double silent_s);

#endif
