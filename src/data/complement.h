/* SPDX-License-Identifier: BSD-3-Clause */
/* The other strand of a sample of DNA. */
#ifndef MDS_DATA_COMPLEMENT_H
#define MDS_DATA_COMPLEMENT_H

#include "data/sample.h"
#include "data/tokenizer.h"

/* Replace the sequence of each document in s, of n tokens, by its reverse complement.
 * Kinds go with their tokens.  <eod>, padding, tags and other tokens that are no bases
 * stay where they are.  Nothing happens to tokens of other tokenizers than FASTA's. */
void mds_sample_reverse_complement(enum mds_tokenizer t, const struct mds_sample *s,
                                   int64_t n);

#endif
