/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights: where they lie between uses, and how units get whole.
 *
 *   whole      all of them, all the time.  Where optimizer states are sharded, the
 *              shards that their owners updated are gathered once
 *   sharded    own shards, on the device or the host.  A unit is gathered when it is
 *              acquired, or before, into one of a few buffers, which another unit may
 *              have after its release; units that enclose others (tensor/params.h) have
 *              buffers of their own */
#ifndef MDS_OPTIM_SHARDED_WEIGHTS_H
#define MDS_OPTIM_SHARDED_WEIGHTS_H

#include "optim/pool.h"
#include "optim/storage.h"

struct zero_weights {
    struct zero_storage *storage; /* borrowed */
    const struct zero_partition *parts;
    int sharded, overlap, last;
    enum mdsk_dtype dtype;
    struct zero_array array;
    struct mds_comm_req *gather; /* [units]: whole weights, of updated shards */

    /* Sharded only. */
    struct mds_pool pool;
    struct mds_comm_req fetch[MDS_POOL_SLOTS];
    int *follower;      /* [2, units + 1, units] */
    int before, latest; /* the two units acquired last, -1: none */
};

/* place: of the shards; of whole weights, the device.  overlap: gather beside what is
 * computed. */
enum mds_rc mds_weights_init(struct zero_weights *w, struct zero_storage *s,
                             int sharded, int overlap, enum mds_place_kind place);

/* Waits for gathers: others count on them.  After a failure it returns at once: then
 * comm/ knows that the group is broken.  A zeroed struct is fine. */
void mds_weights_fini(struct zero_weights *w);

/* A backward pass begins; last: of a step. */
void mds_weights_pass_begin(struct zero_weights *w, int last);

/* The registry's hooks.  *ahead = the unit that would better be fetched now as it is
 * likely to be the next; -1: none. */
enum mds_rc mds_weights_acquire(struct zero_weights *w, int unit, int *ahead);
enum mds_rc mds_weights_fetch_ahead(struct zero_weights *w, int unit);
enum mds_rc mds_weights_release(struct zero_weights *w, int unit);

/* Wait until own shards may be changed, and drop gathered copies of them. */
enum mds_rc mds_weights_settle(struct zero_weights *w);

/* The own shard of a unit is new: whole weights begin to gather it on the others. */
enum mds_rc mds_weights_gather(struct zero_weights *w, int unit);

#endif
