/* SPDX-License-Identifier: BSD-3-Clause */
/* For comm/ alone.  Each source calls only those before it: reduce and buffers,
 * request, wait, check, account; collectives, shards and p2p; comm. */
#ifndef MDS_COMM_INTERNAL_H
#define MDS_COMM_INTERNAL_H

#define MDS_COMM_OWN_SOURCE
#include "comm/comm.h"
#include "transport/transport.h"

enum {
    MDS_COMM_BATCH = 16,     /* numbers per message of all_reduce_f64 */
    MDS_COMM_TAGS = 1 << 14, /* of collectives; MPI promises tags up to 32767 */
    MDS_COMM_TAG_P2P = MDS_COMM_TAGS,
    MDS_COMM_TAG_CHECK = MDS_COMM_TAG_P2P + MDS_COMM_P2P_TAGS,
};

struct mds_comm {
    struct mds_peers peers;
    struct mds_mpi *mpi;       /* NULL: no messages (dry, or one rank) */
    struct mds_direct *direct; /* NULL: none */
    struct mds_dev *dev;       /* borrowed; NULL: host memory only */
    int dry;                   /* buffers are never read or written */
    int has_collectives;       /* mds_comm_add_collectives has been called */
    int lanes;                 /* how many mds_comm_add_lane added */
    int channels;              /* of mds_comm_limit_channels; 0: no limit */
    struct mds_comm_stats stats;
    int64_t number;             /* of the last collective */
    struct mds_comm_call call;  /* the blocking call in progress */
    struct mds_comm_req *first; /* in flight, in order of start */
    struct mds_comm_p2p *first_message;
    unsigned busy; /* bit s: slot s serves a request */
    int next_tag;
    double *f64;                              /* [size, MDS_COMM_BATCH] */
    struct mds_comm_fingerprint *fingerprint; /* [size], check.c's; NULL until needed */
    struct mds_comm *next;                    /* of the live groups */
    const struct mds_comm_rates *rates;       /* dry: borrowed; NULL: no clock */
    double line_s[3]; /* ends of: the last collective, message out, message in */
    double exposed_s;
};

/* ---- requests and messages in flight (request.c) ----
 *
 * add: append r or m to what is in flight.  The caller has filled in r's buffers,
 * sizes, stages and call; m's buffer, length and call.  advance: make progress on one
 * group, and add the number of messages that finished to *moved. */
void mds_comm_add_request(struct mds_comm *c, struct mds_comm_req *r);
void mds_comm_add_message(struct mds_comm *c, struct mds_comm_p2p *m);
enum mds_rc mds_comm_advance(struct mds_comm *c, int *moved);

/* Floats moved per step of a long collective. */
int64_t mds_comm_segment(void);

/* ---- waiting (wait.c) ---- */

/* The list of live groups.  All of them make progress whenever one is waited for. */
void mds_comm_register(struct mds_comm *c);
void mds_comm_unregister(struct mds_comm *c);
enum mds_rc mds_comm_progress(void);

/* Fail a call because an earlier call of the group has failed. */
enum mds_rc mds_comm_fail_broken(const struct mds_comm *c,
                                 const struct mds_comm_call *call);

/* Block until *until (a request's comm) is NULL, which means that the request is done;
 * with until NULL, until slot 0 is empty.  call: what the rank is doing, for the
 * watchdog and the log. */
enum mds_rc mds_comm_block(struct mds_comm *c, const struct mds_comm_call *call,
                           struct mds_comm *const *until);

/* ---- what every call does first (check.c, account.c) ---- */

/* With mds_comm_set_check on, compare the call with the other members' calls. */
enum mds_rc mds_comm_check(struct mds_comm *c, const struct mds_comm_call *call);

/* Begin a call: count it, number it, set its call site, check it.  The caller has
 * filled in its kind, sizes, type and peer.  ok 0: the arguments are wrong; fails with
 * MDS_EBUG. */
enum mds_rc mds_comm_begin_call(struct mds_comm *c, int ok, struct mds_comm_call *call);

/* Whether p is device memory and the group has an NCCL transport for it. */
int mds_comm_is_direct(const struct mds_comm *c, const void *p);

/* ---- time in a dry run (clock.c): nothing without rates ---- */

void mds_comm_clock_start(struct mds_comm *c, const struct mds_comm_call *call,
                          struct mds_comm_flight *f);
void mds_comm_clock_wait(struct mds_comm *c, const struct mds_comm_flight *f);
int mds_comm_clock_passed(const struct mds_comm *c, const struct mds_comm_flight *f);

/* ---- sums (reduce.c) ---- */

/* out[len] = x_0 + x_1 + ... + x_{n-1}, in that order and in f32, for rank r's
 * numbers x_r: x_me is own[len], the others are in rank order in others[n - 1, stride].
 * out may be own.  dtype: f32, bf16 or f16; rounded once. */
struct mds_comm_sum {
    void *out;
    const void *own, *others;
    int64_t stride, len;
    int me, n;
    enum mdsk_dtype dtype;
};
void mds_comm_reduce(const struct mds_comm_sum *s);

#endif
