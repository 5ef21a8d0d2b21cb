/* SPDX-License-Identifier: BSD-3-Clause */
/* Best-fit bin packing, longest first. */
#ifndef MDS_DATA_BEST_FIT_H
#define MDS_DATA_BEST_FIT_H

#include "base/status.h"

#include <stdint.h>

/* Pack n items of length[i], each 1 .. size, into bins of `size`.  bin[i] is item i's
 * bin, numbered from 0 without gaps; *bins is how many there are.  Items are taken
 * longest first (of equal lengths the lower i first), and each goes into the bin with
 * the least free space that is enough (of equal spaces the bin that was used last). */
enum mds_rc mds_best_fit(const int32_t *length, int64_t n, int64_t size, int64_t *bin,
                         int64_t *bins);

#endif
