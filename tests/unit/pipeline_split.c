/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline: which layers each stage has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/split.h"

enum { STAGES = 8, CHUNKS = 4 };

/* Pieces join without gaps; sizes differ by one at most, do not fall before the last
 * piece, and the last has the fewest. */
static void check_split(int layers, int stages, int chunks)
{
    int end = 0, before = 0, first, n;

    for (int k = 0; k < stages * chunks; k++) {
        assert_int_equal(
            mds_pipe_layers(layers, stages, chunks, k % stages, k / stages, &first, &n),
            MDS_OK);
        assert_int_equal(first, end);
        if (k < stages * chunks - 1)
            assert_true(n >= before);
        assert_in_range(n, layers / (stages * chunks),
                        (layers + stages * chunks - 1) / (stages * chunks));
        before = n;
        end = first + n;
    }
    assert_int_equal(n, layers / (stages * chunks));
    assert_int_equal(end, layers);
}

static void test_every_layer_has_one_home(void **state)
{
    (void)state;
    for (int stages = 1; stages <= STAGES; stages++)
        for (int chunks = 1; chunks <= CHUNKS; chunks++)
            for (int layers = stages * chunks; layers <= 100; layers++)
                check_split(layers, stages, chunks);
}

static void check_layers(int layers, int stages, int chunks, const int *want)
{
    for (int k = 0; k < stages * chunks; k++) {
        int first, n;

        assert_int_equal(
            mds_pipe_layers(layers, stages, chunks, k % stages, k / stages, &first, &n),
            MDS_OK);
        assert_int_equal(n, want[k]);
    }
}

static void test_layers_by_hand(void **state)
{
    int first = -1, n = -1;

    (void)state;
    check_layers(30, 4, 1, (int[]){7, 8, 8, 7});
    check_layers(13, 2, 2, (int[]){3, 3, 4, 3});
    assert_int_equal(mds_pipe_layers(6, 4, 2, 0, 0, &first, &n), MDS_EUSER);
    assert_string_equal(mds_fail_text(),
                        "6 layers cannot fill 4 pipeline stages x 2 chunks = 8 model "
                        "chunks: use 6 model chunks or fewer");
    assert_int_equal(mds_pipe_layers(8, 4, 2, 4, 0, &first, &n), MDS_EBUG);
    assert_int_equal(mds_pipe_layers(8, 4, 2, 0, -1, &first, &n), MDS_EBUG);
    assert_int_equal(first, -1);
    assert_int_equal(n, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layer_has_one_home),
        cmocka_unit_test(test_layers_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
