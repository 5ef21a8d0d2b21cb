/* SPDX-License-Identifier: BSD-3-Clause */
/* engine, parallel: generation on four ranks, in any layout, says what one rank says of
 * the same tokens, whatever pieces these come in; and takes what a dry run says. */
#include "engine/engine.h"
#include "tests/mpi/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 192, B = 3, VOCAB = 13, PREFILL = 97, FLIGHTS = 2 };

enum { LEARNED, GROUPED, WINDOW, ALIBI, EXPERTS, HALF, KINDS };

static const char *const kinds[KINDS] = {
    "learned positions", "grouped queries", "window", "ALiBi", "experts", "bf16"};

static const struct {
    const char *name;
    int pipeline, ring, ulysses, tensor, zero;
    int expert; /* where there are experts */
} layouts[] = {{"pipeline 4", 4, 1, 1, 1, 0, 1},
               {"pipeline 2, ring 2", 2, 2, 1, 1, 0, 2},
               {"ring 4", 1, 4, 1, 1, 0, 1},
               {"Ulysses 4", 1, 1, 4, 1, 0, 4},
               {"ring 2, Ulysses 2", 1, 2, 2, 1, 3, 2},
               {"Ulysses 2, tensor 2", 1, 1, 2, 2, 0, 1}};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* Pieces that ranks can share, that they cannot, and single tokens; and others. */
enum { PIECES = 9 };
static const int64_t pieces[PIECES] = {97, 3, 1, 1, 1, 50, 2, 1, 36};
static const int64_t others[PIECES] = {2, 95, 1, 3, 11, 7, 1, 62, 10};

static struct mds_config config_of(int kind)
{
    int llama = kind == GROUPED || kind == WINDOW || kind == HALF;
    struct mds_config c = {0};

    c.model =
        (struct mds_model_config){.layers = 4,
                                  .hidden = 24,
                                  .heads = 4,
                                  .kv_heads = llama ? 2 : 4,
                                  .head_dim = 6,
                                  .ffn_hidden = 40,
                                  .seq_length = LENGTH,
                                  .max_positions = LENGTH,
                                  .window = kind == WINDOW ? 20 : 0,
                                  .vocab = VOCAB,
                                  .padded_vocab = 16,
                                  .vocab_divisor = 16,
                                  .position = llama           ? MDS_POSITION_ROPE
                                              : kind == ALIBI ? MDS_POSITION_ALIBI
                                                              : MDS_POSITION_LEARNED,
                                  .rotary_percent = 1,
                                  .rotary_base = 10000,
                                  .norm_eps = 1e-5,
                                  .tied_head = !llama,
                                  .init_std = 0.2};
    if (kind == EXPERTS)
        c.model.experts = (struct mds_experts_config){
            .scale = 1, .n = 4, .topk = 2, .ffn_hidden = c.model.ffn_hidden};
    c.batch = (struct mds_batch_config){
        .micro = B, .global = B * FLIGHTS, .accumulation = FLIGHTS};
    c.parallel = (struct mds_parallel_config){.tensor = 1,
                                              .pipeline = 1,
                                              .ulysses = 1,
                                              .ring = 1,
                                              .expert = 1,
                                              .data = 1,
                                              .virtual_stages = 1};
    c.train.type = kind == HALF ? MDS_TYPE_BF16 : MDS_TYPE_F32;
    c.train.skip_train = 1;
    c.train.act.recompute = MDS_RECOMPUTE_FULL;
    c.train.act.recompute_layers = 1;
    c.train.bucket_bytes = 4096;
    c.train.flash_attn = 1;
    c.train.prefill = PREFILL;
    return c;
}

/* One engine, on all ranks or on this one. */
struct run {
    struct mds_config config;
    struct mds_dev *dev, *host;
    struct mds_groups groups;
    struct mds_engine_need need;
    struct mds_engine *engine;
};

static void open_run(struct run *r, const struct mds_config *c, int ranks, int rank)
{
    struct mds_dev_spec dev = {.name = "cpu", .threads = 1};
    struct mds_engine_spec spec = {
        .config = &r->config, .groups = &r->groups, .need = &r->need, .threads = 1};

    *r = (struct run){.config = *c};
    must(mds_dev_create(&dev, &r->dev), "device");
    must(mds_dev_create(&dev, &r->host), "device");
    must(mds_groups_create(&r->config.parallel, ranks, rank, ranks > 1 ? r->dev : NULL,
                           &r->groups),
         "groups");
    must(mds_engine_measure(&r->config, ranks, rank, ranks, &r->need), "measure");
    spec.dev = r->dev;
    spec.host = r->host;
    must(mds_engine_create(&spec, &r->engine), "engine");
    must(mds_zero_init_weights(mds_engine_zero(r->engine), 5), "weights");
}

static void close_run(struct run *r)
{
    mds_engine_destroy(r->engine);
    mds_groups_fini(&r->groups);
    mds_dev_destroy(r->host);
    mds_dev_destroy(r->dev);
}

static int32_t token_at(int64_t flight, int64_t s, int64_t b)
{
    return (int32_t)((s * s * 7 + s * 3 + b * 5 + flight * 4 + s / 9) % VOCAB);
}

/* logits [pieces, FLIGHTS, B, VOCAB] */
enum { LOGITS = B * VOCAB, ALL_LOGITS = PIECES * FLIGHTS * LOGITS };

static void read_all(struct run *r, const int64_t piece[PIECES], float *logits)
{
    int32_t token[PREFILL * B];
    int64_t first = 0;

    for (int i = 0; i < PIECES; first += piece[i++])
        for (int64_t k = 0; k < FLIGHTS; k++, logits += LOGITS) {
            struct mds_engine_tokens t = {
                .B = B, .batch = k, .first = first, .n = piece[i], .token = token};

            for (int64_t j = 0; j < t.n * B; j++)
                token[j] = token_at(k, first + j / B, j % B);
            must(mds_engine_decode(r->engine, &t, logits), "decode");
        }
    must(mds_engine_decode_end(r->engine), "end");
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
    double most = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        most = d <= most ? most : d;
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

static void compare(int kind, int layout, const float *want)
{
    static float is[ALL_LOGITS], again[ALL_LOGITS];
    const int64_t end = ALL_LOGITS - FLIGHTS * LOGITS;
    struct mds_config c = config_of(kind);
    double tolerance = kind == HALF ? 3e-2 : 2e-6, d = 0;
    struct run r;
    char name[128];
    int bad;

    c.parallel.pipeline = layouts[layout].pipeline;
    c.parallel.ring = layouts[layout].ring;
    c.parallel.ulysses = layouts[layout].ulysses;
    c.parallel.tensor = layouts[layout].tensor;
    c.parallel.zero_stage = layouts[layout].zero;
    c.parallel.expert = kind == EXPERTS ? layouts[layout].expert : 1;
    open_run(&r, &c, world.ranks, world.rank);
    read_all(&r, pieces, is);
    read_all(&r, others, again);
    if (mds_groups_last_stage(&r.groups))
        d = largest_difference(is, want, ALL_LOGITS);
    bad = !(d < tolerance);
    if (bad)
        printf("# rank %d: %g\n", world.rank, d);
    bad |= memcmp(is + end, again + end, FLIGHTS * LOGITS * sizeof *is) != 0;
    bad |= mds_dev_ledger(r.dev)->memory.total_peak >
           r.need.state_bytes + r.need.step_bytes;
    bad |= mds_dev_ledger(r.dev)->memory.total_peak != r.need.memory.total_peak;
    close_run(&r);
    snprintf(name, sizeof name, "%s, %s", kinds[kind], layouts[layout].name);
    check(bad, name);
}

int main(void)
{
    static float want[ALL_LOGITS];

    ranks_init();
    for (int kind = 0; kind < KINDS; kind++) {
        struct mds_config c = config_of(kind);
        struct run one;

        open_run(&one, &c, 1, 0);
        read_all(&one, pieces, want);
        close_run(&one);
        for (int i = 0; i < LAYOUTS; i++)
            compare(kind, i, want);
    }
    return ranks_fini();
}
