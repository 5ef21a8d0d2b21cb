/* SPDX-License-Identifier: BSD-3-Clause */
/* Generation: tokens of some sequences through the blocks, whose keys and values are
 * kept, and the logits of what comes next. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "engine/internal.h"
#include "kernels/attention.h"
#include "kernels/next_token.h"
#include "tensor/op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int tensor_ranks(const struct mds_engine *e)
{
    return mds_groups_size(e->groups, MDS_AXIS_TENSOR);
}

static int64_t logits_bytes(const struct mds_engine *e, int64_t B)
{
    return tensor_ranks(e) * B * mds_engine_words(e) *
           (int64_t)mdsk_dtype_size(mds_params_dtype(e->params));
}

static int sequence_ranks(const struct mds_engine *e)
{
    return mds_groups_size(e->groups, MDS_AXES_SEQUENCE);
}

/* Of so many blocks, for a batch. */
static int64_t cache_bytes(const struct mds_engine *e, int64_t blocks)
{
    const struct mds_config *c = e->config;

    return blocks * mds_gpt_cache_bytes(e->gpt, c->batch.micro, c->model.seq_length);
}

/* Blocks whose caches are in host memory. */
static int64_t host_caches(const struct mds_engine *e)
{
    return mds_min(e->config->train.host_caches, mds_gpt_blocks(e->gpt));
}

static int64_t device_caches(const struct mds_engine *e)
{
    return mds_gpt_blocks(e->gpt) - host_caches(e);
}

/* Of the stream between stages, of so many rows. */
static int64_t stream_bytes(const struct mds_engine *e, int64_t rows)
{
    return rows * e->config->model.hidden *
           (int64_t)mdsk_dtype_size(mds_params_dtype(e->params));
}

/* A part of a piece that ranks share, or a few tokens that each of them computes. */
int64_t mds_engine_most_new_tokens(const struct mds_engine *e)
{
    int64_t ranks = sequence_ranks(e), most = mds_max(e->config->train.prefill, 1);

    return mds_max(most / ranks, mds_min(most, ranks - 1));
}

static enum mds_rc alloc_streams(struct mds_engine *e)
{
    int64_t rows = mds_engine_most_new_tokens(e) * e->config->batch.micro;
    int64_t bytes = stream_bytes(e, rows);

    if (!mds_groups_first_stage(e->groups))
        MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_COMM, bytes, &e->received));
    if (!mds_groups_last_stage(e->groups))
        MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_COMM, bytes, &e->to_send));
    return MDS_OK;
}

/* The place of one more token, minus that for each sequence, and these tokens. */
static int64_t next_bytes(int64_t B)
{
    return (1 + 2 * B) * (int64_t)sizeof(int32_t);
}

/* Behind them: those that are chosen on the device. */
static int64_t made_bytes(int64_t B)
{
    return MDSK_TOKENS_AHEAD * B * (int64_t)sizeof(int32_t);
}

static int32_t *made_in(int32_t *next, int64_t B)
{
    return next + next_bytes(B) / (int64_t)sizeof *next;
}

enum mds_rc mds_engine_alloc_generation(struct mds_engine *e)
{
    const struct mds_config *c = e->config;
    int64_t B = c->batch.micro;

    if (sequence_ranks(e) > 1)
        MDS_TRY(mds_comm_add_collectives(mds_group(e->groups, MDS_AXES_SEQUENCE)));
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_ACT,
                            c->batch.accumulation * cache_bytes(e, device_caches(e)),
                            &e->cache));
    if (host_caches(e) > 0)
        MDS_TRY(mds_arena_alloc(&e->host, MDS_MEM_ACT,
                                c->batch.accumulation * cache_bytes(e, host_caches(e)),
                                &e->host_cache));
    MDS_TRY(alloc_streams(e));
    if (!mds_groups_last_stage(e->groups))
        return MDS_OK;
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_ACT, logits_bytes(e, B), &e->logits));
    MDS_TRY(mds_arena_alloc(&e->state, MDS_MEM_ACT, next_bytes(B) + made_bytes(B),
                            &e->next));
    if (!mds_dev_kernels(e->dev))
        return MDS_OK;
    e->host_logits = mds_zalloc((size_t)logits_bytes(e, B), 1);
    e->host_next = mds_zalloc((size_t)(next_bytes(B) + made_bytes(B)), 1);
    return e->host_logits && e->host_next ? MDS_OK : MDS_EMEM;
}

void mds_engine_free_generation(struct mds_engine *e)
{
    mds_dev_free_recording(e->dev, e->decoding);
    free(e->host_logits);
    free(e->host_next);
}

static enum mds_rc check(const struct mds_engine *e, const struct mds_engine_tokens *t)
{
    const struct mds_config *c = e->config;

    if (e->cache && t->B > 0 && t->B <= c->batch.micro && t->first >= 0 && t->n > 0 &&
        t->n <= mds_max(c->train.prefill, 1) && t->batch >= 0 &&
        t->batch < c->batch.accumulation && t->first + t->n <= c->model.seq_length)
        return MDS_OK;
    return mds_fail(MDS_EBUG,
                    "generation: tokens %" PRId64 " to %" PRId64 " of %" PRId64
                    " sequences, of %" PRId64 " with %" PRId64 " tokens",
                    t->first, t->first + t->n, t->B, c->batch.micro,
                    c->model.seq_length);
}

/* ---- messages between stages ---- */

static enum mds_rc receive(struct mds_engine *e, int64_t bytes)
{
    struct mds_comm *stages = mds_group(e->groups, MDS_AXIS_PIPELINE);
    struct mds_comm_p2p message = {0};

    if (!e->received)
        return MDS_OK;
    MDS_TRY(mds_comm_recv_start(stages, e->received, bytes, mds_comm_rank(stages) - 1,
                                0, &message));
    return mds_comm_p2p_wait(&message);
}

static enum mds_rc send(struct mds_engine *e, int64_t bytes)
{
    struct mds_comm *stages = mds_group(e->groups, MDS_AXIS_PIPELINE);

    if (!e->to_send)
        return MDS_OK;
    return mds_comm_send_start(stages, e->to_send, bytes, mds_comm_rank(stages) + 1, 0,
                               &e->sent);
}

enum mds_rc mds_engine_decode_end(struct mds_engine *e)
{
    return mds_comm_p2p_wait(&e->sent);
}

/* ---- a pass ---- */

/* Copies this rank's tokens to the device; returns their number, of all sequences. */
static int64_t load_tokens(struct mds_engine *e, const struct mds_engine_tokens *t)
{
    struct mds_par par = {.groups = e->groups};
    int64_t rows, at;

    mds_par_set_new_tokens(&par, t->B, t->first, t->n);
    rows = mds_par_rows(&par);
    at = (par.tokens.run[0].first - t->first) * t->B;
    mds_dev_copy_in(e->dev, e->token, t->token ? t->token + at : NULL,
                    rows * (int64_t)sizeof *t->token);
    return rows;
}

/* From the logits of one more token, in e->next. */
static enum mds_rc choose(struct mds_engine *e, int64_t B)
{
    struct mdsk_next_token a = {.B = B,
                                .V = e->config->model.vocab,
                                .stride = mds_engine_words(e),
                                .dtype = mds_params_dtype(e->params),
                                .logits = e->logits,
                                .place = e->next,
                                .start = e->next + 1,
                                .token = e->next + 1 + B,
                                .made = made_in(e->next, B)};

    return mds_op_next_token(e->dev, &a);
}

/* place: that of t's tokens is read on the device, from e->next. */
static enum mds_rc forward(struct mds_engine *e, const struct mds_engine_tokens *t,
                           int place, int wants_logits)
{
    const struct mds_config *c = e->config;
    int64_t bytes = place ? 0 : stream_bytes(e, load_tokens(e, t));
    struct mds_gpt_run run = {
        .dev = e->dev,
        .arena = &e->step,
        .train = &c->train,
        .B = t->B,
        .S = t->n,
        .saved_buffers = 1,
        .expert_bias = e->expert_bias,
        .cache = {.kv = e->cache + t->batch * cache_bytes(e, device_caches(e)),
                  .on_host = host_caches(e),
                  .tokens = c->model.seq_length,
                  .first = t->first,
                  .place = place ? e->next : NULL}};
    struct mds_gpt_batch batch = {.token = place ? e->next + 1 + t->B : e->token,
                                  .position_start = place ? e->next + 1 : NULL,
                                  .logits = wants_logits ? e->logits : NULL};

    if (e->host_cache)
        run.cache.host = e->host_cache + t->batch * cache_bytes(e, host_caches(e));
    e->training = 0;
    MDS_TRY(receive(e, bytes));
    MDS_TRY(mds_comm_p2p_wait(&e->sent)); /* what was there */
    MDS_TRY(mds_gpt_step_begin(e->gpt_step, &run));
    MDS_TRY(mds_gpt_forward(e->gpt_step, 0, 0, &batch, e->received, e->to_send));
    mds_gpt_step_end(e->gpt_step);
    if (place)
        MDS_TRY(choose(e, t->B));
    return send(e, bytes);
}

/* As many tokens as ranks that split sequences can share, and then those left. */
static enum mds_rc forward_parts(struct mds_engine *e,
                                 const struct mds_engine_tokens *t, int wants_logits)
{
    struct mds_engine_tokens part = *t;
    int64_t left = t->n % sequence_ranks(e);

    part.n -= left;
    if (part.n > 0)
        MDS_TRY(forward(e, &part, 0, wants_logits && left == 0));
    if (left == 0)
        return MDS_OK;
    part.first += part.n;
    part.token = t->token ? t->token + part.n * t->B : NULL;
    part.n = left;
    return forward(e, &part, 0, wants_logits);
}

/* ---- one more token, recorded ---- */

/* Messages, as of ZeRO 3, are not recorded, nor experts or copies from the host. */
static int can_record(const struct mds_engine *e)
{
    const struct mds_model_config *m = &e->config->model;

    return mds_dev_can_record(e->dev) && m->experts.n == 0 && !e->host_cache &&
           e->config->parallel.zero_stage < 3 && m->head_dim % 8 == 0 &&
           m->head_dim <= MDSK_CACHED_D && e->config->train.flash_attn &&
           mds_groups_size(e->groups, MDS_AXES_ALL & ~(unsigned)MDS_AXIS_DATA) == 1;
}

static enum mds_rc record(struct mds_engine *e, const struct mds_engine_tokens *t)
{
    enum mds_rc rc, ended;

    MDS_TRY(mds_dev_record(e->dev));
    rc = forward(e, t, 1, 1);
    ended = mds_dev_recorded(e->dev, &e->decoding);
    return rc ? rc : ended;
}

static void load_next(struct mds_engine *e, const struct mds_engine_tokens *t)
{
    int32_t *next = e->host_next;

    *next++ = (int32_t)t->first;
    for (int64_t b = 0; b < t->B; b++)
        *next++ = -(int32_t)t->first;
    memcpy(next, t->token, (size_t)t->B * sizeof *next);
    mds_dev_copy_in(e->dev, e->next, e->host_next, next_bytes(t->B));
}

/* The first pass of so many sequences is not recorded: kernels choose their algorithms
 * and take their scratch memory. */
static enum mds_rc forward_recorded(struct mds_engine *e,
                                    const struct mds_engine_tokens *t)
{
    if (e->decoded_B != t->B) {
        mds_dev_free_recording(e->dev, e->decoding);
        e->decoding = NULL;
        e->decoded_B = t->B;
        return forward(e, t, 1, 1);
    }
    if (!e->decoding)
        MDS_TRY(record(e, t));
    mds_dev_replay(e->dev, e->decoding);
    return MDS_OK;
}

/* Loops of their own for each type: a vocabulary may be large, and the GPU waits. */
static void widen(enum mdsk_dtype type, const char *raw, int64_t n, float *out)
{
    const uint16_t *half = (const uint16_t *)raw;

    if (type == MDSK_F32)
        memcpy(out, raw, (size_t)n * sizeof *out);
    for (int64_t i = 0; type == MDSK_BF16 && i < n; i++)
        out[i] = mdsk_bf16_to_f32(half[i]);
    for (int64_t i = 0; type == MDSK_F16 && i < n; i++)
        out[i] = mdsk_f16_to_f32(half[i]);
}

/* From [tensor ranks, B, words of a rank], with padding, to [B, vocab]. */
static void put_logits(const struct mds_engine *e, int64_t B, float *out)
{
    enum mdsk_dtype type = mds_params_dtype(e->params);
    int64_t vocab = e->config->model.vocab, words = mds_engine_words(e);
    int64_t size = (int64_t)mdsk_dtype_size(type);

    for (int64_t b = 0; b < B; b++)
        for (int64_t v = 0; v < vocab; v += words)
            widen(type, e->host_logits + (v / words * B + b) * words * size,
                  mds_min(words, vocab - v), out + b * vocab + v);
}

enum mds_rc mds_engine_decode(struct mds_engine *e, const struct mds_engine_tokens *t,
                              float *logits)
{
    int dry = !mds_dev_kernels(e->dev);

    MDS_TRY(check(e, t));
    if (t->n == 1 && logits && can_record(e)) {
        load_next(e, t);
        MDS_TRY(forward_recorded(e, t));
    } else {
        MDS_TRY(forward_parts(e, t, logits || dry));
    }
    if (!logits || !e->logits || dry)
        return MDS_OK;
    MDS_TRY(mds_dev_copy_out(e->dev, e->host_logits, e->logits, logits_bytes(e, t->B)));
    put_logits(e, t->B, logits);
    return MDS_OK;
}

int64_t mds_engine_tokens_ahead(const struct mds_engine *e)
{
    return can_record(e) ? MDSK_TOKENS_AHEAD : 0;
}

enum mds_rc mds_engine_decode_ahead(struct mds_engine *e,
                                    const struct mds_engine_tokens *t, int64_t n,
                                    int32_t *out)
{
    int32_t *made = made_in(e->host_next, t->B);

    MDS_TRY(check(e, t));
    if (t->n != 1 || n < 1 || n > mds_engine_tokens_ahead(e) ||
        t->first + n > e->config->model.seq_length)
        return mds_fail(MDS_EBUG, "generation: %" PRId64 " tokens ahead", n);
    load_next(e, t);
    for (int64_t i = 0; i < n; i++)
        MDS_TRY(forward_recorded(e, t));
    MDS_TRY(mds_dev_copy_out(e->dev, made, made_in(e->next, t->B), made_bytes(t->B)));
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * t->B, made + (t->first + i) % MDSK_TOKENS_AHEAD * t->B,
               (size_t)t->B * sizeof *out);
    return MDS_OK;
}

enum mds_rc mds_engine_decode_dry(struct mds_engine *e)
{
    const struct mds_config *c = e->config;
    int64_t most = mds_max(c->train.prefill, 1);
    const int64_t n[] = {most, mds_min(most, sequence_ranks(e) - 1), 1};
    struct mds_engine_tokens t = {.B = c->batch.micro};

    for (int i = 0; i < 3; i++) {
        t.n = n[i];
        t.first = c->model.seq_length - t.n;
        if (t.n > 0)
            MDS_TRY(mds_engine_decode(e, &t, NULL));
    }
    return mds_engine_decode_end(e);
}
