/* SPDX-License-Identifier: BSD-3-Clause */
/* Strands and reading frames: how FASTA records become documents.  Each record gives
 * one document per strand and frame asked for: forward before reverse, frames 0, 1, 2
 * within a strand.  The documents of one record hold the same bases. */
#ifndef MDS_DATA_READING_H
#define MDS_DATA_READING_H

#include "base/str.h"

enum { MDS_STRAND_FORWARD = 1, MDS_STRAND_REVERSE = 2 };
enum { MDS_FRAMES = 3, MDS_RECORD_DOCUMENTS = 2 * MDS_FRAMES }; /* at most */

struct mds_reading {
    unsigned frames;  /* bit f: reading frame f; 1 unless the tokenizer is codon */
    unsigned strands; /* MDS_STRAND_* or'ed; forward if the input is not FASTA */
};

/* Names as the user writes them, ending with NULL. */
extern const char *const mds_frame_names[];
extern const char *const mds_strand_names[];
unsigned mds_reading_frames(int name);  /* of a row of mds_frame_names */
unsigned mds_reading_strands(int name); /* of a row of mds_strand_names */

/* Documents of a record. */
int mds_reading_documents(const struct mds_reading *r);

/* Frame and strand of document number i of a record. */
void mds_reading_document(const struct mds_reading *r, int i, int *frame, int *reverse);

/* How that text begins for documents that are features of a type, cut out of records.
 */
#define MDS_READING_FEATURES "features "

/* Append "frame all, strand both", or "strand both" without codons: the text of the
 * attribute `options` of token files. */
void mds_reading_write(const struct mds_reading *r, int codon, struct mds_str *out);
/* Parse that text.  Any other text means one document per record. */
struct mds_reading mds_reading_read(const char *text);

#endif
