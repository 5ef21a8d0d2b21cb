/* SPDX-License-Identifier: BSD-3-Clause */
/* Forward and backward of micro-batches through the model chunks of a stage. */
#include "model/lists.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "tensor/op.h"

#include <stdlib.h>

struct mds_gpt_step {
    const struct mds_gpt *g; /* borrowed */
    int saved_buffers;       /* allocated below */
    struct saved_buffer *saved_buffer;
    struct saved *group; /* [groups]: what the blocks of a recompute group save */
    int groups;
    struct fp8_amax fp8_amax;
    struct block_lists lists; /* compiled at the first step that uses them */

    /* between begin and end */
    struct mds_gpt_run run;
    struct mds_arena_mark mark, host_mark;
    struct context c; /* of the current micro-batch */
    void *d; /* [Rs,H]: the residual stream's gradient; not used for the last chunk */
};

/* ---- creation ---- */

enum mds_rc mds_gpt_step_create(const struct mds_gpt *g, struct mds_gpt_step **out)
{
    struct mds_gpt_step *s = mds_zalloc(1, sizeof *s);

    if (!s)
        return MDS_EMEM;
    s->g = g;
    *out = s;
    return MDS_OK;
}

void mds_gpt_step_destroy(struct mds_gpt_step *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->saved_buffers; i++)
        free(s->saved_buffer[i].block);
    free(s->saved_buffer);
    free(s->group);
    mds_gpt_fp8_free(&s->fp8_amax);
    free(s);
}

void mds_gpt_show_step(const struct mds_gpt_step *s, FILE *f)
{
    mds_gpt_show_lists(&s->lists, f);
}

/* Grows only if a step has more saved buffers than any step before. */
static enum mds_rc create_saved_buffers(struct mds_gpt_step *s)
{
    struct saved_buffer *buffer;

    if (s->saved_buffers >= s->run.saved_buffers)
        return MDS_OK;
    buffer = mds_realloc(s->saved_buffer, (size_t)s->run.saved_buffers, sizeof *buffer);
    if (!buffer)
        return MDS_EMEM;
    s->saved_buffer = buffer;
    while (s->saved_buffers < s->run.saved_buffers) {
        s->saved_buffer[s->saved_buffers] = (struct saved_buffer){0};
        buffer = &s->saved_buffer[s->saved_buffers++];
        buffer->block = mds_zalloc((size_t)s->g->max_layers, sizeof *buffer->block);
        if (!buffer->block)
            return MDS_EMEM;
    }
    return MDS_OK;
}

/* Blocks of a recompute group, of which only the first block's input is kept. */
static int group_size(const struct context *c)
{
    return (int)mds_act_group(&c->run->train->act);
}

static enum mds_rc create_recompute_group(struct mds_gpt_step *s)
{
    struct saved *more;
    int n = group_size(&s->c);

    if (n <= s->groups)
        return MDS_OK;
    more = mds_realloc(s->group, (size_t)n, sizeof *more);
    if (!more)
        return MDS_EMEM;
    s->group = more;
    s->groups = n;
    return MDS_OK;
}

/* What blocks save, and the gradient that the head leaves. */
static enum mds_rc alloc_buffer(struct mds_gpt_step *s, struct saved_buffer *buffer)
{
    const struct mds_gpt *g = s->g;
    const struct context *c = &s->c;
    int lists = mds_gpt_uses_lists(c);

    for (int l = 0; l < g->max_layers; l++) {
        const struct slab_size slab = mds_gpt_slab_size(c, &s->lists, l);

        MDS_TRY(mds_saved_alloc_layer(c, l, lists ? &slab : NULL, buffer));
    }
    if (!g->chunk[g->n_chunks - 1].is.is_last)
        return MDS_OK;
    return mds_par_alloc(&c->par, MDS_MEM_ACT, mds_gpt_residual_size(c), &buffer->d);
}

static enum mds_rc alloc_step(struct mds_gpt_step *s)
{
    const struct mds_gpt *g = s->g;
    const struct context *c = &s->c;

    if (g->norm_sums && s->run.training)
        MDS_TRY(
            mds_par_alloc_f32(&c->par, MDS_MEM_WORK, g->norm_sums, &s->c.norm_sums));
    if (g->cfg.fp8.format != MDS_FP8_NONE)
        MDS_TRY(mds_gpt_fp8_step_begin(c, &s->fp8_amax));
    s->d = NULL;
    if (s->run.training && (!g->chunk[g->n_chunks - 1].is.is_last || g->n_chunks > 1))
        MDS_TRY(mds_gpt_scratch(c, mds_gpt_residual_size(c), &s->d));
    MDS_TRY(create_saved_buffers(s));
    MDS_TRY(create_recompute_group(s));
    if (mds_gpt_uses_lists(c))
        MDS_TRY(mds_gpt_compile_lists(c, &s->lists));
    for (int k = 0; k < s->run.saved_buffers && s->run.training; k++)
        MDS_TRY(alloc_buffer(s, &s->saved_buffer[k]));
    return MDS_OK;
}

enum mds_rc mds_gpt_step_begin(struct mds_gpt_step *s, const struct mds_gpt_run *run)
{
    static const struct mds_gpt_batch none;

    s->run = *run;
    s->c.norm_sums = NULL;
    s->c.fp8_amax = &s->fp8_amax;
    mds_gpt_context(s->g, &s->run, &none, &s->c);
    s->mark = mds_arena_mark(run->arena);
    if (run->host)
        s->host_mark = mds_arena_mark(run->host);
    return alloc_step(s);
}

void mds_gpt_step_end(struct mds_gpt_step *s)
{
    mds_arena_release(s->run.arena, s->mark);
    if (s->run.host)
        mds_arena_release(s->run.host, s->host_mark);
}

/* ---- buffers of a pass ---- */

struct marks {
    struct mds_arena_mark device, host;
};

static struct marks mark_arenas(const struct context *c)
{
    struct marks m = {.device = mds_arena_mark(c->par.arena)};

    if (c->run->host)
        m.host = mds_arena_mark(c->run->host);
    return m;
}

static void release_arenas(const struct context *c, struct marks m)
{
    mds_arena_release(c->par.arena, m.device);
    if (c->run->host)
        mds_arena_release(c->run->host, m.host);
}

/* Whether some blocks do not save all that backward reads. */
static int recomputes(const struct context *c)
{
    return !c->run->training ||
           mds_recompute_of(&c->run->train->act) != MDS_RECOMPUTE_NONE;
}

/* Memory for a block's input or for the gradient of attention's result. */
static enum mds_rc alloc_input(const struct context *c, void **out)
{
    int64_t n = mds_saved_elements(c, SAVED_X), o = mds_saved_elements(c, SAVED_O);

    return mds_gpt_scratch(c, mds_max(n, o), out);
}

static enum mds_rc alloc_on_host(const struct context *c, int64_t elements, void **out)
{
    return mds_arena_alloc(c->run->host, MDS_MEM_WORK,
                           elements * (int64_t)mdsk_dtype_size(c->par.dtype), out);
}

/* Host buffers of chunked attention: q, k, v, and for backward their gradients. */
static enum mds_rc alloc_chunked(const struct context *c, struct mds_chunked *f,
                                 int backward)
{
    int64_t o = mds_saved_elements(c, SAVED_O), qkv = mds_saved_elements(c, SAVED_QKV);
    void *dq = NULL;

    f->chunk = c->run->train->act.attention_chunk;
    MDS_TRY(alloc_on_host(c, o, &f->q));
    MDS_TRY(alloc_on_host(c, qkv - o, &f->kv));
    if (!backward)
        return MDS_OK;
    MDS_TRY(alloc_on_host(c, o, &f->d_o));
    MDS_TRY(
        mds_arena_alloc(c->run->host, MDS_MEM_WORK, o * (int64_t)sizeof *f->dq, &dq));
    f->dq = dq;
    return MDS_OK;
}

/* Device buffers: q, k, v, and for backward the gradient of attention's result. */
static enum mds_rc alloc_attention_buffers(const struct context *c, struct work *w,
                                           int backward)
{
    if (mds_saved_is_missing(c, SAVED_QKV))
        MDS_TRY(mds_gpt_scratch(c, mds_saved_elements(c, SAVED_QKV), &w->qkv));
    return backward ? alloc_input(c, &w->d_o) : MDS_OK;
}

enum mds_rc mds_gpt_alloc_attention(const struct context *c, struct work *w,
                                    int backward)
{
    int64_t o = mds_saved_elements(c, SAVED_O), lse = mds_saved_elements(c, SAVED_LSE);
    int chunked = mds_gpt_is_chunked(c);

    if (mds_saved_is_missing(c, SAVED_LSE))
        MDS_TRY(mds_par_alloc_f32(&c->par, MDS_MEM_WORK, lse, &w->lse));
    MDS_TRY(chunked ? alloc_chunked(c, &w->chunked, backward)
                    : alloc_attention_buffers(c, w, backward));
    if (!mds_saved_is_missing(c, SAVED_O))
        return MDS_OK;
    return chunked ? alloc_on_host(c, o, &w->o) : mds_gpt_scratch(c, o, &w->o);
}

static enum mds_rc alloc_branch(const struct context *c, struct work *w)
{
    return mds_gpt_is_tiled(c)
               ? MDS_OK
               : mds_gpt_scratch(c, mds_gpt_residual_size(c), &w->branch);
}

static void report_block(const struct context *c, const struct block_ids *id,
                         int backward)
{
    if (c->run->block_queued)
        c->run->block_queued(c->run->ctx, backward, id->number);
}

/* ---- forward ---- */

/* All blocks of a model chunk.  *x: the stream before the first block, which is its
 * input buffer; afterwards the stream behind the last, which may be in y. */
static enum mds_rc blocks_fwd(const struct context *c, const struct model_chunk *p,
                              struct saved_buffer *buffer, struct work *w,
                              struct residual *x, void *y)
{
    static const struct saved none;
    int training = c->run->training, slots = mds_saved_slots(c);

    for (int l = 0; l < p->is.layers; l++) {
        const struct saved *s = training ? &buffer->block[l] : &none;
        const struct saved *after = training ? s + 1 : &none;
        void *to = l + 1 < p->is.layers ? mds_gpt_block_input(w, after) : y;

        mds_saved_wait(c, p, buffer, l - slots);
        MDS_TRY(mds_gpt_block_fwd(c, &p->block[l], w, s, x, to));
        mds_saved_offload(c, p, buffer, l);
        report_block(c, &p->block[l], 0);
    }
    mds_dev_wait_copy(c->par.dev, w->o_copy);
    return MDS_OK;
}

/* A pass of a micro-batch through a model chunk. */
struct pass {
    const struct model_chunk *chunk;
    struct saved_buffer *saved;
    const struct mds_gpt_batch *batch;
    const void *in;
    void *out;
};

/* x = the stream before the first block. */
static enum mds_rc enter_chunk(const struct context *c, const struct pass *p, void *x)
{
    return p->chunk->is.is_first
               ? mds_gpt_embed_fwd(c, p->batch->token, x)
               : mds_gpt_form_sum(c, (struct residual){.x = (void *)p->in}, x);
}

/* The stream behind the last block -> loss, hidden states, or the next chunk. */
static enum mds_rc leave_chunk(const struct context *c, const struct pass *p,
                               struct residual x)
{
    if (!p->chunk->is.is_last)
        return mds_gpt_form_sum(c, x, p->out);
    if (p->batch->hidden)
        return c->run->train->hidden == MDS_HIDDEN_NORMED
                   ? mds_gpt_final_norm(c, x, p->batch->hidden)
                   : mds_gpt_form_sum(c, x, p->batch->hidden);
    if (mds_gpt_generates(c))
        return p->batch->logits ? mds_gpt_logits(c, x, p->batch->logits) : MDS_OK;
    return mds_gpt_head(c, c->g->chunk[0].is.is_first, x, &p->batch->targets,
                        c->run->training ? p->saved->d : NULL);
}

static enum mds_rc explicit_forward(const struct context *c, const struct pass *p)
{
    struct mds_arena_mark mark = mds_arena_mark(c->run->arena);
    struct marks attention;
    struct work w = {0};
    struct residual x = {0};

    if (recomputes(c))
        MDS_TRY(alloc_input(c, &w.x));
    MDS_TRY(alloc_branch(c, &w));
    x.x = c->run->training ? mds_gpt_block_input(&w, &p->saved->block[0]) : w.x;
    MDS_TRY(enter_chunk(c, p, x.x));
    attention = mark_arenas(c);
    MDS_TRY(mds_gpt_alloc_attention(c, &w, 0));
    MDS_TRY(blocks_fwd(c, p->chunk, p->saved, &w, &x, p->out ? p->out : w.x));
    release_arenas(c, attention);
    MDS_TRY(leave_chunk(c, p, x));
    mds_arena_release(c->run->arena, mark);
    return MDS_OK;
}

static enum mds_rc forward_by_lists(const struct context *c, const struct pass *p,
                                    const struct block_lists *lists)
{
    struct list_pass blocks = {
        .c = c, .lists = lists, .chunk = p->chunk, .buffer = p->saved};
    struct residual x;

    MDS_TRY(mds_gpt_lists_begin(&blocks, &x));
    MDS_TRY(enter_chunk(c, p, x.x));
    MDS_TRY(mds_gpt_lists_forward(&blocks, &x));
    MDS_TRY(leave_chunk(c, p, x));
    mds_gpt_lists_end(&blocks);
    return MDS_OK;
}

enum mds_rc mds_gpt_forward(struct mds_gpt_step *s, int chunk, int buffer,
                            const struct mds_gpt_batch *batch, const void *in,
                            void *out)
{
    const struct pass p = {.chunk = &s->g->chunk[chunk],
                           .saved = &s->saved_buffer[buffer],
                           .batch = batch,
                           .in = in,
                           .out = out};

    mds_gpt_context(s->g, &s->run, batch, &s->c);
    if (mds_gpt_generates(&s->c) &&
        (!mds_gpt_uses_lists(&s->c) || mds_gpt_is_tiled(&s->c)))
        return mds_fail(MDS_EBUG, "a cache of keys and values, and blocks in tiles");
    return mds_gpt_uses_lists(&s->c) ? forward_by_lists(&s->c, &p, &s->lists)
                                     : explicit_forward(&s->c, &p);
}

const struct mds_shard_tokens *mds_gpt_step_tokens(const struct mds_gpt_step *s)
{
    return &s->c.par.slice;
}

/* ---- backward ---- */

/* With chunked attention the gradients are on the host, and d_o is the second buffer
 * for prefetching inputs. */
static enum mds_rc alloc_backward(const struct context *c, struct saved *group,
                                  struct work *w)
{
    int n = group_size(c), tiled = mds_gpt_is_tiled(c);

    if (mds_saved_stashes_x(c)) {
        MDS_TRY(alloc_input(c, &w->x));
        if (mds_gpt_is_chunked(c))
            MDS_TRY(alloc_input(c, &w->d_o));
    }
    MDS_TRY(mds_gpt_alloc_attention(c, w, 1));
    if (n > 1)
        MDS_TRY(alloc_branch(c, w));
    w->group = group;
    for (int i = 0; i < n; i++)
        MDS_TRY(mds_saved_alloc_block(
            c, (i > 0 ? SAVED_INPUT : 0) | (i + 1 < n && !tiled ? SAVED_REST : 0), NULL,
            &group[i]));
    return MDS_OK;
}

/* Backward of blocks first .. end - 1, a recompute group, from the input of the first,
 * the only one that was kept.  All but the last run forward again: they save
 * everything, or with tiles only their inputs. */
static enum mds_rc recompute_group_bwd(const struct context *c,
                                       const struct model_chunk *p,
                                       const struct saved *kept,
                                       const struct saved *next, struct work *w,
                                       int first, int end, void *d)
{
    int n = end - first;
    struct saved *s = w->group, last = {.at = {[SAVED_X] = s[n - 1].at[SAVED_X]}};
    struct residual x = {.x = mds_gpt_block_input(w, kept)};

    s[0].at[SAVED_X] = x.x;
    for (int i = 0; i < n - 1; i++)
        MDS_TRY(mds_gpt_block_fwd(c, &p->block[first + i], w, &s[i], &x,
                                  s[i + 1].at[SAVED_X]));
    for (int i = n - 1; i > 0; i--) {
        MDS_TRY(mds_gpt_block_bwd(c, &p->block[first + i], w,
                                  i == n - 1 ? &last : &s[i], NULL, x, d));
        x = (struct residual){.x = s[i - 1].at[SAVED_X]};
        report_block(c, &p->block[first + i], 1);
    }
    MDS_TRY(
        mds_gpt_block_bwd(c, &p->block[first], w, n > 1 ? &s[0] : kept, next, x, d));
    report_block(c, &p->block[first], 1);
    return MDS_OK;
}

/* Backward of blocks that save all that backward reads. */
static enum mds_rc saved_bwd(const struct context *c, const struct model_chunk *p,
                             struct saved_buffer *buffer, struct work *w, void *d)
{
    int slots = mds_saved_slots(c);

    for (int l = p->is.layers - 1; l >= 0; l--) {
        struct saved *s = &buffer->block[l];
        struct residual x = {.x = s->at[SAVED_X]};

        s->returned = mds_saved_wait(c, p, buffer, l);
        MDS_TRY(mds_gpt_block_bwd(c, &p->block[l], w, s, NULL, x, d));
        mds_saved_reload(c, p, buffer, l - slots);
        report_block(c, &p->block[l], 1);
    }
    return MDS_OK;
}

static enum mds_rc recomputed_bwd(const struct context *c, const struct model_chunk *p,
                                  const struct saved_buffer *buffer, struct work *w,
                                  void *d)
{
    int every = group_size(c), end = p->is.layers;
    int first = (end - 1) / every * every;

    mds_gpt_block_prefetch(c, w, &buffer->block[first]);
    for (; end > 0; end = first, first -= every) {
        const struct saved *s = &buffer->block[first];

        if (s->away[SAVED_X])
            MDS_TRY(mds_saved_finish_x(c, s, w->x_copy, w->x));
        MDS_TRY(recompute_group_bwd(c, p, s, first > 0 ? s - every : NULL, w, first,
                                    end, d));
    }
    return MDS_OK;
}

static enum mds_rc blocks_bwd(struct mds_gpt_step *s, const struct model_chunk *p,
                              struct saved_buffer *buffer, void *d)
{
    const struct context *c = &s->c;
    struct list_pass lists = {
        .c = c, .lists = &s->lists, .chunk = p, .buffer = buffer, .group = s->group};
    struct marks marks = mark_arenas(c);
    struct work w = {0};

    if (mds_gpt_uses_lists(c))
        return mds_gpt_lists_backward(&lists, d);
    MDS_TRY(alloc_backward(c, s->group, &w));
    MDS_TRY(recomputes(c) ? recomputed_bwd(c, p, buffer, &w, d)
                          : saved_bwd(c, p, buffer, &w, d));
    release_arenas(c, marks);
    return MDS_OK;
}

enum mds_rc mds_gpt_backward(struct mds_gpt_step *s, int chunk, int buffer,
                             const struct mds_gpt_batch *batch, const void *d_out,
                             void *d_in)
{
    const struct model_chunk *p = &s->g->chunk[chunk];
    struct saved_buffer *saved = &s->saved_buffer[buffer];
    struct context *c = &s->c;
    void *d = p->is.is_last ? saved->d : s->d;

    mds_gpt_context(s->g, &s->run, batch, c);
    if (!p->is.is_last)
        MDS_TRY(mds_gpt_form_sum(c, (struct residual){.x = (void *)d_out}, d));
    MDS_TRY(blocks_bwd(s, p, saved, d));
    if (p->is.is_first)
        return mds_gpt_embed_bwd(c, batch->token, d);
    return mds_gpt_form_sum(c, (struct residual){.x = d}, d_in);
}
