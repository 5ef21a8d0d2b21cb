/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders for results, and the paths of files in them. */
#ifndef MDS_IO_FOLDER_H
#define MDS_IO_FOLDER_H

#include "base/status.h"

/* Create the folder and its parents if they do not exist.  MDS_EIO if one of them is a
 * file or cannot be created. */
enum mds_rc mds_folder_ensure(const char *path);

enum { MDS_PATH_SIZE = 4096 };

/* Write "dir/name" to path.  MDS_EUSER if it is too long. */
enum mds_rc mds_path_join(const char *dir, const char *name, char path[MDS_PATH_SIZE]);

/* Free bytes of the file system for this user, ignoring quotas; -1 if unknown. */
double mds_folder_free_bytes(const char *path);

/* Whether both exist and are the same file or folder. */
int mds_path_is_same(const char *path, const char *other);

#endif
