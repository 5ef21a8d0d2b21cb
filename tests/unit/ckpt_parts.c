/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of tensors, ranks' files, tables, and the index. */
#include "ckpt/index.h"
#include "ckpt/rank_file.h"
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
    struct mds_ckpt_part part[MDS_PART_SPLIT];
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
    const struct mds_ckpt_part a = {.file = 3, .at = 7, .row = 2, .rows = 4, .cols = 6};
    const struct mds_ckpt_part b = {.row = 4, .rows = 9, .col = 5, .cols = 3};
    const struct mds_ckpt_part beside = {.row = 6, .rows = 1, .col = 0, .cols = 6};
    struct mds_ckpt_part both;

    (void)state;
    assert_true(mds_part_intersect(&a, &b, &both));
    assert_int_equal(both.row, 4);
    assert_int_equal(both.rows, 2);
    assert_int_equal(both.col, 5);
    assert_int_equal(both.cols, 1);
    assert_int_equal(both.file, 3);
    assert_int_equal(mds_part_offset(&a, &both), 7 + 2 * 6 + 5);
    assert_false(mds_part_intersect(&a, &beside, &both));
}

/* ---- a rank's file ---- */

enum { ROWS = 700, COLS = 1000 }; /* of /weight/big: three blocks, the last one short */

static const struct mds_rank_file_id id = {.save = 11, .rank = 3, .iteration = 7};

static void share_all(void *ctx, int unit, int64_t *first, int64_t *n)
{
    (void)unit;
    *first = 0;
    *n = mds_params_unit(ctx, 0)->count;
}

/* A registry of a large and a small parameter; all of both is in the file. */
static struct mds_params *registry(void)
{
    struct mds_param_spec big = {.name = "big", .rows = ROWS, .cols = COLS};
    struct mds_param_spec small = {.name = "small", .rows = 5};
    struct mds_params *ps;
    int at;

    assert_int_equal(mds_params_create(MDSK_F32, &ps), MDS_OK);
    assert_int_equal(mds_params_add_unit(ps, "unit", &at), MDS_OK);
    assert_int_equal(mds_params_add(ps, &big, &at), MDS_OK);
    assert_int_equal(mds_params_add(ps, &small, &at), MDS_OK);
    return ps;
}

/* Element i of a list is i, and 0.5 more in the moments. */
static void write_rank_file(const char *path)
{
    struct mds_params *ps = registry();
    const struct mds_ckpt_source source = {.ctx = ps, .share = share_all};
    struct mds_rank_file_plan plan;
    struct mds_rank_file *f;
    int64_t bytes, room = ROWS * COLS;
    float *x = malloc((size_t)room * sizeof *x);

    assert_int_equal(mds_rank_file_plan(ps, ps, id.rank, &source, &plan), MDS_OK);
    assert_int_equal(plan.lists, 6);
    assert_int_equal(plan.elements, 3 * (ROWS * COLS + 5));
    assert_int_equal(mds_rank_file_create(path, &id, &plan, &f, &bytes), MDS_OK);
    for (int64_t i = 0; i < plan.lists; i++) {
        const struct mds_rank_file_list *l = &plan.list[i];
        int64_t first = l->n < MDS_RANK_FILE_BLOCK ? l->n : MDS_RANK_FILE_BLOCK;

        for (int64_t k = 0; k < l->n; k++)
            x[k] = (float)k + (l->what == MDS_CKPT_WEIGHT ? 0.0f : 0.5f);
        assert_int_equal(mds_rank_file_put(f, l, 0, first, x), MDS_OK);
        if (l->n > first)
            assert_int_equal(mds_rank_file_put(f, l, first, l->n - first, x + first),
                             MDS_OK);
    }
    assert_int_equal(mds_rank_file_seal(f), MDS_OK);
    mds_rank_file_destroy(f);
    mds_rank_file_plan_fini(&plan);
    mds_params_destroy(ps);
    free(x);
}

static struct mds_rank_file_workers hire(int alone)
{
    struct mds_rank_file_workers w = {0};

    assert_int_equal(mds_worker_create(1, &w.cached), MDS_OK);
    if (alone)
        assert_int_equal(mds_worker_create(3, &w.direct), MDS_OK);
    return w;
}

static void dismiss(struct mds_rank_file_workers w)
{
    mds_worker_destroy(w.direct);
    mds_worker_destroy(w.cached);
}

/* Columns 990 to 992 of every row, spread out. */
static void check_runs(struct mds_rank_file_reader *r, const char *list, float plus)
{
    const struct mds_strided_rows from = {990, 3, COLS, ROWS}, to = {1, 3, 4, ROWS};
    float out[4 * ROWS + 1] = {0};

    assert_int_equal(mds_rank_file_read(r, list, &from, out, &to), MDS_OK);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 3; k++)
            assert_true(out[1 + 4 * i + k] == (float)(990 + COLS * i + k) + plus);
}

static void test_rank_file(void **state)
{
    const struct mds_strided_rows beyond = {3, 3, 3, 1}, to = {0, 3, 3, 1};
    struct mds_rank_file_id other = id;
    struct mds_rank_file_reader *r;
    struct mds_rank_file_workers workers;
    float out[3];

    (void)state;
    workers = hire(0);
    write_rank_file("a.h5");
    assert_int_equal(mds_rank_file_open("a.h5", &id, workers, &r), MDS_OK);
    check_runs(r, "/weight/big", 0);
    check_runs(r, "/adam_v/big", 0.5f);
    assert_int_equal(mds_rank_file_verify(r, "/adam_m/big", ROWS * COLS), MDS_OK);
    assert_fails(mds_rank_file_verify(r, "/adam_m/small", 6), MDS_EUSER, "index says");
    assert_fails(mds_rank_file_read(r, "/weight/small", &beyond, out, &to), MDS_EUSER,
                 "6 are needed");
    assert_fails(mds_rank_file_read(r, "/weight/none", &to, out, &to), MDS_EUSER,
                 "cannot open /weight/none");
    mds_rank_file_close(r);
    other.save = 12;
    assert_fails(mds_rank_file_open("a.h5", &other, workers, &r), MDS_EUSER,
                 "another save");
    other.rank = 2;
    assert_fails(mds_rank_file_open("a.h5", &other, workers, &r), MDS_EUSER,
                 "rank 3 at iteration 7");
    dismiss(workers);
}

/* Where /weight/big begins: HDF5 finds what was written without it. */
static int64_t place_of_big(const char *path)
{
    int64_t n, place;
    struct mds_h5 *h5;

    assert_int_equal(mds_h5_open(path, NULL, &h5), MDS_OK);
    assert_int_equal(mds_h5_locate(h5, "/weight/big", MDS_H5_F32, &n, &place), MDS_OK);
    assert_int_equal(n, ROWS * COLS);
    assert_fails(mds_h5_locate(h5, "/weight/big", MDS_H5_U64, &n, &place), MDS_EUSER,
                 "not a list");
    assert_int_equal(mds_h5_close(h5), MDS_OK);
    return place;
}

static void spoil(const char *path, int64_t element)
{
    int64_t at = place_of_big(path) + 4 * element;
    FILE *f = fopen(path, "r+");
    float bad = -1;

    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(&bad, sizeof bad, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

/* A reader of a file written anew, with a wrong number at an element (-1: without). */
static struct mds_rank_file_reader *open_spoilt(int64_t element,
                                                struct mds_rank_file_workers workers)
{
    struct mds_rank_file_reader *r;

    write_rank_file("b.h5");
    if (element >= 0)
        spoil("b.h5", element);
    assert_int_equal(mds_rank_file_open("b.h5", &id, workers, &r), MDS_OK);
    return r;
}

/* What is wrong is found where it is, again and again, and nowhere else. */
static void check_spoilt(int64_t element, int alone, float *out)
{
    enum { n = ROWS * COLS, LAST = 2 * MDS_RANK_FILE_BLOCK };
    int64_t block = element / MDS_RANK_FILE_BLOCK * MDS_RANK_FILE_BLOCK;
    const struct mds_strided_rows all = {0, n, n, 1},
                                  other = {block ? 0 : LAST, 3, 3, 1};
    struct mds_rank_file_reader *r;
    struct mds_rank_file_workers workers;
    char text[96];

    snprintf(text, sizeof text,
             "b.h5: /weight/big is damaged: the checksum of its elements from %d on",
             (int)block);
    workers = hire(alone);
    r = open_spoilt(element, workers);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mds_rank_file_read(r, "/weight/big", &other, out, &other),
                         MDS_OK);
        assert_fails(mds_rank_file_read(r, "/weight/big", &all, out, &all), MDS_EUSER,
                     text);
        assert_fails(mds_rank_file_verify(r, "/weight/big", n), MDS_EUSER, text);
    }
    assert_int_equal(mds_rank_file_verify(r, "/adam_m/big", n), MDS_OK);
    mds_rank_file_close(r);
    dismiss(workers);
}

static void test_damage(void **state)
{
    const int64_t places[] = {0, MDS_RANK_FILE_BLOCK + 5, ROWS * COLS - 1};
    float *out = malloc(ROWS * COLS * sizeof *out);

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int alone = 0; alone < 2; alone++)
            check_spoilt(places[i], alone, out);
    free(out);
}

/* Rows that follow each other, from the middle of one on, into rows with a gap. */
static void check_rows(struct mds_rank_file_reader *r, float *out)
{
    enum { GAP = COLS + 3, LEFT = ROWS - 1 };
    const struct mds_strided_rows from = {500, COLS, COLS, LEFT},
                                  to = {1, COLS, GAP, LEFT};
    const struct mds_strided_rows close = {1, COLS, COLS, LEFT};

    assert_int_equal(mds_rank_file_read(r, "/weight/big", &from, out, &to), MDS_OK);
    for (int i = 0; i < LEFT; i++)
        for (int k = 0; k < COLS; k++)
            assert_true(out[1 + GAP * i + k] == (float)(500 + COLS * i + k));
    assert_int_equal(mds_rank_file_read(r, "/adam_m/big", &from, out, &close), MDS_OK);
    for (int i = 0; i < LEFT * COLS; i++)
        assert_true(out[1 + i] == (float)(500 + i) + 0.5f);
}

/* From the disk, and from the page cache; and where the file has been cut since. */
static void test_in_order(void **state)
{
    const struct mds_strided_rows begin = {0, 9, 9, 1}, rest = {9, 600000, 600000, 1};
    float *out = malloc(ROWS * (COLS + 3) * sizeof *out);

    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct mds_rank_file_workers workers = hire(alone);
        struct mds_rank_file_reader *r = open_spoilt(-1, workers);

        check_rows(r, out);
        mds_rank_file_close(r);
        r = open_spoilt(-1, workers);
        assert_int_equal(truncate("b.h5", place_of_big("b.h5") + 1500001), 0);
        assert_int_equal(mds_rank_file_read(r, "/weight/big", &begin, out, &begin),
                         MDS_OK);
        assert_fails(mds_rank_file_read(r, "/weight/big", &rest, out, &rest), MDS_EUSER,
                     "b.h5: cannot be read: the file is too short");
        mds_rank_file_close(r);
        dismiss(workers);
    }
    free(out);
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

/* ---- the index ---- */

/* Of registry's parameters, as two ranks would have them: rows 0 to 399 of `big` and
 * all of `small`, and the other rows. */
static struct mds_ckpt_index *make_index(void)
{
    const struct mds_ckpt_part parts[] = {
        {.tensor = 0, .file = 0, .rows = 400, .cols = COLS},
        {.tensor = 0, .file = 1, .row = 400, .rows = ROWS - 400, .cols = COLS},
        {.tensor = 1, .file = 0, .rows = 5, .cols = 1}};
    struct mds_params *ps = registry();
    struct mds_ckpt_index *ix;

    assert_int_equal(mds_ckpt_index_begin("i", ps, 2, &ix), MDS_OK);
    ix->part = malloc(sizeof parts);
    memcpy(ix->part, parts, sizeof parts);
    ix->parts = 3;
    ix->bytes[0] = ix->bytes[1] = 1;
    ix->state = (struct mds_ckpt_state){
        .iteration = 7, .loss_scale = 1, .vocab = 5, .padded_vocab = 8};
    mds_params_destroy(ps);
    return ix;
}

/* Write it and read it. */
static enum mds_rc write_and_read(struct mds_ckpt_index *ix)
{
    struct mds_ckpt_index *back;
    enum mds_rc rc;

    assert_true(mkdir("i", 0777) == 0 || access("i", F_OK) == 0);
    assert_int_equal(mds_ckpt_index_sort_parts(ix), MDS_OK);
    assert_int_equal(mds_ckpt_index_write(ix, "i", "c", "p", NULL), MDS_OK);
    mds_ckpt_index_destroy(ix);
    rc = mds_ckpt_index_read("i", &back);
    if (!rc)
        mds_ckpt_index_destroy(back);
    return rc;
}

/* What was changed is refused where the index is read, so by verify, too. */
static void test_index_numbers(void **state)
{
    struct mds_ckpt_index *ix = make_index();

    (void)state;
    assert_int_equal(write_and_read(ix), MDS_OK);
    ix = make_index();
    ix->state.scale_left = -1; /* older versions counted on */
    assert_int_equal(write_and_read(ix), MDS_OK);
    ix = make_index();
    ix->state.samples = -1;
    assert_fails(write_and_read(ix), MDS_EUSER,
                 "i/index.h5: samples -1 must be from 0");
    ix = make_index();
    ix->state.updates = INT64_MAX;
    assert_fails(write_and_read(ix), MDS_EUSER, "updates 9223372036854775807 must be");
    ix = make_index();
    ix->state.scale_dynamic = 2;
    assert_fails(write_and_read(ix), MDS_EUSER, "scale_dynamic 2 must be from 0 to 1");
    ix = make_index();
    ix->state.loss_scale = 0;
    assert_fails(write_and_read(ix), MDS_EUSER, "loss_scale 0 must be above 0");
    ix = make_index();
    ix->state.vocab = 9;
    assert_fails(write_and_read(ix), MDS_EUSER, "vocab 9 is above padded_vocab 8");
}

/* As many elements as the tensor has, but some twice, or out of a wrong place. */
static void test_index_parts(void **state)
{
    struct mds_ckpt_index *ix = make_index();

    (void)state;
    ix->part[1].row = 399;
    assert_fails(write_and_read(ix), MDS_EUSER, "the parts of big are inconsistent");
    ix = make_index();
    ix->part[1].at = 1;
    assert_fails(write_and_read(ix), MDS_EUSER, "the parts of big are inconsistent");
    ix = make_index();
    ix->part[2].at = INT64_MAX;
    assert_fails(write_and_read(ix), MDS_EUSER, "the parts of small are inconsistent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),         cmocka_unit_test(test_meet),
        cmocka_unit_test(test_rank_file),     cmocka_unit_test(test_damage),
        cmocka_unit_test(test_in_order),      cmocka_unit_test(test_tables),
        cmocka_unit_test(test_index_numbers), cmocka_unit_test(test_index_parts),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
