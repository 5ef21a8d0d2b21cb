/* SPDX-License-Identifier: BSD-3-Clause */
/* Where documents begin inside of a window of a source. */
#ifndef MDS_DATA_WINDOW_H
#define MDS_DATA_WINDOW_H

#include "data/source.h"

/* start[i] = index, in the window, of the first token of the document that token
 * first + i is in; 0 for the document that the window begins in.  The window of count
 * tokens is inside the source. */
enum mds_rc mds_window_starts(struct mds_source *s, int64_t first, int64_t count,
                              int32_t *start);

#endif
