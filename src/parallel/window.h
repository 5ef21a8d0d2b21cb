/* A long buffer in host memory, seen in pieces through panes on the device: one to work
 * on while another's piece comes or goes; of three, while one comes and one goes. */
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
    struct mds_pane pane[3];
    int panes;
    int now; /* the pane that was asked for last */
};

/* 2 or 3 panes are working memory of p. */
enum mds_rc mds_window_open(const struct mds_par *p, void *host, int64_t bytes,
                            int64_t piece_bytes, int panes, struct mds_window *out);

/* Begin to bring a piece to the pane that has been out of use for longest; nothing if
 * it is in one, or lies behind the last.  What is still on its way from that pane is
 * met first: of two panes, what was put just now. */
void mds_window_bring(struct mds_window *w, int64_t piece);

/* The pane with the piece, brought now if it was not before. */
void *mds_window_get(struct mds_window *w, int64_t piece);

/* A pane to fill with a piece; and what was filled, or changed, goes to the host. */
void *mds_window_fill(struct mds_window *w, int64_t piece);
void mds_window_put(struct mds_window *w);

/* What is queued from here on finds the host's side complete. */
void mds_window_close(struct mds_window *w);

#endif
