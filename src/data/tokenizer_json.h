/* SPDX-License-Identifier: BSD-3-Clause */
/* The tokenizers of mds_data in the format of Hugging Face's tokenizers library: text
 * becomes the ids that mds_data makes of it.
 *
 *   codon       three bases each from the first on; a rest of one or two is dropped
 *   nucleotide  each base
 *   bytes       of the text as it is
 *
 * Bases are in upper or lower case, U is T, other letters N; blanks and ends of lines
 * are left out.  <eod> in a text ends a document.  FASTA's name line is no part of it.
 */
#ifndef MDS_DATA_TOKENIZER_JSON_H
#define MDS_DATA_TOKENIZER_JSON_H

#include "base/str.h"
#include "data/tokenizer.h"

/* tokenizer.json and tokenizer_config.json, of a tokenizer but ids. */
void mds_tokenizer_json(enum mds_tokenizer t, struct mds_str *tokenizer,
                        struct mds_str *config);

#endif
