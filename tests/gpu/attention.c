/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu: attention as the cuda backend chooses it, and the plain one, beside the
 * project's own kernels, which tests/kernels/attention compares with plain loops. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cuda/attention.h"
#ifdef HAVE_CUDNN
#include "kernels/cuda/cudnn_attention.h"
#endif
#include "kernels/half.h"

/* pad: elements between the rows of o and d_o, besides those of the heads. */
struct shape {
    int64_t B, A, G, Sq, Sk, D, q_offset, pad, window;
};

static const struct shape shapes[] = {
    {2, 4, 4, 256, 256, 64, 0, 0, 0},
    {1, 4, 4, 200, 200, 72, 0, 0, 0},
    {2, 6, 2, 513, 513, 80, 0, 8, 0},
    {1, 2, 1, 300, 300, 88, 0, 0, 0},
    {1, 4, 1, 1000, 1000, 96, 0, 0, 0},
    {1, 2, 2, 300, 300, 104, 0, 0, 0},
    {2, 2, 1, 257, 257, 112, 0, 0, 0},
    {1, 2, 2, 129, 129, 120, 0, 0, 0},
    {1, 8, 8, 1024, 1024, 128, 0, 0, 0},
    {3, 2, 2, 37, 37, 128, 0, 0, 0},
    {2, 4, 2, 513, 513, 256, 0, 8, 0},
    {2, 4, 2, 384, 384, 128, 384, 0, 0}, /* all keys: a ring's earlier chunk */
    {1, 4, 4, 128, 512, 64, 384, 0, 0},  /* the last queries of a longer sequence */
    {1, 2, 2, 2048, 2048, 64, 0, (1 << 19) - 192,
     0}, /* rows short of 2^31 bytes away, */
    {1, 2, 2, 2048, 2048, 64, 0, (1 << 19) + 4096, 0}, /* beyond, */
    {1, 2, 2, 2048, 2048, 64, 0, (1 << 20) - 128, 0},  /* 2^31 elements, */
    {1, 2, 2, 2048, 2048, 64, 0, (1 << 20) + 4096, 0}, /* beyond */
};

/* So long that the forward pass goes block by block. */
static const struct shape long_shapes[] = {
    {1, 2, 1, (1 << 17) + 40, (1 << 17) + 40, 128, 0, 0, 0},
    {1, 3, 3, 200000, 200000, 64, 0, 8, 0},
    {2, 2, 1, 70001, 70001, 256, 0, 0, 0},
    {1, 4, 2, 5000, 150000, 128, 145000, 0, 0},  /* the last queries */
    {1, 2, 2, 40000, 100000, 128, 100000, 0, 0}, /* all keys */
};

static const struct shape windows[] = {
    {1, 2, 2, 20000, 20000, 128, 0, 0, 300},
    {1, 4, 2, 20000, 20000, 64, 0, 0, 8192},
    {2, 2, 1, 9001, 9001, 128, 0, 8, 1000},
    {1, 2, 1, 300, 300, 88, 0, 0, 2},
    {1, 4, 2, 3001, 3001, 256, 0, 0, 300},
    {1, 2, 1, 4096, 5119, 256, 1023, 0, 1024},
    {1, 2, 1, 4096, 5119, 128, 1023, 0, 1024}, /* a ring's chunk, and keys before it */
    {1, 2, 2, 4096, 4096, 128, 4096, 0, 1024}, /* the chunk before: many see no key */
    {1, 2, 2, 30000, 30000, 128, 0, 0, 20000},
    {1, 16, 4, 6001, 6001, 128, 0, 0, 1000}, /* backward in six blocks */
    {2, 32, 32, 2100, 2100, 64, 0, 0, 100},  /* in six */
};

/* length: of the first document of each sequence; each that follows has 5/8 of its
 * tokens, in turns with one of 3 tokens. */
static const struct {
    struct shape shape;
    int64_t length;
} documents[] = {
    {{1, 4, 2, 20000, 20000, 128, 0, 0, 0}, 7777},
    {{2, 2, 2, 9001, 9001, 64, 0, 8, 0}, 4100},
    {{1, 2, 1, 30000, 30000, 128, 0, 0, 2000}, 20011},
    {{2, 4, 2, 5001, 5001, 256, 0, 0, 0}, 2111},
    {{1, 2, 2, 2100, 2100, 72, 0, 0, 0}, 2064}, /* a call of 2064 tokens, not of 2176 */
};

/* Heads of the model in the problems that follow, with ALiBi; or 0. */
static int64_t alibi;

enum { DOCUMENTS = sizeof documents / sizeof *documents };
enum { LONG_SHAPES = sizeof long_shapes / sizeof *long_shapes };
enum { WINDOWS = sizeof windows / sizeof *windows };
enum { SHAPES = sizeof shapes / sizeof *shapes };
enum { Q, K, V, O, D_O, DQ, DK, DV, ARRAYS };

/* Arrays of heads on the device, sequence-major: row s * B + b holds the heads. */
struct problem {
    struct mdsk_attention_shape s;
    struct mdsk_heads x[ARRAYS];
    int64_t rows[ARRAYS], width[ARRAYS], row[ARRAYS]; /* row: elements to the next */
    float *lse, *delta;
    int32_t *start; /* or NULL */
};

static void *device_alloc(int64_t bytes)
{
    void *p = NULL;

    assert_int_equal(cudaMalloc(&p, (size_t)bytes), cudaSuccess);
    return p;
}

static uint16_t to_half(enum mdsk_dtype t, float x)
{
    return t == MDSK_BF16 ? mdsk_f32_to_bf16(x) : mdsk_f32_to_f16(x);
}

static double from_half(enum mdsk_dtype t, uint16_t x)
{
    return (double)(t == MDSK_BF16 ? mdsk_bf16_to_f32(x) : mdsk_f16_to_f32(x));
}

static void fill(struct problem *p, int i)
{
    int64_t n = p->rows[i] * p->width[i];
    uint16_t *host = malloc((size_t)n * sizeof *host);
    uint32_t seed = 12345u + (uint32_t)i;

    assert_non_null(host);
    for (int64_t j = 0; j < n; j++) {
        float sum = 0;

        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            sum += (float)(seed >> 8) * 0x1p-24f - 0.5f;
        }
        host[j] = to_half(p->s.dtype, 2 * sum);
    }
    assert_int_equal(cudaMemcpy2D(p->x[i].data, (size_t)p->row[i] * 2, host,
                                  (size_t)p->width[i] * 2, (size_t)p->width[i] * 2,
                                  (size_t)p->rows[i], cudaMemcpyHostToDevice),
                     cudaSuccess);
    free(host);
}

static uint16_t *fetch(const struct problem *p, int i)
{
    uint16_t *host = malloc((size_t)(p->rows[i] * p->width[i]) * sizeof *host);

    assert_non_null(host);
    assert_int_equal(cudaMemcpy2D(host, (size_t)p->width[i] * 2, p->x[i].data,
                                  (size_t)p->row[i] * 2, (size_t)p->width[i] * 2,
                                  (size_t)p->rows[i], cudaMemcpyDeviceToHost),
                     cudaSuccess);
    return host;
}

static void problem_init(struct problem *p, const struct shape *c, enum mdsk_dtype t)
{
    int64_t lines = c->B * c->A * c->Sq * (int64_t)sizeof(float);

    *p = (struct problem){.s = {.B = c->B,
                                .A = c->A,
                                .G = c->G,
                                .Sq = c->Sq,
                                .Sk = c->Sk,
                                .D = c->D,
                                .q_offset = c->q_offset,
                                .window = c->window,
                                .scale = 1 / sqrtf((float)c->D),
                                .dtype = t,
                                .alibi_heads = alibi,
                                .first_head = alibi ? 5 : 0,
                                .first_query = alibi ? c->q_offset : 0}};
    for (int i = 0; i < ARRAYS; i++) {
        int keys = i == K || i == V || i == DK || i == DV;

        p->rows[i] = c->B * (keys ? c->Sk : c->Sq);
        p->width[i] = (keys ? c->G : c->A) * c->D;
        p->row[i] = p->width[i] + (i == O || i == D_O ? c->pad : 0);
        p->x[i] = (struct mdsk_heads){.data = device_alloc(p->rows[i] * p->row[i] * 2),
                                      .batch_stride = p->row[i],
                                      .token_stride = c->B * p->row[i],
                                      .head_stride = c->D};
        fill(p, i);
    }
    p->lse = device_alloc(lines);
    p->delta = device_alloc(lines);
}

/* Divide p into documents; the first of sequence b is b tokens shorter. */
static void add_documents(struct problem *p, int64_t length)
{
    const struct mdsk_attention_shape *s = &p->s;
    size_t bytes = (size_t)(s->B * s->Sq) * sizeof *p->start;
    int32_t *start = malloc(bytes);

    assert_non_null(start);
    for (int64_t b = 0; b < s->B; b++) {
        int64_t from = 0, n = length - b, next_long = length * 5 / 8;

        for (int64_t i = 0; i < s->Sq; i++) {
            if (i - from == n) {
                from = i;
                n = n == 3 ? next_long : 3;
                next_long = n == 3 ? next_long : n * 5 / 8 + 4;
            }
            start[i * s->B + b] = (int32_t)from;
        }
    }
    p->start = device_alloc((int64_t)bytes);
    assert_int_equal(cudaMemcpy(p->start, start, bytes, cudaMemcpyHostToDevice),
                     cudaSuccess);
    p->s.start = p->start;
    p->s.host_start = start;
}

static void problem_fini(struct problem *p)
{
    for (int i = 0; i < ARRAYS; i++)
        cudaFree(p->x[i].data);
    cudaFree(p->lse);
    cudaFree(p->delta);
    cudaFree(p->start);
    free((void *)(uintptr_t)p->s.host_start);
}

typedef int forward_fn(cudaStream_t, const struct mdsk_attention_fwd *);
typedef int backward_fn(cudaStream_t, const struct mdsk_attention_bwd *);

static int chosen_forward(cudaStream_t stream, const struct mdsk_attention_fwd *a)
{
    return mdsk_attention_fwd_cuda(stream, a);
}

static int chosen_backward(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    return mdsk_attention_bwd_cuda(stream, a);
}

#ifdef HAVE_CUDNN
static forward_fn *const window_forward = mdsk_cudnn_window_fwd;
static backward_fn *const window_backward = mdsk_cudnn_window_bwd;
#else
static forward_fn *const window_forward = chosen_forward;
static backward_fn *const window_backward = chosen_backward;
#endif

static int plain_forward(cudaStream_t stream, const struct mdsk_attention_fwd *a)
{
    struct mdsk_attention_fwd b = *a;

    b.shape.unfused = 1;
    return mdsk_attention_fwd_cuda(stream, &b);
}

static int plain_backward(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    struct mdsk_attention_bwd b = *a;

    b.shape.unfused = 1;
    return mdsk_attention_bwd_cuda(stream, &b);
}

static void run_forward(const struct problem *p, forward_fn *f)
{
    struct mdsk_attention_fwd a = {p->s, p->x[Q], p->x[K], p->x[V], p->x[O], p->lse, 0};

    assert_int_equal(f(NULL, &a), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

static void run_backward(const struct problem *p, backward_fn *f)
{
    struct mdsk_attention_bwd a = {p->s,     p->x[Q],   p->x[K],  p->x[V],
                                   p->x[O],  p->x[D_O], p->x[DQ], p->x[DK],
                                   p->x[DV], p->lse,    0,        p->delta};

    assert_int_equal(f(NULL, &a), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

/* Relative Euclidean distance of array i from `want`, which is freed. */
static void assert_close(const struct problem *p, int i, uint16_t *want,
                         const struct shape *c)
{
    static const char *const names[] = {
        [O] = "o", [DQ] = "dq", [DK] = "dk", [DV] = "dv"};
    /* both sides round o, and a window of 2 leaves a small difference of scores */
    double limit = p->s.dtype == MDSK_BF16 ? 6e-3 : 8e-4, off = 0, all = 0;
    uint16_t *got = fetch(p, i);

    for (int64_t j = 0; j < p->rows[i] * p->width[i]; j++) {
        double w = from_half(p->s.dtype, want[j]);
        double d = from_half(p->s.dtype, got[j]) - w;

        off += d * d;
        all += w * w;
    }
    free(got);
    free(want);
    if (!(sqrt(off / all) <= limit)) /* also NaN */
        fail_msg("%s is off by %g: B %d A %d G %d Sq %d Sk %d D %d offset %d pad %d "
                 "window %d",
                 names[i], sqrt(off / all), (int)c->B, (int)c->A, (int)c->G, (int)c->Sq,
                 (int)c->Sk, (int)c->D, (int)c->q_offset, (int)c->pad, (int)c->window);
}

/* length: of the first document, or 0. */
static void compare_rows(const struct shape *c, int64_t length, enum mdsk_dtype t,
                         forward_fn *forward, backward_fn *backward)
{
    uint16_t *want[ARRAYS];
    struct problem p;

    problem_init(&p, c, t);
    if (length)
        add_documents(&p, length);
    run_forward(&p, mdsk_own_attention_fwd);
    want[O] = fetch(&p, O);
    run_backward(&p, mdsk_own_attention_bwd);
    for (int i = DQ; i <= DV; i++)
        want[i] = fetch(&p, i);
    run_forward(&p, forward);
    assert_close(&p, O, want[O], c);
    run_backward(&p, backward);
    for (int i = DQ; i <= DV; i++)
        assert_close(&p, i, want[i], c);
    problem_fini(&p);
}

static void compare(const struct shape *c, enum mdsk_dtype t, forward_fn *forward,
                    backward_fn *backward)
{
    compare_rows(c, 0, t, forward, backward);
}

static void compare_all(const struct shape *c, int64_t length, forward_fn *forward,
                        backward_fn *backward)
{
    compare_rows(c, length, MDSK_BF16, forward, backward);
    compare_rows(c, length, MDSK_F16, forward, backward);
}

/* Numbers of heads that are a power of 2, and that are not; keys before a ring's chunk,
 * far away; windows; documents. */
static void test_alibi_against_own(void **state)
{
    (void)state;
    for (alibi = 40; alibi <= 64; alibi += 24) {
        for (int i = 0; i < SHAPES; i++)
            compare_all(&shapes[i], 0, chosen_forward, chosen_backward);
        for (int i = 0; i < WINDOWS; i++)
            compare_all(&windows[i], 0, chosen_forward, chosen_backward);
        for (int i = 0; i < DOCUMENTS; i++)
            compare_all(&documents[i].shape, documents[i].length, chosen_forward,
                        chosen_backward);
        for (int i = 0; i < SHAPES; i++)
            compare_all(&shapes[i], 0, plain_forward, plain_backward);
    }
    alibi = 0;
}

static void test_against_own(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        compare(&shapes[i], MDSK_BF16, chosen_forward, chosen_backward);
        compare(&shapes[i], MDSK_F16, chosen_forward, chosen_backward);
    }
}

static void test_blocks_against_own(void **state)
{
    (void)state;
    for (int i = 0; i < LONG_SHAPES; i++)
        compare(&long_shapes[i], MDSK_BF16, chosen_forward, chosen_backward);
    compare(&long_shapes[0], MDSK_F16, chosen_forward, chosen_backward);
}

/* By what is chosen here, and by cuDNN: it has a plan for heads of up to 128. */
static void test_windows_against_own(void **state)
{
    (void)state;
    for (int i = 0; i < WINDOWS; i++) {
        compare(&windows[i], MDSK_F16, chosen_forward, chosen_backward);
        compare(&windows[i], MDSK_BF16, plain_forward, plain_backward);
        if (windows[i].D > 128)
            continue;
        compare(&windows[i], MDSK_BF16, window_forward, window_backward);
        compare(&windows[i], MDSK_F16, window_forward, window_backward);
    }
}

/* Document by document. */
static void test_documents_against_own(void **state)
{
    (void)state;
    for (int i = 0; i < DOCUMENTS; i++) {
        compare_rows(&documents[i].shape, documents[i].length, MDSK_BF16,
                     chosen_forward, chosen_backward);
        compare_rows(&documents[i].shape, documents[i].length, MDSK_F16, chosen_forward,
                     chosen_backward);
    }
}

static void test_plain_against_own(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        compare(&shapes[i], MDSK_BF16, plain_forward, plain_backward);
        compare(&shapes[i], MDSK_F16, plain_forward, plain_backward);
    }
}

static void repeats(const struct shape *c)
{
    uint16_t *first, *again;
    struct problem p;

    problem_init(&p, c, MDSK_BF16);
    run_forward(&p, chosen_forward);
    for (int i = DQ; i <= DV; i++) {
        run_backward(&p, chosen_backward);
        first = fetch(&p, i);
        run_backward(&p, chosen_backward);
        again = fetch(&p, i);
        assert_memory_equal(first, again, (size_t)(p.rows[i] * p.width[i]) * 2);
        free(first);
        free(again);
    }
    problem_fini(&p);
}

/* The same bits, when asked for. */
static void test_repeatable(void **state)
{
    static const struct shape c = {2, 4, 2, 1024, 1024, 64, 0, 0, 0};
    static const struct shape wide = {2, 4, 2, 1001, 1001, 256, 0, 0, 0};

    (void)state;
    mdsk_cuda_set_repeatable(1);
    repeats(&c);
    repeats(&wide);
    mdsk_cuda_set_repeatable(0);
    compare(&c, MDSK_BF16, chosen_forward, chosen_backward);
}

/* lse in rows that are longer than Sq, as a ring has them. */
static void test_lse_stride(void **state)
{
    static const struct shape c = {2, 2, 2, 128, 128, 64, 0, 0, 0};
    struct mdsk_attention_fwd a;
    float packed[4 * 128], wide[4 * 300];
    struct problem p;
    float *lse = device_alloc(sizeof wide);

    (void)state;
    problem_init(&p, &c, MDSK_BF16);
    run_forward(&p, chosen_forward);
    a = (struct mdsk_attention_fwd){p.s, p.x[Q], p.x[K], p.x[V], p.x[O], lse, 300};
    assert_int_equal(mdsk_attention_fwd_cuda(NULL, &a), 0);
    cudaMemcpy(packed, p.lse, sizeof packed, cudaMemcpyDeviceToHost);
    cudaMemcpy(wide, lse, sizeof wide, cudaMemcpyDeviceToHost);
    for (int h = 0; h < 4; h++)
        assert_memory_equal(packed + h * 128, wide + h * 300, 128 * sizeof *wide);
    cudaFree(lse);
    problem_fini(&p);
}

/* attention [PATTERN]: the tests whose names match, such as 'test_documents*'. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_own),
        cmocka_unit_test(test_blocks_against_own),
        cmocka_unit_test(test_windows_against_own),
        cmocka_unit_test(test_documents_against_own),
        cmocka_unit_test(test_plain_against_own),
        cmocka_unit_test(test_alibi_against_own),
        cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_lse_stride),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
