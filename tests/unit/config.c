/* SPDX-License-Identifier: BSD-3-Clause */
/* config: where mds_pretrain's settings come from, and all of them in print. */
#include "reading.h"

/* ---- mds_pretrain's sources ---- */

static void test_precedence(void **state)
{
    struct reading r;
    char table[256];

    (void)state;
    write_text("m.yaml", "model: {layers: 3, hidden: 8}\nbatch.micro: 2\n");
    write_text("run.yaml", "model:\n  layers: 9\n");
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
    expect_fault("--precison bf16", "did you mean --precision?");
    expect_fault("--ep 2", "unknown option --ep; did you mean "
                           "--expert-model-parallel-size?");
    expect_fault("--tz 2", "unknown option --tz; see --help");
    expect_fault("--versoin", "unknown option --versoin; see --help");
    expect_fault("--optimizer lamb", "--optimizer 'lamb': must be");
    expect_fault("stray", "'stray' belongs to no option");
    expect_fault("--normalization BatchNorm", "did you mean");
    write_text("bad.yaml", "model:\n  layer: 2\n  num_layers: 3\nlr: [1]\noptim: 3\n"
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

static void test_maps_may_be_empty(void **state)
{
    struct reading r;

    (void)state;
    write_text("empty.yaml", "batch:\n  # micro: 2\nmodel:\n  layers: 2\n");
    r = read_config("--config empty.yaml");
    assert_int_equal(r.rc, MDS_OK);
    assert_int_equal(r.run->config.model.layers, 2);
    close_reading(&r);
    write_text("empty.yaml", "bath:\nmodel.layers:\n");
    expect_fault("--config empty.yaml", "empty.yaml:1: unknown key bath");
}

/* What a checkpoint holds, for other ranks. */
static void test_saved_settings_without_their_layout(void **state)
{
    static const char saved[] = "model:\n  layers: 4   # command line\n"
                                "  hidden: 64  # here\n  heads: 4  # here\n"
                                "  ffn_hidden: 7  # derived: from something\n"
                                "parallel:\n  tensor: 4   # command line\n"
                                "batch:\n  micro: 3    # run.yaml:7\n"
                                "  accumulation: 2    # ds.json:2\n"
                                "  global: 24  # derived: with 4 data-parallel ranks\n";
    static char *const words[] = {"-", "--pipeline-model-parallel-size", "2"};
    struct mds_config_run *run;
    struct mds_diag diag = {0};

    (void)state;
    assert_int_equal(mds_config_read_saved(saved, "here", 3, words, &diag, &run), 0);
    assert_int_equal(run->config.model.layers, 4);
    assert_int_equal(run->config.model.ffn_hidden, 0);
    assert_int_equal(run->config.parallel.tensor, 1);
    assert_int_equal(run->config.parallel.pipeline, 2);
    assert_int_equal(run->config.batch.micro, 3);
    assert_int_equal(mds_config_resolve(run, 4, &diag), 0);
    assert_int_equal(run->config.batch.global, 24);
    assert_int_equal(run->config.batch.accumulation, 4);
    mds_config_run_destroy(run);
    assert_int_equal(mds_config_read_saved("x: 1\n", "here", 0, words, &diag, &run),
                     MDS_EUSER);
    assert_non_null(strstr(mds_fail_text(), "here:1: unknown key x"));
    mds_diag_fini(&diag);
}

/* ---- a checkpoint's model ---- */

static const char saved_model[] =
    "model:\n"
    "  layers: 4                # run.yaml:2\n"
    "  hidden: 64               # run.yaml:3\n"
    "  heads: 4                 # run.yaml:4\n"
    "  kv_heads: 4  # derived: as many as heads\n"
    "  position: rope           # command line\n"
    "  max_positions: 99  # derived: the sequence length\n"
    "  rotary_base: 500         # command line\n"
    "  linear_bias: false       # command line\n"
    "  vocab: 66  # derived: the data's words\n"
    "  hidden_dropout: 0.1      # command line\n"
    "train:\n"
    "  eval_iters: 5            # default\n"
    "  no_longer_known: 7       # default\n"
    "optim:\n"
    "  lr: 0.01                 # default\n";

static struct reading take_saved_model(const char *args)
{
    struct reading r = read_config(args);

    assert_int_equal(r.rc, MDS_OK);
    r.rc = mds_config_inherit_model(r.run, saved_model, "ck/iter_1", &r.diag);
    assert_fine(&r);
    return r;
}

static void test_model_of_a_checkpoint(void **state)
{
    struct reading r;

    (void)state;
    write_text("m.yaml", "model: {layers: 3, rotary_base: 7, norm_eps: 1e-3}\n");
    write_text("run.yaml", "model:\n  hidden: 32\n");
    setenv("HEADS", "8", 1);
    r = take_saved_model("--machine ./m.yaml --config run.yaml --rotary-percent 0.5");
    assert_int_equal(r.run->config.model.layers, 4);
    assert_origin(&r, "model.layers", "checkpoint ck/iter_1");
    assert_true(r.run->config.model.rotary_base == 500);
    assert_int_equal(r.run->config.model.linear_bias, 0);
    assert_origin(&r, "model.hidden", "run.yaml:2");
    assert_origin(&r, "model.heads", "environment HEADS");
    assert_origin(&r, "model.rotary_percent", "command line");
    assert_true(r.run->config.model.norm_eps == 1e-3); /* it does not say */
    assert_int_equal(r.run->config.model.kv_heads, 0); /* was derived */
    assert_int_equal(r.run->config.model.max_positions, 0);
    assert_int_equal(r.run->config.model.vocab, 66); /* though it was derived */
    assert_int_equal(mds_config_set_vocab(r.run, 8), MDS_OK); /* data use some of it */
    assert_int_equal(r.run->config.model.vocab, 66);
    assert_origin(&r, "model.vocab", "checkpoint ck/iter_1");
    assert_int_equal(mds_config_set_vocab(r.run, 130), MDS_OK); /* or have more */
    assert_int_equal(r.run->config.model.vocab, 130);
    assert_int_equal(r.run->config.model.padded_vocab, 256);
    assert_origin(&r, "model.hidden_dropout", "default"); /* no matter of the model */
    assert_true(r.run->config.optim.lr == 1.5e-4);
    close_reading(&r);

    setenv("HEADS", "", 1);
    r = take_saved_model("--model-size-key GPT13B"); /* is the user's word as well */
    assert_int_equal(r.run->config.model.layers, 40);
    assert_true(r.run->config.model.rotary_base == 500);
    close_reading(&r);
}

/* As the run that saved, unless somebody says otherwise; FP8 only with bf16. */
static void test_length_and_number_types_of_a_checkpoint(void **state)
{
    static const char fp8[] = "model:\n  seq_length: 64  # command line\n"
                              "  dtype: bf16  # command line\n"
                              "  fp8_format: hybrid  # command line\n"
                              "  first_last_layers_bf16: true  # command line\n";
    static const char plain[] = "model:\n  seq_length: 64  # derived: x\n"
                                "  dtype: bf16  # command line\n"
                                "  fp8_format: none  # default\n";
    static const struct {
        const char *saved, *args;
        enum mds_number_type type;
        enum mds_fp8_format format;
    } cases[] = {{fp8, "", MDS_TYPE_BF16, MDS_FP8_HYBRID},
                 {fp8, "--fp8-format none", MDS_TYPE_BF16, MDS_FP8_NONE},
                 {fp8, "--fp8-format e4m3", MDS_TYPE_BF16, MDS_FP8_E4M3},
                 {fp8, "--dtype fp32", MDS_TYPE_F32, MDS_FP8_NONE},
                 {fp8, "--machine ./fp16.yaml", MDS_TYPE_F16, MDS_FP8_NONE},
                 {plain, "", MDS_TYPE_BF16, MDS_FP8_NONE},
                 {plain, "--fp16", MDS_TYPE_F16, MDS_FP8_NONE},
                 {saved_model, "", MDS_TYPE_F32, MDS_FP8_NONE}};

    (void)state;
    write_text("fp16.yaml", "model: {dtype: fp16}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r = read_config(cases[i].args);

        assert_int_equal(mds_config_inherit_model(r.run, cases[i].saved, "ck", &r.diag),
                         MDS_OK);
        assert_int_equal(r.run->config.train.type, cases[i].type);
        assert_int_equal(r.run->config.model.fp8.format, cases[i].format);
        assert_int_equal(r.run->config.model.seq_length,
                         cases[i].saved == fp8 ? 64 : 2048);
        assert_int_equal(r.run->config.model.fp8.first_last_bf16,
                         cases[i].saved == fp8 && cases[i].type == MDS_TYPE_BF16);
        close_reading(&r);
    }
}

static void test_rows_of_a_position_table(void **state)
{
    static const char text[] = "model:\n  position: learned_absolute  # default\n"
                               "  max_positions: 99  # derived: the sequence length\n";
    struct reading r = read_config("--num-layers 2 --hidden-size 64 --train-iters 10 "
                                   "--num-attention-heads 4 --data-path d");

    (void)state;
    assert_int_equal(mds_config_inherit_model(r.run, text, "ck", &r.diag), MDS_OK);
    assert_int_equal(mds_config_resolve(r.run, 1, &r.diag), MDS_OK);
    assert_int_equal(r.run->config.model.max_positions, 99);
    assert_int_equal(r.run->config.model.seq_length, 99); /* nobody said another */
    assert_origin(&r, "model.seq_length", "checkpoint ck");
    close_reading(&r);
}

static void expect_changes_of(const char *before, const char *now, const char *function,
                              const char *others)
{
    struct mds_config_changes c;

    assert_int_equal(mds_config_compare(before, "ck", now, &c), MDS_OK);
    assert_string_equal(c.function.s ? c.function.s : "", function);
    assert_string_equal(c.others.s ? c.others.s : "", others);
    mds_config_changes_fini(&c);
}

static void expect_changes(const char *now, const char *function, const char *others)
{
    expect_changes_of(saved_model, now, function, others);
}

static void test_changes_since_a_checkpoint(void **state)
{
    struct mds_config_changes c;

    (void)state;
    expect_changes(saved_model, "", "");
    expect_changes("model:\n  heads: 8\n  kv_heads: 8  # derived: x\n  position: rope\n"
                   "  rotary_base: 5e2\n  linear_bias: true\n  hidden_dropout: 0.2\n",
                   "--num-attention-heads 4 (now 8), --num-key-value-heads 4 (now 8), "
                   "--disable-bias-linear true (now false)",
                   "--hidden-dropout 0.1 (now 0.2)");
    expect_changes("model: {position: none, rotary_base: 7, max_positions: 4}\n",
                   "--position-embedding-type rope (now none)", "");
    expect_changes("model:\n  swiglu: true\n", "--swiglu 0 (now true)", "");
    expect_changes("model: {position: rope, rope_scaling_type: yarn, "
                   "rope_scaling_factor: 8, rope_original: 64}\n",
                   "--rope-scaling-type none (now yarn), --rope-scaling-factor 1 (now "
                   "8), --original-max-position-embeddings 0 (now 64)",
                   "");
    expect_changes("model: {position: none, rope_scaling_type: yarn}\n",
                   "--position-embedding-type rope (now none)", "");
    expect_changes("model: {window_size: 512}\n", "--window-size none (now 512)", "");
    expect_changes_of("model: {window_size: 512, window_skip: ~}\n",
                      "model: {window_size: 256, window_skip: 6}\n",
                      "--window-size 512 (now 256), --window-attn-skip-freq none (now "
                      "6)",
                      "");
    expect_changes_of("model: {window_size: 512}\n",
                      "model: {window_size: ~, window_skip: ~}\n",
                      "--window-size 512 (now none)", "");
    expect_changes_of("model: {dtype: bf16, fp8_format: hybrid}\n",
                      "model: {dtype: bf16, fp8_format: none}\n", "",
                      "--fp8-format hybrid (now none)");
    expect_changes_of(
        "model: {fp8_format: e4m3, first_last_layers_bf16: false}\n",
        "model: {fp8_format: hybrid, first_last_layers_bf16: true}\n", "",
        "--fp8-format e4m3 (now hybrid), --first-last-layers-bf16 false (now true)");
    expect_changes_of("model: {fp8_wgrad: true}\n", "model: {fp8_wgrad: false}\n", "",
                      "--no-fp8-wgrad false (now true)");
    expect_changes("optim:\n  lr: 1e-2\ntrain:\n  eval_iters: 6\n", "", "");
    assert_fails(mds_config_compare("model: {", "ck/iter_1", "", &c), MDS_EUSER,
                 "ck/iter_1");
}

/* Whether a resumed run says that a setting changed, of a model with such positions. */
static int change_is_said(const struct mds_option *o, const char *position)
{
    const char *values[] = {o->choices                ? o->choices[0]
                            : o->type == MDS_OPT_FLAG ? "0"
                                                      : "1",
                            o->choices                ? o->choices[1]
                            : o->type == MDS_OPT_FLAG ? "1"
                                                      : "2"};
    struct mds_config_changes c;
    char text[2][128];
    int said;

    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "model: {position: %s, %s: '%s'}\n", position,
                 o->key + strlen("model."), values[i]);
    assert_int_equal(mds_config_compare(text[0], "ck", text[1], &c), MDS_OK);
    said = (c.function.s && strstr(c.function.s, o->flag)) ||
           (c.others.s && strstr(c.others.s, o->flag));
    mds_config_changes_fini(&c);
    return said;
}

/* A new setting of the model belongs to one or the other. */
static void test_changes_are_said_or_have_no_effect(void **state)
{
    static const char *const without[] = {
        "model.size_key", /* a name, as is the next */
        "model.table",
        "model.vocab",         /* the data's, which are checked */
        "model.vocab_divisor", /* padding */
        "model.init_std",      /* of a run that begins */
        "model.type",          /* there is one */
        "model.flash_attn",    /* the same, up to rounding */
        NULL};
    int n = 0;

    (void)state;
    for (const struct mds_option *o = mds_pretrain_options.options; o->help; o++) {
        if (!o->key || strncmp(o->key, "model.", 6) != 0 ||
            strcmp(o->key, "model.position") == 0)
            continue;
        if ((change_is_said(o, "rope") || change_is_said(o, "learned_absolute")) ==
            mds_str_is_in(o->key, without))
            fail_msg("%s: %s", o->key, "resuming with another value: is it said?");
        n++;
    }
    assert_true(n > 40);
}

/* Checkpoints without data.split_at are of runs that cut by tokens. */
static void test_where_a_run_splits_its_data(void **state)
{
    static const char before[] = "data:\n  paths: d\n  split: 949,50,1  # default\n",
                      later[] = "data: {paths: d, split: '1,1', split_at: documents}\n";
    static const struct {
        const char *args, *saved;
        int want;
    } cases[] = {{"", before, MDS_SPLIT_AT_TOKENS},
                 {"", later, MDS_SPLIT_AT_DOCUMENTS},
                 {"", saved_model, MDS_SPLIT_AT_AUTO},
                 {"--finetune", before, MDS_SPLIT_AT_AUTO},
                 {"--split-at auto", later, MDS_SPLIT_AT_AUTO}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[200];
        struct reading r;

        snprintf(args, sizeof args,
                 "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                 "--train-iters 10 --data-path d %s",
                 cases[i].args);
        r = read_config(args);
        assert_int_equal(
            mds_config_inherit_model(r.run, cases[i].saved, "ck/iter_1", &r.diag),
            MDS_OK);
        assert_int_equal(r.run->config.data.split_at, cases[i].want);
        if (cases[i].want != MDS_SPLIT_AT_AUTO)
            assert_origin(&r, "data.split_at", "checkpoint ck/iter_1");
        close_reading(&r);
    }
    expect_changes_of(before, later, "",
                      "--split 949,50,1 (now 1,1), "
                      "--split-at tokens (now documents)");
}

/* And packs documents, or keeps them apart, as it did. */
static void test_documents_of_a_checkpoint(void **state)
{
    static const char packs[] = "data: {paths: d, pack_documents: on}\n",
                      chosen[] = "data:\n  paths: d\n"
                                 "  pack_documents: on  # derived: by the data\n",
                      old[] = "data: {train_paths: d, split: 1}\n",
                      masks[] = "data: {paths: d, reset_attention_mask: true}\n",
                      import[] = "data:\n  paths: ~  # derived: default\n"
                                 "  train_paths: ~  # derived: default\n"
                                 "  eod_mask_loss: false  # default\n"
                                 "  pack_documents: off  # derived: no data\n";
    static const struct {
        const char *args, *saved;
        int packs, masks, positions;
    } cases[] = {{"", packs, MDS_PACK_ON, 1, 1},
                 {"--pack-documents off", packs, MDS_PACK_OFF, 0, 0},
                 {"", chosen, MDS_PACK_ON, 1, 1},
                 {"", old, MDS_PACK_OFF, 0, 0},
                 {"--finetune --load l", packs, MDS_PACK_AUTO, 0, 0},
                 {"", masks, MDS_PACK_OFF, 1, 0},
                 {"--reset-position-ids", masks, MDS_PACK_OFF, 1, 1},
                 {"", import, MDS_PACK_AUTO, 0, 0},
                 {"", saved_model, MDS_PACK_AUTO, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[200];
        struct reading r;

        snprintf(args, sizeof args,
                 "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                 "--train-iters 10 --global-batch-size 1 --data-path d %s",
                 cases[i].args);
        r = read_config(args);
        assert_int_equal(
            mds_config_inherit_model(r.run, cases[i].saved, "ck/iter_1", &r.diag),
            MDS_OK);
        assert_int_equal(mds_config_data_decide_packing(r.run),
                         cases[i].packs == MDS_PACK_AUTO);
        assert_int_equal(mds_config_resolve(r.run, 1, &r.diag), MDS_OK);
        assert_int_equal(r.run->config.data.pack_documents,
                         cases[i].packs == MDS_PACK_AUTO ? MDS_PACK_OFF
                                                         : cases[i].packs);
        assert_int_equal(r.run->config.data.reset_attention_mask, cases[i].masks);
        assert_int_equal(r.run->config.data.reset_position_ids, cases[i].positions);
        close_reading(&r);
    }
    expect_changes_of(import, packs, "", "");
    expect_changes_of(packs, "data: {paths: d, pack_documents: off}\n", "",
                      "--pack-documents on (now off)");
    expect_misfit("--window-stride 32", 1,
                  "--window-stride is for --pack-documents on");
    expect_misfit("--pack-documents on --seq-length 64 --window-stride 65", 1,
                  "--window-stride 65: tokens between windows would never be targets: "
                  "use at most --seq-length 64");
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
    setenv("SEQ_LENGTH", "", 1); /* as if unset */
    setenv("MDS_QUANTUM_FLUX", "", 1);
    {
        struct reading r = read_config("");

        assert_fine(&r);
        close_reading(&r);
    }
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

static void test_help_names_every_option(void **state)
{
    char *help = print_config("--help"), *version = print_config("--version");

    (void)state;
    for (const struct mds_option *o = mds_pretrain_options.options; o->help; o++) {
        if (!o->flag || o->hidden)
            continue;
        assert_non_null(strstr(help, o->flag));
        assert_true(!o->env || strstr(help, o->env) != NULL);
    }
    for (const char *line = help; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 88);
    assert_ptr_equal(strstr(version, "mds_pretrain "), version);
    free(help);
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
    write_text("shown.yaml", first);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_precedence, setup),
        cmocka_unit_test_setup(test_unknown_names, setup),
        cmocka_unit_test_setup(test_maps_may_be_empty, setup),
        cmocka_unit_test_setup(test_saved_settings_without_their_layout, setup),
        cmocka_unit_test_setup(test_model_of_a_checkpoint, setup),
        cmocka_unit_test_setup(test_length_and_number_types_of_a_checkpoint, setup),
        cmocka_unit_test_setup(test_rows_of_a_position_table, setup),
        cmocka_unit_test_setup(test_changes_since_a_checkpoint, setup),
        cmocka_unit_test(test_changes_are_said_or_have_no_effect),
        cmocka_unit_test_setup(test_where_a_run_splits_its_data, setup),
        cmocka_unit_test_setup(test_documents_of_a_checkpoint, setup),
        cmocka_unit_test_setup(test_slips_in_the_environment, setup),
        cmocka_unit_test_setup(test_help_names_every_option, setup),
        cmocka_unit_test_setup(test_show_reads_back, setup),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
