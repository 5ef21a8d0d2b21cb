/* SPDX-License-Identifier: BSD-3-Clause */
/* What is on disk stays there, whatever happens next. */
#ifndef MDS_IO_DURABLE_H
#define MDS_IO_DURABLE_H

#include "base/status.h"

/* Flush a file's bytes, or the names in a folder, to the disk.  A file system that
 * cannot do that for folders is not a failure. */
enum mds_rc mds_durable_file(const char *path);
enum mds_rc mds_durable_folder(const char *path);

#endif
