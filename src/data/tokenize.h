/* SPDX-License-Identifier: BSD-3-Clause */
/* One input -> tokens, with their kinds. */
#ifndef MDS_DATA_TOKENIZE_H
#define MDS_DATA_TOKENIZE_H

#include "data/make_input.h"

/* Read the input called `path` to its end.  *raw_bytes and sha256 are of what is
 * stored. */
enum mds_rc mds_tokenize_input(struct mds_make_input *t, const char *path,
                               int64_t *raw_bytes, char sha256[65]);

#endif
