/* Buffers of a step: what each micro-batch in flight keeps, and what layers share. */
#include "base/alloc.h"
#include "model/parts.h"
#include "tensor/op.h"

#include <string.h>

/* What to take: a place for the address, how many elements, and whether they are f32
 * whatever the type of activations. */
struct want {
    void **where;
    int64_t elements;
    int f32;
};

enum mds_rc mds_gpt_take(const struct mds_gpt *g, enum mds_mem_tag tag,
                         int64_t elements, void **out)
{
    return mds_par_take(&g->par, tag, elements, out);
}

enum mds_rc mds_gpt_lend(const struct mds_gpt *g, int64_t elements, void **buffer)
{
    return *buffer ? MDS_OK : mds_gpt_take(g, MDS_MEM_WORK, elements, buffer);
}

static enum mds_rc take_all(const struct mds_gpt *g, enum mds_mem_tag tag,
                            const struct want *w, int n)
{
    for (int i = 0; i < n; i++) {
        float *f = NULL;

        if (!w[i].f32) {
            MDS_TRY(mds_gpt_take(g, tag, w[i].elements, w[i].where));
            continue;
        }
        MDS_TRY(mds_par_take_f32(&g->par, tag, w[i].elements, &f));
        *w[i].where = f;
    }
    return MDS_OK;
}

/* f32 members of struct layer_saved are taken through pointers to void. */
struct stats {
    void *mean1, *rstd1, *lse, *mean2, *rstd2;
};

/* Every buffer of one layer, but for what its backward makes again; what can be made
 * again of others comes behind them. */
static enum mds_rc take_layer(const struct mds_gpt *g, enum mds_mem_tag tag,
                              struct layer_saved *s)
{
    const struct mds_model_config *c = &g->cfg;
    int tp = mds_comm_size(g->groups->tp);
    int64_t R = mds_par_rows(&g->par), Rs = mds_par_slice_rows(&g->par), H = c->hidden;
    int64_t A = c->heads / tp, G = c->kv_heads / tp, F = c->ffn_hidden / tp;
    const struct mds_train_config *t = g->run.train;
    int again = t->recompute == MDS_RECOMPUTE_SELECTIVE ? t->recompute_modules : 0;
    int64_t used = g->run.arena->used;
    struct stats f = {0};
    const struct want all[] = {
        {&s->x, Rs * H, 0},
        {&f.mean1, Rs, 1},
        {&f.rstd1, Rs, 1},
        {&s->qkv, R * (A + 2 * G) * c->head_dim, 0},
        {&s->o, R * A * c->head_dim, 0},
        {&f.lse, R * A, 1},
        {&s->x1, Rs * H, 0},
        {&f.mean2, Rs, 1},
        {&f.rstd2, Rs, 1},
    };
    const struct want norms[] = {{&s->n1, Rs * H, 0}, {&s->n2, Rs * H, 0}};
    const struct want inside = {&s->u, c->swiglu ? 2 * R * F : R * F, 0};
    const struct want act = {&s->g, R * F, 0};

    MDS_TRY(take_all(g, tag, all, sizeof all / sizeof all[0]));
    if (t->mlp_tile <= 0)
        MDS_TRY(take_all(g, tag, &inside, 1));
    s->bytes = g->run.arena->used - used;
    if (!(again & MDS_MODULE_LAYERNORM))
        MDS_TRY(take_all(g, tag, norms, 2));
    if (t->mlp_tile <= 0 && !(again & MDS_MODULE_MLP_ACT))
        MDS_TRY(take_all(g, tag, &act, 1));
    s->mean1 = f.mean1;
    s->rstd1 = f.rstd1;
    s->lse = f.lse;
    s->mean2 = f.mean2;
    s->rstd2 = f.rstd2;
    return MDS_OK;
}

/* ---- checkpoints: layer inputs that are put away ---- */

static int partitions(const struct mds_gpt *g)
{
    return g->run.train->partition_activations && !g->sequence_parallel &&
           mds_comm_size(g->groups->tp) > 1;
}

int mds_gpt_moves_kept(const struct mds_gpt *g)
{
    return partitions(g) || g->run.train->offload_activations;
}

int mds_gpt_is_moved(const struct mds_gpt *g, const struct kept *k)
{
    return partitions(g) || k->x_on_host;
}

int mds_gpt_is_tiled(const struct mds_gpt *g)
{
    return g->run.train->sequence_tile > 0;
}

/* Elements of a layer input that are kept here. */
static int64_t kept_elements(const struct mds_gpt *g)
{
    int64_t n = mds_par_slice_rows(&g->par) * g->cfg.hidden;

    return partitions(g) ? n / mds_comm_size(g->groups->tp) : n;
}

static int64_t kept_bytes(const struct mds_gpt *g)
{
    return kept_elements(g) * (int64_t)mdsk_dtype_size(g->par.dtype);
}

enum mds_rc mds_gpt_keep(const struct mds_gpt *g, const void *x, const struct kept *k,
                         struct mds_dev_copying *saving)
{
    int64_t n = kept_elements(g);
    int part = partitions(g) ? mds_comm_rank(g->groups->tp) : 0;
    const void *mine = mds_par_at(&g->par, x, part * n);

    *saving = (struct mds_dev_copying){0};
    if (!k->x_on_host)
        return mds_par_copy_rows(&g->par, 1, n, mine, n, k->x, n);
    *saving = mds_dev_save_start(g->par.dev, k->x, mine, kept_bytes(g));
    return MDS_OK;
}

struct mds_dev_copying mds_gpt_fetch_start(const struct mds_gpt *g,
                                           const struct kept *k, void *x)
{
    int part = partitions(g) ? mds_comm_rank(g->groups->tp) : 0;
    void *mine = mds_par_at(&g->par, x, part * kept_elements(g));

    if (!k->x_on_host)
        return (struct mds_dev_copying){0};
    return mds_dev_restore_start(g->par.dev, mine, k->x, kept_bytes(g));
}

enum mds_rc mds_gpt_fetch(const struct mds_gpt *g, const struct kept *k,
                          struct mds_dev_copying coming, void *x)
{
    int64_t first = mds_comm_rank(g->groups->tp) * kept_elements(g);
    const void *mine = k->x_on_host ? mds_par_at(&g->par, x, first) : k->x;

    mds_dev_meet(g->par.dev, coming);
    if (!partitions(g))
        return MDS_OK;
    return mds_comm_all_gather(g->groups->tp, mine, x, kept_bytes(g));
}

/* Memory for what is put away of a layer. */
static enum mds_rc take_kept(const struct mds_gpt *g, int64_t bytes, int on_host,
                             void **out)
{
    return mds_arena_take(on_host ? g->run.host : g->run.arena, MDS_MEM_CKPT, bytes,
                          out);
}

static enum mds_rc take_kept_input(const struct mds_gpt *g, struct kept *k)
{
    return take_kept(g, kept_bytes(g), k->x_on_host, &k->x);
}

static enum mds_rc take_kept_attention(const struct mds_gpt *g, struct kept *k)
{
    int64_t e = (int64_t)mdsk_dtype_size(g->par.dtype), n = mds_gpt_lse_size(g);
    void *lse = NULL;

    MDS_TRY(take_kept(g, n * g->cfg.head_dim * e,
                      k->o_on_host || g->run.train->attention_chunk > 0, &k->o));
    MDS_TRY(take_kept(g, n * (int64_t)sizeof *k->lse, k->o_on_host, &lse));
    k->lse = lse;
    return MDS_OK;
}

/* ---- layers that are on the host from forward to backward ---- */

int mds_gpt_slots(const struct mds_gpt *g)
{
    return g->most_layers - (g->run.training ? (int)g->run.train->offload_layers : 0);
}

/* NULL: layer l stays, or there is none. */
static struct kept *leaver(const struct mds_gpt *g, const struct piece *p,
                           const struct piece_set *set, int l)
{
    return l >= 0 && l + mds_gpt_slots(g) < p->is.layers ? &set->kept[l] : NULL;
}

void mds_gpt_layer_leave(const struct mds_gpt *g, const struct piece *p,
                         const struct piece_set *set, int l)
{
    struct kept *k = leaver(g, p, set, l);

    if (k)
        k->copy = mds_dev_save_start(g->par.dev, k->all, set->saved[l].x,
                                     set->saved[l].bytes);
}

void mds_gpt_layer_return(const struct mds_gpt *g, const struct piece *p,
                          const struct piece_set *set, int l)
{
    struct kept *k = leaver(g, p, set, l);

    if (k)
        k->copy = mds_dev_restore_start(g->par.dev, set->saved[l].x, k->all,
                                        set->saved[l].bytes);
}

int mds_gpt_layer_meet(const struct mds_gpt *g, const struct piece *p,
                       const struct piece_set *set, int l)
{
    const struct kept *k = leaver(g, p, set, l);

    if (k)
        mds_dev_meet(g->par.dev, k->copy);
    return k != NULL;
}

/* Buffers of layer l of any piece: a slot's. */
static enum mds_rc take_slot(const struct mds_gpt *g, struct piece_set *set, int l)
{
    int before = l - mds_gpt_slots(g);

    if (before < 0)
        return take_layer(g, MDS_MEM_ACT, &set->saved[l]);
    set->saved[l] = set->saved[before];
    return mds_arena_take(g->run.host, MDS_MEM_ACT, set->saved[l].bytes,
                          &set->kept[before].all);
}

/* ---- sets ---- */

/* Layer l of a piece: its own buffers where the recompute setting keeps them, else
 * those of the shared set whose turn it is. */
static enum mds_rc take_saved(const struct mds_gpt *g, struct piece_set *set, int l)
{
    const struct mds_train_config *t = g->run.train;
    struct layer_saved *s = &set->saved[l];
    int64_t n = mds_gpt_lse_size(g);
    void *lse = NULL;
    const struct want attention[] = {{&s->x, mds_gpt_stream_size(g), 0},
                                     {&s->o, n * g->cfg.head_dim, 0},
                                     {&lse, n, 1}};

    if (mds_recompute_of(t) == MDS_RECOMPUTE_NONE)
        return take_slot(g, set, l);
    *s = g->shared[t->recompute == MDS_RECOMPUTE_FULL ? l % t->recompute_layers : 0];
    if (t->recompute == MDS_RECOMPUTE_SELECTIVE) {
        MDS_TRY(take_all(g, MDS_MEM_CKPT, attention, 3));
        s->lse = lse;
        return MDS_OK;
    }
    if (l % t->recompute_layers)
        return MDS_OK;
    set->kept[l].x_on_host = t->offload_activations;
    if (mds_gpt_moves_kept(g))
        return take_kept_input(g, &set->kept[l]);
    return mds_gpt_take(g, MDS_MEM_CKPT, mds_gpt_stream_size(g), &s->x);
}

/* The same where blocks run in tiles. */
static enum mds_rc take_tiled(const struct mds_gpt *g, struct kept *k, int l)
{
    const struct mds_train_config *t = g->run.train;
    int selective = t->recompute == MDS_RECOMPUTE_SELECTIVE;
    int from_end = g->most_layers - l;
    int on_host = t->offload_activations && from_end > t->device_inputs;

    *k = (struct kept){.x_on_host = on_host, .o_on_host = selective && on_host};
    if (!selective && l % t->recompute_layers)
        return MDS_OK;
    MDS_TRY(take_kept_input(g, k));
    return selective || from_end <= t->keep_attention ? take_kept_attention(g, k)
                                                      : MDS_OK;
}

static enum mds_rc take_set(const struct mds_gpt *g, struct piece_set *set)
{
    int64_t n = mds_par_slice_rows(&g->par) * g->cfg.hidden;
    int has_head = g->piece[g->n_pieces - 1].is.is_last;

    for (int l = 0; l < g->most_layers; l++)
        MDS_TRY(mds_gpt_is_tiled(g) ? take_tiled(g, &set->kept[l], l)
                                    : take_saved(g, set, l));
    return has_head ? mds_gpt_take(g, MDS_MEM_ACT, n, &set->d) : MDS_OK;
}

/* Bookkeeping for the sets: on the host, and only when there are more of them. */
static enum mds_rc make_sets(struct mds_gpt *g)
{
    struct piece_set *set;

    if (g->sets >= g->run.sets)
        return MDS_OK;
    set = mds_realloc(g->set, (size_t)g->run.sets, sizeof *set);
    if (!set)
        return MDS_EMEM;
    g->set = set;
    while (g->sets < g->run.sets) {
        set = &g->set[g->sets++];
        *set = (struct piece_set){0};
        set->saved = mds_zalloc((size_t)g->most_layers, sizeof *set->saved);
        set->kept = mds_zalloc((size_t)g->most_layers, sizeof *set->kept);
        if (!set->saved || !set->kept)
            return MDS_EMEM;
    }
    return MDS_OK;
}

/* As for the sets, once. */
static enum mds_rc make_shared(struct mds_gpt *g, int n)
{
    if (n > g->shareds) {
        struct layer_saved *more = mds_realloc(g->shared, (size_t)n, sizeof *more);

        if (!more)
            return MDS_EMEM;
        g->shared = more;
        g->shareds = n;
    }
    memset(g->shared, 0, (size_t)n * sizeof *g->shared);
    return MDS_OK;
}

static enum mds_rc take_shared(struct mds_gpt *g)
{
    const struct mds_train_config *t = g->run.train;
    int n = t->recompute == MDS_RECOMPUTE_FULL ? (int)t->recompute_layers : 1;

    MDS_TRY(make_shared(g, n));
    if (g->run.training && mds_recompute_of(t) == MDS_RECOMPUTE_NONE)
        return MDS_OK;
    for (int i = 0; i < (g->run.training ? n : 1); i++)
        MDS_TRY(take_layer(g, MDS_MEM_WORK, &g->shared[i]));
    return MDS_OK;
}

/* What one micro-batch leaves to the next, or layers to each other. */
static enum mds_rc take_common(struct mds_gpt *g)
{
    const struct mds_gpt_piece *last = &g->piece[g->n_pieces - 1].is;
    int64_t n = mds_par_slice_rows(&g->par) * g->cfg.hidden;

    g->norm_grads = NULL;
    if (g->sequence_parallel && g->run.training)
        MDS_TRY(
            mds_par_take_f32(&g->par, MDS_MEM_WORK, 4 * g->cfg.hidden, &g->norm_grads));
    if (!last->is_last || g->n_pieces > 1)
        MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, n, &g->d));
    if (mds_gpt_is_tiled(g))
        return MDS_OK;
    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, n, &g->m));
    return take_shared(g);
}

enum mds_rc mds_gpt_take_step(struct mds_gpt *g)
{
    MDS_TRY(take_common(g));
    MDS_TRY(make_sets(g));
    for (int k = 0; k < g->run.sets; k++) {
        for (int l = 0; g->shared && !g->run.training && l < g->most_layers; l++)
            g->set[k].saved[l] = g->shared[0];
        if (g->run.training)
            MDS_TRY(take_set(g, &g->set[k]));
    }
    return MDS_OK;
}
