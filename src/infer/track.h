/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-likelihoods along a genome, as bedGraph: lines of chrom, start, end and the value
 * of each base from start to end - 1, counted from 0. */
#ifndef MDS_INFER_TRACK_H
#define MDS_INFER_TRACK_H

#include "data/tokenizer.h"
#include "infer/table.h"

/* Values of the bases of one sequence; zero-initialise. */
struct mds_infer_track {
    double *sum;  /* [n], over strands */
    int *strands; /* [n]: how many have a value */
    int64_t n, room;
};

/* Begin a sequence of n bases. */
enum mds_rc mds_infer_track_begin(struct mds_infer_track *k, int64_t n);
/* Log-likelihoods of the bases that token i adds to those before it, of one strand. */
void mds_infer_track_add(struct mds_infer_track *k, enum mds_tokenizer t, int reverse,
                         int64_t i, const double *loglik);
/* Append lines, with the mean of strands, of a sequence that begins at base `first` of
 * chrom.  Bases without a value have none. */
void mds_infer_track_print(const struct mds_infer_track *k, const char *chrom,
                           int64_t first, struct mds_infer_table *out);
void mds_infer_track_fini(struct mds_infer_track *k);

#endif
