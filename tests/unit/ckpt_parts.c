/* Parts of tensors, checked arrays, and the folder of checkpoints. */
#include "ckpt/folder.h"
#include "ckpt/part.h"
#include "io/h5_array.h"
#include "scratch.h"

#include <sys/stat.h>

/* ---- parts ---- */

static struct mds_param share_of(int64_t rows, int64_t cols, enum mds_shard shard,
                                 int parts, int part)
{
    struct mds_param p = {.spec = {.rows = rows,
                                   .cols = cols,
                                   .shard = shard,
                                   .parts = parts,
                                   .part = part},
                          .rows = rows,
                          .cols = cols};

    if (shard == MDS_SHARD_ROWS)
        p.rows /= parts;
    if (shard == MDS_SHARD_COLS)
        p.cols /= parts;
    p.count = p.rows * (p.cols ? p.cols : 1);
    return p;
}

/* Walking the parts meets the elements of the share in their order. */
static void check_split(const struct mds_param *p, int64_t first, int64_t n)
{
    struct mds_part part[MDS_PART_SPLIT];
    int parts = mds_part_split(p, first, n, part);
    int64_t width = p->spec.cols ? p->spec.cols : 1, done = 0;

    assert_true(parts <= MDS_PART_SPLIT);
    for (int i = 0; i < parts; i++) {
        assert_int_equal(part[i].at, done);
        for (int64_t r = 0; r < part[i].rows; r++)
            for (int64_t c = 0; c < part[i].cols; c++, done++)
                assert_int_equal((part[i].row + r) * width + part[i].col + c,
                                 mds_param_whole_index(p, first + done));
    }
    assert_int_equal(done, n);
}

static void test_split(void **state)
{
    const struct mds_param shares[] = {
        share_of(12, 6, MDS_SHARD_NONE, 0, 0), share_of(12, 6, MDS_SHARD_ROWS, 3, 2),
        share_of(12, 6, MDS_SHARD_COLS, 2, 1), share_of(12, 6, MDS_SHARD_COLS, 6, 5),
        share_of(12, 0, MDS_SHARD_NONE, 0, 0), share_of(12, 0, MDS_SHARD_ROWS, 4, 1)};

    (void)state;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        for (int64_t first = 0; first < shares[i].count; first++)
            for (int64_t n = 1; n <= shares[i].count - first; n++)
                check_split(&shares[i], first, n);
}

static void test_meet(void **state)
{
    const struct mds_part a = {.file = 3, .at = 7, .row = 2, .rows = 4, .cols = 6};
    const struct mds_part b = {.row = 4, .rows = 9, .col = 5, .cols = 3};
    const struct mds_part beside = {.row = 6, .rows = 1, .col = 0, .cols = 6};
    struct mds_part both;

    (void)state;
    assert_true(mds_part_meet(&a, &b, &both));
    assert_int_equal(both.row, 4);
    assert_int_equal(both.rows, 2);
    assert_int_equal(both.col, 5);
    assert_int_equal(both.cols, 1);
    assert_int_equal(both.file, 3);
    assert_int_equal(mds_part_offset(&a, &both), 7 + 2 * 6 + 5);
    assert_false(mds_part_meet(&a, &beside, &both));
}

/* ---- arrays ---- */

enum { LENGTH = 300000 }; /* a few chunks */

static void write_array(const char *path)
{
    struct mds_h5 *f;
    struct mds_h5_floats *s;
    float *x = malloc(LENGTH * sizeof *x);

    for (int i = 0; i < LENGTH; i++)
        x[i] = (float)i;
    assert_int_equal(mds_h5_create_checked(path, path, &f), MDS_OK);
    assert_int_equal(mds_h5_floats_create(f, "/a/b", LENGTH, &s), MDS_OK);
    assert_int_equal(mds_h5_floats_write(s, 0, 1000, x), MDS_OK);
    assert_int_equal(mds_h5_floats_write(s, 1000, LENGTH - 1000, x + 1000), MDS_OK);
    assert_int_equal(mds_h5_floats_close(s), MDS_OK);
    assert_int_equal(mds_h5_close(f), MDS_OK);
    free(x);
}

static void test_array(void **state)
{
    struct mds_h5_runs from = {100, 3, 1000, 290}, to = {1, 3, 4, 290};
    float out[4 * 290 + 1] = {0};
    struct mds_h5_floats *s;
    struct mds_h5 *f;

    (void)state;
    write_array("a.h5");
    assert_int_equal(mds_h5_open("a.h5", NULL, &f), MDS_OK);
    assert_int_equal(mds_h5_floats_open(f, "/a/b", &s), MDS_OK);
    assert_int_equal(mds_h5_floats_length(s), LENGTH);
    assert_int_equal(mds_h5_floats_read(s, &from, out, &to), MDS_OK);
    for (int i = 0; i < 290; i++)
        for (int k = 0; k < 3; k++)
            assert_true(out[1 + 4 * i + k] == (float)(100 + 1000 * i + k));
    from.runs = to.runs = 400;
    assert_fails(mds_h5_floats_read(s, &from, out, &to), MDS_EUSER, "are wanted");
    assert_int_equal(mds_h5_floats_close(s), MDS_OK);
    assert_int_equal(mds_h5_close(f), MDS_OK);
}

static void test_tables(void **state)
{
    const int64_t table[] = {1, -2, 3, INT64_MAX, 5, 6};
    char *text;
    int64_t *back, n, width;
    struct mds_h5 *f;

    (void)state;
    assert_int_equal(mds_h5_create_checked("t.h5", "t.h5", &f), MDS_OK);
    assert_int_equal(mds_h5_put_table(f, "/t", table, 3, 2), MDS_OK);
    assert_int_equal(mds_h5_put_texts(f, "/x/y", "ab\0\0cd\0\0", 4, 2), MDS_OK);
    assert_int_equal(mds_h5_put_real(f, "real", 0.1), MDS_OK);
    assert_int_equal(mds_h5_close(f), MDS_OK);
    assert_int_equal(mds_h5_open("t.h5", NULL, &f), MDS_OK);
    assert_fails(mds_h5_get_table(f, "/t", 3, &back, &n), MDS_EUSER, "2 columns");
    assert_int_equal(mds_h5_get_table(f, "/t", 2, &back, &n), MDS_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(back, table, sizeof table);
    assert_int_equal(mds_h5_get_texts(f, "/x/y", &text, &width, &n), MDS_OK);
    assert_int_equal(width, 4);
    assert_int_equal(n, 2);
    assert_string_equal(text + 4, "cd");
    assert_int_equal(mds_h5_close(f), MDS_OK);
    free(text);
    free(back);
}

/* ---- the folder ---- */

static void commit(int64_t iteration)
{
    assert_int_equal(mds_ckpt_begin("c", iteration), MDS_OK);
    assert_int_equal(mds_ckpt_commit("c", iteration), MDS_OK);
}

static int64_t latest_of(const char *dir)
{
    int64_t n;

    assert_int_equal(mds_ckpt_latest(dir, &n), MDS_OK);
    return n;
}

static void test_folder(void **state)
{
    int64_t *list, n, removed;

    (void)state;
    assert_int_equal(latest_of("c"), -1);
    assert_int_equal(mds_ckpt_prepare("c"), MDS_OK);
    assert_int_equal(latest_of("c"), -1);
    for (int64_t i = 1; i <= 12000000; i *= 10)
        commit(i);
    assert_int_equal(mkdir("c/iter_0000005x", 0777), 0);
    assert_int_equal(mkdir("c/iter_5", 0777), 0);
    assert_int_equal(mds_ckpt_begin("c", 7), MDS_OK); /* is never finished */
    assert_int_equal(latest_of("c"), 10000000);
    assert_int_equal(mds_ckpt_before("c", 1000, &n), MDS_OK);
    assert_int_equal(n, 100);
    assert_int_equal(mds_ckpt_list("c", &list, &n), MDS_OK);
    assert_int_equal(n, 8);
    assert_int_equal(list[1], 10);
    free(list);
    commit(20); /* a run that went back: latest, and not the newest */
    assert_int_equal(access("c/iter_0000007.partial", F_OK), -1);
    assert_int_equal(latest_of("c"), 20);
    assert_int_equal(mds_ckpt_prune("c", 2, 10000, 0, &removed), MDS_OK);
    assert_int_equal(removed, 4); /* 1, 10, 100, 1000 */
    assert_int_equal(latest_of("c"), 20);
    commit(20);
    assert_int_equal(unlink("c/latest"), 0);
    assert_int_equal(latest_of("c"), 10000000);
}

static void test_bad_latest(void **state)
{
    static const char line[] = "../../etc/passwd\n";
    int64_t n;

    (void)state;
    assert_int_equal(mds_ckpt_prepare("d"), MDS_OK);
    write_file("d/latest", line, strlen(line));
    assert_fails(mds_ckpt_latest("d", &n), MDS_EUSER, "not the name of a checkpoint");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),  cmocka_unit_test(test_meet),
        cmocka_unit_test(test_array),  cmocka_unit_test(test_tables),
        cmocka_unit_test(test_folder), cmocka_unit_test(test_bad_latest),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
