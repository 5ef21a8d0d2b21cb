/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders for results, and the paths of files in them. */
#ifndef MDS_IO_FOLDER_H
#define MDS_IO_FOLDER_H

#include "base/status.h"

/* Make the folder, and those above it, unless they are there.  MDS_EIO: there is a
 * file, or the place cannot be written. */
enum mds_rc mds_folder_ensure(const char *path);

enum { MDS_PATH_SIZE = 4096 };

/* path: "dir/name".  MDS_EUSER if that does not fit. */
enum mds_rc mds_path_join(const char *dir, const char *name, char path[MDS_PATH_SIZE]);

/* Bytes that this user may still write there, quotas aside; -1 if nobody can tell. */
double mds_folder_free_bytes(const char *path);

/* Whether both are there and are the same file or folder. */
int mds_path_is_same(const char *path, const char *other);

#endif
