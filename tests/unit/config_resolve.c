/* SPDX-License-Identifier: BSD-3-Clause */
/* config: model shapes, what follows from the values, and what does not fit. */
#include "reading.h"

#include "config/layer_list.h"
#include "config/rope.h"

#include <math.h>

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
        {"LLAMA7B", 6e9},       {"GENOS_1_2B", 1.2e9},  {"GENOS_10B", 10e9},
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
        assert_int_equal(mds_config_set_vocab(r.run, strstr(args, " GEN") ? 70 : 50257),
                         MDS_OK);
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
                                                   .activation = MDSK_SWIGLU};
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
    r = resolve("--squared-relu", 1);
    assert_fine(&r);
    assert_int_equal(r.run->config.model.activation, MDSK_SQUARED_RELU);
    assert_int_equal(r.run->config.model.ffn_hidden, 256);
    close_reading(&r);
    r = resolve("--swiglu --squared-relu", 1);
    assert_int_equal(r.rc, MDS_EUSER);
    assert_int_equal(r.diag.faults, 1);
    assert_said(&r.diag, "--swiglu and --squared-relu are both set");
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
                  "--global-batch-size 10 is not a multiple of micro-batch 4 x 2 "
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

static void assert_length(const struct mds_extent *length, int64_t steps,
                          int64_t samples, int64_t tokens)
{
    assert_int_equal(length->in[MDS_STEPS], steps);
    assert_int_equal(length->in[MDS_SAMPLES], samples);
    assert_int_equal(length->in[MDS_TOKENS], tokens);
}

static int64_t steps_of_run(const struct reading *r)
{
    static const struct mds_extent start;
    const struct mds_config *c = &r->run->config;

    return mds_config_end(c, &c->train.length, &start).in[MDS_STEPS];
}

/* Megatron's rule, step by step: the batch of a step is the start, and an increment for
 * each share of the ramp that is consumed before it. */
static void check_ramp(int64_t start, int64_t increment, int64_t samples,
                       int64_t global)
{
    static struct mds_config c = {.model.seq_length = 7};
    int64_t n = (global - start) / increment, steps = 0;
    struct mds_extent at = {{0}}, only = {{0}}, none = {{0}};
    char text[96];

    c.batch =
        (struct mds_batch_config){.micro = 1, .global = global, .accumulation = global};
    snprintf(text, sizeof text, "%lld %lld %lld", (long long)start,
             (long long)increment, (long long)samples);
    assert_int_equal(mds_batch_read_rampup(text, global, &c.batch.schedule), MDS_OK);
    while (at.in[MDS_SAMPLES] < 2 * samples + 10 * global) {
        struct mds_extent step = mds_config_step(&c, &at), end;
        int64_t done = at.in[MDS_SAMPLES], k = n;

        while (k > 0 && done * n < k * samples)
            k--;
        assert_int_equal(step.in[MDS_SAMPLES], start + k * increment);
        assert_int_equal(mds_config_micro_batches(&c, &at), start + k * increment);
        at = mds_extent_after(&at, &step, 1);
        steps++;
        for (int u = 0; u < MDS_UNITS; u++) { /* as far, by any unit, at once */
            only = none;
            only.in[u] = at.in[u];
            end = mds_config_end(&c, &only, &none);
            assert_length(&end, steps, at.in[MDS_SAMPLES], at.in[MDS_TOKENS]);
        }
        only = none; /* whole batches */
        only.in[MDS_SAMPLES] = at.in[MDS_SAMPLES] + 1;
        if (steps > 1 || start > 1) {
            end = mds_config_end(&c, &only, &at);
            step = mds_config_step(&c, &at);
            assert_int_equal(end.in[MDS_STEPS], steps + (step.in[MDS_SAMPLES] == 1));
        }
    }
}

static void test_rampup(void **state)
{
    (void)state;
    check_ramp(4, 2, 30, 8);
    check_ramp(1, 1, 100, 12);
    check_ramp(8, 8, 8, 32);   /* several increments in one step */
    check_ramp(3, 5, 1, 23);   /* all of them */
    check_ramp(16, 4, 50, 16); /* none */
    check_ramp(32, 32, 1953, 1024);
}

/* Where the sizes fall, too; and a run that ends within a stage or with it. */
static void test_steps_of_sizes(void **state)
{
    static struct mds_config c = {
        .model.seq_length = 10, .batch = {.micro = 2, .global = 8, .accumulation = 4}};
    static const struct mds_extent start;
    struct mds_extent length = {{0}}, end;
    static const struct {
        int unit;
        int64_t length, steps, samples;
    } rows[] = {
        /* 4 4 4 8 8 2 2 ... */
        {MDS_STEPS, 5, 5, 28},    {MDS_SAMPLES, 11, 2, 8},  {MDS_SAMPLES, 12, 3, 12},
        {MDS_SAMPLES, 13, 3, 12}, {MDS_SAMPLES, 21, 4, 20}, {MDS_SAMPLES, 22, 4, 20},
        {MDS_SAMPLES, 30, 6, 30}, {MDS_SAMPLES, 31, 6, 30}, {MDS_TOKENS, 120, 3, 12},
        {MDS_TOKENS, 121, 4, 20}, {MDS_TOKENS, 281, 6, 30},
    };

    (void)state;
    assert_int_equal(mds_batch_read_steps("0:4 0.1K:8,270:2", &c.batch.schedule),
                     MDS_OK);
    assert_int_equal(mds_batch_largest(&c.batch.schedule), 8);
    assert_int_equal(mds_batch_smallest(&c.batch.schedule), 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        length = start;
        length.in[rows[i].unit] = rows[i].length;
        end = mds_config_end(&c, &length, &start);
        assert_length(&end, rows[i].steps, rows[i].samples, 10 * rows[i].samples);
    }
    end = mds_config_end(&c, &start, &length);
    assert_int_equal(end.in[MDS_TOKENS], length.in[MDS_TOKENS]); /* no length */
}

/* What is left follows from what was consumed, not from the steps that were made. */
static void test_steps_left(void **state)
{
    static const struct mds_extent tokens = {.in[MDS_TOKENS] = 81920},
                                   samples = {.in[MDS_SAMPLES] = 1285},
                                   first = {{150, 0, 81920}}, none = {{0}};
    struct mds_extent done = {{80, 640, 40960}}, step = {{1, 16, 1024}};

    (void)state;
    assert_int_equal(mds_steps_left(&tokens, &done, &step), 40);
    assert_int_equal(mds_steps_left(&first, &done, &step), 40);
    assert_int_equal(mds_steps_left(&samples, &done, &step), 40); /* whole batches */
    assert_int_equal(mds_steps_left(&none, &done, &step), 0);
    step = (struct mds_extent){{1, 5, 640}}; /* a longer sequence */
    assert_int_equal(mds_steps_left(&tokens, &done, &step), 64);
    step.in[MDS_TOKENS] = 641; /* the last batch goes beyond */
    assert_int_equal(mds_steps_left(&tokens, &done, &step), 64);
    step.in[MDS_TOKENS] = 639;
    assert_int_equal(mds_steps_left(&tokens, &done, &step), 65);
    done = mds_extent_after(&done, &step, 65);
    assert_int_equal(mds_steps_left(&tokens, &done, &step), 0);
    assert_int_equal(done.in[MDS_SAMPLES], 640 + 65 * 5);
    done = (struct mds_extent){{149, 1282, 0}};
    assert_int_equal(mds_steps_left(&samples, &done, &step), 0);
    assert_int_equal(mds_steps_left(&first, &done, &step), 1);
    step.in[MDS_SAMPLES] = 9999; /* a new run makes a step */
    assert_int_equal(mds_steps_left(&samples, &none, &step), 1);
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
    assert_length(&r.run->config.train.length, 0, 0, 1001);
    assert_length(&r.run->config.optim.decay_length, 0, 0, 1001);
    assert_int_equal(r.run->config.optim.wsd_decay_iters, 0); /* a tenth of tokens */
    assert_origin(&r, "optim.decay_tokens", "derived: the whole run");
    assert_int_equal(steps_of_run(&r), 6);
    close_reading(&r);
    /* Megatron-DeepSpeed's scripts give samples, too, and enough of them */
    r = resolve("--seq-length 100 --global-batch-size 4 --train-samples 1e6 "
                "--train-tokens 2001 --lr-decay-tokens 1600 --lr-warmup-samples 15",
                2);
    assert_int_equal(r.rc, MDS_OK);
    assert_length(&r.run->config.train.length, 10, 1000000, 2001);
    assert_length(&r.run->config.optim.decay_length, 0, 0, 1600);
    assert_length(&r.run->config.optim.warmup_length, 0, 15, 0);
    assert_int_equal(steps_of_run(&r), 6);
    assert_said(&r.diag, "--train-samples 1000000 takes 250000 steps, --train-iters 10 "
                         "takes 10: the shorter counts");
    assert_said(&r.diag, "--train-tokens 2001 takes 6 steps, --train-iters 10 takes");
    close_reading(&r);
    r = resolve("--train-samples 41 --global-batch-size 4", 2);
    assert_fine(&r); /* 10 whole batches */
    assert_int_equal(steps_of_run(&r), 10);
    close_reading(&r);
    expect_misfit("--global-batch-size 4 --lr-decay-iters 5 --lr-decay-samples 16", 1,
                  "--lr-decay-samples 16 is 4 steps, but --lr-decay-iters 5 is 5; "
                  "leave one out");
    expect_misfit("--lr-decay-samples 16 --lr-warmup-samples 17", 1,
                  "--lr-warmup-samples 17 is more than the 16 samples of the decay");
    /* in another job's batch it may fit: the batch is no reason to stop a chain */
    r = resolve("--global-batch-size 4 --lr-warmup-tokens 1e6", 1);
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "--lr-warmup-tokens 1000000 is more than the 10 steps of the "
                         "decay, with this run's batch");
    close_reading(&r);

    setenv("TRAIN_ITERS", "9", 1); /* the command line counts */
    r = read_config(tokens);
    unsetenv("TRAIN_ITERS");
    assert_int_equal(mds_config_resolve(r.run, 2, &r.diag), MDS_OK);
    assert_length(&r.run->config.train.length, 0, 0, 1001);
    close_reading(&r);
    setenv("TRAIN_TOKENS", "1e6", 1);
    r = read_config(
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --data-path d "
        "--train-iters 3");
    unsetenv("TRAIN_TOKENS");
    assert_int_equal(mds_config_resolve(r.run, 2, &r.diag), MDS_OK);
    assert_length(&r.run->config.train.length, 3, 0, 0);
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
    expect_misfit("--lr-decay-style exponential", 1, "give a --min-lr above 0");
    expect_misfit("--adam-beta2 1", 1, "--adam-beta2 must be below 1");
    expect_misfit("--optimizer muon --muon-momentum 1", 1,
                  "--muon-momentum must be below 1");
    expect_misfit("--mup-base-hidden-size 32", 1,
                  "--mup-base-hidden-size is for --use-mup; give both, or neither");
    expect_misfit("--mup-output-mult 2", 1, "--mup-output-mult is for --use-mup");
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
    expect_misfit("--train-data-path a --data-path b", 1,
                  "--train-data-path and --data-path (command line) are both set");
    expect_misfit("--test-data-path a --data-path b", 1,
                  "--test-data-path and --data-path (command line) are both set");
    expect_misfit("--train-data-path a --split 1,1,1", 1,
                  "--split cuts the files of --data-path");
    fits = resolve("--split 949/50/1", 1);
    assert_fine(&fits);
    close_reading(&fits);
}

/* ---- windows ---- */

static int64_t window_of(const char *args, int64_t layer)
{
    struct reading r = resolve(args, 1);
    int64_t window;

    assert_fine(&r);
    window = mds_model_window(&r.run->config.model, layer);
    close_reading(&r);
    return window;
}

static void test_windows(void **state)
{
    static const char six[] = "--num-layers 6 --window-size 100 "
                              "--window-attn-skip-freq ";
    static const struct {
        const char *list;
        int local[6];
    } lists[] = {{"3", {1, 1, 0, 1, 1, 0}},
                 {"6", {1, 1, 1, 1, 1, 0}},
                 {"7", {1, 1, 1, 1, 1, 1}},
                 {"[1,0]*3", {1, 0, 1, 0, 1, 0}},
                 {"[0]*2+[1,1,0,1]", {0, 0, 1, 1, 0, 1}}};

    (void)state;
    assert_int_equal(window_of("", 0), 0);
    assert_int_equal(window_of("--window-size 1k", 1), 1000);
    assert_int_equal(window_of("--window-size 1023,0", 1), 1024);
    assert_int_equal(window_of("--window-size (0,0)", 0), 1);
    assert_int_equal(window_of("--window-size -1,0", 0), 0);
    assert_int_equal(window_of("--window-size 2048", 0), 0); /* the whole sequence */
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int l = 0; l < 6; l++) {
            char args[128];

            snprintf(args, sizeof args, "%s%s", six, lists[i].list);
            assert_int_equal(window_of(args, l), lists[i].local[l] * 100);
        }
}

static void test_impossible_windows(void **state)
{
    static const char *const sizes[] = {"0", "5,1", "many", "-2,0", "5,", ",0"};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char args[64];

        snprintf(args, sizeof args, "--window-size %s", sizes[i]);
        expect_misfit(args, 1, "must be the number of keys that a query sees");
    }
    expect_misfit("--window-attn-skip-freq 2", 1, "needs --window-size");
    expect_misfit("--window-size 9 --window-attn-skip-freq 1", 1, "makes every layer");
    expect_misfit("--window-size 9 --window-attn-skip-freq [1,1,0]", 1,
                  "is for 3 layers");
    expect_misfit("--window-size 9 --window-attn-skip-freq [1,2]", 1,
                  "or a list of layers");
    expect_misfit("--window-size 9 --window-attn-skip-freq [1,0]*", 1,
                  "or a list of layers");
}

/* ---- rotary frequencies ---- */

static void assert_near(double is, double wanted)
{
    if (fabs(is - wanted) > 1e-6 * fabs(wanted))
        print_error("%.9g is not %.9g\n", is, wanted);
    assert_true(fabs(is - wanted) <= 1e-6 * fabs(wanted));
}

/* Frequencies of some pairs, and the factor of cos and sin, as transformers 4.51 and
 * 5.23 compute them (ROPE_INIT_FUNCTIONS of a LlamaConfig; ntk with factor 4 is
 * "dynamic" with factor 1 at four times max_position_embeddings). */
static void test_scaled_frequencies(void **state)
{
    static const struct {
        const char *args;
        double attention_factor;
        struct {
            int i;
            double frequency;
        } pair[6];
    } known[] = {
        {"--kv-channels 128 --rotary-base 500000 --rope-scaling-type llama3 "
         "--rope-scaling-factor 8 --original-max-position-embeddings 8192",
         1,
         {{1, 0.81461722},
          {31, 0.00085675146},
          {32, 0.00052484602},
          {37, 6.3415144e-05},
          {48, 6.6478697e-06},
          {63, 3.0689259e-07}}},
        {"--kv-channels 128 --rotary-base 1000000 --rope-scaling-type yarn "
         "--rope-scaling-factor 4 --original-max-position-embeddings 32768",
         1.13862944,
         {{1, 0.80584222},
          {16, 0.031622779},
          {31, 0.00080295978},
          {32, 0.00060294115},
          {37, 0.00012993149},
          {63, 3.1023444e-07}}},
        {"--kv-channels 64 --rope-scaling-type yarn --rope-scaling-factor 16 "
         "--original-max-position-embeddings 4096 --rope-beta-fast 16 "
         "--rope-beta-slow 2",
         1.27725887,
         {{1, 0.7498942},
          {15, 0.0091679599},
          {16, 0.0058333334},
          {21, 0.00014821086},
          {24, 6.2500003e-05},
          {31, 8.3345094e-06}}},
        {"--kv-channels 128 --rotary-percent 0.5 --rope-scaling-type linear "
         "--rope-scaling-factor 4",
         1,
         {{0, 0.25},
          {1, 0.18747355},
          {8, 0.025},
          {15, 0.0033338037},
          {21, 0.00059284345},
          {31, 3.3338038e-05}}},
        {"--kv-channels 64 --rope-scaling-type ntk --rope-scaling-factor 4",
         1,
         {{0, 1},
          {1, 0.7170983},
          {8, 0.069924548},
          {16, 0.0048894426},
          {21, 0.00092715619},
          {31, 3.3338034e-05}}},
        {"--kv-channels 64 --rope-scaling-type yarn --rope-scaling-factor 1 "
         "--original-max-position-embeddings 4096 --rope-attention-factor 0.5",
         0.5,
         {{0, 1},
          {1, 0.7498942},
          {8, 0.1},
          {16, 0.01},
          {24, 0.001},
          {31, 1.3335214e-4}}},
    };

    (void)state;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        char args[512];
        double frequency[64];
        struct reading r;

        snprintf(args, sizeof args, "--position-embedding-type rope %s", known[k].args);
        r = resolve(args, 1);
        assert_fine(&r);
        mds_rope_frequencies(&r.run->config.model, frequency);
        for (int p = 0; p < 6; p++)
            assert_near(frequency[known[k].pair[p].i], known[k].pair[p].frequency);
        assert_near(mds_rope_attention_factor(&r.run->config.model),
                    known[k].attention_factor);
        close_reading(&r);
    }
}

static void test_unscaled_frequencies(void **state)
{
    struct reading r = resolve("--position-embedding-type rope --rotary-base 77", 1);
    double frequency[8];

    (void)state;
    assert_fine(&r);
    mds_rope_frequencies(&r.run->config.model, frequency);
    for (int i = 0; i < 8; i++)
        assert_true(frequency[i] == pow(77, -2 * (double)i / 16));
    assert_true(mds_rope_attention_factor(&r.run->config.model) == 1);
    close_reading(&r);
}

static void test_scaling_misfits(void **state)
{
    struct reading r;

    (void)state;
    expect_misfit("--rope-scaling-type linear --rope-scaling-factor 4", 1,
                  "--rope-scaling-type linear is for rotary positions");
    expect_misfit("--position-embedding-type rope --rope-scaling-type ntk", 1,
                  "ntk needs --rope-scaling-factor");
    expect_misfit("--position-embedding-type rope --use-rope-scaling "
                  "--rope-scaling-factor 8",
                  1, "llama3 needs --original-max-position-embeddings");
    expect_misfit("--position-embedding-type rope --rope-scaling-type yarn "
                  "--rotary-scaling-factor 8 --original-max-position-embeddings 64 "
                  "--rope-beta-slow 32",
                  1, "--rope-beta-slow 32 is not below --rope-beta-fast 32");
    expect_misfit("--position-embedding-type rope --rope-scaling-type yarn "
                  "--rope-scaling-factor 8 --original-max-position-embeddings 64 "
                  "--rotary-base 1",
                  1, "needs a base above 1");
    expect_misfit("--position-embedding-type rope --rope-scaling-type ntk "
                  "--rope-scaling-factor 2 --kv-channels 2",
                  1, "at least 4 rotating elements");
    r = resolve("--position-embedding-type rope --rope-scaling-factor 2", 1);
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "--rope-scaling-factor has no effect without");
    close_reading(&r);
}

/* Megatron's examples, and what is no list. */
static void test_layer_list(void **state)
{
    static const char *const bad[] = {"",
                                      "2",
                                      "[",
                                      "[2]",
                                      "[1,]",
                                      "[1]*",
                                      "[1]2",
                                      "([1]",
                                      "[1]+",
                                      "[1]*1000000",
                                      "((((((((([1])))))))))"};
    static const char want[] = "111011101110";
    int item = -1;

    (void)state;
    for (int64_t i = 0; i < 12; i++) {
        assert_int_equal(mds_layer_list("([1]*3+[0]*1)*3", i, &item), 12);
        assert_int_equal(item, want[i] - '0');
        assert_int_equal(mds_layer_list(" ( [0] * 1 + [1]*11 )", i, &item), 12);
        assert_int_equal(item, i > 0);
        assert_int_equal(mds_layer_list("[1,0,0]*3+[0]*0+[0,1,0]", i, &item), 12);
        assert_int_equal(item, i < 9 ? i % 3 == 0 : i == 10);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mds_layer_list(bad[i], 0, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_model_table, setup),
        cmocka_unit_test_setup(test_named_sizes, setup),
        cmocka_unit_test_setup(test_exact_params, setup),
        cmocka_unit_test_setup(test_derived_model, setup),
        cmocka_unit_test_setup(test_derived_batch, setup),
        cmocka_unit_test(test_layer_list),
        cmocka_unit_test(test_rampup),
        cmocka_unit_test(test_steps_of_sizes),
        cmocka_unit_test(test_steps_left),
        cmocka_unit_test_setup(test_derived_length, setup),
        cmocka_unit_test_setup(test_misfits, setup),
        cmocka_unit_test_setup(test_split, setup),
        cmocka_unit_test_setup(test_windows, setup),
        cmocka_unit_test_setup(test_impossible_windows, setup),
        cmocka_unit_test_setup(test_scaled_frequencies, setup),
        cmocka_unit_test_setup(test_unscaled_frequencies, setup),
        cmocka_unit_test_setup(test_scaling_misfits, setup),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
