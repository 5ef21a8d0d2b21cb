/* SPDX-License-Identifier: BSD-3-Clause */
/* A step: micro-batches through the pipeline, sums over ranks, read-back, update. */
#include "engine/engine.h"
#include "device/profile.h"
#include "engine/internal.h"
#include "optim/clip.h"

#include <math.h>
#include <string.h>

/* ---- batches ---- */

/* Any word where there is no token. */
static int32_t input_at(const struct mds_engine_rows *rows, int64_t i)
{
    return rows->token[i] < 0 ? 0 : rows->token[i];
}

/* -1, no loss, where the next token is masked or there is none. */
static int32_t target_at(const struct mds_engine_rows *rows, int64_t i)
{
    int masked = rows->kind && rows->kind[i + 1] == MDS_KIND_MASKED;

    return masked ? -1 : rows->token[i + 1];
}

/* -1 where the next token is another document's, too. */
static int32_t target_in_document_at(const struct mds_engine_rows *rows, int64_t i)
{
    return rows->start[i + 1] == rows->start[i] ? target_at(rows, i) : -1;
}

static int32_t kind_at(const struct mds_engine_rows *rows, int64_t i)
{
    return rows->kind[i + 1] == MDS_KIND_MASKED ? 0 : rows->kind[i + 1];
}

/* Copy this rank's tokens of a micro-batch, rows [B, S+1], to e->staged [tokens, B]. */
static void stage_tokens(struct mds_engine *e, const struct mds_par *par,
                         const struct mds_engine_rows *rows,
                         int32_t (*of)(const struct mds_engine_rows *rows, int64_t i))
{
    int64_t row = e->config->model.seq_length + 1, at = 0;

    for (int i = 0; i < par->tokens.runs; i++)
        for (int64_t s = 0; s < par->tokens.run[i].n; s++)
            for (int64_t b = 0; b < par->B; b++)
                e->staged[at++] = of(rows, b * row + par->tokens.run[i].first + s);
}

/* Copy the kinds of this rank's targets of a micro-batch to e->staged, as bytes. */
static void stage_kinds(struct mds_engine *e, const struct mds_par *par,
                        const struct mds_engine_rows *rows)
{
    unsigned char *kinds = (unsigned char *)e->staged;

    stage_tokens(e, par, rows, kind_at);
    for (int64_t i = 0; i < e->tokens_here; i++)
        kinds[i] = (unsigned char)e->staged[i];
}

static void count_pairs(struct mds_engine *e, const int32_t *start)
{
    const struct mds_model_config *m = &e->config->model;

    for (int64_t s = 0; s < m->seq_length; s++)
        if (s + 1 == m->seq_length || start[s + 1] != start[s])
            mds_pairs_add(&e->pairs, 1,
                          mds_pairs_of_document(s + 1 - start[s], m->window));
}

/* rows [B, S + 1] of a micro-batch to `to` [S, B]. */
static void order_by_token(const struct mds_engine *e, const int32_t *rows, int32_t *to)
{
    int64_t S = e->config->model.seq_length, B = e->config->batch.micro;

    for (int64_t s = 0; s < S; s++)
        for (int64_t b = 0; b < B; b++)
            to[s * B + b] = rows[b * (S + 1) + s];
}

/* Copy the starts, and positions, of all tokens of micro-batch i to host memory, and
 * look whether any of its rows has a second document, and whether one goes on. */
static void order_starts(struct mds_engine *e, const struct mds_engine_rows *rows,
                         int64_t i)
{
    int64_t S = e->config->model.seq_length, B = e->config->batch.micro;
    int64_t at = i * e->starts_here;

    order_by_token(e, rows->start, e->host_start + at);
    if (e->position)
        order_by_token(e, rows->position, e->host_position + at);
    e->has_documents[i] = e->has_prefixes[i] = 0;
    for (int64_t k = at; k < at + e->starts_here; k++) {
        e->has_documents[i] |= e->host_start[k] > 0;
        e->has_prefixes[i] |= e->position && e->host_position[k] < e->host_start[k];
    }
    for (int64_t b = 0; b < B; b++)
        count_pairs(e, rows->start + b * (S + 1));
}

static struct mds_engine_rows rows_of_micro_batch(const struct mds_engine *e,
                                                  const struct mds_engine_rows *rows,
                                                  int64_t i)
{
    int64_t at = i * e->config->batch.micro * (e->config->model.seq_length + 1);

    return (struct mds_engine_rows){.token = rows->token + at,
                                    .start = rows->start ? rows->start + at : NULL,
                                    .position =
                                        rows->position ? rows->position + at : NULL,
                                    .kind = rows->kind ? rows->kind + at : NULL};
}

/* Kinds and starts of micro-batch i, if rows have any; rows NULL: a dry device. */
static void load_kinds(struct mds_engine *e, const struct mds_par *par,
                       const struct mds_engine_rows *rows, int64_t i)
{
    if (!e->kind)
        return;
    if (rows)
        stage_kinds(e, par, rows);
    mds_dev_copy_in(e->dev, e->kind + i * e->tokens_here, e->staged, e->tokens_here);
}

static void load_starts(struct mds_engine *e, const struct mds_engine_rows *rows,
                        int64_t i)
{
    int64_t at = i * e->starts_here;

    if (e->starts_here == 0)
        return;
    if (rows)
        order_starts(e, rows, i);
    mds_dev_copy_in(e->dev, e->start + at, rows ? e->host_start + at : NULL,
                    e->starts_here * (int64_t)sizeof *e->start);
    if (e->position)
        mds_dev_copy_in(e->dev, e->position + at, rows ? e->host_position + at : NULL,
                        e->starts_here * (int64_t)sizeof *e->position);
}

/* Copy the tokens of micro-batch i to the device.  A dry device is only charged for the
 * copy: a plan runs thousands of dry steps of long sequences. */
static void load_micro_batch(struct mds_engine *e, const struct mds_par *par,
                             const struct mds_engine_rows *rows, int64_t i)
{
    int64_t bytes = e->tokens_here * (int64_t)sizeof *e->token;
    int masks = e->config->data.eod_mask_loss;
    struct mds_engine_rows some;
    int there = mds_dev_kernels(e->dev) != NULL;

    if (there)
        some = rows_of_micro_batch(e, rows, i);
    if (there)
        stage_tokens(e, par, &some, input_at);
    mds_dev_copy_in(e->dev, e->token + i * e->tokens_here, e->staged, bytes);
    if (there)
        stage_tokens(e, par, &some, masks ? target_in_document_at : target_at);
    mds_dev_copy_in(e->dev, e->target + i * e->tokens_here, e->staged, bytes);
    load_kinds(e, par, there ? &some : NULL, i);
    load_starts(e, there ? &some : NULL, i);
}

static void load_batch(struct mds_engine *e, const struct mds_engine_rows *rows,
                       int64_t micro_batches)
{
    struct mds_par par = {.groups = e->groups};

    mds_par_set_batch(&par, e->config->batch.micro, e->config->model.seq_length, 0);
    e->pairs = (struct mds_pairs){0, 0};
    e->micro_batches = micro_batches;
    for (int64_t i = 0; i < micro_batches; i++)
        load_micro_batch(e, &par, rows, i);
}

/* The sums of a micro-batch's losses in e->scalars. */
static double *sums_of(const struct mds_engine *e, int64_t micro_batch)
{
    int64_t own = e->training ? 0 : micro_batch;

    return e->scalars + own * 2 * mds_kind_sums(&e->config->data.kinds);
}

/* What is kept of a micro-batch's tokens, or NULL. */
static void *hidden_of(const struct mds_engine *e, int micro_batch)
{
    return e->hidden ? e->hidden + micro_batch * e->hidden_bytes : NULL;
}

static int has_logits(const struct mds_engine *e)
{
    return e->config->train.hidden == MDS_HIDDEN_LOGITS;
}

static struct mds_targets targets_of(const struct mds_engine *e, int micro_batch)
{
    const struct mds_kind_table *t = &e->config->data.kinds;
    int64_t at = micro_batch * e->tokens_here;

    return (struct mds_targets){.id = e->target + at,
                                .kinds = {.n = t->n,
                                          .of = e->kind ? e->kind + at : NULL,
                                          .weight = e->kind_weight},
                                .loss = e->loss ? e->loss + at : NULL,
                                .logits =
                                    has_logits(e) ? hidden_of(e, micro_batch) : NULL,
                                .sum = sums_of(e, micro_batch),
                                .count = sums_of(e, micro_batch) + mds_kind_sums(t)};
}

/* Rows of one document are computed without starts: the result is the same, and all
 * attention kernels can do it. */
static struct mds_gpt_batch batch_of(const struct mds_engine *e, int micro_batch)
{
    const struct mds_data_config *d = &e->config->data;
    int64_t at = micro_batch * e->starts_here;
    int several = e->starts_here > 0 && e->has_documents[micro_batch];
    const int32_t *start = several ? e->start + at : NULL;
    const int32_t *host_start = several ? e->host_start + at : NULL;

    return (struct mds_gpt_batch){
        .first_sample = e->first_sample + micro_batch * e->config->batch.micro,
        .number = micro_batch,
        .token = e->token + micro_batch * e->tokens_here,
        .targets = targets_of(e, micro_batch),
        .hidden = has_logits(e) ? NULL : hidden_of(e, micro_batch),
        .key_start = d->reset_attention_mask ? start : NULL,
        .host_key_start = d->reset_attention_mask ? host_start : NULL,
        .position_start = e->position             ? e->position + at
                          : d->reset_position_ids ? start
                                                  : NULL,
        .host_position_start = e->starts_here > 0 && e->has_prefixes[micro_batch]
                                   ? e->host_position + at
                                   : NULL};
}

/* ---- what the pipeline calls ---- */

static int is_last_pass(const struct mds_engine *e, int micro_batch)
{
    return micro_batch == e->micro_batches - 1;
}

/* The model's last chunk (out is NULL) computes the loss and its gradients in one
 * forward, which thus begins the backward pass. */
static enum mds_rc forward_chunk(void *ctx, int micro_batch, int chunk, const void *in,
                                 void *out)
{
    struct mds_engine *e = ctx;
    const struct pipeline *p = e->training ? &e->train : &e->eval;
    struct mds_gpt_batch batch = batch_of(e, micro_batch);
    int buffer = mds_schedule_saved_buffer(p->schedule, micro_batch, chunk);

    e->micro_batch = micro_batch;
    if (e->training && !out)
        mds_zero_pass_begin(e->zero, is_last_pass(e, micro_batch));
    mds_range_begin("forward");
    MDS_TRY(mds_gpt_forward(e->gpt_step, chunk, buffer, &batch, in, out));
    mds_range_end();
    return MDS_OK;
}

static enum mds_rc backward_chunk(void *ctx, int micro_batch, int chunk,
                                  const void *d_out, void *d_in)
{
    struct mds_engine *e = ctx;
    struct mds_gpt_batch batch = batch_of(e, micro_batch);
    int buffer = mds_schedule_saved_buffer(e->train.schedule, micro_batch, chunk);

    e->micro_batch = micro_batch;
    mds_zero_pass_begin(e->zero, is_last_pass(e, micro_batch));
    mds_range_begin("backward");
    MDS_TRY(mds_gpt_backward(e->gpt_step, chunk, buffer, &batch, d_out, d_in));
    mds_range_end();
    return MDS_OK;
}

void mds_engine_report_to(struct mds_engine *e,
                          void (*report)(void *ctx, const struct mds_step_position *at),
                          void *ctx)
{
    e->report = report;
    e->report_ctx = ctx;
}

static void report_block(void *ctx, int backward, int layer)
{
    const struct mds_engine *e = ctx;
    struct mds_step_position at = {e->micro_batch, backward, layer, e->training};

    e->report(e->report_ctx, &at);
}

/* Where the gradient's squares are in e->scalars. */
static int squares_at(const struct mds_engine *e)
{
    return 2 * mds_kind_sums(&e->config->data.kinds);
}

/* Of the step, over all ranks. */
static double batch_rows(const struct mds_engine *e)
{
    const struct mds_batch_config *b = &e->config->batch;

    return (double)(b->global / b->accumulation * e->micro_batches);
}

static double batch_tokens(const struct mds_engine *e)
{
    return batch_rows(e) * (double)e->config->model.seq_length;
}

/* Gradients are made for the mean over all tokens, before anyone knows how many count.
 */
static enum mds_rc run_pipeline(struct mds_engine *e, const struct pipeline *p,
                                int64_t step)
{
    const struct mds_config *c = e->config;
    struct mds_arena_mark mark = mds_arena_mark(&e->step);
    struct mds_pipe_stage stage = {e, forward_chunk, backward_chunk};
    struct mds_gpt_run run = {.dev = e->dev,
                              .arena = &e->step,
                              .host = e->host.dev ? &e->host : NULL,
                              .train = &c->train,
                              .B = c->batch.micro,
                              .S = c->model.seq_length,
                              .saved_buffers = mds_schedule_saved_buffers(p->schedule),
                              .training = e->training,
                              .step = (uint32_t)step,
                              .grad_scale = (float)(e->scale.scale / batch_tokens(e)),
                              .expert_load = e->training ? e->expert_load : NULL,
                              .batch_load = e->training ? e->batch_load : NULL,
                              .router_losses = e->training ? e->router_sums : NULL,
                              .expert_bias = e->expert_bias,
                              .logit_bound = e->training ? e->logit.bound : NULL,
                              .block_queued = e->report ? report_block : NULL,
                              .ctx = e};

    mds_dev_zero(e->dev, e->scalars, e->n_scalars * (int64_t)sizeof *e->scalars);
    if (e->training) {
        mds_engine_clear_load(e);
        mds_engine_clear_logits(e);
    }
    MDS_TRY(mds_pipe_alloc(p->pipe, &e->step));
    MDS_TRY(mds_gpt_step_begin(e->gpt_step, &run));
    MDS_TRY(mds_pipe_run(p->pipe, &stage, (int)e->micro_batches));
    mds_gpt_step_end(e->gpt_step);
    mds_arena_release(&e->step, mark);
    return MDS_OK;
}

/* ---- the read-back point ---- */

/* What is read back: scalars, and the pairs that attention sees. */
enum { SUMS_MAX = 2 * MDS_KINDS_MAX + 3 };

struct read {
    struct mds_kind_losses losses;
    double loss_sum, targets; /* weighted */
    double grad_squares;
    struct mds_pairs pairs;
};

static struct mds_kind_losses sort_losses(const struct mds_kind_table *t,
                                          const double *sums)
{
    size_t bytes = (size_t)mds_kind_sums(t) * sizeof *sums;
    struct mds_kind_losses losses = {{0}, {0}};

    memcpy(losses.sum, sums, bytes);
    memcpy(losses.count, sums + mds_kind_sums(t), bytes);
    return losses;
}

static void sort_sums(const struct mds_engine *e, const double *sums, struct read *out)
{
    const struct mds_kind_table *t = &e->config->data.kinds;
    int squares = squares_at(e);

    *out = (struct read){.losses = sort_losses(t, sums),
                         .grad_squares = sums[squares],
                         .pairs = {sums[squares + 1], sums[squares + 2]}};
    mds_kind_losses_total(&out->losses, t, &out->loss_sum, &out->targets);
}

/* Tensor ranks have the same losses: they are counted on the first. */
static int counts_losses(const struct mds_engine *e)
{
    return mds_groups_last_stage(e->groups) &&
           mds_groups_rank(e->groups, MDS_AXIS_TENSOR) == 0;
}

/* printf shows the sign of a NaN, which means nothing. */
static void drop_signs_of_nan(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = isnan(x[i]) ? NAN : x[i];
}

/* Everything a step's control flow may depend on, summed over the world: losses,
 * targets, squared gradient norm; and, of rows with documents, the pairs that attention
 * sees. */
static enum mds_rc read_back(struct mds_engine *e, struct read *out)
{
    int squares = squares_at(e), n = squares + 1 + 2 * (e->starts_here > 0);
    /* of a replica: all of them counted the same rows */
    double ranks = mds_groups_size(e->groups, MDS_AXES_ALL) /
                   (double)mds_groups_size(e->groups, MDS_AXIS_DATA);
    double sums[SUMS_MAX] = {0};

    MDS_TRY(mds_dev_copy_out(e->dev, sums, e->scalars,
                             (int64_t)(squares + 1) * (int64_t)sizeof *sums));
    if (!counts_losses(e))
        memset(sums, 0, (size_t)squares * sizeof *sums);
    sums[squares + 1] = e->pairs.global / ranks;
    sums[squares + 2] = e->pairs.local / ranks;
    MDS_TRY(mds_comm_all_reduce_f64(mds_group(e->groups, MDS_AXES_ALL), sums, n,
                                    MDS_COMM_SUM));
    drop_signs_of_nan(sums, squares + 1);
    sort_sums(e, sums, out);
    return MDS_OK;
}

/* ---- the parts of a step ---- */

static enum mds_rc sum_gradients(struct mds_engine *e)
{
    int tied = mds_gpt_tied_unit(e->gpt);

    MDS_TRY(mds_zero_finish(e->zero));
    if (tied >= 0 && mds_comm_size(mds_group(e->groups, MDS_GROUP_ENDS)) > 1)
        MDS_TRY(mds_zero_sum_unit(e->zero, tied, mds_group(e->groups, MDS_GROUP_ENDS)));
    return mds_zero_grad_squares(e->zero, e->scalars + squares_at(e));
}

/* pairs: counted in the global batch. */
static struct mds_pairs share_seen(const struct mds_engine *e, struct mds_pairs pairs)
{
    const struct mds_config *c = e->config;

    if (e->starts_here == 0 || !c->data.reset_attention_mask)
        return mds_pairs_whole_row(c->model.seq_length, c->model.window);
    return mds_pairs_share(pairs, batch_rows(e), c->model.seq_length);
}

enum mds_rc mds_engine_backward(struct mds_engine *e, int64_t step,
                                int64_t first_sample, int64_t micro_batches,
                                const struct mds_engine_rows *rows,
                                struct mds_step_result *out)
{
    struct read sums;
    double loss;

    if (e->config->train.skip_train)
        return mds_fail(MDS_EBUG, "a training step of an engine that only evaluates");
    e->training = 1;
    e->first_sample = first_sample;
    load_batch(e, rows, micro_batches);
    mds_zero_step_begin(e->zero);
    MDS_TRY(run_pipeline(e, &e->train, step));
    MDS_TRY(sum_gradients(e));
    MDS_TRY(read_back(e, &sums));
    MDS_TRY(mds_engine_read_logits(e));
    MDS_TRY(mds_engine_read_load(e, batch_tokens(e)));
    loss = sums.targets > 0 ? sums.loss_sum / sums.targets : 0;
    e->grad_scale = e->scale.scale;
    if (sums.targets > 0)
        e->grad_scale *= sums.targets / batch_tokens(e);
    e->grad_norm = sqrt(sums.grad_squares) / e->grad_scale;
    /* The loss is summed before it is scaled, so the scale cannot overflow it. */
    e->overflow = isfinite(loss) && !isfinite(e->grad_norm) &&
                  mds_loss_scale_absorbs_overflow(&e->scale);
    *out = (struct mds_step_result){.loss = loss,
                                    .targets = sums.targets,
                                    .by_kind = sums.losses,
                                    .seen = share_seen(e, sums.pairs),
                                    .grad_norm = e->grad_norm,
                                    .loss_scale = e->scale.scale,
                                    .expert_load = e->load,
                                    .logit_bound = e->logit.layer,
                                    .clipped_heads = e->logit.clipped,
                                    .router_losses = e->router_losses,
                                    .overflow = e->overflow};
    return MDS_OK;
}

enum mds_rc mds_engine_update(struct mds_engine *e, double lr)
{
    double clip = mds_clip_scale(e->config->optim.clip_grad, e->grad_norm);
    mds_loss_scale_update(&e->scale, e->overflow);
    if (e->overflow)
        return MDS_OK;
    mds_range_begin("optimizer");
    mds_zero_scale_heads(e->zero, mds_engine_head_factors(e));
    MDS_TRY(mds_zero_update(e->zero, lr, clip / e->grad_scale));
    mds_engine_update_biases(e);
    mds_range_end();
    return MDS_OK;
}

enum mds_rc mds_engine_eval(struct mds_engine *e, const struct mds_engine_rows *rows,
                            int64_t micro_batches, struct mds_kind_losses *losses)
{
    const struct mds_kind_table *t = &e->config->data.kinds;
    double sums[2 * MDS_KINDS_MAX] = {0};

    e->training = 0;
    e->first_sample = 0;
    load_batch(e, rows, micro_batches);
    MDS_TRY(run_pipeline(e, &e->eval, 0));
    for (int64_t i = 0; i < micro_batches; i++) {
        MDS_TRY(mds_dev_copy_out(e->dev, sums, sums_of(e, i),
                                 2 * mds_kind_sums(t) * (int64_t)sizeof *sums));
        if (!counts_losses(e))
            memset(sums, 0, sizeof sums);
        losses[i] = sort_losses(t, sums);
    }
    return MDS_OK;
}

enum mds_rc mds_engine_sum_losses(const struct mds_engine *e,
                                  struct mds_kind_losses *losses, int n)
{
    const int doubles = sizeof *losses / sizeof(double);
    double *sums = (double *)losses;

    MDS_TRY(mds_comm_all_reduce_f64(mds_group(e->groups, MDS_AXES_ALL), sums,
                                    n * doubles, MDS_COMM_SUM));
    drop_signs_of_nan(sums, (int64_t)n * doubles);
    return MDS_OK;
}
