/* SPDX-License-Identifier: BSD-3-Clause */
/* Removing a checkpoint's folder without touching anything outside of it. */
#ifndef MDS_CKPT_REMOVE_H
#define MDS_CKPT_REMOVE_H

#include "base/status.h"

/* MDS_EUSER unless path is something that a save makes: a folder without folders in it,
 * or a symbolic link to wherever somebody moved one.  MDS_OK if there is nothing. */
enum mds_rc mds_ckpt_check_removable(const char *path);

/* Remove the folder and the files in it, if it is removable.  No symbolic link is
 * followed, neither path itself nor one in the folder: the link goes, its target stays.
 * empty: truncate each file first, since HDF5 may still have one open that it failed to
 * finish, which would keep its place on the disk. */
enum mds_rc mds_ckpt_remove(const char *path, int empty);

#endif
