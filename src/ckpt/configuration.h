/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings and the progress stored in a checkpoint, for the run that loads it. */
#ifndef MDS_CKPT_CONFIGURATION_H
#define MDS_CKPT_CONFIGURATION_H

#include "config/options.h"
#include "io/folder.h"

/* The settings of the checkpoint that a run loads, as text for
 * mds_config_inherit_model; owned by the caller: of the newest readable one in --load,
 * or in --save if an earlier job of the run saved there.  *text is NULL without --load,
 * or if there is no checkpoint yet.  An unreadable checkpoint is an error here only if
 * no option gives the model's shape; otherwise loading it reports the error later, in
 * more detail. */
enum mds_rc mds_ckpt_find_configuration(const struct mds_config *c,
                                        char name[MDS_PATH_SIZE], char **text);

/* How far a run of this configuration has come: what that checkpoint says; zeros for a
 * new run. */
enum mds_rc mds_ckpt_find_progress(const struct mds_config *c, struct mds_extent *done);

/* Find it, and inherit the model's settings from it. */
enum mds_rc mds_ckpt_inherit_model(struct mds_config_run *run, struct mds_diag *diag);

#endif
