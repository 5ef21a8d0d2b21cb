/* SPDX-License-Identifier: BSD-3-Clause */
/* The update on the host (ZeRO-Offload), of states in its memory or in a file, while
 * the device goes on with the next step.
 *
 *   mds_host_update_begin   only begins: gradients of the first units are copied
 *   next forward            mds_host_update_deliver waits for a unit's weights
 *
 * Units go in the order in which forward passes want them, a few at a time, each
 * through a slot of pinned memory with room for its gradient and its new weights:
 *
 *   gradient to the slot | update, by a helper thread | weights to the device
 *
 * Whoever waits for a unit here moves all of them on.  A unit's gradient stays where it
 * is on the device until it is copied: all of them are needed for the norm they are
 * clipped by, and backward writes a unit's only after it has acquired the unit. */
#ifndef MDS_OPTIM_HOST_UPDATE_H
#define MDS_OPTIM_HOST_UPDATE_H

#include "optim/sharded_gradients.h"
#include "optim/sharded_states.h"
#include "optim/sharded_weights.h"

struct zero_host_update;

/* Of states that are not on the device.  All is borrowed; host: whose memory is for
 * copies.  *out is set on failure, too, and to be destroyed. */
enum mds_rc mds_host_update_create(struct zero_states *states,
                                   const struct zero_gradients *gradients,
                                   struct zero_weights *weights, struct mds_dev *host,
                                   struct zero_host_update **out);

/* Copies may still be under way.  NULL is fine. */
void mds_host_update_destroy(struct zero_host_update *h);

/* The states' update begins, *a being what is the same for all units. */
enum mds_rc mds_host_update_begin(struct zero_host_update *h,
                                  const struct mdsk_adamw *a);

/* Wait for a unit: what is queued on the device next finds its new weights there, and
 * may replace its gradient.  Begins to gather them: collective.
 * This and wait: nothing to do if h is NULL. */
enum mds_rc mds_host_update_deliver(struct zero_host_update *h, int unit);

/* Wait for all units, so that states may be read and changed.  Not collective. */
enum mds_rc mds_host_update_wait(struct zero_host_update *h);

#endif
