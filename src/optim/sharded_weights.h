/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights: where they are stored between uses, and how a unit's weights are gathered.
 *
 *   whole      every rank stores all weights.  If optimizer states are sharded, each
 *              owner updates its shard, and the shards are gathered after each update
 *   sharded    every rank stores its shards, on the device or the host.  A unit is
 *              gathered when it is acquired, or prefetched, into one of a few buffers;
 *              after its release another unit may reuse the buffer.  Units that enclose
 *              others (tensor/params.h) have buffers of their own */
#ifndef MDS_OPTIM_SHARDED_WEIGHTS_H
#define MDS_OPTIM_SHARDED_WEIGHTS_H

#include "optim/pool.h"
#include "optim/storage.h"

struct zero_weights {
    struct zero_storage *storage; /* borrowed */
    const struct zero_partition *parts;
    int sharded, overlap;
    int last; /* set by the owner: this is the last backward pass of a step */
    enum mdsk_dtype dtype;
    struct zero_array array;
    struct mds_comm_req *gather; /* [units]: of whole weights, after an update */

    /* Sharded only. */
    struct mds_pool pool;
    struct mds_comm_req fetch[MDS_POOL_SLOTS];
    int *next_unit;       /* [2, units + 1, units]: prefetch order; -1: unknown */
    int previous, latest; /* the two units acquired last; -1: none */
};

/* place: where shards are stored; whole weights are on the device.  overlap: gather
 * while computing. */
enum mds_rc mds_weights_init(struct zero_weights *w, struct zero_storage *s,
                             int sharded, int overlap, enum mds_place_kind place);

/* Wait for gathers in flight, since other ranks take part in them; after a failure of
 * the group that returns at once.  With NCCL it is the device that waits: give it
 * mds_dev_wait before memory is freed. */
void mds_weights_wait(struct zero_weights *w);

/* After mds_weights_wait.  A zeroed struct is fine for both. */
void mds_weights_fini(struct zero_weights *w);

/* The registry's hooks.  *ahead = the unit to prefetch now, because it was acquired
 * next the last time; -1: none. */
enum mds_rc mds_weights_acquire(struct zero_weights *w, int unit, int *ahead);
enum mds_rc mds_weights_prefetch(struct zero_weights *w, int unit);
enum mds_rc mds_weights_release(struct zero_weights *w, int unit);

/* Wait for gathers in flight and drop gathered copies, so that shards may be
 * changed. */
enum mds_rc mds_weights_quiesce(struct zero_weights *w);

/* This rank has updated its shard of a unit: start the gather of whole weights. */
enum mds_rc mds_weights_gather(struct zero_weights *w, int unit);

#endif
