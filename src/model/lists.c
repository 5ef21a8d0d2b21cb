/* SPDX-License-Identifier: BSD-3-Clause */
/* Which blocks run by lists, and their forward and backward. */
#include "model/lists.h"

#include "block/build.h"
#include "block/show.h"
#include "device/arena.h"

/* ---- which ---- */

/* All blocks save the same. */
static int saves_alike(const struct mds_activations *a)
{
    return !mds_act_uses_host(a) && !a->partition_activations &&
           mds_act_group(a) == 1 && a->keep_attention == 0;
}

int mds_gpt_uses_lists(const struct context *c)
{
    const struct mds_activations *a = &c->run->train->act;

    return !mds_gpt_is_tiled(c) && !mds_gpt_is_chunked(c) && c->head_groups == 1 &&
           a->mlp_tile == 0 && c->par.chunks == 1 &&
           c->g->cfg.fp8.format == MDS_FP8_NONE &&
           (!c->run->training || saves_alike(a));
}

/* ---- compiling ---- */

static unsigned kept_parts(const struct context *c)
{
    const struct mds_activations *a = &c->run->train->act;
    struct mds_act_policy policy = mds_act_policy(a, c->g->max_layers, 0);
    unsigned keep = 0;

    for (int i = 0; i < MDS_ACT_PARTS; i++)
        if (policy.of[i])
            keep |= 1u << (i + 1);
    return keep;
}

static int64_t sum_work(const struct context *c)
{
    struct mds_comm *tp = mds_group(c->g->groups, MDS_AXIS_TENSOR);
    int64_t n = mds_gpt_residual_size(c);

    return c->g->sequence_parallel ? mds_comm_reduce_scatter_work(tp, n, c->par.dtype)
                                   : mds_comm_all_reduce_work(tp, n, c->par.dtype);
}

static struct mds_block_policy policy_of(const struct context *c)
{
    int tp = mds_groups_size(c->g->groups, MDS_AXIS_TENSOR);
    int64_t G = mds_gpt_heads(c, c->g->cfg.kv_heads);
    int64_t copied = mds_gpt_kv_heads_inside(c) - G;

    return (struct mds_block_policy){
        .ranks = {.tensor = tp,
                  .sequence = c->g->sequence_parallel,
                  .ulysses = mds_groups_size(c->g->groups, MDS_AXIS_ULYSSES),
                  .copied = 2 * copied * c->g->cfg.head_dim,
                  .sum_work = tp > 1 ? sum_work(c) : 0},
        .training = c->run->training,
        .keep = kept_parts(c),
        .gelu = c->g->cfg.activation == MDSK_GELU,
        .sum_norms = c->norm_sums != NULL};
}

enum mds_rc mds_gpt_compile_lists(const struct context *c, struct block_lists *l)
{
    const int64_t R = mds_par_rows(&c->par);
    const int64_t rows[MDS_ROWS_KINDS] = {
        [MDS_ROWS_ONE] = 1,
        [MDS_ROWS_SLICE] = mds_par_slice_rows(&c->par),
        [MDS_ROWS_GEMM] = R,
        [MDS_ROWS_HEADS] = R * mds_groups_size(c->g->groups, MDS_AXIS_ULYSSES)};
    int training = c->run->training, *done = training ? &l->trains : &l->evaluates;
    struct mds_step_list *f = training ? &l->forward : &l->evaluation;
    struct mds_block_policy policy = policy_of(c);

    if (*done)
        return MDS_OK;
    mds_step_list_init(f, rows, (int)mdsk_dtype_size(c->par.dtype));
    mds_gpt_declare_block(&c->g->cfg, policy.ranks.tensor, training, f);
    MDS_TRY(mds_block_compile(&policy, f, &l->backward));
    *done = 1;
    return MDS_OK;
}

static void show(const char *what, const struct mds_step_list *p, FILE *f)
{
    fprintf(f, "\n  %s of a block: %d steps\n", what, p->steps);
    mds_block_show(p, f);
}

void mds_gpt_show_lists(const struct block_lists *l, FILE *f)
{
    if (!l->trains && !l->evaluates)
        fputs("\n  --show-step: tiles, groups of heads, offload, FP8 and chunks of "
              "messages "
              "do not run by lists: nothing to print\n",
              f);
    if (l->trains) {
        show("forward", &l->forward, f);
        show("backward", &l->backward, f);
    }
    if (l->evaluates)
        show("evaluation", &l->evaluation, f);
}

/* ---- what is saved ---- */

enum mds_rc mds_gpt_alloc_slabs(const struct context *c, const struct block_lists *l,
                                struct saved_buffer *buffer)
{
    int none = mds_recompute_of(&c->run->train->act) == MDS_RECOMPUTE_NONE;

    for (int i = 0; i < c->g->max_layers; i++)
        MDS_TRY(mds_arena_alloc(c->run->arena, none ? MDS_MEM_ACT : MDS_MEM_CKPT,
                                l->forward.saved_bytes, &buffer->slab[i]));
    return MDS_OK;
}

/* ---- passes ---- */

static const struct mds_step_list *forward_list(const struct list_pass *p)
{
    return p->c->run->training ? &p->lists->forward : &p->lists->evaluation;
}

static struct mds_block_frame frame_of(const struct list_pass *p,
                                       struct block_pass *block, int l)
{
    block->c = p->c;
    block->id = &p->chunk->block[l];
    return (struct mds_block_frame){.arena = p->c->run->arena,
                                    .saved =
                                        p->c->run->training ? p->buffer->slab[l] : NULL,
                                    .is_sum = l == 0,
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

enum mds_rc mds_gpt_lists_begin(struct list_pass *p, struct residual *x)
{
    const struct mds_step_list *list = forward_list(p);
    struct block_pass block;
    struct mds_block_frame f = frame_of(p, &block, 0);
    void *work = NULL;

    p->mark = mds_arena_mark(p->c->run->arena);
    MDS_TRY(mds_arena_alloc(p->c->run->arena, MDS_MEM_WORK, list->pinned_bytes, &work));
    p->work = work;
    *x = (struct residual){.x = mds_block_address(list, &f, p->work, list->x)};
    return MDS_OK;
}

void mds_gpt_lists_end(struct list_pass *p)
{
    mds_arena_release(p->c->run->arena, p->mark);
}

/* What lives from block to block is in the lists' working memory: they have it while
 * they run, and nobody else writes to it in between. */
enum mds_rc mds_gpt_lists_forward(struct list_pass *p, struct residual *x)
{
    const struct mds_step_list *list = forward_list(p);
    void *work = NULL;

    mds_arena_release(p->c->run->arena, p->mark);
    for (int l = 0; l < p->chunk->is.layers; l++) {
        struct block_pass block = {0};
        struct mds_block_frame f = frame_of(p, &block, l);

        f.arg[MDS_ARG_X0] = x->x;
        MDS_TRY(mds_block_run(list, &f));
        x->x = mds_block_address(list, &f, p->work, list->y);
        x->branch = mds_block_address(list, &f, p->work, list->y_branch);
        report(p, 0, l);
    }
    return mds_arena_alloc(p->c->run->arena, MDS_MEM_WORK, list->pinned_bytes, &work);
}

enum mds_rc mds_gpt_lists_backward(struct list_pass *p, void *d)
{
    for (int l = p->chunk->is.layers - 1; l >= 0; l--) {
        struct block_pass block = {0};
        struct mds_block_frame f = frame_of(p, &block, l);

        f.arg[MDS_ARG_D] = d;
        MDS_TRY(mds_block_run(&p->lists->backward, &f));
        report(p, 1, l);
    }
    return MDS_OK;
}
