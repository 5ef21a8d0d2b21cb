/* SPDX-License-Identifier: BSD-3-Clause */
/* The tokenizers of mds_data in the format of Hugging Face's tokenizers library.  It
 * gives the same ids as mds_data.
 *
 *   codon       three bases each, from the first on; one or two left over are dropped
 *   6-mer       six bases each
 *   nucleotide  each base
 *   bytes, dna  the bytes of the text
 *
 * Bases are in upper or lower case, U is T, other letters N; blanks and ends of lines
 * are removed.  <eod> in a text ends a document.  FASTA header lines must be removed.
 */
#ifndef MDS_DATA_TOKENIZER_JSON_H
#define MDS_DATA_TOKENIZER_JSON_H

#include "base/str.h"
#include "data/tokenizer.h"

/* Append the texts of tokenizer.json and tokenizer_config.json.  Nothing for ids, and
 * for 6-mer-overlapping, which that library cannot express. */
void mds_tokenizer_json(enum mds_tokenizer t, struct mds_str *tokenizer,
                        struct mds_str *config);

#endif
