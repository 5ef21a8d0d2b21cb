/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank owns which elements of each unit, and what updates them.  Arithmetic only.
 *
 * A unit's group are the ranks that have the same weights of it.  Sharded, each unit is
 * cut into one shard per rank of its group (mds_comm_shard); otherwise every rank's
 * shard is the whole unit. */
#ifndef MDS_OPTIM_PARTITION_H
#define MDS_OPTIM_PARTITION_H

#include "comm/comm.h"
#include "tensor/params.h"

/* This rank owns elements first .. first + n - 1 of a unit.  They start at element `at`
 * of a buffer of shards, in which each unit has `block` elements, the same number on
 * every rank. */
struct zero_shard {
    struct mds_comm *group; /* of the unit; borrowed */
    int64_t first, n, at, block;
    int first_group, groups; /* of the partition's parameter groups */
};

struct zero_rule; /* rules.h */

/* The rule of a parameter, and how many moments it has, 1 or 2. */
struct zero_choice {
    const struct zero_rule *rule;
    int moments;
};
typedef struct zero_choice zero_choose_fn(const struct mds_param_spec *spec);

/* Consecutive elements of a shard whose parameters are treated alike: whole parameters,
 * but for the first and the last, which the shard may cut. */
struct zero_param_group {
    int64_t first, n;
    int64_t second; /* of its first element in a buffer of second moments */
    struct zero_choice by;
    int decay, duplicate;
    double width; /* as in mds_param_spec */
};

/* Which elements a buffer has: all of each unit; this rank's shards; of these only what
 * has a second moment. */
enum zero_layout { ZERO_WHOLE, ZERO_SHARDS, ZERO_SECOND };

struct zero_partition {
    struct mds_params *params; /* borrowed */
    int sharded, units;
    struct zero_shard *shard;             /* [units] */
    struct zero_param_group *param_group; /* of all shards, in order */
    int64_t own;        /* length of a buffer of shards, in elements */
    int64_t own_second; /* of a buffer of second moments */
    int all_have_second;
};

static inline const struct mds_param_unit *
mds_partition_unit(const struct zero_partition *p, int unit)
{
    return mds_params_unit(p->params, unit);
}

/* The ranks of a unit's group, and this rank among them. */
static inline int mds_partition_ranks(const struct zero_partition *p, int unit)
{
    return mds_comm_size(p->shard[unit].group);
}

static inline int mds_partition_rank(const struct zero_partition *p, int unit)
{
    return mds_comm_rank(p->shard[unit].group);
}

/* unit_group [units]: of each unit; NULL: `group` for all. */
enum mds_rc mds_partition_init(struct zero_partition *p, struct mds_params *params,
                               struct mds_comm *group,
                               struct mds_comm *const *unit_group, int sharded,
                               zero_choose_fn *choose);
void mds_partition_fini(struct zero_partition *p); /* a zeroed struct is fine */

/* Consecutive elements of a shard: first .. first + n - 1 of the unit. */
struct zero_range {
    int unit;
    int64_t first, n;
    struct zero_choice by; /* of its first element; 0 if n is 0 */
};

/* The whole shard of a unit, of any rules. */
struct zero_range mds_partition_own(const struct zero_partition *p, int unit);

/* Advance to the next range of at most `longest` elements; start with range->unit
 * -1.  Returns 0 after the last.  A range never spans two shards or two rules. */
int mds_partition_next_range(const struct zero_partition *p, int64_t longest,
                             struct zero_range *range);

/* Advance to the next group of a range, cut to it; start with the range's own first and
 * n = 0.  Returns 0 after the last. */
int mds_partition_next_group(const struct zero_partition *p,
                             const struct zero_range *range,
                             struct zero_param_group *g);

/* Index of a range's first element in a buffer. */
int64_t mds_partition_at(const struct zero_partition *p, const struct zero_range *range,
                         enum zero_layout layout);

/* Length of a buffer, in elements. */
int64_t mds_partition_elements(const struct zero_partition *p, enum zero_layout layout);

#endif
