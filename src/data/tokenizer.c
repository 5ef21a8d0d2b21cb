/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/tokenizer.h"
#include "base/log.h"
#include "data/fasta.h"

#include <stdio.h>
#include <string.h>

const char *const mds_tokenizer_names[MDS_TOKENIZERS + 1] = {
    "codon", "nucleotide", "bytes", "ids", "dna", "6-mer", "6-mer-overlapping", NULL};

static const struct tokenizer {
    int64_t size;
    int32_t eod, unknown;
    int bases, stride;
} tokenizers[MDS_TOKENIZERS] = {
    [MDS_TOKENIZER_CODON] = {66, 64, 65, 3, 3},
    [MDS_TOKENIZER_NUCLEOTIDE] = {6, 5, MDS_BASE_N, 1, 1},
    [MDS_TOKENIZER_BYTES] = {257, 256, -1, 0, 0},
    [MDS_TOKENIZER_IDS] = {0, -1, -1, 0, 0},
    [MDS_TOKENIZER_DNA] = {257, 256, 'N', 1, 1},
    [MDS_TOKENIZER_6MER] = {4098, 4096, 4097, 6, 6},
    [MDS_TOKENIZER_6MER_OVERLAPPING] = {4098, 4096, 4097, 6, 1},
};

static const char letters[] = "ACGTN";

enum mds_tokenizer mds_tokenizer_find(const char *name)
{
    for (int t = 0; name && t < MDS_TOKENIZERS; t++)
        if (strcmp(name, mds_tokenizer_names[t]) == 0)
            return (enum mds_tokenizer)t;
    return MDS_TOKENIZER_IDS;
}

enum mds_rc mds_tokenizer_check(const char *path, int64_t was, enum mds_tokenizer is,
                                int override)
{
    const char *const *names = mds_tokenizer_names;
    int64_t before = was - 1;
    int unknown = before == MDS_TOKENIZER_IDS || is == MDS_TOKENIZER_IDS;

    if (before < 0 || before >= MDS_TOKENIZERS || before == (int64_t)is)
        return MDS_OK; /* an import does not say */
    if (!unknown && !override)
        return mds_fail(MDS_EUSER,
                        "%s: was trained on tokens of %s, but this run's data are %s, "
                        "where ids mean something else; use data of that tokenizer, or "
                        "give --override-model-config",
                        path, names[before], names[is]);
    mds_warn("%s: was trained on tokens of %s, but this run's data are %s%s", path,
             names[before], names[is],
             unknown ? ": is that the same tokenizer?"
                     : ", and --override-model-config is given");
    return MDS_OK;
}

int mds_tokenizer_bases(enum mds_tokenizer t)
{
    return tokenizers[t].bases;
}

int mds_tokenizer_stride(enum mds_tokenizer t)
{
    return tokenizers[t].stride;
}

struct mds_vocabulary mds_tokenizer_vocabulary(enum mds_tokenizer t)
{
    return (struct mds_vocabulary){t, tokenizers[t].size, tokenizers[t].eod};
}

int32_t mds_tokenizer_unknown(enum mds_tokenizer t)
{
    return tokenizers[t].unknown;
}

const char *mds_tokenizer_word(enum mds_tokenizer t, int32_t id, char word[8])
{
    int bases = tokenizers[t].bases;

    if (id == tokenizers[t].eod) {
        snprintf(word, 8, "<eod>");
    } else if (t == MDS_TOKENIZER_NUCLEOTIDE) {
        snprintf(word, 8, "%c", letters[id]);
    } else if (bases <= 1) {
        snprintf(word, 8, id > ' ' && id <= '~' ? "%c" : "<%02x>", id);
    } else if (id == tokenizers[t].unknown) {
        snprintf(word, 8, "<unk>");
    } else {
        word[bases] = '\0';
        for (int i = bases - 1; i >= 0; i--, id /= 4)
            word[i] = letters[id % 4];
    }
    return word;
}

/* One id from each `bases` bases, `stride` apart. */
static size_t encode_words(const struct tokenizer *t, const unsigned char *bases,
                           size_t n, int32_t *ids)
{
    size_t width = (size_t)t->bases, count = 0;

    for (; n >= width; bases += t->stride, n -= (size_t)t->stride) {
        int32_t id = 0;
        int known = 1;

        for (size_t i = 0; i < width; i++) {
            id = 4 * id + bases[i];
            known &= bases[i] < MDS_BASE_N;
        }
        ids[count++] = known ? id : t->unknown;
    }
    return count;
}

size_t mds_tokenizer_encode(enum mds_tokenizer t, const unsigned char *bases, size_t n,
                            int32_t *ids)
{
    if (tokenizers[t].bases > 1)
        return encode_words(&tokenizers[t], bases, n, ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = t == MDS_TOKENIZER_DNA ? letters[bases[i]] : bases[i];
    return n;
}

/* Of the letters of dna: A C G T N as they are, not in lower case. */
static int32_t complement_letter(int32_t letter)
{
    switch (letter) {
    case 'A':
        return 'T';
    case 'C':
        return 'G';
    case 'G':
        return 'C';
    case 'T':
        return 'A';
    default:
        return letter == 'N' ? 'N' : -1;
    }
}

int32_t mds_tokenizer_complement(enum mds_tokenizer t, int32_t id)
{
    const struct tokenizer *k = &tokenizers[t];
    int32_t other = 0;

    if (k->bases == 0 || id == k->eod)
        return -1;
    if (t == MDS_TOKENIZER_DNA)
        return complement_letter(id);
    if (id == k->unknown)
        return id;
    for (int i = 0; i < k->bases; i++, id /= 4)
        other = 4 * other + (3 - id % 4);
    return other;
}

static unsigned char complement(unsigned char base)
{
    return base % MDS_BASE_LOWER < MDS_BASE_N ? base ^ 3 : base;
}

void mds_bases_reverse(unsigned char *bases, size_t n)
{
    for (size_t i = 0; i < (n + 1) / 2; i++) {
        unsigned char left = complement(bases[i]);

        bases[i] = complement(bases[n - 1 - i]);
        bases[n - 1 - i] = left;
    }
}
