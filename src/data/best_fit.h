/* SPDX-License-Identifier: BSD-3-Clause */
/* Best-fit bin packing, longest first. */
#ifndef MDS_DATA_BEST_FIT_H
#define MDS_DATA_BEST_FIT_H

#include "base/status.h"

#include <stdint.h>

/* Put n pieces of length[i], 1 .. size, into bins of `size`: bin[i], from 0 on without
 * gaps.  Longest first, of equal ones the earlier; each into the bin with the least
 * space that is enough, of equal ones the one that was used last. */
enum mds_rc mds_best_fit(const int32_t *length, int64_t n, int64_t size, int64_t *bin,
                         int64_t *bins);

#endif
