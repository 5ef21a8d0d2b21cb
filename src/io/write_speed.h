/* SPDX-License-Identifier: BSD-3-Clause */
/* Can a folder be written, and how fast? */
#ifndef MDS_IO_WRITE_SPEED_H
#define MDS_IO_WRITE_SPEED_H

#include "base/status.h"

/* Create the folder if need be, write a file of at most 64 MiB there, for two seconds
 * at most, wait until it is on the disk, and remove it.  *bytes_per_s: how fast.
 * MDS_EIO if it cannot be written. */
enum mds_rc mds_write_speed(const char *folder, double *bytes_per_s);

#endif
