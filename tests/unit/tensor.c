/* tensor: the parameter registry, start values, operation fronts. */
#include "tensor/op.h"
#include "tensor/params.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static void registry_lays_out(void **state)
{
    struct mds_params *ps = NULL;
    struct mds_param_spec twice = {.name = "b", .rows = 1};
    int a, b, c, id;

    (void)state;
    assert_int_equal(mds_params_create(&ps), MDS_OK);
    a = add(ps, "a", 3, 5, 0);
    b = add(ps, "b", 7, 0, 1);
    c = add(ps, "c", 2, 2, 0);
    assert_int_equal(mds_params_n(ps), 3);
    assert_int_equal(mds_params_count(ps), 15 + 7 + 4);
    assert_int_equal(mds_params_get(ps, a)->offset, 0);
    assert_int_equal(mds_params_get(ps, b)->offset, 15); /* packed */
    assert_int_equal(mds_params_get(ps, c)->offset, 64); /* aligned */
    assert_int_equal(mds_params_span(ps), 128);
    assert_int_equal(mds_params_find(ps, "c"), c);
    assert_int_equal(mds_params_find(ps, "d"), -1);
    assert_int_equal(mds_params_add(ps, &twice, &id), MDS_EBUG);
    twice.rows = 0;
    assert_int_equal(mds_params_add(ps, &twice, &id), MDS_EBUG);
    mds_params_destroy(ps);
    mds_params_destroy(NULL);
}

struct calls {
    int acquired, released, ready, last;
};

static enum mds_rc on_acquire(void *ctx, int id)
{
    ((struct calls *)ctx)->acquired++;
    ((struct calls *)ctx)->last = id;
    return MDS_OK;
}

static enum mds_rc on_release(void *ctx, int id)
{
    (void)id;
    ((struct calls *)ctx)->released++;
    return MDS_OK;
}

static enum mds_rc on_ready(void *ctx, int id)
{
    ((struct calls *)ctx)->ready++;
    return id == 1 ? mds_fail(MDS_ECOMM, "gone") : MDS_OK;
}

static void hooks_are_called(void **state)
{
    struct mds_params *ps = NULL;
    struct calls calls = {0};
    struct mds_param_hooks hooks = {&calls, on_acquire, on_release, on_ready};

    (void)state;
    assert_int_equal(mds_params_create(&ps), MDS_OK);
    add(ps, "a", 3, 5, 0);
    add(ps, "b", 7, 0, 0);
    assert_int_equal(mds_params_acquire(ps, 0, 2), MDS_OK); /* no hooks: nothing */
    mds_params_hook(ps, &hooks);
    assert_int_equal(mds_params_acquire(ps, 0, 2), MDS_OK);
    assert_int_equal(mds_params_release(ps, 1, 1), MDS_OK);
    assert_int_equal(mds_params_grad_ready(ps, 0, 2), MDS_ECOMM);
    assert_int_equal(mds_params_grad_ready(ps, 1, 2), MDS_EBUG);
    assert_int_equal(calls.acquired, 2);
    assert_int_equal(calls.last, 1);
    assert_int_equal(calls.released, 1);
    assert_int_equal(calls.ready, 2);
    mds_params_destroy(ps);
}

/* A start value depends on seed, name and index alone; mean and deviation are right. */
static void start_values(void **state)
{
    enum { N = 20000 };
    static float all[N], part[N];
    struct mds_param_spec s = {
        .name = "w", .rows = N, .init = MDS_INIT_NORMAL, .std = 0.5};
    double sum = 0, squares = 0;

    (void)state;
    mds_param_init_values(&s, 1, 0, N, all);
    for (int64_t at = 0, n = 1; at < N; at += n, n = n * 3 % 1000 + 1) {
        n = at + n > N ? N - at : n;
        mds_param_init_values(&s, 1, at, n, part + at);
    }
    assert_memory_equal(all, part, sizeof all);
    for (int i = 0; i < N; i++) {
        sum += all[i];
        squares += (double)all[i] * all[i];
    }
    assert_true(fabs(sum / N) < 4 * 0.5 / sqrt(N));
    assert_true(fabs(squares / N - 0.25) < 4 * 0.25 * sqrt(2.0 / N));
    mds_param_init_values(&s, 2, 0, N, part);
    assert_memory_not_equal(all, part, sizeof all);
    strcpy(s.name, "v");
    mds_param_init_values(&s, 1, 0, N, part);
    assert_memory_not_equal(all, part, sizeof all);
    s.init = MDS_INIT_ONE;
    mds_param_init_values(&s, 1, 5, 2, part);
    assert_true(part[0] == 1 && part[1] == 1);
    s.init = MDS_INIT_ZERO;
    mds_param_init_values(&s, 1, 5, 2, part);
    assert_true(part[0] == 0 && part[1] == 0);
}

static void fronts_check(void **state)
{
    struct mds_dev_spec spec = {.name = "dry"};
    struct mds_dev *dev = NULL;
    float x[4] = {0}, y[4];
    struct mdsk_linear_fwd lin = {
        .R = 1, .in = 2, .out = 2, .x = x, .w = x, .y = y, .dtype = MDSK_F32};
    struct mdsk_norm_fwd norm = {.R = 1, .H = 4, .eps = 1e-5f, .x = x, .gamma = x};
    struct mdsk_attention_fwd att = {.shape = {.B = 1, .A = 3, .G = 2, .Sq = 1}};
    struct mdsk_rope rope = {.B = 1, .S = 1, .A = 1, .D = 4, .rot = 3, .theta = 1};
    struct mdsk_dropout drop = {.rows = {.B = 1, .S = 1}, .H = 4, .x = x, .y = y};

    (void)state;
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_OK);
    lin.dtype = MDSK_BF16;
    assert_int_equal(mds_op_linear_fwd(dev, &lin), MDS_ENOSUP);
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
    assert_int_equal(mds_dev_ledger(dev)->op[MDS_OP_LINEAR_FWD].calls, 1);
    assert_true(mds_dev_ledger(dev)->op[MDS_OP_LINEAR_FWD].cost.flops == 8);
    mds_dev_destroy(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registry_lays_out),
        cmocka_unit_test(hooks_are_called),
        cmocka_unit_test(start_values),
        cmocka_unit_test(fronts_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
