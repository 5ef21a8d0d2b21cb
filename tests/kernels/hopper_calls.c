/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: which attention problems the kernels for Hopper are given, and how.  Without
 * a GPU: kernels and CUDA are replaced. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/attention_scratch.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/hopper/attention.h"
#include "kernels/cuda/hopper/forward.h"

static int capability;
static struct {
    const char *name;
    struct forward_args args;
    struct mdsk_attention_fwd problem;
    int64_t scratch;
    int merged;
} called;

int mdsk_cuda_capability(void)
{
    return capability;
}

int mdsk_cuda_fail(const char *library, const char *why)
{
    fail_msg("%s: %s", library, why);
    return -EIO;
}

void *mdsk_cuda_alloc(cudaStream_t stream, int64_t bytes)
{
    static unsigned memory[2];

    (void)stream;
    assert_int_equal(bytes, sizeof memory);
    return memory;
}

void *mdsk_cuda_scratch(cudaStream_t stream, enum mdsk_cuda_use use, int64_t bytes)
{
    static float memory;

    (void)stream;
    assert_int_equal(use, MDSK_CUDA_ATTEND);
    called.scratch = bytes;
    return &memory;
}

int mdsk_cuda_attention_merge_parts(cudaStream_t stream,
                                    const struct mdsk_attention_fwd *f, int parts,
                                    const float *o, const float *lse)
{
    (void)stream;
    assert_non_null(called.name);
    assert_true(lse - o == parts * f->shape.B * f->shape.A * f->shape.Sq * f->shape.D);
    called.merged = parts;
    return 0;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(p, value, bytes);
    return cudaSuccess;
}

static cudaError_t no_entry_point(const char *name)
{
    fail_msg("%s is not needed", name);
    return cudaErrorNotSupported;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found,
                                             unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *r)
{
    (void)version;
#else
cudaError_t cudaGetDriverEntryPoint(const char *name, void **found,
                                    unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *r)
{
#endif
    (void)found;
    (void)flags;
    (void)r;
    return no_entry_point(name);
}

#define KERNEL(type, width)                                                            \
    int mdsk_forward_##type##_##width(cudaStream_t stream, struct forward_args *a,     \
                                      const struct mdsk_attention_fwd *f)              \
    {                                                                                  \
        (void)stream;                                                                  \
        called.name = #type "_" #width;                                                \
        called.args = *a;                                                              \
        called.problem = *f;                                                           \
        return 0;                                                                      \
    }
KERNEL(bf16, 64)
KERNEL(bf16, 96)
KERNEL(bf16, 128)
KERNEL(bf16, 256)
KERNEL(f16, 64)
KERNEL(f16, 96)
KERNEL(f16, 128)
KERNEL(f16, 256)

/* Packed tensors, [S, B, heads, D]. */
static struct mdsk_attention_fwd problem(int64_t S, int64_t A, int64_t G, int64_t D)
{
    static _Alignas(16) char memory[16];
    const struct mdsk_heads q = {memory, A * D, A * D, D},
                            k = {memory, G * D, G * D, D};

    return (struct mdsk_attention_fwd){.shape = {.B = 1,
                                                 .A = A,
                                                 .G = G,
                                                 .Sq = S,
                                                 .Sk = S,
                                                 .D = D,
                                                 .scale = 1 / sqrtf((float)D),
                                                 .dtype = MDSK_BF16},
                                       .q = q,
                                       .k = k,
                                       .v = k,
                                       .o = q};
}

static int forward(const struct mdsk_attention_fwd *f)
{
    memset(&called, 0, sizeof called);
    return mdsk_hopper_attention_fwd(NULL, f);
}

static int set_up(void **state)
{
    (void)state;
    capability = 90;
    return 0;
}

static void the_kernel_is_of_type_and_width(void **state)
{
    static const struct {
        enum mdsk_dtype type;
        int64_t D;
        const char *name;
    } rows[] = {{MDSK_BF16, 8, "bf16_64"},    {MDSK_BF16, 64, "bf16_64"},
                {MDSK_BF16, 72, "bf16_96"},   {MDSK_BF16, 96, "bf16_96"},
                {MDSK_BF16, 104, "bf16_128"}, {MDSK_BF16, 136, "bf16_256"},
                {MDSK_F16, 40, "f16_64"},     {MDSK_F16, 80, "f16_96"},
                {MDSK_F16, 128, "f16_128"},   {MDSK_F16, 256, "f16_256"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mdsk_attention_fwd f = problem(100, 4, 2, rows[i].D);

        f.shape.dtype = rows[i].type;
        assert_int_equal(forward(&f), 0);
        assert_string_equal(called.name, rows[i].name);
    }
}

static void refused(const struct mdsk_attention_fwd *f)
{
    assert_int_equal(forward(f), -ENOTSUP);
    assert_null(called.name);
}

static void what_they_cannot_do_is_refused(void **state)
{
    const struct mdsk_attention_fwd good = problem(100, 4, 2, 64);
    struct mdsk_attention_fwd f = good;

    (void)state;
    f.shape.dtype = MDSK_F32;
    refused(&f);
    f = good;
    f.shape.dropout.p = 0.1f;
    f.shape.first_query = UINT32_MAX - 99;
    refused(&f);
    f = problem(100, 4, 2, 60);
    refused(&f);
    f = problem(100, 4, 2, 264);
    refused(&f);
    f = good;
    f.shape.scale = 0;
    refused(&f);
    capability = 80;
    refused(&good);
    capability = 100;
    refused(&good);
}

/* TMA wants multiples of 16 bytes, and strides below 2^40; of a single sequence or
 * head none. */
static void tensors_are_those_that_can_be_addressed(void **state)
{
    const struct mdsk_attention_fwd good = problem(100, 4, 2, 64);
    struct mdsk_attention_fwd f = good;

    (void)state;
    f.o.data = (char *)f.o.data + 2;
    refused(&f);
    f = good;
    f.k.token_stride += 4;
    refused(&f);
    f = good;
    f.v.head_stride = 0;
    refused(&f);
    f = good;
    f.q.token_stride = INT64_C(1) << 39;
    refused(&f);
    f.q.token_stride -= 8;
    assert_int_equal(forward(&f), 0);
    f = good;
    f.q.batch_stride = 0;
    assert_int_equal(forward(&f), 0);
    f.shape.B = 2;
    refused(&f);
}

/* The keys and values of the heads that are worked on side by side fit L2, if more than
 * one head is. */
static void sections_fit_the_cache(void **state)
{
    static const struct {
        int64_t S, G, D, window;
        int section;
    } rows[] = {{2048, 16, 128, 0, 16},     {8192, 16, 128, 0, 8},
                {32768, 16, 128, 0, 2},     {131072, 16, 128, 0, 1},
                {1 << 20, 4, 128, 0, 1},    {32768, 16, 64, 0, 4},
                {20000, 5, 128, 0, 3},      {131072, 16, 128, 1024, 3},
                {131072, 16, 128, 8192, 2}, {4096, 8, 256, 1024, 8}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mdsk_attention_fwd f =
            problem(rows[i].S, 2 * rows[i].G, rows[i].G, rows[i].D);

        f.shape.window = rows[i].window;
        assert_int_equal(forward(&f), 0);
        assert_int_equal(called.args.section, rows[i].section);
    }
}

static void strides_have_defaults(void **state)
{
    struct mdsk_attention_fwd f = problem(100, 4, 2, 64);

    (void)state;
    assert_int_equal(forward(&f), 0);
    assert_int_equal(called.args.lse_stride, 100);
    assert_int_equal(called.args.start_stride, 1);
    assert_true(fabsf(exp2f(called.args.scale_log2) - expf(f.shape.scale)) < 1e-6f);
    f.lse_stride = 800;
    f.shape.start_stride = 7;
    assert_int_equal(forward(&f), 0);
    assert_int_equal(called.args.lse_stride, 800);
    assert_int_equal(called.args.start_stride, 7);
}

static void dropout_is_described(void **state)
{
    struct mdsk_attention_fwd f = problem(100, 4, 2, 64);

    (void)state;
    assert_int_equal(forward(&f), 0);
    assert_false(called.args.has_dropout);
    f.shape.dropout = (struct mdsk_dropout_key){0.25f, 7, 8, 9};
    f.shape.first_key = 4003;
    assert_int_equal(forward(&f), 0);
    assert_true(called.args.has_dropout && called.args.dropout.scale == 1 / 0.75f);
    assert_int_equal(called.args.dropout.threshold, UINT32_C(1) << 30);
    assert_int_equal(called.args.dropout.first_block, 1000);
    assert_int_equal(called.args.dropout.skew, 3);
}

/* A row of keys is split if queries alone leave multiprocessors idle: not more than
 * needed, and into parts that all of them work on at once. */
static void keys_are_split(void **state)
{
    static const struct {
        int64_t Sq, Sk, A, G, D, window;
        float p;
        int parts, tiles;
    } rows[] = {
        {8192, 8192, 1, 1, 128, 0, 0, 4, 16},   /* half of a square, 64 x 64 tiles */
        {32768, 32768, 1, 1, 128, 0, 0, 1, 0},  /* 256 x 256: enough */
        {8192, 8192, 16, 16, 128, 0, 0, 1, 0},  /* likewise */
        {8192, 8192, 1, 1, 128, 0, 0.1f, 1, 0}, /* dropout never */
        {128, 128, 1, 1, 128, 0, 0, 1, 0},      /* a tile */
        {1, 8192, 32, 32, 128, 0, 0, 4, 16},    /* generation: 32 heads, */
        {1, 131072, 32, 8, 128, 0, 0, 16, 64},  /* and 8 with 4 queries each */
        {1, 131072, 1, 1, 64, 0, 0, 128, 8},
        {1, 131072, 32, 8, 128, 1024, 0, 8, 1},     /* eight tiles are seen */
        {1, 131072, 1, 1, 256, 131072, 0, 127, 13}, /* tiles of 80 keys */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mdsk_attention_fwd f =
            problem(rows[i].Sq, rows[i].A, rows[i].G, rows[i].D);

        f.shape.Sk = rows[i].Sk;
        f.shape.q_offset = rows[i].Sk - rows[i].Sq;
        f.shape.window = rows[i].window;
        f.shape.dropout.p = rows[i].p;
        assert_int_equal(forward(&f), 0);
        assert_int_equal(called.args.parts, rows[i].parts);
        assert_int_equal(called.merged, rows[i].parts > 1 ? rows[i].parts : 0);
        if (rows[i].parts == 1)
            continue;
        assert_int_equal(called.args.part_tiles, rows[i].tiles);
        assert_in_range(called.scratch, 1, mdsk_attention_fwd_scratch(&f));
    }
}

/* Heads that share keys are queries of one, where nothing tells them apart. */
static void single_queries_share_keys(void **state)
{
    struct mdsk_attention_fwd f = problem(1, 8, 2, 64);
    int32_t start[100] = {0};

    (void)state;
    f.shape.Sk = 100;
    f.shape.q_offset = 89;
    f.shape.window = 20;
    assert_int_equal(forward(&f), 0);
    assert_int_equal(called.args.A, 2);
    assert_int_equal(called.args.Sq, 4);
    assert_int_equal(called.args.Sk, 20);
    assert_int_equal(called.args.window, 0);
    assert_int_equal(called.args.lse_stride, 4);
    assert_int_equal(called.problem.q.token_stride, 64);
    assert_int_equal(called.problem.o.head_stride, 4 * 64);
    assert_ptr_equal(called.problem.k.data,
                     (char *)f.k.data + 70 * f.k.token_stride * 2);
    f.shape.alibi_heads = 8;
    assert_int_equal(forward(&f), 0);
    assert_int_equal(called.args.Sq, 1);
    f.shape.alibi_heads = 0;
    f.shape.start = start;
    assert_int_equal(forward(&f), 0);
    assert_int_equal(called.args.Sq, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_kernel_is_of_type_and_width, set_up),
        cmocka_unit_test_setup(what_they_cannot_do_is_refused, set_up),
        cmocka_unit_test_setup(tensors_are_those_that_can_be_addressed, set_up),
        cmocka_unit_test_setup(sections_fit_the_cache, set_up),
        cmocka_unit_test_setup(strides_have_defaults, set_up),
        cmocka_unit_test_setup(dropout_is_described, set_up),
        cmocka_unit_test_setup(keys_are_split, set_up),
        cmocka_unit_test_setup(single_queries_share_keys, set_up),
    };

    return cmocka_run_group_tests_name("hopper_calls", tests, NULL, NULL);
}
