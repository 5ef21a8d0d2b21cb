/* SPDX-License-Identifier: BSD-3-Clause */
/* Update rules: what an optimizer does with the elements of parameters.
 *
 * A partition lists the parameters that a rank updates, whole or cut by its shards,
 * each with its rule (struct zero_param_group).  sharded_states.c brings their states
 * into memory and calls the rule; no other file knows what a rule computes. */
#ifndef MDS_OPTIM_RULES_H
#define MDS_OPTIM_RULES_H

#include "config/config.h"
#include "device/device.h"
#include "optim/partition.h"

enum zero_state { ZERO_MASTER, ZERO_M, ZERO_V, ZERO_STATES };

/* What all parameters of an update have in common. */
struct zero_step {
    struct mds_optim_config optim;
    int64_t number; /* of the update, from 1; before the first 0 */
    double lr, grad_scale;
    const float *head_factor; /* by which heads are scaled after the update, by their
                                 number; borrowed; NULL: by 1 */
};

/* The elements of a range: on the device, or in host memory.  Addresses are those of
 * its first element. */
struct zero_operands {
    struct mds_dev *dev; /* NULL: host memory, and the calling thread computes */
    struct zero_range range;
    float *state[ZERO_STATES];
    const float *grad;
    void *weight; /* out: the master rounded to dtype; NULL: the master is the weight */
    enum mdsk_dtype dtype;
};

/* The weight of element `skip`, or NULL. */
static inline void *mds_operand_weight(const struct zero_operands *x, int64_t skip)
{
    return x->weight ? (char *)x->weight + skip * (int64_t)mdsk_dtype_size(x->dtype)
                     : NULL;
}

struct zero_rule {
    enum mds_op op; /* that profiles name */

    /* Update a range of groups that all have this rule.  NULL: of whole matrices, as
     * muon.h says. */
    enum mds_rc (*update)(const struct zero_step *step,
                          const struct zero_partition *parts,
                          const struct zero_operands *x);

    struct mdsk_cost (*cost)(const struct zero_operands *x); /* of a range.n */
};

/* Scale the heads of the parameters of a range that was updated: master weights, and
 * the weights rounded again. */
enum mds_rc mds_heads_scale(const struct zero_step *step,
                            const struct zero_partition *parts,
                            const struct zero_operands *x); /* heads.c */

extern const struct zero_rule mds_adamw; /* adamw.c */
extern const struct zero_rule mds_muon;  /* muon.c */

#endif
