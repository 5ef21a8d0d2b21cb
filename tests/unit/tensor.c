/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor: the parameter registry, start values, operation fronts. */
#include "tensor/op.h"
#include "tensor/params.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int add(struct mds_params *ps, const char *name, int64_t rows, int64_t cols,
               int packed)
{
    struct mds_param_spec s = {.rows = rows, .cols = cols, .packed = packed};
    int id = -1;

    strcpy(s.name, name);
    assert_int_equal(mds_params_add(ps, &s, &id), MDS_OK);
    return id;
}

static struct mds_params *registry(const char *first_unit)
{
    struct mds_params *ps = NULL;
    int unit = -1;

    assert_int_equal(mds_params_create(MDSK_F32, &ps), MDS_OK);
    assert_int_equal(mds_params_add_unit(ps, first_unit, &unit), MDS_OK);
    assert_int_equal(unit, 0);
    return ps;
}

static void registry_lays_out(void **state)
{
    struct mds_params *ps = registry("one");
    struct mds_param_spec twice = {.name = "b", .rows = 1};
    int a, b, c, d, id, unit = -1;

    (void)state;
    a = add(ps, "a", 3, 5, 0);
    b = add(ps, "b", 7, 0, 1);
    c = add(ps, "c", 2, 2, 0);
    assert_int_equal(mds_params_add_unit(ps, "two", &unit), MDS_OK);
    d = add(ps, "d", 65, 0, 0);
    assert_int_equal(mds_params_n(ps), 4);
    assert_int_equal(mds_params_count(ps), 15 + 7 + 4 + 65);
    assert_int_equal(mds_params_get(ps, a)->offset, 0);
    assert_int_equal(mds_params_get(ps, b)->offset, 15); /* packed */
    assert_int_equal(mds_params_get(ps, c)->offset, 64); /* aligned */
    assert_int_equal(mds_params_get(ps, d)->offset, 128);
    assert_int_equal(mds_params_get(ps, d)->unit, 1);
    assert_int_equal(mds_params_units(ps), 2);
    assert_string_equal(mds_params_unit(ps, 1)->name, "two");
    assert_int_equal(mds_params_unit(ps, 0)->count, 128);
    assert_int_equal(mds_params_unit(ps, 0)->params, 3);
    assert_int_equal(mds_params_unit(ps, 1)->first, 128);
    assert_int_equal(mds_params_unit(ps, 1)->first_param, 3);
    assert_int_equal(mds_params_span(ps), 256);
    assert_int_equal(mds_params_find(ps, "c"), c);
    assert_int_equal(mds_params_find(ps, "e"), -1);
    assert_int_equal(mds_params_add(ps, &twice, &id), MDS_EBUG);
    twice.rows = 0;
    assert_int_equal(mds_params_add(ps, &twice, &id), MDS_EBUG);
    mds_params_destroy(ps);
    mds_params_destroy(NULL);
}

/* Without a unit there is no place for a parameter. */
static void parameters_need_a_unit(void **state)
{
    struct mds_param_spec s = {.name = "a", .rows = 1};
    struct mds_params *ps = NULL;
    int id;

    (void)state;
    assert_int_equal(mds_params_create(MDSK_F32, &ps), MDS_OK);
    assert_int_equal(mds_params_span(ps), 0);
    assert_int_equal(mds_params_add(ps, &s, &id), MDS_EBUG);
    mds_params_destroy(ps);
}

/* Weights in 16 bits and gradients in f32 are found where they were placed. */
static void check_overlap(const struct mds_params *ps, int id, int64_t first, int64_t n,
                          struct mds_param_overlap want)
{
    struct mds_param_overlap is =
        mds_param_overlap(ps, mds_params_get(ps, id), first, n);

    assert_int_equal(is.first, want.first);
    assert_int_equal(is.n, want.n);
    assert_int_equal(is.at, want.at);
}

/* Ranges are counted in the unit: b of the second one begins at its element 64. */
static void ranges_overlap(void **state)
{
    struct mds_params *ps = registry("one");
    int b, unit = -1;

    (void)state;
    add(ps, "before", 100, 0, 0);
    assert_int_equal(mds_params_add_unit(ps, "two", &unit), MDS_OK);
    add(ps, "a", 10, 0, 0);
    b = add(ps, "b", 7, 0, 0);
    check_overlap(ps, b, 0, 128, (struct mds_param_overlap){0, 7, 64});
    check_overlap(ps, b, 66, 3, (struct mds_param_overlap){2, 3, 0});
    check_overlap(ps, b, 60, 6, (struct mds_param_overlap){0, 2, 4});
    check_overlap(ps, b, 70, 50, (struct mds_param_overlap){6, 1, 0});
    check_overlap(ps, b, 0, 64, (struct mds_param_overlap){0, 0, 0});
    check_overlap(ps, b, 71, 9, (struct mds_param_overlap){0, 0, 0});
    check_overlap(ps, b, 66, 0, (struct mds_param_overlap){0, 0, 0});
    mds_params_destroy(ps);
}

static void weights_are_placed(void **state)
{
    struct mds_params *ps = NULL;
    uint16_t weight[128];
    float grad[128];
    int unit;

    (void)state;
    assert_int_equal(mds_params_create(MDSK_BF16, &ps), MDS_OK);
    assert_int_equal(mds_params_dtype(ps), MDSK_BF16);
    for (int u = 0; u < 2; u++) {
        assert_int_equal(mds_params_add_unit(ps, u ? "y" : "x", &unit), MDS_OK);
        add(ps, u ? "c" : "a", 3, 0, 0);
        add(ps, u ? "d" : "b", 5, 0, 1);
    }
    mds_params_set_weight(ps, 1, weight);
    mds_params_set_grad(ps, 1, grad);
    assert_ptr_equal(mds_param_weight(ps, 3), weight + 3);
    assert_ptr_equal(mds_param_grad(ps, 3), grad + 3);
    mds_params_destroy(ps);
}

/* What one product covers is written by the first to come, and added to from then on.
 */
static void uninitialised_gradients_are_written_once(void **state)
{
    struct mds_param_spec s = {.rows = 3, .cols = 4, .by_gemm = 1};
    struct mds_params *ps = NULL;
    int unit, id;

    (void)state;
    assert_int_equal(mds_params_create(MDSK_F32, &ps), MDS_OK);
    assert_int_equal(mds_params_add_unit(ps, "x", &unit), MDS_OK);
    for (int i = 0; i < 4; i++) {
        snprintf(s.name, sizeof s.name, "%d", i);
        s.packed = i == 1;
        s.by_gemm = i < 3;
        assert_int_equal(mds_params_add(ps, &s, &id), MDS_OK);
    }
    assert_int_equal(mds_params_test_and_clear_uninit(ps, 0, 24),
                     0); /* memory came with zeros */
    mds_params_set_uninit(ps, 0);
    assert_int_equal(mds_params_test_and_clear_uninit(ps, 3, 12), 0);
    assert_int_equal(mds_params_test_and_clear_uninit(ps, 0, 24),
                     1); /* 0 and 1 side by side */
    assert_int_equal(mds_params_test_and_clear_uninit(ps, 0, 24), 0);
    assert_int_equal(mds_params_test_and_clear_uninit(ps, 1, 12), 0);
    assert_int_equal(mds_params_grad_ready(ps, 0), MDS_EBUG);
    assert_non_null(strstr(mds_fail_text(), "gradient of 2: ready, but never written"));
    assert_int_equal(mds_params_test_and_clear_uninit(ps, 2, 12), 1);
    assert_int_equal(mds_params_grad_ready(ps, 0), MDS_OK);
    mds_params_destroy(ps);
}

struct calls {
    int acquired, released, began, ready, last;
};

static enum mds_rc on_acquire(void *ctx, int unit)
{
    ((struct calls *)ctx)->acquired++;
    ((struct calls *)ctx)->last = unit;
    return MDS_OK;
}

static enum mds_rc on_release(void *ctx, int unit)
{
    (void)unit;
    ((struct calls *)ctx)->released++;
    return MDS_OK;
}

static enum mds_rc on_begin(void *ctx, int unit)
{
    (void)unit;
    ((struct calls *)ctx)->began++;
    return MDS_OK;
}

static enum mds_rc on_ready(void *ctx, int unit)
{
    ((struct calls *)ctx)->ready++;
    return unit == 1 ? mds_fail(MDS_ECOMM, "gone") : MDS_OK;
}

static void hooks_are_called(void **state)
{
    struct mds_params *ps = registry("one");
    struct calls calls = {0};
    struct mds_param_hooks hooks = {&calls, on_acquire, on_release, on_begin, on_ready};
    int unit;

    (void)state;
    assert_int_equal(mds_params_add_unit(ps, "two", &unit), MDS_OK);
    assert_int_equal(mds_params_acquire(ps, 1), MDS_OK); /* no hooks: nothing */
    mds_params_hook(ps, &hooks);
    assert_int_equal(mds_params_acquire(ps, 0), MDS_OK);
    assert_int_equal(mds_params_acquire(ps, 1), MDS_OK);
    assert_int_equal(mds_params_release(ps, 1), MDS_OK);
    assert_int_equal(mds_params_grad_begin(ps, 1), MDS_OK);
    assert_int_equal(mds_params_grad_ready(ps, 0), MDS_OK);
    assert_int_equal(mds_params_grad_ready(ps, 1), MDS_ECOMM);
    assert_int_equal(calls.acquired, 2);
    assert_int_equal(calls.last, 1);
    assert_int_equal(calls.released, 1);
    assert_int_equal(calls.began, 1);
    assert_int_equal(calls.ready, 2);
    mds_params_destroy(ps);
}

/* A start value depends on seed, name and index alone; mean and deviation are right. */
static void initial_values(void **state)
{
    enum { N = 20000 };
    static float all[N], part[N];
    struct mds_param p = {
        .spec = {.name = "w", .rows = N, .init = MDS_INIT_NORMAL, .std = 0.5},
        .rows = N,
        .count = N};
    double sum = 0, squares = 0;

    (void)state;
    mds_param_init_values(&p, 1, 0, N, all);
    for (int64_t at = 0, n = 1; at < N; at += n, n = n * 3 % 1000 + 1) {
        n = at + n > N ? N - at : n;
        mds_param_init_values(&p, 1, at, n, part + at);
    }
    assert_memory_equal(all, part, sizeof all);
    for (int i = 0; i < N; i++) {
        sum += all[i];
        squares += (double)all[i] * all[i];
    }
    assert_true(fabs(sum / N) < 4 * 0.5 / sqrt(N));
    assert_true(fabs(squares / N - 0.25) < 4 * 0.25 * sqrt(2.0 / N));
    mds_param_init_values(&p, 2, 0, N, part);
    assert_memory_not_equal(all, part, sizeof all);
    strcpy(p.spec.name, "v");
    mds_param_init_values(&p, 1, 0, N, part);
    assert_memory_not_equal(all, part, sizeof all);
    p.spec.init = MDS_INIT_ONE;
    mds_param_init_values(&p, 1, 5, 2, part);
    assert_true(part[0] == 1 && part[1] == 1);
    p.spec.init = MDS_INIT_ZERO;
    mds_param_init_values(&p, 1, 5, 2, part);
    assert_true(part[0] == 0 && part[1] == 0);
}

/* Part `part` of `parts` has the whole's values at its place; so has the unit. */
static void check_share(const float *whole, enum mds_shard shard, int parts, int part)
{
    enum { ROWS = 12, COLS = 6 };
    struct mds_param_spec s = {.name = "w",
                               .rows = ROWS,
                               .cols = COLS,
                               .init = MDS_INIT_NORMAL,
                               .std = 1,
                               .shard = shard,
                               .parts = parts,
                               .part = part};
    struct mds_params *ps = registry("one");
    const struct mds_param *p;
    float mine[ROWS * COLS], unit[128];
    int id;

    add(ps, "before", 3, 0, 0);
    assert_int_equal(mds_params_add(ps, &s, &id), MDS_OK);
    p = mds_params_get(ps, id);
    assert_int_equal(p->count, ROWS * COLS / parts);
    mds_param_init_values(p, 7, 0, p->count, mine);
    mds_unit_init_values(ps, 0, 7, 0, mds_params_span(ps), unit);
    for (int64_t i = 0; i < p->count; i++) {
        int64_t r = i / p->cols + (shard == MDS_SHARD_ROWS ? part * p->rows : 0);
        int64_t c = i % p->cols + (shard == MDS_SHARD_COLS ? part * p->cols : 0);

        assert_int_equal(mds_param_whole_index(p, i), r * COLS + c);
        assert_true(mine[i] == whole[r * COLS + c]);
        assert_true(unit[p->offset + i] == mine[i]);
    }
    assert_true(unit[2] == 0 && unit[3] == 0 && unit[127] == 0); /* zero, gaps */
    mds_params_destroy(ps);
}

static void shards_start_as_the_whole_parameter(void **state)
{
    struct mds_param whole = {
        .spec = {.name = "w", .rows = 12, .cols = 6, .init = MDS_INIT_NORMAL, .std = 1},
        .rows = 12,
        .cols = 6,
        .count = 72};
    struct mds_param_spec odd = {
        .name = "w", .rows = 5, .shard = MDS_SHARD_ROWS, .parts = 2};
    struct mds_params *ps = registry("one");
    float values[72];
    int id;

    (void)state;
    mds_param_init_values(&whole, 7, 0, 72, values);
    for (int part = 0; part < 3; part++) {
        check_share(values, MDS_SHARD_ROWS, 3, part);
        check_share(values, MDS_SHARD_COLS, 3, part);
    }
    assert_int_equal(mds_params_add(ps, &odd, &id), MDS_EBUG); /* 5 rows for 2 */
    odd.parts = 5;
    odd.part = 5;
    assert_int_equal(mds_params_add(ps, &odd, &id), MDS_EBUG);
    mds_params_destroy(ps);
}

static void operations_check_their_contract(void **state)
{
    struct mds_dev_spec spec = {.name = "dry"};
    struct mds_dev *dev = NULL;
    float x[4] = {0}, y[4];
    struct mdsk_linear_fwd lin = {
        .R = 1, .in = 2, .out = 2, .x = x, .w = x, .y = y, .dtype = MDSK_F32};
    struct mdsk_norm_fwd norm = {.R = 1, .H = 4, .eps = 1e-5f, .x = x, .gamma = x};
    struct mdsk_attention_fwd att = {.shape = {.B = 1, .A = 3, .G = 2, .Sq = 1}};
    struct mdsk_rope rope = {.B = 1, .S = 1, .A = 1, .D = 4, .rot = 3, .scale = 1};
    struct mdsk_dropout drop = {.rows = {.B = 1, .S = 1}, .H = 4, .x = x, .y = y};

    (void)state;
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_OK);
    lin.dtype = MDSK_BF16;
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_OK);
    lin.dtype = MDSK_I32;
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_EBUG);
    lin.dtype = MDSK_F32;
    lin.y = x;
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_EBUG);
    assert_non_null(strstr(mds_fail_text(), "linear_fwd"));
    lin.R = 0;
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_EBUG);
    norm.r = x; /* r without sum */
    assert_int_equal(mds_op_norm_fwd(dev, &norm), MDS_EBUG);
    assert_int_equal(mds_op_attention_fwd(dev, &att), MDS_EBUG);
    assert_int_equal(mds_op_rope(dev, &rope), MDS_EBUG);
    assert_int_equal(mds_op_dropout(dev, &drop), MDS_EBUG); /* p is 0 */
    assert_int_equal(mds_dev_ledger(dev)->op[MDS_OP_LINEAR_FWD].calls, 2);
    assert_true(mds_dev_ledger(dev)->op[MDS_OP_LINEAR_FWD].cost.flops == 16);
    mds_dev_destroy(dev);
}

static void expect_broken(enum mds_rc rc, const char *condition)
{
    assert_int_equal(rc, MDS_EBUG);
    if (!strstr(mds_fail_text(), condition))
        fail_msg("'%s' does not say: %s", mds_fail_text(), condition);
}

static struct mds_dev *dry_device(void)
{
    const struct mds_dev_spec spec = {.name = "dry"};
    struct mds_dev *dev = NULL;

    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    return dev;
}

static _Alignas(16) char codes[64];
static float numbers[4];

static void fp8_cast_checks_its_contract(void **state)
{
    const struct mdsk_fp8_cast right = {.R = 1,
                                        .C = 2,
                                        .dtype = MDSK_BF16,
                                        .to = MDSK_E4M3,
                                        .x = numbers,
                                        .rows = codes,
                                        .sum = numbers,
                                        .scale = (float *)(codes + 16)};
    struct mdsk_fp8_cast a[9];
    struct mds_dev *dev = dry_device();

    (void)state;
    for (int i = 0; i < 9; i++)
        a[i] = right;
    assert_int_equal(mds_op_fp8_cast(dev, &a[0]), MDS_OK);
    a[0].C = 0;
    expect_broken(mds_op_fp8_cast(dev, &a[0]), "R, C >= 1");
    a[1].rows = NULL;
    expect_broken(mds_op_fp8_cast(dev, &a[1]), "rows or cols given");
    a[2].amax_known = 1;
    expect_broken(mds_op_fp8_cast(dev, &a[2]), "amax given if it is known");
    a[3].activated = 1;
    expect_broken(mds_op_fp8_cast(dev, &a[3]), "activated without sum");
    a[4].to = MDSK_BF16;
    expect_broken(mds_op_fp8_cast(dev, &a[4]), "to E4M3 or E5M2");
    a[5].rows = codes + 8;
    expect_broken(mds_op_fp8_cast(dev, &a[5]), "aligned to 16");
    a[6].cols = codes + 1;
    expect_broken(mds_op_fp8_cast(dev, &a[6]), "aligned to 16");
    a[7].scale = (float *)(codes + 4);
    expect_broken(mds_op_fp8_cast(dev, &a[7]), "aligned to 16");
    a[8].dtype = MDSK_E4M3;
    expect_broken(mds_op_fp8_cast(dev, &a[8]), "fp8_cast");
    mds_dev_destroy(dev);
}

static void fp8_gemm_checks_its_contract(void **state)
{
    const struct mdsk_fp8_operand e4m3 = {MDSK_E4M3, codes, numbers};
    const struct mdsk_fp8_operand e5m2 = {MDSK_E5M2, codes, numbers};
    const struct mdsk_fp8_gemm right = {
        .M = 1, .N = 1, .K = 1, .dtype = MDSK_BF16, .a = e5m2, .b = e4m3, .y = numbers};
    struct mdsk_fp8_gemm a[7];
    struct mds_dev *dev = dry_device();

    (void)state;
    for (int i = 0; i < 7; i++)
        a[i] = right;
    assert_int_equal(mds_op_fp8_gemm(dev, &a[0]), MDS_OK);
    a[0].K = 0;
    expect_broken(mds_op_fp8_gemm(dev, &a[0]), "M, N, K >= 1");
    a[1].b.scale = NULL;
    expect_broken(mds_op_fp8_gemm(dev, &a[1]), "a, b and their scales");
    a[2].b = e5m2;
    expect_broken(mds_op_fp8_gemm(dev, &a[2]), "one of them E4M3");
    a[3].a.type = MDSK_BF16;
    expect_broken(mds_op_fp8_gemm(dev, &a[3]), "a and b of FP8");
    a[4].add = 1;
    expect_broken(mds_op_fp8_gemm(dev, &a[4]), "add with f32");
    a[5].bias = numbers;
    a[5].dtype = MDSK_F32;
    expect_broken(mds_op_fp8_gemm(dev, &a[5]), "bias with 16 bits only");
    a[6].y = NULL;
    expect_broken(mds_op_fp8_gemm(dev, &a[6]), "y given");
    mds_dev_destroy(dev);
}

static void operations_check_shards(void **state)
{
    struct mds_dev_spec spec = {.name = "dry"};
    struct mds_dev *dev = NULL;
    float x[8], y[8];
    double sum[2];
    int32_t token[2];
    struct mdsk_attention_merge merge = {.B = 1,
                                         .A = 1,
                                         .Sq = 2,
                                         .D = 4,
                                         .acc = {x, 8, 4, 4},
                                         .o2 = {y, 8, 4, 4},
                                         .lse = x,
                                         .lse2 = y};
    struct mdsk_attention_most most = {.B = 1, .A = 2, .Sq = 4, .lse = x, .most = y};
    struct mdsk_copy_rows copy = {
        .R = 2, .C = 4, .ldx = 4, .ldy = 3, .dtype = MDSK_I32, .x = x, .y = y};
    struct mdsk_cast cast = {.n = 8, .from = MDSK_F32, .to = MDSK_I32, .x = x, .y = y};
    struct mdsk_xent_loss loss = {.R = 2,
                                  .parts = 2,
                                  .part_stride = 2,
                                  .target = token,
                                  .max = x,
                                  .sum = x,
                                  .target_logit = x,
                                  .lse = x,
                                  .loss_sum = sum,
                                  .count = sum + 1};

    (void)state;
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_int_equal(mds_op_attention_merge(dev, &merge), MDS_OK);
    merge.lse2_stride = 1; /* heads' rows overlap */
    assert_int_equal(mds_op_attention_merge(dev, &merge), MDS_EBUG);
    assert_int_equal(mds_op_attention_most(dev, &most), MDS_OK);
    most.most = x; /* where lse is */
    assert_int_equal(mds_op_attention_most(dev, &most), MDS_EBUG);
    assert_int_equal(mds_op_copy_rows(dev, &copy), MDS_EBUG);
    copy.ldy = 4;
    assert_int_equal(mds_op_copy_rows(dev, &copy), MDS_OK);
    assert_int_equal(mds_op_cast(dev, &cast), MDS_EBUG);
    cast.to = MDSK_F16;
    assert_int_equal(mds_op_cast(dev, &cast), MDS_OK);
    assert_int_equal(mds_op_xent_loss(dev, &loss), MDS_EBUG); /* lse is max */
    loss.lse = y;
    assert_int_equal(mds_op_xent_loss(dev, &loss), MDS_OK);
    loss.parts = 0;
    assert_int_equal(mds_op_xent_loss(dev, &loss), MDS_EBUG);
    assert_true(mds_dev_ledger(dev)->op[MDS_OP_COPY_ROWS].cost.bytes == 64);
    assert_true(mds_dev_ledger(dev)->op[MDS_OP_CAST].cost.bytes == 48);
    assert_true(mds_dev_ledger(dev)->op[MDS_OP_XENT_LOSS].cost.bytes == 96);
    assert_true(mds_dev_ledger(dev)->op[MDS_OP_ATTENTION_MERGE].cost.bytes == 120);
    assert_true(mds_dev_ledger(dev)->op[MDS_OP_ATTENTION_MOST].cost.bytes == 32);
    assert_string_equal(mds_op_name(MDS_OP_ATTENTION_MERGE), "attention_merge");
    mds_dev_destroy(dev);
}

/* The cpu computes in 16 bits, by way of the same front. */
static void cpu_takes_16_bits(void **state)
{
    struct mds_dev_spec spec = {.name = "cpu", .threads = 1};
    struct mds_dev *dev = NULL;
    uint16_t x[2] = {0x3f80, 0x4000}, w[2] = {0x4040, 0x4080}, y = 0; /* 1 2, 3 4 */
    struct mdsk_linear_fwd lin = {
        .R = 1, .in = 2, .out = 1, .x = x, .w = w, .y = &y, .dtype = MDSK_BF16};

    (void)state;
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_OK);
    assert_int_equal(y, 0x4130); /* 11 */
    mds_dev_destroy(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registry_lays_out),
        cmocka_unit_test(parameters_need_a_unit),
        cmocka_unit_test(ranges_overlap),
        cmocka_unit_test(weights_are_placed),
        cmocka_unit_test(uninitialised_gradients_are_written_once),
        cmocka_unit_test(hooks_are_called),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(shards_start_as_the_whole_parameter),
        cmocka_unit_test(operations_check_their_contract),
        cmocka_unit_test(fp8_cast_checks_its_contract),
        cmocka_unit_test(fp8_gemm_checks_its_contract),
        cmocka_unit_test(operations_check_shards),
        cmocka_unit_test(cpu_takes_16_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
