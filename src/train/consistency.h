/* SPDX-License-Identifier: BSD-3-Clause */
/* Check that all ranks run the same program with the same options and data. */
#ifndef MDS_TRAIN_CONSISTENCY_H
#define MDS_TRAIN_CONSISTENCY_H

#include "base/str.h"
#include "comm/comm.h"
#include "config/options.h"
#include "data/dataset.h"

/* Broadcast rank 0's string; NULL stays NULL.  The others' *text is new, and theirs to
 * free. */
enum mds_rc mds_broadcast_text(struct mds_comm *start, char **text);

/* Append a line "NAME VALUE" for the version and for each option that has to be the
 * same on all ranks. */
void mds_consistency_lines(const struct mds_config_run *run, const char *version,
                           struct mds_str *out);

/* Collective.  MDS_EUSER on each rank whose version, options or data differ from rank
 * 0's; the message names the first difference.  Usual causes: a launcher that does not
 * pass the environment on, or a node with an old copy of a file. */
enum mds_rc mds_consistency_check(struct mds_comm *world,
                                  const struct mds_config_run *run,
                                  const struct mds_dataset *data, const char *version);

#endif
