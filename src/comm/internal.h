/* What the sources of this room share: the group, and what a transport is. */
#ifndef MDS_COMM_INTERNAL_H
#define MDS_COMM_INTERNAL_H

#include "comm/comm.h"

enum {
    MDS_COMM_SLOTS = 9, /* slot 0: blocking calls; the others: an all-reduce each */
    MDS_COMM_TAGS = 1 << 14, /* MPI promises tags up to 32767 */
    MDS_COMM_BATCH = 16,     /* numbers that travel together in all_reduce_f64 */
};

/* A transport moves messages; comm.c makes collectives of them.
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
    /* The world rank at the other end of one of the slot's unfinished messages, one to
     * be received if there is one; -1 if there are none. */
    int (*awaited)(const struct mds_comm *c, int slot);
    void (*close)(struct mds_comm *c); /* frees c */
};

struct mds_comm {
    const struct mds_comm_ops *ops; /* NULL: nothing moves (dry, or alone) */
    int dry;                        /* the data are not there */
    int rank, size;
    char tag[32];
    enum mds_rc broken; /* the failure after which the members no longer agree */
    struct mds_comm_stats stats;
    struct mds_comm_req *first; /* in flight, in order of start */
    unsigned busy;              /* bit s: slot s serves an all-reduce */
    int next_tag;
    double *f64;           /* [size, MDS_COMM_BATCH] */
    struct mds_comm *next; /* of the live groups */
};

/* Fill in the parts that transports have in common.  c is zeroed; on failure nothing is
 * left to undo. */
enum mds_rc mds_comm_init(struct mds_comm *c, const struct mds_comm_ops *ops, int rank,
                          int size, const char *tag);

/* The beginning of every collective: whether the caller may go on, and the count.
 * `bytes` is what a rank sends, in the mean over the group. */
enum mds_rc mds_comm_enter(struct mds_comm *c, const char *what, int ok, int64_t bytes);

/* Move on everything that is in flight, in every group.  Adds the number of messages
 * that finished to *moved. */
enum mds_rc mds_comm_progress(int *moved);

/* The same for the all-reduces of one group (allreduce.c). */
enum mds_rc mds_comm_advance(struct mds_comm *c, int *moved);

/* Block until slot 0 is empty (req NULL), or until req is done. */
enum mds_rc mds_comm_block(struct mds_comm *c, const struct mds_comm_req *req);

/* Floats moved per step of a long collective. */
int64_t mds_comm_segment(void);

/* out[len] = x_0 op x_1 op ... op x_{n-1}, in that order, for rank r's numbers x_r:
 * x_me is own[len], the others stand in rank order in others[n - 1, stride].  out may
 * be own. */
void mds_comm_reduce(float *out, const float *own, const float *others, int64_t stride,
                     int64_t len, int me, int n, enum mds_comm_op op);

/* a op b. */
double mds_comm_fold(double a, double b, enum mds_comm_op op);

#endif
