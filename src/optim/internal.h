/* SPDX-License-Identifier: BSD-3-Clause */
/* What ZeRO's sources share. */
#ifndef MDS_OPTIM_INTERNAL_H
#define MDS_OPTIM_INTERNAL_H

#include "io/spill.h"
#include "kernels/table.h"
#include "optim/partition.h"
#include "optim/pool.h"
#include "optim/zero.h"

enum {
    ZERO_FLIGHTS = 2,        /* sums under way: they keep the network busy */
    ZERO_CHUNK = 1 << 19,    /* elements that pass through host memory at a time */
    ZERO_SUM_PIECE = 1 << 18 /* elements that mds_zero_sum_unit adds up at a time */
};

/* What becomes of a unit in a step. */
struct zero_unit {
    int bucket;                 /* stages 0, 1 */
    int begun;                  /* gradient cleared in this step; stages 0, 1 */
    int summed;                 /* own slice has a sum of this step; stages 2, 3 */
    int pass;                   /* of this step it was last ready in; 0: none yet */
    int complete;               /* that pass was the unit's last one */
    int grad_slot;              /* stages 2, 3: of z->grad_pool; -1: no gradient now */
    struct mds_comm_req gather; /* stages 1, 2: of the updated weights */
};

/* Neighbouring units, whose gradients travel together: one unit, where slices are
 * owned. */
struct zero_bucket {
    int units;
    int64_t first, n; /* elements of the flat buffer */
    int waiting;      /* units of it that are not complete */
    int sent;         /* its sum was started */
};

/* A sum under way. */
struct zero_flight {
    int busy;
    int unit, slot; /* stages 2, 3 */
    float *work;
    struct mds_comm_req req;
};

struct zero_file;
struct zero_offload;

struct mds_zero {
    struct mds_zero_spec spec;
    struct mds_optim_config optim;
    struct mds_params *params; /* borrowed, as the next two */
    struct mds_dev *dev;
    struct mds_comm *group;
    int stage; /* in effect */
    int dry;   /* host memory is not there either */
    enum mdsk_dtype dtype;
    int64_t elem; /* bytes of a weight */

    struct zero_partition parts;
    struct zero_unit *unit;

    /* Weights.  Stages 0 .. 2: all of them, [span].  Stage 3: own slices, [own], which
     * may be on the host. */
    char *weight;
    struct mds_pool weight_pool;
    struct mds_comm_req fetch[MDS_POOL_SLOTS];
    int *follower;      /* [2, units + 1, units]: zero_weights.c */
    int before, latest; /* the two units acquired last, -1: none */

    /* Gradients.  Stages 0, 1: all of them, [span]; then sums of own slices, [own]. */
    float *grad;
    struct mds_pool grad_pool;
    struct zero_bucket *bucket;
    int buckets;
    struct zero_flight flight[ZERO_FLIGHTS];
    int flights, next_flight;
    int64_t work_floats; /* of flight[0].work */
    int pass, last;

    /* States, [own] each: on the device, on the host, or in a file one after the other
     * (then NULL).  master is NULL where the weights themselves are it. */
    float *master, *m, *v;
    struct mds_spill *file;
    int64_t steps;
    struct zero_offload *offload; /* the update on the host, or NULL */
    struct zero_file *stream;     /* of states in a file, or NULL */
    struct mds_zero_host host_bytes;
};

/* Take memory from the arena, and tell the registry where what lasts is. */
enum mds_rc mds_zero_weights_take(struct mds_zero *z, struct mds_arena *arena);
enum mds_rc mds_zero_grads_take(struct mds_zero *z, struct mds_arena *arena);
enum mds_rc mds_zero_states_take(struct mds_zero *z, struct mds_arena *arena);
void mds_zero_states_fini(struct mds_zero *z);

/* *(void **)out = host memory, zeroed by all threads at once so that each page is near
 * those who update it; on dry only counted, and NULL. */
enum mds_rc mds_zero_host_alloc(struct mds_zero *z, int64_t bytes, void *out);

/* Hooks; ctx is the mds_zero. */
enum mds_rc mds_zero_acquire(void *ctx, int unit);
enum mds_rc mds_zero_release(void *ctx, int unit);
enum mds_rc mds_zero_grad_begin(void *ctx, int unit);
enum mds_rc mds_zero_grad_ready(void *ctx, int unit);

/* A piece's weights where they are stored, and its gradient. */
char *mds_zero_weight_at(const struct mds_zero *z, const struct zero_piece *p);
float *mds_zero_grad_at(const struct mds_zero *z, const struct zero_piece *p);
int mds_zero_weights_on_host(const struct mds_zero *z);

/* Wait until own weights may be changed, and drop gathered copies of them. */
enum mds_rc mds_zero_weights_settle(struct mds_zero *z);

/* Own weights of a unit are new: begin to gather them on the other ranks, at stages
 * that keep all weights everywhere. */
enum mds_rc mds_zero_weights_publish(struct mds_zero *z, int unit);

/* Copy a piece of a state (get: or of the gradient) to host memory, or from it. */
enum mds_rc mds_zero_state_get(struct mds_zero *z, enum mds_zero_what what,
                               const struct zero_piece *p, float *host);
enum mds_rc mds_zero_state_put(struct mds_zero *z, enum mds_zero_what what,
                               const struct zero_piece *p, const float *host);

/* Byte of the file where element `at` of the own part of state `what` is. */
int64_t mds_zero_file_offset(const struct mds_zero *z, enum mds_zero_what what,
                             int64_t at);

/* Update a piece: call launch for its ranges, as many at once as one launch takes.  *a
 * has its tensors at the piece's first element. */
enum mds_rc mds_zero_update_piece(const struct mds_zero *z, const struct zero_piece *p,
                                  const struct mdsk_adamw *a,
                                  enum mds_rc (*launch)(const struct mds_zero *z,
                                                        const struct mdsk_adamw *a));

/* The same where states, gradient and weights are in host memory. */
enum mds_rc mds_zero_update_on_host(const struct mds_zero *z,
                                    const struct zero_piece *p,
                                    const struct mdsk_adamw *a);

/* The update on the host (zero_offload.c).  update begins it.  deliver waits for a
 * unit:  what is queued on the device next finds its new weights there, and may replace
 * its gradient; collective where mds_zero_weights_publish is.  wait: for all units, so
 * that states may be read and changed; not collective. */
enum mds_rc mds_zero_offload_create(struct mds_zero *z);
void mds_zero_offload_destroy(struct mds_zero *z);
enum mds_rc mds_zero_offload_update(struct mds_zero *z, const struct mdsk_adamw *a);
enum mds_rc mds_zero_offload_deliver(struct mds_zero *z, int unit);
enum mds_rc mds_zero_offload_wait(struct mds_zero *z);

/* That update where states are in a file (zero_file.c).  begin: start to read the first
 * ones.  update: a unit's, from its gradient and to its weights in *a; called by the
 * update's thread, for all units in order but the empty ones, and all else only while
 * that thread is idle.  settle: wait until the file has what was updated. */
enum mds_rc mds_zero_file_create(struct mds_zero *z);
void mds_zero_file_destroy(struct mds_zero *z);
enum mds_rc mds_zero_file_begin(struct mds_zero *z);
enum mds_rc mds_zero_file_update(struct mds_zero *z, int unit,
                                 const struct mdsk_adamw *a);
enum mds_rc mds_zero_file_settle(struct mds_zero *z);

#endif
