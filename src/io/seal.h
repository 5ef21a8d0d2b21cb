/* SPDX-License-Identifier: BSD-3-Clause */
/* A checksum of a whole file, in a line after its end.  For files of libraries that
 * trust what they read: HDF5 does not notice most flipped bits of its own structures,
 * and some send it into an endless loop.  HDF5 ignores what follows its end of file. */
#ifndef MDS_IO_SEAL_H
#define MDS_IO_SEAL_H

#include "base/status.h"

/* Append the checksum of the file's bytes.  Does not sync. */
enum mds_rc mds_seal_file(const char *path);

/* MDS_EUSER if the bytes do not match the checksum; a file without one passes. */
enum mds_rc mds_seal_check(const char *path);

#endif
