/* SPDX-License-Identifier: BSD-3-Clause */
/* Variants in VCF or BCF, plain or compressed; by htslib. */
#ifndef MDS_INFER_VCF_H
#define MDS_INFER_VCF_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct mds_vcf;        /* an open file, and what is written of it */
struct mds_vcf_record; /* one line */

/* What of a record does not change. */
struct mds_variant {
    const char *chrom, *id; /* borrowed from the record or the file, as is the rest */
    int64_t pos;            /* of the first base of alleles, from 0 */
    int n;                  /* alleles, the first of which is the reference's */
    char *const *allele;
};

enum mds_rc mds_vcf_open(const char *path, struct mds_vcf **out);
/* Frees v in any case; what was written is complete if this succeeds.  NULL is fine. */
enum mds_rc mds_vcf_close(struct mds_vcf *v);

/* After a failure, in place of close, which would write what is left: an earlier job's
 * file that is not replaced yet stays as it was, and one without records goes.  NULL is
 * fine. */
void mds_vcf_abandon(struct mds_vcf *v);

/* The next record, which the caller frees; NULL at the end.  MDS_EUSER if the file is
 * damaged, cut short or not sorted. */
enum mds_rc mds_vcf_next(struct mds_vcf *v, struct mds_vcf_record **out);
void mds_vcf_record_free(struct mds_vcf_record *r); /* NULL is fine */
struct mds_variant mds_vcf_variant(const struct mds_vcf *v,
                                   const struct mds_vcf_record *r);

/* What a record gets for each of its other alleles, [n - 1]; NAN: missing. */
enum { MDS_VCF_LLR, MDS_VCF_LLR_FWD, MDS_VCF_LLR_RC, MDS_VCF_JSD, MDS_VCF_KEYS };
struct mds_vcf_scores {
    float *of[MDS_VCF_KEYS];
};

/* Memory for n alleles: *s points into what is returned, which the caller frees.  NULL:
 * there is none. */
float *mds_vcf_scores_alloc(size_t n, struct mds_vcf_scores *s);

/* Write records to a file, in VCF (by its name compressed, .vcf.gz) or BCF (.bcf), with
 * INFO LLR, LLR_FWD, LLR_RC and JSD.  Call it before the first mds_vcf_next.  model:
 * for the header. */
enum mds_rc mds_vcf_write_to(struct mds_vcf *v, const char *path, const char *model);
enum mds_rc mds_vcf_write(struct mds_vcf *v, struct mds_vcf_record *r,
                          const struct mds_vcf_scores *s);
/* Likewise, to go on with such a file: *records is how many whole ones it has, each of
 * which is kept (MDS_EUSER if it is not of this record) before others are written.  The
 * file is replaced by the first flush. */
enum mds_rc mds_vcf_resume(struct mds_vcf *v, const char *path, const char *model,
                           int64_t *records);
enum mds_rc mds_vcf_keep(struct mds_vcf *v, struct mds_vcf_record *r);
/* Hand all that was written to the system.  If that fails what was flushed before
 * stays, and nothing else. */
enum mds_rc mds_vcf_flush(struct mds_vcf *v);

/* Whether a name says that its file is to be VCF or BCF. */
int mds_vcf_is_name(const char *path);

#endif
