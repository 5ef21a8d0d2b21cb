/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings that a run's checkpoint was saved with, for the run that loads it. */
#ifndef MDS_CKPT_CONFIGURATION_H
#define MDS_CKPT_CONFIGURATION_H

#include "config/options.h"
#include "io/folder.h"

/* Those of the newest readable checkpoint of --load, as text for mds_config_take_model;
 * the caller's to free.  NULL: there is no --load, or no checkpoint yet.  One that
 * cannot be read is a failure only for a run that has no other word of its model's
 * shape: for any other, loading says more. */
enum mds_rc mds_ckpt_find_configuration(const struct mds_config *c,
                                        char name[MDS_PATH_SIZE], char **text);

/* Find it and take the model from it. */
enum mds_rc mds_ckpt_take_model(struct mds_config_run *run, struct mds_diag *diag);

#endif
