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

static void test_tp_is_fastest_pp_slowest(void **state)
{
    struct mds_grid g;
    struct mds_place p;

    (void)state;
    assert_int_equal(mds_grid_init(&g, 48, 2, 3, 4), MDS_OK);
    assert_int_equal(g.dp, 2);
    assert_int_equal(g.world, 48);
    p = mds_grid_place(&g, 1);
    assert_true(p.tp == 1 && p.sp == 0 && p.dp == 0 && p.pp == 0);
    p = mds_grid_place(&g, 2);
    assert_true(p.tp == 0 && p.sp == 1 && p.dp == 0 && p.pp == 0);
    p = mds_grid_place(&g, 6);
    assert_true(p.tp == 0 && p.sp == 0 && p.dp == 1 && p.pp == 0);
    p = mds_grid_place(&g, 47);
    assert_true(p.tp == 1 && p.sp == 2 && p.dp == 1 && p.pp == 3);
}

static void test_groups_by_hand(void **state)
{
    struct mds_grid g;
    int m[16];

    (void)state;
    assert_int_equal(mds_grid_init(&g, 16, 2, 2, 2), MDS_OK);
    assert_int_equal(mds_grid_group(&g, 5, MDS_AXIS_TP, m), 2);
    assert_memory_equal(m, ((int[]){4, 5}), 2 * sizeof *m);
    assert_int_equal(mds_grid_group(&g, 5, MDS_AXIS_SP, m), 2);
    assert_memory_equal(m, ((int[]){5, 7}), 2 * sizeof *m);
    assert_int_equal(mds_grid_group(&g, 5, MDS_AXIS_DP, m), 2);
    assert_memory_equal(m, ((int[]){1, 5}), 2 * sizeof *m);
    assert_int_equal(mds_grid_group(&g, 5, MDS_AXIS_PP, m), 2);
    assert_memory_equal(m, ((int[]){5, 13}), 2 * sizeof *m);
    assert_int_equal(mds_grid_group(&g, 5, MDS_AXIS_DPSP, m), 4);
    assert_memory_equal(m, ((int[]){1, 3, 5, 7}), 4 * sizeof *m);
}

/* Every rank is in its own group, at its own coordinate; the group ascends; all members
 * name the same group. */
static void check_axis(const struct mds_grid *g, enum mds_axis axis, int rank)
{
    int *mine = calloc((size_t)g->world, sizeof *mine);
    int *theirs = calloc((size_t)g->world, sizeof *theirs);
    int n = mds_grid_group(g, rank, axis, mine), found = 0;

    assert_int_equal(n, mds_grid_axis_size(g, axis));
    for (int i = 0; i < n; i++) {
        found += mine[i] == rank;
        if (i > 0)
            assert_true(mine[i] > mine[i - 1]);
        assert_int_equal(mds_grid_group(g, mine[i], axis, theirs), n);
        assert_memory_equal(mine, theirs, (size_t)n * sizeof *mine);
    }
    assert_int_equal(found, 1);
    free(mine);
    free(theirs);
}

static void test_groups_partition_the_world(void **state)
{
    static const int grids[][4] = {
        {1, 1, 1, 1}, {7, 1, 1, 1}, {24, 2, 3, 2}, {30, 5, 1, 2}, {36, 1, 4, 3}};
    struct mds_grid g;

    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        const int *s = grids[i];

        assert_int_equal(mds_grid_init(&g, s[0], s[1], s[2], s[3]), MDS_OK);
        for (int rank = 0; rank < g.world; rank++) {
            assert_int_equal(mds_grid_rank(&g, mds_grid_place(&g, rank)), rank);
            for (int axis = MDS_AXIS_TP; axis <= MDS_AXIS_DPSP; axis++)
                check_axis(&g, (enum mds_axis)axis, rank);
        }
    }
}

/* The 530B row of Megatron-LM's scaling table: 2520 ranks, TP inside a node of 8. */
static void test_megatron_530b(void **state)
{
    struct mds_grid g;
    int m[2520];

    (void)state;
    assert_int_equal(mds_grid_init(&g, 2520, 8, 1, 35), MDS_OK);
    assert_int_equal(g.dp, 9);
    assert_int_equal(mds_grid_group(&g, 2519, MDS_AXIS_TP, m), 8);
    assert_int_equal(m[0], 2512);
    assert_int_equal(mds_grid_group(&g, 2519, MDS_AXIS_PP, m), 35);
    assert_int_equal(m[34] - m[33], 72);
}

static void test_refusals_say_what_works(void **state)
{
    struct mds_grid g = {.world = -1};

    (void)state;
    assert_int_equal(mds_grid_init(&g, 6, 4, 1, 1), MDS_EUSER);
    assert_string_equal(
        mds_fail_text(),
        "6 ranks cannot be shared out to tensor 4 x sequence 1 x pipeline "
        "1 = 4: start 4 or 8 ranks, or use a tensor parallel size of 1, "
        "2, 3, 6");
    assert_int_equal(mds_grid_init(&g, 1, 2, 2, 1), MDS_EUSER);
    assert_string_equal(mds_fail_text(), "1 rank cannot be shared out to tensor 2 x "
                                         "sequence 2 x pipeline 1 = 4: start 4 ranks");
    assert_int_equal(mds_grid_init(&g, 8, 1 << 20, 1 << 20, 1 << 20), MDS_EUSER);
    assert_int_equal(mds_grid_init(&g, 8, 0, 1, 1), MDS_EUSER);
    assert_non_null(strstr(mds_fail_text(), "at least 1"));
    assert_int_equal(mds_grid_init(&g, 8, 1, 1, -2), MDS_EUSER);
    assert_int_equal(g.world, -1); /* untouched by all of these */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tp_is_fastest_pp_slowest),
        cmocka_unit_test(test_groups_by_hand),
        cmocka_unit_test(test_groups_partition_the_world),
        cmocka_unit_test(test_megatron_530b),
        cmocka_unit_test(test_refusals_say_what_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
