/* SPDX-License-Identifier: BSD-3-Clause */
/* config: layouts of ranks: what divides, what shares a model, what stays on the host;
 * and dry runs of them. */
#include "reading.h"

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
                  "6 ranks do not divide into copies of pipeline 2 x ring 1 x "
                  "Ulysses 1 x tensor 2 = 4 ranks; start 4 or 8; or give "
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
                  "--num-attention-heads 4; 1 would do");
    /* 4 fits the model, but not six ranks */
    expect_misfit(TENSOR "6", 6, "does not divide --num-attention-heads 4; 2 would do");
    expect_misfit(TENSOR "8", 8, "does not divide --num-attention-heads 4; 4 would do");
    expect_misfit(TENSOR "4 --num-key-value-heads 2", 4,
                  "does not divide --num-key-value-heads 2; 2 would do");
    expect_misfit(TENSOR "4 --ffn-hidden-size 102", 4,
                  "inner width, --ffn-hidden-size 102; 2 would do");
    expect_misfit(ULYSSES "8", 8,
                  "--ds-sequence-parallel-size 8 does not divide the 4 heads that a "
                  "tensor rank has; 4 would do, and --context-parallel-size has no "
                  "such limit");
    snprintf(args, sizeof args, "%s" TENSOR "2 " ULYSSES "16", wide);
    expect_misfit(args, 32, "does not divide the 8 heads that a tensor rank has; 8 wo");
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
                  "--num-layers 8 is not a multiple of 2 pipeline ranks x chunks of 3 "
                  "blocks, as interleaving needs; the nearest 6 or 12");
    expect_misfit(STAGES "2 " CHUNK "1 --num-layers 4 " ACCUMULATE "3", 2,
                  "--gradient-accumulation-steps 3 is not a multiple of 2 pipeline "
                  "ranks, as interleaving needs; the nearest 2 or 4");
}

/* A warning, no fault, and the option is off. */
static void expect_off(const char *args, int64_t world, const char *what)
{
    struct reading r = resolve(args, world);

    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.diag.count, 1);
    assert_said(&r.diag, what);
    assert_false(world == 1 && r.run->config.parallel.sequence_parallel);
    assert_false(r.run->config.train.act.partition_activations);
    close_reading(&r);
}

/* With every pair of options given by the user and all others chosen by the program,
 * the program's choices are changed so that no rule is broken, and the user's stay. */
static void test_planner_choices_yield_to_options(void **state)
{
    const struct mds_act_ranks one = {.tensor = 1, .hidden = 64};
    unsigned seed = 1;
    int broken = 0;

    (void)state;
    for (int k = 0; k < 20000; k++) {
        struct mds_activations user = mds_act_defaults(), a = user;
        unsigned given = 1u << k % MDS_ACT_OPTIONS | 1u << k / 7 % MDS_ACT_OPTIONS;
        struct mds_act_finding f;

        for (int i = 0; i < MDS_ACT_OPTIONS; i++) {
            seed = seed * 1103515245 + 12345;
            mds_act_set(&user, &mds_act_options[i], seed >> 16 & 1 ? 1 + i % 2 : 0);
            mds_act_set(&a, &mds_act_options[i], seed >> 17 & 1 ? 1 + i % 2 : 0);
        }
        mds_act_apply_user(&a, &user, given);
        for (int i = 0; i < MDS_ACT_OPTIONS; i++)
            if (given & 1u << i)
                assert_int_equal(mds_act_get(&a, &mds_act_options[i]),
                                 mds_act_get(&user, &mds_act_options[i]));
        for (int at = 0; mds_act_check(&a, &one, &at, &f);) {
            assert_true(f.effect != MDS_ACT_FAULT ||
                        given & 1u << (f.option - mds_act_options));
            broken++;
        }
    }
    assert_true(broken > 0);
}

/* What blocks keep of a run with a level and more options. */
static struct mds_activations kept_with(const char *args)
{
    struct reading r = resolve(args, 1);
    struct mds_activations a;

    assert_fine(&r);
    a = r.run->config.train.act;
    close_reading(&r);
    return a;
}

static void assert_same(struct mds_activations a, struct mds_activations b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

/* A level is the options that it is said to be, and needs what it says. */
static void test_levels(void **state)
{
    char args[512];

    (void)state;
    assert_same(kept_with("--activation-memory 0"), mds_act_defaults());
    for (int level = 0; level < MDS_ACT_LEVELS; level++) {
        struct mds_str text = {0};
        struct mds_activations a;

        snprintf(args, sizeof args, "--seq-length 8192 --activation-memory %d", level);
        a = kept_with(args);
        mds_act_text(&a, 0, &text);
        snprintf(args, sizeof args, "--seq-length 8192 %s", text.len ? text.s : "");
        assert_same(kept_with(args), a);
        mds_str_fini(&text);
    }
    assert_same(
        kept_with("--activation-memory 6 --seq-length 8192 --sequence-tile 512"),
        kept_with("--recompute-granularity full --cpu-checkpointing --seq-length "
                  "8192 --sequence-tile 512 --loss-tile 4096"));
}

/* Groups of heads have the same size, so there may be fewer than were asked for. */
static void test_head_groups(void **state)
{
    static const struct {
        int64_t most, heads, groups;
    } is[] = {{8, 32, 8}, {8, 12, 6}, {3, 8, 2}, {5, 4, 4},
              {8, 1, 1},  {8, 7, 7},  {4, 7, 1}, {0, 8, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        struct mds_activations a = {.head_groups = is[i].most};

        assert_int_equal(mds_act_head_groups(&a, is[i].heads), is[i].groups);
    }
}

/* The level or an option for the same, whichever has precedence, counts. */
static void test_levels_and_options(void **state)
{
    struct mds_activations selective = kept_with("--recompute-activations"),
                           full = kept_with("--checkpoint-activations");
    struct reading r;

    (void)state;
    expect_misfit("--activation-memory 5 --recompute-granularity none", 1,
                  "--activation-memory 5 and --recompute-granularity (command line) "
                  "both say what blocks save; leave out one");
    expect_misfit("--activation-memory auto --cpu-checkpointing", 1,
                  "and --cpu-checkpointing (command line) both say");
    expect_misfit("--activation-memory 0 --sequence-tile 16", 1,
                  "--sequence-tile needs recompute; give");
    expect_misfit("--activation-memory auto,attention=1", 1,
                  "--activation-memory attention=N adds to what full recompute saves");
    expect_misfit("--activation-memory 11", 1, "must be one of auto, 0, 1");
    expect_misfit("--activation-memory 5,6", 1,
                  "has both 5 and 6; leave out one of them");
    expect_misfit("--activation-memory auto,attention=1,0", 1, "has both auto and 0");
    expect_misfit("--activation-memory 5,attention", 1, "did you mean attention=N?");
    expect_misfit("--activation-memory 5,inputs=", 1, "is no number from 0 to 100000");
    expect_misfit("--activation-memory 5,inputs=-1", 1,
                  "is no number from 0 to 100000");
    expect_misfit("--activation-memory 5,attention=1 --cpu-checkpointing", 1,
                  "--activation-memory 5,attention=1 and --cpu-checkpointing (command");
    write_text("run.yaml", "train:\n  activation_memory: 5\n");
    assert_same(kept_with("--config run.yaml"), full);
    r = resolve("--config run.yaml --recompute-activations", 1);
    assert_said(&r.diag, "--activation-memory 5 is ignored: --recompute-granularity "
                         "(command line) has precedence");
    assert_same(r.run->config.train.act, selective);
    close_reading(&r);
    write_text("run.yaml", "train:\n  activation_memory: 5,attention=1\n");
    r = resolve("--config run.yaml --recompute-activations", 1);
    assert_said(&r.diag, "--activation-memory 5,attention=1 is ignored: --recompute");
    assert_same(r.run->config.train.act, selective);
    close_reading(&r);
    r = resolve("--activation-memory 6,attention=2 --seq-length 4096", 1);
    assert_said(&r.diag,
                "attention=2: no rank has more than 4096 tokens of a sequence");
    assert_int_equal(r.rc, MDS_OK);
    assert_same(r.run->config.train.act,
                kept_with("--activation-memory 6 --seq-length 4096"));
    close_reading(&r);
    write_text("run.yaml", "train:\n  recompute: selective\n  loss_tile: 0\n");
    assert_same(kept_with("--config run.yaml --activation-memory 5"), full);
}

/* The words beside a level, or beside Megatron's options; which levels take which. */
static void test_words_of_activation_memory(void **state)
{
    struct mds_activations a = kept_with("--seq-length 8192 --activation-memory "
                                         "6,attention=2,inputs=1k");

    (void)state;
    assert_int_equal(a.keep_attention, 2);
    assert_int_equal(a.device_inputs, 1000);
    assert_same(a, kept_with("--seq-length 8192 --recompute-granularity full "
                             "--cpu-checkpointing --sequence-tile 4096 --loss-tile "
                             "4096 --activation-memory Inputs=1000,attention=2"));
    for (int level = 0; level < MDS_ACT_LEVELS; level++) {
        char args[128];

        for (int inputs = 0; inputs < 2; inputs++) {
            int fits = inputs ? level == 4 || level > 5 : level >= 5 && level <= 7;

            snprintf(args, sizeof args, "--seq-length 8192 --activation-memory %d,%s=1",
                     level, inputs ? "inputs" : "attention");
            if (fits)
                kept_with(args);
            else
                expect_misfit(args, 1, inputs ? "level 4, or" : "level from 5 to 7");
        }
    }
}

/* The plan's options behind a user's give what the plan chose, though one value of
 * --activation-memory takes the place of another. */
static void test_activation_memory_is_replaced(void **state)
{
    static const char *const users[] = {
        "--activation-memory auto",
        "--activation-memory auto,inputs=3",
        "--activation-memory auto --loss-tile 512",
        "--activation-memory 6",
        "--activation-memory 6,attention=2 --sequence-tile 512",
        "--activation-memory inputs=3 --recompute-granularity full",
        "--activation-memory attention=4 --sequence-tile 512",
        "--recompute-granularity full",
    };

    (void)state;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        for (int way = 0; way < 4; way++) {
            struct mds_activations user, plan = mds_act_defaults();
            struct mds_str text = {0};
            struct reading r;
            char args[512];
            unsigned fixed;

            snprintf(args, sizeof args, "--seq-length 8192 %s", users[i]);
            r = read_config(args);
            assert_int_equal(r.rc, MDS_OK);
            fixed = mds_config_fixed_activations(r.run, &user);
            mds_act_set_level(&plan, 6, 4096);
            plan.keep_attention = way & 1 ? 5 : 0;
            plan.device_inputs = way & 2 ? 7 : 0;
            mds_act_apply_user(&plan, &user, fixed);
            mds_act_text_behind(&plan, r.run->config.train.activation_memory, fixed,
                                &text);
            close_reading(&r);
            snprintf(args, sizeof args, "--seq-length 8192 %s %s", users[i],
                     text.s ? text.s : "");
            assert_same(kept_with(args), plan);
            mds_str_fini(&text);
        }
}

/* Of auto those levels may be chosen that go with the rest. */
static void test_open_level(void **state)
{
    struct reading r =
        resolve("--activation-memory auto --num-layers 4 --cpu-offloading-num-layers 2 "
                "--seq-length 8192",
                1);
    const struct mds_config *c = &r.run->config;
    struct mds_config at = *c;
    int level = 0;

    (void)state;
    assert_fine(&r);
    assert_true(c->train.act_is_open);
    for (int i = 0; i < 3; i++) { /* none is recomputed, or what modules name */
        assert_true(mds_config_next_level(c, &level, &at));
        assert_int_equal(level, i + 1);
        assert_int_equal(at.train.act.offload_layers, 2);
        assert_false(at.train.act_is_open);
    }
    assert_false(mds_config_next_level(c, &level, &at));
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
               2, "has sharded the inputs already");
    expect_off("--tp-comm-chunks 2", 1, "changes nothing: there is one tensor rank");
    expect_misfit("--partition-activations", 1,
                  "--partition-activations is for the inputs that full recompute "
                  "saves, and recompute is none; give --recompute-granularity full");
    expect_misfit("--cpu-checkpointing --recompute-granularity selective", 1,
                  "--cpu-checkpointing is for the inputs that full recompute "
                  "saves, and recompute is selective");
    expect_misfit("--cpu-offloading-num-layers 2 --recompute-granularity full", 1,
                  "--cpu-offloading-num-layers needs blocks that save all "
                  "activations, and this is full recompute; leave it out, or give "
                  "--recompute-granularity none");
    expect_misfit("--cpu-offloading-num-layers 2 --recompute-granularity selective "
                  "--sequence-tile 16",
                  1, "and this is selective recompute");
    expect_misfit("--cpu-offloading-num-layers 2 --cpu-checkpointing", 1,
                  "--cpu-checkpointing is for the inputs that full recompute saves");
    expect_misfit(
        "--cpu-offloading-num-layers 3 --num-layers 4", 1,
        "--cpu-offloading-num-layers 3: of the 4 blocks of a model two must stay on "
        "the device, one being computed and one being copied; give 2 at most");
    expect_misfit("--cpu-offloading-num-layers 6 --num-layers 30 " STAGES "4", 4,
                  "of the 7 blocks of a stage two must stay");
    expect_misfit("--cpu-offloading-num-layers 1 --num-layers 8 " STAGES "2 " CHUNK
                  "2 " ACCUMULATE "2",
                  2,
                  "of the 2 blocks of a stage's chunk two must stay on the device, one "
                  "being computed and one being copied; leave it out");
    expect_misfit("--checkpoint-num-layers 2", 1,
                  "--checkpoint-num-layers above 1 is for the inputs");
    expect_misfit("--offload-param-device cpu --zero-stage 2", 1,
                  "weights can be offloaded only with ZeRO 3, and this is stage 2");
    expect_misfit("--offload-param-device cpu --zero-stage 3", 1,
                  "give --offload-device cpu (--cpu-optimizer), too");
    expect_misfit("--partition-activations --recompute-granularity full " TENSOR
                  "2 --hidden-size 63 --kv-channels 16",
                  2, "--hidden-size 63 does not divide into parts for 2 tensor ranks");
    expect_misfit("--activation-memory attention=2 --recompute-granularity full", 1,
                  "--activation-memory attention=N adds to what full recompute saves");
    expect_misfit("--activation-memory inputs=2 --recompute-granularity full "
                  "--sequence-tile 9",
                  1, "--activation-memory inputs=N excepts blocks from");
    expect_misfit("--attention-head-groups 2", 1,
                  "must be tiled as well; give --sequence-tile");
    expect_off("--attention-head-groups 2 --sequence-tile 8 --recompute-granularity "
               "full --num-attention-heads 8 --num-key-value-heads 2 " TENSOR "2",
               2, "--attention-head-groups is off: each rank has one key/value head");
    expect_off("--attention-head-groups 2 --sequence-tile 8 --recompute-granularity "
               "full --qk-layernorm --qk-norm-across-heads",
               1, "--qk-norm-across-heads needs all at once");
    expect_misfit("--sequence-tile 16", 1, "give --recompute-granularity full or sel");
    expect_misfit("--recompute-modules layernorm", 1,
                  "give --recompute-granularity selective as well");
    expect_misfit("--recompute-modules mlp_act --recompute-granularity full", 1,
                  "give --recompute-granularity selective as well");
    expect_misfit("--recompute-modules layernorm --recompute-granularity selective "
                  "--sequence-tile 16",
                  1, "norms' and the MLP's activations are never saved; leave");
    expect_misfit("--offload-device nvme", 1, "give --nvme-path (NVME_PATH)");
    expect_misfit("--offload-device nvme --nvme-path ./gone", 1,
                  "--nvme-path ./gone: No such file or directory; it must be a folder");
    write_text("run.yaml", "x");
    expect_misfit("--offload-device nvme --nvme-path ./run.yaml", 1,
                  "--nvme-path ./run.yaml: Not a directory");
    expect_misfit("--fp16 --initial-loss-scale 2 --min-loss-scale 4", 1,
                  "--min-loss-scale 4 is above --initial-loss-scale 2");
    expect_off("--loss-scale 8 --bf16", 1, "--loss-scale 8 is ignored");
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
        "--loss-tile 16",
        "--recompute-granularity selective --recompute-modules layernorm mlp_act",
        "--recompute-granularity selective --recompute-modules layernorm mlp",
        "--cpu-offloading-num-layers 2 --num-layers 4",
        "--cpu-offloading-num-layers 1 --num-layers 4 --recompute-granularity "
        "selective "
        "--recompute-modules mlp_act",
        "--recompute-granularity selective --sequence-tile 16 --cpu-checkpointing",
        "--recompute-granularity full --sequence-tile 16 --cpu-checkpointing "
        "--activation-memory attention=2,inputs=1",
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
    expect_misfit("--world-size 8", 2, "--world-size 8, but the run has 2 ranks;");
    expect_misfit("--world-size 8", 1, "--world-size 8, but the run has 1 rank;");
    expect_misfit("--dry-run --dry-run-rank 2", 2, "of 2 ranks the last is 1");
}

static void test_fp8(void **state)
{
    static const char fp8[] = "--bf16 --fp8-format hybrid ";
    char args[512];
    struct reading r;
    const struct {
        const char *more, *said;
    } faults[] = {
        {"--hidden-size 72 --kv-channels 16", "--hidden-size is 72, and FP8 needs a"},
        {"--kv-channels 24", "the size of heads, --kv-channels is 24, and FP8"},
        {"--ffn-hidden-size 48 " TENSOR "2", "--ffn-hidden-size is 24, and FP8"},
        {"--first-last-layers-bf16", "leave none of 2 in FP8"},
        {"--fp8-recipe delayed", "--fp8-recipe 'delayed': must be tensorwise"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        snprintf(args, sizeof args, "%s%s", fp8, faults[i].more);
        expect_misfit(args, 2, faults[i].said);
    }
    expect_misfit("--fp8-format e4m3", 1, "has to be bf16; give --bf16");
    expect_misfit("--fp16 --fp8-format e4m3", 1, "has to be bf16; give --bf16");
    r = resolve("--first-last-layers-bf16", 1);
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "--first-last-layers-bf16 is ignored without --fp8-format");
    assert_false(mds_model_layer_is_fp8(&r.run->config.model, 0));
    close_reading(&r);
    r = resolve("--no-fp8-wgrad", 1);
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "--no-fp8-wgrad is ignored without --fp8-format");
    close_reading(&r);
    r = resolve("--bf16 --fp8-e4m3 --num-layers-at-start-in-bf16 1", 1);
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "--num-layers-at-start-in-bf16 is ignored without "
                         "--first-last-layers-bf16");
    assert_true(mds_model_layer_is_fp8(&r.run->config.model, 0));
    close_reading(&r);
    r = resolve("--num-layers-at-end-in-bf16 2", 1);
    assert_int_equal(r.rc, MDS_OK);
    assert_said(&r.diag, "--num-layers-at-end-in-bf16 is ignored without --fp8-format");
    close_reading(&r);
    r = resolve("--bf16 --fp8-e4m3 --no-fp8-wgrad", 1);
    assert_fine(&r);
    assert_int_equal(r.run->config.model.fp8.wgrad, 0);
    close_reading(&r);
    r = resolve("--bf16 --fp8-hybrid --num-layers 6 --first-last-layers-bf16 "
                "--num-layers-at-start-in-bf16 2",
                1);
    assert_fine(&r);
    assert_int_equal(r.run->config.model.fp8.wgrad, 1);
    for (int layer = 0; layer < 6; layer++)
        assert_int_equal(mds_model_layer_is_fp8(&r.run->config.model, layer),
                         layer >= 2 && layer < 5);
    close_reading(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_grids, setup),
        cmocka_unit_test_setup(test_impossible_grids, setup),
        cmocka_unit_test_setup(test_unshareable_models, setup),
        cmocka_unit_test_setup(test_interleaving, setup),
        cmocka_unit_test(test_planner_choices_yield_to_options),
        cmocka_unit_test_setup(test_levels, setup),
        cmocka_unit_test(test_head_groups),
        cmocka_unit_test_setup(test_levels_and_options, setup),
        cmocka_unit_test_setup(test_words_of_activation_memory, setup),
        cmocka_unit_test_setup(test_activation_memory_is_replaced, setup),
        cmocka_unit_test_setup(test_open_level, setup),
        cmocka_unit_test_setup(test_kept_where, setup),
        cmocka_unit_test_setup(test_kept_well, setup),
        cmocka_unit_test_setup(test_dry_run, setup),
        cmocka_unit_test(test_fp8),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
