/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sources of this room share.  Each calls only those before it: reduce and
 * buffers, request, wait, check, account; collectives, slices and p2p; comm. */
#ifndef MDS_COMM_INTERNAL_H
#define MDS_COMM_INTERNAL_H

#define MDS_COMM_OWN_SOURCE
#include "comm/comm.h"
#include "transport/transport.h"

enum {
    MDS_COMM_BATCH = 16,     /* numbers that travel together in all_reduce_f64 */
    MDS_COMM_TAGS = 1 << 14, /* of collectives; MPI promises tags up to 32767 */
    MDS_COMM_TAG_P2P = MDS_COMM_TAGS,
    MDS_COMM_TAG_CHECK = MDS_COMM_TAG_P2P + MDS_COMM_P2P_TAGS,
};

struct mds_comm {
    struct mds_peers peers;
    struct mds_mpi *mpi;       /* NULL: nothing moves (dry, or alone) */
    struct mds_direct *direct; /* NULL: none */
    struct mds_dev *dev;       /* borrowed; NULL: all memory is the host's */
    int dry;                   /* the data are not there */
    int collects;              /* also on the device: mds_comm_add_collectives */
    int lanes;                 /* that were added */
    struct mds_comm_stats stats;
    int64_t number;             /* of the last collective */
    struct mds_comm_call call;  /* the blocking one under way */
    struct mds_comm_req *first; /* in flight, in order of start */
    struct mds_comm_p2p *first_message;
    unsigned busy; /* bit s: slot s serves a request */
    int next_tag;
    double *f64;                  /* [size, MDS_COMM_BATCH] */
    struct mds_comm_print *print; /* [size], check.c's; NULL until needed */
    struct mds_comm *next;        /* of the live groups */
};

/* ---- what is in flight (request.c) ----
 *
 * add: r, of which all but the fields of this file are filled in; m, whose buffer,
 * length and call are.  advance: move on what is in flight in one group, and add the
 * number of messages that finished to *moved. */
void mds_comm_add_request(struct mds_comm *c, struct mds_comm_req *r);
void mds_comm_add_message(struct mds_comm *c, struct mds_comm_p2p *m);
enum mds_rc mds_comm_advance(struct mds_comm *c, int *moved);

/* Floats moved per step of a long collective. */
int64_t mds_comm_segment(void);

/* ---- waiting (wait.c) ---- */

/* Of the live groups, all of which move on whenever one is waited for. */
void mds_comm_register(struct mds_comm *c);
void mds_comm_unregister(struct mds_comm *c);
enum mds_rc mds_comm_progress(void);

/* The failure of every call but the first that failed. */
enum mds_rc mds_comm_fail_broken(const struct mds_comm *c,
                                 const struct mds_comm_call *call);

/* Block until *until is NULL, which says that a request is done; until NULL: until slot
 * 0 is empty.  call is for the record. */
enum mds_rc mds_comm_block(struct mds_comm *c, const struct mds_comm_call *call,
                           struct mds_comm *const *until);

/* ---- the front of every call (check.c, account.c) ---- */

/* If so wanted (mds_comm_set_check), compare it with what the other members call. */
enum mds_rc mds_comm_check(struct mds_comm *c, const struct mds_comm_call *call);

/* The beginning of every call, of which the caller filled in what it asks for: count
 * it, number it, note its place, check it. */
enum mds_rc mds_comm_begin_call(struct mds_comm *c, int ok, struct mds_comm_call *call);

/* Whether p is memory of the device for which the group has a transport of its own. */
int mds_comm_is_direct(const struct mds_comm *c, const void *p);

/* ---- sums (reduce.c) ---- */

/* out[len] = x_0 + x_1 + ... + x_{n-1}, in that order and in f32, for rank r's
 * numbers x_r: x_me is own[len], the others stand in rank order in others[n - 1,
 * stride].  out may be own.  dtype: f32, bf16 or f16; rounded once. */
struct mds_comm_sum {
    void *out;
    const void *own, *others;
    int64_t stride, len;
    int me, n;
    enum mdsk_dtype dtype;
};
void mds_comm_reduce(const struct mds_comm_sum *s);

#endif
