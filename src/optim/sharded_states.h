/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizer states: master weights and both moments of the own shards, and AdamW. */
#ifndef MDS_OPTIM_SHARDED_STATES_H
#define MDS_OPTIM_SHARDED_STATES_H

#include "kernels/table.h"
#include "optim/swap.h"

enum zero_state { ZERO_MASTER, ZERO_M, ZERO_V, ZERO_STATES };

typedef enum mds_rc zero_launch(struct mds_dev *dev, const struct mdsk_adamw *a);

struct zero_states {
    struct zero_storage *storage; /* borrowed */
    const struct zero_partition *parts;
    struct mds_optim_config optim;
    int64_t updates;                      /* made so far */
    struct zero_array array[ZERO_STATES]; /* f32 */
    int in_weights; /* the master is where the 32-bit weights are: array[0] is theirs */
    enum mdsk_dtype dtype; /* of the weights */
    struct zero_swap *swap;
    enum mds_rc rc; /* of the update under way */
    zero_launch *launch;
};

/* dtype: of the weights.  32-bit weights of the same place are their own master. */
enum mds_rc mds_states_init(struct zero_states *st, struct zero_storage *s,
                            const struct mds_optim_config *optim,
                            const struct zero_array *weights, enum mdsk_dtype dtype,
                            enum mds_place_kind place);
void mds_states_fini(struct zero_states *st); /* a zeroed struct is fine */

/* Copy a piece to host memory, or from it; behind the update. */
enum mds_rc mds_states_get(struct zero_states *st, enum zero_state what,
                           const struct zero_piece *p, float *host);
enum mds_rc mds_states_put(struct zero_states *st, enum zero_state what,
                           const struct zero_piece *p, float *host);

/* Wait until what was updated is where it is stored.  If that failed, it is lost, and
 * no update can follow. */
enum mds_rc mds_states_wait(struct zero_states *st);

/* Begin the next update: *a = what is the same for all units. */
enum mds_rc mds_states_begin(struct zero_states *st, double lr, double grad_scale,
                             struct mdsk_adamw *a);

/* Update the shard of a unit: each in turn, empty ones left out.  *a has the gradient
 * of the shard's first element and its weight, NULL where the master is the weight.
 * Once one failed, so do the others.  Where states are not on the device this may be
 * another thread's call, while nobody else calls anything of st. */
enum mds_rc mds_states_update(struct zero_states *st, int unit,
                              const struct mdsk_adamw *a);

/* Update a piece: call launch for its ranges, as many at once as one launch takes.  *a
 * has its tensors at the piece's first element. */
enum mds_rc mds_states_launch(const struct zero_partition *parts,
                              const struct zero_piece *p, const struct mdsk_adamw *a,
                              zero_launch *launch, struct mds_dev *dev);

#endif
