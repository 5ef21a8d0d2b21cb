/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a source is cut into training, validation and test tokens.
 *
 * A cut is a token position, given by the proportions of --split.
 *
 * Text documents stay whole: the cut moves to the nearest start of a document that
 * leaves at least one document for every split with a share.  Files with fewer
 * documents than splits, and genomes (a chromosome is one document), are cut inside
 * documents.
 *
 * If documents are the strands or frames of one record, a cut inside them is a position
 * in the record's bases: the bases before it go to the earlier split on every strand
 * and in every frame, those after it to the later one.  A token with bases of both is
 * dropped.  A split may therefore consist of several spans of tokens. */
#ifndef MDS_DATA_SPLIT_H
#define MDS_DATA_SPLIT_H

#include "data/dataset.h"
#include "data/reading.h"
#include "data/source.h"

#include <stdint.h>

extern const char *const mds_split_names[MDS_SPLITS]; /* "training", ... */
/* Those with files of their own: "--train-data-path", ... */
extern const char *const mds_split_options[MDS_SPLITS];

struct mds_span {
    int64_t first, tokens;
};

/* One split of a source.  Its spans are in file order; none is empty and no two are
 * adjacent.  They are in the record where the split starts, in the one where it ends,
 * and all documents in between. */
struct mds_part {
    struct mds_span span[2 * MDS_RECORD_DOCUMENTS + 1];
    int spans;
    int64_t tokens;      /* of all spans */
    int keeps_documents; /* the file is cut between documents */
};

/* Token positions for shares[] that sum to 1: split s is bounds[s] .. bounds[s + 1] -
 * 1; bounds[] increase from 0 to `tokens`. */
void mds_split_bounds(const double shares[MDS_SPLITS], int64_t tokens,
                      int64_t bounds[MDS_SPLITS + 1]);

/* Split a source.  MDS_EUSER if documents recorded as strands and frames of one record
 * do not have matching lengths. */
enum mds_rc mds_split_cut(struct mds_source *s, const double shares[MDS_SPLITS],
                          enum mds_split_at at, struct mds_part parts[MDS_SPLITS]);

#endif
