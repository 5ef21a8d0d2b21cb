/* Folders for results. */
#ifndef MDS_IO_FOLDER_H
#define MDS_IO_FOLDER_H

#include "base/status.h"

/* Make the folder, and those above it, unless they are there.  MDS_EIO: there is a
 * file, or the place cannot be written. */
enum mds_rc mds_folder_ensure(const char *path);

#endif
