/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines for tests. */
#include "tests/unit/engine_fixture.h"

#include "config/options.h"
#include "device/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct mds_config gpt_shape(void)
{
    struct mds_config c = {0};

    c.model = (struct mds_model_config){.layers = 2,
                                        .hidden = 24,
                                        .heads = 3,
                                        .kv_heads = 3,
                                        .head_dim = 8,
                                        .ffn_hidden = 40,
                                        .seq_length = S,
                                        .max_positions = S,
                                        .vocab = VOCAB,
                                        .padded_vocab = 16,
                                        .vocab_divisor = 16,
                                        .position = MDS_POSITION_LEARNED,
                                        .rotary_percent = 1,
                                        .rotary_base = 10000,
                                        .norm = MDS_NORM_LAYERNORM,
                                        .norm_eps = 1e-5,
                                        .linear_bias = 1,
                                        .tied_head = 1,
                                        .init_std = 0.2};
    c.batch =
        (struct mds_batch_config){.micro = ROWS, .global = ROWS, .accumulation = 1};
    c.optim = (struct mds_optim_config){
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip_grad = 1};
    c.parallel = (struct mds_parallel_config){.tensor = 1,
                                              .pipeline = 1,
                                              .ulysses = 1,
                                              .ring = 1,
                                              .expert = 1,
                                              .data = 1,
                                              .virtual_stages = 1};
    c.train.seed = 5;
    c.train.eval_iters = 1;
    c.train.act.recompute_layers = 1;
    c.train.bucket_bytes = 4096;
    c.train.overlap_grad_reduce = 1;
    c.model.fp8.wgrad = 1;
    c.train.flash_attn = 1;
    return c;
}

struct mds_config llama_shape(void)
{
    struct mds_config c = gpt_shape();

    c.model.heads = 4;
    c.model.kv_heads = 2;
    c.model.head_dim = 6;
    c.model.position = MDS_POSITION_ROPE;
    c.model.rotary_percent = 0.7; /* 4 of 6 */
    c.model.norm = MDS_NORM_RMSNORM;
    c.model.activation = MDSK_SWIGLU;
    c.model.linear_bias = 0;
    c.model.tied_head = 0;
    return c;
}

struct mds_config (*const shapes[2])(void) = {gpt_shape, llama_shape};

void with_dropout(struct mds_config *c)
{
    c->model.hidden_dropout = 0.2;
    c->model.attention_dropout = 0.3;
}

static struct {
    int on, n;
    struct {
        struct mds_dev_async_copy copy;
        void *to;
        const void *from;
        int64_t bytes;
        int asked; /* whether it is done */
    } waits[64];
} late;

static void late_start(struct mds_dev *dev, struct mds_dev_async_copy c, void *to,
                       const void *from, int64_t bytes)
{
    (void)dev;
    assert_in_range(late.n, 0, 63);
    late.waits[late.n].copy = c;
    late.waits[late.n].to = to;
    late.waits[late.n].from = from;
    late.waits[late.n].asked = 0;
    late.waits[late.n++].bytes = bytes;
}

static void late_meet(struct mds_dev *dev, struct mds_dev_async_copy c)
{
    int left = 0;

    (void)dev;
    for (int i = 0; i < late.n; i++)
        if (late.waits[i].copy.direction == c.direction &&
            late.waits[i].copy.number <= c.number)
            memcpy(late.waits[i].to, late.waits[i].from, (size_t)late.waits[i].bytes);
        else
            late.waits[left++] = late.waits[i];
    late.n = left;
}

/* Not when it is asked for the first time. */
static int late_copied(struct mds_dev *dev, struct mds_dev_async_copy c)
{
    for (int i = 0; i < late.n; i++)
        if (late.waits[i].copy.direction == c.direction &&
            late.waits[i].copy.number == c.number && late.waits[i].asked++ == 0)
            return 0;
    late_meet(dev, c);
    return 1;
}

static void make_late(struct mds_dev *dev)
{
    static struct mds_dev_ops ops;

    ops = mds_dev_cpu;
    ops.start_copy = late_start;
    ops.wait_copy = late_meet;
    ops.copy_done = late_copied;
    dev->ops = &ops;
}

void be_late(int on)
{
    late.on = on;
}

static struct {
    struct copies *count;
    int n;
    struct {
        struct mds_dev_async_copy copy;
        double begun; /* FLOPs that had been queued */
    } waits[64];
} watched;

static double flops_of(const struct mds_dev *dev)
{
    const struct mds_ledger *l = mds_dev_ledger(dev);
    double sum = 0;

    for (int i = 0; i < MDS_OPS; i++)
        sum += l->op[i].cost.flops;
    return sum;
}

static void watched_start(struct mds_dev *dev, struct mds_dev_async_copy c, void *to,
                          const void *from, int64_t bytes)
{
    assert_in_range(watched.n, 0, 63);
    watched.waits[watched.n].copy = c;
    watched.waits[watched.n++].begun = flops_of(dev);
    watched.count->all++;
    memcpy(to, from, (size_t)bytes);
}

static void watched_meet(struct mds_dev *dev, struct mds_dev_async_copy c)
{
    int left = 0;

    for (int i = 0; i < watched.n; i++)
        if (watched.waits[i].copy.direction == c.direction &&
            watched.waits[i].copy.number <= c.number)
            watched.count->bare += watched.waits[i].begun == flops_of(dev);
        else
            watched.waits[left++] = watched.waits[i];
    watched.n = left;
}

static void make_watched(struct mds_dev *dev)
{
    static struct mds_dev_ops ops;

    ops = mds_dev_cpu;
    ops.start_copy = watched_start;
    ops.wait_copy = watched_meet;
    dev->ops = &ops;
}

void watch_copies(struct copies *c)
{
    watched.count = c;
    watched.n = 0;
}

void open_on(struct fixture *f, const struct mds_config *c, const char *device)
{
    struct mds_dev_spec dev = {.name = device, .threads = 2};
    struct mds_engine_spec spec = {.config = &f->config, .threads = 2};

    memset(f, 0, sizeof *f);
    f->config = *c;
    for (int i = 0; i < ROWS * (S + 1); i++)
        f->rows[i] = (i * 7 + i * i / 5) % VOCAB;
    assert_int_equal(mds_dev_create(&dev, &f->dev), MDS_OK);
    assert_int_equal(mds_dev_create(&dev, &f->host), MDS_OK);
    if (late.on)
        make_late(f->dev);
    if (watched.count)
        make_watched(f->dev);
    assert_int_equal(mds_groups_create(&c->parallel, 1, 0, NULL, &f->groups), MDS_OK);
    assert_int_equal(mds_engine_measure(&f->config, 1, 0, 1, &f->need), MDS_OK);
    spec.dev = f->dev;
    spec.host = f->host;
    spec.groups = &f->groups;
    spec.need = &f->need;
    assert_int_equal(mds_engine_create(&spec, &f->engine), MDS_OK);
    assert_int_equal(
        mds_zero_init_weights(mds_engine_zero(f->engine), (uint64_t)c->train.seed),
        MDS_OK);
}

void close_all(struct fixture *f)
{
    mds_engine_destroy(f->engine);
    mds_groups_fini(&f->groups);
    mds_dev_destroy(f->host);
    mds_dev_destroy(f->dev);
}

struct mds_step_result backward(struct fixture *f)
{
    struct mds_engine_rows rows = {
        .token = f->rows, .start = f->starts, .kind = f->kinds};
    struct mds_step_result r;

    if (mds_engine_backward(f->engine, 1, 0, f->config.batch.accumulation, &rows, &r))
        fail_msg("%s", mds_fail_text());
    return r;
}

enum { MOST_MICRO_BATCHES = 8 };

double eval_loss(struct fixture *f)
{
    struct mds_engine_rows rows = {
        .token = f->rows, .start = f->starts, .kind = f->kinds};
    int64_t micro_batches = f->config.batch.accumulation;
    struct mds_kind_losses losses[MOST_MICRO_BATCHES], all = {{0}, {0}};
    double sum, count;

    assert_in_range(micro_batches, 1, MOST_MICRO_BATCHES);
    if (mds_engine_eval(f->engine, &rows, micro_batches, losses))
        fail_msg("%s", mds_fail_text());
    for (int64_t i = 0; i < micro_batches; i++)
        mds_kind_losses_add(&all, &losses[i]);
    if (mds_engine_sum_losses(f->engine, &all, 1))
        fail_msg("%s", mds_fail_text());
    mds_kind_losses_total(&all, &f->config.data.kinds, &sum, &count);
    if (!mds_data_has_starts(&f->config.data) && f->config.data.kinds.n == 0)
        assert_true(count == (double)(f->config.batch.global * S));
    return sum / count;
}

static enum mds_rc append(void *ctx, const struct mds_param *p, const float *values)
{
    struct values *all = ctx;

    all->v = realloc(all->v, (size_t)(all->n + p->count) * sizeof *all->v);
    memcpy(all->v + all->n, values, (size_t)p->count * sizeof *values);
    all->n += p->count;
    return MDS_OK;
}

struct values values_of(struct fixture *f, enum mds_zero_what what)
{
    struct values all = {0};

    assert_int_equal(mds_engine_each_whole(f->engine, what, append, &all), MDS_OK);
    assert_int_equal(all.n, mds_model_params(&f->config.model));
    return all;
}

double grads_of(const struct mds_config *c, struct values *grads)
{
    struct fixture f;
    double loss;

    open_on(&f, c, "cpu");
    loss = backward(&f).loss;
    *grads = values_of(&f, MDS_ZERO_GRAD);
    close_all(&f);
    assert_int_equal(late.n, 0);
    return loss;
}
