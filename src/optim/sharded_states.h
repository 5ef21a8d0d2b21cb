/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizer states: master weights and both moments of this rank's shards. */
#ifndef MDS_OPTIM_SHARDED_STATES_H
#define MDS_OPTIM_SHARDED_STATES_H

#include "optim/rules.h"
#include "optim/swap.h"

/* Two buffers on the device, used in turn, for pieces of an array that is elsewhere. */
struct zero_staged {
    void *buffer[2];
    struct mds_dev_async_copy stored[2]; /* on the way back */
    int latest;
};

struct zero_states {
    struct zero_storage *storage; /* borrowed */
    const struct zero_partition *parts;
    struct zero_step step;                /* the latest update */
    struct zero_array array[ZERO_STATES]; /* f32 */
    const struct zero_array *weights;     /* borrowed */
    int master_is_weights;  /* weights are 32-bit and their own master: array[0] */
    struct zero_swap *swap; /* of an update on the host; NULL: on the device */
    int64_t longest;        /* elements that are updated at a time on the device */
    struct zero_staged staged[ZERO_STATES + 1]; /* states and weights; [longest] each */
    enum mds_rc rc;                             /* of the update in progress */
};

/* 32-bit weights stored in the same place are their own master.  on_host: the update is
 * made there, with states in place `place`; otherwise on the device, and states that
 * are elsewhere come there and go back piece by piece. */
enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights, enum mds_place_kind place,
                            int on_host);
void mds_states_fini(struct zero_states *st); /* a zeroed struct is fine */

/* Wait until updated states are stored; then the arrays may be read and changed.  If
 * that fails they are lost, and every later update fails. */
enum mds_rc mds_states_wait(struct zero_states *st);

/* Begin the next update. */
enum mds_rc mds_states_begin(struct zero_states *st, double lr, double grad_scale);

/* ---- on the device ---- */

/* Update what a unit has of elements, not of whole matrices (rules.h).  gradients: on
 * the device. */
enum mds_rc mds_states_update_unit(struct zero_states *st, int unit,
                                   const struct zero_array *gradients);

/* *at = one state of a range of at most st->longest elements, on the device; store says
 * that it was changed.  Only one range of a state at a time. */
enum mds_rc mds_states_fetch(struct zero_states *st, enum zero_state k,
                             const struct zero_range *r, float **at);
enum mds_rc mds_states_store(struct zero_states *st, enum zero_state k,
                             const struct zero_range *r);

/* The same of weights, which are only written; NULL if the master is the weight. */
void *mds_states_weight(struct zero_states *st, const struct zero_range *r);
enum mds_rc mds_states_store_weight(struct zero_states *st, const struct zero_range *r);

/* All units are updated: what is queued from now on finds states and weights stored. */
void mds_states_end(struct zero_states *st);

/* ---- on the host ---- */

/* The shard of a unit, but for its states.  grad and weight (unused if the master is
 * the weight) point to its first element. */
struct zero_operands mds_states_operands(const struct zero_states *st, int unit,
                                         const float *grad, void *weight);

/* Update a shard.  Call it for all units in order; units with an empty shard may be
 * skipped.  After a failure the remaining calls fail too.  Another thread may call
 * this, as long as no other call uses st meanwhile. */
enum mds_rc mds_states_update(struct zero_states *st,
                              const struct zero_operands *shard);

#endif
