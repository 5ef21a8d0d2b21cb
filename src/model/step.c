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
static enum mds_rc create_recompute_group(struct mds_gpt_step *s)
{
    struct saved *more;
    int n = (int)mds_act_group(&s->c.run->train->act);

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

    for (int l = 0; l < g->max_layers; l++) {
        const struct slab_size slab = mds_gpt_slab_size(c, &s->lists, l);

        MDS_TRY(mds_saved_alloc_layer(c, l, &slab, buffer));
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

/* ---- forward ---- */

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

static enum mds_rc forward(const struct context *c, const struct pass *p,
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
    if (mds_gpt_generates(&s->c) && mds_gpt_is_tiled(&s->c))
        return mds_fail(MDS_EBUG, "a cache of keys and values, and blocks in tiles");
    return forward(&s->c, &p, &s->lists);
}

const struct mds_shard_tokens *mds_gpt_step_tokens(const struct mds_gpt_step *s)
{
    return &s->c.par.slice;
}

/* ---- backward ---- */

enum mds_rc mds_gpt_backward(struct mds_gpt_step *s, int chunk, int buffer,
                             const struct mds_gpt_batch *batch, const void *d_out,
                             void *d_in)
{
    const struct model_chunk *p = &s->g->chunk[chunk];
    struct saved_buffer *saved = &s->saved_buffer[buffer];
    struct context *c = &s->c;
    struct list_pass blocks = {
        .c = c, .lists = &s->lists, .chunk = p, .buffer = saved, .group = s->group};
    void *d = p->is.is_last ? saved->d : s->d;

    mds_gpt_context(s->g, &s->run, batch, c);
    if (!p->is.is_last)
        MDS_TRY(mds_gpt_form_sum(c, (struct residual){.x = (void *)d_out}, d));
    MDS_TRY(mds_gpt_lists_backward(&blocks, d));
    if (p->is.is_first)
        return mds_gpt_embed_bwd(c, batch->token, d);
    return mds_gpt_form_sum(c, (struct residual){.x = d}, d_in);
}
