/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock so that only one run at a time saves to a folder: two would remove each
 * other's files and mix them. */
#ifndef MDS_CKPT_FOLDER_LOCK_H
#define MDS_CKPT_FOLDER_LOCK_H

#include "base/status.h"

/* Lock the folder until this process ends, with a POSIX lock on the file dir/.lock,
 * which stays there.  If another process holds the lock, warn and wait, since that
 * process may be exiting: 5 s if it is on this host, else 2 minutes; then MDS_EUSER,
 * naming it.
 *
 * MDS_OK with a warning if the file system has no locks (Lustre without -o flock) or
 * the file exists but cannot be written; MDS_OK if it cannot be created.  MDS_EUSER if
 * it is a symbolic link or not a regular file. */
enum mds_rc mds_ckpt_lock_folder(const char *dir);

/* If a process on that host has the lock, it loses it: a new file takes the place of
 * dir/.lock.  For a host that does not answer, whose processes may go on. */
enum mds_rc mds_ckpt_break_lock(const char *dir, const char *host);

/* MDS_ECOMM if this process had the lock and has lost it: another run saves there. */
enum mds_rc mds_ckpt_check_lock(const char *dir);

#endif
