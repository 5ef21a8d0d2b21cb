/* SPDX-License-Identifier: BSD-3-Clause */
/* The stretch of a chromosome around an allele, as it is and with the allele. */
#ifndef MDS_INFER_WINDOW_H
#define MDS_INFER_WINDOW_H

#include "data/fasta.h"

#include <stdint.h>

/* An allele that replaces bases pos .. pos + ref - 1 of a chromosome by others. */
struct mds_infer_allele {
    int64_t chromosome; /* its length in bases */
    int64_t pos, ref;
    int64_t alt; /* how many others */
};

struct mds_infer_window {
    int64_t first, n; /* bases, in both versions of the chromosome */
    int64_t read;     /* the chromosome's, from `first` on, that both are made from */
};

/* A window of at most `bases` bases, equally long in both versions, around the middle
 * of the allele, or moved inwards where the chromosome ends.  It begins at a multiple
 * of `unit` and is a multiple of it long, so that tokens of so many bases are in one
 * frame. Returns 0 if the longer allele does not fit. */
int mds_infer_window_place(const struct mds_infer_allele *a, int64_t bases, int unit,
                           struct mds_infer_window *out);

/* out[w->n]: the window with the allele.  bases[w->read]: the chromosome's; alt
 * [a->alt]: the allele's. */
void mds_infer_window_apply(const struct mds_infer_allele *a,
                            const struct mds_infer_window *w,
                            const unsigned char *bases, const unsigned char *alt,
                            unsigned char *out);

#endif
