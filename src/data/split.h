/* Where a source is cut into training, validation and test tokens. */
#ifndef MDS_DATA_SPLIT_H
#define MDS_DATA_SPLIT_H

#include "base/status.h"
#include "data/dataset.h"

#include <stdint.h>

extern const char *const mds_split_names[MDS_SPLITS]; /* "training", ... */

/* "949,50,1", "90,10", "100" or the same with '/', as Megatron takes it; shares[] sum
 * to 1.  MDS_EUSER for anything else. */
enum mds_rc mds_split_parse(const char *text, double shares[MDS_SPLITS]);

/* Split s of tokens is bounds[s] .. bounds[s + 1]; bounds rise from 0 to tokens. */
void mds_split_bounds(const double shares[MDS_SPLITS], int64_t tokens,
                      int64_t bounds[MDS_SPLITS + 1]);

#endif
