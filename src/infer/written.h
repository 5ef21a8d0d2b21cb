/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens as text. */
#ifndef MDS_INFER_WRITTEN_H
#define MDS_INFER_WRITTEN_H

#include "base/str.h"
#include "data/tokenizer.h"

/* Append the bases that n tokens add to those before them, of a tokenizer of bases;
 * what is no base is N. */
void mds_infer_add_bases(struct mds_str *out, enum mds_tokenizer t, const int32_t *ids,
                         int64_t n);

/* Append a record of FASTA, in lines of 80 bases.  words: what follows the name. */
void mds_infer_add_fasta(struct mds_str *out, const char *name, const char *words,
                         const char *bases);

/* Append tokens as a field of JSON: "text" of bytes, in which those that are not UTF-8
 * become U+FFFD, or "ids" of any other tokenizer. */
void mds_infer_add_json(struct mds_str *out, enum mds_tokenizer t, const int32_t *ids,
                        int64_t n);

#endif
