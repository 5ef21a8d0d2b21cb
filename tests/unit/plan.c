/* Machine profiles, and plans made with them. */
#include "tests/unit/scratch.h"

#include "engine/engine.h"
#include "plan/plan.h"

/* A profile that is well, but for what a test changes. */
static const char whole[] =
    "machine: {name: toy, about: a toy, hosts: [toy*, t-?], source: s, date: "
    "2026-01-02}\n"
    "node: {count: 4, gpus: 2, cores: 8, threads: 16, memory: 64GB, source: s,\n"
    "       date: 2026-01-02}\n"
    "gpu: {kind: T-1GB, memory: 1400MiB, source: s, date: 2026-01-02}\n"
    "rates: {matmul_flops: 1e12, matmul_fp32_flops: 1e11, attention_flops: 5e11,\n"
    "        memory_bytes_s: 1e11, source: s, date: 2026-01-02}\n"
    "links: {gpu_bytes_s: 1e10, net_bytes_s: 1e10, host_bytes_s: 1e10,\n"
    "        host_memory_bytes_s: 1e10, source: s, date: 2026-01-02}\n"
    "overhead: {bytes: 100MiB, channels: 1, peer_channels: 1, source: s,\n"
    "           date: 2026-01-02}\n"
    "launcher: {kind: pals, command: mpiexec, flags: [-v, --envall], source: s,\n"
    "           date: 2026-01-02}\n"
    "batch: {scheduler: pbs, directives: [-l a=b, -l c], source: s, date: 2026-01-02}\n"
    "queues: {debug: {max_nodes: 2, walltime: 1h}, source: s, date: 2026-01-02}\n"
    "environment: {A: 1, source: s, date: 2026-01-02}\n";

/* The profile with `more` at its end, loaded. */
static enum mds_rc load(const char *more, struct mds_machine **out)
{
    char text[4096];
    struct mds_diag diag = {0};
    enum mds_rc rc;

    snprintf(text, sizeof text, "%s%s", whole, more);
    write_file("m.yaml", text, strlen(text));
    rc = mds_machine_load("m.yaml", &diag, out);
    mds_diag_fini(&diag);
    return rc;
}

static void a_profile_is_read(void **state)
{
    struct mds_machine *m = NULL;

    (void)state;
    assert_int_equal(load("", &m), MDS_OK);
    assert_string_equal(m->name, "toy");
    assert_string_equal(m->hosts, "toy* t-?");
    assert_int_equal(m->node.gpus, 2);
    assert_int_equal(mds_machine_ranks(m), 2);
    assert_int_equal(m->gpu.memory, 1400 << 20);
    assert_int_equal(m->launcher.kind, MDS_LAUNCHER_PALS);
    assert_string_equal(m->launcher.flags, "-v --envall");
    assert_string_equal(m->batch.directives, "-l a=b\n-l c");
    assert_int_equal(m->queue_count, 1);
    assert_int_equal(mds_machine_queue(m, "debug")->max_nodes, 2);
    assert_null(mds_machine_queue(m, "prod"));
    assert_string_equal(m->environment[0].name, "A");
    mds_machine_destroy(m);
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
        assert_fails(load(cases[i].more, &m), MDS_EUSER, cases[i].says);
}

static void all_faults_come_at_once(void **state)
{
    static const char text[] =
        "machine: {name: toy, abot: x, source: s, date: 2026-13-02}\n"
        "node: {count: 4, gpus: 2, cores: many, threads: 1}\n"
        "queues: {debug: {max_node: 2}, source: s, date: 2026-01-02}\n"
        "environment: {A-B: 1, source: s, date: 2026-01-02}\n"
        "batch: {directives: ['-l n={nodes}', '-l x={node}'], source: s, date: "
        "2026-01-02}\n";
    static const char *const says[] = {
        "m.yaml:1: date '2026-13-02': must be YYYY-MM-DD",
        "m.yaml:1: unknown fact machine.abot; did you mean machine.about?",
        "m.yaml:2: node.count has no source and date",
        "m.yaml:2: node.cores 'many': must be",
        "m.yaml:3: queue debug: unknown key max_node; did you mean max_nodes?",
        "m.yaml:3: queue debug: must give max_nodes",
        "m.yaml:4: environment: A-B is no variable",
        "m.yaml:5: batch.directives: nothing fills {node}; known are {nodes}{gpus}",
        "m.yaml: no gpu.kind",
        "m.yaml: no rates.matmul_flops",
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
    mds_diag_fini(&diag);
}

static void our_profiles_are_well(void **state)
{
    static const char *const names[] = {"polaris", "thetagpu", "dgx2",     "perlmutter",
                                        "h200",    "h100",     "localhost"};

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
    static const char *const hosts[][2] = {{"x3004c0s13b0n0", "polaris"},
                                           {"thetagpu07", "thetagpu"},
                                           {"nid001234", "perlmutter"},
                                           {"my-laptop", "localhost"}};

    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct mds_machine *m = NULL;
        struct mds_diag diag = {0};

        assert_int_equal(mds_machine_find(NULL, hosts[i][0], &diag, &m), MDS_OK);
        assert_string_equal(m->name, hosts[i][1]);
        mds_machine_destroy(m);
        mds_diag_fini(&diag);
    }
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

/* ---- plans ---- */

/* A small GPT's configuration with those options (one blank between them), read. */
static struct mds_config_run *read_run(const char *options)
{
    static char text[512];
    char *argv[32] = {text};
    struct mds_config_run *run = NULL;
    struct mds_diag diag = {0};
    int argc = 0;

    snprintf(text, sizeof text,
             "mds_pretrain --num-layers 4 --hidden-size 256 --num-attention-heads 8 "
             "--seq-length 2048 %s",
             options);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    if (mds_config_read(argc, argv, &diag, &run))
        fail_msg("%s", mds_fail_text());
    mds_diag_fini(&diag);
    return run;
}

/* The toy machine, a run for it, and the last plan that was searched. */
struct toy {
    struct mds_machine *m;
    struct mds_config_run *run;
    struct mds_plan p;
};

static struct toy open_toy(const char *options)
{
    struct toy t = {.run = read_run(options)};

    assert_int_equal(load("", &t.m), MDS_OK);
    return t;
}

static void close_toy(struct toy *t)
{
    mds_plan_fini(&t->p);
    mds_machine_destroy(t->m);
    mds_config_run_destroy(t->run);
}

static struct mds_plan_request request(const struct toy *t, int64_t world)
{
    return (struct mds_plan_request){
        .machine = t->m, .run = t->run, .world = world, .per_node = 2, .budget_s = 60};
}

static const struct mds_plan *search(struct toy *t, int64_t world)
{
    const struct mds_plan_request r = request(t, world);
    struct mds_diag diag = {0};

    mds_plan_fini(&t->p);
    assert_int_equal(mds_plan_search(&r, &diag, &t->p), MDS_OK);
    mds_diag_fini(&diag);
    return &t->p;
}

static void a_plan_ranks_what_fits(void **state)
{
    struct toy t = open_toy("");
    const struct mds_plan *p = search(&t, 4);

    (void)state;
    assert_true(p->fit_count > 10);
    assert_int_equal(p->untried, 0);
    for (size_t i = 0; i < p->fit_count; i++) {
        const struct mds_estimate *e = &p->fits[i].estimate;

        assert_true(e->fits && e->device_bytes <= t.m->gpu.memory);
        assert_true(i == 0 || 0.94 * e->tokens_s <= p->fits[i - 1].estimate.tokens_s);
    }
    close_toy(&t);
}

static int on_host(const struct mds_plan_entry *e)
{
    return e->layout.offload_optimizer != MDS_PLACE_DEVICE;
}

/* Of layouts as fast as each other the one that keeps less on the host goes first. */
static void the_host_has_to_gain_something(void **state)
{
    struct toy t =
        open_toy("--tensor-model-parallel-size 2 --recompute-granularity full");
    const struct mds_plan *p = search(&t, 4);
    int met = 0;

    (void)state;
    for (size_t i = 0; i < p->fit_count; i++)
        for (size_t k = i + 1; k < p->fit_count; k++) {
            const struct mds_plan_entry *x = &p->fits[i], *y = &p->fits[k];

            if (on_host(x) == on_host(y) ||
                x->estimate.tokens_s > 1.02 * y->estimate.tokens_s)
                continue;
            met += on_host(y);
            assert_true(on_host(y) ||
                        x->estimate.tokens_s > 1.01 * y->estimate.tokens_s);
        }
    assert_true(met > 0);
    close_toy(&t);
}

/* The more room a GPU has, the more blocks keep attention's result, up to all. */
static void what_room_there_is_is_used(void **state)
{
    struct toy t = open_toy("--seq-length 65536 --recompute-granularity full "
                            "--cpu-checkpointing --sequence-tile 256 --loss-tile 256");
    int64_t kept = 0, some = 0;

    (void)state;
    for (t.m->gpu.memory = 1 << 28; kept < 4; t.m->gpu.memory += 1 << 25) {
        const struct mds_plan *p = search(&t, 1);
        int64_t n = p->fit_count ? p->fits[0].layout.keep_attention : 0;

        assert_true(n >= kept && t.m->gpu.memory < INT64_C(1) << 32);
        some += n > kept && n < 4;
        kept = n;
    }
    assert_true(some > 0);
    close_toy(&t);
}

static void what_is_fixed_stays(void **state)
{
    struct toy t = open_toy("--tensor-model-parallel-size 2 --zero-stage 1 "
                            "--recompute-granularity full");
    const struct mds_plan *p = search(&t, 4);
    struct mds_str text = {0};

    (void)state;
    assert_true(p->fit_count > 0);
    for (size_t i = 0; i < p->fit_count; i++) {
        assert_int_equal(p->fits[i].layout.tensor, 2);
        assert_int_equal(p->fits[i].layout.zero, 1);
        assert_int_equal(p->fits[i].layout.recompute, MDS_RECOMPUTE_FULL);
    }
    mds_layout_options(&p->fits[0].layout, p->fixed, &text);
    assert_non_null(strstr(text.s, "--pipeline-model-parallel-size"));
    assert_null(strstr(text.s, "--tensor-model-parallel-size"));
    mds_str_fini(&text);
    close_toy(&t);
}

/* The words that ask for a layout, and no word for what there is without. */
static void a_layout_is_asked_for(void **state)
{
    struct mds_layout l = {.tensor = 2,
                           .recompute = MDS_RECOMPUTE_SELECTIVE,
                           .recompute_modules =
                               MDS_MODULE_LAYERNORM | MDS_MODULE_MLP_ACT,
                           .recompute_layers = 1,
                           .loss_tile = MDS_DEFAULT_LOSS_TILE};
    struct mds_str text = {0};

    (void)state;
    mds_layout_options(&l, 0, &text);
    assert_string_equal(text.s,
                        "--tensor-model-parallel-size 2 --recompute-granularity "
                        "selective --recompute-modules layernorm,mlp_act");
    mds_str_fini(&text);
    l = (struct mds_layout){.tensor = 2, .recompute_layers = 3};
    mds_layout_options(&l, 0, &text);
    assert_string_equal(text.s, "--tensor-model-parallel-size 2 --loss-tile 0 "
                                "--checkpoint-num-layers 3");
    mds_str_fini(&text);
}

/* Where all is fixed there is one layout, and it is rehearsed about once. */
static void what_is_all_fixed_is_one_row(void **state)
{
    struct toy t = open_toy(
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 "
        "--ds-sequence-parallel-size 1 --context-parallel-size 1 --zero-stage 1 "
        "--offload-device none --sequence-parallel --recompute-granularity full "
        "--cpu-checkpointing=0 --mlp-tile 0 --loss-tile 0");
    const struct mds_plan *p = search(&t, 4);

    (void)state;
    assert_int_equal(p->fit_count, 1);
    assert_true(p->rehearsed <= 8);
    close_toy(&t);
}

/* Time is asked for before each dry run, not once a grid: here there is but one. */
static void a_search_ends_in_time(void **state)
{
    struct toy t = open_toy("--tensor-model-parallel-size 2 "
                            "--pipeline-model-parallel-size 1 "
                            "--ds-sequence-parallel-size 1 --context-parallel-size 1");
    struct mds_plan_request r = request(&t, 4);
    const struct mds_plan *p = search(&t, 4);
    int64_t rehearsed = p->rehearsed;
    struct mds_diag diag = {0};

    (void)state;
    assert_int_equal(p->untried, 0);
    r.budget_s = p->took_s / 20;
    mds_plan_fini(&t.p);
    assert_int_equal(mds_plan_search(&r, &diag, &t.p), MDS_OK);
    assert_true(t.p.rehearsed < rehearsed / 2);
    assert_int_equal(t.p.untried, 1);
    r.budget_s = 0;
    mds_plan_fini(&t.p);
    assert_int_equal(mds_plan_search(&r, &diag, &t.p), MDS_OK);
    assert_fails(mds_plan_refuse(&r, &t.p), MDS_EUSER, "1 grid was not tried");
    close_toy(&t);
}

/* SP_TYPE fixes the whole grid; what it does not say is searched. */
static void a_kind_of_sequence_parallelism_stays(void **state)
{
    struct toy megatron = open_toy("--sp-type megatron"), ds = open_toy("--sp-type ds");
    const struct mds_plan *p = search(&megatron, 4);

    (void)state;
    assert_true(p->fit_count > 1);
    for (size_t i = 0; i < p->fit_count; i++)
        assert_int_equal(p->fits[i].layout.tensor, 4);
    p = search(&ds, 4);
    assert_true(p->fit_count > 0);
    for (size_t i = 0; i < p->fit_count; i++) {
        assert_int_equal(p->fits[i].layout.ulysses, 4);
        assert_int_equal(p->fits[i].layout.zero, 3);
    }
    close_toy(&megatron);
    close_toy(&ds);
}

/* The sentence, and not that memory is short. */
static void sizes_that_cannot_be_are_refused(void **state)
{
    struct toy t = open_toy("--ds-sequence-parallel-size 3");
    const struct mds_plan_request r = request(&t, 4);

    (void)state;
    assert_fails(mds_plan_refuse(&r, search(&t, 4)), MDS_EUSER, "sequence 3");
    close_toy(&t);
}

static void what_would_fit_is_said(void **state)
{
    struct toy t =
        open_toy("--seq-length 32000 --recompute-granularity none --zero-stage 1");
    const struct mds_plan_request r = request(&t, 2);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    (void)state;
    assert_int_equal(search(&t, 2)->fit_count, 0);
    mds_plan_advise(&r, &t.p, f);
    fclose(f);
    assert_non_null(strstr(text, "without --recompute-granularity as you set it: "));
    assert_null(strstr(text, "without --zero-stage"));
    assert_non_null(strstr(text, "tokens would, here"));
    free(text);
    close_toy(&t);
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
    assert_int_equal(load(rows, &m), MDS_OK);
    assert_float_equal(mds_machine_attention_flops(m, 64, 1000, 0), 100e12, 1);
    assert_float_equal(mds_machine_attention_flops(m, 64, 2000, 0), 150e12, 1e6);
    assert_float_equal(mds_machine_attention_flops(m, 72, 4000, 1), 100e12, 1);
    assert_float_equal(mds_machine_attention_flops(m, 64, 1e6, 0), 200e12, 1);
    assert_float_equal(mds_machine_attention_flops(m, 128, 500, 0), 200e12, 1e6);
    mds_machine_destroy(m);
    m = NULL;
    assert_int_equal(load("", &m), MDS_OK);
    assert_float_equal(mds_machine_attention_flops(m, 64, 1000, 1),
                       m->rates.attention_flops, 1);
    mds_machine_destroy(m);
    assert_fails(load("attention: {a: {head: 64}, source: s, date: 2026-01-02}\n", &m),
                 MDS_EUSER, "m.yaml:16: attention: a: must be");
}

/* The plan's memory is the engine's own. */
static void memory_is_what_the_engine_measures(void **state)
{
    const struct mds_layout l = {
        .tensor = 2, .pipeline = 1, .ulysses = 2, .ring = 1, .zero = 2, .micro = 1};
    struct toy t = open_toy("");
    struct mds_engine_need need;
    struct mds_estimate e;
    struct mds_config c;

    (void)state;
    assert_int_equal(mds_layout_apply(t.run, &l, 4, &c), MDS_OK);
    c.train.eval_iters = 0;
    assert_int_equal(mds_predict(&c, 4, 2, t.m, &e), MDS_OK);
    assert_int_equal(mds_engine_measure(&c, 4, 0, 4, &need), MDS_OK);
    assert_int_equal(e.memory.total_peak, need.memory.total_peak);
    assert_int_equal(e.memory.total_peak, need.state_bytes + need.step_bytes);
    assert_int_equal(e.beside.libraries, t.m->overhead.bytes);
    assert_int_equal(e.device_bytes, e.memory.total_peak + e.beside.libraries +
                                         e.beside.messages + e.beside.attention);
    assert_true(e.step_s > 0 && e.tensor_s > 0 && e.sequence_s > 0);
    assert_true(e.idle_s == 0);
    close_toy(&t);
}

static void what_does_not_fit_says_why(void **state)
{
    struct toy t = open_toy("--seq-length 2000000");
    const struct mds_plan *p = search(&t, 2);

    (void)state;
    assert_int_equal(p->fit_count, 0);
    assert_true(p->out_count > 2);
    assert_true(p->out[0].divides);
    assert_true(p->out[0].entry.estimate.device_bytes > t.m->gpu.memory);
    close_toy(&t);
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

/* mds_plan_fits tries all grids at one length: the longest fits, and a little more does
 * not, whatever is fixed; in few dry runs. */
static void the_longest_is_that_of_all_layouts(void **state)
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
        assert_true(l.rehearsed < 400);
        close_toy(&t);
    }
}

/* A model that no memory here holds. */
static void there_may_be_no_longest(void **state)
{
    struct toy t = open_toy("--hidden-size 65536");
    const struct mds_plan_request r = request(&t, 2);
    struct mds_plan_longest l;

    (void)state;
    assert_int_equal(mds_plan_max_seq(&r, &l), MDS_OK);
    assert_int_equal(l.seq, 0);
    close_toy(&t);
}

static void a_row_of_the_table_goes_first(void **state)
{
    static const char table[] =
        "TOY: {layers: 4, hidden: 256, heads: 8}\n"
        "layouts:\n"
        "  - {model: TOY, gpu: T, gpus: 4, tensor: 1, max_seq: 1k}\n"
        "  - {model: toy, gpu: T, gpus: 4, ulysses: 2, zero: 2, micro: 1, source: "
        "here}\n";
    const struct mds_plan *p;
    struct toy t;

    (void)state;
    write_file("table.yaml", table, strlen(table));
    t = open_toy("--model-size-key TOY --model-table table.yaml");
    p = search(&t, 4);
    assert_string_equal(p->origin, "table.yaml:4, here");
    assert_int_equal(p->fits[0].layout.ulysses, 2);
    assert_int_equal(p->fits[0].layout.zero, 2);
    for (size_t i = 1; i < p->fit_count; i++)
        assert_false(p->fits[i].layout.ulysses == 2 && p->fits[i].layout.zero == 2 &&
                     p->fits[i].estimate.device_bytes ==
                         p->fits[0].estimate.device_bytes);
    close_toy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_ranks_what_fits),
        cmocka_unit_test(the_host_has_to_gain_something),
        cmocka_unit_test(what_room_there_is_is_used),
        cmocka_unit_test(what_is_fixed_stays),
        cmocka_unit_test(a_layout_is_asked_for),
        cmocka_unit_test(what_is_all_fixed_is_one_row),
        cmocka_unit_test(a_search_ends_in_time),
        cmocka_unit_test(a_kind_of_sequence_parallelism_stays),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(what_would_fit_is_said),
        cmocka_unit_test(attention_is_as_fast_as_measured),
        cmocka_unit_test(memory_is_what_the_engine_measures),
        cmocka_unit_test(what_does_not_fit_says_why),
        cmocka_unit_test(the_longest_sequence_fits_and_twice_it_does_not),
        cmocka_unit_test(the_longest_is_that_of_all_layouts),
        cmocka_unit_test(there_may_be_no_longest),
        cmocka_unit_test(a_row_of_the_table_goes_first),
        cmocka_unit_test(a_profile_is_read),
        cmocka_unit_test(faults_name_lines_and_the_nearest_name),
        cmocka_unit_test(all_faults_come_at_once),
        cmocka_unit_test(our_profiles_are_well),
        cmocka_unit_test(a_host_name_finds_its_profile),
        cmocka_unit_test(an_unknown_machine_gets_the_nearest_name),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
