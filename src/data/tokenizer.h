/* SPDX-License-Identifier: BSD-3-Clause */
/* From bytes and bases to token ids.
 *
 *   codon       AAA AAC .. TTT are 0 .. 63 (16 a + 4 b + c with A C G T = 0 1 2 3),
 *               <eod> 64, <unk> 65 for a codon with an ambiguous base
 *   nucleotide  A C G T N are 0 .. 4, <eod> 5
 *   bytes       0 .. 255 as they are, <eod> 256
 *   ids         ids that another tokenizer made; vocabulary and <eod> are its own */
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
    MDS_TOKENIZERS
};

/* Whether this tokenizer reads FASTA. */
static inline int mds_tokenizer_is_of_fasta(enum mds_tokenizer t)
{
    return t == MDS_TOKENIZER_CODON || t == MDS_TOKENIZER_NUCLEOTIDE;
}

enum { MDS_CODON_EOD = 64, MDS_CODON_UNK = 65 };

extern const char *const mds_tokenizer_names[MDS_TOKENIZERS + 1]; /* ends with NULL */

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

/* Encode bases[n] (enum mds_base) as n / 3 codons; one or two bases left over are
 * dropped. */
void mds_codon_encode(const unsigned char *bases, size_t n, int32_t *ids);

/* Replace bases[n] by its reverse complement. */
void mds_bases_reverse(unsigned char *bases, size_t n);

#endif
