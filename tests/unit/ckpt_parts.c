/* Parts of tensors, ranks' files, tables, and the folder of checkpoints. */
#include "ckpt/folder.h"
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
        assert_int_equal(mds_worker_create(3, &w.around), MDS_OK);
    return w;
}

static void dismiss(struct mds_rank_file_workers w)
{
    mds_worker_destroy(w.around);
    mds_worker_destroy(w.cached);
}

/* Columns 990 to 992 of every row, spread out. */
static void check_runs(struct mds_rank_file_reader *r, const char *list, float plus)
{
    const struct mds_runs from = {990, 3, COLS, ROWS}, to = {1, 3, 4, ROWS};
    float out[4 * ROWS + 1] = {0};

    assert_int_equal(mds_rank_file_read(r, list, &from, out, &to), MDS_OK);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 3; k++)
            assert_true(out[1 + 4 * i + k] == (float)(990 + COLS * i + k) + plus);
}

static void test_rank_file(void **state)
{
    const struct mds_runs beyond = {3, 3, 3, 1}, to = {0, 3, 3, 1};
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
                 "6 are wanted");
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
                 "not the list");
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
    const struct mds_runs all = {0, n, n, 1}, other = {block ? 0 : LAST, 3, 3, 1};
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
    const struct mds_runs from = {500, COLS, COLS, LEFT}, to = {1, COLS, GAP, LEFT};
    const struct mds_runs close = {1, COLS, COLS, LEFT};

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
    const struct mds_runs begin = {0, 9, 9, 1}, rest = {9, 600000, 600000, 1};
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
                     "b.h5: cannot be read: it ends too early");
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
    assert_int_equal(mds_ckpt_prune("c", 2, 10000, 0, &n, &removed), MDS_OK);
    assert_int_equal(n, 9);
    assert_int_equal(removed, 4); /* 1, 10, 100, 1000 */
    assert_int_equal(latest_of("c"), 20);
    commit(20);
    assert_int_equal(unlink("c/latest"), 0);
    assert_int_equal(latest_of("c"), 10000000);
}

static int64_t good_of(const char *dir)
{
    int64_t n;

    assert_int_equal(mds_ckpt_good(dir, &n), MDS_OK);
    return n;
}

/* Beside test_folder's 10000 and 10000000, and 20. */
static void test_good(void **state)
{
    int64_t removed;

    (void)state;
    assert_int_equal(good_of("c"), -1);
    assert_int_equal(mds_ckpt_mark_good("c", 20), MDS_OK);
    assert_int_equal(good_of("c"), 20);
    commit(10000001);
    assert_int_equal(mds_ckpt_prune("c", 1, 0, 0, NULL, &removed), MDS_OK);
    assert_int_equal(good_of("c"), 20);
    assert_int_equal(access("c/iter_10000000", F_OK), -1);
    commit(20); /* another one under the name: not known to be good */
    assert_int_equal(good_of("c"), -1);
    assert_int_equal(mds_ckpt_mark_good("c", 20), MDS_OK);
    assert_int_equal(mkdir("c/iter_0000020/mine", 0777), 0);
    commit(20); /* what was there cannot be removed, but it has lost the name */
    assert_int_equal(good_of("c"), -1);
    assert_int_equal(latest_of("c"), 20);
    assert_true(rmdir("c/iter_0000020.partial/mine") == 0 ||
                rmdir("c/iter_0000020.old/mine") == 0);
    assert_int_equal(mds_ckpt_mark_good("c", 10000001), MDS_OK);
    assert_int_equal(mds_ckpt_prune("c", 1, 0, 0, NULL, NULL), MDS_OK);
    assert_int_equal(rmdir("c/iter_10000001"), 0);
    assert_int_equal(good_of("c"), -1); /* names nothing */
}

/* What a failed save left, with something in it that cannot be removed. */
static void test_abandon(void **state)
{
    (void)state;
    assert_int_equal(mds_ckpt_begin("left", 3), MDS_OK);
    assert_int_equal(mkdir("left/iter_0000003.partial/other", 0777), 0);
    mds_fail(MDS_EIO, "no space left");
    mds_ckpt_abandon("left", 3);
    assert_string_equal(mds_fail_text(), "no space left");
    assert_int_equal(rmdir("left/iter_0000003.partial/other"), 0);
    mds_ckpt_abandon("left", 3);
    assert_int_equal(access("left/iter_0000003.partial", F_OK), -1);
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

/* A folder elsewhere with a file in it, for links that point there. */
static void make_elsewhere(void)
{
    assert_true(mkdir("elsewhere", 0777) == 0 || access("elsewhere", F_OK) == 0);
    write_file("elsewhere/rank_00000.h5", "precious", 8);
}

static void assert_precious(void)
{
    char text[32];

    read_file("elsewhere/rank_00000.h5", text, sizeof text);
    assert_string_equal(text, "precious");
}

static int is_there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* Whatever is removed, or replaced, goes without what its links point to. */
static void test_links(void **state)
{
    int64_t removed;

    (void)state;
    make_elsewhere();
    assert_int_equal(mds_ckpt_prepare("l"), MDS_OK);
    assert_int_equal(symlink("../elsewhere", "l/iter_0000001"), 0);
    assert_int_equal(mkdir("l/iter_0000002", 0777), 0);
    assert_int_equal(
        symlink("../../elsewhere/rank_00000.h5", "l/iter_0000002/index.h5"), 0);
    assert_int_equal(mkdir("l/iter_0000003", 0777), 0);
    assert_int_equal(mds_ckpt_prune("l", 1, 0, 0, NULL, &removed), MDS_OK);
    assert_int_equal(removed, 2);
    assert_false(is_there("l/iter_0000001") || is_there("l/iter_0000001.partial") ||
                 is_there("l/iter_0000002") || is_there("l/iter_0000002.partial"));
    assert_precious();

    assert_int_equal(symlink("../elsewhere", "l/iter_0000004.partial"), 0);
    assert_int_equal(mds_ckpt_begin("l", 5), MDS_OK);
    assert_false(is_there("l/iter_0000004.partial"));
    assert_int_equal(symlink("../../elsewhere/rank_00000.h5",
                             "l/iter_0000005.partial/rank_00000.h5"),
                     0);
    mds_ckpt_abandon("l", 5); /* which empties files */
    assert_false(is_there("l/iter_0000005.partial"));
    assert_precious();

    assert_int_equal(symlink("../elsewhere", "l/iter_0000006"), 0);
    assert_int_equal(mds_ckpt_begin("l", 6), MDS_OK);
    assert_int_equal(mds_ckpt_commit("l", 6), MDS_OK); /* replaces the link */
    assert_int_equal(unlink("l/iter_0000006"), -1);
    assert_precious();
}

/* What no save makes stays, whole; what comes after it is still removed. */
static void test_strange(void **state)
{
    int64_t removed;

    (void)state;
    assert_int_equal(mds_ckpt_prepare("s"), MDS_OK);
    write_file("s/iter_0000001", "x", 1);
    assert_int_equal(mkdir("s/iter_0000002", 0777), 0);
    assert_int_equal(mkdir("s/iter_0000002/mine", 0777), 0);
    write_file("s/iter_0000002/index.h5", "x", 1);
    assert_int_equal(mkdir("s/iter_0000003", 0777), 0);
    assert_int_equal(mkdir("s/iter_0000004", 0777), 0);
    assert_fails(mds_ckpt_prune("s", 1, 0, 0, NULL, &removed), MDS_EUSER,
                 "s/iter_0000002/mine: a folder");
    assert_int_equal(removed, 1);
    assert_false(is_there("s/iter_0000003"));
    assert_true(is_there("s/iter_0000001") && is_there("s/iter_0000002/index.h5"));
    assert_int_equal(rmdir("s/iter_0000002/mine"), 0);
    assert_fails(mds_ckpt_prune("s", 1, 0, 0, NULL, &removed), MDS_EUSER,
                 "s/iter_0000001: neither a folder nor a link");
    assert_false(is_there("s/iter_0000002"));
}

static void test_lock_is_a_link(void **state)
{
    (void)state;
    make_elsewhere();
    assert_int_equal(mkdir("k", 0777), 0);
    assert_int_equal(symlink("../elsewhere/rank_00000.h5", "k/.lock"), 0);
    assert_fails(mds_ckpt_prepare("k"), MDS_EUSER, "k/.lock: a symbolic link");
    assert_precious();
    assert_int_equal(unlink("k/.lock"), 0);
    assert_int_equal(mkdir("k/.lock", 0777), 0);
    assert_fails(mds_ckpt_prepare("k"), MDS_EUSER, "k/.lock: not a regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),          cmocka_unit_test(test_meet),
        cmocka_unit_test(test_rank_file),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_in_order),       cmocka_unit_test(test_tables),
        cmocka_unit_test(test_folder),         cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad_latest),     cmocka_unit_test(test_abandon),
        cmocka_unit_test(test_links),          cmocka_unit_test(test_strange),
        cmocka_unit_test(test_lock_is_a_link),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
