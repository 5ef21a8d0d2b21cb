#include "model/rows.h"

int mds_gpt_travels(const struct mds_gpt *g)
{
    return g->groups->ulysses_size > 1;
}

/* Tokens of a part of a tile, among those that this rank has in products. */
static struct mds_stretch stretch_of(const struct tile *t, int part)
{
    int64_t B = t->g.par.B;

    return (struct mds_stretch){(part * t->slice_rows + t->row) / B, t->rows / B};
}

int mds_gpt_next_tile(const struct mds_gpt *g, const struct tiled_room *w, int64_t at,
                      struct tile *t)
{
    int more = mds_gpt_tile_at(g, at, t);

    if (w->chunked.chunk > 0 || mds_gpt_travels(g)) {
        t->place = 0;
        t->stride = t->rows;
    }
    return more;
}

enum mds_rc mds_gpt_view_open(const struct mds_gpt *g, const struct layer_ids *id,
                              void *whole, void *on_host, struct view *v)
{
    struct tile t;

    *v =
        (struct view){.g = g,
                      .a = mds_gpt_attention(g, id),
                      .whole = whole,
                      .row_bytes = id->out.in * (int64_t)mdsk_dtype_size(g->par.dtype)};
    mds_gpt_tile_at(g, 0, &t);
    if (!whole)
        return mds_window_open(&g->par, on_host, mds_par_rows(&g->par) * v->row_bytes,
                               t.rows * v->row_bytes, 2, &v->window);
    return mds_gpt_travels(g)
               ? mds_gpt_take(g, MDS_MEM_WORK, t.parts * t.rows * id->out.in, &v->tile)
               : MDS_OK;
}

static int64_t piece_of(const struct view *v, const struct tile *t)
{
    return t->row * v->row_bytes / v->window.piece_bytes;
}

static void *part_of(const struct view *v, const struct tile *t, int part)
{
    return (char *)v->tile + part * t->rows * v->row_bytes;
}

enum mds_rc mds_gpt_view_get(struct view *v, const struct tile *t, const void **rows)
{
    *rows = v->whole;
    if (!v->whole) {
        *rows = mds_window_get(&v->window, piece_of(v, t));
        mds_window_bring(&v->window, piece_of(v, t) + 1);
    }
    if (!v->tile)
        return MDS_OK;
    *rows = v->tile;
    for (int i = 0; i < t->parts; i++)
        MDS_TRY(mds_attention_get_o(&v->g->par, &v->a, stretch_of(t, i), v->whole,
                                    part_of(v, t, i)));
    return MDS_OK;
}

void *mds_gpt_view_fill(struct view *v, const struct tile *t)
{
    if (v->tile)
        return v->tile;
    return v->whole ? v->whole : mds_window_fill(&v->window, piece_of(v, t));
}

enum mds_rc mds_gpt_view_put(struct view *v, const struct tile *t)
{
    if (!v->whole)
        mds_window_put(&v->window);
    for (int i = 0; v->tile && i < t->parts; i++)
        MDS_TRY(mds_attention_put_o(&v->g->par, &v->a, stretch_of(t, i),
                                    part_of(v, t, i), v->whole));
    return MDS_OK;
}

void mds_gpt_view_close(struct view *v)
{
    if (!v->whole)
        mds_window_close(&v->window);
}

enum mds_rc mds_gpt_passage_open(const struct mds_gpt *g, const struct layer_ids *id,
                                 const struct tiled_room *w, struct passage *v)
{
    struct tile t;

    v->a = mds_gpt_attention(g, id);
    mds_gpt_tile_at(g, 0, &t);
    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, t.parts * t.rows * id->qkv.out, &v->rows));
    return w->chunked.chunk > 0
               ? mds_chunked_open(&g->par, &v->a, &w->chunked, t.rows, &v->chunked)
               : MDS_OK;
}

enum mds_rc mds_gpt_passage_put(const struct mds_gpt *g, const struct tiled_room *w,
                                struct passage *v, const struct tile *t, int64_t width)
{
    if (w->chunked.chunk > 0)
        return mds_chunked_put(&t->g.par, &v->a, &v->chunked, t->row, v->rows);
    for (int i = 0; i < t->parts; i++)
        MDS_TRY(mds_attention_put_qkv(&g->par, &v->a, stretch_of(t, i),
                                      mds_par_at(&g->par, v->rows, i * t->rows * width),
                                      w->qkv));
    return MDS_OK;
}

enum mds_rc mds_gpt_passage_get(const struct mds_gpt *g, const struct tiled_room *w,
                                struct passage *v, const struct tile *t, int64_t width)
{
    if (w->chunked.chunk > 0)
        return mds_chunked_get(&t->g.par, &v->a, &v->chunked, t->row, v->rows);
    for (int i = 0; i < t->parts; i++)
        MDS_TRY(
            mds_attention_get_qkv(&g->par, &v->a, stretch_of(t, i), w->dqkv,
                                  mds_par_at(&g->par, v->rows, i * t->rows * width)));
    return MDS_OK;
}

void mds_gpt_passage_close(const struct tiled_room *w, struct passage *v)
{
    if (w->chunked.chunk > 0)
        mds_chunked_close(&v->chunked);
}
