/* SPDX-License-Identifier: BSD-3-Clause */
/* Measure how fast a file is written to a folder. */
#ifndef MDS_IO_WRITE_SPEED_H
#define MDS_IO_WRITE_SPEED_H

#include "base/status.h"

/* Create the folder if it is missing, write a file of up to 64 MiB for up to two
 * seconds, fsync it, and remove it.  MDS_EIO if it cannot be written. */
enum mds_rc mds_write_speed(const char *folder, double *bytes_per_s);

#endif
