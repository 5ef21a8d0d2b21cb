/* SPDX-License-Identifier: BSD-3-Clause */
/* plan: its best layout beside that of an exhaustive search.  With arguments, the same
 * for a model, a machine and a number of nodes:
 *
 *   plan_best GPT25B 1M polaris 8 [OPTION...] */
#include "tests/unit/toy_plan.h"

#include "base/minmax.h"
#include "plan/search_space.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* All layouts of all grids. */
struct exhaustive {
    struct mds_plan_request r;
    struct mds_layout now;
    unsigned fixed;
    /* If the extrapolated run of a layout needs more than this part of the memory,
     * its full run is left out; 0: no extrapolated runs. */
    double extrapolated_most;
    int64_t extrapolated, full; /* dry runs of layouts */
    struct mds_plan_entry best;
};

/* Runs a layout as it is, and compares it with the best.  *e gets an estimate. */
static int is_possible(struct exhaustive *x, struct mds_plan_entry *e)
{
    int64_t runs;

    if (x->extrapolated_most > 0) {
        assert_int_equal(mds_plan_estimate(&x->r, &x->now, x->fixed,
                                           MDS_PREDICT_EXTRAPOLATED, e, &runs),
                         MDS_OK);
        x->extrapolated += runs > 0;
        if (runs == 0 ||
            mds_estimate_memory_fraction(&e->estimate) > x->extrapolated_most)
            return runs > 0;
    }
    assert_int_equal(
        mds_plan_estimate(&x->r, &x->now, x->fixed, MDS_PREDICT_FULL, e, &runs),
        MDS_OK);
    x->full += runs > 0;
    if (runs > 0 && e->estimate.fits &&
        e->estimate.tokens_s > x->best.estimate.tokens_s)
        x->best = *e;
    return runs > 0;
}

/* What a level is changed by, in quarters of the blocks, where it is of use.  Where
 * there is memory attention's results are kept, where the host has none inputs stay on
 * the device, and where the device has none blocks leave it. */
static int64_t *changed(struct mds_activations *a, const struct mds_estimate *e)
{
    if (e->device_bytes > e->device_limit)
        return &a->offload_layers;
    return e->fits ? &a->keep_attention : &a->device_inputs;
}

static void try_level(struct exhaustive *x, const struct mds_layout *l)
{
    struct mds_plan_entry e = {.layout = *l};
    int64_t all = mds_plan_blocks(&x->r, l), step = mds_max(all / 4, 1);

    if (!is_possible(x, &e))
        return;
    for (int64_t k = step; k <= all; k += step) {
        struct mds_plan_entry more = {.layout = *l};
        int64_t *count = changed(&more.layout.act, &e.estimate);

        *count = k;
        more.layout = mds_layout_keep(more.layout, &x->now, x->fixed);
        if (*count != k || !is_possible(x, &more))
            return;
    }
}

/* What is fixed makes some places the same. */
static int has_place_of(const struct mds_layout *l, const struct mds_layout *kept)
{
    return kept->zero == l->zero && kept->offload_optimizer == l->offload_optimizer &&
           kept->offload_params == l->offload_params;
}

static void search_all(struct exhaustive *x)
{
    struct mds_plan_grids g = {0};

    x->fixed = mds_layout_fixed(x->r.run, x->r.world, &x->now);
    assert_int_equal(mds_plan_grids_list(&x->r, &x->now, x->fixed, &g), MDS_OK);
    for (size_t i = 0; i < g.n * MDS_PLAN_PLACEMENTS * MDS_ACT_LEVELS; i++) {
        struct mds_layout l = g.v[i / MDS_ACT_LEVELS / MDS_PLAN_PLACEMENTS], kept;

        mds_plan_set_placement(&l, (int)(i / MDS_ACT_LEVELS % MDS_PLAN_PLACEMENTS));
        mds_act_set_level(&l.act, (int)(i % MDS_ACT_LEVELS),
                          mds_plan_sequence_tile(&x->r, &l));
        kept = mds_layout_keep(l, &x->now, x->fixed);
        if (has_place_of(&l, &kept))
            try_level(x, &kept);
    }
    mds_plan_grids_fini(&g);
}

/* ---- tests ---- */

/* Whatever is left out or estimated by shorter runs. */
static void the_best_layout_matches_an_exhaustive_search(void **state)
{
    static const char *const options[] = {
        "--num-layers 16 --seq-length 32768",
        "--num-layers 16 --seq-length 24576 --use-rotary-position-embeddings "
        "--global-batch-size 4",
    };

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct toy t = open_toy(options[i]);
        int met = 0;

        for (int64_t mib = 900; mib <= 1200; mib += 300) {
            struct exhaustive x = {.r = request(&t, 4)};
            const struct mds_plan *p;
            double best;

            t.m->gpu.memory = mib << 20;
            search_all(&x);
            best = x.best.estimate.tokens_s;
            p = search(&t, 4);
            assert_int_equal(p->fit_count > 0, best > 0);
            if (best == 0)
                continue;
            met++;
            assert_false(p->fits[0].estimate.extrapolated);
            assert_true(p->fits[0].estimate.tokens_s > 0.97 * best);
        }
        assert_true(met > 1);
        close_toy(&t);
    }
}

/* GPT25B, a million tokens, 8 nodes of four GPUs: of all layouts those near its best,
 * which takes seconds.  All of them are compared by hand (above). */
static void so_does_the_best_for_a_real_model(void **state)
{
    struct toy t = {.run =
                        read_options("--model-size-key GPT25B --seq-length 1M --bf16 "
                                     "--vocab-size 50257 --zero-stage 3 "
                                     "--tensor-model-parallel-size 16 "
                                     "--pipeline-model-parallel-size 1 "
                                     "--context-parallel-size 1")};
    struct exhaustive x = {.extrapolated_most = 1.1};
    struct mds_diag diag = {0};

    (void)state;
    assert_int_equal(mds_machine_find("polaris", "", &diag, &t.m), MDS_OK);
    x.r = request(&t, 32);
    x.r.per_node = 4;
    search_all(&x);
    assert_true(x.best.estimate.tokens_s > 0);
    assert_int_equal(mds_plan_search(&x.r, &diag, &t.p), MDS_OK);
    assert_int_equal(t.p.untried, 0);
    assert_true(t.p.fit_count > 0);
    assert_true(t.p.fits[0].estimate.tokens_s > 0.97 * x.best.estimate.tokens_s);
    mds_diag_fini(&diag);
    close_toy(&t);
}

/* ---- by hand ---- */

static void print(const char *what, const struct mds_plan_entry *e, int64_t world,
                  const char *runs)
{
    struct mds_str text = {0};

    mds_layout_describe(&e->layout, world, &text);
    printf("%s: %.4g tokens/s, %s\n  %s, after %.1f s of processor time\n", what,
           e->estimate.tokens_s, text.s ? text.s : "nothing fits", runs,
           (double)clock() / CLOCKS_PER_SEC);
    mds_str_fini(&text);
    fflush(stdout);
}

static int compare(int argc, char **argv)
{
    struct mds_str options = {0};
    struct mds_diag diag = {0};
    struct toy t = {0};
    struct exhaustive x = {.extrapolated_most = 1.1};
    char runs[96];

    mds_str_add(&options, "--model-size-key %s --seq-length %s --vocab-size 50257",
                argv[1], argv[2]);
    for (int i = 5; i < argc; i++)
        mds_str_add(&options, " %s", argv[i]);
    t.run = read_options(options.s);
    assert_int_equal(mds_machine_find(argv[3], "", &diag, &t.m), MDS_OK);
    x.r = request(&t, t.m->node.gpus * atol(argv[4]));
    x.r.per_node = t.m->node.gpus;
    x.r.budget_s = 600;
    assert_int_equal(mds_plan_search(&x.r, &diag, &t.p), MDS_OK);
    snprintf(runs, sizeof runs, "%lld dry runs, %lld grids untried",
             (long long)t.p.dry_runs, (long long)t.p.untried);
    print("plan", t.p.fit_count ? &t.p.fits[0] : &x.best, x.r.world, runs);
    search_all(&x);
    snprintf(runs, sizeof runs, "%lld layouts, %lld of them in full",
             (long long)x.extrapolated, (long long)x.full);
    print("all layouts", &x.best, x.r.world, runs);
    mds_diag_fini(&diag);
    mds_str_fini(&options);
    close_toy(&t);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_layout_matches_an_exhaustive_search),
        cmocka_unit_test(so_does_the_best_for_a_real_model),
    };

    if (argc > 4)
        return compare(argc, argv);
    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
