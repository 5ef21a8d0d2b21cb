/* SPDX-License-Identifier: BSD-3-Clause */
/* A buffer in host memory of which a few pieces at a time are on the device, in panes:
 * while the piece of one pane is worked on another is copied in or out; with three
 * panes one is copied in and one out. */
#ifndef MDS_PARALLEL_WINDOW_H
#define MDS_PARALLEL_WINDOW_H

#include "parallel/par.h"

struct mds_pane {
    void *data;
    int64_t piece;                  /* whose copy it has; -1: none's */
    struct mds_dev_copying in, out; /* copies under way */
};

struct mds_window {
    struct mds_dev *dev; /* borrowed */
    char *host;          /* borrowed */
    int64_t bytes;       /* in all */
    int64_t piece_bytes; /* of each piece; the last may be shorter */
    struct mds_pane pane[3];
    int panes;
    int now; /* the pane that was asked for last */
};

/* host [bytes] is borrowed; 2 or 3 panes are taken from p's arena. */
enum mds_rc mds_window_open(const struct mds_par *p, void *host, int64_t bytes,
                            int64_t piece_bytes, int panes, struct mds_window *out);

/* Begin to copy a piece into the pane after the one asked for last, once that pane's
 * own copies are done.  Nothing to do if the piece is in a pane already, or there is no
 * such piece. */
void mds_window_bring(struct mds_window *w, int64_t piece);

/* The pane with the piece, brought now if it was not before; it may be changed.  What
 * is queued on the device next comes after the copy. */
void *mds_window_get(struct mds_window *w, int64_t piece);

/* A pane to write a piece into.  put: begin to copy the pane of the last get or fill to
 * the host. */
void *mds_window_fill(struct mds_window *w, int64_t piece);
void mds_window_put(struct mds_window *w);

/* Wait for all copies: what is queued on the device next finds the host's side
 * complete. */
void mds_window_close(struct mds_window *w);

#endif
