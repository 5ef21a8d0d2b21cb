/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks fail alike, where files fail. */
#ifndef MDS_CKPT_AGREE_H
#define MDS_CKPT_AGREE_H

#include "comm/comm.h"

/* Whether rc is of files: what a run may survive, and what leaves a rank that has it
 * where the others are in the program. */
int mds_ckpt_is_of_files(enum mds_rc rc);

/* MDS_OK if that is what every rank brings; else the code and the sentence of the first
 * rank that failed, on all of them.  Collective, also after a failure of files.  Any
 * other comes back at once: the others may be waiting for this rank elsewhere, and the
 * program ends them. */
enum mds_rc mds_ckpt_agree(struct mds_comm *world, enum mds_rc rc);

#endif
