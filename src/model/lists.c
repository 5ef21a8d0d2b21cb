/* SPDX-License-Identifier: BSD-3-Clause */
/* Which blocks run by lists, and their forward and backward. */
#include "model/lists.h"

#include "base/minmax.h"
#include "block/build.h"
#include "block/show.h"
#include "device/arena.h"
#include "tensor/op.h"

int mds_gpt_uses_lists(const struct context *c)
{
    return !mds_gpt_is_tiled(c) && c->head_groups == 1 &&
           c->run->train->act.mlp_tile == 0 && c->par.chunks == 1;
}

/* ---- compiling ---- */

static unsigned bit(enum mds_act_part part)
{
    return 1u << (part + 1);
}

/* What blocks of a kind save. */
static unsigned kept_parts(const struct context *c, enum list_kind kind)
{
    const struct mds_activations *a = &c->run->train->act;
    struct mds_act_policy policy = kind == LISTS_AGAIN
                                       ? mds_act_policy_inside(a)
                                       : mds_act_policy(a, c->g->max_layers, 0);
    unsigned keep = 0;

    for (enum mds_act_part i = 0; i < MDS_ACT_PARTS; i++)
        if (policy.of[i])
            keep |= bit(i);
    return kind == LISTS_OFFLOADED ? keep & ~(bit(MDS_ACT_NORMS) | bit(MDS_ACT_MLP_ACT))
                                   : keep;
}

static int64_t sum_work(const struct context *c)
{
    struct mds_comm *tp = mds_group(c->g->groups, MDS_AXIS_TENSOR);
    int64_t n = mds_gpt_residual_size(c);

    return c->g->sequence_parallel ? mds_comm_reduce_scatter_work(tp, n, c->par.dtype)
                                   : mds_comm_all_reduce_work(tp, n, c->par.dtype);
}

static int has_backward(enum list_kind kind)
{
    return kind != LISTS_PASSING && kind != LISTS_EVALUATION;
}

static struct mds_block_policy policy_of(const struct context *c,
                                         const struct typed_lists *l, int is_fp8,
                                         const struct mds_block_fp8 *fp8,
                                         enum list_kind kind)
{
    int tp = mds_groups_size(c->g->groups, MDS_AXIS_TENSOR);
    int64_t G = mds_gpt_heads(c, c->g->cfg.kv_heads);
    int64_t copied = mds_gpt_kv_heads_inside(c) - G;
    int fetch = has_backward(kind) && mds_saved_stashes_x(c);

    return (struct mds_block_policy){
        .ranks = {.tensor = tp,
                  .sequence = c->g->sequence_parallel,
                  .ulysses = mds_groups_size(c->g->groups, MDS_AXIS_ULYSSES),
                  .copied = 2 * copied * c->g->cfg.head_dim,
                  .sum_work = tp > 1 ? sum_work(c) : 0},
        .training = has_backward(kind),
        .keep = kept_parts(c, kind),
        .away = fetch && kind == LISTS_SAVING,
        .fetch = fetch,
        .slot_bytes =
            kind == LISTS_OFFLOADED ? l->forward[LISTS_SAVING].saved_bytes : 0,
        .fp8 = is_fp8 ? fp8 : NULL,
        .gelu = c->g->cfg.activation == MDSK_GELU && !is_fp8,
        .sum_norms = c->norm_sums != NULL};
}

static enum mds_rc compile(const struct context *c, struct typed_lists *l, int is_fp8,
                           enum list_kind kind)
{
    const int64_t R = mds_par_rows(&c->par);
    const int64_t rows[MDS_ROWS_KINDS] = {
        [MDS_ROWS_ONE] = 1,
        [MDS_ROWS_SLICE] = mds_par_slice_rows(&c->par),
        [MDS_ROWS_GEMM] = R,
        [MDS_ROWS_HEADS] = R * mds_groups_size(c->g->groups, MDS_AXIS_ULYSSES),
        [MDS_ROWS_COPIES] = R * c->g->cfg.experts.topk};
    const struct mds_block_fp8 fp8 = {.wgrad = c->g->cfg.fp8.wgrad,
                                      .codes = mds_saved_slots(c) == c->g->max_layers,
                                      .codes_bytes = mds_gpt_fp8_codes_bytes,
                                      .gradient_bytes = mds_gpt_fp8_gradient_bytes};
    struct mds_block_policy policy = policy_of(c, l, is_fp8, &fp8, kind);

    if (l->is_there[kind] && l->forward[kind].rows[MDS_ROWS_GEMM] == R)
        return MDS_OK;
    mds_step_list_init(&l->forward[kind], rows, (int)mdsk_dtype_size(c->par.dtype));
    mds_gpt_declare_block(&c->g->cfg, policy.ranks.tensor, kind != LISTS_EVALUATION,
                          &l->forward[kind]);
    MDS_TRY(mds_block_compile(&policy, &l->forward[kind], &l->backward[kind]));
    l->is_there[kind] = 1;
    return MDS_OK;
}

static enum mds_rc compile_type(const struct context *c, struct typed_lists *l,
                                int is_fp8)
{
    if (!c->run->training)
        return compile(c, l, is_fp8, LISTS_EVALUATION);
    MDS_TRY(compile(c, l, is_fp8, LISTS_SAVING));
    if (mds_saved_slots(c) < c->g->max_layers)
        MDS_TRY(compile(c, l, is_fp8, LISTS_OFFLOADED));
    if (mds_act_group(&c->run->train->act) == 1)
        return MDS_OK;
    MDS_TRY(compile(c, l, is_fp8, LISTS_PASSING));
    return compile(c, l, is_fp8, LISTS_AGAIN);
}

static int is_fp8(const struct block_ids *id)
{
    return id->mlp.up.fp8;
}

enum mds_rc mds_gpt_compile_lists(const struct context *c, struct block_lists *l)
{
    for (int k = 0; k < c->g->n_chunks; k++)
        for (int i = 0; i < c->g->chunk[k].is.layers; i++) {
            int type = is_fp8(&c->g->chunk[k].block[i]);

            MDS_TRY(compile_type(c, &l->of[type], type));
        }
    return MDS_OK;
}

static void show(const struct typed_lists *l, enum list_kind k, int is_fp8, FILE *f)
{
    static const char *const names[LISTS_KINDS] = {"", ", offloaded", ", not saved",
                                                   ", run again", ", evaluation"};
    const char *type = is_fp8 ? ", FP8" : "";

    if (!l->is_there[k])
        return;
    fprintf(f, "\n  forward of a block%s%s: %d steps\n", names[k], type,
            l->forward[k].steps);
    mds_block_show(&l->forward[k], f);
    if (!has_backward(k))
        return;
    fprintf(f, "\n  backward of a block%s%s: %d steps\n", names[k], type,
            l->backward[k].steps);
    mds_block_show(&l->backward[k], f);
}

static int are_there(const struct typed_lists *l)
{
    return l->is_there[LISTS_SAVING] || l->is_there[LISTS_EVALUATION];
}

void mds_gpt_show_lists(const struct block_lists *l, FILE *f)
{
    for (int type = 0; type < 2; type++)
        for (enum list_kind k = 0; k < LISTS_KINDS; k++)
            show(&l->of[type], k, type, f);
    if (!are_there(&l->of[0]) && !are_there(&l->of[1]))
        fputs(
            "\n  --show-step: tiles, groups of heads and chunks of messages do not run "
            "by lists: nothing to print\n",
            f);
}

/* At least what blocks of this type need. */
static void widen(const struct typed_lists *l, enum list_kind kind, struct slab_size *s)
{
    enum list_kind leaves =
        l->is_there[LISTS_OFFLOADED] ? LISTS_OFFLOADED : LISTS_SAVING;

    s->bytes = mds_max(s->bytes, l->forward[kind].saved_bytes);
    s->kept = mds_max(s->kept, l->forward[leaves].kept_bytes);
}

static struct slab_size size_of_any(const struct block_lists *l, enum list_kind kind)
{
    struct slab_size size = {0, 0};

    widen(&l->of[0], kind, &size);
    widen(&l->of[1], kind, &size);
    return size;
}

struct slab_size mds_gpt_slab_size(const struct context *c, const struct block_lists *l,
                                   int layer)
{
    struct slab_size size = {0, 0};

    for (int k = 0; k < c->g->n_chunks; k++) {
        const struct model_chunk *p = &c->g->chunk[k];

        for (int i = layer; i < p->is.layers; i += mds_saved_slots(c))
            widen(&l->of[is_fp8(&p->block[i])], LISTS_SAVING, &size);
    }
    return size;
}

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

static struct block_pass block_of(const struct list_pass *p, int l,
                                  const struct saved *s)
{
    return (struct block_pass){
        .c = p->c, .id = &p->chunk->block[l], .saved = s, .put_message = -1};
}

static struct mds_block_frame frame_of(const struct list_pass *p,
                                       struct block_pass *block)
{
    const struct saved *s = block->saved;

    return (struct mds_block_frame){.arena = p->c->run->arena,
                                    .saved = s ? s->slab : NULL,
                                    .arg = {[MDS_ARG_X] = s ? s->at[SAVED_X] : NULL},
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
    return &p->lists->of[is_fp8(&p->chunk->block[l])];
}

/* x: the stream before block l -> behind it.  s: where it saves, or NULL. */
static enum mds_rc block_forward(const struct list_pass *p, enum list_kind kind, int l,
                                 const struct saved *s, struct residual *x)
{
    const struct mds_step_list *list = &lists_of(p, l)->forward[kind];
    struct block_pass block = block_of(p, l, s);
    struct mds_block_frame f = frame_of(p, &block);

    f.is_sum = !x->branch;
    f.arg[MDS_ARG_X0] = x->x;
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

enum mds_rc mds_gpt_lists_begin(struct list_pass *p, struct residual *x)
{
    const struct saved *s = p->c->run->training ? &p->buffer->block[0] : NULL;
    const struct mds_step_list *list = &lists_of(p, 0)->forward[kind_of(p, 0)];
    struct block_pass block = block_of(p, 0, s);
    struct mds_block_frame f = frame_of(p, &block);

    p->mark = mds_arena_mark(p->c->run->arena);
    MDS_TRY(hold_pinned(p, list));
    *x = (struct residual){.x = mds_block_address(list, &f, p->work, list->x)};
    return MDS_OK;
}

void mds_gpt_lists_end(struct list_pass *p)
{
    mds_arena_release(p->c->run->arena, p->mark);
}

enum mds_rc mds_gpt_lists_forward(struct list_pass *p, struct residual *x)
{
    const struct context *c = p->c;

    mds_arena_release(c->run->arena, p->mark);
    for (int l = 0; l < p->chunk->is.layers; l++) {
        mds_saved_wait(c, p->chunk, p->buffer, l - mds_saved_slots(c));
        MDS_TRY(block_forward(p, kind_of(p, l), l,
                              c->run->training ? &p->buffer->block[l] : NULL, x));
        mds_saved_offload(c, p->chunk, p->buffer, l);
        report(p, 0, l);
    }
    return hold_pinned(p, &lists_of(p, 0)->forward[kind_of(p, 0)]);
}

enum mds_rc mds_gpt_form_sum(const struct context *c, struct residual x, void *out)
{
    int64_t n = mds_gpt_residual_size(c);
    struct mdsk_add add = {.n = n, .dtype = c->par.dtype, .x = x.branch, .y = out};

    if (x.x != out)
        MDS_TRY(mds_par_copy_rows(&c->par, 1, n, x.x, n, out, n));
    return x.branch ? mds_op_add(c->par.dev, &add) : MDS_OK;
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
        MDS_TRY(block_backward(p, kind_of(p, l), l, s, s->at[SAVED_X], NULL, d));
        mds_saved_reload(p->c, p->chunk, p->buffer, l - slots);
    }
    return MDS_OK;
}

/* Forward again of n - 1 blocks, from the input x of the first: they save all that
 * backward reads, and the input of the last. */
static enum mds_rc run_again(struct list_pass *p, int first, int n, void *x)
{
    const struct mds_step_list *list = &lists_of(p, first)->forward[LISTS_AGAIN];
    struct residual stream = {.x = x};

    p->mark = mds_arena_mark(p->c->run->arena);
    p->group[0].at[SAVED_X] = x;
    MDS_TRY(hold_pinned(p, list));
    mds_arena_release(p->c->run->arena, p->mark);
    for (int i = 0; i < n - 1; i++)
        MDS_TRY(block_forward(p, LISTS_AGAIN, first + i, &p->group[i], &stream));
    MDS_TRY(hold_pinned(p, list));
    MDS_TRY(mds_gpt_form_sum(p->c, stream, p->group[n - 1].at[SAVED_X]));
    mds_arena_release(p->c->run->arena, p->mark);
    return MDS_OK;
}

/* Backward of blocks first .. end - 1, of which only the first one's input was saved.
 */
static enum mds_rc group_backward(struct list_pass *p, int first, int end, void *d)
{
    int n = end - first, every = (int)mds_act_group(&p->c->run->train->act);
    const struct saved *kept = &p->buffer->block[first];
    const struct saved *next = first > 0 ? kept - every : NULL;
    void *x = kept->at[SAVED_X] ? kept->at[SAVED_X] : p->fetched.x[0];

    if (n == 1)
        return block_backward(p, LISTS_SAVING, first, kept, x, next, d);
    MDS_TRY(run_again(p, first, n, x));
    for (int i = n - 1; i > 0; i--)
        MDS_TRY(block_backward(p, i == n - 1 ? LISTS_SAVING : LISTS_AGAIN, first + i,
                               &p->group[i], p->group[i].at[SAVED_X], NULL, d));
    return block_backward(p, LISTS_AGAIN, first, &p->group[0], x, next, d);
}

/* Inputs of blocks, fetched in turns into two buffers; and what blocks that run again
 * save. */
static enum mds_rc alloc_again(struct list_pass *p)
{
    const struct context *c = p->c;
    int n = (int)mds_act_group(&c->run->train->act);
    const struct slab_size slab = size_of_any(p->lists, LISTS_AGAIN);

    for (int i = 0; i < 2 && mds_saved_stashes_x(c); i++)
        MDS_TRY(mds_gpt_scratch(c, mds_gpt_residual_size(c), &p->fetched.x[i]));
    for (int i = 0; i < n && n > 1; i++)
        MDS_TRY(mds_saved_alloc_block(
            c, (i > 0 ? SAVED_INPUT : 0) | (i + 1 < n ? SAVED_REST : 0), &slab,
            &p->group[i]));
    return MDS_OK;
}

static enum mds_rc recomputed_backward(struct list_pass *p, void *d)
{
    int every = (int)mds_act_group(&p->c->run->train->act), end = p->chunk->is.layers;
    int first = (end - 1) / every * every;
    struct fetched *x = &p->fetched;

    if (p->buffer->block[first].away[SAVED_X])
        x->copy = mds_saved_get_x(p->c, &p->buffer->block[first], x->x[1]);
    for (; end > 0; end = first, first -= every) {
        const struct saved *s = &p->buffer->block[first];
        void *fetched = x->x[1];

        x->x[1] = x->x[0];
        x->x[0] = fetched;
        if (s->away[SAVED_X])
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
