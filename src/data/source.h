/* SPDX-License-Identifier: BSD-3-Clause */
/* A token file in one of the formats of source_open.c: a sequence of ids, divided into
 * documents. */
#ifndef MDS_DATA_SOURCE_H
#define MDS_DATA_SOURCE_H

#include "base/status.h"
#include "base/str.h"
#include "data/kinds.h"
#include "data/reading.h"

#include <stdint.h>

struct mds_source;

struct mds_source_ops {
    const char *name; /* of the format */
    /* Read the ids of tokens first .. first + count - 1, which are inside the source.
     * An id that does not fit into 32 bits becomes one that is outside every
     * vocabulary. */
    enum mds_rc (*read)(struct mds_source *s, int64_t first, int64_t count,
                        int32_t *ids);
    /* The id of one token as stored in the file, for messages. */
    enum mds_rc (*stored)(struct mds_source *s, int64_t token, int64_t *id);
    /* The first token of each of `count` documents from number `first` on.  Number
     * s->documents, one past the last, gives the number of tokens. */
    enum mds_rc (*starts)(struct mds_source *s, int64_t first, int64_t count,
                          int64_t *starts);
    /* Optional: paths and SHA-256 of the inputs that the source was made from; the
     * caller frees both lists with mds_h5_free_strings. */
    enum mds_rc (*inputs)(struct mds_source *s, char ***paths, char ***sums,
                          int64_t *n);
    /* Optional: add "key  value" lines on where the tokens come from. */
    enum mds_rc (*provenance)(struct mds_source *s, struct mds_str *out);
    void (*close)(struct mds_source *s); /* free the format's own fields, not s */
};

/* The fields that all formats share; the first member of each format's struct. */
struct mds_source {
    const struct mds_source_ops *ops;
    char *path;      /* as given */
    char *tokenizer; /* "codon"; NULL where the format does not say */
    int64_t tokens, documents;
    int64_t vocab;   /* size; MDS_VOCAB_MAX if vocab_seen, until it is set */
    int vocab_seen;  /* the file states no vocabulary: the size is the largest id + 1 */
    char **words;    /* [vocab], or NULL */
    int64_t n_words; /* of words: vocab or 0 */
    int64_t eod;     /* -1: unknown */
    struct mds_reading reading; /* of the records that became documents */
    int is_genome;              /* made from FASTA */
    int is_cut;                 /* its documents are features of the records */
    int token_bases;            /* bases per token of a genome, else 1 */
    struct mds_kinds *kinds;    /* NULL: all tokens count alike */
    int token_stride;           /* bases from one token to the next, else 1 */
};

/* The largest vocabulary accepted; a larger one means a damaged file. */
enum { MDS_VOCAB_MAX = 1 << 24 };

/* Whether path names a token file, or the prefix of Megatron's .bin and .idx. */
int mds_source_is_there(const char *path);

/* Whether path names Megatron's files, by extension and by what is there. */
int mds_source_is_megatron(const char *path);

/* By extension (.bin, .idx: Megatron; their common prefix too, as Megatron takes it)
 * and by content. */
enum mds_rc mds_source_open(const char *path, struct mds_source **out);

/* As mds_source_open, of a file that is not Megatron's. */
enum mds_rc mds_source_open_tokens(const char *path, struct mds_source **out);
void mds_source_close(struct mds_source *s); /* NULL is fine */

/* Call the format's operations with checked arguments: MDS_EBUG for tokens or documents
 * outside the source.  mds_source_read: MDS_EUSER for an id outside the vocabulary,
 * with file and position. */
enum mds_rc mds_source_read(struct mds_source *s, int64_t first, int64_t count,
                            int32_t *ids);
/* The kinds of tokens inside the source; all 0 if it has none. */
enum mds_rc mds_source_read_kinds(struct mds_source *s, int64_t first, int64_t count,
                                  unsigned char *kinds);
enum mds_rc mds_source_starts(struct mds_source *s, int64_t first, int64_t count,
                              int64_t *starts);
/* The document that contains a token inside the source. */
enum mds_rc mds_source_document_at(struct mds_source *s, int64_t token,
                                   int64_t *document);
/* Call each(to, first token, tokens) for every document in `count` tokens from `first`
 * on, which may begin and end inside a document. */
enum mds_rc mds_source_each_document(struct mds_source *s, int64_t first, int64_t count,
                                     enum mds_rc (*each)(void *to, int64_t first,
                                                         int64_t tokens),
                                     void *to);
enum mds_rc mds_source_provenance(struct mds_source *s, struct mds_str *out);

/* Count each id among `count` tokens from `first` on, into counts[vocab] (added to).
 * Logs its progress if it takes long; so does mds_source_largest_id. */
enum mds_rc mds_source_count(struct mds_source *s, int64_t first, int64_t count,
                             int64_t *counts);

/* Count the tokens of each kind of a source that has kinds, into counts[MDS_KINDS_MAX]
 * (added to). */
enum mds_rc mds_source_count_kinds(struct mds_source *s, int64_t *counts);

/* Raise *largest to the largest id among count tokens from first. */
enum mds_rc mds_source_largest_id(struct mds_source *s, int64_t first, int64_t count,
                                  int64_t *largest);

/* -sum p ln p over counts[n], in nats; 0 for no tokens. */
double mds_entropy(const int64_t *counts, int64_t n);

/* One opener per format; path names a file that exists (Megatron: the prefix). */
enum mds_rc mds_source_open_hdf5(const char *path, struct mds_source **out);
enum mds_rc mds_source_open_megatron(const char *prefix, struct mds_source **out);

#endif
