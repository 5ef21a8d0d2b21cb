/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of a query and a key that it sees (an earlier token's, or its own), in layers
 * without and with a window.  The work of attention grows with them. */
#ifndef MDS_CONFIG_PAIRS_H
#define MDS_CONFIG_PAIRS_H

#include <stdint.h>

/* Numbers of pairs; or shares of the pairs of rows in which every token sees all
 * earlier ones. */
struct mds_pairs {
    double global, local; /* in a layer that sees all keys, and in one with a window */
};

/* Of a document of n tokens.  window 0: layers have none, and local is global. */
struct mds_pairs mds_pairs_of_document(int64_t n, int64_t window);

/* *to += times * x */
void mds_pairs_add(struct mds_pairs *to, double times, struct mds_pairs x);

/* Shares, of pairs in so many rows of n tokens. */
struct mds_pairs mds_pairs_share(struct mds_pairs x, double rows, int64_t n);

/* The shares of a row of n tokens that is one document: {1, 1} without a window. */
struct mds_pairs mds_pairs_whole_row(int64_t n, int64_t window);

#endif
