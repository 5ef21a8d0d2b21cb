/* SPDX-License-Identifier: BSD-3-Clause */
/* Generation: tokens of some sequences through the blocks, whose keys and values are
 * kept, and the logits of what comes next. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "engine/internal.h"

#include <inttypes.h>

static int tensor_ranks(const struct mds_engine *e)
{
    return mds_groups_size(e->groups, MDS_AXIS_TENSOR);
}

static int64_t logits_bytes(const struct mds_engine *e, int64_t B)
{
    return tensor_ranks(e) * B * mds_engine_words(e) *
           (int64_t)mdsk_dtype_size(mds_params_dtype(e->params));
}

enum mds_rc mds_engine_alloc_generation(struct mds_engine *e)
{
    const struct mds_config *c = e->config;
    int64_t B = c->batch.micro;

    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_ACT,
                            mds_gpt_cache_bytes(e->gpt, B, c->model.seq_length),
                            &e->cache));
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_ACT, logits_bytes(e, B), &e->logits));
    if (!mds_dev_kernels(e->dev))
        return MDS_OK;
    e->host_logits = mds_zalloc((size_t)logits_bytes(e, B), 1);
    return e->host_logits ? MDS_OK : MDS_EMEM;
}

static enum mds_rc check(const struct mds_engine *e, const struct mds_engine_tokens *t)
{
    const struct mds_config *c = e->config;

    if (e->cache && t->B > 0 && t->B <= c->batch.micro && t->first >= 0 && t->n > 0 &&
        t->n <= mds_max(c->train.prefill, 1) && t->first + t->n <= c->model.seq_length)
        return MDS_OK;
    return mds_fail(MDS_EBUG,
                    "generation: tokens %" PRId64 " to %" PRId64 " of %" PRId64
                    " sequences, of %" PRId64 " with %" PRId64 " tokens",
                    t->first, t->first + t->n, t->B, c->batch.micro,
                    c->model.seq_length);
}

static enum mds_rc forward(struct mds_engine *e, const struct mds_engine_tokens *t,
                           int wants_logits)
{
    const struct mds_config *c = e->config;
    struct mds_gpt_run run = {
        .dev = e->dev,
        .arena = &e->step,
        .train = &c->train,
        .B = t->B,
        .S = t->n,
        .saved_buffers = 1,
        .expert_bias = e->expert_bias,
        .cache = {.kv = e->cache, .tokens = c->model.seq_length, .first = t->first}};
    struct mds_gpt_batch batch = {.token = e->token,
                                  .logits = wants_logits ? e->logits : NULL};

    e->training = 0;
    MDS_TRY(mds_gpt_step_begin(e->gpt_step, &run));
    MDS_TRY(mds_gpt_forward(e->gpt_step, 0, 0, &batch, NULL, NULL));
    mds_gpt_step_end(e->gpt_step);
    return MDS_OK;
}

/* From [tensor ranks, B, words of a rank], with padding, to [B, vocab]. */
static void put_logits(const struct mds_engine *e, int64_t B, float *out)
{
    enum mdsk_dtype type = mds_params_dtype(e->params);
    int64_t vocab = e->config->model.vocab, words = mds_engine_words(e);

    for (int64_t b = 0; b < B; b++)
        for (int64_t v = 0; v < vocab; v++) {
            int64_t i = (v / words * B + b) * words + v % words;

            *out++ = mds_engine_value(type, e->host_logits, i);
        }
}

enum mds_rc mds_engine_decode(struct mds_engine *e, const struct mds_engine_tokens *t,
                              float *logits)
{
    int dry = !mds_dev_kernels(e->dev);

    MDS_TRY(check(e, t));
    mds_dev_copy_in(e->dev, e->token, t->token,
                    t->n * t->B * (int64_t)sizeof *t->token);
    MDS_TRY(forward(e, t, logits || dry));
    if (!logits || dry)
        return MDS_OK;
    MDS_TRY(mds_dev_copy_out(e->dev, e->host_logits, e->logits, logits_bytes(e, t->B)));
    put_logits(e, t->B, logits);
    return MDS_OK;
}
