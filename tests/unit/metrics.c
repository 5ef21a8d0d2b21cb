/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics: FLOPs by hand, the log lines, JSON records, TensorBoard files read back. */
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>

#include "metrics/console.h"
#include "metrics/experts.h"
#include "metrics/flops.h"
#include "metrics/metrics.h"
#include "metrics/preflight.h"
#include "metrics/spikes.h"
#include "metrics/stragglers.h"
#include "metrics/tensorboard.h"

static const struct mds_flops_model gpt = {
    .layers = 2,
    .hidden = 8,
    .heads = 2,
    .kv_heads = 2,
    .head_dim = 4,
    .ffn = 32,
    .seq = 16,
    .padded_vocab = 128,
    .seen = {1, 1},
};
static const struct mds_flops_model llama = {
    .layers = 3,
    .hidden = 8,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 2,
    .ffn = 24,
    .activation = MDSK_SWIGLU,
    .seq = 10,
    .padded_vocab = 64,
    .seen = {1, 1},
};

/* ---- FLOPs ---- */

static void test_causal_flops(void **state)
{
    (void)state;
    /* 2 layers x 12 x 8^2, head 8 x 128 */
    assert_true(mds_flops_matmul_params(&gpt) == 1536 + 1024);
    /* per token: 6 x 2560 + attention 3 x 2 products x 2 x 8 x 16/2 x 2 layers */
    assert_true(mds_flops_causal(&gpt, 1) == 15360 + 1536);
    assert_true(mds_flops_causal(&gpt, 64) == 64 * 16896.0);
    /* per layer: q 64, k and v 32 each, out 64, mlp 3 x 192; head 512 */
    assert_true(mds_flops_matmul_params(&llama) == 3 * (192 + 576) + 512);
    assert_true(mds_flops_causal(&llama, 1) == 6 * 2816 + 6.0 * 3 * 8 * 10);
}

/* Of experts those of a token, the router, and the shared one count. */
static void test_flops_of_experts(void **state)
{
    struct mds_flops_model m = llama;

    (void)state;
    m.experts = 5;
    m.active = 2;
    assert_true(mds_flops_matmul_params(&m) == 3 * (192 + 2 * 576 + 40) + 512);
    m.shared = 12; /* half the width of another */
    assert_true(mds_flops_matmul_params(&m) == 3 * (192 + 2 * 576 + 40 + 288) + 512);
    m.dense_layers = 1;
    m.dense_ffn = 48;
    assert_true(mds_flops_matmul_params(&m) ==
                3 * 192 + 2 * (2 * 576 + 40 + 288) + 1152 + 512);
}

/* Tokens of different documents meet in products of weights alone. */
static void test_flops_of_documents(void **state)
{
    struct mds_flops_model packed = gpt;

    (void)state;
    packed.seen = (struct mds_pairs){0.25, 0.25};
    assert_true(mds_flops_causal(&packed, 1) == 15360 + 1536 / 4);
    assert_true(mds_flops_megatron(&packed, 1, MDS_RECOMPUTE_NONE) ==
                72 * 2 * 64 * (1 + 16 / 4 / 48.0) + 6 * 8 * 128);
}

/* Keys that the queries of documents of these lengths see, each counted by itself. */
static double keys_seen(const int *length, int n, int window)
{
    double keys = 0;

    for (int i = 0; i < n; i++)
        for (int at = 0; at < length[i]; at++)
            keys += window > 0 && at >= window ? window : at + 1;
    return keys;
}

/* Layers 2 and 4 of 5 are global.  All keys that are seen in a row are counted, as
 * shares of the 7 x 19 / 2 keys that the formula has for a row of 19 tokens. */
static void test_flops_of_documents_in_windows(void **state)
{
    static const int lengths[][4] = {
        {19}, {1, 18}, {7, 7, 5}, {3, 11, 1, 4}, {17, 1, 1}};
    struct mds_config c = {.model = {.layers = 5,
                                     .hidden = 8,
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .head_dim = 8,
                                     .ffn_hidden = 32,
                                     .seq_length = 19,
                                     .window_skip = "2",
                                     .window_skip_freq = 2,
                                     .padded_vocab = 128}};
    const double all = keys_seen(lengths[0], 1, 0);

    (void)state;
    for (int k = 0; k < 5; k++)
        for (int window = 1; window < 19; window++) {
            struct mds_pairs pairs = {0, 0};
            struct mds_flops_model m;
            double want;

            for (int i = 0; i < 4; i++)
                mds_pairs_add(&pairs, 1, mds_pairs_of_document(lengths[k][i], window));
            c.model.window = window;
            c.data.seen = mds_pairs_share(pairs, 1, 19);
            m = mds_flops_model_of(&c);
            want =
                2 * keys_seen(lengths[k], 4, 0) + 3 * keys_seen(lengths[k], 4, window);
            want *= 19 / 2.0 / all; /* per token and layer of 5 */
            assert_true(fabs(mds_flops_causal(&m, 1) - 6 * mds_flops_matmul_params(&m) -
                             3 * 4 * 8 * want) < 1e-9);
        }
}

/* Layers with a window of 4: a query sees 1, 2, 3, then 4 keys each, 58 of the 136 that
 * it would see without. */
static void test_window_flops(void **state)
{
    struct mds_metrics_run run = {.model = gpt,
                                  .version = "9.9",
                                  .device = "cpu",
                                  .dtype = "fp32",
                                  .fp8_format = "none"};
    struct mds_flops_model local = gpt;
    struct mds_str text = {0};

    (void)state;
    local.window = 4;
    local.local_layers = 1;
    local.seen = mds_pairs_whole_row(16, 4);
    assert_true(local.seen.global == 1 && local.seen.local == 58.0 / 136);
    assert_true(fabs(mds_flops_causal(&gpt, 1) - mds_flops_causal(&local, 1) -
                     3.0 * 2 * 2 * 8 * 8 * (1 - 58.0 / 136)) < 1e-9);
    assert_true(fabs(mds_flops_megatron(&gpt, 1, MDS_RECOMPUTE_SELECTIVE) -
                     mds_flops_megatron(&local, 1, MDS_RECOMPUTE_SELECTIVE) -
                     4.0 * 2 * 2 * 8 * 16 * (1 - 58.0 / 136)) < 1e-9);
    run.model = local;
    mds_console_run(&text, &run);
    assert_non_null(strstr(text.s, "sequence 16, window 4 in 1 layers\n"));
    mds_str_fini(&text);
    local.seen = mds_pairs_whole_row(16, 16); /* all of them */
    assert_true(mds_flops_causal(&local, 1) == mds_flops_causal(&gpt, 1));
}

/* Equation 3 of arXiv:2104.04473, as printed there. */
static double equation_3(double B, double s, double l, double h, double V)
{
    return 96 * B * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h));
}

static void test_megatron_flops(void **state)
{
    /* GPT-3 175B with the paper's padded vocabulary */
    const struct mds_flops_model big = {
        .layers = 96,
        .hidden = 12288,
        .heads = 96,
        .kv_heads = 96,
        .head_dim = 128,
        .ffn = 4 * 12288,
        .seq = 2048,
        .padded_vocab = 51200,
        .seen = {1, 1},
    };
    double full = mds_flops_megatron(&big, 1536 * 2048, MDS_RECOMPUTE_FULL);
    double none, selective;

    (void)state;
    assert_true(fabs(full / equation_3(1536, 2048, 96, 12288, 51200) - 1) < 1e-12);
    none = mds_flops_megatron(&gpt, 1, MDS_RECOMPUTE_NONE);
    /* 72 l h^2 (1 + s/(6h)) + 6 h V */
    assert_true(none == 72 * 2 * 64 * (1 + 16 / 48.0) + 6 * 8 * 128);
    selective = mds_flops_megatron(&gpt, 1, MDS_RECOMPUTE_SELECTIVE);
    assert_true(selective - none == 4.0 * 2 * 8 * 16); /* one more QK^T and PV */
    /* grouped queries and a gate: 3 passes over layers, head and the whole square */
    assert_true(mds_flops_megatron(&llama, 1, MDS_RECOMPUTE_NONE) ==
                6 * 2816 + 3 * 4.0 * 3 * 8 * 10);
}

/* ---- a run with every sink, standard output caught ---- */

static const struct mds_kind two_kinds[] = {{"text", 1}, {"repeat", 0.1}, {"tag", 0}};
static const struct mds_kind_losses kind_losses = {{6, 4, 0}, {2, 1, 0}};
static const struct mds_metrics_run facts = {
    .kinds = {two_kinds, 3},
    .version = "9.9",
    .size_key = "GPT\"X",
    .device = "cpu",
    .dtype = "bf16",
    .fp8_format = "hybrid",
    .data_path = "ecoli.h5",
    .model = gpt,
    .parameters = 2560,
    .ranks = 2,
    .data_parallel = 2,
    .threads = 1,
    .micro_batch = 2,
    .global_batch = 4,
    .iters = 5,
    .log_interval = 2,
    .seed = 1234,
    .unigram_entropy_nats = 4.0,
};

static int catch_stdout(const char *path)
{
    int saved = dup(STDOUT_FILENO), fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    fflush(stdout);
    assert_true(fd >= 0 && saved >= 0);
    dup2(fd, STDOUT_FILENO);
    close(fd);
    return saved;
}

static void release_stdout(int saved)
{
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
}

static struct mds_metrics_step step_at(int64_t i, double loss)
{
    return (struct mds_metrics_step){
        .iteration = i,
        .last_iteration = 5,
        .samples = 4,
        .samples_left = 4 * (5 - i),
        .consumed_samples = 4 * i,
        .consumed_tokens = 64 * i,
        .elapsed_s = i == 1 ? 0.75 : 0.25,
        .lr = 1.5e-4,
        .loss = loss,
        .by_kind = i == 5 ? &kind_losses : NULL,
        .grad_norm = 1.25,
        .loss_scale = i == 5 ? 65536 : 0, /* as if fp16 began there */
        .skipped = i == 3,
    };
}

/* Steps 1..5 with one skipped and one NaN, an evaluation, the end. */
static void whole_run(const char *json, const char *board)
{
    static const double losses[] = {4.5, 3.5, 3.25, NAN, 3};
    const struct mds_metrics_summary end = {
        .reason = "iterations",
        .iteration = 5,
        .train_s = 12,
        .train_loss = 3,
        .valid_loss = 3.125,
        .test_loss = NAN,
    };
    const struct mds_metrics_eval eval = {.split = "validation",
                                          .iteration = 5,
                                          .samples = 4,
                                          .samples_there = 7,
                                          .losses = &kind_losses};
    struct mds_metrics *m;

    assert_int_equal(mds_metrics_open(&facts, json, board, &m), MDS_OK);
    for (int i = 1; i <= 5; i++) {
        struct mds_metrics_step s = step_at(i, losses[i - 1]);
        mds_metrics_step(m, &s);
    }
    mds_metrics_eval(m, &eval);
    mds_metrics_eval_file(m, &eval, "a b.h5", &kind_losses);
    assert_int_equal(mds_metrics_close(m, &end), MDS_OK);
}

static int make_run(void **state)
{
    char path[128], json[128], board[128];
    int saved;

    if (go_to_scratch(state))
        return -1;
    snprintf(path, sizeof path, "%s/out", scratch);
    snprintf(json, sizeof json, "%s/run.jsonl", scratch);
    snprintf(board, sizeof board, "%s/tb/deep", scratch);
    saved = catch_stdout(path);
    whole_run(json, board);
    release_stdout(saved);
    return 0;
}

static void contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void test_console(void **state)
{
    static char out[16384];
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/out", scratch);
    read_file(path, out, sizeof out);
    contains(out, "mds 9.9: GPT\"X, 2.56 k parameters on cpu in bf16 and FP8 hybrid\n");
    /* the form that Megatron-DeepSpeed's users grep; means over steps 1 and 2 */
    contains(out,
             "\n iteration        2/       5 | consumed samples:            8 |"
             " consumed tokens:          128 | elapsed time per iteration (ms): 500.0 |"
             " learning rate: 1.500E-04 | global batch size:     4 |"
             " lm loss: 4.000000E+00 | grad norm: 1.250 |"
             " number of skipped iterations:   0 | number of nan iterations:   0 |"
             " samples per second: 8.000 | tokens per gpu per second (tgs): 64.000 |"
             " TFLOPs: ");
    contains(out, " tokens per second: 128 | ETA: 1.5 s |\n");
    contains(out,
             " lm loss: 3.250000E+00 | grad norm: 1.250 |" /* of the skipped step */
             " number of skipped iterations:   1 | number of nan iterations:   1 |");
    contains(out,
             "\n iteration        5/       5 |"); /* the last one, off the interval */
    contains(out, " | loss scale: 65536.0 | grad norm: 1.250 |");
    assert_null(strstr(out, "iteration        3/"));
    assert_null(strchr(out, '\r')); /* no terminal, no rewriting */
    contains(out,
             "---\n validation loss at iteration 5 | lm loss value: 3.047619E+00 |"
             " lm loss PPL: 2.106513E+01 | bits per token: 4.3968 | targets: 3 | "
             "samples: 4 of 7 |"
             " lm loss of text: 3.000000E+00 | lm loss of repeat: 4.000000E+00 |\n---");
    contains(
        out,
        "---\n validation loss at iteration 5 in a b.h5 | lm loss value: 3.047619E+00 |"
        " targets: 3 | lm loss of text: 3.000000E+00 |"
        " lm loss of repeat: 4.000000E+00 |\n");
    contains(out, " | ETA: 0.0 s | lm loss of text: 3.000000E+00 |"
                  " lm loss of repeat: 4.000000E+00 |\n");
    assert_null(strstr(out, "of tag"));
    contains(out,
             "done: iteration 5 of 5 in 12 s, training loss 3.0000, validation loss"
             " 3.1250; unigram entropy 4.0000 (nats per token)\n");
}

static void test_short_lines(void **state)
{
    const struct mds_metrics_run run = facts;
    struct mds_metrics_step s = step_at(5, 3);
    struct mds_interval of = {.loss = 3, .by_kind = kind_losses};
    struct mds_metrics_eval eval = {
        .split = "test", .iteration = 5, .samples = 4, .losses = &kind_losses};
    struct mds_str out = {0};

    (void)state;
    of.tokens_per_s = 14100;
    of.eta_s = 140;
    mds_console_short_step(&out, &run, &s, &of, NAN);
    assert_string_equal(out.s, "step 5/5  loss 3.0000  14.10 k tokens/s  ETA "
                               "2 min 20 s  text 3.0000  repeat 4.0000");
    mds_str_fini(&out);
    of.skipped = of.nan_steps = 1;
    of.by_kind = (struct mds_kind_losses){{0}, {0}};
    mds_console_short_step(&out, &run, &s, &of, 3.25);
    assert_string_equal(out.s, "step 5/5  loss 3.0000  val 3.2500  14.10 k tokens/s  "
                               "ETA 2 min 20 s  skipped 2");
    mds_str_fini(&out);
    mds_console_short_eval(&out, &run, &eval);
    assert_string_equal(out.s, "test at step 5: loss 3.0476, perplexity 21.07, 4 "
                               "windows  text 3.0000  repeat 4.0000\n");
    mds_str_fini(&out);
}

static void test_json(void **state)
{
    static char text[16384];
    char path[128];
    int lines = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/run.jsonl", scratch);
    read_file(path, text, sizeof text);
    for (char *p = text; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 1 + 5 + 1 + 1 + 1);
    contains(text, "\"model_size_key\":\"GPT\\\"X\"");
    contains(text, "\"causal_flops_per_step\":1081344");
    contains(text, "\"iteration\":3,\"consumed_samples\":12,\"consumed_tokens\":192,"
                   "\"elapsed_s\":0.25");
    contains(text, "\"lm_loss\":null"); /* step 4's NaN */
    contains(text, "\"lm_loss\":3,\"lm_loss_text\":3,\"lm_loss_repeat\":4,\"grad");
    contains(text, "\"lm_loss_text\":3,\"lm_loss_repeat\":4,\"perplexity\":21.06");
    contains(text, ",\"targets\":3}\n");
    contains(text, "\"event\":\"eval_file\"");
    contains(text, "\"file\":\"a b.h5\",\"lm_loss\":3.047619047619047");
    contains(text, "\"grad_norm\":1.25,\"skipped\":0");
    contains(text, "\"grad_norm\":1.25,\"loss_scale\":65536,\"skipped\":0");
    contains(text, "\"tokens_per_s_per_rank\":128");
    contains(text, "\"event\":\"eval\"");
    contains(text, "\"split\":\"validation\"");
    contains(text, "\"event\":\"end\"");
}

/* ---- TensorBoard, read by a reader that shares nothing with the writer ---- */

static uint64_t little(const unsigned char *p, int n)
{
    return n == 0 ? 0 : little(p + 1, n - 1) << 8 | p[0];
}

static uint32_t unmask(uint32_t masked)
{
    uint32_t rotated = masked - 0xa282ead8u;

    return rotated >> 17 | rotated << 15;
}

/* The payload of a protobuf field in [p, end), or NULL; for scalars its first byte. */
static const unsigned char *field(const unsigned char *p, const unsigned char *end,
                                  int wanted, uint64_t *len)
{
    while (p < end) {
        int number = *p >> 3, wire = *p & 7;
        const unsigned char *value = ++p;
        uint64_t varint = 0;

        if (wire == 0 || wire == 2)
            for (int shift = 0, more = 1; more; shift += 7) {
                more = *p >> 7;
                varint |= (uint64_t)(*p++ & 0x7f) << shift;
            }
        if (wire == 2)
            value = p;
        *len = wire == 0 ? varint : wire == 1 ? 8 : wire == 5 ? 4 : varint;
        if (number == wanted)
            return value;
        p += wire == 0 ? 0 : *len;
    }
    return NULL;
}

/* The one file of charts in a folder below scratch. */
static size_t read_events(const char *folder, unsigned char *buf, size_t size)
{
    char path[512];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "%s/%s", scratch, folder);
    d = opendir(path);
    assert_non_null(d);
    while ((e = readdir(d)) && strncmp(e->d_name, "events.out.tfevents.", 20))
        ;
    assert_non_null(e);
    snprintf(path, sizeof path, "%s/%s/%s", scratch, folder, e->d_name);
    closedir(d);
    return read_file(path, (char *)buf, size);
}

/* Sum of the values with this tag, and how many there are. */
static int sum_scalars(const unsigned char *buf, size_t n, const char *tag, double *sum)
{
    int found = 0;

    *sum = 0;
    for (const unsigned char *p = buf; p < buf + n;) {
        uint64_t size = little(p, 8), len, vlen;
        const unsigned char *event = p + 12, *summary, *value, *name;
        float v;

        assert_int_equal(unmask((uint32_t)little(p + 8, 4)), mds_crc32c(p, 8));
        assert_int_equal(unmask((uint32_t)little(event + size, 4)),
                         mds_crc32c(event, size));
        p = event + size + 4;
        summary = field(event, event + size, 5, &len);
        if (!summary)
            continue;
        value = field(summary, summary + len, 1, &vlen);
        name = field(value, value + vlen, 1, &len);
        if (len != strlen(tag) || memcmp(name, tag, len))
            continue;
        memcpy(&v, field(value, value + vlen, 2, &len), 4);
        *sum += v;
        found++;
    }
    return found;
}

static void test_tensorboard(void **state)
{
    static unsigned char buf[65536];
    size_t n = read_events("tb/deep", buf, sizeof buf);
    const unsigned char *version;
    uint64_t len;
    double sum;

    (void)state;
    assert_int_equal(mds_crc32c("123456789", 9), 0xe3069283);
    version = field(buf + 12, buf + 12 + little(buf, 8), 3, &len);
    assert_int_equal(len, 13);
    assert_memory_equal(version, "brain.Event:2", 13);
    assert_int_equal(sum_scalars(buf, n, "grad-norm/grad-norm", &sum), 5);
    assert_true(sum == 5 * 1.25);
    assert_int_equal(sum_scalars(buf, n, "loss-scale/loss-scale", &sum), 1);
    assert_true(sum == 65536);
    assert_int_equal(sum_scalars(buf, n, "lm-loss-training/lm loss", &sum), 5);
    assert_true(isnan(sum)); /* step 4 */
    assert_int_equal(sum_scalars(buf, n, "learning-rate/learning-rate", &sum), 5);
    assert_int_equal(sum_scalars(buf, n, "lm-loss-validation/lm loss validation", &sum),
                     1);
    assert_true(fabs(sum - 6.4 / 2.1) < 1e-6);
    assert_int_equal(sum_scalars(buf, n, "lm-loss-training/lm loss of text", &sum), 1);
    assert_true(sum == 3);
    assert_int_equal(sum_scalars(buf, n, "lm-loss-validation/lm loss of repeat", &sum),
                     1);
    assert_true(sum == 4);
}

/* A run that goes on says from where. */
static void test_tensorboard_start(void **state)
{
    unsigned char buf[512];
    const unsigned char *event, *start;
    struct mds_tensorboard *tb;
    char path[128];
    uint64_t size, len;

    (void)state;
    snprintf(path, sizeof path, "%s/tb2", scratch);
    assert_int_equal(mds_tensorboard_open(path, 300, &tb), MDS_OK);
    assert_int_equal(mds_tensorboard_flush(tb), MDS_OK);
    read_events("tb2", buf, sizeof buf);
    assert_int_equal(mds_tensorboard_close(tb), MDS_OK);
    event = buf + 16 + little(buf, 8) + 12;
    size = little(event - 12, 8);
    assert_non_null(field(event, event + size, 2, &len));
    assert_int_equal(len, 301); /* a varint is its own length in field() */
    start = field(event, event + size, 7, &len);
    assert_int_equal(len, 2);
    assert_non_null(field(start, start + len, 1, &len));
    assert_int_equal(len, 1); /* START */
}

static void test_unwritable_sinks(void **state)
{
    struct mds_metrics *m = NULL;
    struct mds_tensorboard *tb;
    char path[128];

    (void)state;
    assert_int_not_equal(mds_metrics_open(&facts, "/nowhere/run.jsonl", NULL, &m), 0);
    contains(mds_fail_text(), "/nowhere/run.jsonl");
    snprintf(path, sizeof path, "%s/out",
             scratch); /* a file, where a directory must be */
    assert_int_equal(mds_tensorboard_open(path, 0, &tb), MDS_EIO);
    contains(mds_fail_text(), path);
    assert_int_equal(mds_tensorboard_open("/dev/null/tb", 0, &tb), MDS_EIO);
    assert_null(m);
}

/* A loss that falls and swings by 0.1: the mean follows, and only what leaves the swing
 * is a spike. */
static void test_spikes(void **state)
{
    struct mds_spikes s = {0};
    double limit = 0;

    (void)state;
    assert_false(mds_spikes_add(&s, 1e6, 6, &limit)); /* nothing to compare with */
    s = (struct mds_spikes){0};
    for (int i = 0; i < 1000; i++)
        assert_false(
            mds_spikes_add(&s, 5 - 1e-3 * i + (i % 2 ? 0.05 : -0.05), 6, &limit));
    assert_true(fabs(s.mean - 4.1) < 0.05);
    assert_true(sqrt(s.variance) > 0.05 && sqrt(s.variance) < 0.12);
    assert_false(mds_spikes_add(&s, s.mean + 5.9 * sqrt(s.variance), 6, &limit));
    assert_true(mds_spikes_add(&s, 9, 6, &limit));
    assert_true(limit > 4.3 && limit < 5);
    assert_true(mds_spikes_add(&s, 9, 6, &limit)); /* the first did not hide it */
    assert_false(mds_spikes_add(&s, 1, 6, &limit));
}

/* Two stages of four and two ranks, of which the second has less to do. */
static void test_stragglers(void **state)
{
    struct mds_rank_time t[6] = {{2, 1.0, 0}, {2, 0.2, 0}, {2, 1.0, 0},
                                 {2, 1.1, 0}, {2, 1.6, 1}, {2, 1.5, 1}};
    struct mds_straggler_history h = {0};
    struct mds_straggler s;

    (void)state;
    assert_int_equal(mds_straggler_find(t, 6, &s), MDS_OK);
    assert_int_equal(s.rank, 1);
    assert_float_equal(s.wait_s, 0.2, 1e-12);
    assert_float_equal(s.median_own_s, 1.0, 1e-12);
    assert_float_equal(s.excess, 0.8, 1e-12);
    assert_float_equal(s.most_wait_s, 1.6, 1e-12);
    for (int i = 0; i < 3; i++) /* that may be chance */
        assert_false(mds_straggler_needs_warning(&h, &s, 0.1));
    assert_true(mds_straggler_needs_warning(&h, &s, 0.1));
    assert_false(mds_straggler_needs_warning(&h, &s, 0.1)); /* known */

    t[1].wait_s = 0.95; /* now the second stage's last is the slowest */
    t[5].wait_s = 0.8;
    assert_int_equal(mds_straggler_find(t, 6, &s), MDS_OK);
    assert_int_equal(s.rank, 5);
    assert_float_equal(s.excess, 2, 1e-12);
    for (int i = 0; i < 12; i++) { /* never four times in a row */
        s.excess = i % 4 ? 0.2 : 0.05;
        assert_false(mds_straggler_needs_warning(&h, &s, 0.1));
    }
    for (int i = 0; i < 5; i++)
        assert_false(mds_straggler_needs_warning(&h, &s, 0.5));
    for (int i = 0; i < 4; i++)
        assert_int_equal(mds_straggler_needs_warning(&h, &s, 0.1), i == 3);

    t[0] = (struct mds_rank_time){1, 0.5, 0}; /* alone: nobody to compare with */
    assert_int_equal(mds_straggler_find(t, 1, &s), MDS_OK);
    assert_true(s.rank == 0 && s.excess == 0);
}

/* Eight ranks on four hosts, two groups of four. */
static void make_records(struct mds_preflight_record r[8])
{
    memset(r, 0, 8 * sizeof *r);
    for (int i = 0; i < 8; i++) {
        snprintf(r[i].host, sizeof r[i].host, "node%d", i / 2);
        r[i].gpus = 2;
        r[i].flops = 400e12 + i;
        r[i].in_rate = r[i].out_rate = 50e9;
        r[i].host_bytes = 500e9;
        r[i].save_rate = i % 2 ? 0 : 1e9; /* the first of a host writes */
        r[i].tests = 1;
        r[i].test[0] = (struct mds_preflight_test){.name = "tp all_reduce",
                                                   .size = 4,
                                                   .here = i % 4,
                                                   .small_s = 1e-5,
                                                   .rate = 100e9};
    }
}

static const struct mds_preflight_limits gpu_limits = {0.9, 0.5, 0.1};

/* The only fault is this rank's, and its text has these words. */
static void assert_fault(const struct mds_preflight_record r[8], int rank,
                         const char *words)
{
    struct mds_preflight_faults f;
    struct mds_str text = {0};

    assert_int_equal(mds_preflight_find_faults(r, 8, &gpu_limits, &f), MDS_OK);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.v[0].rank, rank);
    assert_non_null(strstr(f.v[0].text, words));
    mds_preflight_print(r, 8, &f, &text);
    assert_non_null(strstr(text.s, r[rank].host));
    assert_non_null(strstr(text.s, "<--"));
    assert_non_null(strstr(text.s, words));
    mds_str_fini(&text);
    free(f.v);
}

static void test_preflight(void **state)
{
    struct mds_preflight_record r[8];
    struct mds_preflight_faults f;

    (void)state;
    make_records(r);
    assert_int_equal(mds_preflight_find_faults(r, 8, &gpu_limits, &f), MDS_OK);
    assert_int_equal(f.n, 0);
    r[5].flops = 355e12; /* 11 % slower */
    assert_fault(r, 5, "GEMMs: 355.00 TFLOP/s, the median is 400.00 TFLOP/s");
    make_records(r);
    r[3].out_rate = 24e9;
    assert_fault(r, 3, "copies from the GPU: 24.00 GB/s, the median is 50.00 GB/s");
    make_records(r);
    r[7].host_bytes = 200e9;
    assert_fault(r, 7, "available host memory: 200.00 GB");
    make_records(r);
    r[2].save_rate = 0.05e9;
    assert_fault(r, 2, "writing to --save: 50.00 MB/s");
    make_records(r);
    for (int i = 4; i < 8; i++) /* one line for the group, by its first rank */
        r[i].test[0].rate = 40e9;
    assert_fault(r, 4, "tp all_reduce among the 4 ranks of its group: 40.00 GB/s");
    make_records(r);
    r[6].gpus = r[7].gpus = 1; /* one line for the host */
    assert_fault(r, 6, "its host has 1 GPU, others have 2");
    make_records(r);
    r[1].ecc_errors = 2;
    assert_fault(r, 1, "2 uncorrected ECC errors");
}

/* ---- experts ---- */

static void test_expert_load(void **state)
{
    static const double even[] = {5, 5, 5, 5}, one[] = {0, 20, 0, 0},
                        both[] = {4, 4, 4, 4, 0, 8, 8, 0};
    struct mds_expert_load l = mds_expert_load_of(even, 1, 4);

    (void)state;
    assert_true(l.most == 1 && fabs(l.entropy - 1) < 1e-15 && l.idle == 0);
    l = mds_expert_load_of(one, 1, 4);
    assert_true(l.most == 4 && fabs(l.entropy) < 1e-15 && l.idle == 3);
    l = mds_expert_load_of(both, 2, 4);
    assert_true(l.most == 2 && fabs(l.entropy - 0.75) < 1e-15 && l.idle == 2);
}

/* A block without experts has no part in the means. */
static void test_router_losses(void **state)
{
    static const double load[] = {4, 4, 0, 0, 8, 0}, losses[] = {1, 9, 5, 5, 2, 10};
    struct mds_experts_config x = {.n = 2, .balance = MDS_BALANCE_BATCH};
    double mean[2];

    (void)state;
    mds_expert_mean_losses(load, losses, 3, 2, mean);
    assert_true(mean[0] == 1.5 && mean[1] == 9.5);
    assert_null(mds_router_names_of(&x).of[0]);
    x.balance_coeff = x.z_coeff = 1;
    assert_string_equal(mds_router_names_of(&x).of[0], "global_load_balancing_loss");
    assert_string_equal(mds_router_names_of(&x).of[1], "z_loss");
    x.balance = MDS_BALANCE_NONE;
    assert_null(mds_router_names_of(&x).of[0]);
}

static void test_idle_experts(void **state)
{
    static const double load[] = {1, 0, 2, 3};
    int64_t idle[4] = {7, 7, 0, 0};

    (void)state;
    for (int64_t i = 1; i <= 250; i++)
        mds_expert_warn_of_idle(i, load, 2, 2, idle);
    assert_true(idle[0] == 0 && idle[1] == 257 && idle[2] == 0 && idle[3] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causal_flops),
        cmocka_unit_test(test_window_flops),
        cmocka_unit_test(test_flops_of_experts),
        cmocka_unit_test(test_flops_of_documents),
        cmocka_unit_test(test_flops_of_documents_in_windows),
        cmocka_unit_test(test_megatron_flops),
        cmocka_unit_test(test_console),
        cmocka_unit_test(test_short_lines),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_tensorboard),
        cmocka_unit_test(test_tensorboard_start),
        cmocka_unit_test(test_unwritable_sinks),
        cmocka_unit_test(test_spikes),
        cmocka_unit_test(test_expert_load),
        cmocka_unit_test(test_router_losses),
        cmocka_unit_test(test_idle_experts),
        cmocka_unit_test(test_stragglers),
        cmocka_unit_test(test_preflight),
    };

    return cmocka_run_group_tests(tests, make_run, leave_scratch);
}
