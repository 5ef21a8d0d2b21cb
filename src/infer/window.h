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

/* Where the longer allele stands in a window. */
enum mds_infer_place { MDS_INFER_MIDDLE, MDS_INFER_LEFT, MDS_INFER_RIGHT };

/* A window of at most `bases` bases, equally long in both versions, that has the allele
 * at `place`, or is moved inwards where the chromosome ends.  It begins at a multiple
 * of `unit` and is a multiple of it long, so that tokens of so many bases are in one
 * frame; on the right the allele is in the last of them.  Returns 0 if the longer
 * allele does not fit. */
int mds_infer_window_place(const struct mds_infer_allele *a, enum mds_infer_place place,
                           int64_t bases, int unit, struct mds_infer_window *out);

/* out[w->n]: the window with the allele.  bases[w->read]: the chromosome's; alt
 * [a->alt]: the allele's. */
void mds_infer_window_apply(const struct mds_infer_allele *a,
                            const struct mds_infer_window *w,
                            const unsigned char *bases, const unsigned char *alt,
                            unsigned char *out);

#endif
