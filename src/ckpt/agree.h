/* All ranks fail alike. */
#ifndef MDS_CKPT_AGREE_H
#define MDS_CKPT_AGREE_H

#include "comm/comm.h"

/* MDS_OK if that is what every rank brings; else the code and the sentence of the first
 * rank that failed, on all of them.  Collective, also after a failure of files (but not
 * of comm/ itself: that comes back at once). */
enum mds_rc mds_ckpt_agree(struct mds_comm *world, enum mds_rc rc);

#endif
