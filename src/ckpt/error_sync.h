/* SPDX-License-Identifier: BSD-3-Clause */
/* When a file fails on one rank, fail on all ranks with the same message. */
#ifndef MDS_CKPT_ERROR_SYNC_H
#define MDS_CKPT_ERROR_SYNC_H

#include "comm/comm.h"

/* Whether rc is a file error (MDS_EIO, MDS_EUSER).  A run may survive these, and the
 * rank that has one can still take part in collectives. */
int mds_ckpt_is_file_error(enum mds_rc rc);

/* MDS_OK if rc is MDS_OK on every rank; else, on all ranks, the code and message of the
 * first rank that failed.  Collective; ranks with a file error have to call it too.
 * Any other error is returned at once, without communication: the other ranks may be
 * waiting elsewhere, and the program aborts them. */
enum mds_rc mds_ckpt_sync_error(struct mds_comm *world, enum mds_rc rc);

#endif
