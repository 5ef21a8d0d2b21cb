/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a token file is the one that it was. */
#ifndef MDS_DATA_FINGERPRINT_H
#define MDS_DATA_FINGERPRINT_H

#include "data/source.h"

/* A hash of some tokens, of their kinds and of where documents begin: of eight
 * stretches of 4096 tokens, from the first to the last, and of all tokens of a short
 * file.  So it takes the same time for any file; a change in between that keeps the
 * number of tokens is not seen. */
enum mds_rc mds_source_fingerprint(struct mds_source *s, int64_t *hash);

/* When its file was last written, in ns since 1970; 0 if that cannot be said. */
int64_t mds_source_modified(const struct mds_source *s);

#endif
