/* SPDX-License-Identifier: BSD-3-Clause */
/* --dry-run: one step of any rank of any layout, without MPI, memory or computation. */
#ifndef MDS_TRAIN_DRY_RUN_H
#define MDS_TRAIN_DRY_RUN_H

#include "config/config.h"

#include <stdio.h>

/* Print to f what one training step (and one evaluation, if any are configured) needs
 * on rank train.dry_rank of train.dry_world ranks: memory by purpose, operations, and
 * traffic by group and kind of collective.  config must be resolved for that number of
 * ranks, with its vocabulary size known. */
enum mds_rc mds_dry_run(const struct mds_config *config, FILE *f);

#endif
