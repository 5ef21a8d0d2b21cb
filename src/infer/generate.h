/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences that a model makes: what follows prompts, or what it makes of the hidden
 * end of each record. */
#ifndef MDS_INFER_GENERATE_H
#define MDS_INFER_GENERATE_H

#include "infer/model.h"
#include "infer/sample.h"

struct mds_infer_generate {
    struct mds_infer_inputs inputs;
    const char *output; /* NULL: standard output */
    int64_t new_tokens; /* of a prompt, at most */
    int64_t samples;    /* of a prompt */
    struct mds_infer_sampling sampling;
    double complete; /* below 1: this share of each record is hidden; else so many
                        tokens; 0: inputs are prompts */
    int overwrite;
};

/* So many batches of each replica wait before they run, so that prompts of one length
 * find each other; then their results are written. */
enum { MDS_INFER_GENERATE_BATCHES = 16 };

/* Read all inputs once: *need says how much there is.  MDS_EUSER names the first record
 * that is no prompt, or with its new tokens longer than the model's positions. */
enum mds_rc mds_infer_generate_measure(const struct mds_infer_generate *s,
                                       const struct mds_infer_model *m,
                                       struct mds_infer_need *need);

/* Rank 0 writes FASTA, or lines of JSON of what is not made of bases; of `complete` a
 * table.  The model is started.  Collective. */
enum mds_rc mds_infer_generate_run(const struct mds_infer_generate *s,
                                   struct mds_infer_model *m);

#endif
