/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a source is cut into training, validation and test tokens.
 *
 * A cut is a position among the tokens, at the proportions of --split.
 *
 * Documents of text stay whole: a cut is at the start of a document, the nearest one
 * that leaves every split with a share a document at least.  Files of fewer documents
 * than splits, and genomes (a chromosome is one document), are cut within documents.
 *
 * Where documents are strands or frames of one record, a cut within them is a position
 * among the bases of the record in which it falls: the bases before it are the earlier
 * split's on every strand and in every frame, those behind it the later one's.  A token
 * that holds bases of both is left out.  So a split may be several spans of tokens. */
#ifndef MDS_DATA_SPLIT_H
#define MDS_DATA_SPLIT_H

#include "data/dataset.h"
#include "data/reading.h"
#include "data/source.h"

#include <stdint.h>

extern const char *const mds_split_names[MDS_SPLITS]; /* "training", ... */

struct mds_span {
    int64_t first, tokens;
};

/* A split's spans, in the file's order, none empty and no two touching: the documents
 * of the record in which it starts and of that in which it ends, and all between. */
struct mds_part {
    struct mds_span span[2 * MDS_RECORD_DOCUMENTS + 1];
    int spans;
    int64_t tokens;      /* of all spans */
    int keeps_documents; /* the file is cut between documents */
};

/* shares[] sum to 1.  Split s of tokens is bounds[s] .. bounds[s + 1]; bounds rise from
 * 0 to tokens. */
void mds_split_bounds(const double shares[MDS_SPLITS], int64_t tokens,
                      int64_t bounds[MDS_SPLITS + 1]);

/* MDS_EUSER if documents that should be strands and frames of one record cannot be. */
enum mds_rc mds_split_cut(struct mds_source *s, const double shares[MDS_SPLITS],
                          enum mds_split_at at, struct mds_part parts[MDS_SPLITS]);

#endif
