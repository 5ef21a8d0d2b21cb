/* SPDX-License-Identifier: BSD-3-Clause */
/* config: what other programs call things: Megatron's flags, ALCF's variables,
 * DeepSpeed's JSON. */
#include "reading.h"

static const struct mds_option *row_of(const char *flag)
{
    const struct mds_option *o = mds_pretrain_options.options;

    while (o->help && !(o->flag && strcmp(o->flag, flag) == 0))
        o++;
    return o;
}

/* A value that the row takes: its default, its first word, or its least number. */
static const char *some_value(const struct mds_option *o, char text[64])
{
    if (o->fallback && *o->fallback)
        return o->fallback;
    if (o->choices)
        return o->choices[0];
    if (o->type == MDS_OPT_STRING || o->type == MDS_OPT_WORDS)
        return "x";
    snprintf(text, 64, "%g", o->min);
    return text;
}

/* A file that is read, or a row of one. */
static int names_other_settings(const struct mds_option *o)
{
    return o->unit && (strcmp(o->unit, "file") == 0 || strcmp(o->unit, "key") == 0);
}

static void read_alone(const char *flag, const struct mds_option *o, int is_switch)
{
    char args[256], text[64];
    struct reading r;

    if (names_other_settings(o))
        return;
    snprintf(args, sizeof args, "%s %s", flag, is_switch ? "" : some_value(o, text));
    r = read_config(args);
    if (r.rc)
        print_error("%s:\n", args);
    assert_fine(&r);
    close_reading(&r);
}

/* Every option of mds_pretrain, and every name of it in Megatron-DeepSpeed. */
static void test_each_option_alone(void **state)
{
    (void)state;
    for (const struct mds_option *o = mds_pretrain_options.options; o->help; o++)
        if (o->flag && o->offset != MDS_OPT_UNSTORED)
            read_alone(o->flag, o, o->type == MDS_OPT_FLAG);
    for (const struct mds_option_alias *a = mds_megatron_aliases; a->name; a++) {
        const struct mds_option *o = row_of(a->means);

        assert_non_null(o->help);
        if (strncmp(a->name, "--", 2) == 0)
            read_alone(a->name, o, o->type == MDS_OPT_FLAG || a->on);
    }
}

static void test_several_options(void **state)
{
    struct reading r;

    (void)state;
    r = read_config("--checkpoint-activations --disable-bias-linear --bf16 "
                    "--untie-embeddings-and-output-weights --dtype fp32");
    assert_int_equal(r.rc, MDS_EUSER);
    assert_int_equal(r.diag.faults, 1);
    assert_said(&r.diag, "--dtype 'fp32' disagrees with --bf16");
    close_reading(&r);
    r = read_config(
        "--checkpoint-activations --disable-bias-linear --exit-duration-in-mins "
        "2 --untie-embeddings-and-output-weights --no-overlap-grad-reduce "
        "--use-rotary-position-embeddings --distributed-timeout-minutes 30");
    assert_fine(&r);
    assert_true(r.run->config.parallel.timeout_s == 1800);
    assert_int_equal(r.run->config.train.act.loss_tile, MDS_DEFAULT_LOSS_TILE);
    assert_int_equal(r.run->config.train.act.recompute, MDS_RECOMPUTE_FULL);
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
        {"--zero-stage 4", "must be between 0 and 3"},
        {"--offload-param-device nvme", "must be one of none, cpu"},
        {"--tensor-model-parallel-size 0", "must be between 1 and 10000"},
        {"--data-impl lazy", "must be one of mmap, infer"},
        {"--save-interval -1", "must be between 0 and"},
        {"--device gpu", "must be one of auto, cpu, cuda"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        expect_fault(flags[i][0], flags[i][1]);
    setenv("SAVE_INTERVAL", "soon", 1);
    expect_fault("", "environment: SAVE_INTERVAL 'soon': must be");
    setup(state);
}

/* All flags of Megatron-DeepSpeed are known: taken, or refused with a reason. */
static void test_every_flag_is_known(void **state)
{
    FILE *f = fopen(MDS_SRCDIR "/tests/data/megatron.flags", "r");
    char flag[80];
    int flags = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(flag, sizeof flag, f)) {
        struct reading r;

        if (flag[0] != '-')
            continue;
        flag[strcspn(flag, "\n")] = '\0';
        r = read_config(flag);
        if (is_said(&r.diag, "unknown option"))
            fail_msg("%s is not known", flag);
        close_reading(&r);
        flags++;
    }
    fclose(f);
    assert_true(flags > 280);
}

/* Those of the published scripts of a mixture-of-experts genome model. */
static void test_accepted_flags(void **state)
{
    static const char experts[] =
        "--num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss "
        "--moe-aux-loss-coeff 1e-3 --moe-grouped-gemm --expert-model-parallel-size 2 "
        "--moe-router-dtype fp32 --moe-token-dispatcher-type alltoall "
        "--disable-bias-linear "
        "--global-batch-size 1024 --rampup-batch-size 32 32 1953125 ";
    static const char dense[] =
        "--use-mcore-models --no-masked-softmax-fusion --no-position-embedding "
        "--overlap-param-gather --overlap-grad-reduce --num-workers 8 "
        "--dataloader-type cyclic --tokenizer-type HuggingFaceTokenizer "
        "--tokenizer-model t --no-create-attention-mask-in-dataloader "
        "--attention-softmax-in-fp32 --accumulate-allreduce-grads-in-fp32 "
        "--disable-bf16-reduced-precision-matmul --use-distributed-optimizer "
        "--no-load-rng --wandb-project p --wandb-exp-name n --log-throughput "
        "--vocab-file v.json --num-workers 8 --position-embedding-type rope ";
    char both[2048];
    struct reading r = resolve(dense, 8);

    (void)state;
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.diag.count, 1);
    assert_string_equal(
        r.diag.entries[0].text,
        "accepted without effect: --use-mcore-models, --no-masked-softmax-fusion, "
        "--no-position-embedding, --overlap-param-gather, --overlap-grad-reduce, "
        "--num-workers, --dataloader-type, --tokenizer-type, --tokenizer-model, "
        "--no-create-attention-mask-in-dataloader, --attention-softmax-in-fp32, "
        "--accumulate-allreduce-grads-in-fp32, "
        "--disable-bf16-reduced-precision-matmul, --no-load-rng, --wandb-project, "
        "--wandb-exp-name, --log-throughput, --vocab-file");
    assert_int_equal(r.run->config.parallel.zero_stage, 1);
    close_reading(&r);
    snprintf(both, sizeof both, "%s%s", experts, dense);
    r = resolve(both, 8);
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.parallel.expert, 2);
    assert_int_equal(r.run->config.parallel.data, 8);
    assert_int_equal(r.run->config.batch.accumulation, 128);
    assert_said(&r.diag, "--moe-grouped-gemm, --moe-router-dtype, "
                         "--moe-token-dispatcher-type");
    close_reading(&r);
    r = resolve("--optimizer muon --muon-tp-mode distributed", 1);
    assert_said(&r.diag, "--muon-tp-mode");
    close_reading(&r);
    r = resolve("--use-mup --scaling-base-hidden-size 16 --mup-base-head-dim 8", 1);
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.model.mup.base_hidden, 16);
    close_reading(&r);
    r = resolve("--use-mup --mup-width-mult 2", 1);
    assert_int_equal(r.rc, MDS_EUSER);
    assert_said(&r.diag, "it is --hidden-size / --mup-base-hidden-size");
    close_reading(&r);
    r = resolve("--no-position-embedding", 1);
    assert_int_equal(r.rc, MDS_EUSER);
    assert_said(&r.diag,
                "--no-position-embedding: give --position-embedding-type none");
    close_reading(&r);
    expect_fault("--num-expert 2", "unknown option --num-expert;");
}

/* As helpers.sh of ALCF exports them. */
static void test_names_of_models(void **state)
{
    static const struct {
        const char *arch;
        int64_t layers, hidden;
    } known[] = {{"AuroraGPT-7B", 32, 4096},
                 {"aurora_gpt_2b", 12, 2048},
                 {"33B", 78, 8268},
                 {"smollm3_3B", 24, 2048},
                 {"phi4-mini-nLayers32", 32, 3072},
                 {"llama3-3B-nLayers20", 20, 3072}};
    struct reading r;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        setup(state);
        setenv("MODEL_ARCH", known[i].arch, 1);
        r = read_config("");
        assert_fine(&r);
        assert_int_equal(r.run->config.model.layers, known[i].layers);
        assert_int_equal(r.run->config.model.hidden, known[i].hidden);
        close_reading(&r);
    }
    setenv("MODEL_ARCH", "phi4-mini-nLayers0", 1);
    expect_fault("", "environment MODEL_ARCH: model size 'phi4-mini-nLayers0' is not");
    setup(state);
    setenv("MODEL_TYPE", "AuroraGPT-gb384-seq4096-pp1-tp1-32layers", 1);
    r = read_config("");
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "MODEL_TYPE is not read: helpers.sh names the run by it");
    close_reading(&r);
    expect_fault("--model-type bert", "--model-type 'bert': must be gpt");
}

/* An exported NLAYERS beside a size asked for in a nearer place is said; beside
 * MODEL_SIZE_KEY in the environment it is meant. */
static void test_names_with_other_values(void **state)
{
    struct reading r;

    (void)state;
    setenv("NLAYERS", "2", 1);
    setenv("HIDDEN", "5120", 1);
    setenv("SEQ_LEN", "64", 1);
    r = read_config("--model-size-key GPT13B");
    assert_int_equal(r.run->config.model.layers, 2);
    assert_said(&r.diag, "--model-size-key GPT13B: not its own shape, but with "
                         "--num-layers 2 (environment NLAYERS); unset");
    close_reading(&r);
    setenv("MODEL_SIZE_KEY", "GPT13B", 1);
    r = read_config("");
    assert_fine(&r);
    close_reading(&r);
}

/* A variable of one version that is off says nothing about the others. */
static void test_flash_attention(void **state)
{
    static const struct {
        const char *flags, *env;
        int on;
    } cases[] = {{"", NULL, 1},
                 {"--no-use-flash-attn", NULL, 0},
                 {"--use-flash-attn-v2", "USE_FLASH_ATTN=0", 1},
                 {"", "USE_FLASH_ATTN=0", 0},
                 {"", "NO_FLASH_ATTN=1", 0},
                 {"", "USE_FLASH_ATTN_V1=0", 1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char env[64] = "";
        struct reading r;

        setup(state);
        if (cases[i].env) {
            snprintf(env, sizeof env, "%s", cases[i].env);
            *strchr(env, '=') = '\0';
            setenv(env, strchr(cases[i].env, '=') + 1, 1);
        }
        r = read_config(cases[i].flags);
        assert_int_equal(r.rc, MDS_OK);
        assert_int_equal(r.diag.count, 0);
        assert_int_equal(r.run->config.train.flash_attn, cases[i].on);
        close_reading(&r);
    }
    setenv("USE_FLASH_ATTN", "0", 1);
    setenv("USE_FLASH_ATTN_V2", "1", 1);
    expect_fault("", "USE_FLASH_ATTN");
}

/* Every variable of the ALCF scripts, alone, with a value this version takes. */
static void test_alcf_variables(void **state)
{
    static const char *const vars[][2] = {{"MODEL_SIZE_KEY", "GPT25B"},
                                          {"SEQ_LEN", "128000"},
                                          {"SEQ", "128000"},
                                          {"MPSIZE", "2"},
                                          {"TP", "2"},
                                          {"PPSIZE", "2"},
                                          {"PP", "2"},
                                          {"SPSIZE", "2"},
                                          {"SP", "2"},
                                          {"SP_TYPE", "megatron"},
                                          {"USE_SEQUENCE_PARALLEL", "1"},
                                          {"ZERO_STAGE", "3"},
                                          {"MICRO_BATCH", "2"},
                                          {"GAS", "4"},
                                          {"GRAD_ACC_STEPS", "4"},
                                          {"GRADIENT_ACCUMULATION_STEPS", "4"},
                                          {"GLOBAL_BATCH", "16"},
                                          {"USE_FLASH_ATTN", "1"},
                                          {"USE_FLASH_ATTN1", "1"},
                                          {"USE_FLASH_ATTN_V1", "0"},
                                          {"USE_FLASH_ATTN2", "1"},
                                          {"USE_FLASH_ATTN_V2", "1"},
                                          {"USE_FLASH_ATTN_TRITON", "0"},
                                          {"NO_FLASH_ATTN", "0"},
                                          {"USE_ACTIVATION_CHECKPOINTING", "1"},
                                          {"ACT_CKPT_NUM_LAYERS", "2"},
                                          {"OFFLOAD_DEVICE", "nvme"},
                                          {"NVME_PATH", "/raid"},
                                          {"DDP_IMPL", "local"},
                                          {"DATA_PATH", "/d"},
                                          {"HOSTFILE", "h"},
                                          {"NHOSTS", "2"},
                                          {"NGPU_PER_HOST", "4"},
                                          {"NGPUS", "8"},
                                          {"DTYPE", "bf16"},
                                          {"LR", "3e-4"},
                                          {"TRAIN_ITERS", "10"},
                                          {"TRAIN_ITER", "10"},
                                          {"TRAIN_TOKENS", "1e9"},
                                          {"NUM_LAYERS", "3"},
                                          {"NHEADS", "6"},
                                          {"OPT", "adamw"},
                                          {"LR_DECAY_STYLE", "cosine"},
                                          {"LR_DECAY_ITERS", "9"},
                                          {"LR_WARMUP_FRAC", "0.05"},
                                          {"WEIGHT_DECAY", "0.1"},
                                          {"ADAM_BETA1", "0.8"},
                                          {"ADAM_BETA2", "0.95"},
                                          {"ADAM_EPS", "1e-5"},
                                          {"CLIP_GRAD", "0.5"},
                                          {"EVAL_INTERVAL", "100"},
                                          {"EVAL_ITERS", "20"},
                                          {"LOG_INTERVAL", "1"},
                                          {"SAVE", "new"},
                                          {"LOAD", "old"},
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
    assert_int_equal(r.run->config.train.length.in[MDS_TOKENS], 1000000000);
    assert_int_equal(r.run->config.train.act.recompute, MDS_RECOMPUTE_FULL);
    assert_int_equal(r.run->config.train.act.recompute_layers, 2);
    assert_int_equal(r.run->config.train.type, MDS_TYPE_BF16);
    assert_int_equal(r.run->config.parallel.sp_type, MDS_SP_MEGATRON);
    assert_int_equal(r.run->config.parallel.tensor, 2);
    assert_int_equal(r.run->config.parallel.pipeline, 2);
    assert_int_equal(r.run->config.parallel.ulysses, 2);
    assert_int_equal(r.run->config.parallel.sequence_parallel, 1);
    assert_int_equal(r.run->config.parallel.zero_stage, 3);
    assert_int_equal(r.run->config.parallel.offload_optimizer, MDS_PLACE_NVME);
    assert_string_equal(r.run->config.parallel.nvme_path, "/raid");
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
    assert_string_equal(mds_machine_folder(), MDS_SRCDIR "/machines");
    expect_fault("--machine ./gone.yaml", "machine profile ./gone.yaml: No such file");
}

static void test_deepspeed(void **state)
{
    struct reading r;

    (void)state;
    write_text(
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
    assert_int_equal(r.run->config.train.type, MDS_TYPE_F32);
    assert_int_equal(r.run->config.train.loss_scale_window, 7);
    assert_origin(&r, "optim.clip_grad", "ds.json:3");
    assert_said(&r.diag, "ds.json: DeepSpeed's own, not used here: steps_per_print, "
                         "wall_clock_breakdown, zero_optimization.overlap_comm, ");
    assert_int_equal(r.diag.count, 1);
    close_reading(&r);
    write_text(
        "ds.json",
        "{\"zero_optimization\": {\"stage\": 3,\n"
        "  \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/n\"},\n"
        "  \"offload_param\": {\"device\": \"cpu\", \"buffer_count\": 5}},\n"
        " \"fp16\": {\"enabled\": true, \"initial_scale_power\": 16,\n"
        "   \"hysteresis\": 3, \"min_loss_scale\": 2, \"loss_scale\": 0},\n"
        " \"activation_checkpointing\": {\"partition_activations\": true,\n"
        "   \"cpu_checkpointing\": true}}");
    r = read_config("--deepspeed-config ds.json --zero-stage 2");
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.parallel.zero_stage, 2);
    assert_int_equal(r.run->config.parallel.offload_optimizer, MDS_PLACE_NVME);
    assert_int_equal(r.run->config.parallel.offload_params, MDS_PLACE_CPU);
    assert_string_equal(r.run->config.parallel.nvme_path, "/n");
    assert_int_equal(r.run->config.train.type, MDS_TYPE_F16);
    assert_true(r.run->config.train.initial_loss_scale == 65536);
    assert_true(r.run->config.train.min_loss_scale == 2);
    assert_int_equal(r.run->config.train.hysteresis, 3);
    assert_int_equal(r.run->config.train.act.partition_activations, 1);
    assert_int_equal(r.run->config.train.act.offload_activations, 1);
    close_reading(&r);
    write_text("ds.json",
               "{\"activation_checkpointing\": {\"partition_activations\": true,\n"
               "  \"cpu_checkpointing\": true}}");
    r = resolve("--deepspeed-config ds.json", 1); /* recomputes nothing */
    assert_said(&r.diag,
                "--recompute-granularity full, or leave it out; it is ignored");
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.train.act.partition_activations, 0);
    assert_int_equal(r.run->config.train.act.offload_activations, 0);
    close_reading(&r);
    expect_misfit("--cpu-checkpointing", 1, "is for the inputs that full recompute");
    /* as ALCF's helpers.sh writes it */
    write_text("ds.json", "{\"fp16\": {\"enabled\": false, \"loss_scale\": 0},\n"
                          "\"bfloat16\": {\"enabled\": true, \"loss_scale\": 1.0}}");
    r = read_config("--deepspeed-config ds.json");
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.train.type, MDS_TYPE_BF16);
    assert_origin(&r, "model.dtype", "ds.json:2");
    assert_said(&r.diag, "not used here: bfloat16.loss_scale");
    close_reading(&r);
    write_text("ds.json", "{\"fp16\": {\"enabled\": true}}");
    r = read_config("--deepspeed-config ds.json --bf16");
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.train.type, MDS_TYPE_BF16);
    assert_said(&r.diag, "fp16.enabled: the run is in bf16 all the same (command "
                         "line)");
    close_reading(&r);
    write_text("ds.json", "{\"gradient_cliping\": 1, \"fp16\": {\"enabled\": true,\n"
                          "\"initial_scale_power\": 64, \"histeresis\": 1}}");
    r = read_config("--deepspeed-config ds.json --bf16");
    assert_int_equal(r.rc, MDS_EUSER);
    assert_int_equal(r.diag.faults, 3);
    assert_said(&r.diag, "ds.json:1: unknown key gradient_cliping; did you mean "
                         "gradient_clipping?");
    assert_said(&r.diag, "ds.json:2: fp16.initial_scale_power '64': must be between 0 "
                         "and 62");
    assert_said(&r.diag, "unknown key fp16.histeresis; did you mean hysteresis?");
    close_reading(&r);
    write_text("ds.json",
               "{\"zero_optimization\": {\"stage\": 3, \"cpu_offload\": true,\n"
               " \"cpu_offload_params\": true}}");
    r = read_config("--deepspeed_config ds.json");
    assert_int_equal(r.diag.count, 0);
    assert_int_equal(r.run->config.parallel.offload_optimizer, MDS_PLACE_CPU);
    assert_int_equal(r.run->config.parallel.offload_params, MDS_PLACE_CPU);
    close_reading(&r);
    write_text("ds.json", "{\"zero_optimisation\": {\"stage\": 1}, \"fp16\": 1}");
    expect_fault("--deepspeed_config ds.json", "did you mean zero_optimization?");
    expect_fault("--deepspeed_config ds.json", "ds.json:1: fp16 must be an object");
    write_text("run.yaml", "batch: {micro: 2}\n");
    write_text("ds.json", "{\"train_micro_batch_size_per_gpu\": 4}");
    expect_fault("--config run.yaml --deepspeed_config ds.json",
                 "train_micro_batch_size_per_gpu '4' disagrees with batch.micro '2' "
                 "(run.yaml:1)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_option_alone, setup),
        cmocka_unit_test_setup(test_several_options, setup),
        cmocka_unit_test_setup(test_refused_flags, setup),
        cmocka_unit_test_setup(test_alcf_variables, setup),
        cmocka_unit_test_setup(test_every_flag_is_known, setup),
        cmocka_unit_test_setup(test_accepted_flags, setup),
        cmocka_unit_test_setup(test_names_of_models, setup),
        cmocka_unit_test_setup(test_names_with_other_values, setup),
        cmocka_unit_test_setup(test_flash_attention, setup),
        cmocka_unit_test_setup(test_deepspeed, setup),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
