/* SPDX-License-Identifier: BSD-3-Clause */
/* topo: the process grid, small and at the size of a machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/status.h"
#include "topo/grid.h"

/* A table with an axis that the program does not have, between tensor and data. */
enum { TENSOR = 3, BATCH = 3 << 2, DATA = 3 << 4, STAGE = 3 << 6 };
static const struct mds_axis with_batch[] = {
    {"tensor", "tp", "parallel.tensor", 0},
    {"batch", "batch", "parallel.batch", 0},
    {"data", "dp", NULL, 0},
    {"pipeline", "pipe", "parallel.pipeline", 0},
    {0}};

static struct mds_grid grid_of_experts(int world, int64_t tensor, int64_t ulysses,
                                       int64_t ring, int64_t pipeline, int64_t expert)
{
    const int64_t size[MDS_AXES] = {tensor, ulysses, ring, 0, pipeline, expert};
    struct mds_grid g;

    assert_int_equal(mds_grid_init(&g, mds_axes, size, world), MDS_OK);
    return g;
}

static struct mds_grid make_grid(int world, int64_t tensor, int64_t ulysses,
                                 int64_t ring, int64_t pipeline)
{
    return grid_of_experts(world, tensor, ulysses, ring, pipeline, 1);
}

static void test_tensor_is_fastest_pipeline_slowest(void **state)
{
    struct mds_grid g = make_grid(48, 2, 3, 1, 4);
    static const struct {
        int rank, tensor, ulysses, data, pipeline;
    } is[] = {{1, 1, 0, 0, 0}, {2, 0, 1, 0, 0}, {6, 0, 0, 1, 0}, {47, 1, 2, 1, 3}};

    (void)state;
    assert_int_equal(mds_grid_size(&g, MDS_AXIS_DATA), 2);
    assert_int_equal(g.world, 48);
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        int rank = is[i].rank;

        assert_int_equal(mds_grid_rank(&g, rank, MDS_AXIS_TENSOR), is[i].tensor);
        assert_int_equal(mds_grid_rank(&g, rank, MDS_AXIS_ULYSSES), is[i].ulysses);
        assert_int_equal(mds_grid_rank(&g, rank, MDS_AXIS_RING), 0);
        assert_int_equal(mds_grid_rank(&g, rank, MDS_AXIS_DATA), is[i].data);
        assert_int_equal(mds_grid_rank(&g, rank, MDS_AXIS_PIPELINE), is[i].pipeline);
        assert_int_equal(mds_grid_rank(&g, rank, MDS_AXES_ALL), rank);
    }
}

static void expect_group(const struct mds_grid *g, int rank, unsigned axes, int n,
                         const int *members)
{
    assert_int_equal(mds_grid_size(g, axes), n);
    for (int i = 0; i < n; i++)
        assert_int_equal(mds_grid_member(g, rank, axes, i), members[i]);
}

static void test_groups_by_hand(void **state)
{
    struct mds_grid g = make_grid(16, 2, 2, 1, 2);

    (void)state;
    expect_group(&g, 5, MDS_AXIS_TENSOR, 2, (int[]){4, 5});
    expect_group(&g, 5, MDS_AXIS_ULYSSES, 2, (int[]){5, 7});
    expect_group(&g, 5, MDS_AXIS_DATA, 2, (int[]){1, 5});
    expect_group(&g, 5, MDS_AXIS_PIPELINE, 2, (int[]){5, 13});
    expect_group(&g, 5, MDS_AXES_TOKENS, 4, (int[]){1, 3, 5, 7});
    expect_group(&g, 5, MDS_AXIS_TENSOR | MDS_AXIS_PIPELINE, 4, (int[]){4, 5, 12, 13});
    expect_group(&g, 5, MDS_AXIS_RING, 1, (int[]){5}); /* nobody else */
    expect_group(&g, 5, 0, 1, (int[]){5});
    assert_int_equal(mds_grid_stride(&g, MDS_AXIS_DATA), 4);
    assert_int_equal(mds_grid_stride(&g, MDS_AXES_TOKENS), 2);
    assert_int_equal(mds_grid_stride(&g, MDS_AXES_ALL), 1);
}

/* The sequence is rings of Ulysses groups, Ulysses fastest. */
static void test_rings_of_ulysses_groups(void **state)
{
    struct mds_grid g = make_grid(24, 2, 2, 3, 1);

    (void)state;
    expect_group(&g, 13, MDS_AXIS_ULYSSES, 2, (int[]){13, 15});
    expect_group(&g, 13, MDS_AXIS_RING, 3, (int[]){13, 17, 21});
    expect_group(&g, 13, MDS_AXIS_ULYSSES | MDS_AXIS_RING, 6,
                 (int[]){13, 15, 17, 19, 21, 23});
}

static void test_another_axis_is_a_row(void **state)
{
    const int64_t size[] = {2, 3, 0, 2};
    struct mds_str said = {0};
    struct mds_grid g;

    (void)state;
    assert_int_equal(mds_grid_init(&g, with_batch, size, 24), MDS_OK);
    assert_int_equal(mds_grid_size(&g, DATA), 2);
    assert_int_equal(mds_grid_rank(&g, 17, TENSOR), 1);
    assert_int_equal(mds_grid_rank(&g, 17, BATCH), 2);
    assert_int_equal(mds_grid_rank(&g, 17, DATA), 0);
    assert_int_equal(mds_grid_rank(&g, 17, STAGE), 1);
    expect_group(&g, 17, BATCH, 3, (int[]){13, 15, 17});
    expect_group(&g, 17, DATA, 2, (int[]){17, 23});
    expect_group(&g, 17, BATCH | DATA, 6, (int[]){13, 15, 17, 19, 21, 23});
    expect_group(&g, 17, TENSOR | DATA, 4, (int[]){16, 17, 22, 23});
    mds_axes_format(with_batch, size, &said);
    assert_string_equal(said.s, "pipeline 2 x batch 3 x tensor 2");
    assert_int_equal(mds_axes_model_ranks(with_batch, size), 12);
    mds_str_fini(&said);
}

/* Experts are shared by neighbours with different tokens, from Ulysses ranks on; those
 * with the same ones are what is left. */
static void test_experts_are_within_axes(void **state)
{
    struct mds_grid part = grid_of_experts(16, 2, 4, 2, 1, 2),
                    all = grid_of_experts(16, 1, 2, 2, 2, 4),
                    more = grid_of_experts(16, 1, 2, 2, 1, 8),
                    odd = grid_of_experts(12, 1, 3, 2, 1, 2),
                    mixed = grid_of_experts(12, 1, 6, 2, 1, 4);

    (void)state;
    expect_group(&part, 5, MDS_AXIS_EXPERT, 2, (int[]){5, 7});
    expect_group(&part, 5, MDS_AXES_SAME_EXPERTS, 4, (int[]){1, 5, 9, 13});
    expect_group(&part, 5, MDS_AXES_STAGE_EXPERTS, 8,
                 (int[]){0, 1, 4, 5, 8, 9, 12, 13});
    expect_group(&part, 5, MDS_AXIS_ULYSSES, 4, (int[]){1, 3, 5, 7});
    assert_int_equal(mds_grid_stride(&part, MDS_AXES_SAME_EXPERTS), 4);
    expect_group(&all, 9, MDS_AXIS_EXPERT, 4, (int[]){8, 9, 10, 11});
    expect_group(&all, 9, MDS_AXES_SAME_EXPERTS, 2, (int[]){9, 13});
    expect_group(&more, 9, MDS_AXIS_EXPERT, 8, (int[]){8, 9, 10, 11, 12, 13, 14, 15});
    expect_group(&more, 9, MDS_AXES_SAME_EXPERTS, 2, (int[]){1, 9});
    expect_group(&odd, 1, MDS_AXIS_EXPERT, 2, (int[]){1, 4});
    assert_int_equal(mds_grid_stride(&odd, MDS_AXIS_EXPERT), 3);
    expect_group(&mixed, 3, MDS_AXIS_EXPERT, 4, (int[]){2, 3, 8, 9});
    expect_group(&mixed, 3, MDS_AXES_SAME_EXPERTS, 3, (int[]){1, 3, 5});
}

/* What the sizes of other axes leave of experts' ranks is a factor of data ranks. */
static void test_experts_need_ranks(void **state)
{
    static const struct {
        int64_t ulysses, ring, expert, ranks;
    } is[] = {{1, 1, 4, 4}, {4, 1, 4, 4},  {4, 1, 2, 4}, {2, 2, 8, 8},
              {3, 1, 2, 6}, {6, 2, 4, 12}, {1, 2, 3, 6}};
    struct mds_str said = {0};

    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        const int64_t size[MDS_AXES] = {2, is[i].ulysses, is[i].ring, 4,
                                        1, is[i].expert};

        assert_int_equal(mds_axes_model_ranks(mds_axes, size), 2 * is[i].ranks);
        if (i == 3)
            mds_axes_format(mds_axes, size, &said);
    }
    assert_string_equal(said.s, "pipeline 1 x data 4 x ring 2 x Ulysses 2 x tensor 2 "
                                "(expert 8)");
    mds_str_fini(&said);
}

/* Every rank is at its own place of its group; the group ascends; all members name the
 * same group. */
static void check_group(const struct mds_grid *g, unsigned axes, int rank)
{
    int n = mds_grid_size(g, axes);

    assert_int_equal(mds_grid_member(g, rank, axes, mds_grid_rank(g, rank, axes)),
                     rank);
    for (int i = 0; i < n; i++) {
        int member = mds_grid_member(g, rank, axes, i);

        assert_in_range(member, 0, g->world - 1);
        assert_int_equal(mds_grid_rank(g, member, axes), i);
        assert_int_equal(mds_grid_rank(g, member, ~axes),
                         mds_grid_rank(g, rank, ~axes));
        assert_true(i == 0 || member > mds_grid_member(g, rank, axes, i - 1));
    }
}

static void test_groups_partition_the_world(void **state)
{
    static const int grids[][6] = {{1, 1, 1, 1, 1, 1},  {7, 1, 1, 1, 1, 7},
                                   {24, 2, 3, 1, 2, 1}, {30, 5, 1, 1, 2, 1},
                                   {36, 1, 2, 2, 3, 6}, {48, 2, 2, 3, 2, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        const int *s = grids[i];
        struct mds_grid g = grid_of_experts(s[0], s[1], s[2], s[3], s[4], s[5]);

        for (int rank = 0; rank < g.world; rank++)
            for (unsigned axes = 0; axes < 1u << 2 * (MDS_AXES - 1); axes++)
                check_group(&g, axes, rank);
    }
}

/* The 530B row of Megatron-LM's scaling table: 2520 ranks, TP inside a node of 8. */
static void test_megatron_530b(void **state)
{
    struct mds_grid g = make_grid(2520, 8, 1, 1, 35);

    (void)state;
    assert_int_equal(mds_grid_size(&g, MDS_AXIS_DATA), 9);
    assert_int_equal(mds_grid_member(&g, 2519, MDS_AXIS_TENSOR, 0), 2512);
    assert_int_equal(mds_grid_size(&g, MDS_AXIS_PIPELINE), 35);
    assert_int_equal(mds_grid_member(&g, 2519, MDS_AXIS_PIPELINE, 33), 2519 - 72);
    assert_int_equal(mds_grid_stride(&g, MDS_AXIS_PIPELINE), 72);
}

static void expect_refusal(const struct mds_axis *table, const int64_t *size, int world,
                           enum mds_rc rc, const char *said)
{
    struct mds_grid g = {.world = -1};

    assert_int_equal(mds_grid_init(&g, table, size, world), rc);
    assert_non_null(strstr(mds_fail_text(), said));
    assert_int_equal(g.world, -1); /* untouched */
}

static void test_refusals(void **state)
{
    static const struct mds_axis nothing_is_left[] = {{"tensor", "tp", "t", 0}, {0}};
    const int64_t most = 1 << 20, a[] = {4, 1, 1, 0, 1, 1}, b[] = {2, 2, 1, 0, 1, 1},
                  c[] = {most, most, most, 0, most, most}, d[] = {0, 1, 1, 0, 1, 1},
                  e[] = {1, 1, 1, 0, -2, 1}, f[] = {1, 2, 2, 0, 1, 3};

    (void)state;
    expect_refusal(mds_axes, a, 6, MDS_EUSER,
                   "6 ranks cannot be divided into model replicas of 4 ranks");
    expect_refusal(mds_axes, b, 1, MDS_EUSER, "1 rank cannot");
    expect_refusal(mds_axes, c, 8, MDS_EUSER, "8 ranks cannot");
    expect_refusal(mds_axes, d, 8, MDS_EUSER,
                   "tensor parallel size 0: must be at least 1");
    expect_refusal(mds_axes, e, 8, MDS_EUSER,
                   "pipeline parallel size -2: must be at least 1");
    expect_refusal(mds_axes, f, 8, MDS_EUSER,
                   "8 ranks cannot be divided into model replicas of 12 ranks");
    expect_refusal(nothing_is_left, a, 4, MDS_EBUG, "remaining ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_is_fastest_pipeline_slowest),
        cmocka_unit_test(test_groups_by_hand),
        cmocka_unit_test(test_rings_of_ulysses_groups),
        cmocka_unit_test(test_another_axis_is_a_row),
        cmocka_unit_test(test_experts_are_within_axes),
        cmocka_unit_test(test_experts_need_ranks),
        cmocka_unit_test(test_groups_partition_the_world),
        cmocka_unit_test(test_megatron_530b),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
