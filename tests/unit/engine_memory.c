/* SPDX-License-Identifier: BSD-3-Clause */
/* engine and model: what is kept where, in which tiles, and what of it the
 * dry run counts, for a GPT and a Llama shape. */
#include "tests/sample.h"
#include "tests/unit/engine_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static double distance(const float *a, const float *b, int64_t n)
{
    double d = 0, s = 0;

    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        s += (double)a[i] * a[i];
    }
    return sqrt(d / s);
}

/* Kinds with norms before attention and MLP; then those with norms behind them, and
 * those of q and k across heads. */
enum { BEFORE = 16, KINDS = BEFORE + 12 };

static struct mds_config kind_of_block(int k)
{
    struct mds_config c = shapes[k % 2]();

    c.model.qk_layernorm = k / 2 % 2;
    if (k >= BEFORE) {
        c.model.norm_placement = k / 8 % 2 ? MDS_NORM_BOTH : MDS_NORM_AFTER;
        c.model.qk_norm_across_heads = c.model.qk_layernorm;
        c.model.init_std = 0.05; /* else attention scores of unnormed rows are large */
    }
    c.model.parallel_residual = c.model.norm_placement != MDS_NORM_AFTER && k / 4 % 2;
    if (k / 8 % 2 || (k >= BEFORE && k / 4 % 2))
        with_dropout(&c);
    return c;
}

/* Loss and gradients do not depend on how a step is made: ways from .. to - 1 against
 * none of them, off by `limit` (relative) at most, for each kind of block; by twice
 * that where attention and MLP read a stream without a norm. */
static void ways_agree(int64_t layers, int from, int to,
                       void (*set)(struct mds_config *c, int way), double limit)
{
    for (int k = 0; k < KINDS; k++) {
        struct mds_config c = kind_of_block(k);
        struct values want, got;
        double loss, want_loss, off, most = k < BEFORE ? limit : 2 * limit;

        c.model.layers = layers;
        want_loss = grads_of(&c, &want);
        for (int way = from; way < to; way++) {
            if (!is_sampled(k + way, 3))
                continue;
            set(&c, way);
            loss = grads_of(&c, &got);
            be_late(0);
            off = distance(want.v, got.v, want.n);
            if (!(fabs(loss - want_loss) <= most / 2 * want_loss) || !(off <= most))
                fail_msg("kind %d, way %d: loss %.9g, not %.9g; gradients off by %.2g",
                         k, way, loss, want_loss, off);
            free(got.v);
        }
        free(want.v);
    }
}

static void set_recompute(struct mds_config *c, int way)
{
    c->train.act.recompute = way == 0 ? MDS_RECOMPUTE_SELECTIVE : MDS_RECOMPUTE_FULL;
    c->train.act.recompute_layers = way % 4 >= 2 ? way % 4 : 1;
    c->train.act.offload_activations = way >= 4;
}

static void set_modules(struct mds_config *c, int modules)
{
    c->train.act.recompute = modules ? MDS_RECOMPUTE_SELECTIVE : MDS_RECOMPUTE_NONE;
    c->train.act.recompute_modules = modules;
}

static void set_recompute_late(struct mds_config *c, int way)
{
    set_recompute(c, way);
    be_late(1);
}

/* What is kept, where, and what is recomputed changes no bit, whenever copies are done.
 */
static void recompute_changes_nothing(void **state)
{
    (void)state;
    ways_agree(5, 0, 4, set_recompute, 0);
    ways_agree(5, 4, 8, set_recompute_late, 0);
    ways_agree(5, 1, 8, set_modules, 0);
}

/* Ways 1 .. 3 of five blocks. */
static void set_away(struct mds_config *c, int way)
{
    c->train.act.offload_layers = way;
    be_late(0);
}

static void set_away_late(struct mds_config *c, int way)
{
    set_away(c, way);
    be_late(1);
}

static void set_away_late_with_modules(struct mds_config *c, int way)
{
    set_modules(c, way % 4);
    set_away_late(c, way / 4 + 1);
}

/* Gradients and weights travel the same ways. */
static void set_away_late_with_the_optimizer(struct mds_config *c, int way)
{
    c->parallel.offload_optimizer = MDS_PLACE_CPU;
    set_away_late(c, way);
}

static void set_away_late_in_parts(struct mds_config *c, int way)
{
    c->batch.micro = 1;
    c->batch.accumulation = ROWS;
    set_away_late(c, way);
}

/* Nor does where blocks' buffers are between forward and backward, and whose they are
 * meanwhile.  Micro-batches change rounding alone. */
static void leaving_changes_nothing(void **state)
{
    (void)state;
    ways_agree(5, 1, 4, set_away, 0);
    ways_agree(5, 1, 4, set_away_late, 0);
    ways_agree(5, 0, 12, set_away_late_with_modules, 0);
    ways_agree(5, 0, 4, set_away_late_with_the_optimizer, 0);
    ways_agree(5, 0, 4, set_away_late_in_parts, 2e-6);
}

/* Blocks in tiles, and attention in groups of heads: each way of keeping what they
 * need. */
static void set_tiles(struct mds_config *c, int way)
{
    static const int64_t every[] = {1, 1, 2, 3, 6};
    struct mds_train_config *t = &c->train;

    t->act.recompute = way % 2 ? MDS_RECOMPUTE_SELECTIVE : MDS_RECOMPUTE_FULL;
    t->act.recompute_layers = way % 2 ? 1 : every[way % 5];
    t->act.offload_activations = way / 2 % 2;
    t->act.sequence_tile = way == 0 ? 1 : c->batch.micro * (way % 3 ? 7 : 2);
    t->act.head_groups = 1 + way % 4;
    t->act.keep_attention =
        t->act.recompute_layers == 1 ? way % 4 : 0; /* of full alone */
    t->act.device_inputs = t->act.offload_activations ? way / 4 % 4 : 0;
}

static void set_tiles_late(struct mds_config *c, int way)
{
    set_tiles(c, way);
    be_late(way % 3 > 0);
}

/* They change rounding alone, whenever copies are done; the last tile is shorter. */
static void tiles_change_nothing(void **state)
{
    (void)state;
    ways_agree(5, 0, 36, set_tiles_late, 2e-6);
}

static struct copies copies_of(const struct mds_config *c)
{
    struct copies count = {0, 0};
    struct fixture f;

    watch_copies(&count);
    open_on(&f, c, "cpu");
    backward(&f);
    close_all(&f);
    watch_copies(NULL);
    return count;
}

/* More blocks are more copies, of which none shows: only the first input of backward.
 */
static void copies_are_hidden(void **state)
{
    (void)state;
    for (int way = -2; way < 4; way++) {
        struct mds_config c = shapes[way & 1]();
        struct copies few, many;

        c.train.act.recompute =
            way >= 0 && way & 2 ? MDS_RECOMPUTE_SELECTIVE : MDS_RECOMPUTE_FULL;
        c.train.act.sequence_tile = way < 0 ? 0 : 2 * c.batch.micro;
        c.train.act.offload_activations = 1;
        c.model.layers = 4;
        few = copies_of(&c);
        c.model.layers = 12;
        many = copies_of(&c);
        assert_true(3 * few.all <= 2 * many.all);
        assert_int_equal(many.bare, 1);
        assert_int_equal(few.bare, 1);
    }
}

/* Of a block that leaves, both copies go behind others' work, however few stay. */
static void leaving_is_hidden(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        struct mds_config c = shapes[n & 1]();
        struct copies count;

        c.model.layers = 6;
        c.train.act.offload_layers = n;
        count = copies_of(&c);
        assert_int_equal(count.all, 2 * n);
        assert_int_equal(count.bare, 0);
    }
}

static void set_split(struct mds_config *c, int way)
{
    c->batch.micro = 1 << way;
    c->batch.accumulation = ROWS >> way;
    c->train.act.loss_tile = 5 << way;
}

/* So do micro-batches and tiles of the loss. */
static void splits_agree(void **state)
{
    (void)state;
    ways_agree(2, 0, 3, set_split, 2e-6);
}

/* cpu and dry: the same ledger to the bit, and the dry run was exact. */
static void dry_ledger_is_the_same(void **state)
{
    (void)state;
    for (int k = 0; k < 36; k++) {
        struct mds_config c = shapes[k % 2]();
        struct fixture cpu, dry;
        struct mds_kind_losses losses = {{0}, {0}};

        if (k >= 20) {
            c.train.type = MDS_TYPE_BF16;
            c.model.fp8.format = MDS_FP8_HYBRID;
            c.model.fp8.wgrad = k < 28;
            if (k % 8 < 4)
                set_modules(&c, k / 2 % 2);
            else
                set_tiles(&c, k);
        } else if (k >= 16) {
            c.model.layers = 5;
            set_modules(&c, k % 4);
            c.train.act.offload_layers = k % 3 + 1;
        } else if (k >= 12)
            set_tiles(&c, k);
        else if (k >= 6)
            set_modules(&c, k / 2 - 2);
        else
            c.train.act.recompute = (enum mds_recompute)(k / 2);
        open_on(&cpu, &c, "cpu");
        open_on(&dry, &c, "dry");
        backward(&cpu);
        backward(&dry);
        assert_int_equal(mds_engine_update(cpu.engine, 1e-3), MDS_OK);
        assert_int_equal(mds_engine_update(dry.engine, 1e-3), MDS_OK);
        eval_loss(&cpu);
        assert_int_equal(mds_engine_eval(dry.engine, NULL, 1, &losses), MDS_OK);
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

/* An engine that only evaluates computes the same loss from weights alone, wherever
 * training would have its states; the dry run was exact. */
static void evaluation_has_weights_alone(void **state)
{
    static const enum mds_mem_tag none[] = {MDS_MEM_GRAD, MDS_MEM_OPTIM, MDS_MEM_COMM};
    struct mds_kind_losses losses = {{0}, {0}};

    (void)state;
    for (int k = 0; k < 12; k++) {
        struct mds_config c = shapes[k % 2]();
        struct fixture trains, cpu, dry;
        struct mds_step_result result;

        c.train.type = k < 6 ? MDS_TYPE_F32 : MDS_TYPE_BF16;
        c.parallel.offload_optimizer = (enum mds_place_kind)(k / 2 % 3);
        c.parallel.nvme_path = "/tmp";
        open_on(&trains, &c, "cpu");
        c.train.skip_train = 1;
        open_on(&cpu, &c, "cpu");
        open_on(&dry, &c, "dry");
        assert_true(eval_loss(&cpu) == eval_loss(&trains));
        assert_int_equal(mds_engine_eval(dry.engine, NULL, 1, &losses), MDS_OK);
        assert_memory_equal(mds_dev_ledger(cpu.dev), mds_dev_ledger(dry.dev),
                            sizeof(struct mds_ledger));
        assert_int_equal(mds_dev_ledger(cpu.dev)->memory.total_peak,
                         cpu.need.memory.total_peak);
        for (int i = 0; i < 3; i++)
            assert_int_equal(cpu.need.memory.peak[none[i]], 0);
        assert_int_equal(cpu.need.memory.peak[MDS_MEM_PARAM],
                         trains.need.memory.peak[MDS_MEM_PARAM]);
        assert_int_equal(cpu.need.zero.memory_bytes + cpu.need.zero.file_bytes, 0);
        assert_int_equal(mds_engine_backward(cpu.engine, 1, 0, 1, NULL, &result),
                         MDS_EBUG);
        close_all(&trains);
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
        c.train.act.recompute = (enum mds_recompute)m;
        assert_int_equal(mds_engine_measure(&c, 1, 0, 1, &need), MDS_OK);
        peak[m] = need.memory.total_peak;
    }
    assert_true(peak[MDS_RECOMPUTE_FULL] < peak[MDS_RECOMPUTE_SELECTIVE]);
    assert_true(peak[MDS_RECOMPUTE_SELECTIVE] < peak[MDS_RECOMPUTE_NONE]);
}

/* As arenas hand out. */
static int64_t rounded(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Of what is named nothing is kept, of all else everything: norms' two results are as
 * wide as the stream, the activation's as the MLP's inside. */
static void modules_alone_are_not_kept(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct mds_config c = shapes[k]();
        int64_t row = c.batch.micro * c.model.seq_length * (int64_t)sizeof(float);
        int64_t norms = 2 * rounded(row * c.model.hidden) * c.model.layers;
        int64_t act = rounded(row * c.model.ffn_hidden) * c.model.layers, kept[4];

        for (int m = 0; m < 4; m++) {
            struct mds_engine_need need;

            set_modules(&c, m);
            assert_int_equal(mds_engine_measure(&c, 1, 0, 1, &need), MDS_OK);
            kept[m] = need.memory.peak[MDS_MEM_ACT];
        }
        assert_int_equal(kept[0] - kept[MDS_MODULE_LAYERNORM], norms);
        assert_int_equal(kept[0] - kept[MDS_MODULE_MLP_ACT], act);
        assert_int_equal(kept[0] - kept[3], norms + act);
    }
}

/* What a block more keeps, of all micro-batches in flight. */
static int64_t block_bytes(const struct mds_config *c, int stages, int rank)
{
    struct mds_config more = *c;
    struct mds_engine_need few, many;

    more.model.layers += stages;
    assert_int_equal(mds_engine_measure(c, stages, rank, 1, &few), MDS_OK);
    assert_int_equal(mds_engine_measure(&more, stages, rank, 1, &many), MDS_OK);
    return many.memory.peak[MDS_MEM_ACT] - few.memory.peak[MDS_MEM_ACT];
}

/* So many blocks' buffers as leave the device has less; the host has what of them is
 * not made again, of each micro-batch in flight: two on the first of two stages. */
static void what_leaves_is_on_the_host(void **state)
{
    (void)state;
    for (int k = 0; k < 12; k++) {
        struct mds_config c = shapes[k % 2]();
        struct mds_engine_need all, few;
        int n = k / 4 + 1, stages = k / 2 % 2 + 1, rank = k % 3 % stages;
        int64_t block, goes;

        c.model.layers = 5 * stages;
        c.parallel.pipeline = stages;
        c.batch.micro = 1;
        c.batch.accumulation = ROWS;
        set_modules(&c, MDS_MODULE_LAYERNORM | MDS_MODULE_MLP_ACT);
        goes = block_bytes(&c, stages, rank);
        set_modules(&c, k % 4);
        block = block_bytes(&c, stages, rank);
        assert_int_equal(mds_engine_measure(&c, stages, rank, 1, &all), MDS_OK);
        c.train.act.offload_layers = n;
        assert_int_equal(mds_engine_measure(&c, stages, rank, 1, &few), MDS_OK);
        assert_true(goes > 0 && (k % 4 == 3 ? goes == block : goes < block));
        assert_int_equal(few.host.peak[MDS_MEM_ACT], n * goes);
        assert_int_equal(few.host_bytes, n * goes);
        assert_int_equal(all.memory.peak[MDS_MEM_ACT] - few.memory.peak[MDS_MEM_ACT],
                         n * block);
        assert_int_equal(all.step_bytes - few.step_bytes, n * block);
    }
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
    c.train.act.recompute = MDS_RECOMPUTE_FULL;
    c.train.act.loss_tile = 1024;
    assert_int_equal(mds_engine_measure(&c, 64, 5, 64, &need), MDS_OK);
    assert_true((double)need.memory.peak[MDS_MEM_PARAM] > 4e12);
    assert_int_equal(need.memory.peak[MDS_MEM_CKPT], 128 * 25600LL * 4 << 20);
    c.model.hidden = 57344;
    c.model.heads = c.model.kv_heads = 448;
    c.model.head_dim = 128;
    c.model.ffn_hidden = 4 * 57344;
    assert_int_equal(mds_engine_measure(&c, 64, 5, 64, &need), MDS_OK);
    assert_true((double)need.memory.peak[MDS_MEM_OPTIM] > 4e13);
}

/* With tiles the working set of a token is ten vectors: input, q k v, attention's
 * result, the gradients of the last two and of the stream; besides a log-sum-exp a
 * head, and what the token and its target are.  With eight groups of heads q k v,
 * their gradients and attention's sums are an eighth.  Nothing else grows with the
 * sequence, however long: 2^42 elements here. */
static void a_token_costs_what_it_must(void **state)
{
    static const struct {
        int64_t groups;
        double vectors, sums; /* f32 a head */
    } ways[] = {{1, 10, 2}, {8, 4 + 6 / 8.0, 1 + 1 / 8.0}};

    (void)state;
    for (int way = 0; way < 2; way++) {
        struct mds_config c = gpt_shape();
        struct mds_engine_need need[2];
        int64_t tokens = INT64_C(1) << 22, H = 4096, A = 32, L = 64;

        c.model.hidden = H;
        c.model.heads = c.model.kv_heads = A;
        c.model.head_dim = H / A;
        c.model.ffn_hidden = 4 * H;
        c.model.layers = L;
        c.model.position = MDS_POSITION_NONE;
        c.batch = (struct mds_batch_config){.micro = 1, .global = 1, .accumulation = 1};
        c.train.act.recompute = MDS_RECOMPUTE_FULL;
        c.train.act.offload_activations = 1;
        c.train.act.sequence_tile = 8192;
        c.train.act.loss_tile = 8192;
        c.train.act.head_groups = ways[way].groups;
        for (int i = 0; i < 2; i++) {
            c.model.seq_length = tokens << i;
            assert_int_equal(mds_engine_measure(&c, 1, 0, 1, &need[i]), MDS_OK);
        }
        assert_int_equal(need[1].memory.total_peak - need[0].memory.total_peak,
                         tokens * (int64_t)(ways[way].vectors * (double)H * 4 +
                                            ways[way].sums * (double)A * 4 + 2 * 4));
        assert_int_equal(need[1].host_bytes - need[0].host_bytes, tokens * L * H * 4);
    }
}

/* Bytes that a step copies from the host, less those that it copies to it. */
static double copied_in(const struct mds_config *c)
{
    const struct mds_dev_spec spec = {.name = "dry"};
    const struct mds_ledger *ledger;
    struct mds_engine_need need;
    struct mds_groups groups = {0};
    struct mds_dev *dry = NULL;
    double bytes;

    assert_int_equal(mds_dev_create(&spec, &dry), MDS_OK);
    assert_int_equal(mds_groups_create(&c->parallel, 1, 0, NULL, &groups), MDS_OK);
    assert_int_equal(mds_engine_dry_run(c, dry, &groups, &need), MDS_OK);
    ledger = mds_dev_ledger(dry);
    bytes =
        ledger->op[MDS_OP_COPY_IN].cost.bytes - ledger->op[MDS_OP_COPY_OUT].cost.bytes;
    mds_groups_fini(&groups);
    mds_dev_destroy(dry);
    return bytes;
}

/* Bytes over the link are those of the blocks that leave, both ways. */
static void copied_is_what_leaves(void **state)
{
    struct mds_config c = gpt_shape(), none;

    (void)state;
    c.model.layers = 6;
    none = c;
    c.train.act.offload_layers = 4;
    assert_true(copied_in(&c) == copied_in(&none));
}

/* Calls of the two since the program began; linked in their place. */
static int allocations;

void *__real_mds_zalloc(size_t n, size_t size);
void *__real_mds_realloc(void *p, size_t n, size_t size);
void *__wrap_mds_zalloc(size_t n, size_t size);
void *__wrap_mds_realloc(void *p, size_t n, size_t size);

void *__wrap_mds_zalloc(size_t n, size_t size)
{
    allocations++;
    return __real_mds_zalloc(n, size);
}

void *__wrap_mds_realloc(void *p, size_t n, size_t size)
{
    allocations++;
    return __real_mds_realloc(p, n, size);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    for (int way = 0; way < 23; way++) {
        struct mds_config c = gpt_shape();
        struct fixture f;
        int before;

        c.model.layers = 5;
        c.parallel.offload_optimizer = (enum mds_place_kind)(way % 3);
        c.parallel.nvme_path = "/tmp";
        if (way < 8)
            set_recompute(&c, way);
        else if (way >= 20)
            set_away(&c, way - 19);
        else
            set_tiles(&c, way);
        open_on(&f, &c, "cpu");
        backward(&f);
        assert_int_equal(mds_engine_update(f.engine, 1e-3), MDS_OK);
        eval_loss(&f);
        before = allocations;
        backward(&f);
        assert_int_equal(mds_engine_update(f.engine, 1e-3), MDS_OK);
        eval_loss(&f);
        assert_int_equal(allocations, before);
        close_all(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recompute_changes_nothing),
        cmocka_unit_test(leaving_changes_nothing),
        cmocka_unit_test(tiles_change_nothing),
        cmocka_unit_test(copies_are_hidden),
        cmocka_unit_test(leaving_is_hidden),
        cmocka_unit_test(splits_agree),
        cmocka_unit_test(dry_ledger_is_the_same),
        cmocka_unit_test(evaluation_has_weights_alone),
        cmocka_unit_test(recompute_saves_memory),
        cmocka_unit_test(modules_alone_are_not_kept),
        cmocka_unit_test(what_leaves_is_on_the_host),
        cmocka_unit_test(a_large_run_is_measured),
        cmocka_unit_test(a_token_costs_what_it_must),
        cmocka_unit_test(copied_is_what_leaves),
        cmocka_unit_test(a_step_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
