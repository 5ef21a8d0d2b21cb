/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating an engine: its parts and their memory. */
#include "engine/engine.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "engine/internal.h"
#include "parallel/attention.h"
#include "pipeline/split.h"
#include "transport/world.h"

#include <stdlib.h>
#include <string.h>

static enum mdsk_dtype dtype_of(const struct mds_config *c)
{
    static const enum mdsk_dtype types[] = {[MDS_TYPE_F32] = MDSK_F32,
                                            [MDS_TYPE_BF16] = MDSK_BF16,
                                            [MDS_TYPE_F16] = MDSK_F16};

    return types[c->train.type];
}

struct mds_dev_spec mds_engine_device(const struct mds_config *c,
                                      const struct mds_world *w)
{
    int cores = mds_host_cores() / w->local_ranks, threads = (int)c->train.threads;
    int on_gpu = strcmp(mds_dev_resolve(c->output.device), "cuda") == 0;

    return (struct mds_dev_spec){
        .name = c->output.device,
        .threads = threads ? threads : (int)mds_max(cores, 1),
        .memory_bytes = on_gpu ? 0 : mds_host_memory_available() / w->local_ranks,
        .local_rank = w->local_rank,
        .local_ranks = w->local_ranks,
        .repeatable = c->train.deterministic};
}

/* ---- model ---- */

static enum mds_rc find_model_chunk(const struct mds_engine *e, int chunk,
                                    struct mds_gpt_chunk *out)
{
    const struct mds_groups *g = e->groups;

    out->is_first = mds_groups_first_stage(g) && chunk == 0;
    out->is_last = mds_groups_last_stage(g) && chunk == e->model_chunks - 1;
    return mds_pipe_layers((int)e->config->model.layers,
                           mds_groups_size(g, MDS_AXIS_PIPELINE), e->model_chunks,
                           mds_groups_rank(g, MDS_AXIS_PIPELINE), chunk,
                           &out->first_layer, &out->layers);
}

static enum mds_rc build_model(struct mds_engine *e)
{
    struct mds_gpt_chunk *chunks = mds_zalloc((size_t)e->model_chunks, sizeof *chunks);
    struct mds_gpt_spec spec = {.config = &e->config->model,
                                .groups = e->groups,
                                .sequence_parallel =
                                    e->config->parallel.sequence_parallel,
                                .tensor_chunks = (int)e->config->parallel.tensor_chunks,
                                .positions_restart = e->config->data.reset_position_ids,
                                .chunks = chunks,
                                .n_chunks = e->model_chunks};
    enum mds_rc rc = chunks ? MDS_OK : MDS_EMEM;

    for (int i = 0; !rc && i < e->model_chunks; i++)
        rc = find_model_chunk(e, i, &chunks[i]);
    if (!rc)
        rc = mds_params_create(dtype_of(e->config), &e->params);
    spec.params = e->params;
    if (!rc)
        rc = mds_gpt_create(&spec, &e->gpt);
    free(chunks);
    return rc;
}

static int count_model_chunks(const struct mds_config *c)
{
    return c->parallel.virtual_stages > 1 ? (int)c->parallel.virtual_stages : 1;
}

enum mds_rc mds_engine_rank_params(const struct mds_config *config,
                                   const struct mds_groups *groups,
                                   struct mds_params **out)
{
    struct mds_engine e = {
        .config = config, .groups = groups, .model_chunks = count_model_chunks(config)};
    enum mds_rc rc = build_model(&e);

    mds_gpt_destroy(e.gpt);
    if (rc)
        mds_params_destroy(e.params);
    else
        *out = e.params;
    return rc;
}

/* ---- pipeline ---- */

static enum mds_rc build_pipeline(struct mds_engine *e, int forward_only,
                                  struct pipeline *p)
{
    const struct mds_batch_config *b = &e->config->batch;
    struct mds_schedule_spec s = {
        .stages = mds_groups_size(e->groups, MDS_AXIS_PIPELINE),
        .stage = mds_groups_rank(e->groups, MDS_AXIS_PIPELINE),
        .chunks = e->model_chunks,
        .micro_batches = (int)b->accumulation,
        .forward_only = forward_only};
    struct mds_pipe_spec spec = {.comm = mds_group(e->groups, MDS_AXIS_PIPELINE)};

    spec.boundary_bytes =
        mds_gpt_boundary_bytes(e->gpt, b->micro, e->config->model.seq_length);
    MDS_TRY(mds_schedule_create(&s, &p->schedule));
    spec.schedule = p->schedule;
    return mds_pipe_create(&spec, &p->pipe);
}

static void destroy_pipeline(struct pipeline *p)
{
    mds_pipe_destroy(p->pipe);
    mds_schedule_destroy(p->schedule);
}

/* ---- memory ---- */

static enum mds_rc alloc_ids(struct mds_engine *e, int64_t of_micro_batch,
                             int32_t **out)
{
    int64_t n = e->config->batch.accumulation * of_micro_batch;

    return mds_arena_alloc(&e->state, MDS_MEM_WORK, n * (int64_t)sizeof **out, out);
}

/* The kinds of targets, and their weights on the device. */
static enum mds_rc alloc_kinds(struct mds_engine *e)
{
    const struct mds_kind_table *t = &e->config->data.kinds;
    int64_t bytes = t->n * (int64_t)sizeof *e->kind_weight;
    float weight[MDS_KINDS_MAX];

    if (t->n == 0)
        return MDS_OK;
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_WORK,
                            e->config->batch.accumulation * e->tokens_here, &e->kind));
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_WORK, bytes, &e->kind_weight));
    for (int k = 0; k < t->n; k++)
        weight[k] = (float)t->kind[k].weight;
    mds_dev_copy_in(e->dev, e->kind_weight, weight, bytes);
    return MDS_OK;
}

/* A loss for each target. */
static enum mds_rc alloc_losses(struct mds_engine *e)
{
    int64_t n = e->config->batch.accumulation * e->tokens_here;

    if (!e->config->train.token_losses || !mds_groups_last_stage(e->groups))
        return MDS_OK;
    return mds_arena_alloc(&e->state, MDS_MEM_WORK, n * (int64_t)sizeof *e->loss,
                           &e->loss);
}

static enum mds_rc alloc_hidden(struct mds_engine *e)
{
    const struct mds_config *c = e->config;

    if (!c->train.hidden || !mds_groups_last_stage(e->groups))
        return MDS_OK;
    e->hidden_bytes =
        c->train.hidden == MDS_HIDDEN_LOGITS
            ? e->tokens_here * mds_engine_words(e) *
                  (int64_t)mdsk_dtype_size(mds_params_dtype(e->params))
            : mds_gpt_boundary_bytes(e->gpt, c->batch.micro, c->model.seq_length);
    return mds_arena_alloc(&e->state, MDS_MEM_ACT,
                           c->batch.accumulation * e->hidden_bytes, &e->hidden);
}

static enum mds_rc alloc_batch(struct mds_engine *e)
{
    struct mds_par par = {.groups = e->groups};
    const struct mds_batch_config *b = &e->config->batch;
    const struct mds_data_config *d = &e->config->data;
    int64_t S = e->config->model.seq_length;

    mds_par_set_batch(&par, b->micro, S, 0);
    e->tokens_here = e->config->train.prefill > 0
                         ? b->micro * mds_engine_most_new_tokens(e)
                         : mds_par_rows(&par);
    MDS_TRY(alloc_ids(e, e->tokens_here, &e->token));
    MDS_TRY(alloc_ids(e, e->tokens_here, &e->target));
    if (d->reset_attention_mask || d->reset_position_ids) {
        e->starts_here = b->micro * S;
        MDS_TRY(alloc_ids(e, e->starts_here, &e->start));
        e->has_documents = mds_zalloc((size_t)b->accumulation, 1);
        e->has_prefixes = mds_zalloc((size_t)b->accumulation, 1);
        if (!e->has_documents || !e->has_prefixes)
            return MDS_EMEM;
    }
    if (e->config->train.shared_prefixes)
        MDS_TRY(alloc_ids(e, e->starts_here, &e->position));
    MDS_TRY(alloc_kinds(e));
    MDS_TRY(alloc_losses(e));
    MDS_TRY(alloc_hidden(e));
    e->n_scalars = 2 * mds_kind_sums(&d->kinds) * (int)b->accumulation + 1;
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_WORK,
                            e->n_scalars * (int64_t)sizeof *e->scalars, &e->scalars));
    MDS_TRY(mds_engine_alloc_balance(e));
    MDS_TRY(mds_engine_alloc_logits(e));
    if (e->config->train.prefill > 0)
        MDS_TRY(mds_engine_alloc_generation(e));
    if (!mds_dev_kernels(e->dev))
        return MDS_OK;
    e->host_start = mds_zalloc((size_t)mds_max(b->accumulation * e->starts_here, 1),
                               sizeof *e->host_start);
    e->host_position = mds_zalloc(
        (size_t)(e->position ? b->accumulation * e->starts_here : 1), sizeof *e->start);
    e->staged = mds_zalloc((size_t)e->tokens_here, sizeof *e->staged);
    return e->host_start && e->host_position && e->staged ? MDS_OK : MDS_EMEM;
}

/* *out [units], freed by the caller = the ranks with the same weights of each unit. */
static enum mds_rc groups_of_units(const struct mds_engine *e, struct mds_comm ***out)
{
    int units = mds_params_units(e->params);
    struct mds_comm **group = mds_zalloc((size_t)units, sizeof *group);

    if (!group)
        return MDS_EMEM;
    *out = group;
    for (int i = 0; i < units; i++) {
        unsigned axes = mds_params_sum_axes(e->params, i);

        group[i] = mds_group(e->groups, axes);
        if (!group[i])
            return mds_fail(MDS_EBUG,
                            "gradients are summed over axes %#x: no such group", axes);
    }
    return MDS_OK;
}

static enum mds_rc build_zero(struct mds_engine *e, int threads)
{
    const struct mds_config *c = e->config;
    const struct mds_parallel_config *p = &c->parallel;
    struct mds_zero_spec spec = {.optim = &c->optim,
                                 .params = e->params,
                                 .dev = e->dev,
                                 .group = mds_group(e->groups, MDS_AXES_TOKENS),
                                 .stage_group = mds_group(e->groups, MDS_AXES_STAGE),
                                 .stage_part =
                                     mds_group(e->groups, MDS_AXES_STAGE_EXPERTS),
                                 .stage = (int)p->zero_stage,
                                 .optimizer = p->offload_optimizer,
                                 .weights = p->offload_params,
                                 .nvme_path = p->nvme_path,
                                 .evaluation = c->train.skip_train,
                                 .bucket_bytes = c->train.bucket_bytes,
                                 .overlap = c->train.overlap_grad_reduce,
                                 .host = e->host_dev,
                                 .threads = threads};
    struct mds_comm **groups = NULL;
    enum mds_rc rc = groups_of_units(e, &groups);

    spec.unit_group = groups;
    if (!rc)
        rc = mds_zero_create(&spec, &e->state, &e->zero);
    free(groups);
    return rc;
}

int64_t mds_engine_save_bytes(const struct mds_engine *e)
{
    int64_t elements = 0;

    for (int i = 0; i < mds_params_n(e->params); i++) {
        const struct mds_param *p = mds_params_get(e->params, i);
        int64_t first, n;

        mds_zero_own_shard(e->zero, p->unit, &first, &n);
        if (!p->spec.duplicate)
            elements += mds_param_overlap(e->params, p, first, n).n;
    }
    return 3 * elements * (int64_t)sizeof(float);
}

static enum mds_rc alloc_save_copy(struct mds_engine *e)
{
    const struct mds_checkpoint_config *c = &e->config->checkpoint;
    int64_t bytes = mds_engine_save_bytes(e);

    if (!c->save || !c->async_save)
        return MDS_OK;
    MDS_TRY(mds_arena_init(&e->save, e->host_dev, "saving", bytes + MDS_ARENA_ALIGN));
    return mds_arena_alloc(&e->save, MDS_MEM_SAVE, bytes, &e->copy);
}

/* Muon's matrices are exchanged among all ranks of a stage; a few channels do. */
static enum mds_rc connect_stage(const struct mds_engine *e)
{
    static const unsigned axes[] = {MDS_AXES_STAGE, MDS_AXES_STAGE_EXPERTS};

    if (e->config->optim.kind != MDS_MUON || e->config->train.skip_train)
        return MDS_OK;
    for (int i = 0; i < 2; i++) {
        struct mds_comm *stage = mds_group(e->groups, axes[i]);

        if (!stage)
            continue;
        mds_comm_limit_channels(stage, 8);
        MDS_TRY(mds_comm_add_collectives(stage));
    }
    return MDS_OK;
}

static enum mds_rc create_engine_parts(struct mds_engine *e,
                                       const struct mds_engine_spec *spec)
{
    const struct mds_engine_need *need = spec->need;

    MDS_TRY(build_model(e));
    MDS_TRY(mds_gpt_step_create(e->gpt, &e->gpt_step));
    if (mds_gpt_tied_unit(e->gpt) >= 0)
        MDS_TRY(mds_comm_add_collectives(mds_group(e->groups, MDS_GROUP_ENDS)));
    if (e->config->model.window > 0 && mds_groups_size(e->groups, MDS_AXIS_RING) > 1)
        MDS_TRY(mds_comm_add_lane(mds_group(e->groups, MDS_AXIS_RING), MDS_WINDOW_LANE,
                                  -1));
    if (e->config->model.experts.balance != MDS_BALANCE_NONE &&
        mds_groups_size(e->groups, MDS_AXIS_RING) > 1) /* experts' load */
        MDS_TRY(mds_comm_add_collectives(mds_group(e->groups, MDS_AXIS_RING)));
    MDS_TRY(connect_stage(e));
    MDS_TRY(mds_arena_init(&e->state, e->dev, "state", need->state_bytes));
    MDS_TRY(mds_arena_init(&e->step, e->dev, "step", need->step_bytes));
    if (mds_act_uses_host(&e->config->train.act) || e->config->train.host_caches > 0)
        MDS_TRY(mds_arena_init(&e->host, e->host_dev, "host", need->host_bytes));
    MDS_TRY(build_zero(e, spec->threads));
    MDS_TRY(alloc_save_copy(e));
    MDS_TRY(alloc_batch(e));
    if (!e->config->train.skip_train)
        MDS_TRY(build_pipeline(e, 0, &e->train));
    MDS_TRY(build_pipeline(e, 1, &e->eval));
    e->scale = mds_loss_scale_start(&e->config->train);
    return MDS_OK;
}

enum mds_rc mds_engine_create(const struct mds_engine_spec *spec,
                              struct mds_engine **out)
{
    struct mds_engine *e = mds_zalloc(1, sizeof *e);
    enum mds_rc rc;

    if (!e)
        return MDS_EMEM;
    e->config = spec->config;
    e->dev = spec->dev;
    e->host_dev = spec->host;
    e->groups = spec->groups;
    e->model_chunks = count_model_chunks(spec->config);
    rc = spec->config->model.fp8.format ? mds_dev_check_fp8(spec->dev) : MDS_OK;
    if (!rc)
        rc = create_engine_parts(e, spec);
    if (rc)
        mds_engine_destroy(e);
    else
        *out = e;
    return rc;
}

void mds_engine_destroy(struct mds_engine *e)
{
    if (!e)
        return;
    mds_engine_free_balance(e);
    mds_engine_free_logits(e);
    free(e->staged);
    mds_engine_free_generation(e);
    free(e->host_start);
    free(e->host_position);
    free(e->has_documents);
    free(e->has_prefixes);
    destroy_pipeline(&e->eval);
    destroy_pipeline(&e->train);
    mds_zero_destroy(e->zero);
    mds_arena_fini(&e->save);
    mds_arena_fini(&e->host);
    mds_arena_fini(&e->step);
    mds_arena_fini(&e->state);
    mds_gpt_step_destroy(e->gpt_step);
    mds_gpt_destroy(e->gpt);
    mds_params_destroy(e->params);
    free(e);
}

struct mds_params *mds_engine_params(struct mds_engine *e)
{
    return e->params;
}

struct mds_zero *mds_engine_zero(struct mds_engine *e)
{
    return e->zero;
}

void *mds_engine_copy_memory(struct mds_engine *e, int64_t *bytes)
{
    *bytes = e->save.now.used;
    return e->copy;
}

struct mds_loss_scale mds_engine_loss_scale(const struct mds_engine *e)
{
    return e->scale;
}

void mds_engine_resume_loss_scale(struct mds_engine *e,
                                  const struct mds_loss_scale *was)
{
    if (!e->scale.dynamic || !was->dynamic)
        return;
    e->scale.scale = was->scale;
    e->scale.good = was->good;
    e->scale.left = was->left;
}
