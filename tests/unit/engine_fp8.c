/* SPDX-License-Identifier: BSD-3-Clause */
/* engine and model: linear layers in FP8, for a GPT and a Llama shape. */
#include "kernels/fp8.h"
#include "tests/unit/engine_fixture.h"

#include "device/backend.h"
#include "kernels/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A GPT and a Llama shape, then the first with exact GELU, the second with biases of q,
 * k and v. */
enum { FP8_SHAPES = 4 };

static struct mds_config fp8_shape(int shape, enum mds_fp8_format format)
{
    struct mds_config c = shapes[shape % 2]();

    if (shape == 2)
        c.model.activation = MDSK_EXACT_GELU;
    c.model.qkv_bias = shape == 3;
    c.model.layers = 4;
    c.train.type = MDS_TYPE_BF16;
    c.model.fp8.format = format;
    c.model.fp8.start_bf16 = c.model.fp8.end_bf16 = 1;
    return c;
}

static double distance(const struct values *a, const struct values *b)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < a->n; i++) {
        off += ((double)a->v[i] - b->v[i]) * ((double)a->v[i] - b->v[i]);
        size += (double)a->v[i] * a->v[i];
    }
    return sqrt(off / size);
}

/* E4M3 has four bits less than bf16, and rounds by 16 times as much; E5M2 by twice
 * that.  Fewer layers or GEMMs in FP8, fewer roundings. */
static void fp8_is_near_bf16(void **state)
{
    enum { F32, BF16, SOME, E4M3, HYBRID, NO_WGRAD, RUNS };

    (void)state;
    for (int shape = 0; shape < FP8_SHAPES; shape++) {
        struct mds_config runs[RUNS] = {
            [F32] = fp8_shape(shape, MDS_FP8_NONE),
            [BF16] = fp8_shape(shape, MDS_FP8_NONE),
            [SOME] = fp8_shape(shape, MDS_FP8_HYBRID),
            [E4M3] = fp8_shape(shape, MDS_FP8_E4M3),
            [HYBRID] = fp8_shape(shape, MDS_FP8_HYBRID),
            [NO_WGRAD] = fp8_shape(shape, MDS_FP8_HYBRID),
        };
        struct values grads[RUNS];
        double loss[RUNS], off[RUNS];

        runs[F32].train.type = MDS_TYPE_F32;
        runs[SOME].model.fp8.first_last_bf16 = 1;
        runs[NO_WGRAD].model.fp8.wgrad = 0;
        for (int i = 0; i < RUNS; i++) {
            loss[i] = grads_of(&runs[i], &grads[i]);
            off[i] = distance(&grads[F32], &grads[i]);
            assert_true(fabs(loss[i] - loss[F32]) <= 0.02 * loss[F32]);
        }
        assert_true(loss[E4M3] == loss[HYBRID] && loss[E4M3] != loss[SOME]);
        assert_true(off[BF16] > 0 && 2 * off[BF16] < off[SOME]);
        assert_true(off[SOME] < off[E4M3] && off[E4M3] < off[HYBRID]);
        assert_true(off[HYBRID] <= 32 * off[BF16]);
        assert_true(loss[NO_WGRAD] == loss[HYBRID] && off[NO_WGRAD] < off[HYBRID]);
        for (int i = 0; i < RUNS; i++)
            free(grads[i].v);
    }
}

/* A tile has scales of its own, and sums of weights' gradients have several parts. */
static void fp8_in_tiles_is_the_same(void **state)
{
    (void)state;
    for (int shape = 0; shape < FP8_SHAPES; shape++) {
        struct mds_config c = fp8_shape(shape, MDS_FP8_HYBRID), tiled = c;
        struct values whole, parts;
        double loss = grads_of(&c, &whole);

        tiled.train.act.recompute = MDS_RECOMPUTE_FULL;
        tiled.train.act.sequence_tile = 5 * c.batch.micro;
        assert_true(fabs(grads_of(&tiled, &parts) - loss) <= 1e-5 * loss);
        assert_true(distance(&whole, &parts) <= 1e-5);
        free(whole.v);
        free(parts.v);
    }
}

/* Bytes that a step's casts to FP8 read and write, of so many micro-batches. */
static double cast_bytes(struct mds_config c, int micro_batches)
{
    struct fixture f;
    double bytes;

    c.batch.micro = ROWS / micro_batches;
    c.batch.accumulation = micro_batches;
    open_on(&f, &c, "dry");
    backward(&f);
    bytes = mds_dev_ledger(f.dev)->op[MDS_OP_FP8_CAST].cost.bytes;
    backward(&f);
    assert_true(mds_dev_ledger(f.dev)->op[MDS_OP_FP8_CAST].cost.bytes == 2 * bytes);
    close_all(&f);
    return bytes;
}

/* Elements of all matrices that FP8 GEMMs multiply by. */
static double fp8_weights(const struct mds_config *c)
{
    struct fixture f;
    const struct mds_params *ps;
    double n = 0;

    open_on(&f, c, "dry");
    ps = mds_engine_params(f.engine);
    for (int id = 0; id < mds_params_n(ps); id++) {
        const struct mds_param *p = mds_params_get(ps, id);

        if (strncmp(p->spec.name, "layer.", 6) == 0 && p->spec.by_gemm)
            n += (double)p->count;
    }
    close_all(&f);
    return n;
}

/* Only a step's first cast searches a weight: another micro-batch has two casts, which
 * read 2 bytes an element and write 1, and a few scales.  It casts no more tokens. */
static void fp8_searches_a_weight_once_a_step(void **state)
{
    (void)state;
    for (int shape = 0; shape < FP8_SHAPES; shape++) {
        struct mds_config c = fp8_shape(shape, MDS_FP8_HYBRID);
        double one, two, four, weights;

        c.model.hidden = c.model.ffn_hidden = 48; /* no padding */
        c.model.head_dim = 16;
        c.model.linear_bias = c.model.qkv_bias = 0;
        weights = fp8_weights(&c);
        one = cast_bytes(c, 1);
        two = cast_bytes(c, 2);
        four = cast_bytes(c, 4);
        assert_true(fabs(two - one - 6 * weights) < .02 * weights);
        assert_true(four - two == 2 * (two - one));
    }
}

enum { FP8_WAYS = 9 };

/* Ways of keeping what backward reads, of which the first saves all codes. */
static void set_fp8_way(struct mds_config *c, int way)
{
    struct mds_activations *a = &c->train.act;

    a->recompute_modules = way < 4 ? way : way == 6 ? MDS_MODULE_MLP : 0;
    a->recompute = a->recompute_modules ? MDS_RECOMPUTE_SELECTIVE : MDS_RECOMPUTE_NONE;
    a->offload_layers = way == 4 || way == 5 ? way - 3 : 0;
    if (way >= 7) {
        a->recompute = MDS_RECOMPUTE_FULL;
        a->recompute_layers = way - 6;
    }
}

/* What backward reads as codes from forward, and what it casts again, is the same. */
static void fp8_codes_change_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * FP8_SHAPES; k++) {
        struct mds_config c = fp8_shape(k % FP8_SHAPES, MDS_FP8_HYBRID);
        struct values want, got;
        double loss;

        c.model.fp8.first_last_bf16 = k / FP8_SHAPES;
        c.model.norm_placement = (enum mds_norm_placement)(k % 3);
        loss = grads_of(&c, &want);
        for (int way = 0; way < FP8_WAYS; way++) {
            set_fp8_way(&c, way);
            assert_true(grads_of(&c, &got) == loss);
            assert_memory_equal(got.v, want.v, (size_t)want.n * sizeof *want.v);
            free(got.v);
        }
        free(want.v);
    }
}

static struct {
    int searched, known;
} casts;

/* A largest magnitude that is known is that of the tensor. */
static int checked_cast(void *stream, const struct mdsk_fp8_cast *a)
{
    struct mdsk_fp8_cast search = *a;
    uint32_t found;

    search.amax = &found;
    search.amax_known = 0;
    search.sum = NULL;
    assert_int_equal(mdsk_cpu()->fp8_cast(stream, &search), 0);
    if (a->amax_known)
        assert_int_equal(*a->amax, found);
    casts.known += a->amax_known;
    casts.searched += !a->amax_known;
    return mdsk_cpu()->fp8_cast(stream, a);
}

/* Such a way, with several tiles and micro-batches. */
static void set_small_fp8_way(struct mds_config *c, int way)
{
    set_fp8_way(c, way);
    c->train.act.sequence_tile = way == FP8_WAYS - 1 ? 8 : 0;
    c->batch.micro = ROWS / 2;
    c->batch.accumulation = 2;
}

/* However a block is run.  Where all codes are saved, forward knows the largest
 * magnitudes of both norms' results, and backward those of du and of the four weights.
 */
static void fp8_knows_largest_magnitudes(void **state)
{
    struct mdsk_table table = *mdsk_cpu();

    (void)state;
    table.fp8_cast = checked_cast;
    for (int k = 0; k < 4 * FP8_SHAPES * FP8_WAYS; k++) {
        struct mds_config c = fp8_shape(k % FP8_SHAPES, MDS_FP8_HYBRID);
        struct fixture f;

        set_small_fp8_way(&c, k / (4 * FP8_SHAPES));
        c.model.qk_layernorm = k / FP8_SHAPES % 2;
        c.model.fp8.wgrad = k / (2 * FP8_SHAPES) % 2;
        c.model.norm_placement = (enum mds_norm_placement)(k / (4 * FP8_SHAPES) % 3);
        open_on(&f, &c, "cpu");
        f.dev->kern = &table;
        casts.searched = casts.known = 0;
        backward(&f);
        if (k < 4 * FP8_SHAPES) {
            int o_again = c.model.fp8.wgrad;

            assert_int_equal(casts.known, 4 * (2 * 7 + 4));
            assert_int_equal(casts.searched, 4 * (4 + 2 * (5 + o_again)));
        }
        assert_int_equal(mds_engine_update(f.engine, 1e-3), MDS_OK);
        eval_loss(&f);
        backward(&f);
        close_all(&f);
    }
}

static int64_t activation_bytes(const struct mds_config *c)
{
    struct mds_engine_need need;

    assert_int_equal(mds_engine_measure(c, 1, 0, 1, &need), MDS_OK);
    return need.memory.peak[MDS_MEM_ACT];
}

/* Codes have one byte an element, in rows of whole vectors, and a scale. */
static int64_t saved_by_codes(int64_t R, int64_t C)
{
    int64_t codes = C * mdsk_fp8_ld(R) + (int64_t)sizeof(float);

    return (2 * R * C + 255) / 256 * 256 - (codes + 255) / 256 * 256;
}

/* Codes of norms' results and of the activation's are saved in their place, where all
 * rows are cast at once, where no block in bf16 has the same memory, and where the
 * layer that reads them does not run again.  Where they cannot be, as of blocks that
 * leave, the activation's is not saved either.  Without weights' gradients in FP8 all
 * is saved as in bf16. */
static void fp8_saves_codes(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * FP8_SHAPES; k++) {
        struct mds_config c = fp8_shape(k % FP8_SHAPES, MDS_FP8_NONE), fp8;
        int64_t R, norms, act, g, blocks;

        fp8 = c;
        fp8.model.fp8.format = MDS_FP8_HYBRID;
        fp8.model.fp8.first_last_bf16 = k / FP8_SHAPES;
        blocks = k / FP8_SHAPES ? c.model.layers - 2 : c.model.layers;
        R = c.batch.micro * c.model.seq_length;
        norms = 2 * saved_by_codes(R, c.model.hidden);
        act = saved_by_codes(R, c.model.ffn_hidden);
        g = (2 * R * c.model.ffn_hidden + 255) / 256 * 256;
        for (int way = 0; way < FP8_WAYS; way++) {
            /* of these blocks; the last way shares buffers among all */
            int64_t less[FP8_WAYS] = {(norms + act) * blocks, act * blocks,
                                      norms * blocks, [6] = norms / 2 * blocks,
                                      [8] = k / FP8_SHAPES ? 0 : norms + act};

            /* each buffer is of blocks l and l + 3, or l + 2, of 4 */
            less[4] = g * (k / FP8_SHAPES ? 2 : 3);
            less[5] = g * (k / FP8_SHAPES ? 0 : 2);
            set_fp8_way(&c, way);
            set_fp8_way(&fp8, way);
            fp8.model.fp8.wgrad = 1;
            assert_int_equal(activation_bytes(&c) - activation_bytes(&fp8), less[way]);
            fp8.model.fp8.wgrad = 0;
            assert_int_equal(activation_bytes(&c), activation_bytes(&fp8));
        }
        assert_true(norms > 0 && act > 0);
    }
}

static int64_t activations_computed(const struct mds_config *c)
{
    struct fixture f;
    int64_t calls;

    open_on(&f, c, "dry");
    backward(&f);
    calls = mds_dev_ledger(f.dev)->op[MDS_OP_ACTIVATION_FWD].calls;
    close_all(&f);
    return calls;
}

/* Of two blocks that were offloaded, the one in bf16 computes its activation again.
 * The other one has memory for the result too, but only casts read it. */
static void fp8_recomputes_no_activation(void **state)
{
    (void)state;
    for (int shape = 0; shape < FP8_SHAPES; shape++) {
        struct mds_config c = fp8_shape(shape, MDS_FP8_HYBRID), offload;

        c.model.fp8.first_last_bf16 = 1;
        offload = c;
        offload.train.act.offload_layers = 2;
        assert_int_equal(activations_computed(&offload) - activations_computed(&c),
                         c.batch.accumulation);
    }
}

/* ---- weights' gradients in bf16 ---- */

/* Codes of x [R, C], by rows or transposed, and their scale; free() the code. */
static struct mdsk_fp8_operand codes_of(const void *x, int64_t R, int64_t C,
                                        enum mdsk_dtype to, int transposed)
{
    int64_t bytes = transposed ? C * mdsk_fp8_ld(R) : R * mdsk_fp8_ld(C);
    char *codes = malloc((size_t)bytes + sizeof(float));
    struct mdsk_fp8_cast a = {
        .R = R, .C = C, .dtype = MDSK_BF16, .to = to, .x = x, .scale = (void *)codes};

    assert_non_null(codes);
    a.scale += bytes / (int64_t)sizeof(float);
    *(transposed ? &a.cols : &a.rows) = codes;
    assert_int_equal(mdsk_cpu()->fp8_cast(NULL, &a), 0);
    return (struct mdsk_fp8_operand){to, codes, a.scale};
}

static void multiply(const struct mdsk_fp8_gemm *g)
{
    assert_int_equal(mdsk_cpu()->fp8_gemm(NULL, g), 0);
    free((void *)g->a.code);
    free((void *)g->b.code);
}

static int is_head(int64_t words)
{
    return words == gpt_shape().model.padded_vocab;
}

/* The forward and dX of a linear layer in bf16, but of a block's computed in FP8. */
static int linear_fwd_in_fp8(void *stream, const struct mdsk_linear_fwd *a)
{
    struct mdsk_fp8_gemm g = {.M = a->R,
                              .N = a->out,
                              .K = a->in,
                              .dtype = a->dtype,
                              .fast = 1,
                              .bias = a->b,
                              .y = a->y};
    struct mdsk_activation_fwd act = mdsk_linear_gelu_fwd(a);

    if (is_head(a->out))
        return mdsk_cpu()->linear_fwd(stream, a);
    g.a = codes_of(a->x, a->R, a->in, MDSK_E4M3, 0);
    g.b = codes_of(a->w, a->out, a->in, MDSK_E4M3, 0);
    multiply(&g);
    return a->gelu ? mdsk_cpu()->activation_fwd(stream, &act) : 0;
}

static int linear_bwd_input_in_fp8(void *stream, const struct mdsk_linear_bwd_input *a)
{
    struct mdsk_fp8_gemm g = {
        .M = a->R, .N = a->in, .K = a->out, .dtype = a->dtype, .y = a->dx};
    struct mdsk_activation_bwd act = mdsk_linear_gelu_bwd(a);

    if (is_head(a->out))
        return mdsk_cpu()->linear_bwd_input(stream, a);
    g.a = codes_of(a->dy, a->R, a->out, MDSK_E5M2, 0);
    g.b = codes_of(a->w, a->out, a->in, MDSK_E4M3, 1);
    multiply(&g);
    return a->u ? mdsk_cpu()->activation_bwd(stream, &act) : 0;
}

static double grads_by(const struct mdsk_table *kern, const struct mds_config *c,
                       struct values *grads)
{
    struct fixture f;
    double loss;

    open_on(&f, c, "cpu");
    f.dev->kern = kern;
    loss = backward(&f).loss;
    *grads = values_of(&f, MDS_ZERO_GRAD);
    close_all(&f);
    return loss;
}

/* A run in bf16 whose kernels compute forward and dX in FP8 has the same bits: the
 * weights' gradients are the 16-bit GEMMs of the same operands, and biases' are summed
 * once. */
static void fp8_without_wgrad_is_bf16_with_fp8_kernels(void **state)
{
    struct mdsk_table table = *mdsk_cpu();

    (void)state;
    table.linear_fwd = linear_fwd_in_fp8;
    table.linear_bwd_input = linear_bwd_input_in_fp8;
    for (int k = 0; k < 4 * FP8_WAYS; k++) {
        struct mds_config c = fp8_shape(k % 2, MDS_FP8_HYBRID);
        struct values want, got;
        double loss;

        set_small_fp8_way(&c, k / 4);
        c.model.qk_layernorm = k / FP8_SHAPES % 2;
        c.model.norm_placement = (enum mds_norm_placement)(k % 3);
        c.train.act.head_groups = c.train.act.sequence_tile > 0 && k % 2 ? 2 : 1;
        c.model.fp8.wgrad = 0;
        loss = grads_by(mdsk_cpu(), &c, &got);
        c.model.fp8.format = MDS_FP8_NONE;
        assert_true(grads_by(&table, &c, &want) == loss);
        assert_memory_equal(got.v, want.v, (size_t)want.n * sizeof *want.v);
        free(want.v);
        free(got.v);
    }
}

static void fp8_of_nan_is_a_loss_of_nan(void **state)
{
    struct mds_config c = fp8_shape(0, MDS_FP8_HYBRID);
    struct fixture f;
    struct mds_params *ps;
    uint16_t *w;

    (void)state;
    open_on(&f, &c, "cpu");
    ps = mds_engine_params(f.engine);
    w = (uint16_t *)mds_param_weight(ps, mds_params_find(ps, "layer.1.mlp.up.weight"));
    for (int i = 0; i < 3; i++) {
        static const uint16_t bad[] = {0x7fc0, 0x7f80, 0xff80}; /* NaN, infinities */

        w[5] = bad[i];
        assert_true(isnan(backward(&f).loss));
        w[5] = 0;
        assert_true(isfinite(backward(&f).loss));
    }
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_is_near_bf16),
        cmocka_unit_test(fp8_in_tiles_is_the_same),
        cmocka_unit_test(fp8_knows_largest_magnitudes),
        cmocka_unit_test(fp8_searches_a_weight_once_a_step),
        cmocka_unit_test(fp8_codes_change_nothing),
        cmocka_unit_test(fp8_saves_codes),
        cmocka_unit_test(fp8_recomputes_no_activation),
        cmocka_unit_test(fp8_without_wgrad_is_bf16_with_fp8_kernels),
        cmocka_unit_test(fp8_of_nan_is_a_loss_of_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
