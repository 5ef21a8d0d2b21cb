/* SPDX-License-Identifier: BSD-3-Clause */
/* Pack whole documents into rows of seq_length + 1 tokens.
 *
 * A document that is longer than a row is cut into windows of a full row, which begin
 * `stride` tokens apart. With stride seq_length each window begins with the last token
 * of the one before; with a smaller one, tokens that the window before has are masked.
 * So every token but the document's first is a target exactly once. The rest of a cut
 * document is packed like a short document. Short documents are never cut: they are
 * packed by best fit, the longest first. A document of one token has nothing to predict
 * and is left out.
 *
 * The rows depend only on the lengths of the documents. Host memory: 12 bytes per
 * document; during mds_packing_create another 28 per document and 8 per token of a
 * row. */
#ifndef MDS_DATA_PACKING_H
#define MDS_DATA_PACKING_H

#include "config/pairs.h"
#include "data/sample.h"
#include "data/source.h"
#include "data/split.h"

struct mds_packing;

/* Pack the documents in `part` of s.  stride: 1 .. seq_length, or 0 for seq_length; the
 * mask of overlapping windows is in the samples' kinds.  MDS_EUSER if rows would have
 * more than 2^31 - 2 tokens.  The caller destroys *out. */
enum mds_rc mds_packing_create(struct mds_source *s, const struct mds_part *part,
                               int64_t seq_length, int64_t stride,
                               struct mds_packing **out);
void mds_packing_destroy(struct mds_packing *p); /* NULL is fine */

struct mds_packing_stats {
    int64_t rows;
    int64_t documents; /* that were packed */
    int64_t cut;       /* of these, how many were longer than a row */
    int64_t left_out;  /* documents of one token */
    int64_t tokens;    /* in all rows; a token that two windows share counts twice */
};

const struct mds_packing_stats *mds_packing_stats(const struct mds_packing *p);

/* The fraction of all rows' tokens that is padding. */
double mds_packing_padding(const struct mds_packing *p);

/* The (query, key) pairs that attention without a window computes for a row's
 * documents. */
double mds_packing_pairs(const struct mds_packing *p, int64_t row);

/* The pairs of all rows: of their documents, and one for each token of padding. */
struct mds_pairs mds_packing_all_pairs(const struct mds_packing *p, int64_t window);

/* Read row number `row`, with the kinds of the source.  The end of the row is filled
 * with the id `pad`, of kind 0; each of these tokens is a document of its own. */
enum mds_rc mds_packing_read(const struct mds_packing *p, struct mds_source *s,
                             int64_t row, int32_t pad, const struct mds_sample *out);

#endif
