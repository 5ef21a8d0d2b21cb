/* SPDX-License-Identifier: BSD-3-Clause */
/* optim: Muon, against Newton-Schulz in double; which states there are; and that ranks
 * share the work. */
#include "zero_fixture.h"

#include <math.h>

static const struct mds_optim_config muon = {.kind = MDS_MUON,
                                             .beta1 = 0.9,
                                             .beta2 = 0.95,
                                             .eps = 1e-8,
                                             .weight_decay = 0.1,
                                             .muon_momentum = 0.95,
                                             .muon_nesterov = 1,
                                             .muon_steps = 5,
                                             .muon_extra_scale = 0.2};

/* Wide, square, tall, one row, one column, two of a kind; then what AdamW updates. */
enum { MATRICES = 6, PARAMS = 8, MOST = 48 * 13 };
static const int64_t shape[PARAMS][2] = {{8, 24}, {17, 17}, {48, 13}, {1, 33},
                                         {21, 1}, {8, 24},  {40, 8},  {30, 0}};

static void add_params(struct mds_params *ps)
{
    int id;

    assert_int_equal(mds_params_add_unit(ps, "unit", &id), MDS_OK);
    for (int i = 0; i < PARAMS; i++) {
        struct mds_param_spec s = {.rows = shape[i][0],
                                   .cols = shape[i][1],
                                   .init = MDS_INIT_NORMAL,
                                   .std = 0.02,
                                   .decay = i != 1 && shape[i][1] > 0,
                                   .packed = i == 1 || i == 7,
                                   .in_block = i < MATRICES};

        snprintf(s.name, sizeof s.name, "p%d", i);
        assert_int_equal(mds_params_add(ps, &s, &id), MDS_OK);
    }
}

static void open_stage(struct fixture *f, const char *device, enum mdsk_dtype dtype,
                       const struct mds_optim_config *c, int rank, int size, int stage,
                       enum mds_place_kind place)
{
    struct mds_zero_spec spec;

    open_parts(f, device, 1 << 25, dtype, rank, size);
    add_params(f->ps);
    spec = spec_of(f, stage);
    spec.optim = c;
    spec.optimizer = place;
    assert_int_equal(mds_zero_create(&spec, &f->arena, &f->z), MDS_OK);
    assert_int_equal(mds_zero_init_weights(f->z, 1), MDS_OK);
}

static void open_fixture(struct fixture *f, const char *device, enum mdsk_dtype dtype,
                         const struct mds_optim_config *c, int rank, int size)
{
    open_stage(f, device, dtype, c, rank, size, 0, MDS_PLACE_DEVICE);
}

static double gradient(int64_t i, int step)
{
    return sin(1.7 * (double)((i + 1) * (i + 2 + step)));
}

static void step(struct fixture *f, int number)
{
    const struct mds_param_unit *u = mds_params_unit(f->ps, 0);

    assert_int_equal(mds_params_acquire(f->ps, 0), MDS_OK);
    assert_int_equal(mds_params_release(f->ps, 0), MDS_OK);
    mds_zero_step_begin(f->z);
    mds_zero_pass_begin(f->z, 1);
    assert_int_equal(mds_params_grad_begin(f->ps, 0), MDS_OK);
    for (int64_t i = 0; mds_dev_kernels(f->dev) && i < u->count; i++)
        u->grad[i] = (float)gradient(i, number);
    assert_int_equal(mds_params_grad_ready(f->ps, 0), MDS_OK);
    assert_int_equal(mds_zero_finish(f->z), MDS_OK);
    assert_int_equal(mds_zero_update(f->z, 0.01, 0.5), MDS_OK);
}

/* ---- in double ---- */

/* z [m, n] = a x y + b w; y is [k, n], or [n, k] and transposed. */
static void multiply(int64_t m, int64_t k, int64_t n, double a, const double *x,
                     const double *y, int transposed, double b, const double *w,
                     double *z)
{
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < n; c++) {
            double sum = 0;

            for (int64_t i = 0; i < k; i++)
                sum += x[r * k + i] * (transposed ? y[c * k + i] : y[i * n + c]);
            z[r * n + c] = a * sum + b * w[r * n + c];
        }
}

/* Five steps of X = a X + (b A + c A^2) X, A = X X^T, whatever the shape. */
static void newton_schulz(int64_t m, int64_t n, double *x)
{
    static double gram[48 * 48], mix[48 * 48], next[MOST];
    double squares = 0;

    for (int64_t i = 0; i < m * n; i++)
        squares += x[i] * x[i];
    for (int64_t i = 0; i < m * n; i++)
        x[i] /= sqrt(squares);
    for (int k = 0; k < 5; k++) {
        multiply(m, n, m, 1, x, x, 1, 0, gram, gram);
        multiply(m, m, m, 2.0315, gram, gram, 0, -4.7750, gram, mix);
        multiply(m, m, n, 1, mix, x, 0, 3.4445, x, next);
        memcpy(x, next, (size_t)(m * n) * sizeof *x);
    }
}

static double scale_of(enum mds_muon_scale scale, int64_t m, int64_t n)
{
    double ratio = (double)m / (double)n;

    if (scale == MDS_MUON_SPECTRAL)
        return 0.2 * sqrt((double)(m > n ? m : n));
    return 0.2 * sqrt(scale == MDS_MUON_SHAPE && ratio < 1 ? 1 : ratio);
}

/* One step of a matrix whose gradient begins at element `at` of the unit. */
static void update(const struct mds_optim_config *c, int64_t m, int64_t n, int64_t at,
                   int number, int decays, double *w, double *momentum)
{
    double o[MOST];

    for (int64_t i = 0; i < m * n; i++) {
        double g = gradient(at + i, number) / 2;

        momentum[i] = 0.95 * momentum[i] + 0.05 * g;
        o[i] = c->muon_nesterov ? 0.95 * momentum[i] + 0.05 * g : momentum[i];
    }
    newton_schulz(m, n, o);
    for (int64_t i = 0; i < m * n; i++)
        w[i] = w[i] * (decays ? 1 - 0.01 * 0.1 : 1) -
               0.01 * scale_of(c->muon_scale, m, n) * o[i];
}

/* Relative distance between what a matrix moved by and what it should have. */
static double error_of(const float *before, const float *after, const double *want,
                       int64_t n)
{
    double error = 0, moved = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = want[i] - (double)before[i], e = want[i] - (double)after[i];

        error += e * e;
        moved += d * d;
    }
    return sqrt(error / moved);
}

static void check_steps(const struct mds_optim_config *c, enum mdsk_dtype dtype,
                        double limit)
{
    static float before[4096], after[4096], m[4096], v[4096];
    struct fixture f;

    open_fixture(&f, "cpu", dtype, c, 0, 1);
    assert_int_equal(mds_zero_read(f.z, MDS_ZERO_WEIGHT, 0, before), MDS_OK);
    for (int k = 0; k < 3; k++)
        step(&f, k);
    assert_int_equal(mds_zero_read(f.z, MDS_ZERO_WEIGHT, 0, after), MDS_OK);
    assert_int_equal(mds_zero_read(f.z, MDS_ZERO_M, 0, m), MDS_OK);
    assert_int_equal(mds_zero_read(f.z, MDS_ZERO_V, 0, v), MDS_OK);
    for (int id = 0; id < MATRICES; id++) {
        const struct mds_param *p = mds_params_get(f.ps, id);
        double w[MOST], momentum[MOST] = {0}, error;

        for (int64_t i = 0; i < p->count; i++) {
            w[i] = (double)before[p->offset + i];
            assert_true(v[p->offset + i] == 0);
        }
        for (int k = 0; k < 3; k++)
            update(c, p->rows, p->cols, p->offset, k, p->spec.decay, w, momentum);
        error = error_of(before + p->offset, after + p->offset, w, p->count);
        if (error >= limit)
            fail_msg("matrix %d is wrong by %g", id, error);
        for (int64_t i = 0; i < p->count; i++)
            assert_true(fabs((double)m[p->offset + i] - momentum[i]) < 1e-6);
    }
    close_fixture(&f);
}

static void matrices_move_as_in_double(void **state)
{
    (void)state;
    for (int scale = MDS_MUON_SPECTRAL; scale <= MDS_MUON_UNIT; scale++)
        for (int nesterov = 0; nesterov < 2; nesterov++) {
            struct mds_optim_config c = muon;

            c.muon_scale = (enum mds_muon_scale)scale;
            c.muon_nesterov = nesterov;
            check_steps(&c, MDSK_F32, 3e-5); /* an iteration multiplies by 3.4 */
            check_steps(&c, MDSK_BF16, 0.05);
        }
}

/* To the bit, both moments included. */
static void all_else_moves_by_adamw(void **state)
{
    static const enum mds_zero_what what[] = {MDS_ZERO_WEIGHT, MDS_ZERO_M, MDS_ZERO_V};

    (void)state;
    for (int k = 0; k < 3; k++) {
        static float values[2][4096];
        int64_t first;

        for (int kind = 0; kind < 2; kind++) {
            struct mds_optim_config c = muon;
            struct fixture f;

            c.kind = kind ? MDS_MUON : MDS_ADAMW;
            open_fixture(&f, "cpu", MDSK_BF16, &c, 0, 1);
            step(&f, 0);
            step(&f, 1);
            assert_int_equal(mds_zero_read(f.z, what[k], 0, values[kind]), MDS_OK);
            first = mds_params_get(f.ps, MATRICES)->offset;
            close_fixture(&f);
        }
        assert_memory_equal(values[0] + first, values[1] + first,
                            (40 * 8 + 30) * sizeof(float));
    }
}

/* A matrix has one moment; and a dry device needs the same memory. */
static void memory_has_no_second_moments_of_matrices(void **state)
{
    int64_t bytes[3], matrices = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mds_optim_config c = muon;
        struct fixture f;

        c.kind = i == 0 ? MDS_ADAMW : MDS_MUON;
        open_fixture(&f, i == 2 ? "dry" : "cpu", MDSK_BF16, &c, 0, 1);
        step(&f, 0);
        bytes[i] = f.arena.peak;
        if (i > 0)
            bytes[i] -= mds_newton_schulz_lay_out(&(struct newton_schulz){0}, NULL,
                                                  MOST, 17 * 17, MDSK_BF16) -
                        (char *)NULL;
        matrices = mds_params_get(f.ps, MATRICES)->offset;
        close_fixture(&f);
    }
    assert_int_equal(bytes[1], bytes[2]);
    /* All but what rounding to 256 bytes hides. */
    assert_in_range(bytes[0] - bytes[1], 4 * matrices - 512, 4 * matrices + 512);
}

/* Among 3 ranks each matrix is orthogonalised once. */
static void ranks_share_the_matrices(void **state)
{
    double products = 0, alone;
    struct fixture f;

    (void)state;
    open_fixture(&f, "dry", MDSK_F32, &muon, 0, 1);
    step(&f, 0);
    alone = (double)mds_dev_ledger(f.dev)->op[MDS_OP_SUM_SQUARES].calls;
    assert_true(alone == MATRICES);
    close_fixture(&f);
    for (int rank = 0; rank < 3; rank++) {
        open_fixture(&f, "dry", MDSK_F32, &muon, rank, 3);
        step(&f, 0);
        products += (double)mds_dev_ledger(f.dev)->op[MDS_OP_SUM_SQUARES].calls;
        close_fixture(&f);
    }
    assert_true(products == alone);
}

/* What is on the host, or in a file, comes to the device and goes back: the same
 * bits. */
static void places_give_the_same_bits(void **state)
{
    static const enum mds_zero_what what[] = {MDS_ZERO_WEIGHT, MDS_ZERO_M, MDS_ZERO_V};

    (void)state;
    for (int k = 0; k < 3; k++) {
        static float values[3][4096];

        for (int place = MDS_PLACE_DEVICE; place <= MDS_PLACE_NVME; place++) {
            struct fixture f;

            open_stage(&f, "cpu", MDSK_BF16, &muon, 0, 1, 0,
                       (enum mds_place_kind)place);
            step(&f, 0);
            step(&f, 1);
            assert_int_equal(mds_zero_read(f.z, what[k], 0, values[place]), MDS_OK);
            close_fixture(&f);
        }
        assert_memory_equal(values[0], values[1], sizeof *values);
        assert_memory_equal(values[0], values[2], sizeof *values);
    }
}

/* Elements of a matrix that a rank of 3 has. */
static int64_t elements_at(const struct mds_params *ps, int id, int rank)
{
    int64_t first, n;

    mds_comm_shard(mds_params_unit(ps, 0)->count, 3, rank, &first, &n);
    return mds_param_overlap(ps, mds_params_get(ps, id), first, n).n;
}

/* By size: 2, 1, 0; 5, 3, 4. */
static const int by_size[MATRICES] = {2, 1, 0, 5, 3, 4};

/* A rank that receives nothing passes memory of the device to an exchange, too. */
static void a_lone_rank_has_a_parcel(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, "cpu", MDSK_F32, &muon, 0, 1);
    assert_true(f.z->muon[0].parcel < f.arena.base + f.arena.now.used);
    close_fixture(&f);
}

/* Each element travels to the owner, and back, unless it is there. */
static void messages_are_as_few_as_can_be(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++) {
        int64_t sent = 0, want = 0;

        for (int rank = 0; rank < 3; rank++) {
            const struct mds_comm_count *n;
            struct fixture f;

            open_stage(&f, "dry", MDSK_BF16, &muon, rank, 3, stage, MDS_PLACE_DEVICE);
            step(&f, 0);
            n = &mds_comm_stats(f.comm)->of[MDS_COMM_EXCHANGE];
            assert_int_equal(n->calls, 4); /* two a round */
            sent += n->wire_bytes;
            for (int i = 0; i < MATRICES; i++)
                want += i % 3 == rank ? 0 : 6 * elements_at(f.ps, by_size[i], rank);
            close_fixture(&f);
        }
        assert_int_equal(sent, want);
    }
}

static void dry_devices_need_the_same_memory(void **state)
{
    int64_t peak[2];

    (void)state;
    for (int stage = 0; stage < 4; stage++) {
        for (int dry = 0; dry < 2; dry++) {
            struct fixture f;

            open_stage(&f, dry ? "dry" : "cpu", MDSK_BF16, &muon, 1, 3, stage,
                       MDS_PLACE_DEVICE);
            step(&f, 0);
            peak[dry] = f.arena.peak;
            assert_true(f.z->muon[0].parcel < f.arena.base + f.arena.now.used);
            close_fixture(&f);
        }
        assert_int_equal(peak[0], peak[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_move_as_in_double),
        cmocka_unit_test(all_else_moves_by_adamw),
        cmocka_unit_test(memory_has_no_second_moments_of_matrices),
        cmocka_unit_test(ranks_share_the_matrices),
        cmocka_unit_test(places_give_the_same_bits),
        cmocka_unit_test(a_lone_rank_has_a_parcel),
        cmocka_unit_test(messages_are_as_few_as_can_be),
        cmocka_unit_test(dry_devices_need_the_same_memory),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
