/* SPDX-License-Identifier: BSD-3-Clause */
/* One run saves to a folder at a time: two would remove what the other is writing, and
 * mix their files. */
#ifndef MDS_CKPT_CLAIM_H
#define MDS_CKPT_CLAIM_H

#include "base/status.h"

/* Nobody else may save to this folder until this process ends; by a lock of dir/.lock,
 * a file that stays.  Where another process has it, say so and wait, as that may be
 * dying: 5 s for one of this host, 2 minutes otherwise; then MDS_EUSER with its name.
 * Where the file system has no locks (Lustre without -o flock), or the file is there
 * and is not ours to write, MDS_OK with a warning; where it cannot be made, MDS_OK all
 * the same.  A lock file that is a symbolic link or no regular file is MDS_EUSER. */
enum mds_rc mds_ckpt_claim(const char *dir);

#endif
