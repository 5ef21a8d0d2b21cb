/* SPDX-License-Identifier: BSD-3-Clause */
/* plan: what does not fit, what would, and how long a sequence may be. */
#include "tests/unit/toy_plan.h"

/* The sentence, and not that memory is short. */
static void impossible_sizes_are_errors(void **state)
{
    struct toy t = open_toy("--ds-sequence-parallel-size 3");
    const struct mds_plan_request r = request(&t, 4);
    FILE *f = fopen("advice", "w+");

    (void)state;
    assert_fails(mds_plan_refuse(&r, search(&t, 4)), MDS_EUSER, "Ulysses 3 x");
    mds_plan_advise(&r, &t.p, f);
    assert_int_equal(ftell(f), 0);
    fclose(f);
    close_toy(&t);
}

static void advice_names_what_would_fit(void **state)
{
    struct toy t =
        open_toy("--seq-length 32000 --recompute-granularity none --zero-stage 1 "
                 "--cpu-offloading-num-layers 0");
    const struct mds_plan_request r = request(&t, 2);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    (void)state;
    t.m->node.count = 1; /* more nodes are no advice */
    assert_int_equal(search(&t, 2)->fit_count, 0);
    mds_plan_advise(&r, &t.p, f);
    fclose(f);
    assert_non_null(strstr(text, "if --recompute-granularity is left to the plan: "));
    assert_null(strstr(text, "without --zero-stage"));
    assert_non_null(strstr(text, "tokens would fit"));
    assert_null(strstr(text, "number of nodes"));
    free(text);
    close_toy(&t);
}

static void rejects_say_why(void **state)
{
    struct toy t = open_toy("--seq-length 2000000");
    const struct mds_plan *p = search(&t, 2);

    (void)state;
    assert_int_equal(p->fit_count, 0);
    assert_true(p->reject_count > 2);
    assert_true(p->rejects[0].divides);
    assert_true(p->rejects[0].entry.estimate.device_bytes > t.m->gpu.memory);
    close_toy(&t);
}

/* The least of a grid is what is nearest to fit, wherever states are: here 12 bytes of
 * a weight, which the host nearly has. */
static void rejects_show_their_least_memory_layout(void **state)
{
    struct toy t = open_toy("--hidden-size 9216 --num-attention-heads 8");
    const struct mds_plan *p = search(&t, 2);

    (void)state;
    assert_int_equal(p->fit_count, 0);
    assert_true(p->reject_count > 2 && p->rejects[0].divides);
    for (size_t i = 0; i < p->reject_count && p->rejects[i].divides; i++)
        assert_int_equal(p->rejects[i].entry.layout.offload_optimizer, MDS_PLACE_CPU);
    close_toy(&t);
}

/* Without GPUs what is on the device and on the host is in one place. */
static void cpu_ranks_need_device_and_host_memory(void **state)
{
    struct toy t = open_toy("--hidden-size 7168 --device cpu --offload-device cpu");
    const struct mds_plan_request r = request(&t, 2);
    double need, have;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    (void)state;
    t.m->node.gpus = 0;
    assert_int_equal(search(&t, 2)->fit_count, 0);
    assert_true(t.p.rejects[0].entry.estimate.device_bytes <
                t.p.rejects[0].entry.estimate.device_limit);
    mds_plan_print(&r, &t.p, 1, f);
    fclose(f);
    assert_non_null(strstr(text, "needs "));
    assert_int_equal(
        sscanf(strstr(text, "needs "), "needs %lf GiB of %lf GiB", &need, &have), 2);
    assert_true(need > have);
    free(text);
    close_toy(&t);
}

/* GEMMs at another rate, and casts beside them; without weights' gradients two of
 * three. */
static void fp8_has_its_own_rate(void **state)
{
    static const char shape[] = "--hidden-size 1024 --bf16 ";
    char options[128];
    struct mds_estimate e[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct mds_layout one = {.tensor = 1,
                                       .pipeline = 1,
                                       .ulysses = 1,
                                       .ring = 1,
                                       .expert = 1,
                                       .micro = 1};
        struct mds_config c;
        struct toy t;

        snprintf(options, sizeof options, "%s%s%s", shape,
                 i ? "--fp8-format hybrid" : "", i == 3 ? " --no-fp8-wgrad" : "");
        t = open_toy(options);
        if (i)
            assert_fails(mds_machine_check_fp8(t.m, &t.run->config), MDS_EUSER,
                         "toy has no FP8: its profile gives no rates.matmul_fp8_flops");
        else
            assert_int_equal(mds_machine_check_fp8(t.m, &t.run->config), MDS_OK);
        t.m->rates.matmul_fp8_flops = i < 2 ? 1e12 * i : 2e12;
        if (i)
            assert_int_equal(mds_machine_check_fp8(t.m, &t.run->config), MDS_OK);
        assert_int_equal(mds_layout_apply(t.run, &one, 1, &c), MDS_OK);
        assert_int_equal(mds_predict(&c, 1, 1, t.m, &e[i]), MDS_OK);
        close_toy(&t);
    }
    assert_true(e[1].compute_s > e[0].compute_s);
    assert_true(e[2].compute_s < e[1].compute_s);
    assert_true(e[2].compute_s < e[3].compute_s);
}

static void the_longest_sequence_fits_and_twice_it_does_not(void **state)
{
    struct toy t = open_toy("");
    const struct mds_plan_request r = request(&t, 2);
    struct mds_plan_longest l;

    (void)state;
    assert_int_equal(mds_plan_max_seq(&r, &l), MDS_OK);
    assert_true(l.seq > 2048);
    t.run->config.model.seq_length = l.seq;
    assert_true(search(&t, 2)->fit_count > 0);
    t.run->config.model.seq_length = 2 * l.seq;
    assert_int_equal(search(&t, 2)->fit_count, 0);
    close_toy(&t);
}

/* Layouts without recompute may offload activations to the host: a plan finds no layout
 * for a longer sequence. */
static void the_longest_sequence_offloads_blocks(void **state)
{
    static const char *const fixed[] = {"--recompute-granularity none",
                                        "--recompute-modules layernorm",
                                        "--recompute-modules layernorm,mlp_act"};

    (void)state;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        struct toy t = open_toy(fixed[i]);
        const struct mds_plan_request r = request(&t, 2);
        struct mds_plan_longest l;

        assert_int_equal(mds_plan_max_seq(&r, &l), MDS_OK);
        assert_int_equal(l.best.layout.act.offload_layers, 2);
        t.run->config.model.seq_length = (l.seq + l.seq / 128) / 4 * 4;
        assert_int_equal(search(&t, 2)->fit_count, 0);
        close_toy(&t);
    }
}

/* mds_plan_fits tries all grids at one length: the longest fits, and a little more does
 * not, whatever is fixed; in few dry runs. */
static void the_longest_sequence_matches_an_exhaustive_search(void **state)
{
    static const char *const fixed[] = {
        "",
        "--use-rotary-position-embeddings",
        "--zero-stage 1 --offload-device none",
        "--recompute-granularity none",
        "--context-parallel-size 2 --tensor-model-parallel-size 1",
        "--device cpu --pipeline-model-parallel-size 2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        struct toy t = open_toy(fixed[i]);
        const struct mds_plan_request r = request(&t, 4);
        struct mds_plan_longest l;
        struct mds_plan_entry e;
        enum mds_rc rc;

        assert_int_equal(mds_plan_max_seq(&r, &l), MDS_OK);
        assert_int_equal(l.untried, 0);
        assert_true(mds_plan_fits(&r, l.seq, &e, &rc));
        assert_false(mds_plan_fits(&r, (l.seq + l.seq / 128) / 8 * 8 + 8, &e, &rc));
        assert_true(l.dry_runs < 400);
        close_toy(&t);
    }
}

/* A model that no memory here holds. */
static void no_sequence_may_fit_at_all(void **state)
{
    struct toy t = open_toy("--hidden-size 65536");
    const struct mds_plan_request r = request(&t, 2);
    struct mds_plan_longest l;

    (void)state;
    assert_int_equal(mds_plan_max_seq(&r, &l), MDS_OK);
    assert_int_equal(l.seq, 0);
    close_toy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_sizes_are_errors),
        cmocka_unit_test(advice_names_what_would_fit),
        cmocka_unit_test(rejects_say_why),
        cmocka_unit_test(rejects_show_their_least_memory_layout),
        cmocka_unit_test(cpu_ranks_need_device_and_host_memory),
        cmocka_unit_test(fp8_has_its_own_rate),
        cmocka_unit_test(the_longest_sequence_fits_and_twice_it_does_not),
        cmocka_unit_test(the_longest_sequence_offloads_blocks),
        cmocka_unit_test(the_longest_sequence_matches_an_exhaustive_search),
        cmocka_unit_test(no_sequence_may_fit_at_all),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
