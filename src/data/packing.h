/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of whole documents.
 *
 * A row has seq_length + 1 tokens.  A document that is longer is cut into windows, each
 * of which begins with the token that the one before ended with, so that every token
 * but the document's first is a target once.  Windows that fill a row are rows; all
 * that is shorter (documents, and what is left of long ones) is packed: longest first,
 * each into the row that it fills best.  No other document is cut.  A document of one
 * token has nothing to predict and is left out.
 *
 * The result depends on the lengths of the documents alone.  It takes 12 bytes for each
 * document, and while it is made 40 and 8 for each token of a row. */
#ifndef MDS_DATA_PACKING_H
#define MDS_DATA_PACKING_H

#include "data/source.h"
#include "data/split.h"

struct mds_packing;

/* Of the part's tokens.  MDS_EUSER if rows would have more than 2^31 - 2 tokens. */
enum mds_rc mds_packing_create(struct mds_source *s, const struct mds_part *part,
                               int64_t seq_length, struct mds_packing **out);
void mds_packing_destroy(struct mds_packing *p); /* NULL is fine */

struct mds_packing_stats {
    int64_t rows;
    int64_t documents; /* in rows */
    int64_t cut;       /* of these, longer than a row */
    int64_t left_out;  /* documents of one token */
    int64_t tokens;    /* in rows; the token that two windows share counts twice */
    double pairs;      /* of a query and a key that it sees, over all rows */
};

const struct mds_packing_stats *mds_packing_stats(const struct mds_packing *p);

/* Share of the rows' tokens that are padding. */
double mds_packing_padding(const struct mds_packing *p);

/* Row number `row` into tokens[seq_length + 1] and starts[seq_length + 1], which may be
 * NULL.  Padding is `pad`, at the end, each a document of its own. */
enum mds_rc mds_packing_read(const struct mds_packing *p, struct mds_source *s,
                             int64_t row, int32_t pad, int32_t *tokens,
                             int32_t *starts);

#endif
