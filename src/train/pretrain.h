/* SPDX-License-Identifier: BSD-3-Clause */
/* From a parsed configuration to a trained model. */
#ifndef MDS_TRAIN_PRETRAIN_H
#define MDS_TRAIN_PRETRAIN_H

#include "transport/world.h"
#include "config/options.h"

/* Resolve the configuration for the ranks of w, open its data and train.  Collective.
 * May be called again with another configuration.
 *
 * diag         what reading `run` reported; resolving adds its warnings, and all are
 *              logged
 * version      of the program, for logs and checkpoints
 * *status      see mds_train */
enum mds_rc mds_pretrain(const struct mds_world *w, struct mds_config_run *run,
                         struct mds_diag *diag, const char *version, int *status);

#endif
