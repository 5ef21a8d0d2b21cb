/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics/spikes.h"

#include <math.h>

enum { WINDOW = 100 };

/* Until the window is full all steps weigh the same.
 * Source: West 1979, doi:10.1145/359146.359153, with a bounded weight. */
static void update_mean_and_variance(struct mds_spikes *s, double loss)
{
    double weight = 1.0 / (double)(s->steps < WINDOW ? s->steps + 1 : WINDOW);
    double off = loss - s->mean;

    s->steps++;
    s->mean += weight * off;
    s->variance = (1 - weight) * (s->variance + weight * off * off);
}

int mds_spikes_add(struct mds_spikes *s, double loss, double sigmas, double *limit)
{
    double highest = s->mean + sigmas * sqrt(s->variance);
    int spike = s->steps >= WINDOW && loss > highest;

    if (spike)
        *limit = highest;
    update_mean_and_variance(s, spike ? highest : loss);
    return spike;
}
