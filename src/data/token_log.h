/* SPDX-License-Identifier: BSD-3-Clause */
/* The tokens of one input, kept in an unnamed temporary file until it is their turn:
 * inputs are read by several threads, and written in order. */
#ifndef MDS_DATA_TOKEN_LOG_H
#define MDS_DATA_TOKEN_LOG_H

#include "data/make_input.h"
#include "data/record_file.h"

struct mds_token_log {
    struct mds_record_file file;
    unsigned char *buffer; /* what is not yet in the file */
    size_t buffered;
    int id_bytes; /* of an id as kept here */
};

/* Create the file in the folder of `near`. */
enum mds_rc mds_token_log_init(const char *near, const struct mds_vocabulary *v,
                               struct mds_token_log *log);
void mds_token_log_fini(struct mds_token_log *log);

/* As a sink; `to` is the log. */
enum mds_rc mds_token_log_add(void *to, const int32_t *ids, const unsigned char *kinds,
                              size_t n);
enum mds_rc mds_token_log_end_document(void *to);

/* No more tokens: write what is buffered, and free the buffer. */
enum mds_rc mds_token_log_close(struct mds_token_log *log);

/* Give all tokens of a closed log to a sink, in order. */
enum mds_rc mds_token_log_replay(const struct mds_token_log *log,
                                 const struct mds_token_sink *sink);

#endif
