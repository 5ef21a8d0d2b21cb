/* SPDX-License-Identifier: BSD-3-Clause */
/* Run another program and capture its output. */
#ifndef MDS_LAUNCH_CAPTURE_H
#define MDS_LAUNCH_CAPTURE_H

#include "base/str.h"

/* Run argv (found in PATH, NULL-terminated) for at most limit_s seconds.  Returns 0 if
 * it exits with 0 in time; *answer, zeroed by the caller, then has its standard output,
 * the caller's to free.  Otherwise returns -1 and *answer stays empty.  A program that
 * takes too long is killed with a warning and not waited for: it may hang in a driver.
 */
int mds_capture_output(const char *const *argv, double limit_s, struct mds_str *answer);

/* Limit for nvidia-smi, seconds: without persistence mode it initialises one GPU after
 * the other. */
enum { MDS_NVIDIA_SMI_S = 60 };

#endif
