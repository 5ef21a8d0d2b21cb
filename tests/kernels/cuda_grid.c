/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: grids hold what they should, without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/cuda/grid.h"

enum { MOST = 65535 }; /* of a grid's second and third dimension */

static void a_row_of_blocks_is_folded(void **state)
{
    static const int64_t sizes[] = {1,
                                    2,
                                    MOST,
                                    MOST + 1,
                                    2 * MOST,
                                    2 * MOST + 1,
                                    INT64_C(1) << 24,
                                    INT64_C(4000000007),
                                    (int64_t)MOST * MOST};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned y = 0, z = 0;

        mdsk_cuda_fold(sizes[i], &y, &z);
        assert_in_range(y, 1, MOST);
        assert_in_range(z, 1, MOST);
        assert_true((int64_t)y * z >= sizes[i]);
        assert_true((int64_t)y * z - sizes[i] < z);
        assert_int_equal(z, (sizes[i] + MOST - 1) / MOST);
    }
}

static void what_no_grid_holds_is_refused(void **state)
{
    unsigned y = 0, z = 0;

    (void)state;
    assert_int_equal(mdsk_cuda_blocks(0), 0);
    assert_int_equal(mdsk_cuda_blocks(INT32_MAX), INT32_MAX);
    assert_int_equal(mdsk_cuda_blocks((int64_t)INT32_MAX + 1), UINT32_MAX);
    assert_int_equal(mdsk_cuda_blocks(INT64_MAX), UINT32_MAX);
    mdsk_cuda_fold((int64_t)MOST * MOST + 1, &y, &z);
    assert_true(z > MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_blocks_is_folded),
        cmocka_unit_test(what_no_grid_holds_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
