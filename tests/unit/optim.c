/* optim: schedules, AdamW over a registry, clipping, buckets of gradients. */
#include "optim/adamw.h"
#include "optim/grad_sync.h"
#include "optim/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-12 * (1 + fabs(want)))
        fail_msg("%.17g instead of %.17g", got, want);
}

static void schedules(void **state)
{
    struct mds_optim_config c = {
        .lr = 1, .min_lr = 0.1, .decay = MDS_LR_COSINE, .warmup_iters = 10};

    (void)state;
    near(mds_lr_at(&c, 110, 1), 0.1);
    near(mds_lr_at(&c, 110, 10), 1);
    near(mds_lr_at(&c, 110, 60), 0.55);
    near(mds_lr_at(&c, 110, 110), 0.1);
    near(mds_lr_at(&c, 110, 500), 0.1);
    near(mds_lr_at(&c, 110, 35), 0.1 + 0.9 * 0.5 * (1 + cos(M_PI * 0.25)));
    c.decay = MDS_LR_LINEAR;
    near(mds_lr_at(&c, 110, 35), 1 - 0.9 * 0.25);
    c.decay_iters = 60;
    near(mds_lr_at(&c, 110, 35), 0.55);
    near(mds_lr_at(&c, 110, 61), 0.1);
    c.decay = MDS_LR_CONSTANT;
    near(mds_lr_at(&c, 110, 61), 1);
    c = (struct mds_optim_config){.lr = 2, .min_lr = 0, .decay = MDS_LR_WSD};
    near(mds_lr_at(&c, 100, 1), 2);
    near(mds_lr_at(&c, 100, 90), 2); /* the last tenth goes down */
    near(mds_lr_at(&c, 100, 95), 1);
    near(mds_lr_at(&c, 100, 100), 0);
    c.wsd_decay_iters = 50;
    near(mds_lr_at(&c, 100, 75), 1);
    c.warmup_fraction = 0.2;
    near(mds_lr_at(&c, 100, 10), 1);
    near(mds_lr_at(&c, 100, 20), 2);
}

static void clipping(void **state)
{
    (void)state;
    near(mds_clip_scale(0, 100), 1);
    near(mds_clip_scale(1, 0.5), 1);
    near(mds_clip_scale(1, 4), 1 / (4 + 1e-6));
}

/* Three parameters, of which the middle one does not decay. */
struct fixture {
    struct mds_dev *dev;
    struct mds_arena arena;
    struct mds_params *ps;
};

static const int64_t sizes[] = {70, 9, 130};

static void open_fixture(struct fixture *f, const char *device)
{
    struct mds_dev_spec spec = {.name = device, .threads = 1};
    void *w, *g;

    memset(f, 0, sizeof *f);
    assert_int_equal(mds_dev_create(&spec, &f->dev), MDS_OK);
    assert_int_equal(mds_arena_init(&f->arena, f->dev, "test", 1 << 20), MDS_OK);
    assert_int_equal(mds_params_create(&f->ps), MDS_OK);
    for (int i = 0; i < 3; i++) {
        struct mds_param_spec s = {.rows = sizes[i], .decay = i != 1};
        int id;

        snprintf(s.name, sizeof s.name, "p%d", i);
        assert_int_equal(mds_params_add(f->ps, &s, &id), MDS_OK);
    }
    assert_int_equal(
        mds_arena_take(&f->arena, MDS_MEM_PARAM, 4 * mds_params_span(f->ps), &w),
        MDS_OK);
    assert_int_equal(
        mds_arena_take(&f->arena, MDS_MEM_GRAD, 4 * mds_params_span(f->ps), &g),
        MDS_OK);
    mds_params_bind(f->ps, w, g);
}

static void close_fixture(struct fixture *f)
{
    mds_arena_fini(&f->arena);
    mds_params_destroy(f->ps);
    mds_dev_destroy(f->dev);
}

static double weight_at(int i)
{
    return sin(i + 1.0);
}

static double grad_at(int i, int t)
{
    return cos(3.0 * i + t);
}

/* Element i of a parameter by the definition, in double. */
static double reference(int i, int steps, double decay, double scale)
{
    double w = (float)weight_at(i), m = 0, v = 0;

    for (int t = 1; t <= steps; t++) {
        double g = (float)grad_at(i, t) * scale;

        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        w -= 0.01 * decay * w;
        w -= 0.01 * (m / (1 - pow(0.9, t))) / (sqrt(v / (1 - pow(0.95, t))) + 1e-8);
    }
    return w;
}

static void adamw_follows_its_definition(void **state)
{
    struct mds_optim_config cfg = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    struct mds_adamw *o = NULL;
    struct fixture f;
    double sum = 0, want = 0;

    (void)state;
    open_fixture(&f, "cpu");
    assert_int_equal(mds_adamw_create(&cfg, f.ps, f.dev, &f.arena, &o), MDS_OK);
    for (int id = 0, i = 0; id < 3; id++)
        for (int k = 0; k < sizes[id]; k++, i++)
            ((float *)mds_param_weight(f.ps, id))[k] = (float)weight_at(i);
    for (int t = 1; t <= 5; t++) {
        for (int id = 0, i = 0; id < 3; id++)
            for (int k = 0; k < sizes[id]; k++, i++)
                mds_param_grad(f.ps, id)[k] = (float)grad_at(i, t);
        assert_int_equal(mds_adamw_step(o, 0.01, 0.5), MDS_OK);
    }
    for (int id = 0, i = 0; id < 3; id++)
        for (int k = 0; k < sizes[id]; k++, i++) {
            double ref = reference(i, 5, id == 1 ? 0 : 0.1, 0.5);

            if (fabs(mds_param_weight(f.ps, id)[k] - ref) > 2e-6)
                fail_msg("p%d[%d]: %.9g instead of %.9g", id, k,
                         mds_param_weight(f.ps, id)[k], ref);
            want += pow((float)grad_at(i, 5), 2);
        }
    assert_int_equal(mds_adamw_grad_squares(o, &sum), MDS_OK);
    assert_true(fabs(sum - want) < 1e-9 * want);
    assert_int_equal(mds_adamw_bytes(f.ps), 8 * mds_params_span(f.ps));
    mds_adamw_destroy(o);
    close_fixture(&f);
}

static void buckets_travel_once(void **state)
{
    struct mds_grad_sync_spec spec = {.bucket_bytes = 4, .overlap = 1};
    struct mds_grad_sync *s = NULL;
    struct mds_comm *comm = NULL;
    struct fixture f;

    (void)state;
    open_fixture(&f, "dry");
    assert_int_equal(mds_comm_create_dry(0, 4, "dp", &comm), MDS_OK);
    spec.ps = f.ps;
    spec.comm = comm;
    for (spec.overlap = 0; spec.overlap < 2; spec.overlap++) {
        int64_t before = mds_comm_stats(comm)->calls;

        assert_int_equal(mds_grad_sync_create(&spec, &s), MDS_OK);
        assert_int_equal(mds_grad_sync_take(s, &f.arena), MDS_OK);
        mds_grad_sync_begin(s, 0); /* not the last pass: nothing travels */
        for (int id = 2; id >= 0; id--)
            assert_int_equal(mds_grad_sync_ready(s, id), MDS_OK);
        assert_int_equal(mds_comm_stats(comm)->calls, before);
        mds_grad_sync_begin(s, 1);
        assert_int_equal(mds_grad_sync_finish(s), MDS_EBUG); /* none is ready */
        for (int id = 2; id >= 0; id--)
            assert_int_equal(mds_grad_sync_ready(s, id), MDS_OK);
        assert_int_equal(mds_grad_sync_ready(s, 0), MDS_EBUG); /* twice */
        assert_int_equal(mds_comm_stats(comm)->calls - before, spec.overlap ? 3 : 0);
        assert_int_equal(mds_grad_sync_finish(s), MDS_OK);
        assert_int_equal(mds_comm_stats(comm)->calls - before, 3);
        mds_grad_sync_destroy(s);
    }
    spec.bucket_bytes = 1 << 20; /* all in one */
    assert_int_equal(mds_grad_sync_create(&spec, &s), MDS_OK);
    assert_true(mds_grad_sync_bytes(s) > 0);
    mds_grad_sync_destroy(s);
    mds_comm_destroy(comm);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules),
        cmocka_unit_test(clipping),
        cmocka_unit_test(adamw_follows_its_definition),
        cmocka_unit_test(buckets_travel_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
