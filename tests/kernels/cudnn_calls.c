/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: the calls of cuDNN for attention, and their addresses, without a GPU.
 *
 * fake_cudnn.c computes each call on the cpu.  If the result has the bits of one call
 * of the cpu backend, then parts, copies and scratch memory were right. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "kernels/attention_scratch.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/cudnn_plan.h"
#include "kernels/half.h"
#include "tests/kernels/fake_cudnn.h"

static int start(void **state)
{
    (void)state;
    fake_cudnn_reset();
    return 0;
}

/* ---- problems ---- */

enum { Q, K, V, O, D_O, DQ, DK, DV, ARRAYS };

/* pad: elements between the rows of o and d_o, besides those of the heads; lse_stride:
 * 0, or between heads' rows. */
struct shape {
    int64_t B, A, G, Sq, Sk, D, q_offset, lse_stride, pad;
};

/* Sequence-major, as the model has them. */
struct problem {
    struct mdsk_attention_shape s;
    struct mdsk_heads x[ARRAYS];
    size_t bytes[ARRAYS];
    float *lse, *delta;
    int64_t lse_stride, lse_n;
};

/* Reserve addresses; memory is used only where it is touched.  NULL if refused. */
static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void *map_or_fail(size_t bytes)
{
    void *p = map(bytes);

    assert_non_null(p);
    return p;
}

static void fill(const struct problem *p, int i)
{
    int keys = i == K || i == V;
    int64_t heads = keys ? p->s.G : p->s.A, tokens = keys ? p->s.Sk : p->s.Sq;
    uint32_t seed = 12345u + (uint32_t)i;

    for (int64_t t = 0; t < tokens; t++)
        for (int64_t b = 0; b < p->s.B; b++)
            for (int64_t d = 0; d < heads * p->s.D; d++) {
                uint16_t *row = (uint16_t *)p->x[i].data + b * p->x[i].batch_stride;

                seed = seed * 1664525u + 1013904223u;
                row[t * p->x[i].token_stride + d] =
                    mdsk_f32_to_bf16((float)(seed >> 8) * 0x1p-23f - 1);
            }
}

static void problem_init(struct problem *p, const struct shape *c)
{
    *p = (struct problem){.s = {.B = c->B,
                                .A = c->A,
                                .G = c->G,
                                .Sq = c->Sq,
                                .Sk = c->Sk,
                                .D = c->D,
                                .q_offset = c->q_offset,
                                .scale = 0.125f,
                                .dtype = MDSK_BF16},
                          .lse_stride = c->lse_stride};
    for (int i = 0; i < ARRAYS; i++) {
        int keys = i == K || i == V || i == DK || i == DV;
        int64_t row = (keys ? c->G : c->A) * c->D + (i == O || i == D_O ? c->pad : 0);

        p->bytes[i] = (size_t)(c->B * (keys ? c->Sk : c->Sq) * row * 2);
        p->x[i] = (struct mdsk_heads){map_or_fail(p->bytes[i]), row, c->B * row, c->D};
        if (i <= D_O)
            fill(p, i);
    }
    p->lse_n = c->B * c->A * (c->lse_stride ? c->lse_stride : c->Sq);
    p->lse = calloc((size_t)p->lse_n, sizeof *p->lse);
    p->delta = calloc((size_t)(c->B * c->A * c->Sq), sizeof *p->delta);
    assert_non_null(p->lse);
    assert_non_null(p->delta);
}

static void problem_fini(struct problem *p)
{
    for (int i = 0; i < ARRAYS; i++)
        munmap(p->x[i].data, p->bytes[i]);
    free(p->lse);
    free(p->delta);
}

static struct mdsk_attention_fwd forward_of(const struct problem *p)
{
    return (struct mdsk_attention_fwd){p->s,    p->x[Q], p->x[K],      p->x[V],
                                       p->x[O], p->lse,  p->lse_stride};
}

static struct mdsk_attention_bwd backward_of(const struct problem *p)
{
    return (struct mdsk_attention_bwd){p->s,     p->x[Q],   p->x[K],       p->x[V],
                                       p->x[O],  p->x[D_O], p->x[DQ],      p->x[DK],
                                       p->x[DV], p->lse,    p->lse_stride, p->delta};
}

/* A packed copy of array i; the caller frees it. */
static uint16_t *pack_array(const struct problem *p, int i, size_t *bytes)
{
    int keys = i == K || i == V || i == DK || i == DV;
    int64_t width = (keys ? p->s.G : p->s.A) * p->s.D;
    int64_t rows = p->s.B * (keys ? p->s.Sk : p->s.Sq);
    uint16_t *all = malloc((size_t)(rows * width) * sizeof *all);

    assert_non_null(all);
    for (int64_t r = 0; r < rows; r++)
        memcpy(all + r * width, (uint16_t *)p->x[i].data + r * p->x[i].batch_stride,
               (size_t)width * sizeof *all);
    *bytes = (size_t)(rows * width) * sizeof *all;
    return all;
}

/* tolerance: of the difference's norm, as a fraction of b's. */
static void assert_close(const struct problem *a, const struct problem *b, int i,
                         double tolerance)
{
    size_t bytes = 0;
    uint16_t *x = pack_array(a, i, &bytes), *y = pack_array(b, i, &bytes);
    double off = 0, size = 0;

    for (size_t e = 0; e < bytes / sizeof *x; e++) {
        double d = (double)mdsk_bf16_to_f32(x[e]) - (double)mdsk_bf16_to_f32(y[e]);

        off += d * d;
        size += (double)mdsk_bf16_to_f32(y[e]) * (double)mdsk_bf16_to_f32(y[e]);
    }
    if (!(off <= tolerance * tolerance * size))
        fail_msg("array %d: off by %g of %g", i, off, size);
    free(x);
    free(y);
}

struct functions {
    int (*fwd)(cudaStream_t stream, const struct mdsk_attention_fwd *a);
    int (*bwd)(cudaStream_t stream, const struct mdsk_attention_bwd *a);
    double tolerance, lse_tolerance;
};

/* Calls of cuDNN, and of the project's own kernels. */
struct calls {
    int fwd, bwd, own_fwd, own_bwd;
};

static void assert_calls(int calls, int own)
{
    assert_int_equal(fake.calls, calls);
    assert_int_equal(fake.own, own);
    fake.calls = fake.own = 0;
}

/* Forward and backward of a shape, compared with one call of the cpu backend.  window
 * is 0 and starts NULL if there are none. */
static void compare(const struct functions *by, const struct shape *c, int64_t window,
                    const int32_t *starts, struct calls calls)
{
    struct problem got, want;
    struct mdsk_attention_fwd f;
    struct mdsk_attention_bwd b;

    problem_init(&got, c);
    problem_init(&want, c);
    got.s.window = want.s.window = window;
    got.s.start = got.s.host_start = want.s.start = starts;
    f = forward_of(&got);
    assert_int_equal(by->fwd(NULL, &f), 0);
    assert_calls(calls.fwd, calls.own_fwd);
    f = forward_of(&want);
    assert_int_equal(mdsk_attention_fwd_cpu(NULL, &f), 0);
    assert_close(&got, &want, O, by->tolerance);
    for (int64_t i = 0; i < got.lse_n; i++)
        assert_true(got.lse[i] == want.lse[i] ||
                    fabs((double)got.lse[i] - (double)want.lse[i]) < by->lse_tolerance);
    b = backward_of(&got);
    assert_int_equal(by->bwd(NULL, &b), 0);
    assert_calls(calls.bwd, calls.own_bwd);
    b = backward_of(&want);
    assert_int_equal(mdsk_attention_bwd_cpu(NULL, &b), 0);
    for (int i = DQ; i <= DV; i++)
        assert_close(&got, &want, i, by->tolerance);
    problem_fini(&got);
    problem_fini(&want);
    start(NULL);
}

/* ---- whole sequences ---- */

/* Exactly equal. */
static const struct functions whole = {mdsk_cudnn_attention_fwd,
                                       mdsk_cudnn_attention_bwd, 0, 0};

static void test_tensors_of_all_layouts(void **state)
{
    static const struct shape shapes[] = {
        {2, 4, 4, 64, 64, 64, 0, 0, 0},
        {2, 4, 2, 37, 37, 40, 0, 0, 8},   /* unaligned rows of lse */
        {2, 2, 1, 37, 37, 64, 0, 100, 0}, /* and not contiguous */
        {1, 4, 2, 40, 104, 64, 64, 0, 0}, /* the last queries */
        {2, 6, 2, 48, 48, 32, 48, 0, 0},  /* all keys */
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compare(&whole, &shapes[i], 0, NULL, (struct calls){1, 1, 0, 0});
}

/* Rows of o and d_o are up to 2^31 bytes apart: one sequence at a time if that is
 * enough for 32-bit offsets, otherwise o, d_o and dq are copied. */
static void test_rows_beyond_32bit_offsets(void **state)
{
    static const struct shape by_sequence = {
        2, 2, 1, 65, 65, 32, 0, 0, (1 << 23) - 1024};
    static const struct shape copied = {2, 2, 1, 65, 65, 32, 0, 70, 1 << 24};

    const size_t most = (size_t)20 << 30; /* twice o and d_o of `copied` */
    void *probe;

    (void)state;
    probe = map(most);
    if (!probe)
        skip();
    munmap(probe, most);
    compare(&whole, &by_sequence, 0, NULL, (struct calls){1, 2, 0, 0});
    compare(&whole, &copied, 0, NULL, (struct calls){1, 2, 0, 0});
}

/* ---- parts of large problems, which are not computed ---- */

static struct mdsk_attention_bwd large(int64_t B, int64_t A, int64_t G, int64_t S)
{
    const int64_t D = 128, row = (A + 2 * G) * D;
    char *base = (char *)(INT64_C(1) << 40);
    struct mdsk_attention_bwd b = {.shape = {.B = B,
                                             .A = A,
                                             .G = G,
                                             .Sq = S,
                                             .Sk = S,
                                             .D = D,
                                             .scale = 1,
                                             .dtype = MDSK_BF16},
                                   .lse = (float *)base,
                                   .delta = (float *)base};
    struct mdsk_heads *wide[] = {&b.q, &b.k, &b.v, &b.dq, &b.dk, &b.dv};

    for (int i = 0; i < 6; i++)
        *wide[i] = (struct mdsk_heads){base + i * 4096, row, B * row, D};
    b.o = b.d_o = (struct mdsk_heads){base, A * D, B * A * D, D};
    return b;
}

/* Call i is for query heads h .. h+n-1 of sequence s. */
static void assert_part(const struct mdsk_attention_bwd *b, int i, int64_t s, int64_t h,
                        int64_t n)
{
    const struct mdsk_cudnn_problem *p = &fake.problem[i];
    const struct mdsk_cudnn_call *c = &fake.call[i];
    int64_t group = b->shape.A / b->shape.G;

    assert_int_equal(p->B, 1);
    assert_int_equal(p->A, n);
    assert_int_equal(p->G, n / group);
    assert_ptr_equal(fake_cudnn_address(c, MDSK_CUDNN_Q), (uint16_t *)b->q.data +
                                                              s * b->q.batch_stride +
                                                              h * b->q.head_stride);
    assert_ptr_equal(fake_cudnn_address(c, MDSK_CUDNN_DV),
                     (uint16_t *)b->dv.data + s * b->dv.batch_stride +
                         h / group * b->dv.head_stride);
    assert_ptr_equal(fake_cudnn_address(c, MDSK_CUDNN_LSE),
                     b->lse + (s * b->shape.A + h) * b->shape.Sq);
}

static void test_heads_in_parts(void **state)
{
    /* 128 MiB of sums per head, and at most 1 GiB: up to 8 heads.  Of 12 heads in three
     * groups that share keys, parts are one group: they must be equal. */
    struct mdsk_attention_bwd b = large(2, 12, 3, 1 << 18);

    (void)state;
    fake.computes = 0;
    assert_int_equal(mdsk_cudnn_attention_bwd(NULL, &b), 0);
    assert_int_equal(fake.calls, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(fake.problem[i].pass, MDSK_CUDNN_BACKWARD);
        assert_part(&b, i, i / 3, i % 3 * 4, 4);
    }
    start(NULL);
    fake.computes = 0;
    b = large(1, 16, 16, 1 << 18);
    assert_int_equal(mdsk_cudnn_attention_bwd(NULL, &b), 0);
    assert_int_equal(fake.calls, 2);
    assert_part(&b, 0, 0, 0, 8);
    assert_part(&b, 1, 0, 8, 8);
}

/* Repeatable sums need Sq x Sk numbers per head. */
static void test_repeatable_is_bounded(void **state)
{
    struct mdsk_attention_bwd b = large(1, 4, 4, 1 << 14);

    (void)state;
    fake.computes = 0;
    fake.repeatable = 1;
    assert_int_equal(mdsk_cudnn_attention_bwd(NULL, &b), 0);
    assert_int_equal(fake.calls, 2);
    assert_int_equal(fake.problem[1].pass, MDSK_CUDNN_REPEATABLE);
    assert_part(&b, 1, 0, 2, 2);
    b = large(1, 4, 4, 1 << 15);
    assert_int_equal(mdsk_cudnn_attention_bwd(NULL, &b), -ENOTSUP);
    assert_int_equal(fake.calls, 2);
}

/* ---- blocks of a long forward pass ---- */

/* The token of h at this address. */
static int64_t token_at(const struct mdsk_heads *h, const void *address)
{
    int64_t n = (const uint16_t *)address - (const uint16_t *)h->data;

    assert_int_equal(n % h->token_stride, 0);
    return n / h->token_stride;
}

/* Check that call i, for the queries from `at` on, covers keys from `first` on; returns
 * the key after them. */
static int64_t keys_of(const struct mdsk_attention_fwd *f, int i, int64_t at,
                       int64_t first)
{
    const struct mdsk_cudnn_problem *p = &fake.problem[i];
    const struct mdsk_cudnn_call *c = &fake.call[i];
    int64_t position = f->shape.q_offset + at;

    assert_int_equal(token_at(&f->k, c->data[MDSK_CUDNN_K - 1]), first);
    assert_int_equal(token_at(&f->v, c->data[MDSK_CUDNN_V - 1]), first);
    assert_true(first <= position && first + p->Sk <= f->shape.Sk);
    if (p->mask == MDSK_CUDNN_ALL)
        assert_true(first + p->Sk <= position + 1);
    else
        assert_int_equal(p->mask == MDSK_CUDNN_SHIFTED ? c->shift : 0,
                         position - first);
    return first + p->Sk;
}

static int plans(void)
{
    int n = 0;

    for (int i = 0; i < fake.calls; i++) {
        int j = 0;

        while (memcmp(&fake.problem[i], &fake.problem[j], sizeof *fake.problem) != 0)
            j++;
        n += i == j;
    }
    return n;
}

/* The calls cover every query with all keys that it sees, once. */
static void assert_blocks(const struct mdsk_attention_fwd *f)
{
    const struct mdsk_attention_shape *s = &f->shape;
    int64_t at = 0;
    int i = 0, merges = 0;

    while (i < fake.calls) {
        int64_t n = fake.problem[i].Sq, keys = 0, seen = s->q_offset + at + n;

        assert_int_equal(token_at(&f->q, fake.call[i].data[MDSK_CUDNN_Q - 1]), at);
        assert_int_equal(token_at(&f->o, fake.call[i].data[MDSK_CUDNN_O - 1]), at);
        keys = keys_of(f, i++, at, 0);
        if (keys < seen && keys < s->Sk) {
            assert_int_equal(fake.problem[i].Sq, n);
            keys = keys_of(f, i++, at, keys);
            merges++;
        }
        assert_true(keys >= seen || keys == s->Sk);
        at += n;
    }
    assert_int_equal(at, s->Sq);
    assert_int_equal(fake.merges, merges);
}

static void test_forward_in_blocks(void **state)
{
    static const struct {
        int64_t A, Sq, Sk, q_offset;
        int calls, plans; /* at most */
    } cases[] = {
        {2, 1 << 16, 1 << 16, 0, 1, 1}, /* short enough */
        {4, 1 << 18, 1 << 18, 0, 15, 10},
        {1, (1 << 20) + 100, (1 << 20) + 100, 0, 63, 18},
        {16, (1 << 17) + 31, (1 << 17) + 31, 0, 30, 20}, /* the last block is longer */
        {4, 1 << 14, 1 << 18, (1 << 18) - (1 << 14), 2, 2},
        {4, 100, 1 << 18, (1 << 18) - 100, 2, 2},
        {4, 1 << 17, 1 << 17, 1 << 17, 4, 1}, /* all keys */
        {4, 1 << 17, 1 << 17, (1 << 17) - 2, 5, 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mdsk_attention_bwd b = large(1, cases[i].A, 1, cases[i].Sk);
        struct mdsk_attention_fwd f = {.shape = b.shape,
                                       .q = b.q,
                                       .k = b.k,
                                       .v = b.v,
                                       .o = b.o,
                                       .lse = (float *)(uintptr_t)b.lse};

        start(NULL);
        fake.computes = 0;
        f.shape.Sq = cases[i].Sq;
        f.shape.q_offset = cases[i].q_offset;
        assert_int_equal(mdsk_cudnn_attention_fwd(NULL, &f), 0);
        assert_blocks(&f);
        assert_int_equal(fake.calls, cases[i].calls);
        assert_in_range(plans(), 1, cases[i].plans);
        if (fake.merges)
            assert_in_range(fake.most_scratch, mdsk_attention_fwd_cudnn_scratch(&f),
                            mdsk_attention_fwd_cudnn_scratch(&f) * 11 / 10);
    }
}

/* ---- windows ---- */

/* Blocks of queries with the keys that they see.  The keys' gradients, to which two
 * blocks add, are rounded differently. */
static const struct functions windows = {mdsk_cudnn_window_fwd, mdsk_cudnn_window_bwd,
                                         0x1p-8, 1e-4};

static void test_windows_in_blocks(void **state)
{
    static const struct {
        struct shape shape;
        int64_t window;
        struct calls calls;
    } cases[] = {
        {{1, 2, 1, 20000, 20000, 16, 0, 0, 0}, 300, {3, 3, 0, 0}},
        /* shorter blocks of many heads, backward */
        {{1, 16, 8, 1700, 1700, 16, 0, 0, 0}, 300, {1, 3, 0, 0}},
        /* lse with gaps */
        {{1, 2, 2, 8300, 8300, 16, 0, 9000, 8}, 8192, {2, 2, 0, 0}},
        {{2, 4, 2, 300, 300, 16, 0, 0, 0}, 17, {1, 1, 0, 0}},
        /* a chunk, and 128 keys before */
        {{1, 4, 2, 300, 428, 32, 128, 0, 0}, 129, {1, 1, 0, 0}},
        /* a chunk before: 39 queries see it */
        {{1, 2, 1, 64, 64, 32, 64, 0, 0}, 40, {1, 1, 1, 0}},
        /* none */
        {{1, 2, 1, 64, 64, 32, 200, 0, 0}, 40, {0, 0, 1, 0}},
        /* all */
        {{1, 2, 1, 96, 96, 32, 0, 0, 0}, 1000, {1, 1, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare(&windows, &cases[i].shape, cases[i].window, NULL, cases[i].calls);
}

/* A million tokens: no call has more keys than its queries see, few plans are built,
 * and scratch memory is what the dry run counts. */
static void test_window_of_a_million_tokens(void **state)
{
    struct mdsk_attention_bwd b = large(1, 32, 32, 1 << 20);
    struct mdsk_attention_fwd f;

    (void)state;
    fake.computes = 0;
    b.shape.window = 8192;
    f = (struct mdsk_attention_fwd){.shape = b.shape,
                                    .q = b.q,
                                    .k = b.k,
                                    .v = b.v,
                                    .o = b.o,
                                    .lse = (float *)(uintptr_t)b.lse};
    assert_int_equal(mdsk_cudnn_window_fwd(NULL, &f), 0);
    assert_int_equal(fake.calls, 128);
    assert_in_range(plans(), 1, 2);
    for (int i = 0; i < fake.calls; i++) {
        assert_int_equal(fake.problem[i].Sk, i == 0 ? 8192 : 16384);
        assert_true(fake.problem[i].windowed);
        assert_int_equal(fake.call[i].left, i == 0 ? 8192 : 0);
    }
    assert_in_range(fake.most_scratch, mdsk_attention_fwd_cudnn_scratch(&f),
                    mdsk_attention_fwd_cudnn_scratch(&f) + 4096);
    start(NULL);
    fake.computes = 0;
    assert_int_equal(mdsk_cudnn_window_bwd(NULL, &b), 0);
    assert_int_equal(fake.calls, 128);
    assert_in_range(plans(), 1, 2);
    assert_in_range(fake.most_scratch + fake.most_window,
                    mdsk_attention_bwd_cudnn_scratch(&b) * 95 / 100,
                    mdsk_attention_bwd_cudnn_scratch(&b) + 4096);
    b.shape.dtype = MDSK_F32;
    assert_int_equal(mdsk_cudnn_window_bwd(NULL, &b), -ENOTSUP);
}

/* The last block has up to 31 queries more than the others: at the end of the sequence,
 * or, of a chunk whose keys come before, at the last query that sees a key. */
static void test_window_with_a_longer_block(void **state)
{
    static const int64_t heads[] = {1, 2, 16, 32}, window[] = {17, 100, 300, 5000};
    static const int64_t more[] = {0, 31, 32};

    (void)state;
    for (int t = 0; t < 4 * 4 * 3 * 2; t++) {
        int64_t A = heads[t % 4], block, end, counted;
        struct mdsk_attention_bwd b = large(1, A, A, 1 << 18);

        b.shape.window = window[t / 4 % 4];
        block = mdsk_attention_window_bwd_block(&b.shape);
        end = 2 * block + more[t / 16 % 3];
        b.shape.Sq = b.shape.Sk = t < 48 ? end : 3 * block;
        if (t >= 48)
            b.shape.q_offset = b.shape.Sk + b.shape.window - 1 - end;
        start(NULL);
        fake.computes = 0;
        assert_int_equal(mdsk_cudnn_window_bwd(NULL, &b), 0);
        counted = mdsk_attention_bwd_cudnn_scratch(&b);
        assert_in_range(fake.most_scratch + fake.most_window, counted * 85 / 100,
                        counted + 4096);
    }
}

/* ---- documents ---- */

/* Starts of two sequences, [S, 2]: documents of these lengths, then of one token. */
static int32_t *starts_of(int64_t S, const int64_t first[5], const int64_t second[5])
{
    int32_t *start = malloc((size_t)(2 * S) * sizeof *start);

    assert_non_null(start);
    for (int b = 0; b < 2; b++) {
        const int64_t *length = b ? second : first;
        int64_t at = 0;

        for (int i = 0; i < 5 && length[i] > 0; i++)
            for (int64_t n = 0, from = at; n < length[i]; n++)
                start[2 * at++ + b] = (int32_t)from;
        for (; at < S; at++)
            start[2 * at + b] = (int32_t)at;
    }
    return start;
}

/* Calls for documents, whose lengths are rounded up; backward the queries of other
 * documents in a call add nothing. */
static const struct functions documents = {mdsk_cudnn_documents_fwd,
                                           mdsk_cudnn_documents_bwd, 0x1p-8, 1e-4};

static void test_documents(void **state)
{
    const int64_t S = 4000;
    const struct shape two_heads = {2, 2, 1, S, S, 16, 0, 0, 0};
    /* in calls of 1152, own kernels, 1792; and of 2560, own, 1408 since 1300 fit so */
    const struct calls calls = {4, 4, 4, 4};
    int32_t *start = starts_of(S, (int64_t[5]){1100, 37, 1, 1700},
                               (int64_t[5]){2501, 63, 1300, 136});

    (void)state;
    compare(&documents, &two_heads, 0, start, calls);
    compare(&documents, &(struct shape){2, 4, 4, S, S, 16, 0, 4032, 8}, 0, start,
            calls);
    compare(&documents, &(struct shape){2, 2, 2, S, S, 16, 0, 0, 0}, 300, start, calls);
    free(start);
    /* the last document fills the row: no call may be longer */
    start = starts_of(S, (int64_t[5]){1000, 1000, 2000}, (int64_t[5]){4000});
    compare(&documents, &two_heads, 0, start, (struct calls){2, 2, 1, 1});
    free(start);
}

/* Documents of many lengths need few plans. */
static void test_documents_need_few_plans(void **state)
{
    struct mdsk_attention_bwd b = large(1, 2, 2, 1 << 20);
    int32_t *start = calloc((size_t)b.shape.Sq, sizeof *start);
    int64_t at = 0;
    double extra = 0;

    (void)state;
    fake.computes = 0;
    assert_non_null(start);
    for (int64_t n = 6000; at + n <= b.shape.Sq; n += 173, at += n - 173)
        for (int64_t i = 0; i < n; i++)
            start[at + i] = (int32_t)at;
    for (; at < b.shape.Sq; at++)
        start[at] = (int32_t)at;
    b.shape.start = b.shape.host_start = start;
    assert_int_equal(mdsk_cudnn_documents_bwd(NULL, &b), 0);
    assert_in_range(fake.calls, 60, FAKE_CALLS);
    assert_in_range(plans(), 2, 32);
    for (int i = 0; i < fake.calls; i++)
        extra += (double)fake.problem[i].Sq / (6000 + 173 * i) - 1;
    assert_true(extra >= 0 && extra < fake.calls / 16.0);
    free(start);
}

static int refused(const struct mdsk_attention_bwd *b)
{
    struct mdsk_attention_fwd f = {.shape = b->shape,
                                   .q = b->q,
                                   .k = b->k,
                                   .v = b->v,
                                   .o = b->o,
                                   .lse = (float *)(uintptr_t)b->lse};

    return mdsk_cudnn_attention_fwd(NULL, &f) == -ENOTSUP &&
           mdsk_cudnn_attention_bwd(NULL, b) == -ENOTSUP && fake.calls == 0;
}

static void test_unsupported_problems(void **state)
{
    const struct mdsk_attention_bwd good = large(1, 2, 2, 64);
    static const int32_t starts[64];
    struct mdsk_attention_bwd b = good;

    (void)state;
    fake.computes = 0;
    b.shape.dtype = MDSK_F32;
    assert_true(refused(&b));
    b = good;
    b.shape.dropout.p = 0.1f;
    assert_true(refused(&b));
    b = good;
    b.shape.start = starts;
    assert_true(refused(&b));
    assert_int_equal(mdsk_cudnn_documents_bwd(NULL, &b), -ENOTSUP); /* unreadable */
    b.shape.host_start = starts;
    b.shape.q_offset = 64; /* not the whole row */
    assert_int_equal(mdsk_cudnn_documents_bwd(NULL, &b), -ENOTSUP);
    b.shape.window = 32;
    assert_int_equal(mdsk_cudnn_window_bwd(NULL, &b), -ENOTSUP);
    assert_int_equal(fake.calls, 0);
    b = good;
    b.shape.D = 68;
    assert_true(refused(&b));
    b = good;
    b.shape.Sq = b.shape.Sk = 31;
    assert_true(refused(&b));
    b = good;
    b.shape.Sk = 65; /* a key that nobody sees */
    assert_true(refused(&b));
    b = good;
    b.k.data = (char *)b.k.data + 2;
    assert_true(refused(&b));
    b = good;
    b.o.token_stride += 4;
    assert_true(refused(&b));
    b = good;
    b.shape.D = 136;
    fake.capability = 80;
    assert_true(refused(&b));
    b.shape.D = 128;
    assert_int_equal(mdsk_cudnn_attention_bwd(NULL, &b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_tensors_of_all_layouts, start),
        cmocka_unit_test_setup(test_rows_beyond_32bit_offsets, start),
        cmocka_unit_test_setup(test_heads_in_parts, start),
        cmocka_unit_test_setup(test_repeatable_is_bounded, start),
        cmocka_unit_test_setup(test_forward_in_blocks, start),
        cmocka_unit_test_setup(test_windows_in_blocks, start),
        cmocka_unit_test_setup(test_window_of_a_million_tokens, start),
        cmocka_unit_test(test_window_with_a_longer_block),
        cmocka_unit_test_setup(test_documents, start),
        cmocka_unit_test_setup(test_documents_need_few_plans, start),
        cmocka_unit_test_setup(test_unsupported_problems, start),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    fake_cudnn_reset();
    return failed;
}
