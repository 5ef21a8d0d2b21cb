/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-likelihoods of sequences. */
#ifndef MDS_INFER_SCORE_H
#define MDS_INFER_SCORE_H

#include "infer/model.h"

enum mds_infer_strand {
    MDS_INFER_FORWARD,
    MDS_INFER_REVERSE,
    MDS_INFER_BOTH /* the mean of both */
};
extern const char *const mds_infer_strands[]; /* their names, and NULL */

struct mds_infer_score {
    struct mds_infer_inputs inputs;
    const char *output;    /* TSV; NULL: standard output */
    const char *per_token; /* HDF5, or NULL */
    const char *track;     /* bedGraph, or NULL */
    int strand;            /* enum mds_infer_strand */
    int score_eod;         /* also the end of each sequence, as <eod> */
    int overwrite, resume; /* resume: go on with what is in the output */
};

/* Read all inputs once: *need says how much there is.  MDS_EUSER names the first
 * sequence that is longer than the model's positions. */
enum mds_rc mds_infer_score_measure(const struct mds_infer_score *s,
                                    const struct mds_infer_model *m,
                                    struct mds_infer_need *need);

/* Score them all; rank 0 writes.  The model is started.  Collective. */
enum mds_rc mds_infer_score_run(const struct mds_infer_score *s,
                                struct mds_infer_model *m);

/* Append what its output is of (infer/origin.h). */
void mds_infer_score_origin(const struct mds_infer_score *s,
                            const struct mds_infer_model *m, struct mds_str *lines);

#endif
