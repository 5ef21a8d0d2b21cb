/* A step's micro-batches through the pieces of a stage. */
#include "model/parts.h"
#include "parallel/tensor_parallel.h"
#include "parallel/vocab.h"
#include "tensor/op.h"

static void set_batch(struct mds_gpt *g, int64_t first_sample)
{
    mds_par_set_batch(&g->par, g->run.B, g->run.S, first_sample);
}

int mds_gpt_tensor_chunks(const struct mds_gpt *g)
{
    int64_t rows = mds_par_rows(&g->par);
    int64_t bytes = rows * g->cfg.hidden * (int64_t)mdsk_dtype_size(g->par.dtype);

    if (mds_comm_size(g->groups->tp) == 1)
        return 1;
    return mds_tp_chunks(g->tensor_chunks, bytes);
}

enum mds_rc mds_gpt_step_begin(struct mds_gpt *g, const struct mds_gpt_run *run)
{
    g->run = *run;
    g->par = (struct mds_par){.dev = run->dev,
                              .arena = run->arena,
                              .groups = g->groups,
                              .dtype = mds_params_dtype(g->ps),
                              .sequence_parallel = g->sequence_parallel};
    set_batch(g, 0);
    if (!mds_gpt_is_tiled(g)) {
        g->par.chunks = mds_gpt_tensor_chunks(g);
        set_batch(g, 0);
    }
    g->mark = mds_arena_mark(run->arena);
    if (run->host)
        g->host_mark = mds_arena_mark(run->host);
    return mds_gpt_take_step(g);
}

void mds_gpt_step_end(struct mds_gpt *g)
{
    mds_arena_release(g->run.arena, g->mark);
    if (g->run.host)
        mds_arena_release(g->run.host, g->host_mark);
}

static enum mds_rc copy_stream(const struct mds_gpt *g, const void *x, void *y)
{
    int64_t n = mds_gpt_stream_size(g);

    return mds_par_copy_rows(&g->par, 1, n, x, n, y, n);
}

/* ---- embedding ---- */

static struct mds_embedding embedding_of(const struct mds_gpt *g, int backward)
{
    int has = g->position >= 0;
    const struct mds_param *word = mds_params_get(g->ps, g->word);
    struct mds_embedding e = {.H = g->cfg.hidden,
                              .first_word = word->rows * mds_comm_rank(g->groups->tp),
                              .words = word->rows,
                              .sliced = g->slices_positions};

    if (g->slices_positions)
        e.first_position = mds_comm_rank(g->groups->tp) * g->par.slice.n;
    if (backward) {
        e.dword = mds_param_grad(g->ps, g->word);
        e.dposition = has ? mds_param_grad(g->ps, g->position) : NULL;
    } else {
        e.word = mds_param_weight(g->ps, g->word);
        e.position = has ? mds_param_weight(g->ps, g->position) : NULL;
    }
    return e;
}

static enum mds_rc embed(const struct mds_gpt *g, const int32_t *token, void *x)
{
    int has = g->position >= 0;
    struct mds_embedding e;

    MDS_TRY(mds_params_acquire(g->ps, g->word_unit));
    if (has)
        MDS_TRY(mds_params_acquire(g->ps, g->position_unit));
    e = embedding_of(g, 0);
    MDS_TRY(mds_embedding_fwd(&g->par, &e, token, x));
    MDS_TRY(mds_gpt_dropout(g, 0, SITE_EMBEDDING, x, x, &x));
    if (has)
        MDS_TRY(mds_params_release(g->ps, g->position_unit));
    return mds_params_release(g->ps, g->word_unit);
}

/* A tied embedding whose head is here has its gradient begun there. */
static enum mds_rc embed_bwd(const struct mds_gpt *g, const int32_t *token, void *d)
{
    int has = g->position >= 0;
    struct mds_embedding e;

    if (g->head != g->word)
        MDS_TRY(mds_params_grad_begin(g->ps, g->word_unit));
    if (has)
        MDS_TRY(mds_params_grad_begin(g->ps, g->position_unit));
    e = embedding_of(g, 1);
    MDS_TRY(mds_gpt_dropout(g, 0, SITE_EMBEDDING, d, d, &d));
    MDS_TRY(mds_embedding_bwd(&g->par, &e, token, d));
    if (has)
        MDS_TRY(mds_params_grad_ready(g->ps, g->position_unit));
    return mds_params_grad_ready(g->ps, g->word_unit);
}

/* ---- head ---- */

static struct mds_head head_of(const struct mds_gpt *g)
{
    const struct mds_param *w = mds_params_get(g->ps, g->head);
    int training = g->run.training;

    return (struct mds_head){
        .H = g->cfg.hidden,
        .vocab = g->cfg.vocab,
        .first_word = w->rows * mds_comm_rank(g->groups->tp),
        .words = w->rows,
        .weight = mds_param_weight(g->ps, g->head),
        .dweight = training ? mds_param_grad(g->ps, g->head) : NULL,
        .blank = training && mds_params_take_blank(g->ps, g->head, w->count),
        .tile = g->run.train->loss_tile,
        .grad_scale = g->run.grad_scale};
}

/* x + r -> loss, and in training the stream's gradient d.  r becomes x + r. */
static enum mds_rc whole_head(const struct mds_gpt *g, struct mds_head *h,
                              const void *x, void *r, const int32_t *target,
                              struct mds_gpt_loss *loss, void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    int64_t Rs = mds_par_slice_rows(&g->par), n = mds_gpt_stream_size(g);
    void *y = NULL, *dy = NULL;
    float *mean = NULL, *rstd = NULL;

    MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, n, &y));
    MDS_TRY(mds_par_take_f32(&g->par, MDS_MEM_WORK, Rs, &mean));
    MDS_TRY(mds_par_take_f32(&g->par, MDS_MEM_WORK, Rs, &rstd));
    if (d)
        MDS_TRY(mds_gpt_take(g, MDS_MEM_WORK, n, &dy));
    MDS_TRY(mds_gpt_norm_fwd(g, &g->final_norm, x, r, r, y, mean, rstd));
    MDS_TRY(mds_head_loss(&g->par, h, y, target, &loss->sum, &loss->count, dy));
    if (d) {
        mds_dev_zero(g->par.dev, d, n * (int64_t)mdsk_dtype_size(g->par.dtype));
        mds_gpt_norm_grads_begin(g);
        MDS_TRY(mds_gpt_norm_bwd(g, &g->final_norm, r, mean, rstd, dy, d));
        MDS_TRY(mds_gpt_norm_grads_end(g, &g->final_norm, NULL));
    }
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

static enum mds_rc norm_and_loss(const struct mds_gpt *g, const void *x, void *r,
                                 const int32_t *target, struct mds_gpt_loss *loss,
                                 void *d)
{
    struct mds_head h = head_of(g);

    return mds_gpt_is_tiled(g) ? mds_gpt_tiled_head(g, &h, x, target, loss, d)
                               : whole_head(g, &h, x, r, target, loss, d);
}

/* A tied embedding that is here for the head alone is complete now. */
static enum mds_rc head(const struct mds_gpt *g, int also_first, const void *x, void *r,
                        const int32_t *target, struct mds_gpt_loss *loss, void *d)
{
    int tied = g->head == g->word;

    MDS_TRY(mds_params_acquire(g->ps, g->head_unit));
    if (tied)
        MDS_TRY(mds_params_acquire(g->ps, g->word_unit));
    if (d) {
        MDS_TRY(mds_params_grad_begin(g->ps, g->head_unit));
        if (tied)
            MDS_TRY(mds_params_grad_begin(g->ps, g->word_unit));
    }
    MDS_TRY(norm_and_loss(g, x, r, target, loss, d));
    if (d) {
        MDS_TRY(mds_params_grad_ready(g->ps, g->head_unit));
        if (tied && !also_first)
            MDS_TRY(mds_params_grad_ready(g->ps, g->word_unit));
    }
    if (tied)
        MDS_TRY(mds_params_release(g->ps, g->word_unit));
    return mds_params_release(g->ps, g->head_unit);
}

/* ---- forward ---- */

/* All layers; *x, *r: the stream behind the last. */
static enum mds_rc layers_fwd(const struct mds_gpt *g, const struct piece *p,
                              const struct piece_set *set, const void **x, void **r)
{
    int puts_away = g->run.training && mds_gpt_moves_kept(g);
    int slots = mds_gpt_slots(g);

    *x = set->saved[0].x;
    *r = NULL;
    for (int l = 0; l < p->is.layers; l++) {
        const struct layer_saved *s = &set->saved[l];
        const struct kept *k = puts_away && set->kept[l].x ? &set->kept[l] : NULL;

        mds_gpt_layer_meet(g, p, set, l - slots);
        MDS_TRY(mds_gpt_block_fwd(g, &p->layer[l], *x, *r, s, k, g->m));
        mds_gpt_layer_leave(g, p, set, l);
        *x = s->x1;
        *r = g->m;
    }
    return MDS_OK;
}

/* The stream as one tensor, for the next piece. */
static enum mds_rc close_stream(const struct mds_gpt *g, const void *x, const void *r,
                                void *out)
{
    struct mdsk_add add = {
        .n = mds_gpt_stream_size(g), .dtype = g->par.dtype, .x = r, .y = out};

    MDS_TRY(copy_stream(g, x, out));
    return mds_op_add(g->par.dev, &add);
}

/* A piece whose blocks run in tiles. */
static enum mds_rc tiled_forward(const struct mds_gpt *g, const struct piece *p,
                                 const struct piece_set *s,
                                 const struct mds_gpt_batch *batch, const void *in,
                                 void *out, struct mds_gpt_loss *loss)
{
    struct mds_arena_mark mark = mds_arena_mark(g->par.arena);
    void *d = g->run.training ? s->d : NULL, *x = NULL;
    struct tiled_room room = {0};

    MDS_TRY(mds_gpt_tiled_begin(g, s, &room, &x));
    MDS_TRY(p->is.is_first ? embed(g, batch->token, x) : copy_stream(g, in, x));
    MDS_TRY(mds_gpt_tiled_layers_fwd(g, p, s, &room, out ? out : room.x));
    if (p->is.is_last)
        MDS_TRY(head(g, g->piece[0].is.is_first, room.x, NULL, batch->target, loss, d));
    mds_arena_release(g->par.arena, mark);
    return MDS_OK;
}

enum mds_rc mds_gpt_forward(struct mds_gpt *g, int piece, int set,
                            const struct mds_gpt_batch *batch, const void *in,
                            void *out, struct mds_gpt_loss *loss)
{
    const struct piece *p = &g->piece[piece];
    const struct piece_set *s = &g->set[set];
    const void *x = NULL;
    void *r = NULL, *d = g->run.training ? s->d : NULL;

    set_batch(g, batch->first_sample);
    if (mds_gpt_is_tiled(g))
        return tiled_forward(g, p, s, batch, in, out, loss);
    MDS_TRY(p->is.is_first ? embed(g, batch->token, s->saved[0].x)
                           : copy_stream(g, in, s->saved[0].x));
    MDS_TRY(layers_fwd(g, p, s, &x, &r));
    if (p->is.is_last)
        return head(g, g->piece[0].is.is_first, x, r, batch->target, loss, d);
    return close_stream(g, x, r, out);
}

/* ---- backward ---- */

/* Whether layers_bwd has inputs to get back. */
static int gets_back(const struct mds_gpt *g)
{
    return mds_recompute_of(g->run.train) == MDS_RECOMPUTE_FULL &&
           mds_gpt_moves_kept(g);
}

/* The input of a group of layers, which comes from the host into g->m, to its place. */
static enum mds_rc get_back(const struct mds_gpt *g, const struct kept *k,
                            struct mds_dev_copying coming, void *x)
{
    if (!k->x_on_host)
        return mds_gpt_fetch(g, k, coming, x);
    MDS_TRY(mds_gpt_fetch(g, k, coming, g->m));
    return copy_stream(g, g->m, x);
}

/* Layers first .. first + n - 1 from the input of the first, as far as it was not kept.
 */
static enum mds_rc recompute(const struct mds_gpt *g, const struct piece *p,
                             const struct piece_set *set, int first, int n)
{
    enum mds_recompute how = mds_recompute_of(g->run.train);
    int selective = how == MDS_RECOMPUTE_SELECTIVE;
    const void *x = set->saved[first].x, *r = NULL;

    if (how == MDS_RECOMPUTE_NONE)
        return MDS_OK;
    for (int l = first; l < first + n; l++) {
        const struct layer_saved *s = &set->saved[l];
        void *m = l + 1 < first + n ? g->m : NULL;

        MDS_TRY(mds_gpt_block_recompute(g, &p->layer[l], x, r, s, selective, m));
        x = s->x1;
        r = m;
    }
    return MDS_OK;
}

/* Layers end - 1 .. first. */
static enum mds_rc group_bwd(const struct mds_gpt *g, const struct piece *p,
                             const struct piece_set *set, int first, int end, void *d)
{
    int slots = mds_gpt_slots(g);

    for (int l = end - 1; l >= first; l--) {
        int back = mds_gpt_layer_meet(g, p, set, l);

        MDS_TRY(mds_gpt_block_bwd(g, &p->layer[l], &set->saved[l], back, d));
        mds_gpt_layer_return(g, p, set, l - slots);
    }
    return MDS_OK;
}

/* Inputs that are on the host come while the blocks behind them go backward. */
static enum mds_rc layers_bwd(const struct mds_gpt *g, const struct piece *p,
                              const struct piece_set *set, void *d)
{
    const struct mds_train_config *t = g->run.train;
    int group = t->recompute == MDS_RECOMPUTE_FULL ? (int)t->recompute_layers : 1;
    int first = (p->is.layers - 1) / group * group, back = gets_back(g);
    struct mds_dev_copying coming = {0};

    if (back)
        coming = mds_gpt_fetch_start(g, &set->kept[first], g->m);
    for (int end = p->is.layers; end > 0; end = first, first -= group) {
        if (back)
            MDS_TRY(get_back(g, &set->kept[first], coming, set->saved[first].x));
        MDS_TRY(recompute(g, p, set, first, end - first));
        if (back && first > 0)
            coming = mds_gpt_fetch_start(g, &set->kept[first - group], g->m);
        MDS_TRY(group_bwd(g, p, set, first, end, d));
    }
    return MDS_OK;
}

enum mds_rc mds_gpt_backward(struct mds_gpt *g, int piece, int set,
                             const struct mds_gpt_batch *batch, const void *d_out,
                             void *d_in)
{
    const struct piece *p = &g->piece[piece];
    const struct piece_set *s = &g->set[set];
    void *d = p->is.is_last ? s->d : g->d;

    set_batch(g, batch->first_sample);
    if (!p->is.is_last)
        MDS_TRY(copy_stream(g, d_out, d));
    MDS_TRY(mds_gpt_is_tiled(g) ? mds_gpt_tiled_layers_bwd(g, p, s, d)
                                : layers_bwd(g, p, s, d));
    if (p->is.is_first)
        return embed_bwd(g, batch->token, d);
    return copy_stream(g, d, d_in);
}
