/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: which backward passes the kernels for Hopper are given, and in which parts.
 * Without a GPU: kernels, scratch memory and tensor maps are replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/attention_scratch.h"
#include "kernels/cuda/hopper/backward.h"

enum { MOST = 64 };

static struct {
    int capability, repeatable, addressable, calls;
    int64_t scratch;
    struct {
        const char *name;
        struct backward_args args;
    } call[MOST];
} fake;

int mdsk_cuda_capability(void)
{
    return fake.capability;
}

int mdsk_cuda_is_repeatable(void)
{
    return fake.repeatable;
}

void *mdsk_cuda_scratch(cudaStream_t stream, enum mdsk_cuda_use use, int64_t bytes)
{
    static char memory[256];

    (void)stream;
    assert_int_equal(use, MDSK_CUDA_ATTEND);
    fake.scratch = bytes;
    return memory;
}

int mdsk_tensor_map_can(const struct mdsk_heads *x, int64_t B, int64_t heads,
                        int64_t tokens, int64_t D)
{
    (void)x;
    assert_true(B > 0 && heads > 0 && tokens > 0 && D > 0);
    return fake.addressable;
}

int mdsk_tensor_map_heads(CUtensorMap *map, const struct mdsk_heads *x, int64_t B,
                          int64_t heads, int64_t tokens, int64_t D,
                          enum mdsk_dtype dtype, int rows)
{
    (void)map, (void)x, (void)B, (void)heads, (void)tokens, (void)D, (void)dtype;
    assert_in_range(rows, 64, 128);
    return 0;
}

#define KERNEL(NAME)                                                                   \
    int mdsk_backward_##NAME(cudaStream_t stream, const struct backward_args *a)       \
    {                                                                                  \
        (void)stream;                                                                  \
        assert_true(fake.calls < MOST);                                                \
        fake.call[fake.calls].name = #NAME;                                            \
        fake.call[fake.calls++].args = *a;                                             \
        return 0;                                                                      \
    }
KERNEL(bf16_64)
KERNEL(bf16_96)
KERNEL(bf16_128)
KERNEL(bf16_256)
KERNEL(f16_64)
KERNEL(f16_96)
KERNEL(f16_128)
KERNEL(f16_256)

static struct mdsk_attention_bwd problem(int64_t B, int64_t A, int64_t G, int64_t S,
                                         int64_t D)
{
    memset(&fake, 0, sizeof fake);
    fake.capability = 90;
    fake.addressable = 1;
    return (struct mdsk_attention_bwd){.shape = {.B = B,
                                                 .A = A,
                                                 .G = G,
                                                 .Sq = S,
                                                 .Sk = S,
                                                 .D = D,
                                                 .scale = 0.1f,
                                                 .dtype = MDSK_BF16}};
}

static void test_others_are_refused(void **state)
{
    struct mdsk_attention_bwd a;

    (void)state;
    for (int i = 0; i < 6; i++) {
        a = problem(1, 2, 1, 300, 64);
        fake.capability = i == 1 ? 80 : i == 2 ? 100 : 90;
        fake.addressable = i != 3;
        a.shape.D = i == 4 ? 68 : i == 5 ? 264 : 64;
        assert_int_equal(mdsk_hopper_attention_bwd(NULL, &a), i == 0 ? 0 : -ENOTSUP);
        assert_int_equal(fake.calls, i == 0);
    }
    a = problem(1, 2, 1, 300, 64);
    a.shape.dtype = MDSK_F32;
    assert_int_equal(mdsk_hopper_attention_bwd(NULL, &a), -ENOTSUP);
    a = problem(1, 2, 1, 300, 64);
    a.shape.first_key = UINT32_MAX - 299;
    assert_int_equal(mdsk_hopper_attention_bwd(NULL, &a), 0);
    a.shape.dropout.p = 0.1f; /* counts tokens with 32 bits */
    assert_int_equal(mdsk_hopper_attention_bwd(NULL, &a), -ENOTSUP);
}

static void test_kernel_of_a_size(void **state)
{
    static const struct {
        int64_t D;
        enum mdsk_dtype dtype;
        const char *name;
        int tiles, key_tiles;
    } rows[] = {{8, MDSK_BF16, "bf16_64", 3, 3},    {64, MDSK_F16, "f16_64", 3, 3},
                {72, MDSK_BF16, "bf16_96", 5, 3},   {96, MDSK_F16, "f16_96", 5, 3},
                {104, MDSK_BF16, "bf16_128", 5, 3}, {128, MDSK_F16, "f16_128", 5, 3},
                {136, MDSK_BF16, "bf16_256", 5, 5}, {256, MDSK_F16, "f16_256", 5, 5}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mdsk_attention_bwd a = problem(1, 2, 1, 300, rows[i].D);

        a.shape.dtype = rows[i].dtype;
        fake.repeatable = i % 2;
        assert_int_equal(mdsk_hopper_attention_bwd(NULL, &a), 0);
        assert_string_equal(fake.call[0].name, rows[i].name);
        assert_int_equal(fake.call[0].args.query_tiles, rows[i].tiles);
        assert_int_equal(fake.call[0].args.key_tiles, rows[i].key_tiles);
        assert_int_equal(fake.call[0].args.repeatable, i % 2);
        assert_int_equal(fake.scratch, 2 * mdsk_attention_bwd_hopper_head(&a.shape));
    }
}

/* Each head of each sequence once, and no more scratch memory than is counted. */
static void test_parts(void **state)
{
    static const struct {
        int64_t B, A, G, S;
        int calls;
    } rows[] = {{2, 8, 4, 4096, 1}, {2, 8, 4, 1 << 18, 4}, {1, 8, 2, 1 << 22, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mdsk_attention_bwd a =
            problem(rows[i].B, rows[i].A, rows[i].G, rows[i].S, 128);
        int groups = 0;

        assert_int_equal(mdsk_hopper_attention_bwd(NULL, &a), 0);
        assert_int_equal(fake.calls, rows[i].calls);
        for (int n = 0; n < fake.calls; n++) {
            const struct backward_args *w = &fake.call[n].args;

            assert_int_equal(w->b * w->shape.G + w->g, groups);
            assert_in_range(w->section, 1, w->B * w->G);
            groups += w->B * w->G;
        }
        assert_int_equal(groups, rows[i].B * rows[i].G);
        assert_in_range(fake.scratch, 1, mdsk_attention_bwd_scratch(&a));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_kernel_of_a_size),
        cmocka_unit_test(test_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
