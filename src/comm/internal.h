/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sources of this room share: the group, and what a transport is. */
#ifndef MDS_COMM_INTERNAL_H
#define MDS_COMM_INTERNAL_H

#define MDS_COMM_OWN_SOURCE
#include "comm/comm.h"
#include "monitor/monitor.h"

enum {
    MDS_COMM_SLOTS = 9,      /* slot 0: blocking calls; the others: a request each */
    MDS_COMM_BATCH = 16,     /* numbers that travel together in all_reduce_f64 */
    MDS_COMM_TAGS = 1 << 14, /* of collectives; MPI promises tags up to 32767 */
    MDS_COMM_TAG_P2P = MDS_COMM_TAGS,
    MDS_COMM_TAG_CHECK = MDS_COMM_TAG_P2P + MDS_COMM_P2P_TAGS,
};

/* A transport moves messages; the rest of the room makes collectives of them.
 *
 * A slot holds up to 2 (size - 1) messages.  Messages between two ranks under one tag
 * arrive in the order of these calls.  Buffers stay the caller's and are in use until
 * test says that nothing is left. */
struct mds_comm_ops {
    const char *name;
    enum mds_rc (*send)(struct mds_comm *c, int slot, int tag, int peer,
                        const void *buf, int64_t bytes);
    enum mds_rc (*recv)(struct mds_comm *c, int slot, int tag, int peer, void *buf,
                        int64_t bytes);
    /* Without blocking: how many of the slot's messages have finished since the last
     * call, and how many are left.  With none left the slot is free for new ones. */
    enum mds_rc (*test)(struct mds_comm *c, int slot, int *finished, int *left);
    /* The group's rank at the other end of one of the slot's unfinished messages, one
     * to be received if there is one; -1 if there are none. */
    int (*awaited)(const struct mds_comm *c, int slot);
    /* Outside of slots: begin to move m's piece, and whether it has arrived. */
    enum mds_rc (*start_piece)(struct mds_comm *c, struct mds_comm_p2p *m);
    enum mds_rc (*test_piece)(struct mds_comm *c, struct mds_comm_p2p *m, int *done);
    void (*close)(struct mds_comm *c); /* frees c */
};

/* What makes collectives of device memory whole (nccl.c).  All are queued; a ticket > 0
 * names what was.  wait makes the device wait for it, test says whether it is over. */
struct mds_comm_direct {
    enum mds_rc (*collect)(struct mds_comm *c, const struct mds_comm_req *r,
                           int64_t *ticket);
    enum mds_rc (*broadcast)(struct mds_comm *c, void *buf, int64_t bytes, int root);
    enum mds_rc (*wait)(struct mds_comm *c, int64_t ticket);
    enum mds_rc (*test)(struct mds_comm *c, int64_t ticket, int *done);
    /* Messages have lanes, and tickets of their own; m->message is the lane's. */
    enum mds_rc (*start_message)(struct mds_comm *c, struct mds_comm_p2p *m);
    enum mds_rc (*wait_message)(struct mds_comm *c, const struct mds_comm_p2p *m);
    enum mds_rc (*add_collectives)(struct mds_comm *c);
    enum mds_rc (*add_lane)(struct mds_comm *c, int tag, int step);
    void (*close)(struct mds_comm *c); /* its own part; before the transport's */
};

struct mds_comm {
    const struct mds_comm_ops *ops;       /* NULL: nothing moves (dry, or alone) */
    struct mds_dev *dev;                  /* borrowed; NULL: all memory is the host's */
    const struct mds_comm_direct *direct; /* NULL: none */
    void *own;                            /* direct's */
    int dry;                              /* the data are not there */
    int rank, size;
    int collects;     /* also on the device: mds_comm_add_collectives */
    int lanes;        /* that were added */
    int *world_ranks; /* [size]; NULL without a transport */
    char tag[MDS_WATCH_GROUP];
    enum mds_rc broken; /* the failure after which the members no longer agree */
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

/* Fill in the parts that transports have in common.  c is zeroed; on failure nothing is
 * left to undo. */
enum mds_rc mds_comm_init(struct mds_comm *c, const struct mds_comm_ops *ops, int rank,
                          int size, const char *tag);

/* The beginning of every call, of which the caller filled in what it asks for: count
 * it, number it, note its place, compare it with the other members' if so wanted
 * (account.c). */
enum mds_rc mds_comm_enter(struct mds_comm *c, int ok, struct mds_comm_call *call);

/* The failure of every call but the first that failed. */
enum mds_rc mds_comm_fail_broken(const struct mds_comm *c,
                                 const struct mds_comm_call *call);

/* Move on everything that is in flight, in every group.  Adds the number of messages
 * that finished to *moved. */
enum mds_rc mds_comm_progress(int *moved);

/* The same for the requests (request.c) and the messages (p2p.c) of one group. */
enum mds_rc mds_comm_advance(struct mds_comm *c, int *moved);
enum mds_rc mds_comm_advance_messages(struct mds_comm *c, int *moved);

/* Block until *until is NULL, which says that a request is done; until NULL: until slot
 * 0 is empty.  call is for the record. */
enum mds_rc mds_comm_block(struct mds_comm *c, const struct mds_comm_call *call,
                           struct mds_comm *const *until);

/* What is waited for: a request or a message, `what`, in flight while *comm is not
 * NULL.  ticket > 0: on the device, which wait asks. */
struct mds_comm_flight {
    struct mds_comm **comm;
    const struct mds_comm_call *call;
    int64_t ticket;
    const void *what;
    enum mds_rc (*wait)(struct mds_comm *c, const void *what);
};
enum mds_rc mds_comm_flight_wait(struct mds_comm_flight f);

/* Whether p is device memory of a group that has a device. */
int mds_comm_on_device(const struct mds_comm *c, const void *p);

/* Copy within the memory that p is in. */
void mds_comm_copy(struct mds_comm *c, void *to, const void *from, int64_t bytes);

/* Around a wait for a call, and around a call that is queued on a stream of its own. */
void mds_comm_profile_wait(const struct mds_comm_call *call);
void mds_comm_profile_waited(void);
void mds_comm_profile_move(const struct mds_comm *c, const struct mds_comm_call *call,
                           void *stream);
void mds_comm_profile_moved(void *stream);

/* The first group of all, for those who look after the device. */
struct mds_comm *mds_comm_live(void);

/* A group of one rank, this one: nobody to talk to, but the data are real. */
enum mds_rc mds_comm_create_alone(const char *tag, struct mds_comm **out);

/* The stages of a request's step, in this order. */
enum {
    MDS_COMM_REDUCING = 1 << 0,   /* every rank collects its own slice, and sums */
    MDS_COMM_GATHERING = 1 << 1,  /* every rank hands its own slice to all */
    MDS_COMM_SCATTERING = 1 << 2, /* every rank hands everyone a slice of their own */
};

/* Queue r, of which all but the engine's own fields are filled in (request.c). */
enum mds_rc mds_comm_launch(struct mds_comm *c, struct mds_comm_req *r);

/* Floats moved per step of a long collective. */
int64_t mds_comm_segment(void);

/* Whether the members compare calls, and the comparison (check.c). */
int mds_comm_checks(void);
enum mds_rc mds_comm_check(struct mds_comm *c, const struct mds_comm_call *call);

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
