/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizer states: master weights and both moments of this rank's shards. */
#ifndef MDS_OPTIM_SHARDED_STATES_H
#define MDS_OPTIM_SHARDED_STATES_H

#include "optim/rules.h"
#include "optim/swap.h"

struct zero_states {
    struct zero_storage *storage; /* borrowed */
    const struct zero_partition *parts;
    struct zero_step step;                /* the latest update */
    struct zero_array array[ZERO_STATES]; /* f32 */
    int master_is_weights; /* weights are 32-bit and their own master: array[0] */
    struct zero_swap *swap;
    enum mds_rc rc; /* of the update in progress */
};

/* 32-bit weights stored in the same place are their own master. */
enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights,
                            enum mds_place_kind place);
void mds_states_fini(struct zero_states *st); /* a zeroed struct is fine */

/* Wait until updated states are stored; then the arrays may be read and changed.  If
 * that fails they are lost, and every later update fails. */
enum mds_rc mds_states_wait(struct zero_states *st);

/* Begin the next update. */
enum mds_rc mds_states_begin(struct zero_states *st, double lr, double grad_scale);

/* The shard of a unit, but for its states.  grad and weight (unused if the master is
 * the weight) point to its first element. */
struct zero_operands mds_states_operands(const struct zero_states *st, int unit,
                                         const float *grad, void *weight);

/* Update a shard.  Call it for all units in order; units with an empty shard may be
 * skipped.  After a failure the remaining calls fail too.  If states are not on the
 * device, another thread may call this, as long as no other call uses st meanwhile. */
enum mds_rc mds_states_update(struct zero_states *st,
                              const struct zero_operands *shard);

#endif
