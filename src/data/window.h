/* SPDX-License-Identifier: BSD-3-Clause */
/* Where documents begin inside a window of tokens. */
#ifndef MDS_DATA_WINDOW_H
#define MDS_DATA_WINDOW_H

#include "data/source.h"

/* For each token i of the window first .. first + count - 1 of s: start[i] = index in
 * the window of the first token of its document, or 0 if that lies before the window.
 * The window must be inside the source. */
enum mds_rc mds_window_starts(struct mds_source *s, int64_t first, int64_t count,
                              int32_t *start);

#endif
