/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients: where they are added up, and their sums over the group.
 *
 *   whole      all of them, all the time; neighbouring units are reduced together once
 *              their last pass is over.  Where optimizer states are sharded, too, to
 *              the owner of each shard, unit by unit; else everywhere
 *   sharded    sums of own shards.  A unit's gradient lives from grad_begin to the end
 *              of its reduction, in each pass, in one of a few buffers */
#ifndef MDS_OPTIM_SHARDED_GRADIENTS_H
#define MDS_OPTIM_SHARDED_GRADIENTS_H

#include "optim/pool.h"
#include "optim/storage.h"

enum { ZERO_REDUCTIONS = 2 }; /* under way: they keep the network busy */

struct zero_gradient; /* of a unit: sharded_gradients.c */

/* Neighbouring units whose gradients travel together. */
struct zero_bucket {
    int units;
    int64_t first, n; /* elements of all units */
    int waiting;      /* units of it that are not complete */
    int sent;         /* its reduction was started in this step */
};

struct zero_reduction {
    int busy;
    int unit, slot; /* sharded only */
    float *work;
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
    int64_t work_floats; /* of reduction[0].work */
    int pass, last;
};

/* overlap: reduce while backward goes on.  bucket_bytes: units travel together up to
 * it, where neither gradients nor states are sharded. */
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
