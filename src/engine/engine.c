#include "engine/engine.h"
#include "base/alloc.h"
#include "device/arena.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "optim/grad_sync.h"

#include <math.h>
#include <stdlib.h>

/* Numbers that kernels sum up on the device. */
struct scalars {
    struct mds_gpt_loss loss;
    double grad_squares;
};

struct mds_engine {
    const struct mds_config *config; /* borrowed */
    struct mds_dev *dev;             /* borrowed */
    struct mds_comm *comm;           /* borrowed */
    struct mds_arena state, step;
    struct mds_params *params;
    struct mds_gpt *gpt;
    struct mds_adamw *optim;
    struct mds_grad_sync *sync;
    struct scalars *scalars; /* in state */
    int32_t *token, *target; /* in state: [micro, S] each */
    int32_t *staged;         /* host: [2, micro, S], tokens then targets */
    double grad_norm;        /* of the last backward */
};

static int64_t micro_tokens(const struct mds_engine *e)
{
    return e->config->batch.micro * e->config->model.seq_length;
}

/* ---- creation ---- */

static enum mds_rc take_params(struct mds_engine *e)
{
    int64_t bytes = mds_params_span(e->params) * (int64_t)sizeof(float);
    void *weight = NULL, *grad = NULL;

    MDS_TRY(mds_arena_take(&e->state, MDS_MEM_PARAM, bytes, &weight));
    MDS_TRY(mds_arena_take(&e->state, MDS_MEM_GRAD, bytes, &grad));
    mds_params_bind(e->params, weight, grad);
    return MDS_OK;
}

static enum mds_rc take_batch(struct mds_engine *e)
{
    int64_t bytes = micro_tokens(e) * (int64_t)sizeof(int32_t);
    void *token = NULL, *target = NULL, *scalars = NULL;

    MDS_TRY(mds_arena_take(&e->state, MDS_MEM_WORK, bytes, &token));
    MDS_TRY(mds_arena_take(&e->state, MDS_MEM_WORK, bytes, &target));
    MDS_TRY(mds_arena_take(&e->state, MDS_MEM_WORK, sizeof *e->scalars, &scalars));
    e->token = token;
    e->target = target;
    e->scalars = scalars;
    e->staged = mds_zalloc((size_t)micro_tokens(e), 2 * sizeof *e->staged);
    return e->staged ? MDS_OK : MDS_EMEM;
}

/* Optimizer and model never meet: the gradient sum listens to the registry. */
static enum mds_rc join_grad_sync(struct mds_engine *e)
{
    const struct mds_train_config *t = &e->config->train;
    struct mds_grad_sync_spec spec = {.ps = e->params,
                                      .comm = e->comm,
                                      .bucket_bytes = t->bucket_bytes,
                                      .overlap = t->overlap_grad_reduce};
    struct mds_param_hooks hooks = {.grad_ready = mds_grad_sync_ready};

    MDS_TRY(mds_grad_sync_create(&spec, &e->sync));
    MDS_TRY(mds_grad_sync_take(e->sync, &e->state));
    hooks.ctx = e->sync;
    mds_params_hook(e->params, &hooks);
    return MDS_OK;
}

static enum mds_rc build(struct mds_engine *e, const struct mds_engine_need *need)
{
    const struct mds_config *c = e->config;

    MDS_TRY(mds_params_create(&e->params));
    MDS_TRY(mds_gpt_create(&c->model, e->params, &e->gpt));
    MDS_TRY(mds_arena_init(&e->state, e->dev, "state", need->state_bytes));
    MDS_TRY(mds_arena_init(&e->step, e->dev, "step", need->step_bytes));
    MDS_TRY(take_params(e));
    MDS_TRY(mds_adamw_create(&c->optim, e->params, e->dev, &e->state, &e->optim));
    MDS_TRY(join_grad_sync(e));
    return take_batch(e);
}

static enum mds_rc create(const struct mds_engine_spec *spec, struct mds_engine **out)
{
    struct mds_engine *e = mds_zalloc(1, sizeof *e);
    enum mds_rc rc;

    if (!e)
        return MDS_EMEM;
    e->config = spec->config;
    e->dev = spec->dev;
    e->comm = spec->data_parallel;
    rc = build(e, spec->need);
    if (rc) {
        mds_engine_destroy(e);
        return rc;
    }
    *out = e;
    return MDS_OK;
}

enum mds_rc mds_engine_create(const struct mds_engine_spec *spec,
                              struct mds_engine **out)
{
    struct mds_engine *e = NULL;
    enum mds_rc rc;

    MDS_TRY(create(spec, &e));
    rc = mds_params_init(e->params, e->dev, (uint64_t)spec->config->train.seed);
    if (rc) {
        mds_engine_destroy(e);
        return rc;
    }
    *out = e;
    return MDS_OK;
}

void mds_engine_destroy(struct mds_engine *e)
{
    if (!e)
        return;
    free(e->staged);
    mds_grad_sync_destroy(e->sync);
    mds_adamw_destroy(e->optim);
    mds_arena_fini(&e->step);
    mds_arena_fini(&e->state);
    mds_gpt_destroy(e->gpt);
    mds_params_destroy(e->params);
    free(e);
}

struct mds_params *mds_engine_params(struct mds_engine *e)
{
    return e->params;
}

/* ---- a step ---- */

/* Rows of S+1 tokens become S inputs and S targets on the device. */
static struct mds_gpt_batch load_batch(struct mds_engine *e, const int32_t *rows,
                                       int64_t first_sample)
{
    int64_t B = e->config->batch.micro, S = e->config->model.seq_length;
    int64_t bytes = B * S * (int64_t)sizeof *rows;
    int32_t *target = e->staged + B * S;

    for (int64_t b = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++) {
            e->staged[b * S + s] = rows[b * (S + 1) + s];
            target[b * S + s] = rows[b * (S + 1) + s + 1];
        }
    mds_dev_copy_in(e->dev, e->token, e->staged, bytes);
    mds_dev_copy_in(e->dev, e->target, target, bytes);
    return (struct mds_gpt_batch){.B = B,
                                  .S = S,
                                  .first_sample = first_sample,
                                  .token = e->token,
                                  .target = e->target};
}

static struct mds_gpt_run how_to_run(struct mds_engine *e, int64_t step)
{
    const struct mds_train_config *t = &e->config->train;

    return (struct mds_gpt_run){.dev = e->dev,
                                .arena = &e->step,
                                .recompute = t->recompute,
                                .loss_tile = t->loss_tile,
                                .seed = (uint64_t)t->seed,
                                .step = (uint32_t)step};
}

static void zero_sums(struct mds_engine *e)
{
    int64_t bytes = mds_params_span(e->params) * (int64_t)sizeof(float);

    mds_dev_zero(e->dev, mds_params_grads(e->params), bytes);
    mds_dev_zero(e->dev, e->scalars, sizeof *e->scalars);
}

/* The read-back point: everything a step's control flow may depend on. */
static struct scalars read_back(struct mds_engine *e)
{
    struct scalars s = {0};

    mds_dev_copy_out(e->dev, &s, e->scalars, sizeof s);
    return s;
}

static enum mds_rc micro_batches(struct mds_engine *e, int64_t step,
                                 int64_t first_sample, const int32_t *token)
{
    const struct mds_batch_config *b = &e->config->batch;
    int64_t S = e->config->model.seq_length;
    struct mds_gpt_run run = how_to_run(e, step);
    float scale = (float)(1.0 / ((double)b->global * (double)S));

    for (int64_t i = 0; i < b->accumulation; i++) {
        int64_t row = i * b->micro;
        struct mds_gpt_batch batch =
            load_batch(e, token + row * (S + 1), first_sample + row);

        mds_grad_sync_begin(e->sync, i == b->accumulation - 1);
        MDS_TRY(mds_gpt_train(e->gpt, &run, &batch, scale, &e->scalars->loss));
    }
    return mds_grad_sync_finish(e->sync);
}

enum mds_rc mds_engine_backward(struct mds_engine *e, int64_t step,
                                int64_t first_sample, const int32_t *token,
                                struct mds_step_result *out)
{
    struct scalars s;
    double loss[2];

    zero_sums(e);
    MDS_TRY(micro_batches(e, step, first_sample, token));
    MDS_TRY(mds_adamw_grad_squares(e->optim, &e->scalars->grad_squares));
    s = read_back(e);
    loss[0] = s.loss.sum;
    loss[1] = s.loss.count;
    MDS_TRY(mds_comm_all_reduce_f64(e->comm, loss, 2, MDS_COMM_SUM));
    e->grad_norm = sqrt(s.grad_squares);
    out->loss = loss[1] > 0 ? loss[0] / loss[1] : 0;
    out->grad_norm = e->grad_norm;
    return MDS_OK;
}

enum mds_rc mds_engine_update(struct mds_engine *e, double lr)
{
    double clip = e->config->optim.clip_grad;

    return mds_adamw_step(e->optim, lr, mds_clip_scale(clip, e->grad_norm));
}

enum mds_rc mds_engine_eval(struct mds_engine *e, const int32_t *token, double *sum,
                            double *count)
{
    struct mds_gpt_run run = how_to_run(e, 0);
    struct mds_gpt_batch batch = load_batch(e, token, 0);
    struct scalars s;

    mds_dev_zero(e->dev, e->scalars, sizeof *e->scalars);
    MDS_TRY(mds_gpt_eval(e->gpt, &run, &batch, &e->scalars->loss));
    s = read_back(e);
    *sum += s.loss.sum;
    *count += s.loss.count;
    return MDS_OK;
}

/* ---- measuring ---- */

/* One step and one evaluation.  The rows are never looked at by a dry device. */
static enum mds_rc rehearse(struct mds_engine *e)
{
    const struct mds_batch_config *b = &e->config->batch;
    int64_t row = e->config->model.seq_length + 1;
    int32_t *token =
        mds_zalloc((size_t)(b->accumulation * b->micro * row), sizeof *token);
    struct mds_step_result result;
    double sum = 0, count = 0;
    enum mds_rc rc = MDS_EMEM;

    if (!token)
        return rc;
    rc = mds_engine_backward(e, 1, 0, token, &result);
    if (!rc)
        rc = mds_engine_update(e, 0);
    if (!rc)
        rc = mds_engine_eval(e, token, &sum, &count);
    free(token);
    return rc;
}

static enum mds_rc measure_on(struct mds_dev *dev, struct mds_comm *comm,
                              const struct mds_config *config,
                              struct mds_engine_need *need)
{
    const struct mds_engine_need plenty = {.state_bytes = INT64_C(1) << 52,
                                           .step_bytes = INT64_C(1) << 52};
    struct mds_engine_spec spec = {
        .config = config, .dev = dev, .data_parallel = comm, .need = &plenty};
    struct mds_engine *e = NULL;
    enum mds_rc rc;

    MDS_TRY(create(&spec, &e));
    rc = rehearse(e);
    if (!rc)
        *need = (struct mds_engine_need){.state_bytes = e->state.peak,
                                         .step_bytes = e->step.peak,
                                         .memory = mds_dev_ledger(dev)->memory};
    mds_engine_destroy(e);
    return rc;
}

enum mds_rc mds_engine_measure(const struct mds_config *config, int data_parallel,
                               struct mds_engine_need *need)
{
    const struct mds_dev_spec spec = {.name = "dry"};
    struct mds_dev *dev = NULL;
    struct mds_comm *comm = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_dev_create(&spec, &dev));
    rc = mds_comm_create_dry(0, data_parallel, "data-parallel", &comm);
    if (!rc)
        rc = measure_on(dev, comm, config, need);
    mds_comm_destroy(comm);
    mds_dev_destroy(dev);
    return rc;
}
