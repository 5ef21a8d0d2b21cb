/* SPDX-License-Identifier: BSD-3-Clause */
/* How much less, or more, likely an allele makes the sequence around it. */
#ifndef MDS_INFER_VARIANTS_H
#define MDS_INFER_VARIANTS_H

#include "infer/score.h"

struct mds_infer_variants {
    const char *vcf, *fasta;
    const char *output; /* .vcf, .vcf.gz, .bcf; else TSV; NULL: TSV, standard output */
    int64_t window; /* bases; 0: 8192, or what the model was trained on if shorter */
    int strand;     /* enum mds_infer_strand */
    int at_end;     /* the allele is what each strand's window ends with; else, the
                       middle */
    int overwrite, resume; /* resume: go on with what is in the output */
};

/* Set the window, and how long sequences are; as mds_infer_score_measure. */
enum mds_rc mds_infer_variants_measure(struct mds_infer_variants *s,
                                       const struct mds_infer_model *m,
                                       struct mds_infer_need *need);

/* As mds_infer_score_run. */
enum mds_rc mds_infer_variants_run(const struct mds_infer_variants *s,
                                   struct mds_infer_model *m);

/* Append what its output is of (infer/origin.h). */
void mds_infer_variants_origin(const struct mds_infer_variants *s,
                               const struct mds_infer_model *m, struct mds_str *lines);

#endif
