/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/tokenizer.h"
#include "data/fasta.h"

#include <stdio.h>

const char *const mds_tokenizer_names[MDS_TOKENIZERS + 1] = {"codon", "nucleotide",
                                                             "bytes", "ids", NULL};

static const struct mds_vocabulary vocabularies[MDS_TOKENIZERS] = {
    {MDS_TOKENIZER_CODON, 66, MDS_CODON_EOD},
    {MDS_TOKENIZER_NUCLEOTIDE, 6, 5},
    {MDS_TOKENIZER_BYTES, 257, 256},
    {MDS_TOKENIZER_IDS, 0, -1},
};

struct mds_vocabulary mds_tokenizer_vocabulary(enum mds_tokenizer t)
{
    return vocabularies[t];
}

const char *mds_tokenizer_word(enum mds_tokenizer t, int32_t id, char word[8])
{
    static const char letters[] = "ACGTN";

    if (id == vocabularies[t].eod)
        snprintf(word, 8, "<eod>");
    else if (t == MDS_TOKENIZER_CODON && id == MDS_CODON_UNK)
        snprintf(word, 8, "<unk>");
    else if (t == MDS_TOKENIZER_CODON)
        snprintf(word, 8, "%c%c%c", letters[id / 16], letters[id / 4 % 4],
                 letters[id % 4]);
    else if (t == MDS_TOKENIZER_NUCLEOTIDE)
        snprintf(word, 8, "%c", letters[id]);
    else
        snprintf(word, 8, id > ' ' && id <= '~' ? "%c" : "<%02x>", id);
    return word;
}

void mds_codon_encode(const unsigned char *bases, size_t n, int32_t *ids)
{
    for (; n >= 3; n -= 3, bases += 3) {
        int known =
            bases[0] < MDS_BASE_N && bases[1] < MDS_BASE_N && bases[2] < MDS_BASE_N;

        *ids++ = known ? 16 * bases[0] + 4 * bases[1] + bases[2] : MDS_CODON_UNK;
    }
}

void mds_bases_reverse(unsigned char *bases, size_t n)
{
    static const unsigned char complement[] = {MDS_BASE_T, MDS_BASE_G, MDS_BASE_C,
                                               MDS_BASE_A, MDS_BASE_N};

    for (size_t i = 0; i < (n + 1) / 2; i++) {
        unsigned char left = complement[bases[i]];

        bases[i] = complement[bases[n - 1 - i]];
        bases[n - 1 - i] = left;
    }
}
