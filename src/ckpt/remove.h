/* SPDX-License-Identifier: BSD-3-Clause */
/* Removing a checkpoint's folder without touching anything outside of it. */
#ifndef MDS_CKPT_REMOVE_H
#define MDS_CKPT_REMOVE_H

#include "base/status.h"

/* MDS_EUSER unless path looks like a checkpoint: a folder without subfolders, or a
 * symbolic link (a user may have moved a checkpoint elsewhere).  MDS_OK if path does
 * not exist. */
enum mds_rc mds_ckpt_check_removable(const char *path);

/* Remove the folder and the files in it, if mds_ckpt_check_removable permits.  Symbolic
 * links are never followed, neither path itself nor links in the folder: the link is
 * removed, its target stays.  empty: truncate each file first; HDF5 may still hold a
 * file open after a failed write, which would keep its disk space in use. */
enum mds_rc mds_ckpt_remove(const char *path, int empty);

#endif
