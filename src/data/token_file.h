/* SPDX-License-Identifier: BSD-3-Clause */
/* The HDF5 token file that mds_data writes:
 *
 *   /tokens        uint8 or uint16 (the smaller one that holds the vocabulary)
 *   /documents     int64: where each document starts, then the number of tokens
 *   /vocab         UTF-8 strings: the word of each id; not with tokenizer ids
 *   /inputs/path, /inputs/sha256 (strings), /inputs/bytes (int64): one each per input;
 *                  sum and size of the stored file (a .gz as it is)
 *   /kinds/...     data/kinds.h; only if tokens have kinds
 *   attributes     format "mds-tokens", format_version (1, or 2 with kinds), tokenizer,
 *                  vocab_size, eod, options, command, created, program
 *
 * Words and inputs are data sets because attributes are limited to 64 KiB. */
#ifndef MDS_DATA_TOKEN_FILE_H
#define MDS_DATA_TOKEN_FILE_H

#include "base/status.h"
#include "data/kinds.h"
#include "data/tokenizer.h"

#include <stdint.h>

#define MDS_TOKEN_FORMAT "mds-tokens"
/* Programs that do not know kinds must not train on such a file. */
enum { MDS_TOKEN_FORMAT_PLAIN = 1, MDS_TOKEN_FORMAT_KINDS = 2 };

struct mds_token_file;

/* Create the file as path.partial; finish renames it.  Fails at once if the place is
 * not writable. */
enum mds_rc mds_token_file_create(const char *path, const struct mds_vocabulary *v,
                                  struct mds_token_file **out);

/* Give all tokens kinds, those added so far kind 0. */
enum mds_rc mds_token_file_set_kinds(struct mds_token_file *f,
                                     const struct mds_kind *kinds, int n);

/* Add tokens, in a file with kinds of kind 0. */
enum mds_rc mds_token_file_add(struct mds_token_file *f, const int32_t *ids, size_t n);
/* Add tokens of these kinds[n]. */
enum mds_rc mds_token_file_add_kinds(struct mds_token_file *f, const int32_t *ids,
                                     const unsigned char *kinds, size_t n);
/* End a document, whose last id was <eod>. */
enum mds_rc mds_token_file_ended_document(struct mds_token_file *f);
/* Record an input; sha256 is 64 hex digits. */
enum mds_rc mds_token_file_input(struct mds_token_file *f, const char *path,
                                 int64_t bytes, const char *sha256);

int64_t mds_token_file_tokens(const struct mds_token_file *f);
int64_t mds_token_file_documents(const struct mds_token_file *f);

/* Write the buffered tokens, vocabulary, inputs and attributes, and rename the file.
 * Frees f in any case. */
enum mds_rc mds_token_file_finish(struct mds_token_file *f, const char *options,
                                  const char *command);
/* Remove the partial file and free f; NULL is fine. */
void mds_token_file_abandon(struct mds_token_file *f);

#endif
