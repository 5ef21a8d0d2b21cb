/* SPDX-License-Identifier: BSD-3-Clause */
/* One layer in sequence tiles, bf16, forward and backward, with as many tokens as
 * memory allows.  Sampled rows are compared with simple loops in double.  The reference
 * of each operation gets the inputs that the device had, so an error shows in the
 * operation that made it, and a row can be checked without computing the others.
 *
 *     long [DEVICE [TOKENS [HIDDEN [HEADS [TILE]]]]]
 *
 * Without arguments: a small layer on the CPU.
 * Prints TAP. */
#include "base/clock.h"
#include "kernels/half.h"
#include "tests/gpu/layer.h"
#include "tests/gpu/plain.h"

#include <math.h>
#include <stdio.h>

static int test, failed;

static void print_tap_line(const char *what, double off, double limit)
{
    int ok = off <= limit;

    printf("%sok %d - %s: off by %.2g of %.2g\n", ok ? "" : "not ", ++test, what, off,
           limit);
    fflush(stdout);
    failed |= !ok;
}

/* ---- plain loops in double ---- */

static double at(const uint16_t *x, int64_t i)
{
    return mdsk_bf16_to_f32(x[i]);
}

/* A parameter, or its gradient, whole on the host. */
static double *weights(const struct layer *l, int id, int64_t n)
{
    uint16_t *raw = must_alloc(n, sizeof *raw);
    double *w = must_alloc(n, sizeof *w);

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

static void row_of(const uint16_t *x, int64_t n, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = at(x, i);
}

/* A row of the layer's input, or of the gradient of its result. */
static void noise_row(const struct layer *l, uint64_t seed, int64_t row, double *to)
{
    for (int64_t i = 0; i < l->H; i++)
        to[i] = mdsk_bf16_to_f32(noise(seed, row * l->H + i));
}

/* Relative distance of a row of the device's. */
static double row_off(const uint16_t *got, const double *want, int64_t n)
{
    double d = 0, s = 0;

    for (int64_t i = 0; i < n; i++) {
        d += (at(got, i) - want[i]) * (at(got, i) - want[i]);
        s += want[i] * want[i];
    }
    return sqrt(d / s);
}

/* ---- parts of the layer ---- */

static void compare_qkv(struct subtask *s)
{
    const struct linear *m = s->what;
    const struct layer *l = s->l;
    double *x = must_alloc(3 * l->H, sizeof *x), *n = must_alloc(l->H, sizeof *n);

    noise_row(l, 1, l->sample[s->index], x);
    norm(l->H, x, n);
    forward(m, n, x);
    for (int64_t h = 0; h < 2 * l->A; h++) /* of q, and of k */
        rotate(l, l->sample[s->index], 0, x + h * l->D);
    for (int p = 0; p < 3; p++)
        s->off[0] = worst(row_off(l->qkv[p].row + s->index * l->H, x + p * l->H, l->H),
                          s->off[0]);
    free(n);
    free(x);
}

static void check_qkv(struct layer *l)
{
    struct linear m = linear_of(l, &l->id->attention.qkv);
    struct subtask subtask[SAMPLES];
    double off[3] = {0};

    run_subtasks(l, SAMPLES, compare_qkv, &m, subtask, off);
    print_tap_line("rotated q, k, v of the input", off[0], 1e-2);
    linear_free(&m);
}

/* Of the rows i of x and k of y, of one of the two heads. */
static double dot(const struct layer *l, int head, const struct part *x, int64_t i,
                  const struct part *y, int64_t k)
{
    const uint16_t *a = x->head[head] + i * l->D, *b = y->head[head] + k * l->D;
    double s = 0;

    for (int64_t e = 0; e < l->D; e++)
        s += at(a, e) * at(b, e);
    return s;
}

static double score(const struct layer *l, int head, int64_t q, int64_t k)
{
    return dot(l, head, &l->qkv[0], q, &l->qkv[1], k) / sqrt((double)l->D);
}

/* y += f x, of a row of one of the two heads. */
static void add_row(const struct layer *l, double f, int head, const struct part *x,
                    int64_t i, double *y)
{
    for (int64_t e = 0; e < l->D; e++)
        y[e] += f * at(x->head[head] + i * l->D, e);
}

/* Gradient of the score of query q and key k, whose probability is p. */
static double score_grad(const struct layer *l, int head, int64_t q, int64_t k,
                         double p)
{
    double delta = dot(l, head, &l->d_o, q, &l->o, q);

    return p * (dot(l, head, &l->d_o, q, &l->qkv[2], k) - delta) / sqrt((double)l->D);
}

static double off_of(const struct layer *l, int head, const struct part *got,
                     int64_t row, const double *want)
{
    return row_off(got->head[head] + row * l->D, want, l->D);
}

/* One query of one head against all its keys: o, log-sum-exp and dq. */
static void compare_query(struct subtask *t)
{
    const struct layer *l = t->l;
    int64_t q = l->sample[t->index];
    int head = t->index % 2;
    double *s = must_alloc(q + 1, sizeof *s), *o = must_alloc(2 * l->D, sizeof *o),
           *dq = o + l->D;
    double top = -INFINITY, sum = 0, lse;

    memset(o, 0, 2 * (size_t)l->D * sizeof *o);
    for (int64_t k = 0; k <= q; k++) {
        s[k] = score(l, head, q, k);
        top = s[k] > top ? s[k] : top;
    }
    for (int64_t k = 0; k <= q; k++)
        sum += exp(s[k] - top);
    lse = top + log(sum);
    for (int64_t k = 0; k <= q; k++) {
        double p = exp(s[k] - lse);

        add_row(l, p, head, &l->qkv[2], k, o);
        add_row(l, score_grad(l, head, q, k, p), head, &l->qkv[1], k, dq);
    }
    rotate(l, q, 1, dq);
    t->off[0] = off_of(l, head, &l->o, q, o);
    t->off[1] = fabs(l->lse[head][q] - lse);
    t->off[2] = off_of(l, head, &l->dqkv[0], q, dq);
    free(o);
    free(s);
}

/* One key of one head against all queries that see it, with their log-sum-exp. */
static void compare_key(struct subtask *t)
{
    const struct layer *l = t->l;
    int64_t k = l->sample[t->index];
    int head = 1 - t->index % 2;
    double *dk = must_alloc(2 * l->D, sizeof *dk), *dv = dk + l->D;

    memset(dk, 0, 2 * (size_t)l->D * sizeof *dk);
    for (int64_t q = k; q < l->S; q++) {
        double p = exp(score(l, head, q, k) - l->lse[head][q]);

        add_row(l, score_grad(l, head, q, k, p), head, &l->qkv[0], q, dk);
        add_row(l, p, head, &l->d_o, q, dv);
    }
    rotate(l, k, 1, dk);
    t->off[0] = off_of(l, head, &l->dqkv[1], k, dk);
    t->off[1] = off_of(l, head, &l->dqkv[2], k, dv);
    free(dk);
}

static void check_attention(struct layer *l)
{
    struct subtask subtask[SAMPLES];
    double query[3] = {0}, key[3] = {0};

    run_subtasks(l, SAMPLES, compare_query, NULL, subtask, query);
    run_subtasks(l, SAMPLES, compare_key, NULL, subtask, key);
    print_tap_line("attention's result", query[0], 1e-2);
    print_tap_line("its log-sum-exp", query[1], 2e-3);
    print_tap_line("gradients of queries", query[2], 3e-2);
    print_tap_line("gradients of keys", key[0], 3e-2);
    print_tap_line("gradients of values", key[1], 1e-2);
}

struct leaving {
    struct linear out, up, down, qkv;
};

/* A row's way, each [F] */
struct way {
    double *x, *n, *o, *branch, *u, *g, *d, *dn;
};

/* From attention's result to the layer's, and back. */
static void check_leaving(const struct layer *l, const struct leaving *m, int sample,
                          const struct way *w, double off[3])
{
    int64_t H = l->H, F = l->F, row = l->sample[sample];
    double rstd;

    row_of(l->o.row + sample * H, H, w->o);
    noise_row(l, 1, row, w->x);
    forward(&m->out, w->o, w->branch);
    for (int64_t i = 0; i < H; i++)
        w->x[i] += w->branch[i];
    rstd = norm(H, w->x, w->n);
    forward(&m->up, w->n, w->u);
    for (int64_t i = 0; i < F; i++)
        w->g[i] = gelu(w->u[i], &w->u[i]);
    forward(&m->down, w->g, w->branch);
    for (int64_t i = 0; i < H; i++)
        w->branch[i] += w->x[i];
    off[0] = row_off(l->y.row + sample * H, w->branch, H);

    noise_row(l, 2, row, w->d);
    backward(&m->down, w->d, w->g);
    for (int64_t i = 0; i < F; i++)
        w->g[i] *= w->u[i];
    backward(&m->up, w->g, w->dn);
    norm_bwd(H, w->n, rstd, w->dn, w->d);
    backward(&m->out, w->d, w->o);
    off[1] = row_off(l->d_o.row + sample * H, w->o, H);
}

/* From the gradients of q, k and v to that of the input; w->d is that of the sum in the
 * middle. */
static double check_entering(const struct layer *l, const struct leaving *m, int sample,
                             const struct way *w)
{
    int64_t H = l->H;
    double rstd;

    noise_row(l, 1, l->sample[sample], w->x);
    rstd = norm(H, w->x, w->n);
    for (int p = 0; p < 3; p++)
        row_of(l->dqkv[p].row + sample * H, H, w->u + p * H);
    backward(&m->qkv, w->u, w->dn);
    norm_bwd(H, w->n, rstd, w->dn, w->d);
    return row_off(l->dx.row + sample * H, w->d, H);
}

static void compare_row(struct subtask *s)
{
    int64_t F = s->l->F;
    double *all = must_alloc(8 * F, sizeof *all);
    struct way w = {all,         all + F,     all + 2 * F, all + 3 * F,
                    all + 4 * F, all + 5 * F, all + 6 * F, all + 7 * F};

    check_leaving(s->l, s->what, s->index, &w, s->off);
    s->off[2] = check_entering(s->l, s->what, s->index, &w);
    free(all);
}

static void check_rows(struct layer *l)
{
    struct leaving m = {.out = linear_of(l, &l->id->attention.out),
                        .up = linear_of(l, &l->id->mlp.up),
                        .down = linear_of(l, &l->id->mlp.down),
                        .qkv = linear_of(l, &l->id->attention.qkv)};
    struct subtask subtask[SAMPLES];
    double off[3] = {0};

    run_subtasks(l, SAMPLES, compare_row, &m, subtask, off);
    print_tap_line("the layer's result", off[0], 1e-2);
    print_tap_line("the gradient of attention's result", off[1], 1e-2);
    print_tap_line("the gradient of the layer's input", off[2], 1e-2);
    linear_free(&m.out);
    linear_free(&m.up);
    linear_free(&m.down);
    linear_free(&m.qkv);
}

/* Entry j of the gradient of q's weight that is looked at: of an output, in the first
 * head, and of an input. */
static int64_t entry_out(const struct layer *l, int j)
{
    return 11 * j % l->D;
}

static int64_t entry_in(const struct layer *l, int j)
{
    return (37 * j + 5) % l->H;
}

static void sum_weights(struct subtask *s)
{
    const struct layer *l = s->l;
    double *x = must_alloc(2 * l->H, sizeof *x), *n = x + l->H;

    for (int64_t i = subtask_start(l->S, s->index);
         i < subtask_start(l->S, s->index + 1); i++) {
        noise_row(l, 1, i, x);
        norm(l->H, x, n);
        for (int j = 0; j < ENTRIES; j++) {
            double dq = at(l->dqkv[0].head[0], i * l->D + entry_out(l, j));
            double term = n[entry_in(l, j)] * dq;

            s->sum[j] += term;
            s->squares[j] += term * term;
        }
    }
    free(x);
}

/* Entries of the gradient of q's weight: sums over all rows, of all tiles. */
static void check_weight(struct layer *l)
{
    const float *grad = mds_param_grad(l->e->params, l->id->attention.qkv.weight);
    struct subtask subtask[SUBTASKS];
    double off = 0;

    run_subtasks(l, SUBTASKS, sum_weights, NULL, subtask, NULL);
    for (int j = 0; j < ENTRIES; j++) {
        double want = 0, squares = 0;
        float got;

        for (int i = 0; i < SUBTASKS; i++) {
            want += subtask[i].sum[j];
            squares += subtask[i].squares[j];
        }
        must(mds_dev_copy_out(l->dev, &got,
                              grad + entry_out(l, j) * l->H + entry_in(l, j),
                              sizeof got),
             "gradients");
        off = worst(fabs(got - want) / (sqrt(squares) + fabs(want)), off);
    }
    print_tap_line("gradients of a weight, over all rows", off, 1e-2);
}

/* ---- all of it ---- */

static void check_layer(const char *device, int64_t S, int64_t H, int64_t A,
                        int64_t tile)
{
    struct layer l = {.S = S, .H = H, .A = A, .D = H / A, .F = 4 * H};
    double begun = mds_clock_s(), run;

    printf("# %s: %lld tokens, hidden %lld, %lld heads, tiles of %lld\n", device,
           (long long)S, (long long)H, (long long)A, (long long)tile);
    layer_open(&l, device, tile);
    layer_run(&l);
    run = mds_clock_s();
    check_qkv(&l);
    check_attention(&l);
    check_rows(&l);
    check_weight(&l);
    printf("# %.1f s for the layer, %.1f s for the loops in double\n", run - begun,
           mds_clock_s() - run);
    layer_close(&l);
}

int main(int argc, char **argv)
{
    int64_t size[] = {INT64_C(1) << 20, 2048, 16, 8192};

    for (int i = 2; i < argc && i < 6; i++)
        size[i - 2] = strtoll(argv[i], NULL, 10);
    if (argc > 1) {
        check_layer(argv[1], size[0], size[1], size[2], size[3]);
    } else {
        check_layer("cpu", 301, 64, 2, 64);
        check_layer("cpu", 301, 64, 2, 50);
    }
    printf("1..%d\n", test);
    return failed;
}
