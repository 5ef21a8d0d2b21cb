/* SPDX-License-Identifier: BSD-3-Clause */
/* optim: the units of a model with a tied embedding, in the order that it uses them. */
#include "zero_fixture.h"

enum { WORD, POSITION, LAYER, HEAD = LAYER + 2, MODEL_UNITS };

/* Of so many rows: the embedding, the positions, each layer, the rest of the head. */
static void open_model(struct fixture *f, const int64_t rows[4])
{
    int id;

    open_parts(f, "dry", 1 << 22, MDSK_F32, 0, 4);
    for (int u = 0; u < MODEL_UNITS; u++) {
        struct mds_param_spec s = {.rows = rows[u < LAYER  ? u
                                                : u < HEAD ? LAYER
                                                           : LAYER + 1]};

        snprintf(s.name, sizeof s.name, "u%d", u);
        assert_int_equal(mds_params_add_unit(f->ps, s.name, &id), MDS_OK);
        assert_int_equal(mds_params_add(f->ps, &s, &id), MDS_OK);
    }
    mds_params_set_encloses(f->ps, WORD);
}

static void acquire(struct fixture *f, int unit)
{
    assert_int_equal(mds_params_acquire(f->ps, unit), MDS_OK);
}

static void release(struct fixture *f, int unit)
{
    assert_int_equal(mds_params_release(f->ps, unit), MDS_OK);
}

static void model_forward(struct fixture *f)
{
    acquire(f, WORD);
    acquire(f, POSITION);
    release(f, POSITION);
    release(f, WORD);
    for (int u = LAYER; u < HEAD; u++) {
        acquire(f, u);
        release(f, u);
    }
    acquire(f, HEAD);
    acquire(f, WORD);
    release(f, WORD);
    release(f, HEAD);
}

static void begin(struct fixture *f, int unit)
{
    assert_int_equal(mds_params_grad_begin(f->ps, unit), MDS_OK);
}

static void ready(struct fixture *f, int unit)
{
    assert_int_equal(mds_params_grad_ready(f->ps, unit), MDS_OK);
}

static void model_backward(struct fixture *f)
{
    begin(f, HEAD);
    begin(f, WORD);
    ready(f, HEAD);
    for (int u = HEAD - 1; u >= LAYER; u--) {
        acquire(f, u);
        begin(f, u);
        ready(f, u);
        release(f, u);
    }
    begin(f, POSITION);
    ready(f, POSITION);
    ready(f, WORD);
}

static void model_step(struct fixture *f, int passes)
{
    mds_zero_step_begin(f->z);
    for (int pass = 1; pass <= passes; pass++) {
        model_forward(f);
        mds_zero_pass_begin(f->z, pass == passes);
        model_backward(f);
    }
    assert_int_equal(mds_zero_finish(f->z), MDS_OK);
    assert_int_equal(mds_zero_update(f->z, 0.1, 1), MDS_OK);
}

/* Whichever is the largest: in every pass it finds a buffer, although another unit's
 * gradient lives from the head to the embedding, and its weights are used at both. */
static void a_unit_that_encloses_others_leaves_them_room(void **state)
{
    static const int64_t rows[][4] = {{100, 9000, 600, 20},
                                      {900, 9000, 600, 20},
                                      {100, 500, 6000, 20},
                                      {9000, 500, 600, 20},
                                      {900, 500, 600, 2000}};

    (void)state;
    for (int i = 0; i < 5 * 4; i++) {
        struct mds_zero_spec spec;
        struct fixture f;

        open_model(&f, rows[i / 4]);
        spec = spec_of(&f, 2 + i % 2);
        spec.overlap = i / 2 % 2;
        assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
        for (int step = 0; step < 3; step++) {
            model_step(&f, 3);
            model_forward(&f);
            model_forward(&f);
        }
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_that_encloses_others_leaves_them_room),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
