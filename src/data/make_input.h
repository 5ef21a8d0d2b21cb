/* SPDX-License-Identifier: BSD-3-Clause */
/* What mds_data make was asked for; and one of its inputs while it is read. */
#ifndef MDS_DATA_MAKE_INPUT_H
#define MDS_DATA_MAKE_INPUT_H

#include "base/status.h"
#include "data/features.h"
#include "data/kinds.h"
#include "data/reading.h"
#include "data/tokenizer.h"
#include "io/reader.h"

#include <stdint.h>

enum { MDS_MAKE_KIND_MAX = 24 }; /* "name:repeat" has to fit into a kind's name */

/* Tokenizers of bases read FASTA.  Each (record, strand, frame) is one document.
 * Frames count from the strand's own 5' end.  Bases left over at the end are
 * dropped; records too short for one token in each frame are skipped.  bytes makes one
 * document of each input (after decompression), ids one of each line (see
 * data/id_lines.h). */
struct mds_make {
    struct mds_vocabulary vocabulary;
    struct mds_reading reading; /* of FASTA */
    const char *output;
    int overwrite;             /* replace the output, if there is one */
    const char *const *inputs; /* [n_inputs]; "-" is standard input */
    int n_inputs;
    const char *kind;        /* of the tokens, for logs; NULL: does not matter */
    double lowercase_weight; /* in the loss, of soft-masked bases; below 0: as others */
    const struct mds_features *features; /* of FASTA's records; or NULL */
    double feature_weight; /* in the loss; below 0: features are cut out, a document
                              each, on their own strand */
    const char *tag;       /* of FASTA to dna; {record} is the record's name; or NULL */
    int64_t tag_every;     /* tokens */
    int threads;           /* that read inputs */
    const char *command;   /* kept in the file as provenance */
};

struct mds_make_stats {
    int64_t records; /* FASTA records, inputs of bytes, lines of ids */
    int64_t documents, tokens;
    int64_t unknown;         /* <unk> or N tokens */
    int64_t empty;           /* lines of ids that were empty and skipped */
    int64_t empty_line;      /* the first of them, */
    const char *empty_input; /* and its input; borrowed */
    int64_t skipped;         /* records without a whole codon or base in each frame */
    int64_t annotated;       /* records with features */
    int64_t both_strands;    /* features left out: they have parts on both */
    int64_t apart;           /* parts of features that begin a document of their own */
    char record[64];         /* the name of one record of FASTA */
};

/* The kinds of FASTA's tokens.  Kind 0 is that of sequence, and of all tokens of other
 * inputs.  -1: not in use. */
struct mds_make_kinds {
    struct mds_kind kind[MDS_KINDS_MAX];
    int n;
    int ambiguous, tag, repeat, feature;
};

void mds_make_kinds_init(const struct mds_make *m, struct mds_make_kinds *k);

/* Where tokens go. */
struct mds_token_sink {
    void *to;
    /* kinds: NULL if all are of kind 0. */
    enum mds_rc (*add)(void *to, const int32_t *ids, const unsigned char *kinds,
                       size_t n);
    enum mds_rc (*end_document)(void *to); /* its <eod> was added */
    /* Called now and then with the bytes of inputs read since the last call: for
     * progress.  An error ends the work. */
    enum mds_rc (*progress)(void *to, int64_t bytes);
};

enum { MDS_MAKE_BLOCK = 48 * 1024 }; /* bytes or tokens at a time */

struct mds_make_input {
    const struct mds_make *m;
    struct mds_token_sink sink;
    const char *input;         /* the one being read */
    struct mds_reader *reader; /* of it */
    int32_t *ids;              /* [MDS_MAKE_BLOCK] */
    int64_t told;              /* bytes of it that progress knows of */
    struct mds_make_stats stats;
};

enum mds_rc mds_make_input_init(const struct mds_make *m, struct mds_token_sink sink,
                                struct mds_make_input *out);
void mds_make_input_fini(struct mds_make_input *t);

/* Say how much was read. */
enum mds_rc mds_make_input_progress(struct mds_make_input *t);

/* Add ids[n]; kinds may be NULL. */
enum mds_rc mds_make_input_add(struct mds_make_input *t, const int32_t *ids,
                               const unsigned char *kinds, size_t n);
/* Add <eod> and end the document. */
enum mds_rc mds_make_input_end_document(struct mds_make_input *t);

#endif
