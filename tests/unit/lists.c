/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of blocks: those of many settings are run on a memory in which each byte knows
 * whose it is, and the verifier finds planted faults. */
#include "block/build.h"
#include "model/lists.h"
#include "tests/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 16, TILE = 3, HIDDEN = 64, PARTS = 1 << (MDS_ACT_PARTS + 1) };

/* ---- settings ---- */

enum { ROPE = 2, HEAD_NORMS = 4, PARALLEL = 8, EXPERTS = 32, SHARED = 64, NORMS = 128 };
enum { MODELS = 3 * NORMS };

/* Layers whose messages travel in chunks where others' do not, too. */
enum { CHUNKED = 1 << LAYER_UP | 1 << LAYER_DOWN };

struct setting {
    struct mds_model_config model;
    struct mds_block_policy policy;
    int tiled, groups;
};

/* Bits: activation gated, rope, norms of heads, parallel residual, dropout, experts, a
 * shared expert; from NORMS on, where norms are. */
static struct mds_model_config model_of(int bits)
{
    return (struct mds_model_config){
        .hidden = HIDDEN,
        .heads = 4,
        .kv_heads = bits & 1 ? 2 : 4,
        .head_dim = 16,
        .ffn_hidden = 4 * HIDDEN,
        .activation = bits & 1 ? MDSK_SWIGLU : MDSK_GELU,
        .position = bits & ROPE ? MDS_POSITION_ROPE : MDS_POSITION_LEARNED,
        .qk_layernorm = bits >> 2 & 1,
        .qk_norm_across_heads = bits >= NORMS,
        .parallel_residual = (bits & PARALLEL) > 0,
        .norm_placement = (enum mds_norm_placement)(bits / NORMS),
        .hidden_dropout = bits >> 4 & 1 ? 0.1 : 0,
        .experts = {.n = bits & EXPERTS ? 5 : 0,
                    .topk = 2,
                    .ffn_hidden = 2 * HIDDEN,
                    .shared = bits & SHARED ? 3 * HIDDEN : 0}};
}

/* What is refused: a parallel residual without norms before it.  Rotation has nothing
 * to do with where norms are, nor with a shared expert, which is beside others. */
static int exists(int bits)
{
    return !(bits & PARALLEL && bits / NORMS == MDS_NORM_AFTER) &&
           !(bits & ROPE && bits >= NORMS) &&
           !(bits & SHARED && (bits & (ROPE | HEAD_NORMS) || !(bits & EXPERTS)));
}

static const struct mds_block_ranks ranks[] = {
    {1, 0, 1, 1, 0, 0}, {2, 0, 1, 1, 0, 512}, {2, 1, 1, 1, 0, 512},
    {1, 0, 2, 2, 0, 0}, {2, 1, 2, 2, 0, 512}, {1, 0, 4, 1, 0, 0}};
enum { RANKS = sizeof ranks / sizeof *ranks };

/* Parts that are saved: all, not norms, not the activation, neither, attention's
 * result, nothing; what configurations ask for. */
static unsigned keep_of(int way)
{
    unsigned norms = 1u << (MDS_ACT_NORMS + 1), act = 1u << (MDS_ACT_MLP_ACT + 1);
    unsigned input = 1u << (MDS_ACT_INPUT + 1), all = PARTS - 2;
    unsigned attention =
        1u << (MDS_ACT_ATTENTION + 1) | 1u << (MDS_ACT_LSE + 1) | input;
    const unsigned ways[] = {all,       all & ~norms, all & ~act, all & ~norms & ~act,
                             attention, input};

    return ways[way];
}

enum { WAYS = 6 };

/* Where inputs and the rest are between forward and backward: here; inputs elsewhere;
 * those of other blocks elsewhere; all of it copied from the start of a longer slot. */
enum { HERE, AWAY, FETCHES, SLOT, HOMES };

/* Of so many rows of the slice. */
static void set_rows(const struct setting *s, int64_t slice,
                     int64_t rows[MDS_ROWS_KINDS])
{
    const struct mds_block_ranks *r = &s->policy.ranks;
    int64_t R = r->sequence ? slice * r->tensor : slice;

    rows[MDS_ROWS_ONE] = 1;
    rows[MDS_ROWS_SLICE] = slice;
    rows[MDS_ROWS_GEMM] = R;
    rows[MDS_ROWS_HEADS] = R * r->ulysses;
    rows[MDS_ROWS_COPIES] = R * s->model.experts.topk;
    rows[MDS_ROWS_ROUND] = 5 * rows[MDS_ROWS_COPIES] / 4;
}

static void compile(const struct setting *s, struct mds_step_list *f,
                    struct mds_step_list *b)
{
    const struct mds_block_ranks *r = &s->policy.ranks;
    int64_t rows[MDS_ROWS_KINDS], tile[MDS_ROWS_KINDS] = {0};

    set_rows(s, r->sequence ? ROWS / r->tensor : ROWS, rows);
    if (s->tiled)
        set_rows(s, TILE, tile);
    mds_step_list_init(f, rows, tile, 2);
    mds_gpt_declare_block(&s->model, s->model.experts.n > 0, r->tensor, s->groups,
                          s->policy.training, f);
    if (mds_block_compile(&s->policy, f, b))
        fail_msg("%s", mds_fail_text());
}

/* Codes of these sizes; those of columns too, and saved. */
static int64_t codes_bytes(int64_t R, int64_t C)
{
    return R * C + 4;
}

static int64_t gradient_bytes(int64_t R, int64_t C, int wgrad)
{
    return (1 + wgrad) * R * C + 4;
}

/* No FP8; FP8 for dx; for weights' gradients too; with codes that are saved. */
enum { NO_FP8, FP8_KINDS = 4 };
static const struct mds_block_fp8 fp8[FP8_KINDS] = {
    {0},
    {0, 0, codes_bytes, gradient_bytes},
    {1, 0, codes_bytes, gradient_bytes},
    {1, 1, codes_bytes, gradient_bytes}};

static struct setting setting_of(int model, int rank, int way, int training, int home,
                                 int cast)
{
    struct setting s = {
        .model = model_of(model),
        .groups = 1,
        .policy = {.ranks = ranks[rank],
                   .training = training,
                   .keep = keep_of(way),
                   .away = home == AWAY,
                   .fetch = home == AWAY || home == FETCHES,
                   .slot_bytes = home == SLOT ? (int64_t)40 * ROWS * HIDDEN : 0}};

    if (s.model.kv_heads < ranks[rank].ulysses)
        s.policy.ranks.copied = 2 * 2 * s.model.head_dim;
    s.policy.fp8 = cast ? &fp8[cast] : NULL;
    s.policy.gelu = s.model.activation == MDSK_GELU && !cast;
    s.policy.sum_norms = ranks[rank].tensor > 1;
    s.policy.chunked = ranks[rank].tensor > 1 && (model ^ way) & 1
                           ? (home == AWAY ? CHUNKED : ~0u)
                           : 0;
    return s;
}

/* In tiles, with groups of heads: what is saved beside inputs, and where. */
enum { NOTHING, O_HERE, O_AWAY, NEXT_O_AWAY, O_HOMES };

static struct setting tiled_setting(int model, int rank, int training, int o, int away,
                                    int cast, int groups)
{
    unsigned attention = 1u << (MDS_ACT_ATTENTION + 1) | 1u << (MDS_ACT_LSE + 1);
    struct setting s = setting_of(model, rank, 5, training, away ? AWAY : HERE, cast);

    s.tiled = 1;
    s.policy.chunked &= CHUNKED;
    s.groups = groups;
    s.policy.keep |= o == O_HERE || o == O_AWAY ? attention : 0;
    s.policy.o_away = training && o == O_AWAY;
    s.policy.o_fetch = training && o >= O_AWAY;
    s.policy.ranks.copied /= groups;
    s.policy.group_weights = HIDDEN;
    return s;
}

/* ---- a memory in which each byte knows its owner ---- */

enum { BYTES = 1 << 18, NOBODY = -1, IN_FLIGHT = -2 };

struct memory {
    const struct mds_step_list *p;
    int64_t first, n; /* rows of the tile, in a loop */
    int16_t saved[BYTES], work[BYTES], arg[MDS_ARGS][BYTES];
    const struct mds_step *flying[MDS_LIST_MESSAGES];
};

static int16_t *bytes_at(struct memory *m, mds_tid t)
{
    const struct mds_tensor *x = &m->p->tensor[m->p->tensor[t].memory];
    int64_t end = x->at + mds_tensor_bytes(m->p, t);

    if (x->home == MDS_HOME_ARG)
        return m->arg[x->at];
    if (x->at < m->p->saved_bytes) {
        assert_true(end <= m->p->saved_bytes);
        return m->saved + x->at;
    }
    assert_true(end - m->p->saved_bytes <= m->p->work_bytes);
    assert_true(m->p->work_bytes <= BYTES && m->p->saved_bytes <= BYTES);
    return m->work + (x->at - m->p->saved_bytes);
}

/* The next bytes of t that are in the tile, from *end on: *from .. *end - 1.  Each rank
 * whose rows a tensor has, has a tile. */
static int next_bytes(const struct memory *m, mds_tid t, int64_t *from, int64_t *end)
{
    const struct mds_tensor *x = &m->p->tensor[t];
    int64_t bytes = mds_tensor_bytes(m->p, t), slice, row;

    if (m->n == 0 || x->of_tile || x->rows == MDS_ROWS_ONE) {
        *from = *end;
        *end = bytes;
        return *from < bytes;
    }
    row = bytes / m->p->rows[x->rows];
    slice = m->p->rows[MDS_ROWS_SLICE] * row;
    *from = *end / slice * slice + m->first * row;
    if (*from < *end)
        *from += slice;
    *end = *from + m->n * row;
    return *from < bytes;
}

static void own(struct memory *m, mds_tid t, int16_t owner)
{
    int16_t *byte = bytes_at(m, t);

    for (int64_t i, end = 0; next_bytes(m, t, &i, &end);)
        for (; i < end; i++)
            byte[i] = owner;
}

static void must_own(struct memory *m, int step, mds_tid t)
{
    const int16_t *byte = bytes_at(m, t);

    for (int64_t i, end = 0; next_bytes(m, t, &i, &end);)
        for (; i < end; i++)
            if (byte[i] != t)
                fail_msg("step %d, %s, reads %s where %s is", step,
                         step < m->p->steps ? mds_step_info(m->p->step[step].op)->name
                                            : "end",
                         m->p->tensor[t].name,
                         byte[i] >= 0 ? m->p->tensor[byte[i]].name : "nothing");
}

static void must_not_fly(struct memory *m, int step, mds_tid t)
{
    const int16_t *byte = bytes_at(m, t);

    for (int64_t i, end = 0; next_bytes(m, t, &i, &end);)
        for (; i < end; i++)
            if (byte[i] == IN_FLIGHT)
                fail_msg("step %d, %s, writes %s where a message is", step,
                         mds_step_info(m->p->step[step].op)->name,
                         m->p->tensor[t].name);
}

/* Operations use what is above the top. */
static void destroy_scratch(struct memory *m, const struct mds_step *s)
{
    for (int64_t i = s->top; i < m->p->work_bytes; i++)
        m->work[i] = NOBODY;
}

static void land(struct memory *m, unsigned waits)
{
    for (int i = 0; waits >> i; i++) {
        const struct mds_step *s = m->flying[i];
        int sum;

        if (!(waits >> i & 1) || i == MDS_MESSAGE_O)
            continue;
        sum = mds_step_is_linear(s->op) ? MDS_OUT_SUM : 0;
        if (s->op == MDS_STEP_GATHER)
            must_own(m, m->p->steps, s->in[0]);
        for (int k = 0; k < MDS_STEP_OUT; k++)
            if (s->out[k] >= 0 && mds_step_sends(s, k + MDS_STEP_IN))
                own(m, s->out[k], NOBODY);
        if (s->out[sum] >= 0)
            own(m, s->out[sum], s->out[sum]);
        else
            must_own(m, m->p->steps, s->in[0]);
    }
}

static void run_step(struct memory *m, int i)
{
    const struct mds_step *s = &m->p->step[i];

    land(m, s->waits | (s->awaits < 0 ? 0 : 1u << s->awaits));
    for (int k = 0; k < MDS_STEP_IN; k++)
        if (s->in[k] >= 0)
            must_own(m, i, s->in[k]);
    for (int k = 0; k < MDS_STEP_OUT; k++)
        if (s->out[k] >= 0)
            must_not_fly(m, i, s->out[k]);
    for (int k = 0; k < MDS_STEP_OUT; k++) {
        if (s->out[k] < 0)
            continue;
        own(m, s->out[k],
            s->message >= 0 && mds_step_sends(s, k + MDS_STEP_IN) ? IN_FLIGHT
                                                                  : s->out[k]);
    }
    if (s->awaits >= 0) /* what of it arrives meanwhile was not sent from elsewhere */
        must_own(m, i, m->flying[s->awaits]->in[0]);
    if (s->message >= 0)
        m->flying[s->message] = s;
    if (s->op == MDS_STEP_PREFETCH && s->site == MDS_SITE_O) {
        memset(m->arg[MDS_ARG_O], 0xff, sizeof m->arg[MDS_ARG_O]);
        memset(m->arg[MDS_ARG_LSE], 0xff, sizeof m->arg[MDS_ARG_LSE]);
    } else if (s->op == MDS_STEP_PREFETCH) {
        memset(m->arg[MDS_ARG_NEXT], 0xff, sizeof m->arg[MDS_ARG_NEXT]);
    }
    destroy_scratch(m, s);
}

/* Steps from .. end - 1, loop by loop. */
static void run_loops(struct memory *m, int from, int end, int is_last)
{
    const struct mds_step *step = m->p->step;
    int64_t rows = m->p->rows[MDS_ROWS_SLICE];

    for (int to; from < end; from = to) {
        for (to = from + 1; to < end && step[from].loop == step[to].loop;)
            to++;
        for (int64_t row = 0; row < (step[from].loop ? rows : 1); row += m->n) {
            int64_t left = rows - row;

            m->first = row;
            m->n = step[from].loop ? (left < TILE ? left : TILE) : 0;
            for (int i = from; i < to; i++)
                if (is_last || !step[i].last)
                    run_step(m, i);
            if (m->n == 0)
                break;
        }
        m->n = 0;
    }
}

/* Each group adds to the gradient of the stream. */
static void sum_goes_on(struct memory *m, int from, int end)
{
    for (int i = from; i < end; i++) {
        const struct mds_step *s = &m->p->step[i];

        int k = s->op == MDS_STEP_ADD ? 0 : 3;

        if ((s->op != MDS_STEP_NORM_BWD && s->op != MDS_STEP_ADD) ||
            !mds_tensor_shares(m->p, s->in[k], m->p->d))
            continue;
        must_own(m, i, s->out[0]);
        own(m, s->in[k], s->in[k]);
    }
}

static void run_list(struct memory *m, const struct mds_step_list *p)
{
    m->p = p;
    for (int i = 0, end; i < p->steps; i = end) {
        int groups = p->step[i].of_heads ? p->groups : 1;

        for (end = i + 1;
             end < p->steps && p->step[end].of_heads == p->step[i].of_heads;)
            end++;
        for (int g = 0; g < groups; g++) {
            if (g > 0)
                sum_goes_on(m, i, end);
            run_loops(m, i, end, g + 1 == groups);
        }
    }
}

static void leave(struct memory *m, mds_tid t, mds_tid next)
{
    must_own(m, m->p->steps, t);
    own(m, t, next);
}

/* Forward of two blocks: what one leaves is where the next expects it. */
static void run_two(struct memory *m, const struct mds_step_list *f)
{
    own(m, f->x0, f->x0);
    own(m, f->branch, f->branch);
    run_list(m, f);
    leave(m, f->y_branch, f->branch);
    if (f->tensor[f->x0].home == MDS_HOME_ARG)
        own(m, f->x0, f->x0);
    else
        leave(m, f->y, f->x0);
    run_list(m, f);
}

static void run_tiled(struct memory *m, const struct mds_step_list *f)
{
    own(m, f->x, f->x);
    run_list(m, f);
    must_own(m, f->steps, f->y);
}

/* Forward, and backward of the last block. */
static void run_setting(const struct setting *s)
{
    static struct memory m;
    static struct mds_step_list f, b;

    memset(&m, 0xff, sizeof m);
    compile(s, &f, &b);
    m.p = &f;
    m.n = 0;
    if (s->tiled)
        run_tiled(&m, &f);
    else
        run_two(&m, &f);
    if (!s->policy.training)
        return;
    memset(m.work, 0xff, sizeof m.work);
    for (int64_t i = f.kept_bytes; i < f.saved_bytes; i++)
        m.saved[i] = NOBODY;
    m.p = &b;
    own(&m, b.x, b.x);
    own(&m, b.d, b.d);
    for (mds_tid t = 0; t < b.tensors && s->policy.o_away; t++)
        if (mds_tensor_arg(&b, t) == MDS_ARG_O || mds_tensor_arg(&b, t) == MDS_ARG_LSE)
            own(&m, t, t);
    run_list(&m, &b);
    for (int64_t i = 0; i < mds_tensor_bytes(&b, b.d); i++)
        assert_true(mds_tensor_shares(&b, m.arg[MDS_ARG_D][i], b.d));
}

static void every_byte_is_its_owners(void **state)
{
    (void)state;
    for (int n = 0; n < MODELS * RANKS * FP8_KINDS; n++) {
        int model = n % MODELS, rank = n / MODELS % RANKS, cast = n / MODELS / RANKS;
        struct setting s = setting_of(model, rank, 0, 0, HERE, cast);

        if (!exists(model))
            continue;
        run_setting(&s);
        for (int way = 0; way < (cast ? WAYS : WAYS * HOMES); way++) {
            if (!is_sampled(way + n, 5))
                continue;
            s = setting_of(model, rank, way % WAYS, 1, way / WAYS, cast);
            run_setting(&s);
        }
    }
}

/* The same in tiles that do not divide the rows. */
static void every_byte_of_a_tile_is_its_owners(void **state)
{
    (void)state;
    for (int n = 0; n < MODELS * RANKS; n++) {
        int model = n % MODELS, rank = n / MODELS;
        int cast = n % FP8_KINDS;
        struct setting s =
            tiled_setting(model, rank, 0, NOTHING, 0, cast, 1 + model / 2 % 2);

        if (!exists(model))
            continue;
        run_setting(&s);
        for (int way = 0; way < 2 * O_HOMES; way++) {
            if (!is_sampled(way + n, 5))
                continue;
            s = tiled_setting(model, rank, 1, way / 2, way % 2, cast,
                              1 + (model / 2 + way) % 2);
            run_setting(&s);
        }
    }
}

/* ---- planted faults ---- */

static int find(const struct mds_step_list *p, enum mds_step_op op)
{
    for (int i = 0; i < p->steps; i++)
        if (p->step[i].op == op)
            return i;
    fail_msg("no step %s", mds_step_info(op)->name);
    return -1;
}

static void finds(const struct mds_step_list *p, const char *text)
{
    assert_int_equal(mds_block_check(p, "list"), MDS_EBUG);
    if (!strstr(mds_fail_text(), text))
        fail_msg("not \"%s\" but \"%s\"", text, mds_fail_text());
}

static void faults_are_found(void **state)
{
    struct setting s = setting_of(3, 0, 0, 1, HERE, NO_FP8);
    static struct mds_step_list f, b, bad;
    struct mds_step step;
    int at;

    (void)state;
    compile(&s, &f, &b);
    assert_int_equal(mds_block_check(&f, "list"), MDS_OK);
    assert_int_equal(mds_block_check(&b, "list"), MDS_OK);
    bad = f; /* attention before q, k and v */
    at = find(&bad, MDS_STEP_ATTEND);
    step = bad.step[at];
    mds_remove_step(&bad, at);
    mds_insert_step(&bad, find(&bad, MDS_STEP_LINEAR), &step);
    finds(&bad, "attend, reads q k v, which nothing made");
    bad = b; /* a weight's gradient after d became that before the norm */
    at = find(&bad, MDS_STEP_LINEAR_BWD_W);
    step = bad.step[at];
    mds_insert_step(&bad, find(&bad, MDS_STEP_NORM_BWD) + 1, &step);
    finds(&bad, "linear' w, reads d, which step");
    bad = f; /* two tensors in one place */
    bad.tensor[bad.step[find(&bad, MDS_STEP_NORM)].out[0]].at = 0;
    bad.tensor[bad.step[find(&bad, MDS_STEP_ATTEND)].out[0]].at = 0;
    finds(&bad, "are in one place");
    s = tiled_setting(3, 0, 1, NOTHING, 0, NO_FP8, 1); /* a tile of another loop */
    compile(&s, &f, &bad);
    at = find(&bad, MDS_STEP_NORM);
    bad.step[find(&bad, MDS_STEP_LINEAR_BWD_W)].in[0] = bad.step[at].out[0];
    finds(&bad, "reads a tile of n1, of step");
    s = setting_of(3, 0, 0, 1, FETCHES,
                   NO_FP8); /* the next input over what attention reads */
    compile(&s, &f, &bad);
    at = find(&bad, MDS_STEP_PREFETCH);
    step = bad.step[at];
    mds_remove_step(&bad, at);
    mds_insert_step(&bad, at - 1, &step);
    finds(&bad, "attend', reads d o, which step");
    bad = f;
    bad.overflow = 1;
    finds(&bad, "too many");
}

/* ---- memory ---- */

/* Off by no more than statistics take. */
static int is_near(double bytes, double want)
{
    return bytes >= want && bytes <= want + 8 * MDS_BLOCK_ALIGN;
}

/* Saved bytes a row beside the input, in vectors of HIDDEN elements; working memory. */
static void memory_is(int way, double saved, double forward, double backward)
{
    struct setting s = setting_of(0, 0, way, 1, HERE, NO_FP8);
    const double vector = ROWS * HIDDEN * 2;
    static struct mds_step_list f, b;
    double bytes = 0;

    compile(&s, &f, &b);
    for (mds_tid t = 0; t < f.tensors; t++)
        if (f.tensor[t].memory == t && f.tensor[t].home == MDS_HOME_SAVED &&
            f.tensor[t].elem == MDS_ELEM_ACT)
            bytes += (double)mds_tensor_bytes(&f, t);
    if (bytes != saved * vector || !is_near((double)f.work_bytes, forward * vector) ||
        !is_near((double)b.work_bytes, backward * vector))
        fail_msg("way %d: saves %g, works with %g and %g", way, bytes / vector,
                 (double)f.work_bytes / vector, (double)b.work_bytes / vector);
}

/* What docs/long-sequences.md derives for a GPT without tiles. */
static void memory_is_as_documented(void **state)
{
    (void)state;
    memory_is(0, 15, 1, 0);
    memory_is(1, 13, 1, 0);
    memory_is(2, 11, 5, 4);
    memory_is(3, 9, 5, 4);
    memory_is(4, 1, 10, 10);
    memory_is(5, 0, 10, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_its_owners),
        cmocka_unit_test(every_byte_of_a_tile_is_its_owners),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(memory_is_as_documented),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
