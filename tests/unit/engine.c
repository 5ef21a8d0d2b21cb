/* engine and model: gradients, recompute, micro-batches, and the dry rehearsal, each
 * for a GPT and a Llama shape. */
#include "config/options.h"
#include "device/backend.h"
#include "engine/engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { S = 13, ROWS = 4, VOCAB = 11 };

static struct mds_config gpt_shape(void)
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
                                              .data = 1,
                                              .virtual_stages = 1};
    c.train.seed = 5;
    c.train.eval_iters = 1;
    c.train.recompute_layers = 1;
    c.train.bucket_bytes = 4096;
    c.train.overlap_grad_reduce = 1;
    return c;
}

static struct mds_config llama_shape(void)
{
    struct mds_config c = gpt_shape();

    c.model.heads = 4;
    c.model.kv_heads = 2;
    c.model.head_dim = 6;
    c.model.position = MDS_POSITION_ROPE;
    c.model.rotary_percent = 0.7; /* 4 of 6 */
    c.model.norm = MDS_NORM_RMSNORM;
    c.model.swiglu = 1;
    c.model.linear_bias = 0;
    c.model.tied_head = 0;
    return c;
}

static struct mds_config (*const shapes[])(void) = {gpt_shape, llama_shape};

/* The cpu device, but copies beside the queue are as late as they may be: one that is
 * used before it was met, or whose source is gone by then, gives other numbers. */
static struct {
    int on, n;
    struct {
        struct mds_dev_copying copy;
        void *to;
        const void *from;
        int64_t bytes;
    } waits[64];
} late;

static void late_start(struct mds_dev *dev, struct mds_dev_copying c, void *to,
                       const void *from, int64_t bytes)
{
    (void)dev;
    assert_in_range(late.n, 0, 63);
    late.waits[late.n].copy = c;
    late.waits[late.n].to = to;
    late.waits[late.n].from = from;
    late.waits[late.n++].bytes = bytes;
}

static void late_meet(struct mds_dev *dev, struct mds_dev_copying c)
{
    int left = 0;

    (void)dev;
    for (int i = 0; i < late.n; i++)
        if (late.waits[i].copy.way == c.way && late.waits[i].copy.number <= c.number)
            memcpy(late.waits[i].to, late.waits[i].from, (size_t)late.waits[i].bytes);
        else
            late.waits[left++] = late.waits[i];
    late.n = left;
}

static void make_late(struct mds_dev *dev)
{
    static struct mds_dev_ops ops;

    ops = mds_dev_cpu;
    ops.start = late_start;
    ops.meet = late_meet;
    dev->ops = &ops;
}

struct fixture {
    struct mds_config config;
    struct mds_dev *dev, *host;
    struct mds_groups groups;
    struct mds_engine *engine;
    struct mds_engine_need need;
    int32_t rows[ROWS * (S + 1)];
};

static void open_on(struct fixture *f, const struct mds_config *c, const char *device)
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
    assert_int_equal(mds_groups_create(&c->parallel, 1, 0, NULL, &f->groups), MDS_OK);
    assert_int_equal(mds_engine_measure(&f->config, 1, 0, &f->need), MDS_OK);
    spec.dev = f->dev;
    spec.host = f->host;
    spec.groups = &f->groups;
    spec.need = &f->need;
    assert_int_equal(mds_engine_create(&spec, &f->engine), MDS_OK);
    assert_int_equal(
        mds_zero_start(mds_engine_zero(f->engine), (uint64_t)c->train.seed), MDS_OK);
}

static void close_all(struct fixture *f)
{
    mds_engine_destroy(f->engine);
    mds_groups_fini(&f->groups);
    mds_dev_destroy(f->host);
    mds_dev_destroy(f->dev);
}

static struct mds_step_result backward(struct fixture *f)
{
    struct mds_step_result r;

    if (mds_engine_backward(f->engine, 1, 0, f->rows, &r))
        fail_msg("%s", mds_fail_text());
    return r;
}

static double eval_loss(struct fixture *f)
{
    double sum = 0, count = 0;

    if (mds_engine_eval(f->engine, f->rows, &sum, &count))
        fail_msg("%s", mds_fail_text());
    assert_true(count == (double)(f->config.batch.global * S));
    return sum / count;
}

/* Every parameter, along a random direction: (L(w + h d) - L(w - h d)) / 2h against the
 * gradient.  f32 forward passes bound what differences can show. */
static void gradients_match_differences(void **state)
{
    const double h = 1e-2;

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct fixture f;
        struct mds_params *ps;
        double norm;

        open_on(&f, &c, "cpu");
        ps = mds_engine_params(f.engine);
        norm = backward(&f).grad_norm;
        assert_true(norm > 0.01);
        for (int id = 0; id < mds_params_n(ps); id++) {
            const struct mds_param *p = mds_params_get(ps, id);
            float *w = (float *)mds_param_weight(ps, id);
            const float *g = mds_param_grad(ps, id);
            double slope = 0, up, down;

            for (int64_t i = 0; i < p->count; i++)
                slope += (i * 37 % 5 - 2.0) * g[i];
            for (int64_t i = 0; i < p->count; i++)
                w[i] += (float)(h * (i * 37 % 5 - 2.0) / sqrt((double)p->count));
            up = eval_loss(&f);
            for (int64_t i = 0; i < p->count; i++)
                w[i] -= (float)(2 * h * (i * 37 % 5 - 2.0) / sqrt((double)p->count));
            down = eval_loss(&f);
            for (int64_t i = 0; i < p->count; i++)
                w[i] += (float)(h * (i * 37 % 5 - 2.0) / sqrt((double)p->count));
            slope /= sqrt((double)p->count);
            if (fabs((up - down) / (2 * h) - slope) > 2e-3 * norm + 2e-5)
                fail_msg("%s: difference %.6g, gradient %.6g", p->spec.name,
                         (up - down) / (2 * h), slope);
        }
        close_all(&f);
    }
}

static void count_matches_the_formula(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct fixture f;

        open_on(&f, &c, "cpu");
        assert_int_equal(mds_params_count(mds_engine_params(f.engine)),
                         mds_model_params(&c.model));
        close_all(&f);
    }
}

struct all_grads {
    float *values;
    int64_t n;
};

static enum mds_rc append(void *ctx, const struct mds_param *p, const float *values)
{
    struct all_grads *all = ctx;

    all->values =
        realloc(all->values, (size_t)(all->n + p->count) * sizeof *all->values);
    memcpy(all->values + all->n, values, (size_t)p->count * sizeof *values);
    all->n += p->count;
    return MDS_OK;
}

/* Loss and all gradients of a configuration. */
static struct mds_step_result grads_of(const struct mds_config *c, float **grads,
                                       int64_t *n)
{
    struct all_grads all = {0};
    struct fixture f;
    struct mds_step_result r;

    open_on(&f, c, "cpu");
    r = backward(&f);
    assert_int_equal(mds_engine_each_whole(f.engine, MDS_ZERO_GRAD, append, &all),
                     MDS_OK);
    assert_int_equal(all.n, mds_model_params(&c->model));
    close_all(&f);
    assert_int_equal(late.n, 0);
    *grads = all.values;
    *n = all.n;
    return r;
}

/* Nothing is left of the step before, in whatever pieces gradients are made. */
static void gradients_begin_anew(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++) {
        struct mds_config c = shapes[way % 2]();
        struct all_grads first = {0}, second = {0};
        struct fixture f;

        c.train.mlp_tile = way / 2 % 2 ? 5 : 0;
        c.train.loss_tile = way / 2 % 2 ? 7 : 0;
        c.train.recompute = way / 4 ? MDS_RECOMPUTE_FULL : MDS_RECOMPUTE_NONE;
        c.train.recompute_layers = 1;
        c.train.sequence_tile = way / 4 ? c.batch.micro * 3 : 0;
        open_on(&f, &c, "cpu");
        backward(&f);
        assert_int_equal(mds_engine_each_whole(f.engine, MDS_ZERO_GRAD, append, &first),
                         MDS_OK);
        backward(&f);
        assert_int_equal(
            mds_engine_each_whole(f.engine, MDS_ZERO_GRAD, append, &second), MDS_OK);
        assert_memory_equal(first.values, second.values,
                            (size_t)first.n * sizeof *first.values);
        free(first.values);
        free(second.values);
        close_all(&f);
    }
}

static double distance(const float *a, const float *b, int64_t n)
{
    double d = 0, s = 0;

    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        s += (double)a[i] * a[i];
    }
    return sqrt(d / s);
}

static void with_dropout(struct mds_config *c)
{
    c->model.hidden_dropout = 0.2;
    c->model.attention_dropout = 0.3;
}

/* What is kept, where, and what is recomputed changes no bit, with dropout too. */
static void recompute_changes_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct mds_config c = shapes[k % 2]();
        struct mds_step_result want, got;
        float *a, *b;
        int64_t n;

        c.model.layers = 5;
        if (k >= 2)
            with_dropout(&c);
        want = grads_of(&c, &a, &n);
        for (int m = 0; m < 6; m++) {
            c.train.recompute = m == 0 ? MDS_RECOMPUTE_SELECTIVE : MDS_RECOMPUTE_FULL;
            c.train.recompute_layers = m == 2 ? 2 : m == 3 ? 3 : 1;
            c.train.offload_activations = m >= 4;
            c.train.mlp_tile = m == 5 ? 7 : 0;
            got = grads_of(&c, &b, &n);
            if (m == 5) { /* tiles are other products, of other rounding */
                assert_true(fabs(got.loss - want.loss) < 1e-6 * want.loss);
                assert_true(distance(a, b, n) < 2e-6);
            } else {
                assert_true(got.loss == want.loss);
                assert_memory_equal(a, b, (size_t)n * sizeof *a);
            }
            free(b);
        }
        free(a);
    }
}

/* Blocks in tiles, and attention in chunks: each way of keeping what they need. */
static void set_tiles(struct mds_config *c, int way)
{
    static const int64_t every[] = {1, 1, 2, 3, 6}, chunk[] = {0, 0, 5, 1, 4, 13, 20};
    struct mds_train_config *t = &c->train;

    t->recompute = way % 2 ? MDS_RECOMPUTE_SELECTIVE : MDS_RECOMPUTE_FULL;
    t->recompute_layers = way % 2 ? 1 : every[way % 5];
    t->offload_activations = way / 2 % 2;
    t->sequence_tile = way == 0 ? 1 : c->batch.micro * (way % 3 ? 7 : 2);
    t->mlp_tile = way % 4 == 1 ? 3 : 0;
    t->attention_chunk = chunk[way % 7];
    t->keep_attention = t->recompute_layers == 1 ? way % 4 : 0; /* of full alone */
    t->device_inputs = t->offload_activations ? way / 4 % 4 : 0;
}

/* They change rounding alone, whenever copies are done; the last tile is shorter. */
static void tiles_change_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct mds_config c = shapes[k % 2]();
        struct mds_step_result want, got;
        float *a, *b;
        int64_t n;

        c.model.layers = 5;
        if (k >= 2)
            with_dropout(&c);
        want = grads_of(&c, &a, &n);
        for (int way = 0; way < 36; way++) {
            set_tiles(&c, way);
            late.on = way % 3 > 0;
            got = grads_of(&c, &b, &n);
            late.on = 0;
            if (!(fabs(got.loss - want.loss) < 1e-6 * want.loss) ||
                !(distance(a, b, n) < 2e-6))
                fail_msg("way %d: loss %.9g, not %.9g; gradients off by %.2g", way,
                         got.loss, want.loss, distance(a, b, n));
            free(b);
        }
        free(a);
    }
}

/* Micro-batches and tiles of the loss change rounding alone, with dropout too. */
static void splits_agree(void **state)
{
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct mds_config c = shapes[k % 2]();
        struct mds_step_result want, got;
        float *a, *b;
        int64_t n;

        if (k >= 2)
            with_dropout(&c);
        want = grads_of(&c, &a, &n);
        for (int64_t micro = 1; micro <= ROWS; micro *= 2) {
            c.batch.micro = micro;
            c.batch.accumulation = ROWS / micro;
            c.train.loss_tile = 5 * micro;
            got = grads_of(&c, &b, &n);
            assert_true(fabs(got.loss - want.loss) < 1e-6 * want.loss);
            assert_true(distance(a, b, n) < 2e-6);
            free(b);
        }
        free(a);
    }
}

static void dropout_is_off_in_evaluation(void **state)
{
    struct mds_config c = gpt_shape();
    struct fixture f;
    double plain;

    (void)state;
    open_on(&f, &c, "cpu");
    plain = eval_loss(&f);
    assert_true(fabs(plain - backward(&f).loss) < 1e-6);
    close_all(&f);
    with_dropout(&c);
    open_on(&f, &c, "cpu");
    assert_true(eval_loss(&f) == plain);
    assert_true(fabs(backward(&f).loss - plain) > 1e-4);
    close_all(&f);
}

/* cpu and dry: the same ledger to the bit, and the rehearsal was exact. */
static void dry_ledger_is_the_same(void **state)
{
    (void)state;
    for (int k = 0; k < 10; k++) {
        struct mds_config c = shapes[k % 2]();
        struct fixture cpu, dry;
        double sum = 0, count = 0;

        c.train.recompute = (enum mds_recompute)(k / 2);
        if (k >= 6)
            set_tiles(&c, k);
        open_on(&cpu, &c, "cpu");
        open_on(&dry, &c, "dry");
        backward(&cpu);
        backward(&dry);
        assert_int_equal(mds_engine_update(cpu.engine, 1e-3), MDS_OK);
        assert_int_equal(mds_engine_update(dry.engine, 1e-3), MDS_OK);
        assert_int_equal(mds_engine_eval(cpu.engine, cpu.rows, &sum, &count), MDS_OK);
        assert_int_equal(mds_engine_eval(dry.engine, dry.rows, &sum, &count), MDS_OK);
        assert_memory_equal(mds_dev_ledger(cpu.dev), mds_dev_ledger(dry.dev),
                            sizeof(struct mds_ledger));
        assert_int_equal(mds_dev_ledger(cpu.dev)->memory.total_peak,
                         cpu.need.memory.total_peak);
        assert_int_equal(cpu.need.state_bytes + cpu.need.step_bytes,
                         cpu.need.memory.total_peak);
        close_all(&cpu);
        close_all(&dry);
    }
}

/* Less is kept, less is taken. */
static void recompute_saves_memory(void **state)
{
    int64_t peak[3];

    (void)state;
    for (int m = 0; m < 3; m++) {
        struct mds_config c = gpt_shape();
        struct mds_engine_need need;

        c.model.layers = 12;
        c.train.recompute = (enum mds_recompute)m;
        assert_int_equal(mds_engine_measure(&c, 1, 0, &need), MDS_OK);
        peak[m] = need.memory.total_peak;
    }
    assert_true(peak[MDS_RECOMPUTE_FULL] < peak[MDS_RECOMPUTE_SELECTIVE]);
    assert_true(peak[MDS_RECOMPUTE_SELECTIVE] < peak[MDS_RECOMPUTE_NONE]);
}

/* Models of one and five trillion parameters on a million tokens are measured without
 * having them. */
static void a_large_run_is_measured(void **state)
{
    struct mds_config c = gpt_shape();
    struct mds_engine_need need;

    (void)state;
    c.model.layers = 128;
    c.model.hidden = 25600;
    c.model.heads = c.model.kv_heads = 160;
    c.model.head_dim = 160;
    c.model.ffn_hidden = 4 * 25600;
    c.model.seq_length = c.model.max_positions = 1 << 20;
    c.batch.micro = c.batch.global = 1;
    c.train.recompute = MDS_RECOMPUTE_FULL;
    c.train.loss_tile = 1024;
    assert_int_equal(mds_engine_measure(&c, 64, 5, &need), MDS_OK);
    assert_true((double)need.memory.peak[MDS_MEM_PARAM] > 4e12);
    assert_int_equal(need.memory.peak[MDS_MEM_CKPT], 128 * 25600LL * 4 << 20);
    c.model.hidden = 57344;
    c.model.heads = c.model.kv_heads = 448;
    c.model.head_dim = 128;
    c.model.ffn_hidden = 4 * 57344;
    assert_int_equal(mds_engine_measure(&c, 64, 5, &need), MDS_OK);
    assert_true((double)need.memory.peak[MDS_MEM_OPTIM] > 4e13);
}

/* A few steps on one batch bring the loss down. */
/* With tiles the working set of a token is ten vectors: input, q k v, attention's
 * result, the gradients of the last two and of the stream; besides a log-sum-exp a
 * head, and what the token and its target are.  In chunks it is three, and the host has
 * seven and a half more.  Nothing else grows with the sequence, however long: 2^42
 * elements here. */
static void a_token_costs_what_it_must(void **state)
{
    (void)state;
    for (int chunks = 0; chunks < 2; chunks++) {
        struct mds_config c = gpt_shape();
        struct mds_engine_need need[2];
        int64_t tokens = INT64_C(1) << 22, H = 4096, A = 32, L = 64;

        c.model.hidden = H;
        c.model.heads = c.model.kv_heads = A;
        c.model.head_dim = H / A;
        c.model.ffn_hidden = 4 * H;
        c.model.layers = L;
        c.model.position = MDS_POSITION_NONE;
        c.batch = (struct mds_batch_config){1, 1, 1};
        c.train.recompute = MDS_RECOMPUTE_FULL;
        c.train.offload_activations = 1;
        c.train.sequence_tile = 8192;
        c.train.loss_tile = 8192;
        c.train.attention_chunk = chunks ? 65536 : 0;
        for (int i = 0; i < 2; i++) {
            c.model.seq_length = tokens << i;
            assert_int_equal(mds_engine_measure(&c, 1, 0, &need[i]), MDS_OK);
        }
        assert_int_equal(need[1].memory.total_peak - need[0].memory.total_peak,
                         tokens * ((chunks ? 3 : 10) * H * 4 + A * 4 + 2 * 4));
        assert_int_equal(need[1].host_bytes - need[0].host_bytes,
                         tokens * (L + (chunks ? 6 : 0)) * H * 4);
    }
}

static void training_learns(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        struct fixture f;
        double first, last = 0;

        open_on(&f, &c, "cpu");
        first = backward(&f).loss;
        for (int i = 0; i < 30; i++) {
            assert_int_equal(mds_engine_update(f.engine, 0.01), MDS_OK);
            last = backward(&f).loss;
        }
        assert_true(last < 0.5 * first);
        close_all(&f);
    }
}

/* Some steps, an evaluation in between; weights are read while the last update may
 * still be under way. */
static void train_a_little(const struct mds_config *c, int is_late, double loss[5],
                           struct all_grads *weights)
{
    struct fixture f;

    late.on = is_late;
    open_on(&f, c, "cpu");
    late.on = 0;
    for (int i = 0; i < 4; i++) {
        loss[i] = backward(&f).loss;
        assert_int_equal(mds_engine_update(f.engine, 0.01), MDS_OK);
        if (i == 1)
            loss[4] = eval_loss(&f);
    }
    assert_int_equal(mds_engine_each_whole(f.engine, MDS_ZERO_WEIGHT, append, weights),
                     MDS_OK);
    close_all(&f);
}

/* Wherever the optimizer is, and whenever copies are done: the same bits. */
static void the_host_updates_alike(void **state)
{
    static const enum mds_number_type types[] = {MDS_TYPE_F32, MDS_TYPE_BF16};

    (void)state;
    for (int way = 0; way < 16; way++) {
        struct mds_config c = shapes[way % 2]();
        struct all_grads want = {0}, got = {0};
        double a[5], b[5];

        c.train.type = types[way / 2 % 2];
        train_a_little(&c, 0, a, &want);
        c.parallel.offload_optimizer = MDS_PLACE_CPU;
        c.parallel.zero_stage = way / 8 ? 3 : 0;
        c.parallel.offload_params = way / 8 ? MDS_PLACE_CPU : MDS_PLACE_DEVICE;
        train_a_little(&c, way / 4 % 2, b, &got);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(want.values, got.values,
                            (size_t)want.n * sizeof *want.values);
        assert_true(a[3] < a[0]);
        free(want.values);
        free(got.values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(count_matches_the_formula),
        cmocka_unit_test(gradients_begin_anew),
        cmocka_unit_test(recompute_changes_nothing),
        cmocka_unit_test(tiles_change_nothing),
        cmocka_unit_test(splits_agree),
        cmocka_unit_test(dropout_is_off_in_evaluation),
        cmocka_unit_test(dry_ledger_is_the_same),
        cmocka_unit_test(recompute_saves_memory),
        cmocka_unit_test(a_large_run_is_measured),
        cmocka_unit_test(a_token_costs_what_it_must),
        cmocka_unit_test(training_learns),
        cmocka_unit_test(the_host_updates_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
