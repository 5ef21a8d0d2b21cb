/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of memory by purpose. */
#ifndef MDS_METRICS_MEMORY_H
#define MDS_METRICS_MEMORY_H

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* Append to out one line per tag that was ever used and a line for the sum, with
 * aligned columns: purpose, now, peak, share of the peak.
 *
 *   names, current, peak  [n]  tags and their bytes
 *   total_peak                 the largest sum at any one time (<= sum of peaks) */
void mds_memory_table(struct mds_str *out, size_t n, const char *const *names,
                      const int64_t *current, const int64_t *peak, int64_t total_peak);

#endif
