/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether all ranks were told the same. */
#ifndef MDS_TRAIN_ALIKE_H
#define MDS_TRAIN_ALIKE_H

#include "comm/comm.h"
#include "config/options.h"
#include "data/dataset.h"

/* MDS_EUSER on each rank that has another version, option or data set than the first
 * one, naming what differs: a launcher that keeps the environment to itself, a file of
 * which a node has an old copy.  Collective. */
enum mds_rc mds_alike_check(struct mds_comm *world, const struct mds_config_run *run,
                            const struct mds_dataset *data, const char *version);

#endif
