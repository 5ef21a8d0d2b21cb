/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients: where they are accumulated, and how they are reduced over the group.
 *
 *   whole      every rank stores all gradients and reduces them after the last pass of
 *              a step: by all-reduce in buckets of neighbouring units or, if optimizer
 *              states are sharded, by reduce-scatter to the owners, unit by unit
 *   sharded    every rank stores the sums of its shards.  In each pass a unit's whole
 *              gradient lives in one of a few buffers, from grad_begin to the end of
 *              its reduce-scatter */
#ifndef MDS_OPTIM_SHARDED_GRADIENTS_H
#define MDS_OPTIM_SHARDED_GRADIENTS_H

#include "optim/pool.h"
#include "optim/storage.h"

enum { ZERO_REDUCTIONS = 2 }; /* in flight: enough to keep the network busy */

struct zero_gradient; /* of a unit: sharded_gradients.c */

/* Neighbouring units of one group whose gradients are reduced in one collective. */
struct zero_bucket {
    struct mds_comm *group;
    int units;
    int64_t first, n; /* elements of all units */
    int waiting;      /* its units that are not complete */
    int sent;         /* its reduction was started in this step */
};

struct zero_reduction {
    int busy;
    int unit, slot; /* sharded only */
    float *scratch;
    struct mds_comm_req req;
};

struct zero_gradients {
    struct zero_storage *storage; /* borrowed */
    const struct zero_partition *parts;
    int sharded, overlap;
    struct zero_array array; /* f32 */
    struct mds_pool pool;    /* sharded: buffers of whole units */
    struct zero_gradient *unit;
    struct zero_bucket *bucket;
    int buckets;
    struct zero_reduction reduction[ZERO_REDUCTIONS];
    int reductions, next_reduction;
    int64_t scratch_floats; /* of reduction[0].scratch */
    int pass, last;
};

/* overlap: reduce while backward goes on.  bucket_bytes: size of buckets if neither
 * gradients nor states are sharded; otherwise each unit is reduced alone. */
enum mds_rc mds_gradients_init(struct zero_gradients *g, struct zero_storage *s,
                               int sharded, int overlap, int64_t bucket_bytes);
void mds_gradients_fini(struct zero_gradients *g); /* a zeroed struct is fine */

/* As optim/zero.h says. */
void mds_gradients_step_begin(struct zero_gradients *g);
void mds_gradients_pass_begin(struct zero_gradients *g, int last);
enum mds_rc mds_gradients_finish(struct zero_gradients *g);
enum mds_rc mds_gradients_sum_unit(struct zero_gradients *g, int unit,
                                   struct mds_comm *group);
enum mds_rc mds_gradients_squares(struct zero_gradients *g, double *sum);

/* The registry's hooks (tensor/params.h). */
enum mds_rc mds_gradients_begin(struct zero_gradients *g, int unit);
enum mds_rc mds_gradients_ready(struct zero_gradients *g, int unit);

#endif
