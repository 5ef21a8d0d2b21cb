/* SPDX-License-Identifier: BSD-3-Clause */
/* Submit several runs at once, as job arrays where the batch system has them. */
#ifndef MDS_LAUNCH_ARRAY_H
#define MDS_LAUNCH_ARRAY_H

#include "launch/options.h"

/* Submit folder[i]/job.sh of `count` runs.  On PBS and Slurm, runs with the same
 * resource request become one job array, unless options->array is off or the runs are
 * chains; the others are submitted one by one.  *submitted is the number of runs
 * submitted; each one that is refused gives a warning. */
enum mds_rc mds_array_submit(const struct mds_launch_options *options,
                             char *const *folder, int count, int *submitted);

#endif
