/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizer states: master weights and both moments of this rank's shards; AdamW. */
#ifndef MDS_OPTIM_SHARDED_STATES_H
#define MDS_OPTIM_SHARDED_STATES_H

#include "kernels/table.h"
#include "optim/swap.h"

enum zero_state { ZERO_MASTER, ZERO_M, ZERO_V, ZERO_STATES };

typedef enum mds_rc zero_launch_fn(struct mds_dev *dev, const struct mdsk_adamw *a);

struct zero_states {
    struct zero_storage *storage; /* borrowed */
    const struct zero_partition *parts;
    struct mds_optim_config optim;
    int64_t updates;                      /* made so far */
    struct zero_array array[ZERO_STATES]; /* f32 */
    int master_is_weights; /* weights are 32-bit and their own master: array[0] */
    enum mdsk_dtype dtype; /* of the weights */
    struct zero_swap *swap;
    enum mds_rc rc; /* of the update in progress */
    zero_launch_fn *launch;
};

/* dtype: of the weights.  32-bit weights stored in the same place are their own
 * master. */
enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights, enum mdsk_dtype dtype,
                            enum mds_place_kind place);
void mds_states_fini(struct zero_states *st); /* a zeroed struct is fine */

/* Copy a range to host memory (get) or from it (put), after the update. */
enum mds_rc mds_states_get(struct zero_states *st, enum zero_state what,
                           const struct zero_range *p, float *host);
enum mds_rc mds_states_put(struct zero_states *st, enum zero_state what,
                           const struct zero_range *p, float *host);

/* Wait until updated states are stored.  If that fails they are lost, and every later
 * update fails. */
enum mds_rc mds_states_wait(struct zero_states *st);

/* Begin the next update: *a = what all units have in common. */
enum mds_rc mds_states_begin(struct zero_states *st, double lr, double grad_scale,
                             struct mdsk_adamw *a);

/* Update the shard of a unit.  Call it for all units in order; units with an empty
 * shard may be skipped.  a->grad and a->weight point to the shard's first element;
 * weight is NULL if the master is the weight.  After a failure the remaining calls fail
 * too. If states are not on the device, another thread may call this, as long as no
 * other call uses st meanwhile. */
enum mds_rc mds_states_update(struct zero_states *st, int unit,
                              const struct mdsk_adamw *a);

/* Update a range: call launch for its parameter groups, as many per launch as the
 * kernel takes.  The pointers of *a are at the range's first element. */
enum mds_rc mds_states_launch(const struct zero_partition *parts,
                              const struct zero_range *p, const struct mdsk_adamw *a,
                              zero_launch_fn *launch, struct mds_dev *dev);

#endif
