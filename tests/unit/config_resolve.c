/* config: model shapes, what follows from the values and the ranks, and what does not
 * fit. */
#include "reading.h"

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
        {"LLAMA7B", 6e9},
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
    assert_int_equal(mds_settings_of(&r.run->settings, "model.ffn_hidden")->level,
                     MDS_LEVEL_DERIVED);
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
    assert_int_equal(mds_config_set_vocab(r.run, 100), MDS_OK);
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
    expect_misfit("--finetune", 1, "give --load a folder");
    expect_misfit("--no-load-optim", 1, "without --load");
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
    expect_misfit("--micro-batch-size 524288 --gradient-accumulation-steps 524288 "
                  "--global-batch-size 64",
                  1 << 26, "beyond a hundred million"); /* 2^64 */
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

    setenv("TRAIN_ITERS", "9", 1); /* the command line counts */
    r = read_config(tokens);
    unsetenv("TRAIN_ITERS");
    assert_int_equal(mds_config_resolve(r.run, 2, &r.diag), MDS_OK);
    assert_int_equal(r.run->config.train.iters, 6);
    close_reading(&r);
    setenv("TRAIN_TOKENS", "1e6", 1);
    r = read_config(
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --data-path d "
        "--train-iters 3");
    unsetenv("TRAIN_TOKENS");
    assert_int_equal(mds_config_resolve(r.run, 2, &r.diag), MDS_OK);
    assert_int_equal(r.run->config.train.iters, 3);
    assert_int_equal(r.run->config.train.tokens, 0);
    close_reading(&r);
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
}

/* The texts that the data are cut by are those that the options take. */
static void test_split(void **state)
{
    static const char *const bad[] = {"",   ",",     "a",       "1,",  "1,2,3,4",
                                      "-1", "1,-1",  "0,0,0",   "1;2", "nan",
                                      "1/", "1e400", "inf,0,0", " ",   "1,2,"};
    static const char *const parts[] = {"2,1,1", "2/1/1", " 50, 25 ,25 ", ".5,.25,.25"};
    struct reading fits;
    double v[3];

    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_true(mds_split_shares(parts[i], v));
        assert_true(v[0] == 0.5 && v[1] == 0.25 && v[2] == 0.25);
    }
    assert_true(mds_split_shares("100", v));
    assert_true(v[0] == 1 && v[1] == 0 && v[2] == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mds_split_shares(bad[i], v));
    expect_misfit("--split 1,-2", 1, "--split '1,-2': must be proportions");
    expect_misfit("--split 1,2,3,4", 1, "must be proportions");
    fits = resolve("--split 949/50/1", 1);
    assert_fine(&fits);
    close_reading(&fits);
}

/* ---- who holds what ---- */

#define TENSOR "--tensor-model-parallel-size "
#define STAGES "--pipeline-model-parallel-size "
#define CHUNK "--num-layers-per-virtual-pipeline-stage "
#define ULYSSES "--ds-sequence-parallel-size "
#define RING "--context-parallel-size "
#define ACCUMULATE "--gradient-accumulation-steps "

static void test_grids(void **state)
{
    static const struct {
        const char *args;
        int64_t world;
        struct mds_parallel_config is;
    } grids[] = {
        {"", 3, {.tensor = 1, .pipeline = 1, .ulysses = 1, .ring = 1, .data = 3}},
        {TENSOR "2 --sequence-parallel",
         4,
         {.tensor = 2,
          .pipeline = 1,
          .ulysses = 1,
          .ring = 1,
          .data = 2,
          .sequence_parallel = 1}},
        {TENSOR "2 " STAGES "2 " ULYSSES "2 " RING "4",
         64,
         {.tensor = 2, .pipeline = 2, .ulysses = 2, .ring = 4, .data = 2}},
        {"--sp-type megatron",
         4,
         {.tensor = 4,
          .pipeline = 1,
          .ulysses = 1,
          .ring = 1,
          .data = 1,
          .sequence_parallel = 1}},
        {"--sp-type megatron --no-sequence-parallel " STAGES "2",
         4,
         {.tensor = 2, .pipeline = 2, .ulysses = 1, .ring = 1, .data = 1}},
        {"--sp-type megatron " TENSOR "2",
         8,
         {.tensor = 2,
          .pipeline = 1,
          .ulysses = 1,
          .ring = 1,
          .data = 4,
          .sequence_parallel = 1}},
        {"--sp-type megatron",
         1,
         {.tensor = 1, .pipeline = 1, .ulysses = 1, .ring = 1, .data = 1}},
        {"--sp-type ds",
         4,
         {.tensor = 1,
          .pipeline = 1,
          .ulysses = 4,
          .ring = 1,
          .data = 1,
          .zero_stage = 3}},
        {"--sp-type ds --zero-stage 1 " ULYSSES "2",
         4,
         {.tensor = 1,
          .pipeline = 1,
          .ulysses = 2,
          .ring = 1,
          .data = 2,
          .zero_stage = 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        struct reading r = resolve(grids[i].args, grids[i].world);
        const struct mds_parallel_config *p = &r.run->config.parallel;

        assert_fine(&r);
        assert_int_equal(p->tensor, grids[i].is.tensor);
        assert_int_equal(p->pipeline, grids[i].is.pipeline);
        assert_int_equal(p->ulysses, grids[i].is.ulysses);
        assert_int_equal(p->ring, grids[i].is.ring);
        assert_int_equal(p->data, grids[i].is.data);
        assert_int_equal(p->sequence_parallel, grids[i].is.sequence_parallel);
        assert_int_equal(p->zero_stage, grids[i].is.zero_stage);
        assert_int_equal(p->virtual_stages, 1);
        close_reading(&r);
    }
}

static void test_impossible_grids(void **state)
{
    struct reading r = resolve(TENSOR "4 " STAGES "4", 6);

    (void)state;
    assert_int_equal(r.rc, MDS_EUSER);
    assert_said(&r.diag, "= 16 ranks; start 16");
    assert_false(is_said(&r.diag, "or give")); /* either leaves two ranks over */
    close_reading(&r);
    expect_misfit(TENSOR "2 " STAGES "2", 6,
                  "6 ranks do not divide into copies of tensor 2 x pipeline 2 x "
                  "sequence 1 = 4 ranks; start 4 or 8; or give "
                  "--tensor-model-parallel-size 1, or "
                  "--pipeline-model-parallel-size 1");
    expect_misfit(ULYSSES "4", 2, "start 4; or give --ds-sequence-parallel-size 2");
    expect_misfit(RING "5", 12, "start 10 or 15; or give --context-parallel-size 4");
    /* 3 divides the ranks, but not the heads */
    expect_misfit(TENSOR "4", 6, "or give --tensor-model-parallel-size 2");
    expect_misfit(TENSOR "10000 " STAGES "10000 " ULYSSES "10000 " RING "10000", 8,
                  "= 10000000000000000 ranks; start 10000000000000000");
}

static void test_unshareable_models(void **state)
{
    static const char wide[] = "--num-attention-heads 16 --num-key-value-heads 4 ";
    char args[256];

    (void)state;
    expect_misfit(TENSOR "3", 3,
                  "command line: --tensor-model-parallel-size 3 does not divide "
                  "--num-attention-heads 4; 2 or 4 would do");
    expect_misfit(TENSOR "8", 8, "does not divide --num-attention-heads 4; 4 would do");
    expect_misfit(TENSOR "4 --num-key-value-heads 2", 4,
                  "does not divide --num-key-value-heads 2; 2 would do");
    expect_misfit(TENSOR "4 --ffn-hidden-size 102", 4,
                  "inner width, --ffn-hidden-size 102; 2 would do");
    expect_misfit(ULYSSES "8", 8,
                  "--ds-sequence-parallel-size 8 does not divide the 4 heads that a "
                  "tensor rank has; 4 would do, and --context-parallel-size has no "
                  "such limit");
    snprintf(args, sizeof args, "%s" TENSOR "2 " ULYSSES "4", wide);
    expect_misfit(args, 8, "the 2 key/value heads that a tensor rank has; 2 would do");
    expect_misfit(ULYSSES "4 --seq-length 1022", 4,
                  "--seq-length 1022 does not divide into 4 parts (Ulysses 4); the "
                  "nearest 1020 or 1024");
    expect_misfit(RING "2 " ULYSSES "2 " TENSOR "2 --sequence-parallel --seq-length 8",
                  8,
                  "into 16 parts (2 x ring 2 x Ulysses 2 x tensor 2); the nearest 16");
    expect_misfit(STAGES "3", 3,
                  "--pipeline-model-parallel-size 3 is more than the 2 "
                  "blocks of the model; 2 would do");
    expect_misfit(TENSOR "10000 " STAGES "100 " RING "10000", 10000000000,
                  "10000000000 ranks: a run has 100000000 at most");
}

static void test_interleaving(void **state)
{
    struct reading r =
        resolve(STAGES "2 " CHUNK "2 --num-layers 12 " ACCUMULATE "4", 4);

    (void)state;
    assert_fine(&r);
    assert_int_equal(r.run->config.parallel.virtual_stages, 3);
    close_reading(&r);
    r = resolve(STAGES "2 " CHUNK "1 " ACCUMULATE "3", 2);
    assert_fine(&r); /* one chunk a rank: any number of micro-batches */
    assert_int_equal(r.run->config.parallel.virtual_stages, 1);
    close_reading(&r);
    r = resolve(STAGES "4 --num-layers 30", 4);
    assert_fine(&r); /* any number of layers */
    close_reading(&r);
    expect_misfit(CHUNK "1", 1, "one pipeline rank has nothing to interleave");
    expect_misfit(STAGES "2 " CHUNK "3 --num-layers 8", 2,
                  "--num-layers 8 is no multiple of 2 pipeline ranks x chunks of 3 "
                  "blocks, as interleaving needs; the nearest 6 or 12");
    expect_misfit(STAGES "2 " CHUNK "1 --num-layers 4 " ACCUMULATE "3", 2,
                  "3 micro-batches a step are no multiple of 2 pipeline ranks, as "
                  "interleaving needs; the nearest --gradient-accumulation-steps 2 or "
                  "4");
}

/* A warning, no fault, and the option is off. */
static void expect_off(const char *args, int64_t world, const char *what)
{
    struct reading r = resolve(args, world);

    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.diag.count, 1);
    assert_said(&r.diag, what);
    assert_false(world == 1 && r.run->config.parallel.sequence_parallel);
    assert_false(r.run->config.train.partition_activations);
    close_reading(&r);
}

static void test_kept_where(void **state)
{
    (void)state;
    expect_off("--sequence-parallel", 1, "--sequence-parallel is off");
    expect_off("--partition-activations --recompute-granularity full", 1,
               "there is one tensor rank");
    expect_off("--partition-activations --recompute-granularity full "
               "--sequence-parallel " TENSOR "2",
               2, "has cut the inputs already");
    expect_off("--tp-comm-chunks 2", 1, "changes nothing: there is one tensor rank");
    expect_misfit("--partition-activations", 1,
                  "--partition-activations is about the inputs that full recompute "
                  "keeps, and this is none; give --recompute-granularity full");
    expect_misfit("--cpu-checkpointing --recompute-granularity selective", 1,
                  "--cpu-checkpointing is about the inputs that full recompute keeps, "
                  "and this is selective");
    expect_misfit("--checkpoint-num-layers 2", 1, "--checkpoint-num-layers above 1 is");
    expect_misfit("--offload-param-device cpu --zero-stage 2", 1,
                  "weights rest only with ZeRO 3, and this is stage 2");
    expect_misfit("--offload-param-device cpu --zero-stage 3", 1,
                  "give --offload-device cpu (--cpu-optimizer), too");
    expect_misfit("--partition-activations --recompute-granularity full " TENSOR
                  "2 --hidden-size 63 --kv-channels 16",
                  2, "--hidden-size 63 does not divide into parts for 2 tensor ranks");
    expect_misfit("--keep-attention-layers 2 --recompute-granularity full", 1,
                  "--keep-attention-layers adds to what full recompute keeps");
    expect_misfit("--device-checkpoint-layers 2 --recompute-granularity full "
                  "--sequence-tile 9",
                  1, "--device-checkpoint-layers excepts blocks from");
    expect_misfit("--attention-chunk 16", 1, "give --sequence-tile, too");
    expect_misfit("--attention-chunk 16 --ds-sequence-parallel-size 2", 2,
                  "--attention-chunk is for ranks that have whole sequences");
    expect_misfit("--attention-chunk 16 --sequence-parallel " TENSOR "2", 2,
                  "--attention-chunk does not go with --sequence-parallel");
    expect_misfit("--sequence-tile 16", 1, "give --recompute-granularity full or sel");
    expect_misfit("--recompute-modules layernorm", 1,
                  "give --recompute-granularity selective, too");
    expect_misfit("--recompute-modules mlp_act --recompute-granularity full", 1,
                  "give --recompute-granularity selective, too");
    expect_misfit("--recompute-modules layernorm --recompute-granularity selective "
                  "--sequence-tile 16",
                  1, "norms and the MLP's inside are never kept; leave out one");
    expect_off("--recompute-modules layernorm mlp_act --recompute-granularity "
               "selective --mlp-tile 16",
               1, "--recompute-modules mlp_act changes nothing");
    expect_misfit("--offload-device nvme", 1, "give --nvme-path (NVME_PATH)");
    expect_misfit("--offload-device nvme --nvme-path ./gone", 1,
                  "--nvme-path ./gone: No such file or directory; it must be a folder");
    write_file("run.yaml", "x");
    expect_misfit("--offload-device nvme --nvme-path ./run.yaml", 1,
                  "--nvme-path ./run.yaml: Not a directory");
    expect_misfit("--fp16 --initial-loss-scale 2 --min-loss-scale 4", 1,
                  "--min-loss-scale 4 is above --initial-loss-scale 2");
    expect_off("--loss-scale 8 --bf16", 1, "--loss-scale 8 is not used");
}

static void test_kept_well(void **state)
{
    static const char *const fine[] = {
        "--offload-device nvme --nvme-path .",
        "--offload-device cpu",
        "--nvme-path /nowhere",
        "--zero-stage 3 --offload-param-device cpu --offload-device cpu",
        "--zero-stage 3 --num-layers 4 " STAGES "2",
        "--recompute-granularity full --checkpoint-num-layers 2 --cpu-checkpointing "
        "--partition-activations " TENSOR "2",
        "--fp16 --loss-scale 1024",
        "--mlp-tile 16 --loss-tile 16",
        "--recompute-granularity selective --recompute-modules layernorm mlp_act",
        "--recompute-granularity selective --recompute-modules layernorm --mlp-tile 16",
        "--recompute-granularity selective --sequence-tile 16 --cpu-checkpointing",
        "--recompute-granularity full --sequence-tile 16 --attention-chunk 64",
        "--recompute-granularity full --sequence-tile 16 --cpu-checkpointing "
        "--keep-attention-layers 2 --device-checkpoint-layers 1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        struct reading r = resolve(fine[i], 2);

        assert_fine(&r);
        close_reading(&r);
    }
}

static void test_dry_run(void **state)
{
    struct reading r = read_config("--model-size-key GPT1T --dry-run --world-size 3072 "
                                   "--dry-run-rank 3071 " TENSOR "8 " STAGES "64");

    (void)state;
    assert_fine(&r);
    assert_int_equal(mds_config_world(r.run), 3072);
    assert_int_equal(mds_config_resolve(r.run, 3072, &r.diag), MDS_OK);
    assert_int_equal(r.run->config.parallel.data, 6);
    assert_int_equal(r.run->config.model.padded_vocab, 51200);
    close_reading(&r);
    r = read_config("--model-size-key GPT1T --dry-run " TENSOR "8 " STAGES "64");
    assert_int_equal(mds_config_world(r.run), 512);
    assert_int_equal(mds_config_resolve(r.run, 512, &r.diag), MDS_OK);
    assert_int_equal(r.run->config.train.dry_world, 512);
    close_reading(&r);
    expect_misfit("--world-size 8", 2, "--world-size 8, but there are 2 ranks");
    expect_misfit("--dry-run --dry-run-rank 2", 2, "of 2 ranks the last is 1");
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_model_table, setup),
        cmocka_unit_test_setup(test_named_sizes, setup),
        cmocka_unit_test_setup(test_exact_params, setup),
        cmocka_unit_test_setup(test_derived_model, setup),
        cmocka_unit_test_setup(test_derived_batch, setup),
        cmocka_unit_test_setup(test_derived_length, setup),
        cmocka_unit_test_setup(test_misfits, setup),
        cmocka_unit_test_setup(test_split, setup),
        cmocka_unit_test_setup(test_grids, setup),
        cmocka_unit_test_setup(test_impossible_grids, setup),
        cmocka_unit_test_setup(test_unshareable_models, setup),
        cmocka_unit_test_setup(test_interleaving, setup),
        cmocka_unit_test_setup(test_kept_where, setup),
        cmocka_unit_test_setup(test_kept_well, setup),
        cmocka_unit_test_setup(test_dry_run, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    return run_in_scratch(run_all);
}
