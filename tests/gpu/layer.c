/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/gpu/layer.h"
#include "kernels/half.h"
#include "model/lists.h"
#include "pipeline/pipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void die(const char *what)
{
    printf("Bail out! %s: %s\n", what, mds_fail_text());
    exit(1);
}

void must(enum mds_rc rc, const char *what)
{
    if (rc)
        die(what);
}

void *must_alloc(int64_t n, size_t size)
{
    void *p = malloc((size_t)n * size);

    if (!p)
        die("host memory");
    return p;
}

double worst(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* ---- threads ---- */

static void run_subtask(struct mds_task *job)
{
    struct subtask *s = (struct subtask *)job;

    s->run(s);
}

void run_subtasks(struct layer *l, int n, void (*run)(struct subtask *s),
                  const void *what, struct subtask *subtask, double off[3])
{
    for (int i = 0; i < n; i++) {
        subtask[i] = (struct subtask){
            .job.run = run_subtask, .run = run, .l = l, .what = what, .index = i};
        mds_worker_start(l->threads, &subtask[i].job);
    }
    for (int i = 0; i < n; i++) {
        mds_worker_wait(l->threads, &subtask[i].job);
        for (int k = 0; off && k < 3; k++)
            off[k] = worst(subtask[i].off[k], off[k]);
    }
}

int64_t subtask_start(int64_t n, int i)
{
    return n * i / SUBTASKS;
}

/* ---- the layer on the device ---- */

static struct mds_config config_of(int64_t S, int64_t H, int64_t A, int64_t tile)
{
    struct mds_config c = {0};

    c.model = (struct mds_model_config){.layers = 1,
                                        .hidden = H,
                                        .heads = A,
                                        .kv_heads = A,
                                        .head_dim = H / A,
                                        .ffn_hidden = 4 * H,
                                        .seq_length = S,
                                        .max_positions = S,
                                        .vocab = 64,
                                        .padded_vocab = 64,
                                        .vocab_divisor = 64,
                                        .position = MDS_POSITION_ROPE,
                                        .rotary_base = 10000,
                                        .rotary_percent = 1,
                                        .norm = MDS_NORM_LAYERNORM,
                                        .norm_eps = 1e-5,
                                        .linear_bias = 1,
                                        .tied_head = 1,
                                        .init_std = 1 / sqrt((double)H)};
    c.batch = (struct mds_batch_config){.micro = 1, .global = 1, .accumulation = 1};
    c.optim = (struct mds_optim_config){.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    c.parallel =
        (struct mds_parallel_config){.size = {1, 1, 1, 1, 1, 1}, .virtual_stages = 1};
    c.train = (struct mds_train_config){.seed = 3,
                                        .type = MDS_TYPE_BF16,
                                        .act.recompute = MDS_RECOMPUTE_FULL,
                                        .act.recompute_layers = 1,
                                        .act.sequence_tile = tile,
                                        .act.head_groups = 1,
                                        .flash_attn = 1,
                                        .bucket_bytes = 1 << 20};
    return c;
}

static void open_engine(struct layer *l, const char *device)
{
    struct mds_dev_spec spec = {.name = device};
    struct mds_engine_need need;
    struct mds_engine_spec engine = {
        .config = &l->config, .groups = &l->groups, .need = &need, .threads = 1};

    must(mds_dev_create(&spec, &l->dev), "device");
    spec.host_side = 1;
    must(mds_dev_create(&spec, &l->host), "host memory");
    must(mds_groups_create(&l->config.parallel, 1, 0, NULL, &l->groups), "groups");
    must(mds_engine_measure(&l->config, 1, 0, 1, &need), "measuring");
    need.step_bytes += 2 * (l->S * l->H * 2 + MDS_ARENA_ALIGN); /* for x and y */
    engine.dev = l->dev;
    engine.host = l->host;
    must(mds_engine_create(&engine, &l->e), "memory");
    must(mds_zero_init_weights(mds_engine_zero(l->e), 3), "start values");
    l->id = &l->e->gpt->chunk[0].block[0];
}

uint16_t noise(uint64_t seed, int64_t i)
{
    uint64_t z = ((uint64_t)i + seed) * UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z ^= z >> 27;
    return mdsk_f32_to_bf16((float)(z >> 40) / 8388608.0f - 1.0f);
}

/* Rows of a tensor on their way between the host and the device. */
struct rows {
    uint16_t *rows; /* [n, width] */
    int64_t first, n, width;
    uint64_t seed;
    struct part *to;
    int parts;
};

static void fill_rows(struct subtask *s)
{
    const struct rows *b = s->what;
    int64_t H = s->l->H, end = subtask_start(b->n * H, s->index + 1);

    for (int64_t i = subtask_start(b->n * H, s->index); i < end; i++)
        b->rows[i] = noise(b->seed, b->first * H + i);
}

static void copy_samples(struct subtask *s)
{
    const struct rows *b = s->what;
    const struct layer *l = s->l;
    int64_t end = subtask_start(b->n, s->index + 1);

    for (int64_t i = subtask_start(b->n, s->index); i < end; i++)
        for (int p = 0; p < b->parts; p++) {
            const uint16_t *row = b->rows + i * b->width + p * l->H;
            int64_t at = b->first + i;
            size_t bytes = (size_t)l->D * sizeof *row;

            memcpy(b->to[p].head[0] + at * l->D, row, bytes);
            memcpy(b->to[p].head[1] + at * l->D, row + l->H - l->D, bytes);
            for (int k = 0; k < SAMPLES; k++)
                if (l->sample[k] == at)
                    memcpy(b->to[p].row + k * l->H, row, (size_t)l->H * sizeof *row);
        }
}

enum { BLOCK_BYTES = 1 << 28 };

/* The next block behind b, of at most BLOCK_BYTES; 0 behind the last. */
static int next_block(const struct layer *l, struct rows *b)
{
    int64_t most = BLOCK_BYTES / (b->width * (int64_t)sizeof *b->rows);

    b->first += b->n;
    b->n = l->S - b->first < most ? l->S - b->first : most;
    return b->n > 0;
}

static void *alloc_block(const struct layer *l)
{
    void *rows = NULL;

    must(mds_dev_alloc(l->host, BLOCK_BYTES, &rows), "host memory");
    return rows;
}

static void put_noise(struct layer *l, uint64_t seed, void *x)
{
    struct rows b = {.rows = alloc_block(l), .width = l->H, .seed = seed};
    struct subtask subtask[SUBTASKS];

    while (next_block(l, &b)) {
        run_subtasks(l, SUBTASKS, fill_rows, &b, subtask, NULL);
        mds_dev_copy_in(l->dev, (uint16_t *)x + b.first * l->H, b.rows,
                        b.n * l->H * (int64_t)sizeof *b.rows);
    }
    mds_dev_free(l->host, b.rows, BLOCK_BYTES);
}

/* Tensors whose rows lie side by side. */
static void copy_out(struct layer *l, const void *from, struct part *to, int parts)
{
    uint16_t *rows = alloc_block(l);
    struct rows b = {.rows = rows, .width = parts * l->H, .to = to, .parts = parts};
    struct subtask subtask[SUBTASKS];

    must(mds_dev_wait(l->dev), "the layer");
    while (next_block(l, &b)) {
        const uint16_t *at = (const uint16_t *)from + b.first * b.width;

        must(mds_dev_copy_out(l->dev, rows, at, b.n * b.width * (int64_t)sizeof *rows),
             "copying out");
        run_subtasks(l, SUBTASKS, copy_samples, &b, subtask, NULL);
    }
    mds_dev_free(l->host, rows, BLOCK_BYTES);
}

void rotate(const struct layer *l, int64_t row, int inverse, double *x)
{
    int64_t half = l->D / 2;

    for (int64_t i = 0; i < half; i++) {
        double t =
            (double)row * pow(l->config.model.rotary_base, -(double)i / (double)half);
        double c = cos(t), s = inverse ? -sin(t) : sin(t), a = x[i], b = x[i + half];

        x[i] = a * c - b * s;
        x[i + half] = b * c + a * s;
    }
}

static void rotate_back(const struct layer *l, int64_t row, uint16_t *x,
                        double *scratch)
{
    for (int64_t e = 0; e < l->D; e++)
        scratch[e] = mdsk_bf16_to_f32(x[e]);
    rotate(l, row, 1, scratch);
    for (int64_t e = 0; e < l->D; e++)
        x[e] = mdsk_f32_to_bf16((float)scratch[e]);
}

static void rotate_rows_back(struct subtask *s)
{
    const struct layer *l = s->l;
    const struct part *part = s->what;
    double *scratch = must_alloc(l->D, sizeof *scratch);

    for (int64_t i = subtask_start(l->S, s->index);
         i < subtask_start(l->S, s->index + 1); i++)
        for (int k = 0; k < 2; k++)
            rotate_back(l, i, part->head[k] + i * l->D, scratch);
    for (int64_t h = 0; h < l->A && s->index < SAMPLES; h++)
        rotate_back(l, l->sample[s->index], part->row + s->index * l->H + h * l->D,
                    scratch);
    free(scratch);
}

static void copy_lse_out(struct layer *l, const float *lse)
{
    int64_t bytes = l->S * (int64_t)sizeof *lse;

    for (int k = 0; k < 2; k++)
        must(mds_dev_copy_out(l->dev, l->lse[k], lse + k * (l->A - 1) * l->S, bytes),
             "copying out");
}

/* The operations of a block's lists; attention's leave its operands in the layer. */
struct watched {
    struct block_pass block; /* first: the context of operations */
    struct layer *l;
};

static enum mds_rc attend(void *ctx, const struct mds_block_call *call)
{
    struct watched *w = ctx;

    MDS_TRY(mds_gpt_operations[MDS_STEP_ATTEND](ctx, call));
    if (!call->out[1])
        return MDS_OK; /* in forward, which does not keep it */
    copy_out(w->l, call->in[0], w->l->qkv, 3);
    copy_out(w->l, call->out[0], &w->l->o, 1);
    copy_lse_out(w->l, call->out[1]);
    return MDS_OK;
}

static enum mds_rc attend_bwd(void *ctx, const struct mds_block_call *call)
{
    struct watched *w = ctx;
    struct subtask subtask[SUBTASKS];

    copy_out(w->l, call->in[3], &w->l->d_o, 1);
    MDS_TRY(mds_gpt_operations[MDS_STEP_ATTEND_BWD](ctx, call));
    copy_out(w->l, call->out[0], w->l->dqkv, 3);
    for (int p = 0; p < 2; p++) /* the next steps do it */
        run_subtasks(w->l, SUBTASKS, rotate_rows_back, &w->l->dqkv[p], subtask, NULL);
    return MDS_OK;
}

/* Forward from x to y; backward from the gradient d to that of x, in its place. */
static void run_list(struct layer *l, const struct context *c,
                     const struct mds_step_list *list, void *x, void *y, void *d)
{
    mds_perform_fn *perform[MDS_STEP_OPS];
    struct watched w = {.block = {.all = c,
                                  .whole = c,
                                  .c = c,
                                  .id = l->id,
                                  .all_heads = l->id,
                                  .put_message = -1},
                        .l = l};
    struct mds_block_frame f = {
        .arena = c->run->arena,
        .arg = {[MDS_ARG_X] = x, [MDS_ARG_X0] = x, [MDS_ARG_Y] = y, [MDS_ARG_D] = d},
        .enter_tile = mds_gpt_enter_tile,
        .enter_group = mds_gpt_enter_group,
        .is_sum = 1,
        .perform = perform,
        .wait = mds_gpt_wait,
        .ctx = &w};

    memcpy(perform, mds_gpt_operations, sizeof perform);
    perform[MDS_STEP_ATTEND] = attend;
    perform[MDS_STEP_ATTEND_BWD] = attend_bwd;
    must(mds_block_run(list, &f), "a list");
}

void layer_run(struct layer *l)
{
    static struct block_lists lists;
    const struct typed_lists *typed = &lists.of[0];
    struct mds_gpt_run run = {.dev = l->dev,
                              .arena = &l->e->step,
                              .train = &l->config.train,
                              .B = 1,
                              .S = l->S,
                              .saved_buffers = 1,
                              .training = 1,
                              .grad_scale = 1};
    struct context c = {0};
    struct mds_arena_mark mark = mds_arena_mark(&l->e->step);
    void *x = NULL, *y = NULL;

    mds_zero_step_begin(l->e->zero);
    mds_zero_pass_begin(l->e->zero, 1);
    mds_gpt_context(l->e->gpt, &run, &(struct mds_gpt_batch){0}, &c);
    memset(&lists, 0, sizeof lists);
    must(mds_gpt_compile_lists(&c, &lists), "lists");
    must(mds_gpt_scratch(&c, l->S * l->H, &x), "x");
    must(mds_gpt_scratch(&c, l->S * l->H, &y), "y");
    put_noise(l, 1, x);
    run_list(l, &c, &typed->forward[LISTS_SAVING], x, y, NULL);
    copy_out(l, y, &l->y, 1);
    put_noise(l, 2, y);
    run_list(l, &c, &typed->backward[LISTS_SAVING], x, NULL, y);
    copy_out(l, y, &l->dx, 1);
    mds_arena_release(&l->e->step, mark);
}

/* ---- life ---- */

/* All that is looked at. */
static void parts_of(struct layer *l, struct part *part[10])
{
    part[0] = &l->o;
    part[1] = &l->d_o;
    part[2] = &l->y;
    part[3] = &l->dx;
    for (int p = 0; p < 3; p++) {
        part[4 + p] = &l->qkv[p];
        part[7 + p] = &l->dqkv[p];
    }
}

static void take_parts(struct layer *l)
{
    struct part *part[10];

    parts_of(l, part);
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 2; k++)
            part[i]->head[k] = must_alloc(l->S * l->D, sizeof *part[i]->head[k]);
        part[i]->row = must_alloc(SAMPLES * l->H, sizeof *part[i]->row);
    }
    for (int k = 0; k < 2; k++)
        l->lse[k] = must_alloc(l->S, sizeof *l->lse[k]);
}

static void free_parts(struct layer *l)
{
    struct part *part[10];

    parts_of(l, part);
    for (int i = 0; i < 10; i++) {
        free(part[i]->head[0]);
        free(part[i]->head[1]);
        free(part[i]->row);
    }
    free(l->lse[0]);
    free(l->lse[1]);
}

/* Rows at the ends, around the border of a tile, and between. */
static void choose_rows(struct layer *l)
{
    int64_t S = l->S, tile = l->config.train.act.sequence_tile;
    int64_t rows[SAMPLES] = {9, S / 3, S / 2, tile - 1, tile, S - S / 7, S - 2, S - 1};

    for (int i = 0; i < SAMPLES; i++)
        l->sample[i] = rows[i] < S ? rows[i] : S - 1;
}

void layer_open(struct layer *l, const char *device, int64_t tile)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    l->config = config_of(l->S, l->H, l->A, tile);
    must(mds_worker_create(cores > 1 ? (int)cores : 1, &l->threads), "threads");
    take_parts(l);
    choose_rows(l);
    open_engine(l, device);
}

void layer_close(struct layer *l)
{
    mds_engine_destroy(l->e);
    mds_groups_fini(&l->groups);
    mds_dev_destroy(l->host);
    mds_dev_destroy(l->dev);
    mds_worker_destroy(l->threads);
    free_parts(l);
}
