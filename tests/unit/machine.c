/* SPDX-License-Identifier: BSD-3-Clause */
/* plan: machine profiles. */
#include "tests/unit/toy_machine.h"

static void a_profile_is_read(void **state)
{
    struct mds_machine *m = NULL;

    (void)state;
    assert_int_equal(load_toy("", &m), MDS_OK);
    assert_string_equal(m->name, "toy");
    assert_string_equal(m->hosts, "toy* t-?");
    assert_int_equal(m->node.gpus, 2);
    assert_int_equal(mds_machine_ranks_per_node(m), 2);
    assert_int_equal(m->gpu.memory, 1400 << 20);
    assert_int_equal(m->launcher.kind, MDS_LAUNCHER_PALS);
    assert_string_equal(m->launcher.flags, "-v --envall");
    assert_string_equal(m->batch.directives, "-l a=b\n-l c");
    assert_int_equal(m->queue_count, 1);
    assert_int_equal(mds_machine_queue(m, "debug", 0)->max_nodes, 2);
    assert_null(mds_machine_queue(m, "debug", 3));
    assert_null(mds_machine_queue(m, "prod", 0));
    assert_string_equal(m->environment[0].name, "A");
    mds_machine_destroy(m);
}

static void a_queue_gives_more_nodes_more_time(void **state)
{
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};

    (void)state;
    assert_int_equal(mds_machine_find("polaris", "", &diag, &m), MDS_OK);
    assert_null(mds_machine_queue(m, "prod", 9));
    assert_float_equal(mds_machine_queue(m, "prod", 24)->max_s, 3 * 3600, 0);
    assert_float_equal(mds_machine_queue(m, "prod", 25)->max_s, 6 * 3600, 0);
    assert_float_equal(mds_machine_queue(m, "prod", 496)->max_s, 24 * 3600, 0);
    assert_null(mds_machine_queue(m, "small", 10)); /* nobody can submit to that */
    mds_machine_destroy(m);
    mds_diag_fini(&diag);
}

static void faults_name_lines_and_the_nearest_name(void **state)
{
    static const struct {
        const char *more, *says;
    } cases[] = {
        {"node2: {a: 1}\n", "m.yaml:16: unknown section node2; did you mean node?"},
        {"quees: {source: s, date: 2026-01-02}\n", "did you mean queues?"},
        {"nonsense: 5\n", "m.yaml:16: nonsense: must be a map"},
        {"settings: {model: {dytpe: bf16}}\n", "m.yaml:16: unknown key model.dytpe"},
        {"settings: {model: {dtype: bf8}}\n", "m.yaml:16: model.dtype 'bf8': must be"},
        {"settings: bf16\n", "m.yaml: must be a map of settings"},
    };
    struct mds_machine *m = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(load_toy(cases[i].more, &m), MDS_EUSER, cases[i].says);
}

static void all_faults_come_at_once(void **state)
{
    static const char text[] =
        "machine: {name: toy, abot: x, variable: a, source: s, date: 2026-13-02}\n"
        "node: {count: 4, gpus: 2, cores: many}\n"
        "gpu: {order: reverse, source: s, date: 2026-01-02}\n"
        "launcher: {kind: srun, command: srun, source: s, date: 2026-01-02}\n"
        "queues: {debug: {max_node: 2}, source: s, date: 2026-01-02}\n"
        "environment: {A-B: 1, source: s, date: 2026-01-02}\n"
        "batch: {directives: ['-l n={nodes}', '-l x={node}'], source: s, date: "
        "2026-01-02}\n";
    static const char *const says[] = {
        "m.yaml:1: date '2026-13-02': must be YYYY-MM-DD",
        "m.yaml:1: unknown fact machine.abot; did you mean machine.about?",
        "m.yaml:1: machine.variable 'a': must be NAME=VALUE",
        "m.yaml:2: node.count has no source and date",
        "m.yaml:2: node.cores 'many': must be",
        "m.yaml:5: queue debug: unknown key max_node; did you mean max_nodes?",
        "m.yaml:5: queue debug: must give max_nodes",
        "m.yaml:6: environment: A-B must be a variable's name",
        "m.yaml:7: batch.directives: unknown placeholder {node}; known are "
        "{nodes}{gpus}",
        "m.yaml:3: gpu.order: srun hands out GPUs in their own order",
        "m.yaml: no gpu.kind",
        ", rates.matmul_flops, rates.matmul_fp32_flops, ",
    };
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};

    (void)state;
    write_file("m.yaml", text, strlen(text));
    assert_int_equal(mds_machine_load("m.yaml", &diag, &m), MDS_EUSER);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        int found = 0;

        for (size_t k = 0; k < diag.count; k++)
            found |= strstr(diag.entries[k].text, says[i]) != NULL;
        if (!found)
            fail_msg("no fault says '%s'", says[i]);
    }
    for (size_t k = 0; k < diag.count; k++) /* one for the section is enough */
        assert_null(strstr(diag.entries[k].text, "node.gpus has no source"));
    mds_diag_fini(&diag);
}

static void our_profiles_are_well(void **state)
{
    static const char *const names[] = {"polaris", "sophia",     "thetagpu",
                                        "dgx2",    "perlmutter", "h200",
                                        "h100",    "selene",     "localhost"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct mds_machine *m = NULL;
        struct mds_diag diag = {0};

        if (mds_machine_find(names[i], "", &diag, &m))
            fail_msg("%s", mds_fail_text());
        assert_string_equal(m->name, names[i]);
        mds_machine_destroy(m);
        mds_diag_fini(&diag);
    }
}

static void a_host_name_finds_its_profile(void **state)
{
    static const char *const hosts[][2] = {
        {"x3004c0s13b0n0", "polaris"},
        {"sophia-gpu-07", "sophia"},
        {"sophia-login-01.lab.alcf.anl.gov", "sophia"},
        {"thetagpu07", "thetagpu"},
        {"nid001234", "perlmutter"},
        {"my-laptop", "localhost"}};

    (void)state;
    setenv("NERSC_HOST", "perlmutter", 1);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct mds_machine *m = NULL;
        struct mds_diag diag = {0};

        assert_int_equal(mds_machine_find(NULL, hosts[i][0], &diag, &m), MDS_OK);
        assert_string_equal(m->name, hosts[i][1]);
        mds_machine_destroy(m);
        mds_diag_fini(&diag);
    }
}

static void names_that_others_have_too_are_not_enough(void **state)
{
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};

    (void)state;
    unsetenv("NERSC_HOST");
    assert_int_equal(mds_machine_find(NULL, "nid001234", &diag, &m), MDS_OK);
    assert_string_equal(m->name, "localhost");
    mds_machine_destroy(m);
    setenv("NERSC_HOST", "perlmutter1", 1);
    assert_int_equal(mds_machine_find(NULL, "login01", &diag, &m), MDS_OK);
    assert_string_equal(m->name, "localhost");
    mds_machine_destroy(m);
    setenv("NERSC_HOST", "perlmutter", 1);
    assert_int_equal(mds_machine_find(NULL, "login01", &diag, &m), MDS_OK);
    assert_string_equal(m->name, "perlmutter");
    mds_machine_destroy(m);
    mds_diag_fini(&diag);
}

static void an_unknown_machine_gets_the_nearest_name(void **state)
{
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};

    (void)state;
    assert_fails(mds_machine_find("polari", "", &diag, &m), MDS_EUSER,
                 "did you mean polaris?");
    mds_diag_fini(&diag);
}

static void attention_is_as_fast_as_measured(void **state)
{
    static const char rows[] =
        "attention:\n"
        "  b: {head: 64, seq: 4000, forward: 200e12, backward: 100e12}\n"
        "  a: {head: 64, seq: 1000, forward: 100e12, backward: 50e12}\n"
        "  c: {head: 128, seq: 1000, forward: 300e12, backward: 30e12}\n"
        "  source: s\n  date: 2026-01-02\n";
    struct mds_machine *m = NULL;

    (void)state;
    assert_int_equal(load_toy(rows, &m), MDS_OK);
    assert_float_equal(mds_machine_attention_flops(m, 64, 1000, 0), 100e12, 1);
    assert_float_equal(mds_machine_attention_flops(m, 64, 2000, 0), 150e12, 1e6);
    assert_float_equal(mds_machine_attention_flops(m, 72, 4000, 1), 100e12, 1);
    assert_float_equal(mds_machine_attention_flops(m, 64, 1e6, 0), 200e12, 1);
    assert_float_equal(mds_machine_attention_flops(m, 128, 500, 0), 200e12, 1e6);
    mds_machine_destroy(m);
    m = NULL;
    assert_int_equal(load_toy("", &m), MDS_OK);
    assert_float_equal(mds_machine_attention_flops(m, 64, 1000, 1),
                       m->rates.attention_flops, 1);
    mds_machine_destroy(m);
    assert_fails(
        load_toy("attention: {a: {head: 64}, source: s, date: 2026-01-02}\n", &m),
        MDS_EUSER, "m.yaml:16: attention: a: must be");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_is_read),
        cmocka_unit_test(a_queue_gives_more_nodes_more_time),
        cmocka_unit_test(faults_name_lines_and_the_nearest_name),
        cmocka_unit_test(all_faults_come_at_once),
        cmocka_unit_test(our_profiles_are_well),
        cmocka_unit_test(a_host_name_finds_its_profile),
        cmocka_unit_test(names_that_others_have_too_are_not_enough),
        cmocka_unit_test(an_unknown_machine_gets_the_nearest_name),
        cmocka_unit_test(attention_is_as_fast_as_measured),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
