/* SPDX-License-Identifier: BSD-3-Clause */
/* optim: schedules, clipping, loss scale, and the pool of buffers. */
#include "optim/clip.h"
#include "optim/loss_scale.h"
#include "optim/pool.h"
#include "optim/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-12 * (1 + fabs(want)))
        fail_msg("%.17g instead of %.17g", got, want);
}

/* Steps of three samples of seven tokens. */
static double lr_of_step(const struct mds_optim_config *c, int64_t t)
{
    return mds_lr_at(c, &(struct mds_extent){{t, 3 * t, 21 * t}});
}

static void schedules(void **state)
{
    struct mds_optim_config c = {.lr = 1,
                                 .min_lr = 0.1,
                                 .decay = MDS_LR_COSINE,
                                 .decay_length = {{110}},
                                 .warmup_length = {{10}}};

    (void)state;
    near(lr_of_step(&c, 1), 0.1);
    near(lr_of_step(&c, 10), 1);
    near(lr_of_step(&c, 60), 0.55);
    near(lr_of_step(&c, 110), 0.1);
    near(lr_of_step(&c, 500), 0.1);
    near(lr_of_step(&c, 35), 0.1 + 0.9 * 0.5 * (1 + cos(M_PI * 0.25)));
    c.decay = MDS_LR_LINEAR;
    near(lr_of_step(&c, 35), 1 - 0.9 * 0.25);
    c.decay_length.in[MDS_STEPS] = 60;
    near(lr_of_step(&c, 35), 0.55);
    near(lr_of_step(&c, 61), 0.1);
    c.decay = MDS_LR_CONSTANT;
    near(lr_of_step(&c, 61), 1);
    c = (struct mds_optim_config){
        .lr = 2, .decay = MDS_LR_WSD, .decay_length = {{100}}};
    near(lr_of_step(&c, 1), 2);
    near(lr_of_step(&c, 90), 2); /* the last tenth goes down */
    near(lr_of_step(&c, 95), 1);
    near(lr_of_step(&c, 100), 0);
    c.wsd_decay_iters = 50;
    near(lr_of_step(&c, 75), 1);
    c.warmup_fraction = 0.2;
    near(lr_of_step(&c, 10), 1);
    near(lr_of_step(&c, 20), 2);
    c = (struct mds_optim_config){
        .lr = 1e-4, .min_lr = 1, .decay = MDS_LR_EXPONENTIAL, .decay_length = {{100}}};
    near(lr_of_step(&c, 25), 1e-3);
    near(lr_of_step(&c, 100), 1);
    near(lr_of_step(&c, 101), 1);
}

/* Lengths in samples or tokens are followed there, whatever the batch is by now. */
static void schedules_in_samples_and_tokens(void **state)
{
    struct mds_optim_config c = {.lr = 1,
                                 .decay = MDS_LR_LINEAR,
                                 .decay_length = {.in[MDS_SAMPLES] = 1000},
                                 .warmup_length = {.in[MDS_SAMPLES] = 200}};

    (void)state;
    near(mds_lr_at(&c, &(struct mds_extent){{1, 50, 9}}), 0.25);
    near(mds_lr_at(&c, &(struct mds_extent){{77, 600, 9}}), 0.5);
    near(mds_lr_at(&c, &(struct mds_extent){{78, 1000, 9}}), 0);
    c.warmup_length = (struct mds_extent){.in[MDS_TOKENS] = 800}; /* another unit */
    near(mds_lr_at(&c, &(struct mds_extent){{1, 50, 200}}), 0.25);
    near(mds_lr_at(&c, &(struct mds_extent){{4, 200, 800}}), 1);
    near(mds_lr_at(&c, &(struct mds_extent){{12, 600, 2400}}), 0.5);
    /* steps of twice as many samples from here on: the next is where this one was */
    near(mds_lr_at(&c, &(struct mds_extent){{13, 601, 2404}}), 0.49875);
    c.decay = MDS_LR_WSD;
    near(mds_lr_at(&c, &(struct mds_extent){{18, 900, 3600}}), 1);
    near(mds_lr_at(&c, &(struct mds_extent){{19, 950, 3800}}), 0.5);
    c.wsd_decay_iters = 4; /* of 50 samples so far */
    near(mds_lr_at(&c, &(struct mds_extent){{18, 900, 3600}}), 0.5);
}

static void clipping(void **state)
{
    (void)state;
    near(mds_clip_scale(0, 100), 1);
    near(mds_clip_scale(1, 0.5), 1);
    near(mds_clip_scale(1, 4), 1 / (4 + 1e-6));
}

static struct mds_train_config f16_config(void)
{
    return (struct mds_train_config){.type = MDS_TYPE_F16,
                                     .initial_loss_scale = 8,
                                     .min_loss_scale = 2,
                                     .loss_scale_window = 3,
                                     .hysteresis = 2};
}

static void updates(struct mds_loss_scale *s, int n, int overflow, double want)
{
    for (int i = 0; i < n; i++)
        mds_loss_scale_update(s, overflow);
    near(s->scale, want);
}

static void loss_scales(void **state)
{
    struct mds_train_config c = f16_config();
    struct mds_loss_scale s = mds_loss_scale_start(&c);

    (void)state;
    updates(&s, 2, 0, 8);
    updates(&s, 1, 0, 16);
    updates(&s, 2, 0, 16);
    updates(&s, 1, 1, 16); /* the first one is forgiven, but the count begins anew */
    updates(&s, 2, 0, 16);
    updates(&s, 1, 1, 8); /* the second is not, though good ones lie between */
    updates(&s, 1, 1, 4);
    updates(&s, 3, 0, 8);
    updates(&s, 1, 1, 8); /* growth forgives again */
    updates(&s, 1, 1, 4);
    assert_true(mds_loss_scale_absorbs_overflow(&s));
    updates(&s, 1, 1, 2);
    assert_false(mds_loss_scale_absorbs_overflow(&s)); /* nothing is left to lower */
    updates(&s, 3, 0, 4);
    updates(&s, 2, 1, 2);
    assert_false(mds_loss_scale_absorbs_overflow(&s));
    assert_int_equal(s.left, 0); /* checkpoints store it: it never falls below 0 */
    c.min_loss_scale = 3;
    s = mds_loss_scale_start(&c);
    updates(&s, 2, 1, 4);
    updates(&s, 1, 1, 3);
    assert_false(mds_loss_scale_absorbs_overflow(&s));
    c.initial_loss_scale = 3;
    s = mds_loss_scale_start(&c);
    assert_true(
        mds_loss_scale_absorbs_overflow(&s)); /* the first one is forgiven here, too */
    updates(&s, 1, 1, 3);
    assert_false(mds_loss_scale_absorbs_overflow(&s));
    s.good = 7; /* of a run whose window was longer */
    updates(&s, 1, 0, 6);
    updates(&s, 2, 0, 6);
    updates(&s, 1, 0, 12);
}

static void fixed_loss_scales(void **state)
{
    struct mds_train_config c = f16_config();
    struct mds_loss_scale s;

    (void)state;
    c.loss_scale = 4;
    s = mds_loss_scale_start(&c);
    updates(&s, 7, 0, 4);
    assert_false(mds_loss_scale_absorbs_overflow(&s));
    c.type = MDS_TYPE_BF16;
    s = mds_loss_scale_start(&c);
    updates(&s, 7, 0, 1);
    assert_false(mds_loss_scale_absorbs_overflow(&s));
}

/* ---- pools ---- */

static void slots_are_as_large_as_the_largest_units(void **state)
{
    const int64_t count[] = {50, 100, 7, 50, 49};
    struct mds_pool p;

    (void)state;
    assert_int_equal(mds_pool_plan(&p, count, 5, 3), 200);
    assert_int_equal(p.slot[0].count, 100);
    assert_int_equal(p.slot[1].count, 50);
    assert_int_equal(p.slot[2].count, 50);
    assert_int_equal(mds_pool_plan(&p, count, 2, 3), 150);
    assert_int_equal(mds_pool_find(&p, 0), -1);
    assert_int_equal(mds_pool_pick(&p, 8, 101), -1);
}

static void units_get_the_best_fitting_slot(void **state)
{
    const int64_t count[] = {50, 100, 50};
    struct mds_pool p;
    int a, b;

    (void)state;
    mds_pool_plan(&p, count, 3, 3);
    a = mds_pool_pick(&p, 8, 7);
    assert_int_equal(p.slot[a].count, 50); /* the large one is left for the large */
    mds_pool_use(&p, a);
    p.slot[a].unit = 5;
    assert_int_equal(mds_pool_find(&p, 5), a);
    b = mds_pool_pick(&p, 8, 7);
    assert_true(b != a && p.slot[b].count == 50);
    mds_pool_use(&p, b);
    assert_int_equal(p.slot[mds_pool_pick(&p, 8, 7)].count, 100);
    mds_pool_release(&p, b);
    mds_pool_release(&p, a);
    assert_int_equal(mds_pool_pick(&p, 8, 50), b); /* unused for longest */
    p.slot[b].prefetched = 1;
    assert_int_equal(mds_pool_pick(&p, 8, 50), a); /* nobody is expected there */
    mds_pool_use(&p, a);
    assert_int_equal(p.slot[mds_pool_pick(&p, 8, 50)].count, 100);
}

static void reserved_slots_are_for_one_unit(void **state)
{
    const int64_t count[] = {50, 0};
    struct mds_pool p;

    (void)state;
    mds_pool_plan(&p, count, 2, 1);
    mds_pool_reserve(&p, 1, 100);
    assert_int_equal(mds_pool_pick(&p, 1, 100), 1);
    assert_int_equal(mds_pool_pick(&p, 0, 50), 0);
    mds_pool_use(&p, 0);
    assert_int_equal(mds_pool_pick(&p, 0, 50), -1);
    mds_pool_release(&p, 0);
    mds_pool_use(&p, 1);
    assert_int_equal(mds_pool_pick(&p, 1, 50), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules),
        cmocka_unit_test(schedules_in_samples_and_tokens),
        cmocka_unit_test(clipping),
        cmocka_unit_test(loss_scales),
        cmocka_unit_test(fixed_loss_scales),
        cmocka_unit_test(slots_are_as_large_as_the_largest_units),
        cmocka_unit_test(units_get_the_best_fitting_slot),
        cmocka_unit_test(reserved_slots_are_for_one_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
