/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs whose folders and scripts are written, submitted together. */
#ifndef MDS_LAUNCH_ARRAY_H
#define MDS_LAUNCH_ARRAY_H

#include "launch/options.h"

/* Submit folder[i]/job.sh: runs that ask a batch system for the same as one array of
 * jobs where it has arrays (PBS, Slurm), each run otherwise.  Not as arrays: chains,
 * and with options->array off.  *submitted counts runs; what is refused is warned of.
 */
enum mds_rc mds_array_submit(const struct mds_launch_options *options,
                             char *const *folder, int count, int *submitted);

#endif
