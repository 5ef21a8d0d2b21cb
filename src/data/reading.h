/* SPDX-License-Identifier: BSD-3-Clause */
/* How FASTA records become documents: a document for each strand and reading frame that
 * is asked for, in the order forward, reverse, and frames 0, 1, 2 within a strand.  The
 * documents of one record hold the same bases. */
#ifndef MDS_DATA_READING_H
#define MDS_DATA_READING_H

#include "base/str.h"

enum { MDS_STRAND_FORWARD = 1, MDS_STRAND_REVERSE = 2 };
enum { MDS_FRAMES = 3, MDS_RECORD_DOCUMENTS = 2 * MDS_FRAMES }; /* at most */

struct mds_reading {
    unsigned frames;  /* bit f: reading frame f; 1 for other tokenizers than codon */
    unsigned strands; /* MDS_STRAND_* or'ed; forward for what is not FASTA */
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

/* "frame all, strand both", or "strand both" if frames do not matter: the attribute
 * `options` that token files have had since the first version. */
void mds_reading_write(const struct mds_reading *r, int codon, struct mds_str *out);
/* Back again; a text that is none means one document a record. */
struct mds_reading mds_reading_read(const char *text);

#endif
