/* Collectives among a group of ranks.
 *
 * Every member calls the same collectives of a group in the same order.  Groups are
 * independent of each other.  A group of one rank counts nothing.
 *
 * Sums are made in rank order: the result has the same bits on every rank, in every
 * run, with any MPI and any order of arrival.  A maximum is NaN if any value is.
 *
 * Everything fails with MDS_ECOMM once a peer has been silent for longer than the limit
 * (mds_comm_set_timeout_s).  After a failure the group is of no more use than to be
 * destroyed: its members no longer agree on what came last. */
#ifndef MDS_COMM_COMM_H
#define MDS_COMM_COMM_H

#include "base/status.h"

#include <stdint.h>

enum mds_comm_op { MDS_COMM_SUM, MDS_COMM_MAX };

struct mds_comm;

/* A group of n ranks of MPI's world, this one included; their order is the group's.
 * Collective over the members only.  tag names the group in messages; copied. */
enum mds_rc mds_comm_create_mpi(const int *ranks, int n, const char *tag,
                                struct mds_comm **out);

/* The same group seen by one of its ranks, without any transport: data stay as they are
 * and are never touched, calls and bytes are counted as with MPI. */
enum mds_rc mds_comm_create_dry(int rank, int n, const char *tag,
                                struct mds_comm **out);

/* NULL is fine.  No request may be in flight, unless one has failed. */
void mds_comm_destroy(struct mds_comm *c);

int mds_comm_rank(const struct mds_comm *c);
int mds_comm_size(const struct mds_comm *c);

struct mds_comm_stats {
    int64_t calls;
    int64_t wire_bytes; /* sent by a rank, in the mean over the group */
    double wait_s;      /* spent in blocking calls and mds_comm_wait */
};

const struct mds_comm_stats *mds_comm_stats(const struct mds_comm *c);

/* One all-reduce in flight.  The caller embeds it, zero-initialised, and leaves its
 * address and contents alone until it is done; then it may be started again. */
struct mds_comm_req {
    struct mds_comm *comm; /* borrowed; NULL: idle */
    struct mds_comm_req *next;
    float *buf, *work; /* borrowed until done */
    int64_t count;
    int64_t at; /* first element of the segment under way */
    enum mds_comm_op op;
    int tag, slot, phase; /* comm.c's */
};

/* buf[count] becomes the sum (maximum) over the group, on every rank.
 *
 * work: mds_comm_all_reduce_work floats, at most about 16 MiB whatever the count.
 *
 * start returns at once; progress is made whenever anything of this header is called,
 * for any group.  Any number may be in flight, each with memory of its own: the first
 * few move at once, the others follow in order.
 * Source: a direct exchange of slices, summed by their owner, then gathered; Thakur,
 * Rabenseifner, Gropp 2005, doi:10.1177/1094342005051521, sections 4.4 and 4.5. */
int64_t mds_comm_all_reduce_work(const struct mds_comm *c, int64_t count);
enum mds_rc mds_comm_all_reduce_start(struct mds_comm *c, float *buf, int64_t count,
                                      enum mds_comm_op op, float *work,
                                      struct mds_comm_req *req);

/* Make progress without blocking; MDS_OK whether or not the request is done. */
enum mds_rc mds_comm_poll(struct mds_comm_req *req);

/* Whether the request is done (or was never started). */
int mds_comm_done(const struct mds_comm_req *req);

/* Block until done. */
enum mds_rc mds_comm_wait(struct mds_comm_req *req);

/* start and wait. */
enum mds_rc mds_comm_all_reduce(struct mds_comm *c, float *buf, int64_t count,
                                enum mds_comm_op op, float *work);

/* buf[n], for a few numbers: losses, norms, flags.  Blocking. */
enum mds_rc mds_comm_all_reduce_f64(struct mds_comm *c, double *buf, int n,
                                    enum mds_comm_op op);

/* buf[bytes] of rank `root` reaches all.  Blocking. */
enum mds_rc mds_comm_broadcast(struct mds_comm *c, void *buf, int64_t bytes, int root);

/* out[size x bytes] = every rank's in[bytes], in rank order.  in may be this rank's own
 * place in out.  Blocking. */
enum mds_rc mds_comm_all_gather(struct mds_comm *c, const void *in, void *out,
                                int64_t bytes);

/* out[per_rank] = this rank's part of the sum of every rank's in[size x per_rank].  out
 * may be that part of in.  work: mds_comm_reduce_scatter_work floats.  Blocking. */
int64_t mds_comm_reduce_scatter_work(const struct mds_comm *c, int64_t per_rank);
enum mds_rc mds_comm_reduce_scatter(struct mds_comm *c, const float *in, float *out,
                                    int64_t per_rank, enum mds_comm_op op, float *work);

/* Nobody leaves before everybody has come. */
enum mds_rc mds_comm_barrier(struct mds_comm *c);

/* How long a peer may be silent; 600 until called (Megatron's
 * --distributed-timeout-minutes). */
void mds_comm_set_timeout_s(double s);

/* Floats moved per step of a long collective; the same on every rank, set while nothing
 * is in flight.  4 Mi until called: more saves little time, less saves work memory. */
void mds_comm_set_segment(int64_t floats);

#endif
