/* SPDX-License-Identifier: BSD-3-Clause */
/* Run folders and the small files in them. */
#ifndef MDS_LAUNCH_FOLDER_H
#define MDS_LAUNCH_FOLDER_H

#include "base/status.h"
#include "io/folder.h"

#include <stddef.h>

/* Create folder parent/name, and parents as needed.  If the name exists, name-2, name-3
 * and so on are tried.  path receives the folder created. */
enum mds_rc mds_folder_make(const char *parent, const char *name,
                            char path[MDS_PATH_SIZE]);

/* Remove the folder of a job that was not submitted: its script, its run.yaml, and the
 * folder itself if nothing else is in it. */
void mds_folder_discard(const char *folder);

/* Write text to folder/name, with permissions `mode` as for chmod(2); with append, add
 * it to the end. */
enum mds_rc mds_folder_write(const char *folder, const char *name, int append,
                             unsigned mode, const char *text);

#endif
