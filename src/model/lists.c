/* SPDX-License-Identifier: BSD-3-Clause */
/* Forward and backward through blocks by their lists. */
#include "model/lists.h"

#include "device/arena.h"
#include "tensor/op.h"

/* ---- a block ---- */

static enum list_kind kind_of(const struct list_pass *p, int l)
{
    if (!p->c->run->training)
        return LISTS_EVALUATION;
    if (l % mds_act_group(&p->c->run->train->act))
        return LISTS_PASSING;
    return l + mds_saved_slots(p->c) < p->chunk->is.layers ? LISTS_OFFLOADED
                                                           : LISTS_SAVING;
}

static struct block_pass block_of(struct list_pass *p, int l, const struct saved *s)
{
    const struct block_ids *id = &p->chunk->block[l];

    return (struct block_pass){.all = p->c,
                               .whole = p->c,
                               .c = p->c,
                               .id = id,
                               .all_heads = id,
                               .saved = s,
                               .o = &p->o,
                               .put_message = -1};
}

int64_t mds_gpt_enter_tile(void *ctx, int64_t row)
{
    struct block_pass *b = ctx;

    b->c = b->whole;
    if (!mds_gpt_tile(b->whole, row / b->whole->par.B, &b->tile))
        return 0;
    b->c = &b->tile;
    return row + mds_par_slice_rows(&b->tile.par);
}

static struct mds_block_frame frame_of(const struct list_pass *p,
                                       struct block_pass *block)
{
    const struct saved *s = block->saved;

    return (struct mds_block_frame){.arena = p->c->run->arena,
                                    .saved = s ? s->slab : NULL,
                                    .arg = {[MDS_ARG_X] = s ? s->x : NULL,
                                            [MDS_ARG_O] = p->o.o,
                                            [MDS_ARG_LSE] = p->o.lse,
                                            [MDS_ARG_LOAD] = s ? s->load : NULL},
                                    .enter_tile = mds_gpt_enter_tile,
                                    .enter_group = mds_gpt_enter_group,
                                    .perform = mds_gpt_operations,
                                    .wait = mds_gpt_wait,
                                    .ctx = block};
}

static void report(const struct list_pass *p, int backward, int l)
{
    const struct mds_gpt_run *run = p->c->run;

    if (run->block_queued)
        run->block_queued(run->ctx, backward, p->chunk->block[l].number);
}

static const struct typed_lists *lists_of(const struct list_pass *p, int l)
{
    return &p->lists->of[mds_gpt_list_type(p->c, p->chunk, l)];
}

/* x: the stream before block l -> behind it.  s: where it saves, or NULL.  y: in tiles,
 * where to store the stream behind it. */
static enum mds_rc block_forward(struct list_pass *p, enum list_kind kind, int l,
                                 const struct saved *s, struct residual *x, void *y)
{
    const struct mds_step_list *list = &lists_of(p, l)->forward[kind];
    struct block_pass block = block_of(p, l, s);
    struct mds_block_frame f = frame_of(p, &block);

    f.is_sum = !x->branch;
    f.arg[MDS_ARG_X0] = x->x;
    if (y) {
        f.arg[MDS_ARG_X] = x->x;
        f.arg[MDS_ARG_Y] = y;
    }
    MDS_TRY(mds_block_run(list, &f));
    x->x = mds_block_address(list, &f, p->work, list->y);
    x->branch = mds_block_address(list, &f, p->work, list->y_branch);
    return MDS_OK;
}

/* ---- forward ---- */

/* What lives from block to block is at the start of the lists' working memory: they
 * have it while they run, and nobody else writes to it in between. */
static enum mds_rc hold_pinned(struct list_pass *p, const struct mds_step_list *list)
{
    void *work = NULL;

    MDS_TRY(mds_arena_alloc(p->c->run->arena, MDS_MEM_WORK, list->pinned_bytes, &work));
    p->work = work;
    return MDS_OK;
}

/* In tiles: where the stream before block l is, which may be behind the last. */
static void *stream_before(const struct list_pass *p, int l)
{
    void *saved = NULL;

    if (!mds_gpt_is_tiled(p->c))
        return NULL;
    if (p->c->run->training && l < p->chunk->is.layers)
        saved = p->buffer->block[l].x;
    return saved ? saved : p->x;
}

/* What blocks in tiles share, for what they do not save on the device. */
static enum mds_rc alloc_shared(struct list_pass *p)
{
    const struct context *c = p->c;

    if (!mds_gpt_saves_o_away(c))
        return MDS_OK;
    MDS_TRY(mds_gpt_scratch(c, mds_saved_o_elements(c), &p->o.o));
    return mds_par_alloc_f32(&c->par, MDS_MEM_WORK, mds_saved_lse_elements(c),
                             &p->o.lse);
}

enum mds_rc mds_gpt_lists_begin(struct list_pass *p, struct residual *x)
{
    const struct context *c = p->c;
    const struct saved *s = c->run->training ? &p->buffer->block[0] : NULL;
    const struct mds_step_list *list = &lists_of(p, 0)->forward[kind_of(p, 0)];
    struct block_pass block = block_of(p, 0, s);
    struct mds_block_frame f = frame_of(p, &block);

    p->begin = mds_arena_mark(c->run->arena);
    if (mds_gpt_is_tiled(c)) {
        MDS_TRY(mds_gpt_scratch(c, mds_gpt_residual_size(c), &p->x));
        MDS_TRY(alloc_shared(p));
    }
    p->mark = mds_arena_mark(c->run->arena);
    MDS_TRY(hold_pinned(p, list));
    *x = (struct residual){.x = mds_gpt_is_tiled(c)
                                    ? stream_before(p, 0)
                                    : mds_block_address(list, &f, p->work, list->x)};
    return MDS_OK;
}

void mds_gpt_lists_end(struct list_pass *p)
{
    mds_arena_release(p->c->run->arena, p->begin);
}

enum mds_rc mds_gpt_lists_forward(struct list_pass *p, struct residual *x)
{
    const struct context *c = p->c;

    mds_arena_release(c->run->arena, p->mark);
    for (int l = 0; l < p->chunk->is.layers; l++) {
        mds_saved_wait(c, p->chunk, p->buffer, l - mds_saved_slots(c));
        MDS_TRY(block_forward(p, kind_of(p, l), l,
                              c->run->training ? &p->buffer->block[l] : NULL, x,
                              stream_before(p, l + 1)));
        mds_saved_offload(c, p->chunk, p->buffer, l);
        report(p, 0, l);
    }
    mds_dev_wait_copy(c->par.dev, p->o.copy);
    return hold_pinned(p, &lists_of(p, 0)->forward[kind_of(p, 0)]);
}

enum mds_rc mds_gpt_form_sum(const struct context *c, struct residual x, void *out)
{
    int64_t n = mds_gpt_residual_size(c);
    struct mdsk_add add = {
        .n = n, .dtype = c->par.dtype, .x = x.branch, .z = x.x, .y = out};

    if (x.branch)
        return mds_op_add(c->par.dev, &add);
    return x.x == out ? MDS_OK : mds_par_copy_rows(&c->par, 1, n, x.x, n, out, n);
}

/* ---- backward ---- */

/* x: the stream before block l.  next: the block whose input is fetched, or NULL. */
static enum mds_rc block_backward(struct list_pass *p, enum list_kind kind, int l,
                                  const struct saved *s, void *x,
                                  const struct saved *next, void *d)
{
    struct block_pass block = block_of(p, l, s);
    struct mds_block_frame f = frame_of(p, &block);

    block.next = next;
    block.fetched = &p->fetched;
    f.arg[MDS_ARG_X] = x;
    f.arg[MDS_ARG_NEXT] = p->fetched.x[1];
    f.arg[MDS_ARG_D] = d;
    f.arg[MDS_ARG_LOAD] = p->buffer->block[l].load;
    MDS_TRY(mds_block_run(&lists_of(p, l)->backward[kind], &f));
    report(p, 1, l);
    return MDS_OK;
}

static enum mds_rc saved_backward(struct list_pass *p, void *d)
{
    int slots = mds_saved_slots(p->c);

    for (int l = p->chunk->is.layers - 1; l >= 0; l--) {
        const struct saved *s = &p->buffer->block[l];

        mds_saved_wait(p->c, p->chunk, p->buffer, l);
        MDS_TRY(block_backward(p, kind_of(p, l), l, s, s->x, NULL, d));
        mds_saved_reload(p->c, p->chunk, p->buffer, l - slots);
    }
    return MDS_OK;
}

/* Forward again of n - 1 blocks in tiles: they save their inputs. */
static enum mds_rc run_again_in_tiles(struct list_pass *p, int first, int n, void *x)
{
    struct residual stream = {.x = x};

    p->group[0].x = x;
    for (int i = 0; i < n - 1; i++)
        MDS_TRY(block_forward(p, LISTS_PASSING, first + i, NULL, &stream,
                              p->group[i + 1].x));
    return MDS_OK;
}

/* Forward again of n - 1 blocks, from the input x of the first: they save all that
 * backward reads, and the input of the last. */
static enum mds_rc run_again(struct list_pass *p, int first, int n, void *x)
{
    const struct mds_step_list *list = &lists_of(p, first)->forward[LISTS_AGAIN];
    struct residual stream = {.x = x};

    if (mds_gpt_is_tiled(p->c))
        return run_again_in_tiles(p, first, n, x);
    p->mark = mds_arena_mark(p->c->run->arena);
    p->group[0].x = x;
    MDS_TRY(hold_pinned(p, list));
    mds_arena_release(p->c->run->arena, p->mark);
    for (int i = 0; i < n - 1; i++)
        MDS_TRY(block_forward(p, LISTS_AGAIN, first + i, &p->group[i], &stream, NULL));
    MDS_TRY(hold_pinned(p, list));
    MDS_TRY(mds_gpt_form_sum(p->c, stream, p->group[n - 1].x));
    mds_arena_release(p->c->run->arena, p->mark);
    return MDS_OK;
}

/* Backward of blocks first .. end - 1, of which only the first one's input was saved.
 */
static enum mds_rc group_backward(struct list_pass *p, int first, int end, void *d)
{
    int n = end - first, every = (int)mds_act_group(&p->c->run->train->act);
    enum list_kind again = mds_gpt_is_tiled(p->c) ? LISTS_SAVING : LISTS_AGAIN;
    const struct saved *kept = &p->buffer->block[first];
    const struct saved *next = first > 0 ? kept - every : NULL;
    void *x = kept->x ? kept->x : p->fetched.x[0];

    if (n == 1)
        return block_backward(p, LISTS_SAVING, first, kept, x, next, d);
    MDS_TRY(run_again(p, first, n, x));
    for (int i = n - 1; i > 0; i--)
        MDS_TRY(block_backward(p, i == n - 1 ? LISTS_SAVING : again, first + i,
                               &p->group[i], p->group[i].x, NULL, d));
    return block_backward(p, again, first, &p->group[0], x, next, d);
}

/* Inputs of blocks, fetched in turns into two buffers; and what blocks that run again
 * save. */
static enum mds_rc alloc_again(struct list_pass *p)
{
    const struct context *c = p->c;
    int n = (int)mds_act_group(&c->run->train->act);
    int64_t slab = mds_gpt_is_tiled(c) ? 0 : mds_gpt_slab_again(p->lists);

    MDS_TRY(alloc_shared(p));
    for (int i = 0; i < 2 && mds_saved_stashes_x(c); i++)
        MDS_TRY(mds_gpt_scratch(c, mds_gpt_residual_size(c), &p->fetched.x[i]));
    for (int i = 0; i < n && n > 1; i++)
        MDS_TRY(mds_saved_alloc_block(c, i > 0, i + 1 < n ? slab : 0, &p->group[i]));
    return MDS_OK;
}

static enum mds_rc recomputed_backward(struct list_pass *p, void *d)
{
    int every = (int)mds_act_group(&p->c->run->train->act), end = p->chunk->is.layers;
    int first = (end - 1) / every * every;
    struct fetched *x = &p->fetched;

    if (p->buffer->block[first].x_away)
        x->copy = mds_saved_get_x(p->c, &p->buffer->block[first], x->x[1]);
    p->o.copy = mds_saved_get_o(p->c, &p->buffer->block[first], p->o.o, p->o.lse);
    for (; end > 0; end = first, first -= every) {
        const struct saved *s = &p->buffer->block[first];
        void *fetched = x->x[1];

        x->x[1] = x->x[0];
        x->x[0] = fetched;
        if (s->x_away)
            MDS_TRY(mds_saved_finish_x(p->c, s, x->copy, fetched));
        MDS_TRY(group_backward(p, first, end, d));
    }
    return MDS_OK;
}

enum mds_rc mds_gpt_lists_backward(struct list_pass *p, void *d)
{
    struct mds_arena_mark mark = mds_arena_mark(p->c->run->arena);

    if (mds_recompute_of(&p->c->run->train->act) == MDS_RECOMPUTE_NONE)
        return saved_backward(p, d);
    MDS_TRY(alloc_again(p));
    MDS_TRY(recomputed_backward(p, d));
    mds_arena_release(p->c->run->arena, mark);
    return MDS_OK;
}
