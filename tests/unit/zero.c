/* SPDX-License-Identifier: BSD-3-Clause */
/* optim: who owns what, what travels when, and that a dry device does the same. */
#include "zero_fixture.h"

#include "kernels/table.h"

#include <math.h>

enum { UNITS = 6 };

/* Layers of a matrix that decays between vectors that do not; the first unit is also
 * somebody else's. */
static void add_params(struct mds_params *ps)
{
    static const int64_t rows[] = {70, 900, 9};
    int id;

    for (int u = 0; u < UNITS; u++) {
        assert_int_equal(mds_params_add_unit(ps, "unit", &id), MDS_OK);
        for (int i = 0; i < 3; i++) {
            struct mds_param_spec s = {.rows = rows[i] + (u == 2 ? 1000 : 0),
                                       .decay = i == 1,
                                       .packed = i == 2,
                                       .duplicate = u == 0 && i < 2};

            snprintf(s.name, sizeof s.name, "u%d.p%d", u, i);
            assert_int_equal(mds_params_add(ps, &s, &id), MDS_OK);
        }
    }
}

static void open_fixture(struct fixture *f, const char *device, int rank, int size,
                         enum mdsk_dtype dtype)
{
    void *p = NULL;

    open_parts(f, device, 1 << 22, dtype, rank, size);
    add_params(f->ps);
    assert_int_equal(mds_arena_alloc(&f->arena, MDS_MEM_WORK, 8, &p), MDS_OK);
    f->squares = p;
}

static void forward(struct fixture *f)
{
    for (int u = 0; u < UNITS; u++) {
        assert_int_equal(mds_params_acquire(f->ps, u), MDS_OK);
        assert_int_equal(mds_params_release(f->ps, u), MDS_OK);
    }
}

static void backward(struct fixture *f)
{
    for (int u = UNITS - 1; u >= 0; u--) {
        assert_int_equal(mds_params_acquire(f->ps, u), MDS_OK);
        assert_int_equal(mds_params_grad_begin(f->ps, u), MDS_OK);
        assert_non_null(mds_params_unit(f->ps, u)->weight);
        assert_non_null(mds_params_unit(f->ps, u)->grad);
        assert_int_equal(mds_params_grad_ready(f->ps, u), MDS_OK);
        assert_int_equal(mds_params_release(f->ps, u), MDS_OK);
    }
}

static void whole_step(struct fixture *f, int passes)
{
    mds_zero_step_begin(f->z);
    for (int pass = 0; pass < passes; pass++) {
        forward(f);
        mds_zero_pass_begin(f->z, pass == passes - 1);
        backward(f);
    }
    assert_int_equal(mds_zero_finish(f->z), MDS_OK);
    assert_int_equal(mds_zero_grad_squares(f->z, f->squares), MDS_OK);
    assert_int_equal(mds_zero_update(f->z, 0.1, 1), MDS_OK);
}

static int64_t calls(const struct fixture *f, enum mds_comm_kind kind)
{
    return mds_comm_stats(f->comm)->of[kind].calls;
}

/* Adds what a rank has to do with each element of unit `unit`: 1 if it decays, 10 if it
 * is a duplicate, 100 anyway. */
static void note_ranges(const struct mds_zero *z, int unit, int *sum)
{
    const struct zero_shard *u = &z->parts.shard[unit];
    int64_t next = u->first;

    for (int i = u->first_group; i < u->first_group + u->groups; i++) {
        const struct zero_param_group *r = &z->parts.param_group[i];

        assert_int_equal(r->first, next);
        next += r->n;
        for (int64_t k = r->first; k < next; k++)
            sum[k] += 100 + r->decay + 10 * r->duplicate;
    }
    assert_int_equal(next, u->first + u->n);
}

static void check_ranges(const struct mds_params *ps, int unit, const int *sum)
{
    const struct mds_param_unit *u = mds_params_unit(ps, unit);

    for (int64_t k = 0; k < u->count; k++)
        assert_in_range(sum[k], 100, 111);
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(ps, id);

        for (int64_t k = p->offset - u->first; k < p->offset - u->first + p->count; k++)
            assert_int_equal(sum[k], 100 + p->spec.decay + 10 * p->spec.duplicate);
    }
}

static void ranks_own_every_element_once(void **state)
{
    (void)state;
    for (int size = 2; size < 40; size = size * 2 + 1) {
        static int sum[UNITS][8192];
        int64_t own = -1;
        struct fixture f;

        memset(sum, 0, sizeof sum);
        for (int rank = 0; rank < size; rank++) {
            struct mds_zero_spec spec;

            open_fixture(&f, "dry", rank, size, MDSK_F32);
            spec = spec_of(&f, 1);
            assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
            for (int u = 0; u < UNITS; u++)
                note_ranges(f.z, u, sum[u]);
            assert_true(own < 0 ||
                        own == f.z->parts.own); /* every rank needs as much memory */
            own = f.z->parts.own;
            if (rank == size - 1)
                for (int u = 0; u < UNITS; u++)
                    check_ranges(f.ps, u, sum[u]);
            close_fixture(&f);
        }
    }
}

static void ranges_cover_the_own_shard(void **state)
{
    struct zero_range p = {.unit = -1};
    struct mds_zero_spec spec;
    struct fixture f;
    int64_t sum = 0, at = 0;

    (void)state;
    open_fixture(&f, "dry", 1, 3, MDSK_F32);
    spec = spec_of(&f, 2);
    assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
    while (mds_partition_next_range(&f.z->parts, 100, &p)) {
        assert_in_range(p.n, 1, 100);
        assert_true(mds_partition_at(&f.z->parts, &p, ZERO_SHARDS) >= at);
        at = mds_partition_at(&f.z->parts, &p, ZERO_SHARDS) + p.n;
        sum += p.n;
    }
    for (int u = 0; u < UNITS; u++)
        sum -= f.z->parts.shard[u].n;
    assert_int_equal(sum, 0);
    assert_int_equal(p.unit, UNITS);
    close_fixture(&f);
}

static const struct zero_rule rule_of_matrices, rule_of_others;

static struct zero_choice rule_of(const struct mds_param_spec *spec)
{
    return (struct zero_choice){spec->decay ? &rule_of_matrices : &rule_of_others, 2};
}

static struct zero_choice only_adamw(const struct mds_param_spec *spec)
{
    (void)spec;
    return (struct zero_choice){&mds_adamw, 2};
}

/* Whatever ranks cut, and however short ranges are. */
static void a_range_has_one_rule(void **state)
{
    (void)state;
    for (int size = 1; size < 20; size = 2 * size + 1)
        for (int64_t longest = 50; longest < 10000; longest *= 10) {
            struct zero_range p = {.unit = -1};
            struct zero_partition parts;
            int64_t all = 0, own = 0;
            struct fixture f;

            open_fixture(&f, "dry", size / 2, size, MDSK_F32);
            assert_int_equal(mds_partition_init(&parts, f.ps, f.comm, NULL, 1, rule_of),
                             MDS_OK);
            for (; mds_partition_next_range(&parts, longest, &p); all += p.n) {
                struct zero_param_group g = {.first = p.first};

                assert_in_range(p.n, 1, longest);
                while (mds_partition_next_group(&parts, &p, &g)) {
                    assert_ptr_equal(g.by.rule, p.by.rule);
                    assert_ptr_equal(g.by.rule,
                                     g.decay ? &rule_of_matrices : &rule_of_others);
                }
                assert_int_equal(g.first + g.n, p.first + p.n);
            }
            for (int u = 0; u < UNITS; u++)
                own += parts.shard[u].n;
            assert_int_equal(all, own);
            mds_partition_fini(&parts);
            close_fixture(&f);
        }
}

static const struct {
    int stage;
    enum mds_place_kind optimizer, weights;
} hows[] = {
    {0, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE}, {0, MDS_PLACE_CPU, MDS_PLACE_DEVICE},
    {1, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE}, {1, MDS_PLACE_NVME, MDS_PLACE_DEVICE},
    {2, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE}, {2, MDS_PLACE_CPU, MDS_PLACE_DEVICE},
    {3, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE}, {3, MDS_PLACE_NVME, MDS_PLACE_CPU},
    {3, MDS_PLACE_CPU, MDS_PLACE_CPU},
};

/* What a device was asked to do in three steps; bytes of the arena and of the host. */
struct trace {
    struct mds_ledger ledger;
    struct mds_comm_stats stats;
    int64_t arena;
    struct mds_zero_host host;
};

static void trace_run(const char *device, size_t how, enum mdsk_dtype dtype,
                      struct trace *t)
{
    float *host = calloc(8192, sizeof *host);
    struct mds_zero_spec spec;
    struct fixture f;

    memset(t, 0, sizeof *t);
    open_fixture(&f, device, 1, 3, dtype);
    spec = spec_of(&f, hows[how].stage);
    spec.optimizer = hows[how].optimizer;
    spec.weights = hows[how].weights;
    assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
    assert_int_equal(mds_zero_init_weights(f.z, 3), MDS_OK);
    for (int step = 0; step < 3; step++)
        whole_step(&f, 2);
    assert_int_equal(mds_zero_sum_unit(f.z, 2, f.comm), MDS_OK);
    for (int what = 0; what < 4; what++)
        assert_int_equal(mds_zero_read(f.z, (enum mds_zero_what)what, 2, host), MDS_OK);
    t->ledger = *mds_dev_ledger(f.dev);
    t->stats = *mds_comm_stats(f.comm);
    t->arena = f.arena.peak;
    t->host = mds_zero_host_bytes(f.z);
    close_fixture(&f);
    free(host);
}

static void dry_runs_count_the_same(void **state)
{
    (void)state;
    for (size_t how = 0; how < sizeof hows / sizeof hows[0]; how++)
        for (int half = 0; half < 2; half++) {
            struct trace cpu, dry;

            trace_run("cpu", how, half ? MDSK_BF16 : MDSK_F32, &cpu);
            trace_run("dry", how, half ? MDSK_BF16 : MDSK_F32, &dry);
            assert_memory_equal(&cpu.ledger, &dry.ledger, sizeof cpu.ledger);
            assert_memory_equal(&cpu.stats, &dry.stats, sizeof cpu.stats);
            assert_int_equal(cpu.arena, dry.arena);
            assert_memory_equal(&cpu.host, &dry.host, sizeof cpu.host);
            assert_true((dry.host.memory_bytes > 0) ==
                        (hows[how].optimizer != MDS_PLACE_DEVICE));
            assert_true((dry.host.file_bytes > 0) ==
                        (hows[how].optimizer == MDS_PLACE_NVME));
        }
}

/* Bytes of a tag that a stage takes on rank 1 of 3. */
static int64_t bytes_of(int stage, enum mds_mem_tag tag)
{
    struct mds_zero_spec spec;
    struct fixture f;
    int64_t bytes;

    open_fixture(&f, "dry", 1, 3, MDSK_BF16);
    spec = spec_of(&f, stage);
    assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
    bytes = mds_dev_ledger(f.dev)->memory.now[tag];
    close_fixture(&f);
    return bytes;
}

static void higher_stages_need_less_memory(void **state)
{
    (void)state;
    assert_true(bytes_of(1, MDS_MEM_OPTIM) < 0.4 * (double)bytes_of(0, MDS_MEM_OPTIM));
    assert_int_equal(bytes_of(1, MDS_MEM_GRAD), bytes_of(0, MDS_MEM_GRAD));
    assert_true(bytes_of(2, MDS_MEM_GRAD) < bytes_of(1, MDS_MEM_GRAD) + 3 * 1024 * 4);
    assert_int_equal(bytes_of(2, MDS_MEM_PARAM), bytes_of(1, MDS_MEM_PARAM));
    assert_int_equal(bytes_of(3, MDS_MEM_OPTIM), bytes_of(1, MDS_MEM_OPTIM));
}

static void each_bucket_is_reduced_once(void **state)
{
    struct mds_zero_spec spec;
    struct fixture f;

    (void)state;
    for (int overlap = 0; overlap < 2; overlap++) {
        int64_t before;

        open_fixture(&f, "dry", 0, 4, MDSK_F32);
        spec = spec_of(&f, 0);
        spec.overlap = overlap;
        assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
        assert_int_equal(f.z->gradients.buckets, 3); /* {5, 4}, {3, 2}, {1, 0} */
        before = calls(&f, MDS_COMM_ALL_REDUCE);
        mds_zero_step_begin(f.z);
        mds_zero_pass_begin(f.z, 0);
        backward(&f); /* not the last pass: nothing travels */
        assert_int_equal(calls(&f, MDS_COMM_ALL_REDUCE) - before, 0);
        mds_zero_pass_begin(f.z, 1);
        backward(&f);
        assert_int_equal(calls(&f, MDS_COMM_ALL_REDUCE) - before, overlap ? 3 : 0);
        assert_int_equal(mds_zero_finish(f.z), MDS_OK);
        assert_int_equal(calls(&f, MDS_COMM_ALL_REDUCE) - before, 3);
        close_fixture(&f);
    }
}

/* Gathers per step, once the order is known. */
static int64_t gathers(int overlap, int passes)
{
    struct mds_zero_spec spec;
    struct fixture f;
    int64_t before = 0, n = -1;

    open_fixture(&f, "dry", 0, 4, MDSK_F32);
    spec = spec_of(&f, 3);
    spec.overlap = overlap;
    assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
    for (int step = 0; step < 5; step++) {
        int64_t now;

        whole_step(&f, passes);
        now = calls(&f, MDS_COMM_ALL_GATHER);
        assert_true(step < 3 || now - before == n);
        n = now - before;
        before = now;
    }
    for (int u = 0; u < UNITS; u++)
        assert_null(mds_params_unit(f.ps, u)->weight);
    close_fixture(&f);
    return n;
}

/* The units in the slots when a pass turns round need not come again: two, or three
 * with overlap.  So it is with the first ones at the next pass, but not at the next
 * step, when their weights are new. */
static void units_are_gathered_once_per_pass(void **state)
{
    (void)state;
    assert_int_equal(gathers(0, 1), 2 * UNITS - 2);
    assert_int_equal(gathers(1, 1), 2 * UNITS - 3);
    assert_int_equal(gathers(0, 3), 3 * (2 * UNITS - 4) + 2);
    assert_int_equal(gathers(1, 3), 3 * (2 * UNITS - 6) + 3);
}

static void the_next_unit_is_prefetched(void **state)
{
    struct mds_zero_spec spec;
    struct fixture f;

    (void)state;
    open_fixture(&f, "dry", 0, 4, MDSK_F32);
    spec = spec_of(&f, 3);
    assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
    whole_step(&f, 1);
    whole_step(&f, 1);
    for (int u = 0; u < UNITS; u++) {
        assert_int_equal(mds_params_acquire(f.ps, u), MDS_OK);
        assert_true(mds_pool_find(&f.z->weights.pool, u < UNITS - 1 ? u + 1 : u - 1) >=
                    0);
        assert_int_equal(mds_params_release(f.ps, u), MDS_OK);
    }
    close_fixture(&f);
}

static void misuse_is_reported(void **state)
{
    struct mds_zero_spec spec;
    struct fixture f;

    (void)state;
    open_fixture(&f, "dry", 0, 4, MDSK_F32);
    spec = spec_of(&f, 3);
    assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
    mds_zero_step_begin(f.z);
    assert_fails(mds_zero_finish(f.z), MDS_EBUG, "not ready in any pass");
    mds_zero_pass_begin(f.z, 1);
    assert_fails(mds_params_grad_ready(f.ps, 5), MDS_EBUG, "not begun");
    assert_int_equal(mds_params_grad_begin(f.ps, 5), MDS_OK);
    assert_int_equal(mds_params_grad_begin(f.ps, 5), MDS_OK); /* is no other */
    assert_int_equal(mds_params_grad_ready(f.ps, 5), MDS_OK);
    assert_fails(mds_params_grad_ready(f.ps, 5), MDS_EBUG, "twice in a pass");
    mds_zero_pass_begin(f.z, 1);
    assert_fails(mds_params_grad_ready(f.ps, 5), MDS_EBUG, "after its last pass");
    for (int u = 0; u < 2; u++) /* more than can be, but there is room */
        assert_int_equal(mds_params_grad_begin(f.ps, u), MDS_OK);
    assert_fails(mds_params_grad_begin(f.ps, 4), MDS_EBUG, "all buffers are in use");
    for (int u = 0; u < 3; u++)
        assert_int_equal(mds_params_acquire(f.ps, u), MDS_OK);
    assert_fails(mds_params_acquire(f.ps, 4), MDS_EBUG, "more than 3 units in use");
    assert_fails(mds_params_release(f.ps, 4), MDS_EBUG, "not in use");
    assert_fails(mds_zero_update(f.z, 1, 1), MDS_EBUG, "in use during the update");
    close_fixture(&f);
}

static void unsupported_placements_are_refused(void **state)
{
    struct mds_zero_spec spec;
    struct fixture f;

    (void)state;
    open_fixture(&f, "cpu", 0, 4, MDSK_F32);
    spec = spec_of(&f, 4);
    assert_fails(mds_zero_create(&spec, &f.arena, &f.z), MDS_EBUG, "stage 4");
    spec = spec_of(&f, 2);
    spec.weights = MDS_PLACE_CPU;
    assert_fails(mds_zero_create(&spec, &f.arena, &f.z), MDS_EBUG, "stage 2");
    spec.stage = 3;
    assert_fails(mds_zero_create(&spec, &f.arena, &f.z), MDS_EBUG, "weights in");
    spec.weights = MDS_PLACE_NVME;
    assert_fails(mds_zero_create(&spec, &f.arena, &f.z), MDS_EBUG, "weights in");
    spec = spec_of(&f, 1);
    spec.optimizer = MDS_PLACE_NVME;
    spec.nvme_path = NULL;
    assert_fails(mds_zero_create(&spec, &f.arena, &f.z), MDS_EBUG, "states in");
    write_file("file", "x", 1);
    spec.nvme_path = "file";
    assert_fails(mds_zero_create(&spec, &f.arena, &f.z), MDS_EUSER,
                 "file: cannot create a file");
    assert_null(f.z);
    close_fixture(&f);
}

/* Loading anew begins anew. */
/* A unit of more spans than a launch tells apart, from `skip` elements on, with
 * gradients of 0: a weight that decays becomes 3/4 of what it was. */
static void check_launches(int64_t skip, double launches)
{
    enum { VECTORS = 2 * MDSK_ADAMW_SPANS + 1, LENGTH = 64, ALL = VECTORS * LENGTH };
    static const struct zero_step update = {.optim = {.weight_decay = 0.5, .eps = 1},
                                            .number = 1,
                                            .lr = 0.5,
                                            .grad_scale = 1};
    static float zeros[ALL], m[ALL], v[ALL], w[ALL];
    static uint16_t rounded[ALL];
    struct zero_operands x = {.range = {.first = skip, .n = ALL - skip},
                              .state = {w + skip, m + skip, v + skip},
                              .grad = zeros + skip,
                              .weight = rounded + skip,
                              .dtype = MDSK_BF16};
    struct zero_partition parts;
    struct fixture f;
    int id;

    open_fixture(&f, "cpu", 0, 1, MDSK_BF16);
    assert_int_equal(mds_params_add_unit(f.ps, "many", &x.range.unit), MDS_OK);
    for (int i = 0; i < VECTORS; i++) {
        struct mds_param_spec s = {.rows = LENGTH, .decay = i % 2};

        snprintf(s.name, sizeof s.name, "v%d", i);
        assert_int_equal(mds_params_add(f.ps, &s, &id), MDS_OK);
    }
    for (int k = 0; k < ALL; k++) {
        w[k] = 8;
        rounded[k] = 0;
    }
    assert_int_equal(mds_partition_init(&parts, f.ps, f.comm, NULL, 0, only_adamw),
                     MDS_OK);
    x.dev = f.dev;
    assert_int_equal(mds_adamw.update(&update, &parts, &x), MDS_OK);
    assert_true(mds_dev_ledger(f.dev)->op[MDS_OP_ADAMW].calls == launches);
    for (int k = 0; k < ALL; k++) {
        int decays = k >= skip && k / LENGTH % 2;

        assert_true(w[k] == (decays ? 6 : 8));
        assert_int_equal(rounded[k], k < skip ? 0 : decays ? 0x40c0 : 0x4100);
    }
    mds_partition_fini(&parts);
    close_fixture(&f);
}

static void a_unit_is_updated_in_few_launches(void **state)
{
    struct mds_zero_spec spec;
    struct fixture f;

    (void)state;
    check_launches(0, 3);
    check_launches(64, 2);
    check_launches(100, 2);
    open_fixture(&f, "dry", 0, 1, MDSK_BF16);
    spec = spec_of(&f, 0);
    assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
    whole_step(&f, 1);
    assert_int_equal(mds_dev_ledger(f.dev)->op[MDS_OP_ADAMW].calls, UNITS);
    close_fixture(&f);
}

static void load_resets_the_moments(void **state)
{
    float v[8192] = {0};

    (void)state;
    for (int place = MDS_PLACE_DEVICE; place <= MDS_PLACE_NVME; place++) {
        struct mds_zero_spec spec;
        struct fixture f;

        open_fixture(&f, "cpu", 0, 1, MDSK_F32);
        spec = spec_of(&f, 0);
        spec.optimizer = (enum mds_place_kind)place;
        assert_int_equal(mds_zero_create(&spec, &f.arena, &f.z), MDS_OK);
        assert_int_equal(mds_zero_init_weights(f.z, 1), MDS_OK);
        mds_zero_step_begin(f.z);
        mds_zero_pass_begin(f.z, 1);
        assert_int_equal(mds_params_grad_begin(f.ps, 0), MDS_OK);
        *mds_param_grad(f.ps, 1) = 3;
        backward(&f);
        assert_int_equal(mds_zero_finish(f.z), MDS_OK);
        assert_int_equal(mds_zero_update(f.z, 0.1, 1), MDS_OK);
        assert_int_equal(mds_zero_read(f.z, MDS_ZERO_V, 0, v), MDS_OK);
        assert_true(fabs((double)v[128] - 0.05 * 9) < 1e-6);
        assert_int_equal(mds_zero_init_weights(f.z, 1), MDS_OK);
        assert_int_equal(mds_zero_read(f.z, MDS_ZERO_V, 0, v), MDS_OK);
        assert_true(v[128] == 0);
        assert_int_equal(f.z->states.step.number, 0);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_own_every_element_once),
        cmocka_unit_test(ranges_cover_the_own_shard),
        cmocka_unit_test(a_range_has_one_rule),
        cmocka_unit_test(dry_runs_count_the_same),
        cmocka_unit_test(higher_stages_need_less_memory),
        cmocka_unit_test(each_bucket_is_reduced_once),
        cmocka_unit_test(units_are_gathered_once_per_pass),
        cmocka_unit_test(the_next_unit_is_prefetched),
        cmocka_unit_test(misuse_is_reported),
        cmocka_unit_test(unsupported_placements_are_refused),
        cmocka_unit_test(a_unit_is_updated_in_few_launches),
        cmocka_unit_test(load_resets_the_moments),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
