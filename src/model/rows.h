/* Whole buffers of attention, as tiles see them: rows on the device, the same through a
 * window on the host, or heads that travel to and from the ranks of a Ulysses group.
 * For model/ alone. */
#ifndef MDS_MODEL_ROWS_H
#define MDS_MODEL_ROWS_H

#include "model/parts.h"

/* Whether heads travel between ranks of a Ulysses group. */
int mds_gpt_travels(const struct mds_gpt *g);

/* As mds_gpt_tile_at; where whole buffers are not rows on the device, `place` and
 * `stride` are those of the tile's own buffers. */
int mds_gpt_next_tile(const struct mds_gpt *g, const struct tiled_room *w, int64_t at,
                      struct tile *t);

/* Attention's result or its gradient. */
struct view {
    const struct mds_gpt *g;
    struct mds_attention a;
    void *whole; /* on the device; NULL: on the host, seen through `window` */
    void *tile;  /* if heads travel: rows of the tile under way; else NULL */
    struct mds_window window;
    int64_t row_bytes;
};

/* Of `whole`, or if that is NULL of on_host; both borrowed.  Takes working memory for
 * the rows of a tile. */
enum mds_rc mds_gpt_view_open(const struct mds_gpt *g, const struct layer_ids *id,
                              void *whole, void *on_host, struct view *v);
void mds_gpt_view_close(struct view *v);

/* *rows: the tile's rows, to be read; the next tile's begin to be copied. */
enum mds_rc mds_gpt_view_get(struct view *v, const struct tile *t, const void **rows);

/* Where the tile's rows are to be written; put, when they have been. */
void *mds_gpt_view_fill(struct view *v, const struct tile *t);
enum mds_rc mds_gpt_view_put(struct view *v, const struct tile *t);

/* The same of q, k, v or their gradients, where these are not rows on the device:
 * `rows` are the tile's, [rows, width], written before put and read after get. */
struct passage {
    struct mds_attention a;
    void *rows; /* [tile, (A+2G) D] */
    struct mds_chunked_rows chunked;
};

enum mds_rc mds_gpt_passage_open(const struct mds_gpt *g, const struct layer_ids *id,
                                 const struct tiled_room *w, struct passage *v);
enum mds_rc mds_gpt_passage_put(const struct mds_gpt *g, const struct tiled_room *w,
                                struct passage *v, const struct tile *t, int64_t width);
enum mds_rc mds_gpt_passage_get(const struct mds_gpt *g, const struct tiled_room *w,
                                struct passage *v, const struct tile *t, int64_t width);
void mds_gpt_passage_close(const struct tiled_room *w, struct passage *v);

#endif
