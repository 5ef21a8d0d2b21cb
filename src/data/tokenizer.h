/* SPDX-License-Identifier: BSD-3-Clause */
/* From bytes and bases to token ids.
 *
 *   codon       AAA AAC .. TTT are 0 .. 63 (16 a + 4 b + c with A C G T = 0 1 2 3),
 *               <eod> 64, <unk> 65 for a codon with an ambiguous base
 *   nucleotide  A C G T N are 0 .. 4, <eod> 5
 *   bytes       0 .. 255 as they are, <eod> 256
 *   ids         ids that another tokenizer made; vocabulary and <eod> are its own
 *   dna         bases as the bytes A C G T N, in the vocabulary of bytes
 *   6-mer       as codon, with six bases: 0 .. 4095, <eod> 4096, <unk> 4097
 *   6-mer-overlapping  the same, but a token begins at each base */
#ifndef MDS_DATA_TOKENIZER_H
#define MDS_DATA_TOKENIZER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum mds_tokenizer {
    MDS_TOKENIZER_CODON,
    MDS_TOKENIZER_NUCLEOTIDE,
    MDS_TOKENIZER_BYTES,
    MDS_TOKENIZER_IDS,
    MDS_TOKENIZER_DNA, /* checkpoints store these numbers: add new ones at the end */
    MDS_TOKENIZER_6MER,
    MDS_TOKENIZER_6MER_OVERLAPPING,
    MDS_TOKENIZERS
};

extern const char *const mds_tokenizer_names[MDS_TOKENIZERS + 1]; /* ends with NULL */

/* The tokenizer of that name; ids if there is none, or name is NULL. */
enum mds_tokenizer mds_tokenizer_find(const char *name);

/* Check data against weights trained on tokens of `was`, of which path is the
 * checkpoint: 1 + enum mds_tokenizer, 0 if that is unknown.  MDS_EUSER if the data are
 * known to be of another tokenizer; a warning with `override`, or if one has no name.
 */
enum mds_rc mds_tokenizer_check(const char *path, int64_t was, enum mds_tokenizer is,
                                int override);

/* The bases of a token, and how many later the next token begins.  0 bases: this
 * tokenizer does not read FASTA. */
int mds_tokenizer_bases(enum mds_tokenizer t);
int mds_tokenizer_stride(enum mds_tokenizer t);

struct mds_vocabulary {
    enum mds_tokenizer tokenizer;
    int64_t size; /* ids are below it */
    int32_t eod;  /* the id that ends a document */
};

/* The vocabulary of any tokenizer but ids. */
struct mds_vocabulary mds_tokenizer_vocabulary(enum mds_tokenizer t);

/* The word of an id below the vocabulary's size, of a tokenizer but ids; returns word.
 * Bytes outside ! .. ~ are written <0a>. */
const char *mds_tokenizer_word(enum mds_tokenizer t, int32_t id, char word[8]);

/* The id for tokens with an ambiguous base; -1 if there is none. */
int32_t mds_tokenizer_unknown(enum mds_tokenizer t);

/* Encode bases[n] (enum mds_base) by a tokenizer of FASTA; returns the number of ids.
 * Bases at the end that do not fill a token are dropped. */
size_t mds_tokenizer_encode(enum mds_tokenizer t, const unsigned char *bases, size_t n,
                            int32_t *ids);

/* The id of the reverse complement of a token; -1 if it is not made of bases. */
int32_t mds_tokenizer_complement(enum mds_tokenizer t, int32_t id);

/* Replace bases[n], which may be in lower case (MDS_BASE_LOWER), by its reverse
 * complement. */
void mds_bases_reverse(unsigned char *bases, size_t n);

#endif
