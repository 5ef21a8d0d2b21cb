/* SPDX-License-Identifier: BSD-3-Clause */
/* What another program answers. */
#ifndef MDS_LAUNCH_ASK_H
#define MDS_LAUNCH_ASK_H

#include "base/str.h"

/* argv (found in PATH, NULL at its end) left with 0 within limit_s: 0, and what it
 * wrote to standard output is in *answer, zeroed before and the caller's.  Else -1,
 * with nothing in *answer.  One that is late is killed, warned of and not waited for:
 * it may be in a driver that answers nobody. */
int mds_ask(const char *const *argv, double limit_s, struct mds_str *answer);

/* For nvidia-smi, which without persistence mode wakes GPUs one after the other. */
enum { MDS_NVIDIA_SMI_S = 60 };

#endif
