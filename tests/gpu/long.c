/* One layer in tiles, bf16, forward and backward, as long as memory allows: sampled
 * rows against plain loops in double.  Each part of the layer is held against what the
 * device gave that part: so an error is seen where it is made, and attention's rows
 * over all keys cost what a row costs.
 *
 *     long [DEVICE [TOKENS [HIDDEN [HEADS [TILE [CHUNK]]]]]]
 *
 * Without arguments a small layer on the cpu, whole and in chunks.  Lines as TAP. */
#include "engine/engine.h"
#include "engine/internal.h"
#include "kernels/half.h"
#include "model/parts.h"
#include "pipeline/pipe.h"
#include "tests/gpu/plain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 8, ENTRIES = 8 };

struct layer {
    int64_t S, H, A, D, F;
    struct mds_config config;
    struct mds_dev *dev, *host;
    struct mds_groups groups;
    struct mds_engine *e;
    const struct layer_ids *id;
    /* on the host, bf16; rows of H, or of 3 H */
    uint16_t *x, *d, *y, *dx, *qkv, *o, *d_o, *dqkv;
    float *lse; /* [A, S] */
    int64_t sample[SAMPLES];
};

static int test, failed;

static void die(const char *what)
{
    printf("Bail out! %s: %s\n", what, mds_fail_text());
    exit(1);
}

static void must(enum mds_rc rc, const char *what)
{
    if (rc)
        die(what);
}

static void *take(int64_t n, size_t size)
{
    void *p = malloc((size_t)n * size);

    if (!p)
        die("host memory");
    return p;
}

static void verdict(const char *what, double off, double limit)
{
    int ok = off <= limit;

    printf("%sok %d - %s: off by %.2g of %.2g\n", ok ? "" : "not ", ++test, what, off,
           limit);
    fflush(stdout);
    failed |= !ok;
}

/* ---- the layer on the device ---- */

static struct mds_config config_of(int64_t S, int64_t H, int64_t A, int64_t tile,
                                   int64_t chunk)
{
    struct mds_config c = {0};

    c.model = (struct mds_model_config){.layers = 1,
                                        .hidden = H,
                                        .heads = A,
                                        .kv_heads = A,
                                        .head_dim = H / A,
                                        .ffn_hidden = 4 * H,
                                        .seq_length = S,
                                        .max_positions = S,
                                        .vocab = 64,
                                        .padded_vocab = 64,
                                        .vocab_divisor = 64,
                                        .position = MDS_POSITION_NONE,
                                        .norm = MDS_NORM_LAYERNORM,
                                        .norm_eps = 1e-5,
                                        .linear_bias = 1,
                                        .tied_head = 1,
                                        .init_std = 1 / sqrt((double)H)};
    c.batch = (struct mds_batch_config){1, 1, 1};
    c.optim = (struct mds_optim_config){.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    c.parallel = (struct mds_parallel_config){1, 1, 1, 1, 1, .virtual_stages = 1};
    c.train = (struct mds_train_config){.seed = 3,
                                        .type = MDS_TYPE_BF16,
                                        .recompute = MDS_RECOMPUTE_FULL,
                                        .recompute_layers = 1,
                                        .sequence_tile = tile,
                                        .attention_chunk = chunk,
                                        .bucket_bytes = 1 << 20};
    return c;
}

static void open_layer(struct layer *l, const char *device)
{
    struct mds_dev_spec spec = {.name = device};
    struct mds_engine_need need;
    struct mds_engine_spec engine = {
        .config = &l->config, .groups = &l->groups, .need = &need, .threads = 1};

    must(mds_dev_create(&spec, &l->dev), "device");
    spec.beside = 1;
    must(mds_dev_create(&spec, &l->host), "host memory");
    must(mds_groups_create(&l->config.parallel, 1, 0, NULL, &l->groups), "groups");
    must(mds_engine_measure(&l->config, 1, 0, 1, &need), "measuring");
    need.step_bytes += 2 * (l->S * l->H * 2 + MDS_ARENA_ALIGN); /* for x and y */
    engine.dev = l->dev;
    engine.host = l->host;
    must(mds_engine_create(&engine, &l->e), "memory");
    must(mds_zero_start(mds_engine_zero(l->e), 3), "start values");
    l->id = &l->e->gpt->piece[0].layer[0];
}

static void close_layer(struct layer *l)
{
    mds_engine_destroy(l->e);
    mds_groups_fini(&l->groups);
    mds_dev_destroy(l->host);
    mds_dev_destroy(l->dev);
}

/* Numbers around 0 whose bits depend on where they are. */
static void fill(uint16_t *x, int64_t n, uint64_t seed, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t z = ((uint64_t)i + seed) * UINT64_C(0x9E3779B97F4A7C15);

        z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        z ^= z >> 27;
        x[i] = mdsk_f32_to_bf16(scale * ((float)(z >> 40) / 8388608.0f - 1.0f));
    }
}

/* What lies on the device, or with chunks in host memory already: then something of the
 * device's is to be copied first, which waits for all. */
static void copy_out(const struct layer *l, void *to, const void *from, int64_t bytes,
                     int on_host)
{
    if (!on_host) {
        must(mds_dev_copy_out(l->dev, to, from, bytes), "copying out");
        return;
    }
    memcpy(to, from, (size_t)bytes);
}

/* q, k and v side by side, as rows; with chunks from their two places. */
static void copy_qkv(const struct layer *l, uint16_t *to, const struct tiled_room *w,
                     const void *rows)
{
    const uint16_t *q = w->far.q, *kv = w->far.kv;
    int64_t H = l->H;

    if (w->far.chunk == 0) {
        copy_out(l, to, rows, 3 * l->S * H * 2, 0);
        return;
    }
    for (int64_t i = 0; i < l->S; i++) {
        memcpy(to + 3 * i * H, q + i * H, (size_t)H * 2);
        memcpy(to + (3 * i + 1) * H, kv + 2 * i * H, (size_t)H * 4);
    }
}

static void run_layer(struct layer *l)
{
    struct mds_gpt *g = l->e->gpt;
    struct mds_gpt_run run = {.dev = l->dev,
                              .arena = &l->e->step,
                              .host = l->e->host.dev ? &l->e->host : NULL,
                              .train = &l->config.train,
                              .B = 1,
                              .S = l->S,
                              .sets = 1,
                              .training = 1,
                              .grad_scale = 1};
    const struct kept nothing = {0};
    struct tiled_room w = {0};
    int64_t bytes = l->S * l->H * 2;
    int far = l->config.train.attention_chunk > 0;
    void *x = NULL, *y = NULL;

    must(mds_zero_step_begin(l->e->zero), "step");
    mds_zero_pass_begin(l->e->zero, 1);
    must(mds_gpt_step_begin(g, &run), "step");
    must(mds_gpt_take(g, MDS_MEM_WORK, l->S * l->H, &x), "x");
    must(mds_gpt_take(g, MDS_MEM_WORK, l->S * l->H, &y), "y");
    must(mds_gpt_tiled_take(g, &w), "room");
    mds_dev_copy_in(l->dev, x, l->x, bytes);
    must(mds_gpt_tiled_fwd(g, l->id, &w, NULL, x, y), "forward");
    copy_out(l, l->y, y, bytes, 0);
    copy_qkv(l, l->qkv, &w, w.qkv);
    copy_out(l, l->o, w.o, bytes, far);
    copy_out(l, l->lse, w.lse, l->A * l->S * 4, 0);
    mds_dev_copy_in(l->dev, y, l->d, bytes);
    must(mds_gpt_tiled_bwd(g, l->id, &w, &nothing, NULL, x, y), "backward");
    copy_out(l, l->dx, y, bytes, 0);
    copy_out(l, l->d_o, far ? w.far.d_o : w.d_o, bytes, far);
    copy_qkv(l, l->dqkv, &w, w.dqkv);
    mds_gpt_step_end(g);
}

/* ---- plain loops in double ---- */

static double at(const uint16_t *x, int64_t i)
{
    return mdsk_bf16_to_f32(x[i]);
}

/* A parameter, or its gradient, whole on the host. */
static double *weights(const struct layer *l, int id, int64_t n)
{
    uint16_t *raw = take(n, sizeof *raw);
    double *w = take(n, sizeof *w);

    must(mds_params_acquire(l->e->params, l->id->unit), "weights");
    must(mds_dev_copy_out(l->dev, raw, mds_param_weight(l->e->params, id), n * 2),
         "weights");
    must(mds_params_release(l->e->params, l->id->unit), "weights");
    for (int64_t i = 0; i < n; i++)
        w[i] = at(raw, i);
    free(raw);
    return w;
}

static struct linear linear_of(const struct layer *l, const struct linear_ids *id)
{
    return (struct linear){weights(l, id->weight, id->in * id->out),
                           weights(l, id->bias, id->out), id->in, id->out};
}

static void row_of(const uint16_t *x, int64_t row, int64_t n, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = at(x, row * n + i);
}

/* Relative distance of a row of the device's. */
static double row_off(const uint16_t *got, int64_t first, const double *want, int64_t n)
{
    double d = 0, s = 0;

    for (int64_t i = 0; i < n; i++) {
        d += (at(got, first + i) - want[i]) * (at(got, first + i) - want[i]);
        s += want[i] * want[i];
    }
    return sqrt(d / s);
}

static double worst(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* ---- parts of the layer ---- */

static void check_qkv(const struct layer *l)
{
    struct linear m = linear_of(l, &l->id->qkv);
    double *x = take(3 * l->H, sizeof *x), *n = take(l->H, sizeof *n), off = 0;

    for (int i = 0; i < SAMPLES; i++) {
        row_of(l->x, l->sample[i], l->H, x);
        norm(l->H, x, n);
        forward(&m, n, x);
        off = worst(row_off(l->qkv, l->sample[i] * 3 * l->H, x, 3 * l->H), off);
    }
    verdict("q, k, v of the input", off, 1e-2);
    free(n);
    free(x);
    linear_free(&m);
}

/* Element e of a row's head: part 0 q, 1 k, 2 v. */
static double inner(const struct layer *l, const uint16_t *x, int64_t row, int part,
                    int64_t h, int64_t e)
{
    return at(x, (3 * row + part) * l->H + h * l->D + e);
}

static double score(const struct layer *l, int64_t q, int64_t k, int64_t h)
{
    double s = 0;

    for (int64_t e = 0; e < l->D; e++)
        s += inner(l, l->qkv, q, 0, h, e) * inner(l, l->qkv, k, 1, h, e);
    return s / sqrt((double)l->D);
}

/* Of d_o against a row of another: v of key k, or o. */
static double dot_d_o(const struct layer *l, int64_t q, const uint16_t *x,
                      int64_t first, int64_t h)
{
    double s = 0;

    for (int64_t e = 0; e < l->D; e++)
        s += at(l->d_o, q * l->H + h * l->D + e) * at(x, first + e);
    return s;
}

static double delta(const struct layer *l, int64_t q, int64_t h)
{
    return dot_d_o(l, q, l->o, q * l->H + h * l->D, h);
}

static double dot_v(const struct layer *l, int64_t q, int64_t k, int64_t h)
{
    return dot_d_o(l, q, l->qkv, (3 * k + 2) * l->H + h * l->D, h);
}

/* One query of one head against all its keys: o, log-sum-exp and dq. */
static void check_query(const struct layer *l, int64_t q, int64_t h, double off[3])
{
    double *s = take(q + 1, sizeof *s), *o = take(2 * l->D, sizeof *o), *dq = o + l->D;
    double top = -INFINITY, sum = 0, lse, d = delta(l, q, h);

    memset(o, 0, 2 * (size_t)l->D * sizeof *o);
    for (int64_t k = 0; k <= q; k++) {
        s[k] = score(l, q, k, h);
        top = s[k] > top ? s[k] : top;
    }
    for (int64_t k = 0; k <= q; k++)
        sum += exp(s[k] - top);
    lse = top + log(sum);
    for (int64_t k = 0; k <= q; k++) {
        double p = exp(s[k] - lse), ds = p * (dot_v(l, q, k, h) - d);

        for (int64_t e = 0; e < l->D; e++) {
            o[e] += p * inner(l, l->qkv, k, 2, h, e);
            dq[e] += ds * inner(l, l->qkv, k, 1, h, e) / sqrt((double)l->D);
        }
    }
    off[0] = worst(row_off(l->o, q * l->H + h * l->D, o, l->D), off[0]);
    off[1] = worst(fabs(l->lse[h * l->S + q] - lse), off[1]);
    off[2] = worst(row_off(l->dqkv, 3 * q * l->H + h * l->D, dq, l->D), off[2]);
    free(o);
    free(s);
}

/* One key of one head against all queries that see it, with their log-sum-exp. */
static void check_key(const struct layer *l, int64_t k, int64_t h, double off[2])
{
    double *dk = take(2 * l->D, sizeof *dk), *dv = dk + l->D;

    memset(dk, 0, 2 * (size_t)l->D * sizeof *dk);
    for (int64_t q = k; q < l->S; q++) {
        double p = exp(score(l, q, k, h) - l->lse[h * l->S + q]);
        double ds = p * (dot_v(l, q, k, h) - delta(l, q, h)) / sqrt((double)l->D);

        for (int64_t e = 0; e < l->D; e++) {
            dk[e] += ds * inner(l, l->qkv, q, 0, h, e);
            dv[e] += p * at(l->d_o, q * l->H + h * l->D + e);
        }
    }
    off[0] = worst(row_off(l->dqkv, (3 * k + 1) * l->H + h * l->D, dk, l->D), off[0]);
    off[1] = worst(row_off(l->dqkv, (3 * k + 2) * l->H + h * l->D, dv, l->D), off[1]);
    free(dk);
}

static void check_attention(const struct layer *l)
{
    double query[3] = {0}, key[2] = {0};

    for (int i = 0; i < SAMPLES; i++) {
        check_query(l, l->sample[i], i % 2 ? l->A - 1 : 0, query);
        check_key(l, l->sample[i], i % 2 ? 0 : l->A - 1, key);
    }
    verdict("attention's result", query[0], 1e-2);
    verdict("its log-sum-exp", query[1], 2e-3);
    verdict("gradients of queries", query[2], 3e-2);
    verdict("gradients of keys", key[0], 3e-2);
    verdict("gradients of values", key[1], 1e-2);
}

struct leaving {
    struct linear out, up, down, qkv;
    double *x, *n, *o, *branch, *u, *g, *d, *dn; /* rows */
};

/* A row from attention's result to the layer's, and back to the layer's input. */
static void check_row(const struct layer *l, struct leaving *w, int64_t row,
                      double off[3])
{
    int64_t H = l->H, F = l->F;
    double rstd;

    row_of(l->o, row, H, w->o);
    row_of(l->x, row, H, w->x);
    forward(&w->out, w->o, w->branch);
    for (int64_t i = 0; i < H; i++)
        w->x[i] += w->branch[i];
    rstd = norm(H, w->x, w->n);
    forward(&w->up, w->n, w->u);
    for (int64_t i = 0; i < F; i++)
        w->g[i] = gelu(w->u[i], &w->u[i]);
    forward(&w->down, w->g, w->branch);
    for (int64_t i = 0; i < H; i++)
        w->branch[i] += w->x[i];
    off[0] = worst(row_off(l->y, row * H, w->branch, H), off[0]);

    row_of(l->d, row, H, w->d);
    backward(&w->down, w->d, w->g);
    for (int64_t i = 0; i < F; i++)
        w->g[i] *= w->u[i];
    backward(&w->up, w->g, w->dn);
    norm_bwd(H, w->n, rstd, w->dn, w->d);
    backward(&w->out, w->d, w->o);
    off[1] = worst(row_off(l->d_o, row * H, w->o, H), off[1]);

    row_of(l->x, row, H, w->x);
    rstd = norm(H, w->x, w->n);
    row_of(l->dqkv, row, 3 * H, w->u);
    backward(&w->qkv, w->u, w->dn);
    norm_bwd(H, w->n, rstd, w->dn, w->d);
    off[2] = worst(row_off(l->dx, row * H, w->d, H), off[2]);
}

static void check_rows(const struct layer *l)
{
    struct leaving w = {.out = linear_of(l, &l->id->out),
                        .up = linear_of(l, &l->id->up),
                        .down = linear_of(l, &l->id->down),
                        .qkv = linear_of(l, &l->id->qkv)};
    double **rows[] = {&w.x, &w.n, &w.o, &w.branch, &w.u, &w.g, &w.d, &w.dn};
    double off[3] = {0};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        *rows[i] = take(l->F, sizeof **rows[i]);
    for (int i = 0; i < SAMPLES; i++)
        check_row(l, &w, l->sample[i], off);
    verdict("the layer's result", off[0], 1e-2);
    verdict("the gradient of attention's result", off[1], 1e-2);
    verdict("the gradient of the layer's input", off[2], 1e-2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        free(*rows[i]);
    linear_free(&w.out);
    linear_free(&w.up);
    linear_free(&w.down);
    linear_free(&w.qkv);
}

/* Entries of the gradient of q's weight: sums over all rows, of all tiles. */
static void check_weight(const struct layer *l)
{
    double *x = take(2 * l->H, sizeof *x), *n = x + l->H, want[ENTRIES] = {0};
    double squares[ENTRIES] = {0}, off = 0;
    const float *grad = mds_param_grad(l->e->params, l->id->qkv.weight);

    for (int64_t i = 0; i < l->S; i++) {
        row_of(l->x, i, l->H, x);
        norm(l->H, x, n);
        for (int j = 0; j < ENTRIES; j++) {
            double term = n[(37 * j + 5) % l->H] * at(l->dqkv, 3 * i * l->H + 11 * j);

            want[j] += term;
            squares[j] += term * term;
        }
    }
    for (int j = 0; j < ENTRIES; j++) {
        int64_t from = 11 * j * l->H + (37 * j + 5) % l->H;
        float got;

        must(mds_dev_copy_out(l->dev, &got, grad + from, sizeof got), "gradients");
        off = worst(fabs(got - want[j]) / (sqrt(squares[j]) + fabs(want[j])), off);
    }
    verdict("gradients of a weight, over all rows", off, 1e-2);
    free(x);
}

/* ---- all of it ---- */

/* Rows at the ends, around the border of a tile, and between. */
static void choose_rows(struct layer *l)
{
    int64_t S = l->S, tile = l->config.train.sequence_tile;
    int64_t rows[SAMPLES] = {9, S / 3, S / 2, tile - 1, tile, S - S / 7, S - 2, S - 1};

    for (int i = 0; i < SAMPLES; i++)
        l->sample[i] = rows[i] < S ? rows[i] : S - 1;
}

static void check_layer(const char *device, int64_t S, int64_t H, int64_t A,
                        int64_t tile, int64_t chunk)
{
    struct layer l = {.S = S, .H = H, .A = A, .D = H / A, .F = 4 * H};
    uint16_t **rows[] = {&l.x, &l.d, &l.y, &l.dx, &l.o, &l.d_o};

    printf(
        "# %s: %lld tokens, hidden %lld, %lld heads, tiles of %lld, chunks of %lld\n",
        device, (long long)S, (long long)H, (long long)A, (long long)tile,
        (long long)chunk);
    l.config = config_of(S, H, A, tile, chunk);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        *rows[i] = take(S * H, sizeof **rows[i]);
    l.qkv = take(3 * S * H, sizeof *l.qkv);
    l.dqkv = take(3 * S * H, sizeof *l.dqkv);
    l.lse = take(A * S, sizeof *l.lse);
    fill(l.x, S * H, 1, 1);
    fill(l.d, S * H, 2, 1);
    choose_rows(&l);
    open_layer(&l, device);
    run_layer(&l);
    check_qkv(&l);
    check_attention(&l);
    check_rows(&l);
    check_weight(&l);
    close_layer(&l);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        free(*rows[i]);
    free(l.qkv);
    free(l.dqkv);
    free(l.lse);
}

int main(int argc, char **argv)
{
    int64_t size[] = {INT64_C(1) << 20, 2048, 16, 8192, 0};

    for (int i = 2; i < argc && i < 7; i++)
        size[i - 2] = strtoll(argv[i], NULL, 10);
    if (argc > 1) {
        check_layer(argv[1], size[0], size[1], size[2], size[3], size[4]);
    } else {
        check_layer("cpu", 301, 64, 2, 64, 0);
        check_layer("cpu", 301, 64, 2, 50, 77);
    }
    printf("1..%d\n", test);
    return failed;
}
