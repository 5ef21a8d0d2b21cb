/* SPDX-License-Identifier: BSD-3-Clause */
/* How even the load of experts is: reading it and the router's losses back, and the
 * biases that balance it without a loss (docs/adr/0050). */
#include "base/alloc.h"
#include "engine/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of all blocks. */
static int64_t experts_of(const struct mds_engine *e)
{
    return e->config->model.layers * e->config->model.experts.n;
}

/* Of experts whose load is counted. */
static int64_t loads(const struct mds_engine *e)
{
    return e->config->train.skip_train ? 0 : experts_of(e);
}

static enum mds_rc alloc_f32(struct mds_engine *e, int64_t n, float **out)
{
    return mds_arena_alloc(&e->state, MDS_MEM_WORK, n * (int64_t)sizeof **out, out);
}

static enum mds_rc alloc_biases(struct mds_engine *e)
{
    int64_t n = e->config->model.experts.bias ? experts_of(e) : 0;

    if (n == 0)
        return MDS_OK;
    MDS_TRY(alloc_f32(e, n, &e->expert_bias));
    mds_dev_zero(e->dev, e->expert_bias, n * (int64_t)sizeof *e->expert_bias);
    e->bias = mds_zalloc((size_t)n, sizeof *e->bias);
    e->bias_f32 = mds_zalloc((size_t)n, sizeof *e->bias_f32);
    return e->bias && e->bias_f32 ? MDS_OK : MDS_EMEM;
}

/* Router's losses that are logged. */
static int64_t losses(const struct mds_engine *e)
{
    return e->config->output.log_experts && loads(e) > 0 ? 2 * e->config->model.layers
                                                         : 0;
}

static enum mds_rc alloc_losses(struct mds_engine *e)
{
    int64_t n = losses(e);

    if (n == 0)
        return MDS_OK;
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_WORK,
                            n * (int64_t)sizeof *e->router_sums, &e->router_sums));
    e->router_losses = mds_zalloc((size_t)n, sizeof *e->router_losses);
    return e->router_losses ? MDS_OK : MDS_EMEM;
}

enum mds_rc mds_engine_alloc_balance(struct mds_engine *e)
{
    int64_t n = loads(e);

    MDS_TRY(alloc_biases(e));
    if (n == 0)
        return MDS_OK;
    MDS_TRY(alloc_losses(e));
    if (e->config->model.experts.balance == MDS_BALANCE_BATCH)
        MDS_TRY(alloc_f32(e, n, &e->batch_load));
    MDS_TRY(alloc_f32(e, n, &e->expert_load));
    e->load = mds_zalloc((size_t)n, sizeof *e->load);
    e->load_here = mds_zalloc((size_t)n, sizeof *e->load_here);
    return e->load && e->load_here ? MDS_OK : MDS_EMEM;
}

void mds_engine_free_balance(struct mds_engine *e)
{
    free(e->load);
    free(e->load_here);
    free(e->router_losses);
    free(e->bias);
    free(e->bias_f32);
}

void mds_engine_clear_load(struct mds_engine *e)
{
    int64_t bytes = loads(e) * (int64_t)sizeof *e->expert_load;

    if (e->expert_load)
        mds_dev_zero(e->dev, e->expert_load, bytes);
    if (e->batch_load)
        mds_dev_zero(e->dev, e->batch_load, bytes);
    if (e->router_sums)
        mds_dev_zero(e->dev, e->router_sums,
                     losses(e) * (int64_t)sizeof *e->router_sums);
}

/* Tensor ranks route the same tokens: the first counts them. */
static int counts(const struct mds_engine *e)
{
    return mds_groups_rank(e->groups, MDS_AXIS_TENSOR) == 0;
}

static enum mds_rc sum_all(struct mds_engine *e, double *x, int64_t n)
{
    return mds_comm_all_reduce_f64(mds_group(e->groups, MDS_AXES_ALL), x, (int)n,
                                   MDS_COMM_SUM);
}

/* The means whose gradients backward adds (add_losses, model/experts.c). */
static enum mds_rc read_losses(struct mds_engine *e, double batch_tokens)
{
    const struct mds_experts_config *x = &e->config->model.experts;
    int per_sequence = x->balance == MDS_BALANCE_SEQUENCE;
    double tokens = (double)e->config->model.seq_length *
                    (per_sequence ? 1 : (double)e->config->batch.micro);
    int64_t n = losses(e);

    if (n == 0)
        return MDS_OK;
    MDS_TRY(mds_dev_copy_out(e->dev, e->router_losses, e->router_sums,
                             n * (int64_t)sizeof *e->router_sums));
    for (int64_t i = 0; i < n; i++) {
        double mean = e->router_losses[i] / batch_tokens;

        if (i % 2 == 0)
            mean *= (double)x->n / ((double)x->topk * tokens);
        e->router_losses[i] = counts(e) ? mean : 0;
    }
    return sum_all(e, e->router_losses, n);
}

enum mds_rc mds_engine_read_load(struct mds_engine *e, double batch_tokens)
{
    int64_t n = loads(e);

    if (n == 0)
        return MDS_OK;
    MDS_TRY(mds_dev_copy_out(e->dev, e->load_here, e->expert_load,
                             n * (int64_t)sizeof *e->load_here));
    for (int64_t i = 0; i < n; i++)
        e->load[i] = counts(e) ? (double)e->load_here[i] : 0;
    MDS_TRY(sum_all(e, e->load, n));
    return read_losses(e, batch_tokens);
}

/* ---- biases ---- */

static void upload(struct mds_engine *e)
{
    int64_t n = experts_of(e);

    for (int64_t i = 0; i < n; i++)
        e->bias_f32[i] = (float)e->bias[i];
    mds_dev_copy_in(e->dev, e->expert_bias, e->bias_f32,
                    n * (int64_t)sizeof *e->bias_f32);
}

/* All ranks have the load of all blocks, in whole numbers, so they compute the same. */
void mds_engine_update_biases(struct mds_engine *e)
{
    int64_t E = e->config->model.experts.n;
    double rate = e->config->model.experts.bias_rate;

    if (!e->bias)
        return;
    for (int64_t b = 0; b < e->config->model.layers; b++) {
        const double *load = e->load + b * E;
        double sum = 0;

        for (int64_t i = 0; i < E; i++)
            sum += load[i];
        for (int64_t i = 0; i < E; i++) {
            double missing = sum - load[i] * (double)E;

            e->bias[b * E + i] += rate * ((missing > 0) - (missing < 0));
        }
    }
    upload(e);
}

const double *mds_engine_expert_bias(const struct mds_engine *e, int64_t *n)
{
    *n = e->bias ? experts_of(e) : 0;
    return e->bias;
}

enum mds_rc mds_engine_set_expert_bias(struct mds_engine *e, const double *bias,
                                       int64_t n)
{
    int64_t own = experts_of(e);

    if (!e->bias)
        return MDS_OK;
    if (n > 0 && n < own)
        return mds_fail(MDS_EUSER,
                        "the checkpoint has biases of %" PRId64
                        " experts, and the model has %" PRId64,
                        n, own);
    memset(e->bias, 0, (size_t)own * sizeof *e->bias);
    if (n > 0)
        memcpy(e->bias, bias, (size_t)own * sizeof *e->bias);
    upload(e);
    return MDS_OK;
}
