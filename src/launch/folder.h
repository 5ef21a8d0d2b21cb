/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders of runs, and texts in them; the folder of this program. */
#ifndef MDS_LAUNCH_FOLDER_H
#define MDS_LAUNCH_FOLDER_H

#include "base/status.h"
#include "io/folder.h"

#include <stddef.h>

/* Make parent (and what is above it), and in it name, or name-2 and so on where that is
 * taken; path receives which. */
enum mds_rc mds_folder_make(const char *parent, const char *name,
                            char path[MDS_PATH_SIZE]);

/* Take back the folder of a job that was not submitted: its script, its record, and the
 * folder itself unless something else is in it. */
void mds_folder_discard(const char *folder);

/* Where this program is: 0, or -1 if that is not known. */
int mds_folder_of_program(char *path, size_t size);

/* The file folder/name with that text; mode as for chmod(2).  append: behind what it
 * has. */
enum mds_rc mds_folder_write(const char *folder, const char *name, int append,
                             unsigned mode, const char *text);

#endif
