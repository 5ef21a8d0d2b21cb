/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses that stand out. */
#ifndef MDS_METRICS_SPIKES_H
#define MDS_METRICS_SPIKES_H

#include <stdint.h>

/* Mean and variance over about the last hundred steps, each step weighing a little less
 * than the one after it.  Zero-initialise. */
struct mds_spikes {
    int64_t steps;
    double mean, variance;
};

/* One more step's loss, which is finite.  1 if it is above mean + sigmas * standard
 * deviation of those before; then *limit is that.  The first hundred only set the mean;
 * a loss above the limit counts as the limit, so that a spike does not hide the next.
 */
int mds_spikes_add(struct mds_spikes *s, double loss, double sigmas, double *limit);

#endif
