/* SPDX-License-Identifier: BSD-3-Clause */
/* Nucleotide FASTA: '>' headers, ';' comment lines, any line length, LF or CRLF.
 *
 * A C G T are bases, in lower case with MDS_BASE_LOWER added (MDS_BASE_MARKED is for
 * data/features.h); U is T, the other IUPAC
 * letters (R Y S W K M B D H V N) and gaps (- .) are N.  Protein letters and other
 * bytes are MDS_EUSER naming file, line and record.
 *
 * Source: Cornish-Bowden 1985, doi:10.1093/nar/13.9.3021. */
#ifndef MDS_DATA_FASTA_H
#define MDS_DATA_FASTA_H

#include "base/status.h"
#include "io/reader.h"

enum mds_base { MDS_BASE_A, MDS_BASE_C, MDS_BASE_G, MDS_BASE_T, MDS_BASE_N };
enum { MDS_BASE_LOWER = 8, MDS_BASE_MARKED = 16, MDS_BASES = 32 };

struct mds_fasta;

/* r is borrowed until destroy. */
enum mds_rc mds_fasta_create(struct mds_reader *r, struct mds_fasta **out);
void mds_fasta_destroy(struct mds_fasta *f); /* NULL is fine */

/* Go to the next record; the rest of the current one is checked and skipped.  *found is
 * 0 at the end of the file. */
enum mds_rc mds_fasta_next(struct mds_fasta *f, int *found);

/* The header's first word; borrowed until the next record. */
const char *mds_fasta_name(const struct mds_fasta *f);

/* Read up to `capacity` bases of this record, as enum mds_base, plus
 * MDS_BASE_LOWER.  *n is 0 at its end. */
enum mds_rc mds_fasta_read(struct mds_fasta *f, unsigned char *bases, size_t capacity,
                           size_t *n);

#endif
