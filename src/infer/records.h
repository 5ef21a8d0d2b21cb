/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequences to read: records of FASTA, documents of a token file, lines of JSON, or
 * regions of a genome.
 *
 * FASTA, plain or compressed, and "text" in lines of JSON are read by the model's
 * tokenizer.  A token file has to be of that tokenizer; its <eod> is left out. */
#ifndef MDS_INFER_RECORDS_H
#define MDS_INFER_RECORDS_H

#include "data/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct mds_infer_records;

/* Borrowed until the next call. */
struct mds_infer_record {
    const char *name; /* FASTA: the header's first word; JSON: "name" or "id"; else, or
                         if there is none, its number, from 1 */
    int64_t length;   /* bases; of what is not made of bases, tokens */
    const int32_t *ids;
    int64_t n;
    const char *chrom; /* where it is from: the FASTA record, or a region's; NULL */
    int64_t first;     /* the region's first base */
    int reverse;       /* what was read is the other strand */
};

/* What to read: files, or of a FASTA file the regions that they name. */
struct mds_infer_inputs {
    char *const *path; /* [n]; "-" is FASTA on standard input */
    size_t n;
    const char *fasta;   /* NULL: files are what is to be read; else regions.h */
    const char *feature; /* the type of features of GFF3 */
};

/* Open input i. */
enum mds_rc mds_infer_records_open(const struct mds_infer_inputs *inputs, size_t i,
                                   const struct mds_vocabulary *v,
                                   struct mds_infer_records **out);
void mds_infer_records_close(struct mds_infer_records *r); /* NULL is fine */

/* The next one; *found is 0 after the last. */
enum mds_rc mds_infer_records_next(struct mds_infer_records *r,
                                   struct mds_infer_record *out, int *found);

/* Call `visit` for each record of the inputs, in turn, until it fails.  r: the record,
 * of `in`. */
typedef enum mds_rc mds_infer_visit_fn(void *ctx, struct mds_infer_records *in,
                                       struct mds_infer_record *r);
enum mds_rc mds_infer_records_each(const struct mds_infer_inputs *inputs,
                                   const struct mds_vocabulary *v,
                                   mds_infer_visit_fn *visit, void *ctx);

/* Bytes of the file that were read so far, as stored; 0: unknown. */
int64_t mds_infer_records_raw_bytes(const struct mds_infer_records *r);

/* The input's name, for messages. */
const char *mds_infer_records_input(const struct mds_infer_records *r);

/* The reverse complement of the record that next gave.  MDS_EUSER if it is not of
 * bases. */
enum mds_rc mds_infer_records_reverse(struct mds_infer_records *r,
                                      struct mds_infer_record *out);

#endif
