/* SPDX-License-Identifier: BSD-3-Clause */
/* Scores of variants as a file: VCF or BCF, or a table. */
#ifndef MDS_INFER_VARIANT_FILE_H
#define MDS_INFER_VARIANT_FILE_H

#include "infer/table.h"
#include "infer/variants.h"
#include "infer/vcf.h"

struct mds_infer_variant_file {
    const struct mds_infer_variants *s; /* borrowed */
    struct mds_vcf *vcf;                /* the input, and an output in VCF; owned */
    int to_vcf;                         /* else: */
    struct mds_infer_table table;
    int64_t before; /* parts that an earlier job has written */
};

/* What an allele gets. */
struct mds_infer_ratio {
    const char *status;
    double llr, of[2]; /* of[]: by strand; NAN: not read, or no score */
    double jsd;        /* of both strands the mean; NAN: there is none */
};

/* Begin the output, or go on with it; the members above are set.  On rank 0 only. */
enum mds_rc mds_infer_variant_file_open(struct mds_infer_variant_file *f,
                                        const struct mds_infer_model *m);

/* How many of f->before a record makes: lines of a table, of VCF 1. */
int64_t mds_infer_variant_file_parts(const struct mds_infer_variant_file *f,
                                     const struct mds_variant *v);
/* The next record of what an earlier job has written.  MDS_EUSER if it is not r. */
enum mds_rc mds_infer_variant_file_keep(struct mds_infer_variant_file *f,
                                        struct mds_vcf_record *r);
/* Add a record.  of: of each other allele; if there is none, of that. */
enum mds_rc mds_infer_variant_file_add(struct mds_infer_variant_file *f,
                                       struct mds_vcf_record *r,
                                       const struct mds_infer_ratio *of);
enum mds_rc mds_infer_variant_file_flush(struct mds_infer_variant_file *f);
/* Close input and output; rc: whether all went well so far.  A zeroed one is fine. */
enum mds_rc mds_infer_variant_file_close(struct mds_infer_variant_file *f,
                                         enum mds_rc rc);

/* Before a job: read a file of variants until then, for what is wrong with it.
 * *alleles: of all of it, if there was time. */
enum mds_rc mds_infer_variants_look_through(const char *path, double until_s,
                                            int64_t *alleles);

#endif
