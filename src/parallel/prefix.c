/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention of sequences that share a prefix, which is in the row once.  A
 * document whose first position is not 0 goes on behind so many tokens of the last
 * document that begins at 0.
 *
 * Documents are computed one after the other.  Such a one has copies of the keys and
 * values that it shares before its own, so that its sums are those of the whole
 * sequence. */
#include "parallel/attention_shape.h"
#include "tensor/op.h"

/* Tokens first .. first + n - 1 of a row, behind tokens begin .. begin + prefix - 1. */
struct document {
    int64_t row, first, n;
    int64_t begin, prefix;
};

static int64_t key_start(const struct mds_par *p, const struct document *d,
                         int64_t token)
{
    return p->host_key_start[token * p->B + d->row];
}

/* The next one of the row; 0 if there is none. */
static int next_document(const struct mds_par *p, struct document *d)
{
    int64_t end = d->first + d->n, first = end, S = p->ring.n;

    if (first == S)
        return 0;
    while (end < S && key_start(p, d, end) == key_start(p, d, first))
        end++;
    d->first = first;
    d->n = end - first;
    d->prefix = first - p->host_position_start[first * p->B + d->row];
    if (d->prefix == 0)
        d->begin = first;
    return 1;
}

/* x from a token of a sequence on. */
static struct mdsk_heads heads_from(const struct mds_par *p, struct mdsk_heads x,
                                    int64_t row, int64_t token)
{
    x.data = mds_par_at(p, x.data, row * x.batch_stride + token * x.token_stride);
    return x;
}

/* Of n tokens, with their values: to kv [n, 2G D]. */
static enum mds_rc copy_keys(const struct mds_par *p, struct mdsk_heads k, int64_t n,
                             int64_t width, void *kv)
{
    return mds_par_copy_rows(p, n, width, k.data, k.token_stride, kv, width);
}

static enum mds_rc attend(const struct mds_par *p,
                          const struct mdsk_attention_fwd *rows,
                          const struct document *d, void *kv)
{
    const struct mdsk_attention_shape *s = &rows->shape;
    int64_t width = 2 * s->G * s->D;
    struct mdsk_attention_fwd f = {.shape = *s,
                                   .q = heads_from(p, rows->q, d->row, d->first),
                                   .k = heads_from(p, rows->k, d->row, d->first),
                                   .v = heads_from(p, rows->v, d->row, d->first),
                                   .o = heads_from(p, rows->o, d->row, d->first),
                                   .lse = rows->lse + d->row * s->A * s->Sq + d->first,
                                   .lse_stride = s->Sq};

    f.shape.B = 1;
    f.shape.Sq = d->n;
    f.shape.Sk = d->prefix + d->n;
    f.shape.start = f.shape.host_start = NULL;
    f.shape.q_offset = f.shape.first_query = d->prefix;
    if (d->prefix > 0) {
        MDS_TRY(copy_keys(p, heads_from(p, rows->k, d->row, d->begin), d->prefix, width,
                          kv));
        MDS_TRY(copy_keys(p, f.k, d->n, width, mds_par_at(p, kv, d->prefix * width)));
        f.k = f.v = (struct mdsk_heads){kv, width, width, s->D};
        f.v.data = mds_par_at(p, kv, s->G * s->D);
    }
    return mds_op_attention_fwd(p->dev, &f);
}

static enum mds_rc attend_row(const struct mds_par *p,
                              const struct mdsk_attention_fwd *rows, int64_t row,
                              void *kv)
{
    struct document d = {.row = row};

    while (next_document(p, &d))
        MDS_TRY(attend(p, rows, &d, kv));
    return MDS_OK;
}

enum mds_rc mds_prefix_attention_fwd(const struct mds_par *p,
                                     const struct mdsk_attention_fwd *f)
{
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    void *kv = NULL;

    MDS_TRY(
        mds_par_alloc(p, MDS_MEM_WORK, f->shape.Sk * 2 * f->shape.G * f->shape.D, &kv));
    if (!p->host_position_start)
        MDS_TRY(mds_op_attention_fwd(p->dev, f));
    for (int64_t row = 0; p->host_position_start && row < p->B; row++)
        MDS_TRY(attend_row(p, f, row, kv));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
