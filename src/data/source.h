/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of tokens, in one of source_open.c's formats: one long run of ids, cut into
 * documents. */
#ifndef MDS_DATA_SOURCE_H
#define MDS_DATA_SOURCE_H

#include "base/status.h"
#include "base/str.h"
#include "data/reading.h"

#include <stdint.h>

struct mds_source;

struct mds_source_ops {
    const char *name; /* of the format */
    /* Ids of tokens first .. first + count - 1, which are inside the source.  What does
     * not fit becomes a number that no vocabulary has. */
    enum mds_rc (*read)(struct mds_source *s, int64_t first, int64_t count,
                        int32_t *ids);
    /* The id of one token as it stands in the file, for messages. */
    enum mds_rc (*stored)(struct mds_source *s, int64_t token, int64_t *id);
    /* count starts of documents from number `first` on (the last one, number
     * s->documents, is the number of tokens). */
    enum mds_rc (*starts)(struct mds_source *s, int64_t first, int64_t count,
                          int64_t *starts);
    /* Optional: path and SHA-256 of what the source was made from; both lists are the
     * caller's to free with mds_h5_free_strings. */
    enum mds_rc (*inputs)(struct mds_source *s, char ***paths, char ***sums,
                          int64_t *n);
    /* Optional: add "key  value" lines on where the tokens come from. */
    enum mds_rc (*provenance)(struct mds_source *s, struct mds_str *out);
    void (*close)(struct mds_source *s); /* what the format added, not s itself */
};

/* What all formats have in common; embedded first in theirs. */
struct mds_source {
    const struct mds_source_ops *ops;
    char *path;      /* as given */
    char *tokenizer; /* "codon"; NULL where the format does not say */
    int64_t tokens, documents;
    int64_t vocab;   /* words; with vocab_seen MDS_VOCAB_MAX, until somebody sets it */
    int vocab_seen;  /* the format states no vocabulary: it is the largest id + 1 */
    char **words;    /* [vocab], or NULL */
    int64_t n_words; /* of words: vocab or 0 */
    int64_t eod;     /* -1: unknown */
    struct mds_reading reading; /* of the records that became documents */
    int is_genome;              /* made from FASTA */
    int token_bases;            /* then: bases a token; 1 */
};

/* Words at most: more is a damaged file, or one that is no token file. */
enum { MDS_VOCAB_MAX = 1 << 24 };

/* Whether a path, or Megatron's part of two, is that of a file. */
int mds_source_is_there(const char *path);

/* By extension (.bin, .idx: Megatron; their common prefix too, as Megatron takes it)
 * and by content. */
enum mds_rc mds_source_open(const char *path, struct mds_source **out);
void mds_source_close(struct mds_source *s); /* NULL is fine */

/* Fronts of the operations: MDS_EBUG outside the source; read: MDS_EUSER for an id
 * outside the vocabulary, naming file and position. */
enum mds_rc mds_source_read(struct mds_source *s, int64_t first, int64_t count,
                            int32_t *ids);
enum mds_rc mds_source_starts(struct mds_source *s, int64_t first, int64_t count,
                              int64_t *starts);
/* The document that holds the token, which is inside the source. */
enum mds_rc mds_source_document_at(struct mds_source *s, int64_t token,
                                   int64_t *document);
enum mds_rc mds_source_provenance(struct mds_source *s, struct mds_str *out);

/* Add to counts[vocab] how often each word is among count tokens from first.  Logs how
 * far it is if that takes long, as mds_source_largest_id does. */
enum mds_rc mds_source_count(struct mds_source *s, int64_t first, int64_t count,
                             int64_t *counts);

/* Raise *largest to the largest id among count tokens from first. */
enum mds_rc mds_source_largest_id(struct mds_source *s, int64_t first, int64_t count,
                                  int64_t *largest);

/* -sum p ln p over counts[n], in nats; 0 for no tokens. */
double mds_entropy(const int64_t *counts, int64_t n);

/* One opener per format; path names a file that exists (Megatron: the prefix). */
enum mds_rc mds_source_open_hdf5(const char *path, struct mds_source **out);
enum mds_rc mds_source_open_megatron(const char *prefix, struct mds_source **out);

#endif
