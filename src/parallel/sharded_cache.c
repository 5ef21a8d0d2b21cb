/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention over a cache of keys and values that ranks share, block by block in turn:
 * every rank lets all new queries attend to the keys that it has, and partial results
 * are merged in the order of ranks.
 *
 * Of many new tokens each rank has a part in GEMMs: then q, k and v are gathered
 * before, and each rank gets the partial results of its own tokens.  Of a few each rank
 * has all, and gathers partial results.  A query's blocks are always the same, so its
 * result does not depend on the tokens that are new with it.
 *
 * A cache in host memory, also of one rank, is read a block at a time: while the device
 * attends to one, the next is copied. */
#include "base/minmax.h"
#include "parallel/attention_shape.h"
#include "tensor/op.h"

/* Each rank's cache has so many.  With more of them ranks have like work sooner; with
 * fewer there are fewer calls. */
enum { BLOCKS = 8 };

int64_t mds_kv_cache_block(const struct mds_groups *g, int64_t S)
{
    int64_t blocks = BLOCKS * (int64_t)mds_groups_size(g, MDS_AXES_SEQUENCE);

    return mds_ceil_div(S, blocks);
}

int64_t mds_kv_cache_tokens(const struct mds_groups *g, int64_t S)
{
    return mds_groups_size(g, MDS_AXES_SEQUENCE) == 1
               ? S
               : BLOCKS * mds_kv_cache_block(g, S);
}

/* A call of mds_sharded_cache_fwd. */
struct pass {
    const struct mds_par *p;
    const struct mds_attention *a;
    const struct mds_kv_cache *cache;
    struct mds_comm *ranks;
    int64_t end;    /* of the new tokens of all ranks, from cache->first on */
    int64_t n, own; /* new tokens; those of this rank in GEMMs */
    int64_t row, kv_row, o_row;
    const void *qkv; /* [n, B, row] */
    float *o, *lse;  /* [n, B, o_row], [B, A, n]: of the blocks so far */
    void *block_o;   /* of one block */
    float *block_lse;
    /* of a cache on the host */
    void *packed;                  /* new keys and values, [n, B, kv_row] */
    void *staged[2];               /* blocks on the device, which take turns */
    struct mds_dev_async_copy put; /* of new keys and values to the host */
};

/* A block of this rank: tokens first .. end - 1, from token `here` of its cache on. */
struct block {
    int64_t number, first, end, here;
    const void *kv; /* on the device: [tokens, B, kv_row], from token `first` on */
    struct mds_dev_async_copy copy; /* to there */
};

static int get_block(const struct pass *s, int64_t i, struct block *b)
{
    int64_t size = s->cache->block, ranks = mds_comm_size(s->ranks);

    b->number = i;
    b->here = i * size;
    b->first = (i * ranks + mds_comm_rank(s->ranks)) * size;
    b->end = mds_min(b->first + size, s->end);
    return b->first < s->end;
}

/* ---- new rows ---- */

static enum mds_rc gather_rows(struct pass *s, const void *qkv)
{
    int64_t elements = s->own * s->p->B * s->row;
    void *all = NULL;

    s->qkv = qkv;
    if (s->own == s->n)
        return MDS_OK;
    MDS_TRY(mds_par_alloc(s->p, MDS_MEM_COMM, s->n * s->p->B * s->row, &all));
    s->qkv = all;
    return mds_comm_all_gather(s->ranks, qkv, all,
                               elements * (int64_t)mdsk_dtype_size(s->p->dtype));
}

/* Keys and values of R rows, from `row` on. */
static enum mds_rc copy_new(const struct pass *s, int64_t R, int64_t row, void *to)
{
    return mds_par_copy_rows(s->p, R, s->kv_row,
                             mds_par_at(s->p, s->qkv, row * s->row + s->o_row), s->row,
                             to, s->kv_row);
}

/* Without the queries first, so that one copy goes to the host. */
static enum mds_rc put_new(struct pass *s, int64_t R, int64_t row, void *to_host)
{
    int64_t elements = R * s->kv_row;
    void *packed = mds_par_at(s->p, s->packed, row * s->kv_row);

    MDS_TRY(copy_new(s, R, row, packed));
    s->put = mds_dev_offload_start(s->p->dev, to_host, packed,
                                   elements * (int64_t)mdsk_dtype_size(s->p->dtype));
    return MDS_OK;
}

static enum mds_rc append(struct pass *s)
{
    const struct mds_par *p = s->p;
    struct block b;

    for (int64_t i = 0; get_block(s, i, &b); i++) {
        int64_t from = mds_max(b.first, s->cache->first);
        int64_t row = (from - s->cache->first) * p->B, R = (b.end - from) * p->B;
        int64_t at = (b.here + from - b.first) * p->B * s->kv_row;
        void *to = mds_par_at(p, s->cache->kv, at);

        if (from < b.end)
            MDS_TRY(s->cache->on_host ? put_new(s, R, row, to)
                                      : copy_new(s, R, row, to));
    }
    return MDS_OK;
}

/* ---- this rank's keys ---- */

/* Of new queries from token `from` on, and keys in kv, of tokens first ... */
static struct mdsk_attention_fwd attention_of(const struct pass *s, int64_t from,
                                              int64_t first, int64_t keys,
                                              const void *kv)
{
    const struct mds_par *p = s->p;
    const struct mds_attention *a = s->a;
    int64_t at = from - s->cache->first;
    struct mdsk_attention_fwd f = {
        .shape = attention_shape(p, a, s->n - at, keys),
        .q = attention_heads(p, s->qkv, s->row, at, 0, a->D),
        .k = attention_heads(p, kv, s->kv_row, 0, 0, a->D),
        .v = attention_heads(p, kv, s->kv_row, 0, a->G, a->D),
        .o = attention_heads(p, s->block_o, s->o_row, at, 0, a->D),
        .lse = s->block_lse + at,
        .lse_stride = s->n};

    f.shape.A = a->A;
    f.shape.G = a->G;
    f.shape.first_head = a->first_head;
    f.shape.q_offset = from - first;
    f.shape.first_query = from;
    f.shape.first_key = first;
    return f;
}

/* No keys so far: a key that no query sees, whatever it is, makes o 0 and lse -inf. */
static enum mds_rc begin(struct pass *s)
{
    struct mdsk_attention_fwd f =
        attention_of(s, s->cache->first, s->cache->first, 1, s->qkv);

    mds_dev_zero(s->p->dev, s->o, s->n * s->p->B * s->o_row * (int64_t)sizeof *s->o);
    f.shape.window = f.shape.q_offset = 1;
    f.lse = s->lse;
    return mds_op_attention_fwd(s->p->dev, &f);
}

static struct mdsk_heads f32_heads(const struct pass *s, float *o, int64_t token)
{
    struct mdsk_heads h = attention_heads(s->p, NULL, s->o_row, 0, 0, s->a->D);

    h.data = o + token * s->p->B * s->o_row;
    return h;
}

static enum mds_rc merge_block(const struct pass *s, const struct mdsk_attention_fwd *f)
{
    int64_t at = f->shape.first_query - s->cache->first;
    struct mdsk_attention_merge m = {.B = s->p->B,
                                     .A = s->a->A,
                                     .Sq = f->shape.Sq,
                                     .D = s->a->D,
                                     .dtype = s->p->dtype,
                                     .acc = f32_heads(s, s->o, at),
                                     .o2 = f->o,
                                     .lse = s->lse + at,
                                     .lse2 = f->lse,
                                     .lse_stride = s->n,
                                     .lse2_stride = s->n};

    return mds_op_attention_merge(s->p->dev, &m);
}

/* Whether the window hides it from all new queries: then those before it, too. */
static int is_hidden(const struct pass *s, const struct block *b)
{
    int64_t from = mds_max(b->first, s->cache->first);

    return s->a->window > 0 && b->end <= from - s->a->window + 1;
}

/* Start copying it from the host, behind what is new there. */
static void fetch(const struct pass *s, struct block *b)
{
    int64_t elements = (b->end - b->first) * s->p->B * s->kv_row;
    const void *kv = mds_par_at(s->p, s->cache->kv, b->here * s->p->B * s->kv_row);

    b->kv = kv;
    if (!s->cache->on_host)
        return;
    if (b->end > s->cache->first)
        mds_dev_wait_copy(s->p->dev, s->put);
    b->kv = s->staged[b->number % 2];
    b->copy = mds_dev_reload_start(s->p->dev, s->staged[b->number % 2], kv,
                                   elements * (int64_t)mdsk_dtype_size(s->p->dtype));
}

static enum mds_rc attend(const struct pass *s)
{
    struct block b = {0}, next = {0};
    int64_t i = 0;
    int more;

    while ((more = get_block(s, i, &b)) && is_hidden(s, &b))
        i++;
    if (more)
        fetch(s, &b);
    for (; more; b = next) {
        int64_t from = mds_max(b.first, s->cache->first);
        struct mdsk_attention_fwd f =
            attention_of(s, from, b.first, b.end - b.first, b.kv);

        mds_dev_wait_copy(s->p->dev, b.copy);
        more = get_block(s, b.number + 1, &next);
        if (more)
            fetch(s, &next);
        MDS_TRY(mds_op_attention_fwd(s->p->dev, &f));
        MDS_TRY(merge_block(s, &f));
    }
    return MDS_OK;
}

/* ---- all ranks' results ---- */

/* *out [ranks, bytes]: of this rank's tokens the part of every rank, from x. */
static enum mds_rc collect(const struct pass *s, const void *x, int64_t bytes,
                           void **out)
{
    int64_t ranks = mds_comm_size(s->ranks);

    *out = (void *)x;
    if (ranks == 1)
        return MDS_OK;
    MDS_TRY(mds_arena_alloc(s->p->arena, MDS_MEM_COMM, ranks * bytes, out));
    return s->own == s->n ? mds_comm_all_gather(s->ranks, x, *out, bytes)
                          : mds_comm_all_to_all(s->ranks, x, *out, bytes);
}

/* lse [B, A, n] as [parts, B, A, own]. */
static enum mds_rc lse_by_parts(const struct pass *s, float **out)
{
    int64_t heads = s->p->B * s->a->A;

    *out = s->lse;
    if (s->own == s->n)
        return MDS_OK;
    MDS_TRY(mds_par_alloc_f32(s->p, MDS_MEM_COMM, heads * s->n, out));
    for (int64_t part = 0; part < s->n / s->own; part++) {
        struct mdsk_copy_rows c = {.R = heads,
                                   .C = s->own,
                                   .ldx = s->n,
                                   .ldy = s->own,
                                   .dtype = MDSK_F32,
                                   .x = s->lse + part * s->own,
                                   .y = *out + part * heads * s->own};

        MDS_TRY(mds_op_copy_rows(s->p->dev, &c));
    }
    return MDS_OK;
}

static enum mds_rc merge_ranks(const struct pass *s, void *out)
{
    int64_t heads = s->p->B * s->a->A * s->own, elements = heads * s->a->D;
    void *o = NULL, *lse = NULL;
    float *own_lse = NULL;
    struct mdsk_cast store = {
        .n = elements, .from = MDSK_F32, .to = s->p->dtype, .y = out};

    MDS_TRY(lse_by_parts(s, &own_lse));
    MDS_TRY(collect(s, s->o, elements * (int64_t)sizeof *s->o, &o));
    MDS_TRY(collect(s, own_lse, heads * (int64_t)sizeof *s->lse, &lse));
    for (int64_t i = 1; i < mds_comm_size(s->ranks); i++) {
        struct mdsk_attention_merge m = {.B = s->p->B,
                                         .A = s->a->A,
                                         .Sq = s->own,
                                         .D = s->a->D,
                                         .dtype = MDSK_F32,
                                         .acc = f32_heads(s, o, 0),
                                         .o2 =
                                             f32_heads(s, (float *)o + i * elements, 0),
                                         .lse = lse,
                                         .lse2 = (float *)lse + i * heads};

        MDS_TRY(mds_op_attention_merge(s->p->dev, &m));
    }
    store.x = o;
    return mds_op_cast(s->p->dev, &store);
}

static enum mds_rc alloc_results(struct pass *s)
{
    int64_t heads = s->p->B * s->a->A * s->n, elements = heads * s->a->D;

    MDS_TRY(mds_par_alloc_f32(s->p, MDS_MEM_WORK, elements, &s->o));
    MDS_TRY(mds_par_alloc_f32(s->p, MDS_MEM_WORK, heads, &s->lse));
    MDS_TRY(mds_par_alloc(s->p, MDS_MEM_WORK, elements, &s->block_o));
    return mds_par_alloc_f32(s->p, MDS_MEM_WORK, heads, &s->block_lse);
}

static enum mds_rc alloc_staging(struct pass *s)
{
    int64_t elements = s->p->B * s->kv_row;

    if (!s->cache->on_host)
        return MDS_OK;
    MDS_TRY(mds_par_alloc(s->p, MDS_MEM_WORK, s->n * elements, &s->packed));
    for (int i = 0; i < 2; i++)
        MDS_TRY(mds_par_alloc(s->p, MDS_MEM_WORK, s->cache->block * elements,
                              &s->staged[i]));
    return MDS_OK;
}

enum mds_rc mds_sharded_cache_fwd(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  const struct mds_kv_cache *cache, const void *qkv,
                                  void *o)
{
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    struct pass s = {.p = p,
                     .a = a,
                     .cache = cache,
                     .ranks = mds_group(p->groups, MDS_AXES_SEQUENCE),
                     .end = cache->first + p->ring.n,
                     .n = p->ring.n,
                     .own = p->tokens.n,
                     .row = (a->A + 2 * a->G) * a->D,
                     .kv_row = 2 * a->G * a->D,
                     .o_row = a->A * a->D};

    MDS_TRY(gather_rows(&s, qkv));
    MDS_TRY(alloc_staging(&s));
    MDS_TRY(append(&s));
    MDS_TRY(alloc_results(&s));
    MDS_TRY(begin(&s));
    MDS_TRY(attend(&s));
    MDS_TRY(merge_ranks(&s, o));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}
