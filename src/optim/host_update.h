/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizer update on the host (ZeRO-Offload).  Optimizer states are in host memory
 * or in a file; the device meanwhile goes on with the next step.
 *
 *   mds_host_update_begin   starts to copy the gradients of the first units and returns
 *   next forward            mds_host_update_wait_unit waits for the weights of a unit
 *
 * Units are updated in the order in which the forward pass needs them, a few at a time.
 * Each goes through a slot, two pinned buffers for its gradient and its new weights:
 *
 *   gradient to the slot | update, by a worker thread | weights to the device
 *
 * Waiting for one unit advances all of them.  Gradients stay valid on the device until
 * they are copied: all are computed before the update begins, since clipping needs
 * their norm, and backward writes a unit's gradient only after it has acquired the
 * unit. */
#ifndef MDS_OPTIM_HOST_UPDATE_H
#define MDS_OPTIM_HOST_UPDATE_H

#include "optim/sharded_gradients.h"
#include "optim/sharded_states.h"
#include "optim/sharded_weights.h"

struct zero_host_update;

/* states must not be on the device.  All arguments are borrowed.  The pinned buffers
 * are allocated from `host`.  *out is set on failure too: destroy it. */
enum mds_rc mds_host_update_create(struct zero_states *states,
                                   const struct zero_gradients *gradients,
                                   struct zero_weights *weights, struct mds_dev *host,
                                   struct zero_host_update **out);

/* Waits for copies in flight.  NULL is fine. */
void mds_host_update_destroy(struct zero_host_update *h);

/* Start the update, after mds_states_begin. */
enum mds_rc mds_host_update_begin(struct zero_host_update *h);

/* Wait for one unit: work queued on the device afterwards sees its new weights and may
 * overwrite its gradient.  Starts the gather of the weights: collective.
 * This function and the next do nothing if h is NULL. */
enum mds_rc mds_host_update_wait_unit(struct zero_host_update *h, int unit);

/* Wait for all units; then states may be read and changed.  Not collective. */
enum mds_rc mds_host_update_wait(struct zero_host_update *h);

#endif
