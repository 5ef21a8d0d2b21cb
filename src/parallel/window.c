/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/window.h"
#include "base/minmax.h"

enum mds_rc mds_window_open(const struct mds_par *p, void *host, int64_t bytes,
                            int64_t piece_bytes, int panes, struct mds_window *out)
{
    int64_t most = mds_min(piece_bytes, bytes);

    *out = (struct mds_window){.dev = p->dev,
                               .host = host,
                               .bytes = bytes,
                               .piece_bytes = piece_bytes,
                               .panes = panes};
    for (int i = 0; i < panes; i++) {
        out->pane[i].piece = -1;
        MDS_TRY(mds_arena_take(p->arena, MDS_MEM_WORK, most, &out->pane[i].data));
    }
    return MDS_OK;
}

/* Bytes of a piece; 0 if there is no such. */
static int64_t size_of(const struct mds_window *w, int64_t piece)
{
    int64_t left = w->bytes - piece * w->piece_bytes;

    if (left < 0)
        return 0;
    return mds_min(left, w->piece_bytes);
}

static void *host_of(const struct mds_window *w, int64_t piece)
{
    return w->host + piece * w->piece_bytes;
}

/* Let what is in a pane leave it. */
static void leave(struct mds_window *w, struct mds_pane *p)
{
    mds_dev_meet(w->dev, p->in);
    mds_dev_meet(w->dev, p->out);
    *p = (struct mds_pane){.data = p->data, .piece = -1};
}

/* The pane with a piece, or -1. */
static int pane_of(const struct mds_window *w, int64_t piece)
{
    for (int i = 0; i < w->panes; i++)
        if (w->pane[i].piece == piece)
            return i;
    return -1;
}

static int after(const struct mds_window *w)
{
    return (w->now + 1) % w->panes;
}

void mds_window_bring(struct mds_window *w, int64_t piece)
{
    struct mds_pane *p = &w->pane[after(w)];
    int64_t bytes = size_of(w, piece);

    if (bytes == 0 || pane_of(w, piece) >= 0)
        return;
    leave(w, p);
    p->piece = piece;
    p->in = mds_dev_restore_start(w->dev, p->data, host_of(w, piece), bytes);
}

void *mds_window_get(struct mds_window *w, int64_t piece)
{
    mds_window_bring(w, piece);
    w->now = pane_of(w, piece);
    mds_dev_meet(w->dev, w->pane[w->now].in);
    mds_dev_meet(w->dev, w->pane[w->now].out); /* it may be changed */
    return w->pane[w->now].data;
}

void *mds_window_fill(struct mds_window *w, int64_t piece)
{
    w->now = after(w);
    leave(w, &w->pane[w->now]);
    w->pane[w->now].piece = piece;
    return w->pane[w->now].data;
}

void mds_window_put(struct mds_window *w)
{
    struct mds_pane *p = &w->pane[w->now];

    p->out =
        mds_dev_save_start(w->dev, host_of(w, p->piece), p->data, size_of(w, p->piece));
}

void mds_window_close(struct mds_window *w)
{
    for (int i = 0; i < w->panes; i++)
        leave(w, &w->pane[i]);
}
