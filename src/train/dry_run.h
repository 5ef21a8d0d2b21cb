/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of any rank of any grid, without MPI, memory or computing. */
#ifndef MDS_TRAIN_DRY_RUN_H
#define MDS_TRAIN_DRY_RUN_H

#include "config/config.h"

#include <stdio.h>

/* Print what one training step (and one evaluation, if there are any) would take on
 * rank train.dry_rank of train.dry_world: memory by purpose, operations, messages by
 * group and kind.  config is resolved for that world and its vocabulary known. */
enum mds_rc mds_dry_run(const struct mds_config *config, FILE *f);

#endif
