/* config: mds_pretrain's sources, the model table, and what follows from the values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "config/options.h"

enum { MAX_ARGS = 64 };

/* One reading of mds_pretrain's configuration. */
struct reading {
    enum mds_rc rc;
    struct mds_config_run *run; /* NULL after a fault */
    struct mds_diag diag;
};

static void close_reading(struct reading *r)
{
    mds_config_run_destroy(r->run);
    mds_diag_fini(&r->diag);
}

/* args: words with one blank between. */
static struct reading read_config(const char *args)
{
    char *argv[MAX_ARGS] = {"mds_pretrain"}, *copy = strdup(args), *save = NULL;
    struct reading r = {0};
    int argc = 1;

    for (char *w = strtok_r(copy, " ", &save); w && argc < MAX_ARGS;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    r.rc = mds_config_read(argc, argv, &r.diag, &r.run);
    free(copy);
    return r;
}

static const char shape[] = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                            "--train-iters 10 --data-path d ";

/* Of a complete small run with more args, resolved for some ranks. */
static struct reading resolve(const char *args, int64_t world)
{
    char all[4096];
    struct reading r;

    snprintf(all, sizeof all, "%s%s", shape, args);
    r = read_config(all);
    if (r.rc == MDS_OK)
        r.rc = mds_config_resolve(r.run, world, &r.diag);
    return r;
}

static int is_said(const struct mds_diag *d, const char *what)
{
    for (size_t i = 0; i < d->count; i++)
        if (strstr(d->entries[i].text, what))
            return 1;
    return 0;
}

static void assert_said(const struct mds_diag *d, const char *what)
{
    if (is_said(d, what))
        return;
    print_error("not said: %s\n", what);
    for (size_t i = 0; i < d->count; i++)
        print_error("said: %s\n", d->entries[i].text);
    fail();
}

static void assert_fine(const struct reading *r)
{
    for (size_t i = 0; i < r->diag.count; i++)
        print_error("said: %s\n", r->diag.entries[i].text);
    assert_int_equal(r->rc, MDS_OK);
    assert_int_equal(r->diag.count, 0);
}

static void expect_fault(const char *args, const char *what)
{
    struct reading r = read_config(args);

    assert_int_equal(r.rc, MDS_EUSER);
    assert_null(r.run);
    assert_said(&r.diag, what);
    close_reading(&r);
}

static void expect_misfit(const char *args, int64_t world, const char *what)
{
    struct reading r = resolve(args, world);

    assert_int_equal(r.rc, MDS_EUSER);
    assert_said(&r.diag, what);
    close_reading(&r);
}

static void assert_origin(const struct reading *r, const char *key, const char *origin)
{
    assert_string_equal(mds_settings_of(&r->run->settings, key)->origin, origin);
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

/* An environment that is empty, but for what cmocka reads. */
static int setup(void **state)
{
    const char *format = getenv("CMOCKA_MESSAGE_OUTPUT");
    char kept[32] = "";

    (void)state;
    if (format)
        snprintf(kept, sizeof kept, "%s", format);
    if (clearenv() != 0)
        return -1;
    return format ? setenv("CMOCKA_MESSAGE_OUTPUT", kept, 1) : 0;
}

/* ---- mds_pretrain's sources ---- */

static void test_precedence(void **state)
{
    struct reading r;
    char table[256];

    (void)state;
    write_file("m.yaml", "model: {layers: 3, hidden: 8}\nbatch.micro: 2\n");
    write_file("run.yaml", "model:\n  layers: 9\n");
    r = read_config("--machine ./m.yaml");
    assert_fine(&r);
    assert_int_equal(r.run->config.model.layers, 3);
    assert_int_equal(r.run->config.batch.micro, 2);
    assert_origin(&r, "batch.micro", "./m.yaml:2");
    close_reading(&r);

    r = read_config("--machine ./m.yaml --model-size-key GPT13B");
    assert_fine(&r);
    assert_int_equal(r.run->config.model.layers, 40);
    assert_int_equal(r.run->config.model.hidden, 5120);
    snprintf(table, sizeof table, "%s",
             mds_settings_of(&r.run->settings, "model.layers")->origin);
    assert_non_null(strstr(table, "models.yaml:"));
    assert_non_null(strstr(table, " (GPT13B)"));
    close_reading(&r);

    r = read_config("--machine ./m.yaml --model-size-key GPT13B --config run.yaml");
    assert_fine(&r);
    assert_int_equal(r.run->config.model.layers, 9);
    assert_origin(&r, "model.layers", "run.yaml:2");
    close_reading(&r);

    setenv("NLAYERS", "11", 1);
    setenv("MODEL_SIZE_KEY", "GPT13B", 1);
    r = read_config("--machine ./m.yaml --config run.yaml");
    assert_fine(&r);
    assert_int_equal(r.run->config.model.layers, 11);
    assert_origin(&r, "model.layers", "environment NLAYERS");
    close_reading(&r);

    r = read_config("--machine ./m.yaml --config run.yaml --num-layers 13");
    assert_fine(&r);
    assert_int_equal(r.run->config.model.layers, 13);
    assert_int_equal(r.run->config.model.hidden, 5120);
    assert_origin(&r, "model.layers", "command line");
    close_reading(&r);
}

static void test_unknown_names(void **state)
{
    (void)state;
    expect_fault("--seq_lenght 4", "command line: unknown option --seq_lenght; did you "
                                   "mean --seq-length?");
    expect_fault("--quantum-flux", "unknown option --quantum-flux; see --help");
    expect_fault("stray", "'stray' belongs to no option");
    expect_fault("--normalization BatchNorm", "did you mean");
    write_file("bad.yaml", "model:\n  layer: 2\n  num_layers: 3\nlr: [1]\noptim: 3\n"
                           "data: {paths: [a, {b: 1}]}\ntrain:\n  iters:\n");
    expect_fault("--config bad.yaml",
                 "bad.yaml:2: unknown key model.layer; did you mean model.layers?");
    expect_fault("--config bad.yaml",
                 "bad.yaml:3: unknown key model.num_layers; did you "
                 "mean model.layers?");
    expect_fault("--config bad.yaml", "bad.yaml:4: unknown key lr");
    expect_fault("--config bad.yaml", "bad.yaml:5: unknown key optim");
    expect_fault("--config bad.yaml", "bad.yaml:6: data.paths: must be words");
    expect_fault("--config bad.yaml", "bad.yaml:8: train.iters has no value");
    expect_fault("--config gone.yaml", "gone.yaml: No such file");
    setenv("MDS_SEEED", "1", 1);
    expect_fault("", "environment: unknown variable MDS_SEEED; did you mean MDS_SEED?");
    setenv("MDS_SEQ_LENGHT", "1", 1); /* names without the prefix are candidates, too */
    expect_fault("", "unknown variable MDS_SEQ_LENGHT; did you mean SEQ_LEN?");
    setenv("MDS_QUANTUM_FLUX", "1", 1);
    expect_fault("", "unknown variable MDS_QUANTUM_FLUX; unset it");
}

static void test_slips_in_the_environment(void **state)
{
    static const char *const slips[][2] = {
        {"SEQLEN", "SEQ_LEN"},
        {"MICROBATCH", "MICRO_BATCH"},
        {"MODEL_SIZE", "MODEL_SIZE_KEY"},
        {"MICRO_BATCH_SIZE", "MICRO_BATCH"},
        {"HIDDEN_SIZE", "HIDDEN"},
        {"ZEROSTAGE", "ZERO_STAGE"},
    };
    static const char *const others[] = {"PATH",
                                         "HOME",
                                         "HOST",
                                         "HOSTNAME",
                                         "LD_LIBRARY_PATH",
                                         "OMP_NUM_THREADS",
                                         "PWD",
                                         "PBS_NODEFILE",
                                         "SLURM_NTASKS",
                                         "PROJECT_DIR",
                                         "TERM",
                                         "SHLVL",
                                         "MODULEPATH"};

    (void)state;
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
        struct reading r;
        char says[128];

        setup(state);
        setenv(slips[i][0], "1", 1);
        r = read_config("");
        snprintf(says, sizeof says, "environment: %s is not read; did you mean %s?",
                 slips[i][0], slips[i][1]);
        assert_int_equal(r.rc, MDS_OK);
        assert_said(&r.diag, says);
        close_reading(&r);
    }
    setup(state);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        setenv(others[i], "x", 1);
    {
        struct reading r = read_config("");

        assert_fine(&r);
        close_reading(&r);
    }
}

/* Every flag of Megatron-DeepSpeed that users know, with a value this version takes. */
static void test_megatron_flags(void **state)
{
    static const char *const flags[] = {"--num-layers 2",
                                        "--hidden-size 64",
                                        "--ffn-hidden-size 128",
                                        "--num-attention-heads 4",
                                        "--num-key-value-heads 2",
                                        "--seq-length 128",
                                        "--max-position-embeddings 128",
                                        "--micro-batch-size 1",
                                        "--global-batch-size 2",
                                        "--train-iters 5",
                                        "--train-tokens 1000",
                                        "--lr 1e-4",
                                        "--min-lr 1e-5",
                                        "--lr-decay-style cosine",
                                        "--lr-decay-iters 5",
                                        "--lr-warmup-fraction 0.1",
                                        "--lr-warmup-iters 1",
                                        "--weight-decay 0.1",
                                        "--adam-beta1 0.9",
                                        "--adam-beta2 0.95",
                                        "--adam-eps 1e-8",
                                        "--clip-grad 1.0",
                                        "--seed 42",
                                        "--init-method-std 0.006",
                                        "--initial-loss-scale 4294967296",
                                        "--loss-scale-window 1000",
                                        "--hysteresis 2",
                                        "--min-loss-scale 1.0",
                                        "--tensor-model-parallel-size 1",
                                        "--pipeline-model-parallel-size 1",
                                        "--num-layers-per-virtual-pipeline-stage 0",
                                        "--ds-sequence-parallel-size 1",
                                        "--context-parallel-size 1",
                                        "--use-flash-attn-v1",
                                        "--use-flash-attn-v2",
                                        "--use-flash-attn-triton",
                                        "--use-rotary-position-embeddings",
                                        "--rotary-percent 0.5",
                                        "--normalization rmsnorm",
                                        "--swiglu",
                                        "--disable-bias-linear",
                                        "--untie-embeddings-and-output-weights",
                                        "--zero-stage 0",
                                        "--deepspeed-activation-checkpointing",
                                        "--checkpoint-activations",
                                        "--checkpoint-num-layers 1",
                                        "--recompute-granularity full",
                                        "--recompute-activations",
                                        "--data-path 0.5 a 0.5 b",
                                        "--split 969,30,1",
                                        "--data-impl mmap",
                                        "--data-impl infer",
                                        "--eval-interval 10",
                                        "--eval-iters 1",
                                        "--log-interval 1",
                                        "--tensorboard-dir t",
                                        "--exit-duration-in-mins 5",
                                        "--exit-signal-handler"};
    struct reading r;

    (void)state;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        r = read_config(flags[i]);
        assert_fine(&r);
        close_reading(&r);
    }
    r = read_config("--checkpoint-activations --disable-bias-linear --bf16 "
                    "--untie-embeddings-and-output-weights --dtype fp32");
    assert_int_equal(r.rc, MDS_EUSER);
    assert_int_equal(r.diag.faults, 2);
    assert_said(&r.diag, "--dtype 'fp32' disagrees with --bf16");
    close_reading(&r);
    r = read_config(
        "--checkpoint-activations --disable-bias-linear --exit-duration-in-mins "
        "2 --untie-embeddings-and-output-weights --no-overlap-grad-reduce "
        "--use-rotary-position-embeddings --distributed-timeout-minutes 30");
    assert_fine(&r);
    assert_true(r.run->config.parallel.timeout_s == 1800);
    assert_int_equal(r.run->config.train.recompute, MDS_RECOMPUTE_FULL);
    assert_int_equal(r.run->config.model.linear_bias, 0);
    assert_int_equal(r.run->config.model.tied_head, 0);
    assert_int_equal(r.run->config.model.position, MDS_POSITION_ROPE);
    assert_int_equal(r.run->config.train.overlap_grad_reduce, 0);
    assert_true(r.run->config.train.exit_duration_s == 120);
    close_reading(&r);
}

static void test_refused_flags(void **state)
{
    static const char *const flags[][2] = {
        {"--fp16", "--fp16: not in this version (this build computes in fp32)"},
        {"--bf16", "--bf16: not"},
        {"--tensor-model-parallel-size 2",
         "--tensor-model-parallel-size 2: not in this "},
        {"--pipeline-model-parallel-size 2", "not in this version"},
        {"--num-layers-per-virtual-pipeline-stage 1", "not in this version"},
        {"--ds-sequence-parallel-size 2", "not in this version"},
        {"--context-parallel-size 2", "not in this version"},
        {"--sequence-parallel", "--sequence-parallel: not in this version"},
        {"--zero-stage 1", "not in this version"},
        {"--zero-stage 4", "must be between 0 and 3"},
        {"--cpu-optimizer", "--cpu-optimizer: not in this version"},
        {"--initial-loss-scale 65536", "not in this version"},
        {"--loss-scale-window 500", "not in this version"},
        {"--hysteresis 3", "not in this version"},
        {"--min-loss-scale 2", "not in this version"},
        {"--checkpoint-num-layers 2", "not in this version"},
        {"--vocab-file v.json", "mds_data makes the file"},
        {"--merge-file m.txt", "mds_data makes the file"},
        {"--data-impl lazy", "must be one of mmap, infer"},
        {"--save s", "--export-weights"},
        {"--load s", "--init-weights"},
        {"--save-interval 100", "not in this version"},
        {"--device cuda", "this build computes on the cpu"},
    };
    struct reading r;

    (void)state;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        expect_fault(flags[i][0], flags[i][1]);
    setenv("DTYPE", "bf16", 1);
    expect_fault("", "environment: DTYPE=bf16: not in this version");
    setup(state);
    r = read_config("--no-use-flash-attn");
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "it stays on");
    close_reading(&r);
}

/* Every variable of the ALCF scripts, alone, with a value this version takes. */
static void test_alcf_variables(void **state)
{
    static const char *const vars[][2] = {{"MODEL_SIZE_KEY", "GPT25B"},
                                          {"SEQ_LEN", "128000"},
                                          {"SEQ", "128000"},
                                          {"MPSIZE", "1"},
                                          {"TP", "1"},
                                          {"PPSIZE", "1"},
                                          {"PP", "1"},
                                          {"SPSIZE", "1"},
                                          {"SP", "1"},
                                          {"SP_TYPE", "megatron"},
                                          {"USE_SEQUENCE_PARALLEL", "0"},
                                          {"ZERO_STAGE", "0"},
                                          {"MICRO_BATCH", "2"},
                                          {"GAS", "4"},
                                          {"GRAD_ACC_STEPS", "4"},
                                          {"GLOBAL_BATCH", "16"},
                                          {"USE_FLASH_ATTN", "0"},
                                          {"USE_FLASH_ATTN1", "1"},
                                          {"USE_FLASH_ATTN_V1", "0"},
                                          {"USE_FLASH_ATTN2", "1"},
                                          {"USE_FLASH_ATTN_V2", "1"},
                                          {"USE_FLASH_ATTN_TRITON", "0"},
                                          {"USE_ACTIVATION_CHECKPOINTING", "1"},
                                          {"ACT_CKPT_NUM_LAYERS", "1"},
                                          {"OFFLOAD_DEVICE", "none"},
                                          {"DDP_IMPL", "local"},
                                          {"MODEL_TYPE", "gpt"},
                                          {"DATA_PATH", "/d"},
                                          {"HOSTFILE", "h"},
                                          {"NHOSTS", "2"},
                                          {"NGPU_PER_HOST", "4"},
                                          {"NGPUS", "8"},
                                          {"DTYPE", "fp32"},
                                          {"LR", "3e-4"},
                                          {"TRAIN_ITERS", "10"},
                                          {"TRAIN_ITER", "10"},
                                          {"TRAIN_TOKENS", "1e9"},
                                          {"SAVE_INTERVAL", "0"},
                                          {"NLAYERS", "3"},
                                          {"HIDDEN", "96"},
                                          {"HEADS", "6"},
                                          {"NUM_KV_HEAD", "2"},
                                          {"FFN_HIDDEN_SIZE", "200"},
                                          {"QUEUE", "debug"},
                                          {"PROJECT", "p"},
                                          {"DURATION", "1:00"},
                                          {"NUM_NODES", "2"}};
    struct reading r;

    (void)state;
    for (size_t i = 0; i < sizeof vars / sizeof *vars; i++) {
        setup(state);
        setenv(vars[i][0], vars[i][1], 1);
        r = read_config("");
        assert_fine(&r);
        close_reading(&r);
    }
    setup(state);
    for (size_t i = 0; i < sizeof vars / sizeof *vars; i++)
        setenv(vars[i][0], vars[i][1], 1);
    r = read_config("");
    assert_fine(&r);
    assert_int_equal(r.run->config.model.layers, 3);
    assert_int_equal(r.run->config.model.seq_length, 128000);
    assert_int_equal(r.run->config.batch.accumulation, 4);
    assert_int_equal(r.run->config.train.tokens, 1000000000);
    assert_int_equal(r.run->config.train.recompute, MDS_RECOMPUTE_FULL);
    assert_int_equal(r.run->config.parallel.sp_type, MDS_SP_MEGATRON);
    assert_string_equal(r.run->config.data.paths, "/d");
    close_reading(&r);
    setenv("SEQ", "4096", 1);
    expect_fault("", "SEQ '4096' disagrees with SEQ_LEN '128000'");
    setup(state);
    setenv("MACHINE", "polaris-of-nowhere", 1);
    r = read_config("");
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "no such profile");
    close_reading(&r);
    expect_fault("--machine ./gone.yaml", "machine profile ./gone.yaml: No such file");
    setup(state);
    setenv("NVME_PATH", "/raid", 1);
    r = read_config("");
    assert_fine(&r);
    close_reading(&r);
    expect_fault("--offload-device nvme", "--offload-device nvme: not in this version");
}

static void test_deepspeed(void **state)
{
    struct reading r;

    (void)state;
    write_file(
        "ds.json",
        "{\"train_micro_batch_size_per_gpu\": 2,\n"
        " \"gradient_accumulation_steps\": 3, \"train_batch_size\": \"auto\",\n"
        " \"gradient_clipping\": 0.5, \"steps_per_print\": 10,\n"
        " \"wall_clock_breakdown\": false,\n"
        " \"fp16\": {\"enabled\": false, \"loss_scale_window\": 7},\n"
        " \"zero_optimization\": {\"stage\": 0, \"overlap_comm\": true,\n"
        "   \"contiguous_gradients\": true, \"reduce_bucket_size\": 5e8,\n"
        "   \"offload_param\": {\"device\": \"none\", \"pin_memory\": true}}}\n");
    r = read_config("--deepspeed_config ds.json");
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.batch.micro, 2);
    assert_int_equal(r.run->config.batch.accumulation, 3);
    assert_true(r.run->config.optim.clip_grad == 0.5);
    assert_origin(&r, "optim.clip_grad", "ds.json:3");
    assert_said(&r.diag, "ds.json: DeepSpeed's own, not used here: steps_per_print, "
                         "wall_clock_breakdown, zero_optimization.overlap_comm, ");
    assert_int_equal(r.diag.count, 1);
    close_reading(&r);
    write_file("ds.json", "{\"zero_optimization\": {\"stage\": 3,\n"
                          "\"offload_optimizer\": {\"device\": \"cpu\"}},\n"
                          "\"gradient_cliping\": 1, \"bf16\": {\"enabled\": true}}");
    r = read_config("--deepspeed-config ds.json --zero-stage 0");
    assert_int_equal(r.rc, MDS_EUSER);
    assert_int_equal(r.diag.faults, 3);
    assert_said(&r.diag,
                "ds.json:2: zero_optimization.offload_optimizer.device: cpu: not");
    assert_said(&r.diag, "ds.json:3: unknown key gradient_cliping; did you mean "
                         "gradient_clipping?");
    assert_said(&r.diag, "ds.json:3: bf16.enabled: bf16: not in this version");
    close_reading(&r);
    write_file("ds.json", "{\"zero_optimisation\": {\"stage\": 1}, \"fp16\": 1}");
    expect_fault("--deepspeed_config ds.json", "did you mean zero_optimization?");
    expect_fault("--deepspeed_config ds.json", "ds.json:1: fp16 must be an object");
    write_file("run.yaml", "batch: {micro: 2}\n");
    write_file("ds.json", "{\"train_micro_batch_size_per_gpu\": 4}");
    expect_fault("--config run.yaml --deepspeed_config ds.json",
                 "train_micro_batch_size_per_gpu '4' disagrees with batch.micro '2' "
                 "(run.yaml:1)");
}

/* ---- the model table ---- */

static void test_model_table(void **state)
{
    static const struct {
        const char *key;
        int64_t layers, hidden, heads;
    } shapes[] = {
        {"GPT125M", 12, 768, 16},
        {"GPT1_5B", 48, 1536, 24},
        {"GPT2_7B", 32, 2560, 32},
        {"GPT6_7B", 32, 4096, 32},
        {"GPT13B", 40, 5120, 64},
        {"GPT25B", 64, 6144, 64},
        {"GPT30B", 64, 6144, 64},
        {"GPT33B", 80, 6144, 64},
        {"GPT145B", 80, 12288, 96},
        {"GPT1T", 128, 25600, 160},
        {"GPT1_7B", 24, 2304, 24},
        {"GPT3_6B", 30, 3072, 32},
        {"GPT7_5B", 36, 4096, 32},
        {"GPT18B", 40, 6144, 48},
        {"GPT39B", 48, 8192, 64},
        {"GPT76B", 60, 10240, 80},
        {"GPT310B", 96, 16384, 128},
        {"GPT530B", 105, 20480, 128},
        {"GPT1_3B", 24, 2048, 16},
        {"GPT25B_5760", 64, 5760, 80},
        {"GPT33B_5760", 80, 5760, 80},
        {"GPT145B_8L", 8, 12288, 96},
        {"GPT1T_20L", 20, 25600, 160},
        {"gpt1t_1l", 1, 25600, 160},
        {"25M", 8, 512, 8},
        {"GENSLM_2.5B", 32, 2560, 32},
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char args[64];
        struct reading r;

        snprintf(args, sizeof args, "--model-size-key %s", shapes[i].key);
        r = read_config(args);
        assert_fine(&r);
        assert_int_equal(r.run->config.model.layers, shapes[i].layers);
        assert_int_equal(r.run->config.model.hidden, shapes[i].hidden);
        assert_int_equal(r.run->config.model.heads, shapes[i].heads);
        close_reading(&r);
    }
    expect_fault("--model-size-key GTP13B",
                 "command line: model size 'GTP13B' is not in ");
    expect_fault("--model-size-key GTP13B", "did you mean GPT13B?");
    expect_fault("--model-size-key GPT1T_0L", "'GPT1T_0L' is not in ");
}

/* Every published size is what its name says, within a tenth. */
static void test_named_sizes(void **state)
{
    static const struct {
        const char *key;
        double params;
    } sizes[] = {
        {"GPT1_3B", 1.3e9},     {"GPT2_7B", 2.7e9},     {"GPT6_7B", 6.7e9},
        {"GPT13B", 13e9},       {"GPT30B", 30e9},       {"GPT1_7B", 1.7e9},
        {"GPT3_6B", 3.6e9},     {"GPT7_5B", 7.5e9},     {"GPT18B", 18.4e9},
        {"GPT39B", 39.1e9},     {"GPT76B", 76.1e9},     {"GPT145B", 145.6e9},
        {"GPT310B", 310.1e9},   {"GPT530B", 529.6e9},   {"GPT1T", 1008e9},
        {"GPT25B_5760", 25e9},  {"GPT33B_5760", 33e9},  {"GENSLM_25M", 25e6},
        {"GENSLM_250M", 250e6}, {"GENSLM_2_5B", 2.5e9}, {"GENSLM_25B", 25e9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char args[96];
        struct reading r;
        double params;

        snprintf(args, sizeof args, "--model-size-key %s --show-config", sizes[i].key);
        r = read_config(args);
        assert_fine(&r);
        assert_int_equal(mds_config_resolve(r.run, 1, &r.diag), MDS_OK);
        assert_int_equal(
            mds_config_set_vocab(r.run, strstr(args, "GENSLM") ? 70 : 50257), MDS_OK);
        params = (double)mds_model_params(&r.run->config.model);
        assert_true(params > 0.9 * sizes[i].params && params < 1.1 * sizes[i].params);
        close_reading(&r);
    }
}

/* The counts that Hugging Face's and Meta's own models report. */
static void test_exact_params(void **state)
{
    static const struct mds_model_config gpt2 = {.layers = 12,
                                                 .hidden = 768,
                                                 .heads = 12,
                                                 .kv_heads = 12,
                                                 .ffn_hidden = 3072,
                                                 .head_dim = 64,
                                                 .max_positions = 1024,
                                                 .padded_vocab = 50257,
                                                 .linear_bias = 1,
                                                 .tied_head = 1};
    static const struct mds_model_config llama3 = {.layers = 32,
                                                   .hidden = 4096,
                                                   .heads = 32,
                                                   .kv_heads = 8,
                                                   .ffn_hidden = 14336,
                                                   .head_dim = 128,
                                                   .max_positions = 8192,
                                                   .padded_vocab = 128256,
                                                   .position = MDS_POSITION_ROPE,
                                                   .norm = MDS_NORM_RMSNORM,
                                                   .swiglu = 1};
    struct mds_model_config xl = gpt2, llama2 = llama3;

    (void)state;
    assert_int_equal(mds_model_params(&gpt2), 124439808);
    xl.layers = 48;
    xl.hidden = 1600;
    xl.heads = xl.kv_heads = 25;
    xl.ffn_hidden = 6400;
    assert_int_equal(mds_model_params(&xl), 1557611200);
    assert_int_equal(mds_model_params(&llama3), 8030261248);
    llama2.kv_heads = 32;
    llama2.ffn_hidden = 11008;
    llama2.padded_vocab = 32000;
    assert_int_equal(mds_model_params(&llama2), 6738415616);
    assert_int_equal(mds_vocab_padded(50257, 128, 1), 50304);
    assert_int_equal(mds_vocab_padded(50257, 128, 8), 51200);
    assert_int_equal(mds_vocab_padded(128, 128, 1), 128);
}

/* ---- what follows ---- */

static void test_derived_model(void **state)
{
    struct reading r = resolve("", 1);

    (void)state;
    assert_fine(&r);
    assert_int_equal(r.run->config.model.ffn_hidden, 256);
    assert_origin(&r, "model.ffn_hidden", "derived: 4 x hidden");
    assert_int_equal(r.run->config.model.head_dim, 16);
    assert_int_equal(r.run->config.model.kv_heads, 4);
    assert_int_equal(r.run->config.model.max_positions, 2048);
    assert_int_equal(mds_config_set_vocab(r.run, 70), MDS_OK);
    assert_int_equal(r.run->config.model.padded_vocab, 128);
    close_reading(&r);
    r = resolve("--swiglu --hidden-size 4096 --vocab-size 100", 1);
    assert_fine(&r);
    assert_int_equal(r.run->config.model.ffn_hidden, 10944);
    assert_int_equal(mds_config_set_vocab(r.run, 101), MDS_EUSER);
    assert_int_equal(mds_config_set_vocab(r.run, 99), MDS_OK);
    assert_int_equal(r.run->config.model.vocab, 100);
    close_reading(&r);
    r = read_config("");
    assert_int_equal(mds_config_resolve(r.run, 1, &r.diag), MDS_EUSER);
    assert_said(&r.diag, "the model has no shape");
    assert_said(&r.diag, "no data");
    assert_said(&r.diag, "no length of the run");
    close_reading(&r);
}

static void test_derived_batch(void **state)
{
    static const struct {
        const char *args;
        int64_t world, micro, accumulation, global;
    } fine[] = {
        {"", 4, 1, 1, 4},
        {"--micro-batch-size 3", 2, 3, 1, 6},
        {"--gradient-accumulation-steps 5", 2, 1, 5, 10},
        {"--global-batch-size 8", 2, 1, 4, 8},
        {"--global-batch-size 8 --micro-batch-size 2", 2, 2, 2, 8},
        {"--global-batch-size 8 --gradient-accumulation-steps 2", 2, 2, 2, 8},
        {"--global-batch-size 8 --gradient-accumulation-steps 2 --micro-batch-size 2",
         2, 2, 2, 8},
    };

    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        struct reading r = resolve(fine[i].args, fine[i].world);

        assert_fine(&r);
        assert_int_equal(r.run->config.batch.micro, fine[i].micro);
        assert_int_equal(r.run->config.batch.accumulation, fine[i].accumulation);
        assert_int_equal(r.run->config.batch.global, fine[i].global);
        assert_int_equal(r.run->config.parallel.data, fine[i].world);
        close_reading(&r);
    }
    expect_misfit("--global-batch-size 10 --micro-batch-size 4", 2,
                  "--global-batch-size 10 is no multiple of micro-batch 4 x 2 "
                  "data-parallel ranks = 8; the nearest are 8 and 16");
    expect_misfit("--global-batch-size 2", 4, "is less than 4 data-parallel ranks = 4");
    expect_misfit("--global-batch-size 16 --micro-batch-size 2 "
                  "--gradient-accumulation-steps 2",
                  2,
                  "is not micro-batch 2 x accumulation 2 x 2 data-parallel ranks = 8");
    expect_misfit("--micro-batch-size 1000000 --gradient-accumulation-steps 1000000", 2,
                  "beyond a hundred million");
}

static void test_derived_length(void **state)
{
    static const char tokens[] =
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --data-path d "
        "--seq-length 100 --train-tokens 1001 --lr-warmup-fraction 0.5 "
        "--lr-decay-style WSD --global-batch-size 2";
    struct reading r = read_config(tokens);

    (void)state;
    assert_int_equal(mds_config_resolve(r.run, 2, &r.diag), MDS_OK);
    assert_int_equal(r.run->config.train.iters, 6);
    assert_int_equal(r.run->config.optim.decay_iters, 6);
    assert_int_equal(r.run->config.optim.wsd_decay_iters, 1);
    assert_origin(&r, "train.iters", "derived: tokens / (global x sequence)");
    close_reading(&r);
    expect_misfit("--train-tokens 1e6", 1, "but --train-iters says 10; leave one out");
}

static void test_misfits(void **state)
{
    (void)state;
    expect_misfit("--num-attention-heads 5", 1, "does not divide --hidden-size 64");
    expect_misfit("--num-key-value-heads 3", 1,
                  "does not divide --num-attention-heads 4");
    expect_misfit("--max-position-embeddings 64", 1, "is less than --seq-length 2048");
    expect_misfit("--position-embedding-type rope --rotary-percent 0.45", 1,
                  "it must be even");
    expect_misfit("--position-embedding-type rope --rotary-percent 0", 1, "at least 2");
    expect_misfit("--min-lr 1", 1, "--min-lr 1 is above --lr 0.00015");
    expect_misfit("--adam-beta2 1", 1, "--adam-beta2 must be below 1");
    expect_misfit("--lr-warmup-iters 11", 1, "more than the 10 steps");
    expect_misfit("--lr-decay-style WSD --lr-wsd-decay-iters 11", 1, "does not fit");
    expect_misfit("--split 1,-2", 1, "--split '1,-2': must be proportions");
    expect_misfit("--split 0,0,0", 1, "--split '0,0,0': must be proportions");
    expect_misfit("--split 1,2,3,4", 1, "must be proportions");
    expect_misfit("--sp-type megatron", 2,
                  "--tensor-model-parallel-size 2: not in this");
    expect_misfit("--sp-type ds", 2, "--ds-sequence-parallel-size 2: not in this");
    expect_misfit("--sp-type ds", 2, "--zero-stage 3: not in this version");
}

/* ---- in print ---- */

static char *print_config(const char *args)
{
    struct reading r = read_config(args);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_fine(&r);
    assert_int_equal(mds_config_print(r.run, &r.diag, f), MDS_OK);
    fclose(f);
    close_reading(&r);
    return text;
}

static void test_help_and_man_name_every_option(void **state)
{
    char *help = print_config("--help"), *man = print_config("--man");
    char *version = print_config("--version");

    (void)state;
    for (const struct mds_option *o = mds_pretrain_options.options; o->help; o++) {
        char roff[128] = "";

        if (!o->flag || o->hidden)
            continue;
        for (const char *p = o->flag; *p; p++)
            snprintf(roff + strlen(roff), sizeof roff - strlen(roff), "%s%c",
                     *p == '-' ? "\\" : "", *p);
        assert_non_null(strstr(help, o->flag));
        assert_non_null(strstr(man, roff));
        assert_true(!o->env || strstr(help, o->env) != NULL);
    }
    for (const char *line = help; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 88);
    assert_ptr_equal(strstr(version, "mds_pretrain "), version);
    free(help);
    free(man);
    free(version);
}

/* Values without their origins. */
static void strip_comments(char *text)
{
    char *to = text;

    for (const char *p = text; *p; p++) {
        if (*p == '#')
            p += strcspn(p, "\n");
        if (*p == '\n')
            while (to > text && to[-1] == ' ')
                to--;
        *to++ = *p;
    }
    *to = '\0';
}

static void test_show_reads_back(void **state)
{
    char *first, *second;

    (void)state;
    setenv("MODEL_SIZE_KEY", "GPT76B", 1);
    first = print_config("--show-config --lr 3e-4 --swiglu --exit-duration-in-mins 90s "
                         "--data-path 0.3 a'b 0.7 c:#d --train-tokens 2e12");
    assert_non_null(strstr(first, "layers: 60"));
    assert_non_null(strstr(first, "# environment MODEL_SIZE_KEY"));
    assert_non_null(strstr(first, "#   published with     tensor 8, pipeline 4"));
    setup(state);
    write_file("shown.yaml", first);
    second = print_config("--show-config --config shown.yaml");
    assert_non_null(strstr(second, "# shown.yaml:"));
    strip_comments(first);
    strip_comments(second);
    assert_string_equal(first, second);
    free(first);
    free(second);
    setenv("MODEL_SIZE_KEY", "GPT13B", 1);
    first = print_config("--show-config");
    assert_non_null(strstr(first, "parameters         12,853,626,880"));
    free(first);
}

int main(void)
{
    char dir[] = "/tmp/mds-config-XXXXXX";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_precedence, setup),
        cmocka_unit_test_setup(test_unknown_names, setup),
        cmocka_unit_test_setup(test_slips_in_the_environment, setup),
        cmocka_unit_test_setup(test_megatron_flags, setup),
        cmocka_unit_test_setup(test_refused_flags, setup),
        cmocka_unit_test_setup(test_alcf_variables, setup),
        cmocka_unit_test_setup(test_deepspeed, setup),
        cmocka_unit_test_setup(test_model_table, setup),
        cmocka_unit_test_setup(test_named_sizes, setup),
        cmocka_unit_test_setup(test_exact_params, setup),
        cmocka_unit_test_setup(test_derived_model, setup),
        cmocka_unit_test_setup(test_derived_batch, setup),
        cmocka_unit_test_setup(test_derived_length, setup),
        cmocka_unit_test_setup(test_misfits, setup),
        cmocka_unit_test_setup(test_help_and_man_name_every_option, setup),
        cmocka_unit_test_setup(test_show_reads_back, setup),
    };
    int failed;

    if (!mkdtemp(dir) || chdir(dir) != 0)
        return EXIT_FAILURE;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink("m.yaml");
    unlink("run.yaml");
    unlink("bad.yaml");
    unlink("ds.json");
    unlink("shown.yaml");
    if (chdir("/") == 0)
        rmdir(dir);
    return failed;
}
