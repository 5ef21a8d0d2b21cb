/* Whole buffers of attention, as tiles see them: rows on the device, the same through a
 * window on the host, or heads that travel to and from the ranks of a Ulysses group.
 * For model/ alone. */
#ifndef MDS_MODEL_ROWS_H
#define MDS_MODEL_ROWS_H

#include "model/parts.h"

/* Whether heads travel. */
int mds_gpt_travels(const struct mds_gpt *g);

/* The tile from token `at` on; 0 behind the last.  Where whole buffers are not rows on
 * the device, it has rows of its own. */
int mds_gpt_next_tile(const struct mds_gpt *g, const struct tiled_room *w, int64_t at,
                      struct tile *t);

/* Attention's result or its gradient. */
struct view {
    const struct mds_gpt *g;
    struct mds_attention a;
    void *whole; /* NULL: a window */
    void *tile;  /* rows, if heads travel */
    struct mds_window far;
    int64_t row_bytes;
};

/* whole NULL: on_host.  Rows of tiles are working memory. */
enum mds_rc mds_gpt_view_open(const struct mds_gpt *g, const struct layer_ids *id,
                              void *whole, void *on_host, struct view *v);
void mds_gpt_view_close(struct view *v);

/* What a tile reads; of a window, the next one is on its way. */
enum mds_rc mds_gpt_view_get(struct view *v, const struct tile *t, const void **rows);

/* Where a tile writes; and it has. */
void *mds_gpt_view_fill(struct view *v, const struct tile *t);
enum mds_rc mds_gpt_view_put(struct view *v, const struct tile *t);

/* q, k, v or their gradients, where they are not rows on the device: a tile's rows on
 * their way.  width: of a row. */
struct passage {
    struct mds_attention a;
    void *rows; /* [tile, (A+2G) D] */
    struct mds_far_rows far;
};

enum mds_rc mds_gpt_passage_open(const struct mds_gpt *g, const struct layer_ids *id,
                                 const struct tiled_room *w, struct passage *v);
enum mds_rc mds_gpt_passage_put(const struct mds_gpt *g, const struct tiled_room *w,
                                struct passage *v, const struct tile *t, int64_t width);
enum mds_rc mds_gpt_passage_get(const struct mds_gpt *g, const struct tiled_room *w,
                                struct passage *v, const struct tile *t, int64_t width);
void mds_gpt_passage_close(const struct tiled_room *w, struct passage *v);

#endif
