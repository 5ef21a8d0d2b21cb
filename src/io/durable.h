/* SPDX-License-Identifier: BSD-3-Clause */
/* fsync of files and folders, so that they survive a crash or power failure. */
#ifndef MDS_IO_DURABLE_H
#define MDS_IO_DURABLE_H

#include "base/status.h"

#include <stdio.h>

/* Flush a file's bytes, or a folder's entries, to the disk.  A file system that cannot
 * fsync folders is not an error. */
enum mds_rc mds_durable_file(const char *path);
enum mds_rc mds_durable_folder(const char *path);

/* The same for an open file called path, after its buffer.  A pipe or terminal is not
 * an error. */
enum mds_rc mds_durable_stream(FILE *f, const char *path);

#endif
