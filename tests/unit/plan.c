/* SPDX-License-Identifier: BSD-3-Clause */
/* plan: plans for a toy machine; where they end is in plan_limits.c. */
#include "tests/unit/toy_plan.h"

#include "engine/engine.h"
#include "plan/search_space.h"

#include <math.h>

static void layouts_that_fit_are_ranked_by_speed(void **state)
{
    struct toy t = open_toy("");
    const struct mds_plan *p = search(&t, 4);

    (void)state;
    assert_true(p->fit_count > 10);
    assert_int_equal(p->untried, 0);
    for (size_t i = 0; i < p->fit_count; i++) {
        const struct mds_estimate *e = &p->fits[i].estimate;

        assert_true(e->fits && e->device_bytes <= t.m->gpu.memory);
        assert_true(i == 0 || 0.94 * e->tokens_s <= p->fits[i - 1].estimate.tokens_s);
    }
    close_toy(&t);
}

static int on_host(const struct mds_plan_entry *e)
{
    return e->layout.offload_optimizer != MDS_PLACE_DEVICE;
}

/* Packed documents shorten attention in proportion, and need the memory of whole rows.
 */
static void documents_shorten_attention(void **state)
{
    struct toy t = open_toy("--seq-length 65536 --zero-stage 1 --micro-batch-size 1");
    struct mds_estimate whole, half, less;

    (void)state;
    whole = search(&t, 1)->fits[0].estimate;
    t.run->config.data.seen = (struct mds_pairs){0.5, 0.5};
    half = search(&t, 1)->fits[0].estimate;
    t.run->config.data.seen = (struct mds_pairs){0.75, 0.75};
    less = search(&t, 1)->fits[0].estimate;
    assert_true(half.compute_s < 0.8 * whole.compute_s);
    assert_true(fabs(whole.compute_s - 2 * less.compute_s + half.compute_s) < 1e-6);
    assert_true(half.device_bytes == whole.device_bytes);
    assert_true(half.model_flops * half.step_s <
                0.8 * whole.model_flops * whole.step_s);
    close_toy(&t);
}

/* Of layouts as fast as each other the one that keeps less on the host goes first. */
static void offload_is_ranked_2_percent_slower(void **state)
{
    struct toy t =
        open_toy("--tensor-model-parallel-size 2 --recompute-granularity full");
    const struct mds_plan *p = search(&t, 4);
    int met = 0;

    (void)state;
    for (size_t i = 0; i < p->fit_count; i++)
        for (size_t k = i + 1; k < p->fit_count; k++) {
            const struct mds_plan_entry *x = &p->fits[i], *y = &p->fits[k];

            if (on_host(x) == on_host(y) ||
                x->estimate.tokens_s > 1.02 * y->estimate.tokens_s)
                continue;
            met += on_host(y);
            assert_true(on_host(y) ||
                        x->estimate.tokens_s > 1.01 * y->estimate.tokens_s);
        }
    assert_true(met > 0);
    close_toy(&t);
}

/* The more room a GPU has, the more blocks keep attention's result, up to all. */
static void spare_memory_saves_attention_results(void **state)
{
    struct toy t = open_toy("--seq-length 65536 --recompute-granularity full "
                            "--cpu-checkpointing --sequence-tile 256 --loss-tile 256");
    int64_t kept = 0, some = 0;

    (void)state;
    for (t.m->gpu.memory = 1 << 28; kept < 4; t.m->gpu.memory += 1 << 25) {
        const struct mds_plan *p = search(&t, 1);
        int64_t n = p->fit_count ? p->fits[0].layout.act.keep_attention : 0;

        assert_true(n >= kept && t.m->gpu.memory < INT64_C(1) << 32);
        some += n > kept && n < 4;
        kept = n;
    }
    assert_true(some > 0);
    close_toy(&t);
}

/* Full recompute that needs no tiles for want of room is faster in tiles all the same,
 * where blocks keep attention's results: of a stage's no more than it has. */
static void tiled_full_recompute_saves_attention(void **state)
{
    struct toy t = open_toy("--num-layers 5 --seq-length 65536 --zero-stage 1 "
                            "--recompute-granularity full --global-batch-size 2 "
                            "--pipeline-model-parallel-size 2");
    const struct mds_plan *p;

    (void)state;
    t.m->gpu.memory = INT64_C(1) << 33;
    p = search(&t, 2);
    assert_true(p->fit_count > 0);
    assert_int_equal(p->fits[0].layout.act.keep_attention, 3);
    close_toy(&t);
}

/* The less room a GPU has, the more blocks leave it, up to half of a stage's, and no
 * more than have to. */
static void blocks_are_offloaded_if_memory_is_short(void **state)
{
    (void)state;
    for (int64_t ranks = 1; ranks <= 2; ranks++) {
        int64_t most = 10 / ranks / 2, left = -1;
        const struct mds_plan_entry *e;
        char options[512];
        struct toy t;

        snprintf(options, sizeof options,
                 "--num-layers 10 --seq-length 8192 --micro-batch-size 1 "
                 "--global-batch-size 2 --recompute-granularity none "
                 "--loss-tile 0 --zero-stage 0 --offload-device none "
                 "--pipeline-model-parallel-size %lld "
                 "--tensor-model-parallel-size 1",
                 (long long)ranks);
        t = open_toy(options);
        for (t.m->gpu.memory = INT64_C(1) << 34; search(&t, ranks)->fit_count > 0;
             t.m->gpu.memory = e->estimate.device_bytes - 1) {
            struct mds_estimate more;
            struct mds_layout l;
            struct mds_config c;

            assert_int_equal(t.p.fit_count, 1);
            e = &t.p.fits[0];
            l = e->layout;
            assert_int_equal(l.act.offload_layers, ++left);
            l.act.offload_layers--;
            if (left == 0)
                continue;
            assert_int_equal(mds_layout_apply(t.run, &l, ranks, &c), MDS_OK);
            assert_int_equal(mds_predict(&c, (int)ranks, 2, t.m, &more), MDS_OK);
            assert_true(more.device_bytes > e->estimate.device_limit);
        }
        assert_int_equal(left, most);
        assert_true(t.p.reject_count > 0 && t.p.rejects[0].divides);
        close_toy(&t);
    }
}

static void options_set_by_the_user_are_kept(void **state)
{
    struct toy t = open_toy("--tensor-model-parallel-size 2 --zero-stage 1 "
                            "--recompute-granularity full");
    const struct mds_plan *p = search(&t, 4);
    struct mds_str text = {0};

    (void)state;
    assert_true(p->fit_count > 0);
    for (size_t i = 0; i < p->fit_count; i++) {
        assert_int_equal(p->fits[i].layout.tensor, 2);
        assert_int_equal(p->fits[i].layout.zero, 1);
        assert_int_equal(p->fits[i].layout.act.recompute, MDS_RECOMPUTE_FULL);
    }
    mds_layout_options(&p->fits[0].layout, NULL, p->fixed, &text);
    assert_non_null(strstr(text.s, "--pipeline-model-parallel-size"));
    assert_null(strstr(text.s, "--tensor-model-parallel-size"));
    mds_str_fini(&text);
    close_toy(&t);
}

/* What goes with some layouts alone is in each that is offered, and mds_pretrain takes
 * them all. */
static void options_of_few_layouts_are_kept(void **state)
{
    static const char *const some[] = {
        "--activation-memory attention=2",
        "--activation-memory attention=2 --zero-stage 1 --loss-tile 1024",
        "--sequence-tile 4096",
        "--cpu-checkpointing",
        "--cpu-checkpointing --sequence-tile 1024",
        "--activation-memory inputs=2",
        "--checkpoint-num-layers 2",
        "--recompute-modules layernorm",
        "--recompute-modules layernorm,mlp",
        "--offload-param-device cpu",
        "--cpu-offloading-num-layers 2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct mds_str asked = {0};
        struct mds_layout now;
        struct mds_config c;
        char options[512];
        struct toy t;

        snprintf(options, sizeof options, "--seq-length 16384 %s", some[i]);
        t = open_toy(options);
        assert_true(search(&t, 2)->fit_count > 0);
        mds_layout_fixed(t.run, 2, &now);
        mds_layout_options(&now, NULL, ~t.p.fixed, &asked);
        for (size_t k = 0; k < t.p.fit_count; k++) {
            const struct mds_layout *l = &t.p.fits[k].layout;
            struct mds_str kept = {0};

            mds_layout_options(l, NULL, ~t.p.fixed, &kept);
            assert_string_equal(kept.s ? kept.s : "", asked.s);
            assert_int_equal(mds_layout_apply(t.run, l, 2, &c), MDS_OK);
            mds_str_fini(&kept);
        }
        mds_str_fini(&asked);
        close_toy(&t);
    }
}

/* Of options that do not go together the sentence says so. */
static void options_that_no_layout_allows_are_errors(void **state)
{
    static const struct {
        const char *options, *sentence;
    } rows[] = {
        {"--activation-memory attention=2 --recompute-granularity selective",
         "--activation-memory attention=N adds to"},
        {"--sequence-tile 1024 --recompute-granularity none",
         "--sequence-tile needs recompute"},
        {"--sequence-tile 1024 --recompute-modules layernorm",
         "--recompute-modules: with --sequence-tile"},
        {"--cpu-checkpointing --recompute-granularity none",
         "--cpu-checkpointing is for the inputs"},
        {"--offload-param-device cpu --zero-stage 1", "and this is stage 1"},
        {"--cpu-offloading-num-layers 2 --recompute-granularity full",
         "--cpu-offloading-num-layers needs blocks"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct toy t = open_toy(rows[i].options);
        const struct mds_plan_request r = request(&t, 2);

        assert_fails(mds_plan_refuse(&r, search(&t, 2)), MDS_EUSER, rows[i].sentence);
        assert_int_equal(t.p.dry_runs, 0);
        close_toy(&t);
    }
}

/* Blocks to be offloaded save all activations, in each layout that is offered. */
static void offload_set_by_the_user_is_kept(void **state)
{
    struct toy t = open_toy("--cpu-offloading-num-layers 2"),
               u = open_toy("--cpu-offloading-num-layers 3");
    const struct mds_plan_request r = request(&u, 4);
    const struct mds_plan *p = search(&t, 4);

    (void)state;
    assert_true(p->fit_count > 0);
    for (size_t i = 0; i < p->fit_count; i++)
        assert_int_equal(p->fits[i].layout.act.offload_layers, 2);
    assert_fails(mds_plan_refuse(&r, search(&u, 4)), MDS_EUSER,
                 "of the 4 blocks of a model two must stay");
    close_toy(&t);
    close_toy(&u);
}

/* A level is kept as the options are that it stands for; auto leaves all open. */
static void a_level_set_by_the_user_is_kept(void **state)
{
    struct toy t = open_toy("--activation-memory 5"),
               u = open_toy("--activation-memory auto"), v = open_toy("");
    const struct mds_plan *p = search(&t, 4);

    (void)state;
    assert_true(p->fit_count > 0);
    for (size_t i = 0; i < p->fit_count; i++)
        assert_int_equal(p->fits[i].layout.act.recompute, MDS_RECOMPUTE_FULL);
    assert_true(mds_layout_equal(&search(&u, 4)->fits[0].layout,
                                 &search(&v, 4)->fits[0].layout));
    close_toy(&t);
    close_toy(&u);
    close_toy(&v);
}

/* The words that ask for a layout, and no word for what there is without. */
static void a_layout_in_full_is_kept(void **state)
{
    struct mds_layout l = {.tensor = 2,
                           .expert = 1,
                           .act.recompute = MDS_RECOMPUTE_SELECTIVE,
                           .act.recompute_modules =
                               MDS_MODULE_LAYERNORM | MDS_MODULE_MLP_ACT,
                           .act.recompute_layers = 1,
                           .act.head_groups = 1,
                           .act.loss_tile = MDS_DEFAULT_LOSS_TILE,
                           .act.offload_layers = 3};
    struct mds_str text = {0};

    (void)state;
    mds_layout_options(&l, NULL, 0, &text);
    assert_string_equal(text.s,
                        "--tensor-model-parallel-size 2 --recompute-granularity "
                        "selective --recompute-modules layernorm,mlp_act "
                        "--cpu-offloading-num-layers 3");
    mds_str_fini(&text);
    l = (struct mds_layout){
        .tensor = 2, .expert = 4, .act.recompute_layers = 3, .act.head_groups = 1};
    mds_layout_options(&l, NULL, 0, &text);
    assert_string_equal(text.s, "--tensor-model-parallel-size 2 "
                                "--expert-model-parallel-size 4 --loss-tile 0 "
                                "--checkpoint-num-layers 3");
    mds_str_fini(&text);
}

/* Where all is fixed there is one layout, and it is dry_runs about once. */
static void a_fixed_layout_gives_one_row(void **state)
{
    struct toy t = open_toy(
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 "
        "--ds-sequence-parallel-size 1 --context-parallel-size 1 --zero-stage 1 "
        "--offload-device none --sequence-parallel --recompute-granularity full "
        "--cpu-checkpointing=0 --loss-tile 0");
    const struct mds_plan *p = search(&t, 4);

    (void)state;
    assert_int_equal(p->fit_count, 1);
    assert_true(p->dry_runs <= 8);
    close_toy(&t);
}

/* Time is asked for before each dry run, not once a grid: here there is but one. */
static void a_search_ends_within_its_budget(void **state)
{
    struct toy t = open_toy("--tensor-model-parallel-size 2 "
                            "--pipeline-model-parallel-size 1 "
                            "--ds-sequence-parallel-size 1 --context-parallel-size 1");
    struct mds_plan_request r = request(&t, 4);
    const struct mds_plan *p = search(&t, 4);
    int64_t dry_runs = p->dry_runs;
    struct mds_diag diag = {0};
    double took_s = p->took_s;
    char *text = NULL;
    size_t size;
    FILE *f;

    (void)state;
    assert_int_equal(p->untried, 0);
    for (int i = 0; i < 4; i++) /* others may have had the cores meanwhile */
        took_s = fmin(took_s, search(&t, 4)->took_s);
    r.budget_s = took_s / 20;
    mds_plan_fini(&t.p);
    assert_int_equal(mds_plan_search(&r, &diag, &t.p), MDS_OK);
    assert_true(t.p.dry_runs < dry_runs / 2);
    assert_int_equal(t.p.untried, 1);
    r.budget_s = 0;
    mds_plan_fini(&t.p);
    assert_int_equal(mds_plan_search(&r, &diag, &t.p), MDS_OK);
    assert_fails(mds_plan_refuse(&r, &t.p), MDS_EUSER, "1 grid was not tried");
    f = open_memstream(&text, &size);
    mds_plan_advise(&r, &t.p, f);
    fclose(f);
    assert_string_equal(text,
                        "nothing that was tried fits, and time ran out before all was "
                        "tried (--plan-seconds)\n");
    free(text);
    close_toy(&t);
}

/* As was long not found: 25 billion weights, a million tokens, 8 nodes of four GPUs. */
static void a_million_tokens_are_planned_in_time(void **state)
{
    struct toy t = {.run = read_run("--num-layers 64 --hidden-size 6144 --bf16 "
                                    "--num-attention-heads 64 --seq-length 1000000 "
                                    "--vocab-size 50257")};
    struct mds_plan_request r;
    struct mds_diag diag = {0};

    (void)state;
    assert_int_equal(mds_machine_find("polaris", "", &diag, &t.m), MDS_OK);
    r = request(&t, 32);
    r.per_node = 4;
    r.budget_s = 4;
    assert_int_equal(mds_plan_search(&r, &diag, &t.p), MDS_OK);
    assert_true(t.p.fit_count > 0);
    assert_true(t.p.first_s > 0 && t.p.first_s < 4);
    mds_diag_fini(&diag);
    close_toy(&t);
}

/* One sequence on two nodes of four GPUs, with heads for both ways to share it: between
 * the nodes go the messages of a ring, which attention hides; the all-to-alls stay
 * inside.  Not so if the network were faster than a GPU's links. */
static void the_network_decides_between_ring_and_ulysses(void **state)
{
    struct toy t = {.run = read_options(
                        "--num-layers 8 --hidden-size 4096 --num-attention-heads 32 "
                        "--num-key-value-heads 8 --seq-length 131072 --bf16 "
                        "--vocab-size 50257 --tensor-model-parallel-size 1 "
                        "--pipeline-model-parallel-size 1 --zero-stage 3 "
                        "--micro-batch-size 1 --recompute-granularity full "
                        "--sequence-tile 4096 --loss-tile 4096 "
                        "--global-batch-size 1")};
    struct mds_plan_request r;
    struct mds_diag diag = {0};

    (void)state;
    assert_int_equal(mds_machine_find("polaris", "", &diag, &t.m), MDS_OK);
    for (int fast = 0; fast < 2; fast++) {
        const struct mds_layout *best;

        if (fast)
            t.m->links.net_bytes_s = 4 * t.m->links.gpu_bytes_s;
        r = request(&t, 8);
        r.per_node = 4;
        mds_plan_fini(&t.p);
        assert_int_equal(mds_plan_search(&r, &diag, &t.p), MDS_OK);
        assert_true(t.p.fit_count > 0);
        best = &t.p.fits[0].layout;
        assert_int_equal(best->ulysses, fast ? 8 : 4);
        assert_int_equal(best->ring, fast ? 1 : 2);
    }
    mds_diag_fini(&diag);
    close_toy(&t);
}

/* Eight ranks share the heads of a model that has one key/value head. */
static void more_ulysses_ranks_than_key_value_heads(void **state)
{
    struct toy t = open_toy("--num-attention-heads 8 --num-key-value-heads 1 "
                            "--tensor-model-parallel-size 1 --context-parallel-size 1 "
                            "--pipeline-model-parallel-size 1 --global-batch-size 1");
    const struct mds_plan *p = search(&t, 8);

    (void)state;
    assert_true(p->fit_count > 0);
    for (size_t i = 0; i < p->fit_count; i++)
        assert_int_equal(p->fits[i].layout.ulysses, 8);
    close_toy(&t);
}

/* SP_TYPE fixes the whole grid; what it does not say is searched. */
static void sp_type_is_kept(void **state)
{
    struct toy megatron = open_toy("--sp-type megatron"), ds = open_toy("--sp-type ds");
    const struct mds_plan *p = search(&megatron, 4);

    (void)state;
    assert_true(p->fit_count > 1);
    for (size_t i = 0; i < p->fit_count; i++)
        assert_int_equal(p->fits[i].layout.tensor, 4);
    p = search(&ds, 4);
    assert_true(p->fit_count > 0);
    for (size_t i = 0; i < p->fit_count; i++) {
        assert_int_equal(p->fits[i].layout.ulysses, 4);
        assert_int_equal(p->fits[i].layout.zero, 3);
    }
    close_toy(&megatron);
    close_toy(&ds);
}

/* The plan's memory is the engine's own. */
static void predicted_memory_is_what_the_engine_measures(void **state)
{
    const struct mds_layout l = {.tensor = 2,
                                 .pipeline = 1,
                                 .ulysses = 2,
                                 .ring = 1,
                                 .expert = 1,
                                 .zero = 2,
                                 .micro = 1};
    struct toy t = open_toy("");
    struct mds_engine_need need;
    struct mds_estimate e;
    struct mds_config c;

    (void)state;
    assert_int_equal(mds_layout_apply(t.run, &l, 4, &c), MDS_OK);
    c.train.eval_iters = 0;
    assert_int_equal(mds_predict(&c, 4, 2, t.m, &e), MDS_OK);
    assert_int_equal(mds_engine_measure(&c, 4, 0, 4, &need), MDS_OK);
    assert_int_equal(e.memory.total_peak, need.memory.total_peak);
    assert_int_equal(e.memory.total_peak, need.state_bytes + need.step_bytes);
    assert_int_equal(e.untracked.libraries, t.m->overhead.bytes);
    assert_int_equal(e.device_bytes, e.memory.total_peak + e.untracked.libraries +
                                         e.untracked.messages + e.untracked.attention);
    assert_true(e.step_s > 0 && e.tensor_s > 0 && e.sequence_s > 0);
    assert_true(e.idle_s == 0);
    close_toy(&t);
}

static void a_row_of_the_model_table_goes_first(void **state)
{
    static const char table[] =
        "TOY: {layers: 4, hidden: 256, heads: 8}\n"
        "layouts:\n"
        "  - {model: TOY, gpu: T, gpus: 4, tensor: 1, max_seq: 1k}\n"
        "  - {model: toy, gpu: T, gpus: 4, ulysses: 2, zero: 2, micro: 1, source: "
        "here}\n";
    const struct mds_plan *p;
    struct toy t;

    (void)state;
    write_file("table.yaml", table, strlen(table));
    t = open_toy("--model-size-key TOY --model-table table.yaml");
    p = search(&t, 4);
    assert_string_equal(p->origin, "table.yaml:4, here");
    assert_int_equal(p->fits[0].layout.ulysses, 2);
    assert_int_equal(p->fits[0].layout.zero, 2);
    for (size_t i = 1; i < p->fit_count; i++)
        assert_false(p->fits[i].layout.ulysses == 2 && p->fits[i].layout.zero == 2 &&
                     p->fits[i].estimate.device_bytes ==
                         p->fits[0].estimate.device_bytes);
    close_toy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_that_fit_are_ranked_by_speed),
        cmocka_unit_test(documents_shorten_attention),
        cmocka_unit_test(offload_is_ranked_2_percent_slower),
        cmocka_unit_test(spare_memory_saves_attention_results),
        cmocka_unit_test(tiled_full_recompute_saves_attention),
        cmocka_unit_test(blocks_are_offloaded_if_memory_is_short),
        cmocka_unit_test(offload_set_by_the_user_is_kept),
        cmocka_unit_test(options_set_by_the_user_are_kept),
        cmocka_unit_test(options_of_few_layouts_are_kept),
        cmocka_unit_test(options_that_no_layout_allows_are_errors),
        cmocka_unit_test(a_level_set_by_the_user_is_kept),
        cmocka_unit_test(a_layout_in_full_is_kept),
        cmocka_unit_test(a_fixed_layout_gives_one_row),
        cmocka_unit_test(a_search_ends_within_its_budget),
        cmocka_unit_test(a_million_tokens_are_planned_in_time),
        cmocka_unit_test(the_network_decides_between_ring_and_ulysses),
        cmocka_unit_test(more_ulysses_ranks_than_key_value_heads),
        cmocka_unit_test(sp_type_is_kept),
        cmocka_unit_test(predicted_memory_is_what_the_engine_measures),
        cmocka_unit_test(a_row_of_the_model_table_goes_first),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
