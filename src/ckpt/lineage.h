/* SPDX-License-Identifier: BSD-3-Clause */
/* Which run do the checkpoints in --save belong to, and where does a run begin?  The
 * training loop and the launcher ask alike.  One process looks, not all ranks. */
#ifndef MDS_CKPT_LINEAGE_H
#define MDS_CKPT_LINEAGE_H

#include "ckpt/index.h"
#include "config/config.h"
#include "io/folder.h"

/* How a run starts, from --no-load-optim and --finetune. */
enum mds_ckpt_begun mds_ckpt_start_kind(const struct mds_checkpoint_config *c);

/* The checkpoint that --load names: itself, or the newest in a folder; "" if none. */
enum mds_rc mds_ckpt_find_named(const char *load, char path[MDS_PATH_SIZE]);

/* MDS_EUSER: --load has no checkpoint yet.  That is right for the first of a chain of
 * jobs, which all have the same --load and --save; otherwise it is a mistake. */
enum mds_rc mds_ckpt_refuse_empty(const struct mds_config *c);

/* Look for a checkpoint in --save that this run has to continue from, since an earlier
 * job of the same chain saved it.
 *
 * path     the checkpoint that --load names; NULL without --load
 * *newest  iteration of the newest checkpoint in --save if its run started from `path`
 *          as this one does; else -1; MDS_EUSER if this run would replace another run's
 *          checkpoints without --overwrite */
enum mds_rc mds_ckpt_find_own(const struct mds_config *config, const char *path,
                              int64_t *newest);

/* The folder that the weights will come from: --load's, or --save's if an earlier job
 * of this chain saved there; NULL without --load. */
enum mds_rc mds_ckpt_find_start(const struct mds_config *config, const char **folder);

#endif
