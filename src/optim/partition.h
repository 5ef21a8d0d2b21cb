/* SPDX-License-Identifier: BSD-3-Clause */
/* Who owns which elements of a registry's units.  Arithmetic only.
 *
 * Sharded, each unit is cut into one shard per rank of the group (mds_comm_slice);
 * otherwise every rank's shard is the whole unit. */
#ifndef MDS_OPTIM_PARTITION_H
#define MDS_OPTIM_PARTITION_H

#include "comm/comm.h"
#include "tensor/params.h"

/* Elements first .. first + n - 1 of a unit are this rank's, and are elements at .. of
 * a buffer of its shards.  Such a buffer has room for `block` elements of each unit, as
 * many on every rank. */
struct zero_shard {
    int64_t first, n, at, block;
    int range, ranges; /* of the partition's */
};

/* Consecutive elements of a shard that are treated alike. */
struct zero_range {
    int64_t first, n;
    int decay, duplicate;
};

struct zero_partition {
    struct mds_params *params; /* borrowed, as is the group */
    struct mds_comm *group;
    int sharded, rank, size, units;
    struct zero_shard *shard; /* [units] */
    struct zero_range *range;
    int64_t own; /* elements of a buffer of shards */
};

enum mds_rc mds_partition_init(struct zero_partition *p, struct mds_params *params,
                               struct mds_comm *group, int sharded);
void mds_partition_fini(struct zero_partition *p); /* a zeroed struct is fine */

/* Some elements of a shard: first .. first + n - 1 of the unit. */
struct zero_piece {
    int unit;
    int64_t first, n;
};

/* A whole shard. */
struct zero_piece mds_partition_piece(const struct zero_partition *p, int unit);

/* The first (piece->unit -1), or the next piece of at most `longest` elements; 0 if
 * there is none.  Pieces do not reach over the end of a shard. */
int mds_partition_next(const struct zero_partition *p, int64_t longest,
                       struct zero_piece *piece);

/* Where a piece begins in a buffer of shards, or in one of all units. */
int64_t mds_partition_at(const struct zero_partition *p, const struct zero_piece *piece,
                         int sharded);

/* Elements of such a buffer. */
int64_t mds_partition_elements(const struct zero_partition *p, int sharded);

#endif
