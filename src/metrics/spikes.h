/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection of loss spikes. */
#ifndef MDS_METRICS_SPIKES_H
#define MDS_METRICS_SPIKES_H

#include <stdint.h>

/* Mean and variance over about the last hundred steps, each step weighing a little less
 * than the one after it.  Zero-initialise. */
struct mds_spikes {
    int64_t steps;
    double mean, variance;
};

/* Add a step's loss, which must be finite.  Returns 1 if it is above mean + sigmas *
 * standard deviation of the steps before; *limit is then that value.  The first hundred
 * steps only set the mean.  A spike enters the mean as the limit, so that it does not
 * hide the next one. */
int mds_spikes_add(struct mds_spikes *s, double loss, double sigmas, double *limit);

#endif
