/* SPDX-License-Identifier: BSD-3-Clause */
/* Predictions beside what was measured, and what they are made of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "comm/comm.h"
#include "config/options.h"
#include "kernels/attention_scratch.h"
#include "kernels/table.h"
#include "plan/layout.h"
#include "plan/network.h"
#include "plan/predict.h"
#include "plan/rates.h"

/* A configuration of these options, for so many ranks. */
static struct mds_config_run *read_run(const char *options, const char *more,
                                       int64_t world)
{
    static char text[1024];
    char *argv[64] = {text};
    struct mds_config_run *run = NULL;
    struct mds_diag diag = {0};
    int argc = 0;

    snprintf(
        text, sizeof text,
        "mds_pretrain --dry-run --train-iters 1 --bf16 --eval-iters 0 --lr 1e-4 %s %s",
        options, more);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    if (mds_config_read(argc, argv, &diag, &run) ||
        mds_config_resolve(run, world, &diag))
        fail_msg("%s: %s", more, mds_fail_text());
    mds_diag_fini(&diag);
    return run;
}

static struct mds_machine *machine(const char *name)
{
    struct mds_machine *m = NULL;
    struct mds_diag diag = {0};

    if (mds_machine_find(name, "", &diag, &m))
        fail_msg("%s", mds_fail_text());
    mds_diag_fini(&diag);
    return m;
}

/* An H200 whose attention is cuDNN 9.19's, as when steps were measured that predictions
 * are compared with: in hot loops on one H200, times 0.925, as in steps a GPU draws all
 * of its 700 W and clocks lower. */
static struct mds_machine *h200_with_cudnn(void)
{
    static const struct mds_attention_rate rates[] = {
        {64, 8192, 337e12, 290e12},    {64, 32768, 426e12, 381e12},
        {64, 131072, 441e12, 399e12},  {80, 8192, 305e12, 283e12},
        {80, 32768, 409e12, 350e12},   {80, 131072, 367e12, 344e12},
        {96, 8192, 374e12, 328e12},    {96, 32768, 480e12, 410e12},
        {96, 131072, 424e12, 400e12},  {128, 2048, 470e12, 418e12},
        {128, 8192, 485e12, 431e12},   {128, 32768, 619e12, 524e12},
        {128, 131072, 606e12, 500e12},
    };
    struct mds_machine *m = machine("h200");

    assert_true(m->attention_count >= sizeof rates / sizeof *rates);
    memcpy(m->attention, rates, sizeof rates);
    m->attention_count = sizeof rates / sizeof *rates;
    return m;
}

/* On a node of so many GPUs, with 14 cores for each. */
static struct mds_estimate predict(const char *options, const char *more, int world)
{
    struct mds_config_run *run = read_run(options, more, world);
    struct mds_machine *m = h200_with_cudnn();
    struct mds_estimate e;

    m->node.cores = 14 * (int64_t)world;
    if (mds_predict(&run->config, world, world, m, &e))
        fail_msg("%s: %s", more, mds_fail_text());
    mds_machine_destroy(m);
    mds_config_run_destroy(run);
    return e;
}

static const char gpt6_7b[] =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
    "--vocab-size 50257 --micro-batch-size 4 --global-batch-size 16";
static const char gpt6_7b_64k[] =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 65536 "
    "--vocab-size 50257 --micro-batch-size 1 --global-batch-size 1 --loss-tile 0";
static const char gpt6_7b_32k[] =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 32768 "
    "--vocab-size 50257 --micro-batch-size 1 --global-batch-size 4";
static const char gpt13b[] =
    "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 8192 "
    "--vocab-size 50257 --micro-batch-size 1 --global-batch-size 4";
static const char gpt13b_long[] =
    "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --vocab-size 50257 "
    "--use-rotary-position-embeddings --zero-stage 3 --recompute-granularity selective";
static const char short13b[] = "--seq-length 2048 --micro-batch-size 8 "
                               "--global-batch-size 32 "
                               "--recompute-modules layernorm,mlp_act";
static const char long13b[] = "--seq-length 262144 --micro-batch-size 1 "
                              "--global-batch-size 1 --ds-sequence-parallel-size 4 "
                              "--sequence-tile 16384";
static const char gpt25b[] =
    "--num-layers 64 --hidden-size 6144 --num-attention-heads 64 --seq-length 131072 "
    "--vocab-size 50257 --micro-batch-size 1 --global-batch-size 1 "
    "--use-rotary-position-embeddings --sequence-tile 16384";
static const char again[] = "--zero-stage 2 --recompute-granularity selective "
                            "--recompute-modules layernorm,mlp_act";
static const char again_5_leave[] =
    "--zero-stage 2 --recompute-granularity selective "
    "--recompute-modules layernorm,mlp_act --cpu-offloading-num-layers 5";
static const char gpt1_3b[] =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50257";
static const char genome[] =
    "--num-layers 20 --hidden-size 1024 --num-attention-heads 8 --seq-length 1645568 "
    "--vocab-size 70 --micro-batch-size 1 --global-batch-size 1 "
    "--use-rotary-position-embeddings --sequence-tile 8192";

/* Runs of a few blocks and micro-batches say what the step as it is does. */
static void extrapolated_runs_match_full_ones(void **state)
{
    static const char *const options[] = {
        "--ds-sequence-parallel-size 4 --zero-stage 3 --recompute-granularity full",
        "--tensor-model-parallel-size 4 --sequence-parallel --zero-stage 1 "
        "--recompute-granularity full --sequence-tile 4096 --activation-memory "
        "attention=7",
        "--tensor-model-parallel-size 4 --sequence-parallel --recompute-granularity "
        "full --sequence-tile 4096 --cpu-checkpointing --activation-memory inputs=9",
        "--recompute-granularity full --sequence-tile 4096 --cpu-checkpointing "
        "--activation-memory inputs=22 --cpu-optimizer",
        "--zero-stage 3 --recompute-granularity full --checkpoint-num-layers 4 "
        "--cpu-checkpointing --offload-device cpu",
        "--zero-stage 3 --recompute-granularity selective --offload-device cpu "
        "--offload-param-device cpu",
        "--pipeline-model-parallel-size 2 --num-layers 31 --zero-stage 1 "
        "--global-batch-size 50",
        "--pipeline-model-parallel-size 4 --global-batch-size 63 --offload-device cpu",
        "--zero-stage 3 --recompute-granularity full --window-size 4096 "
        "--window-attn-skip-freq 6",
        "--tensor-model-parallel-size 2 --zero-stage 1 --optimizer muon",
        "--pipeline-model-parallel-size 2 --num-layers 44 --optimizer muon",
    };

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct mds_config_run *run = read_run(gpt6_7b_32k, options[i], 4);
        struct mds_machine *m = machine("h200");
        struct mds_estimate full, extrapolated, bound;
        const struct mds_config *c = &run->config;

        assert_int_equal(mds_predict(c, 4, 4, m, &full), MDS_OK);
        assert_int_equal(
            mds_predict_as(MDS_PREDICT_EXTRAPOLATED, c, 4, 4, m, &extrapolated),
            MDS_OK);
        assert_int_equal(mds_predict_as(MDS_PREDICT_LOWER_BOUND, c, 4, 4, m, &bound),
                         MDS_OK);
        assert_true(extrapolated.extrapolated && !full.extrapolated);
        assert_true(fabs(extrapolated.step_s / full.step_s - 1) < 1.5e-3);
        assert_true(fabs((double)extrapolated.device_bytes / (double)full.device_bytes -
                         1) < 2e-3);
        assert_true(llabs(extrapolated.host_bytes - full.host_bytes) <=
                    full.host_bytes / 200);
        assert_true(bound.device_bytes <= full.device_bytes);
        mds_machine_destroy(m);
        mds_config_run_destroy(run);
    }
}

/* Gathers and reductions go around a ring of nodes: with 160 times as many ranks each
 * message is short, and there are 160 times as many behind each other. */
static void rings_over_many_nodes_are_slow(void **state)
{
    static const int worlds[] = {128, 20480};
    double data_s[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        char more[128];
        struct mds_config_run *run;
        struct mds_machine *m = machine("polaris");
        struct mds_estimate e;
        double gathers_s;

        snprintf(more, sizeof more, "--zero-stage 3 --global-batch-size %d", worlds[i]);
        run = read_run("--num-layers 8 --hidden-size 4096 --num-attention-heads 32 "
                       "--seq-length 2048 --vocab-size 50257 --micro-batch-size 1",
                       more, worlds[i]);
        run->config.train.overlap_grad_reduce = 0;
        assert_int_equal(mds_predict(&run->config, worlds[i], 4, m, &e), MDS_OK);
        data_s[i] = e.data_s;
        /* Two gathers and a reduction of a block. */
        gathers_s = 3 * 8 * (worlds[i] / 4 - 1) * m->links.latency_s;
        assert_true(e.data_s > gathers_s);
        mds_machine_destroy(m);
        mds_config_run_destroy(run);
    }
    assert_true(data_s[1] > 2 * data_s[0]);
}

/* The embedding in f32: the tensor itself, what a rank has of its unit, and where the
 * ranks have shares, these. */
static void exported_weights_pass_through_the_host(void **state)
{
    const char *export = "--zero-stage 0 --export-weights w.st";
    const char *export_tensor = "--tensor-model-parallel-size 2 --export-weights w.st";
    const int64_t words = 50304, shared_words = 50432, word = INT64_C(4) * 4096;
    int64_t bare = predict(gpt6_7b, "--zero-stage 0", 2).host_bytes;

    (void)state;
    assert_int_equal(predict(gpt6_7b, export, 2).host_bytes - bare, 2 * words * word);
    bare = predict(gpt6_7b, "--tensor-model-parallel-size 2", 2).host_bytes;
    assert_int_equal(predict(gpt6_7b, export_tensor, 2).host_bytes - bare,
                     (2 * shared_words + shared_words / 2) * word);
}

/* Auto takes the first level that fits: a later one where there is less memory, and the
 * last where none fits. */
static void less_memory_selects_a_higher_level(void **state)
{
    struct mds_config_run *run =
        read_run(gpt1_3b,
                 "--seq-length 65536 --micro-batch-size 1 --global-batch-size 1 "
                 "--use-rotary-position-embeddings --activation-memory auto",
                 1);
    struct mds_machine *m = machine("h200");
    struct mds_estimate e;
    int level = 0, last = -1, chosen = 0;

    (void)state;
    m->node.memory = INT64_C(1) << 40;
    for (int64_t gib = 256; gib > 8; gib -= gib / 8) {
        struct mds_config c = run->config, before;

        m->gpu.memory = gib << 30;
        assert_int_equal(mds_predict_level(&c, 1, 1, m, &e, &level), MDS_OK);
        assert_true(level >= last);
        chosen += level > last;
        last = level;
        if (!e.fits || level == 0)
            continue;
        before = run->config; /* the level before it was too much */
        level--;
        assert_true(mds_config_next_level(&run->config, &level, &before));
        assert_int_equal(mds_predict(&before, 1, 1, m, &e), MDS_OK);
        assert_false(e.fits);
    }
    assert_true(chosen >= 4);
    assert_int_equal(last, MDS_ACT_LEVELS - 1);
    assert_false(e.fits);
    mds_machine_destroy(m);
    mds_config_run_destroy(run);
}

/* What a communicator of four ranks holds, used or not: the world and the ring had
 * one when the layouts of four GPUs were measured, and have none now. */
static const double world_gib = 204.0 / 1024;

/* Attention's result and log-sum-exp of one pass, of 2 of the genome's 8 heads: taken
 * when it was measured, and since then not where each block keeps its own. */
static const double pass_gib = 1645568.0 * 2 * (128 * 2 + 4) / (1 << 30);

/* With full recompute, 32,768 tokens a GPU, width 4096, 16 bits: two vectors a token
 * that a block took when it was measured, and since then not.  (In a ring the peak is
 * in attention, and is the same.) */
static const double vectors_gib = 2.0 * 32768 * 4096 * 2 / (1 << 30);

/* The fullest GPU as nvidia-smi counts: bench/results of 2026-11-21 to 23.  Layouts
 * whose memory has changed since are left out. */
static void predicted_memory_matches_h200(void **state)
{
    static const struct {
        const char *model, *layout;
        int gpus;
        double gib;
    } runs[] = {
        {gpt6_7b, "--zero-stage 1", 4, 90.650 - world_gib},
        {gpt6_7b, "--tensor-model-parallel-size 4 --sequence-parallel", 4,
         38.180 - world_gib},
        {genome,
         "--ds-sequence-parallel-size 4 --zero-stage 1 "
         "--recompute-granularity selective",
         4, 44.9 - world_gib - pass_gib},
        {gpt6_7b, "--zero-stage 3 --recompute-granularity full", 2, 63.914},
        {gpt6_7b, "--tensor-model-parallel-size 2 --sequence-parallel", 2, 73.996},
        {gpt6_7b, "--pipeline-model-parallel-size 2", 2, 92.359},
        {gpt6_7b_64k,
         "--ds-sequence-parallel-size 2 --zero-stage 3 --recompute-granularity full", 2,
         77.383 - vectors_gib},
        {gpt6_7b_64k,
         "--context-parallel-size 2 --zero-stage 3 --recompute-granularity full", 2,
         79.059},
        {gpt1_3b, "--seq-length 2048 --micro-batch-size 8 --global-batch-size 8", 1,
         48.6},
        {gpt1_3b, "--seq-length 32768 --micro-batch-size 1 --global-batch-size 1", 1,
         74.2},
        {gpt6_7b_32k, again, 4, 125.06},
        {gpt6_7b_32k,
         "--tensor-model-parallel-size 2 --sequence-parallel --zero-stage 2", 4,
         100.89},
        {gpt13b, "--zero-stage 2", 4, 128.3},
        {gpt13b, again, 4, 109.5},
        {gpt6_7b_32k, again_5_leave, 4, 112.6},
        {gpt13b_long, short13b, 4, 125.3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct mds_estimate e = predict(runs[i].model, runs[i].layout, runs[i].gpus);
        double gib = (double)e.device_bytes / (1 << 30);

        if (fabs(gib / runs[i].gib - 1) > 0.005)
            fail_msg("%s: %.3f GiB, measured %.3f", runs[i].layout, gib, runs[i].gib);
    }
}

/* Seconds of a step, the same runs; layouts whose engine has changed since are left
 * out.  A ring's short pieces are slower than the profile's attention, stages that idle
 * clock higher. */
static void predicted_time_matches_h200(void **state)
{
    static const struct {
        const char *model, *layout;
        int gpus;
        double s, error;
    } runs[] = {
        {gpt1_3b, "--seq-length 2048 --micro-batch-size 8 --global-batch-size 8", 1,
         0.249, 0.03},
        {gpt1_3b, "--seq-length 32768 --micro-batch-size 1 --global-batch-size 1", 1,
         1.099, 0.03},
        {gpt1_3b,
         "--seq-length 2048 --micro-batch-size 8 --global-batch-size 8 --cpu-optimizer",
         1, 0.543, 0.03},
        {gpt6_7b, "--zero-stage 1", 4, 0.5916, 0.03},
        {gpt6_7b, "--zero-stage 3 --recompute-granularity full", 4, 0.7411, 0.03},
        {gpt6_7b,
         "--ds-sequence-parallel-size 4 --zero-stage 3 --recompute-granularity full", 4,
         1.041, 0.03},
        {gpt6_7b,
         "--context-parallel-size 4 --zero-stage 3 --recompute-granularity full", 4,
         1.541, 0.08},
        {gpt6_7b, "--zero-stage 1", 2, 1.177, 0.03},
        {gpt6_7b, "--zero-stage 3 --recompute-granularity full", 2, 1.490, 0.03},
        {gpt6_7b, "--tensor-model-parallel-size 2 --sequence-parallel", 2, 1.365, 0.06},
        {gpt6_7b,
         "--ds-sequence-parallel-size 2 --zero-stage 3 --recompute-granularity full", 2,
         1.746, 0.03},
        {gpt6_7b,
         "--context-parallel-size 2 --zero-stage 3 --recompute-granularity full", 2,
         1.970, 0.03},
        {gpt6_7b, "--pipeline-model-parallel-size 2", 2, 1.455, 0.03},
        {gpt6_7b_64k,
         "--ds-sequence-parallel-size 2 --zero-stage 3 --recompute-granularity full", 2,
         7.520, 0.03},
        {gpt6_7b_64k,
         "--tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity "
         "full",
         2, 7.598, 0.03},
        {gpt6_7b_64k,
         "--context-parallel-size 2 --zero-stage 3 --recompute-granularity full", 2,
         7.951, 0.05},
        {gpt6_7b_64k, "--pipeline-model-parallel-size 2 --recompute-granularity full",
         2, 13.82, 0.05},
        {genome,
         "--ds-sequence-parallel-size 4 --zero-stage 1 "
         "--recompute-granularity selective",
         4, 187.4, 0.03},
        /* read after the profile's rates had been fitted to those above */
        {gpt6_7b_32k, again, 4, 3.991, 0.03},
        {gpt6_7b_32k,
         "--tensor-model-parallel-size 2 --sequence-parallel --zero-stage 2", 4, 4.221,
         0.03},
        {gpt13b, "--zero-stage 2", 4, 1.280, 0.03},
        {gpt13b, again, 4, 1.287, 0.03},
        {gpt13b_long, short13b, 4, 2.309, 0.03},
        {gpt13b_long, long13b, 4, 58.91, 0.03},
        {gpt25b,
         "--ds-sequence-parallel-size 4 --zero-stage 3 --cpu-optimizer "
         "--recompute-granularity selective",
         4, 41.52, 0.03},
        {gpt6_7b_32k, again_5_leave, 4, 4.048, 0.03},
    };

    int printing = getenv("PREDICT_PRINT") != NULL;

    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct mds_estimate e = predict(runs[i].model, runs[i].layout, runs[i].gpus);
        double error = e.step_s / runs[i].s - 1;

        if (printing)
            printf("# %8.4f s, measured %8.4f, %+6.1f %%: compute %.4f, tensor %.4f, "
                   "sequence %.4f, data %.4f, pipeline %.4f, host %.4f, idle %.4f: %d "
                   "GPUs, %.60s %s\n",
                   e.step_s, runs[i].s, 100 * error, e.compute_s, e.tensor_s,
                   e.sequence_s, e.data_s, e.pipeline_s, e.host_s, e.idle_s,
                   runs[i].gpus, runs[i].model, runs[i].layout);
        else if (fabs(error) > runs[i].error)
            fail_msg("%s: %.4g s, measured %.4g", runs[i].layout, e.step_s, runs[i].s);
    }
}

/* Of six blocks the stages in the middle have two, the first and the last one: memory
 * and time are those of four times two, but for an embedding and a micro-batch. */
/* Seconds of a step and GiB on the GPU, FP8 beside bf16, one H200:
 * bench/results/gpu-2026-11-24.txt.  Since then blocks in FP8 run by lists, and
 * need up to two vectors a token less. */
static void fp8_matches_h200(void **state)
{
    static const char bf16[] = "", fp8[] = "--fp8-format hybrid",
                      no_wgrad[] = "--fp8-format hybrid --no-fp8-wgrad";
    static const struct {
        int64_t layers, hidden, heads, tokens, sequences;
        const char *options;
        double s, gib;
    } runs[] = {
        {24, 2048, 16, 2048, 8, bf16, 0.2427, 48.6},
        {24, 2048, 16, 2048, 8, fp8, 0.1846, 44.1},
        {8, 4096, 32, 2048, 8, bf16, 0.3033, 49.5},
        {8, 4096, 32, 2048, 8, fp8, 0.2117, 46.5},
        {8, 4096, 32, 2048, 8, no_wgrad, 0.2451, 49.5},
        {8, 5120, 40, 8192, 1, bf16, 0.2700, 59.1},
        {8, 5120, 40, 8192, 1, fp8, 0.1952, 57.2},
        {24, 2048, 16, 32768, 1, bf16, 1.0848, 74.5},
        {24, 2048, 16, 32768, 1, fp8, 0.9592, 65.5},
        {8, 2048, 16, 131072, 1, bf16, 4.1704, 82.6},
        {8, 2048, 16, 131072, 1, fp8, 4.0039, 72.6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char model[256];
        struct mds_estimate e;
        double gib;

        snprintf(model, sizeof model,
                 "--num-layers %d --hidden-size %d --num-attention-heads %d "
                 "--seq-length %d --micro-batch-size %d --global-batch-size %d "
                 "--vocab-size 50257",
                 (int)runs[i].layers, (int)runs[i].hidden, (int)runs[i].heads,
                 (int)runs[i].tokens, (int)runs[i].sequences, (int)runs[i].sequences);
        e = predict(model, runs[i].options, 1);
        gib = (double)e.device_bytes / (1 << 30);
        if (fabs(e.step_s / runs[i].s - 1) > 0.06 || gib > 1.007 * runs[i].gib ||
            gib < 0.985 * runs[i].gib)
            fail_msg("%s %s: %.4f s, measured %.4f; %.2f GiB, measured %.1f", model,
                     runs[i].options, e.step_s, runs[i].s, gib, runs[i].gib);
    }
}

static double attention_s(struct mds_machine *m, const char *options, int backward)
{
    struct mds_config_run *run = read_run(
        "--seq-length 131072 --vocab-size 66 --global-batch-size 1", options, 1);
    const struct mds_model_config *model = &run->config.model;
    struct mdsk_attention_fwd fwd = {.shape = {.B = 1,
                                               .Sq = model->seq_length,
                                               .Sk = model->seq_length,
                                               .A = model->heads,
                                               .G = model->heads,
                                               .D = model->head_dim}};
    struct mds_rates rates = {.machine = m,
                              .config = &run->config,
                              .flops = mds_flops_model_of(&run->config)};
    double s = 0;

    for (int64_t i = 0; i < model->layers; i++) {
        fwd.shape.window = mds_model_window(model, i);
        s += mds_rates_attention_s(
            &rates, &fwd.shape,
            (backward ? 2.5 : 1) * mdsk_attention_fwd_cost(&fwd).flops, backward);
    }
    mds_config_run_destroy(run);
    return s;
}

struct window_row {
    const char *options;
    double measured_s[2]; /* forward, backward */
};

static void match_windows(struct mds_machine *m, const struct window_row *rows, int n)
{
    const double tolerance = 0.12;

    for (int i = 0; i < n; i++)
        for (int backward = 0; backward < 2; backward++) {
            double ratio = attention_s(m, rows[i].options, backward) /
                           rows[i].measured_s[backward];

            if (fabs(ratio - 1) > tolerance)
                fail_msg("%s, %s: %.3f of what was measured", rows[i].options,
                         backward ? "backward" : "forward", ratio);
        }
    mds_machine_destroy(m);
}

/* By cuDNN, as on other GPUs.  Source: bench/kernels in
 * bench/results/gpu-2026-11-24.txt. */
static void attention_in_windows_by_cudnn_matches_h200(void **state)
{
    static const struct window_row rows[] = {
        {"--num-layers 1 --num-attention-heads 16 --hidden-size 2048 "
         "--window-size 8192",
         {0.01540, 0.08766}},
        {"--num-layers 1 --num-attention-heads 16 --hidden-size 2048 "
         "--window-size 1024",
         {0.00234, 0.01764}},
        {"--num-layers 1 --num-attention-heads 32 --hidden-size 4096 "
         "--window-size 1024",
         {0.00502, 0.03267}},
        {"--num-layers 1 --num-attention-heads 16 --hidden-size 1024 "
         "--window-size 8192",
         {0.01017, 0.05459}}, /* gpu-2026-11-23.txt */
    };
    struct mds_machine *m = h200_with_cudnn();

    (void)state;
    m->gpu.capability = 8.0;
    match_windows(m, rows, sizeof rows / sizeof *rows);
}

/* By our own kernels.  Source: bench/results/hopper-fa4-2026-11-26.txt. */
static void attention_in_windows_matches_h100(void **state)
{
    static const struct window_row rows[] = {
        {"--num-layers 1 --num-attention-heads 16 --hidden-size 2048 "
         "--window-size 8192",
         {0.01367, 0.03861}},
        {"--num-layers 1 --num-attention-heads 16 --hidden-size 2048 "
         "--window-size 1024",
         {0.002254, 0.007255}},
    };

    (void)state;
    match_windows(machine("h100"), rows, sizeof rows / sizeof *rows);
}

static void each_layer_has_the_time_of_its_own_window(void **state)
{
    static const char both[] = "--num-layers 6 --num-attention-heads 16 --hidden-size "
                               "2048 --window-size 8192 --window-attn-skip-freq 3",
                      local[] = "--num-layers 4 --num-attention-heads 16 --hidden-size "
                                "2048 --window-size 8192",
                      global[] = "--num-layers 2 --num-attention-heads 16 "
                                 "--hidden-size 2048";

    struct mds_machine *m = machine("h200");

    (void)state;
    for (int i = 0; i < 4; i++) {
        int backward = i % 2;
        double parts;

        m->gpu.capability = i < 2 ? 9.0 : 8.0;
        parts = attention_s(m, local, backward) + attention_s(m, global, backward);
        assert_true(fabs(attention_s(m, both, backward) / parts - 1) < 1e-3);
    }
    mds_machine_destroy(m);
}

static void middle_stages_are_predicted(void **state)
{
    static const char four[] =
        "--hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --vocab-size 66 "
        "--micro-batch-size 1 --global-batch-size 8 "
        "--pipeline-model-parallel-size 4 --num-layers";
    struct mds_estimate six = predict(four, "6", 4), eight = predict(four, "8", 4);

    (void)state;
    assert_true((double)six.memory.total_peak > 0.9 * (double)eight.memory.total_peak);
    assert_true(six.compute_s > 0.95 * eight.compute_s);
    assert_true(six.step_s <= eight.step_s);
}

/* Behind products of other chunks a little of a message hides; short ones do not gain
 * by it, and are not cut. */
static void chunked_messages_overlap(void **state)
{
    static const char four[] =
        "--tensor-model-parallel-size 4 --sequence-parallel --micro-batch-size 8";
    struct mds_estimate full, two, as_it_is, tiled;
    char words[256];

    (void)state;
    snprintf(words, sizeof words, "%s --tp-comm-chunks 1", four);
    full = predict(gpt6_7b, words, 4);
    snprintf(words, sizeof words, "%s --tp-comm-chunks 2", four);
    two = predict(gpt6_7b, words, 4);
    as_it_is = predict(gpt6_7b, four, 4);
    snprintf(words, sizeof words,
             "%s --recompute-granularity full --sequence-tile 4096", four);
    tiled = predict(gpt6_7b, words, 4);
    assert_true(two.tensor_s < full.tensor_s);
    assert_true(two.tensor_s > 0.85 * full.tensor_s);
    assert_true(as_it_is.tensor_s == two.tensor_s && as_it_is.step_s < full.step_s);
    assert_true(tiled.tensor_s > two.tensor_s);
}

static const char on_host[] =
    "--seq-length 2048 --micro-batch-size 1 --global-batch-size 8 --cpu-optimizer";

/* The host's update hides behind the next step's first forward pass, no more: with more
 * micro-batches that is shorter, though the step is as long.  Of states in a file 24
 * bytes a weight pass the disk, at 2 GB/s unless a profile says more.  Muon's states
 * come to the device and go back, 16 bytes a weight, with nothing beside it. */
static void the_host_update_overlaps_in_part(void **state)
{
    struct mds_estimate one, eight, files, muon;

    (void)state;
    one = predict(gpt1_3b,
                  "--seq-length 2048 --micro-batch-size 8 --global-batch-size 8 "
                  "--cpu-optimizer",
                  1);
    eight = predict(gpt1_3b, on_host, 1);
    files = predict(gpt1_3b,
                    "--seq-length 2048 --micro-batch-size 8 --global-batch-size 8 "
                    "--offload-device nvme --nvme-path /tmp",
                    1);
    assert_true(one.host_s > 0.25 && one.host_s < 0.33);
    assert_true(eight.host_s > one.host_s + 0.05);
    muon = predict(gpt1_3b,
                   "--seq-length 2048 --micro-batch-size 8 --global-batch-size 8 "
                   "--cpu-optimizer --optimizer muon",
                   1);
    assert_true(files.host_s > 15.5 && files.host_s < 16);
    assert_true(muon.host_s > 0.15 && muon.host_s < 0.25);
}

/* Nothing for a lone rank, nor without collectives of device memory; connections cost
 * where there are peers, and few of them where peers are on other nodes. */
static void nccl_buffers_grow_with_peers(void **state)
{
    const struct mds_comm_channels n = {24, 32};
    struct mds_comm *alone, *eight;
    char in[8], out[8];
    int64_t idle, near, far;

    (void)state;
    assert_int_equal(mds_comm_create_dry(0, 1, "alone", &alone), MDS_OK);
    assert_int_equal(mds_comm_create_dry(0, 8, "eight", &eight), MDS_OK);
    assert_int_equal(mds_comm_add_collectives(alone), MDS_OK);
    assert_int_equal(mds_comm_nccl_bytes(alone, 1, n), 0);
    assert_int_equal(mds_comm_nccl_bytes(eight, 8, n), 0);
    assert_int_equal(mds_comm_add_collectives(eight), MDS_OK);
    idle = mds_comm_nccl_bytes(eight, 8, n);
    assert_int_equal(idle, (INT64_C(8) + 4 + 32 * 6) << 20);
    assert_int_equal(mds_comm_all_to_all(eight, in, out, 1), MDS_OK);
    near = mds_comm_nccl_bytes(eight, 8, n) - idle;
    far = mds_comm_nccl_bytes(eight, 1, n) - idle;
    assert_int_equal(near, INT64_C(7) * 32 * 12 << 20);
    assert_int_equal(far, INT64_C(2) * 32 * 2 << 20);
    mds_comm_destroy(eight);
    mds_comm_destroy(alone);
}

/* Two ranks a node, and 1 GB/s between nodes: what a rank's messages of 1 GB take in a
 * group of eight, and in one of four that shares the nodes with another. */
static void groups_share_the_links_of_nodes(void **state)
{
    static const struct {
        enum mds_comm_kind kind;
        int direct;
        struct mds_rank_span span;
        double s;
    } rows[] = {
        {MDS_COMM_SEND, 0, {8, 1}, 1},
        {MDS_COMM_SEND, 1, {4, 2}, 2},
        {MDS_COMM_ALL_REDUCE, 0, {8, 1}, 1},
        {MDS_COMM_ALL_REDUCE, 0, {4, 2}, 2},
        {MDS_COMM_ALL_REDUCE, 1, {8, 1}, 2 * 6.0 / 7},
        {MDS_COMM_ALL_REDUCE, 1, {4, 2}, 2},
        {MDS_COMM_ALL_TO_ALL, 0, {8, 1}, 2 * 6.0 / 7},
        {MDS_COMM_ALL_TO_ALL, 1, {4, 2}, 2},
        {MDS_COMM_ALL_TO_ALL, 0, {2, 1}, 0.1},
    };
    struct mds_machine *m = machine("h200");

    (void)state;
    m->links.gpu_bytes_s = m->links.pair_bytes_s = 1e10;
    m->links.net_bytes_s = 1e9;
    m->links.latency_s = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mds_network net = {m, 2, rows[i].direct};
        double s = mds_network_call_s(&net, rows[i].span, rows[i].kind, 1000000000);

        assert_true(fabs(s - rows[i].s) < 1e-9);
    }
    mds_machine_destroy(m);
}

/* Heads are taken together while their sums of dq stay within a GiB. */
static void attention_backward_is_split_by_scratch(void **state)
{
    struct mdsk_attention_bwd a = {.shape = {.B = 2,
                                             .A = 8,
                                             .G = 4,
                                             .Sq = 1 << 18,
                                             .Sk = 1 << 18,
                                             .D = 128,
                                             .dtype = MDSK_BF16}};
    struct mdsk_attention_part p;

    (void)state;
    a.o = a.d_o = (struct mdsk_heads){NULL, (8 * 128) << 18, 8 * 128, 128};
    p = mdsk_attention_bwd_part(&a, INT64_C(4) * 128 << 18);
    assert_int_equal(p.B, 1);
    assert_int_equal(p.A, 8);
    assert_int_equal(p.copies, 0);
    assert_int_equal(mdsk_attention_bwd_cudnn_scratch(&a), INT64_C(8) * (4 * 128 + 8)
                                                               << 18);
    assert_int_equal(mdsk_attention_bwd_scratch(&a), INT64_C(8) * (4 * 128 + 8) << 18);
    a.shape.Sq = a.shape.Sk = (1 << 20) - 1024; /* a group of two heads */
    p = mdsk_attention_bwd_part(&a, INT64_C(4) * 128 << 20);
    assert_int_equal(p.A, 2);
    assert_int_equal(p.copies, 0);
    a.dq = (struct mdsk_heads){NULL, 0, 4 * 8 * 128, 128};
    p = mdsk_attention_bwd_part(&a, INT64_C(4) * 128 << 20);
    assert_int_equal(p.copies, 1);
    a.dq = (struct mdsk_heads){0};
    a.shape.Sq = a.shape.Sk = 1 << 22; /* offsets exceed 32 bits */
    p = mdsk_attention_bwd_part(&a, INT64_C(4) * 128 << 22);
    assert_int_equal(p.A, 2);
    assert_int_equal(p.copies, 1);
    assert_int_equal(mdsk_attention_bwd_scratch(&a), INT64_C(2) * (10 * 128 + 8) << 22);
    a.shape.dtype = MDSK_F32;
    assert_int_equal(mdsk_attention_bwd_scratch(&a), 0);
}

/* Hopper's kernels: whole tiles of queries, heads of 64, 128 or no elements. */
static void attention_backward_on_hopper(void **state)
{
    struct mdsk_attention_shape s = {
        .B = 1, .A = 1, .G = 1, .Sq = 65, .Sk = 65, .D = 40, .dtype = MDSK_F16};

    (void)state;
    assert_int_equal(mdsk_attention_bwd_hopper_head(&s), 4 * (128 * (64 + 3) + 4));
    s.D = 72;
    assert_int_equal(mdsk_attention_bwd_hopper_head(&s), 2 * 4 * (64 * (128 + 3) + 4));
    s.D = 136; /* dq is not summed in memory */
    assert_int_equal(mdsk_attention_bwd_hopper_head(&s), 2 * 4 * (64 * 3 + 4));
    s.D = 264;
    assert_int_equal(mdsk_attention_bwd_hopper_head(&s), 0);
    s.D = 68;
    assert_int_equal(mdsk_attention_bwd_hopper_head(&s), 0);
    s.D = 128; /* they take more than cuDNN does */
    assert_int_equal(
        mdsk_attention_bwd_scratch(&(struct mdsk_attention_bwd){.shape = s}),
        mdsk_attention_bwd_hopper_head(&s));
}

/* The longest sequence for which the model table says that a layout is known to be good
 * does fit on each machine with such GPUs; there is no row for a longer one. */
static void rows_of_the_model_table_fit(void **state)
{
    static const struct {
        const char *model, *machine;
        int ranks;
        int64_t seq;
    } rows[] = {
        {"GPT1_7B", "polaris", 32, 0},         {"GPT7_5B", "thetagpu", 128, 0},
        {"GPT13B", "polaris", 32, 64000},      {"GPT13B", "dgx2", 32, 256000},
        {"GPT13B", "dgx2", 128, 2048},         {"GPT25B", "polaris", 32, 192000},
        {"GPT25B", "polaris", 64, 448000},     {"GPT25B", "thetagpu", 64, 448000},
        {"GPT25B", "dgx2", 32, 256000},        {"GPT25B", "dgx2", 64, 448000},
        {"GPT33B", "polaris", 32, 128000},     {"GPT33B", "thetagpu", 64, 384000},
        {"GPT33B", "dgx2", 32, 256000},        {"GPT33B", "dgx2", 64, 384000},
        {"GPT25B_5760", "polaris", 16, 64000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mds_machine *m = machine(rows[i].machine);
        struct mds_config_run *run;
        struct mds_layout_row row;
        struct mds_diag diag = {0};
        struct mds_estimate e;
        struct mds_config c;
        char key[64];

        snprintf(key, sizeof key, "--model-size-key %s", rows[i].model);
        run = read_run(key, "", 1);
        run->config.model.seq_length = rows[i].seq ? rows[i].seq : 2048;
        run->config.model.max_positions = 0;
        if (!mds_layout_find(run, m->gpu.kind, rows[i].ranks, &diag, &row))
            fail_msg("no row for %s on %d %s", rows[i].model, rows[i].ranks,
                     m->gpu.kind);
        if (mds_layout_apply(run, &row.layout, rows[i].ranks, &c) ||
            mds_predict(&c, rows[i].ranks, (int)m->node.gpus, m, &e))
            fail_msg("%s: %s", row.origin, mds_fail_text());
        if (!e.fits)
            fail_msg("%s does not fit on %s", row.origin, m->name);
        run->config.model.seq_length += 1000;
        assert_true(!rows[i].seq ||
                    !mds_layout_find(run, m->gpu.kind, rows[i].ranks, &diag, &row));
        mds_diag_fini(&diag);
        mds_config_run_destroy(run);
        mds_machine_destroy(m);
    }
}

/* What five of 24 blocks keep goes to the host and comes back behind the computing, of
 * which a little more is made again; of 18, 11 GiB each way, it does not, whatever goes
 * there besides; nor where a block is a fourth of what there is to hide behind. */
static void offload_overlaps_in_part(void **state)
{
    static const char run[] = "--seq-length 2048 --micro-batch-size 8 "
                              "--global-batch-size 16";
    struct mds_estimate stay = predict(gpt1_3b, run, 1), leave, more;
    char options[256];

    (void)state;
    snprintf(options, sizeof options, "%s --cpu-offloading-num-layers 5", run);
    leave = predict(gpt1_3b, options, 1);
    assert_true(leave.host_s < 1e-4 && leave.step_s > stay.step_s);
    assert_true(leave.step_s < 1.01 * stay.step_s);
    snprintf(options, sizeof options, "%s --cpu-offloading-num-layers 18", run);
    more = predict(gpt1_3b, options, 1);
    assert_true(more.host_s > 0.4 && more.host_s < 0.5);
    assert_int_equal(5 * (stay.device_bytes - more.device_bytes),
                     18 * (stay.device_bytes - leave.device_bytes));
    assert_int_equal(5 * more.host_bytes, 18 * leave.host_bytes);
    snprintf(options, sizeof options, "%s --cpu-optimizer", run);
    stay = predict(gpt1_3b, options, 1);
    snprintf(options, sizeof options, "%s --cpu-optimizer %s", run,
             "--cpu-offloading-num-layers 18");
    leave = predict(gpt1_3b, options, 1);
    assert_true(leave.host_s > fmax(stay.host_s, more.host_s));
    assert_true(leave.host_s < 1.2 * (stay.host_s + more.host_s));
    snprintf(options, sizeof options, "%s --pipeline-model-parallel-size 6 %s", run,
             "--cpu-offloading-num-layers 2");
    assert_true(predict(gpt1_3b, options, 6).host_s > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extrapolated_runs_match_full_ones),
        cmocka_unit_test(rings_over_many_nodes_are_slow),
        cmocka_unit_test(less_memory_selects_a_higher_level),
        cmocka_unit_test(predicted_memory_matches_h200),
        cmocka_unit_test(exported_weights_pass_through_the_host),
        cmocka_unit_test(predicted_time_matches_h200),
        cmocka_unit_test(fp8_matches_h200),
        cmocka_unit_test(attention_in_windows_by_cudnn_matches_h200),
        cmocka_unit_test(attention_in_windows_matches_h100),
        cmocka_unit_test(each_layer_has_the_time_of_its_own_window),
        cmocka_unit_test(rows_of_the_model_table_fit),
        cmocka_unit_test(middle_stages_are_predicted),
        cmocka_unit_test(chunked_messages_overlap),
        cmocka_unit_test(the_host_update_overlaps_in_part),
        cmocka_unit_test(offload_overlaps_in_part),
        cmocka_unit_test(nccl_buffers_grow_with_peers),
        cmocka_unit_test(groups_share_the_links_of_nodes),
        cmocka_unit_test(attention_backward_is_split_by_scratch),
        cmocka_unit_test(attention_backward_on_hopper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
