/* SPDX-License-Identifier: BSD-3-Clause */
/* Output that never waits for its reader, who may be a pager, a stopped pipeline or a
 * terminal after Ctrl-S: a log must not hold up a step. */
#ifndef MDS_BASE_STREAM_H
#define MDS_BASE_STREAM_H

#include <stddef.h>

/* A descriptor, and what it did not take yet.  Zero-initialise but for fd. */
struct mds_stream {
    int fd;
    char *kept; /* allocated at need, and kept */
    size_t from, n;
    long left_out; /* lines */
    int says_so;   /* what is kept has a line about them */
};

/* Write what the descriptor takes now.  Keep the rest, up to 256 KiB; a later call
 * writes it (text may be NULL, of 0 bytes).  Of more, the oldest lines are left out,
 * and a line says so in their place.  0, or -1 with errno if the descriptor cannot be
 * written at all. */
int mds_stream_write(struct mds_stream *s, const char *text, size_t n);

/* Wait so long for what is kept to be written.  0, or -1 as above. */
int mds_stream_drain(struct mds_stream *s, double limit_s);

/* From now on, standard output (also by stdio) and the log are such streams. */
void mds_streams_never_wait(void);

/* Write to standard error: the log. */
int mds_stream_log(const char *text, size_t n);

/* Before the program ends: wait a little for both. */
int mds_streams_drain(void);

#endif
