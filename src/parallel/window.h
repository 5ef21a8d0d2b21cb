/* A long buffer in host memory, seen in pieces through two panes on the device: one to
 * work on while the other's piece comes or goes. */
#ifndef MDS_PARALLEL_WINDOW_H
#define MDS_PARALLEL_WINDOW_H

#include "parallel/par.h"

struct mds_pane {
    void *data;
    int64_t piece;                  /* what is in it, -1: nothing */
    struct mds_dev_copying in, out; /* under way */
};

struct mds_window {
    struct mds_dev *dev; /* borrowed */
    char *host;          /* borrowed */
    int64_t bytes;       /* in all */
    int64_t piece_bytes; /* of each piece; the last may be shorter */
    struct mds_pane pane[2];
    int now; /* the pane that was asked for last */
};

/* Panes are working memory of p. */
enum mds_rc mds_window_open(const struct mds_par *p, void *host, int64_t bytes,
                            int64_t piece_bytes, struct mds_window *out);

/* Begin to bring a piece to the pane that is not in use; nothing if it is in one, or
 * lies behind the last.  What was written of it before is met first. */
void mds_window_bring(struct mds_window *w, int64_t piece);

/* The pane with the piece, brought now if it was not before. */
void *mds_window_get(struct mds_window *w, int64_t piece);

/* A pane to fill with a piece; and what was filled, or changed, goes to the host. */
void *mds_window_fill(struct mds_window *w, int64_t piece);
void mds_window_put(struct mds_window *w);

/* What is queued from here on finds the host's side complete. */
void mds_window_close(struct mds_window *w);

#endif
