/* Where a source is cut into training, validation and test tokens. */
#ifndef MDS_DATA_SPLIT_H
#define MDS_DATA_SPLIT_H

#include "data/dataset.h"

#include <stdint.h>

extern const char *const mds_split_names[MDS_SPLITS]; /* "training", ... */

/* shares[] sum to 1.  Split s of tokens is bounds[s] .. bounds[s + 1]; bounds rise from
 * 0 to tokens. */
void mds_split_bounds(const double shares[MDS_SPLITS], int64_t tokens,
                      int64_t bounds[MDS_SPLITS + 1]);

#endif
