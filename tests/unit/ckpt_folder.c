/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of a run's checkpoints. */
#include "base/host.h"
#include "ckpt/folder.h"
#include "ckpt/folder_lock.h"
#include "scratch.h"

#include <sys/stat.h>

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

static int64_t to_come(int64_t keep_last, int64_t saves)
{
    int64_t more;

    assert_int_equal(mds_ckpt_count_to_store("c", keep_last, saves, &more), MDS_OK);
    return more;
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
    assert_int_equal(mds_ckpt_previous("c", 1000, &n), MDS_OK);
    assert_int_equal(n, 100);
    assert_int_equal(mds_ckpt_list("c", &list, &n), MDS_OK);
    assert_int_equal(n, 8);
    assert_int_equal(list[1], 10);
    free(list);
    assert_int_equal(to_come(0, 5), 5);  /* all stay */
    assert_int_equal(to_come(3, 5), 1);  /* one goes for each that comes */
    assert_int_equal(to_come(11, 5), 4); /* 8 are there */
    assert_int_equal(to_come(11, 2), 2);
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

/* `latest` or `good` with other contents, or none, as a crash can leave them. */
static void test_damaged_pointers(void **state)
{
    static const char *const contents[] = {"../../etc/passwd\n", "", "\0\0\0", "iter_"};
    int64_t n;

    (void)state;
    assert_int_equal(mds_ckpt_prepare("d"), MDS_OK);
    assert_int_equal(mkdir("d/iter_0000003", 0777), 0);
    assert_int_equal(mkdir("d/iter_0000007", 0777), 0);
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        write_file("d/latest", contents[i], strlen(contents[i]));
        write_file("d/good", contents[i], strlen(contents[i]));
        assert_int_equal(mds_ckpt_latest("d", &n), MDS_OK);
        assert_int_equal(n, 7);
        assert_int_equal(good_of("d"), -1);
    }
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

/* A new file takes the place of the lock of a host that is given up. */
static void test_lock_is_lost(void **state)
{
    char host[MDS_HOST_SIZE];

    (void)state;
    mds_host_name(host);
    assert_int_equal(mds_ckpt_prepare("b"), MDS_OK);
    assert_int_equal(mds_ckpt_break_lock("b", "another.host"), MDS_OK);
    assert_int_equal(mds_ckpt_begin("b", 1), MDS_OK);
    assert_int_equal(mds_ckpt_break_lock("none", host), MDS_OK);
    assert_int_equal(mds_ckpt_break_lock("b", host), MDS_OK);
    assert_fails(mds_ckpt_commit("b", 1), MDS_ECOMM, "another run saves there now");
    assert_fails(mds_ckpt_begin("b", 2), MDS_ECOMM, "b: another run saves there now");
    assert_int_equal(mds_ckpt_prepare("b"), MDS_OK); /* who comes next */
    assert_int_equal(mds_ckpt_begin("b", 1), MDS_OK);
    assert_int_equal(mds_ckpt_commit("b", 1), MDS_OK);
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
        cmocka_unit_test(test_folder),         cmocka_unit_test(test_good),
        cmocka_unit_test(test_abandon),        cmocka_unit_test(test_damaged_pointers),
        cmocka_unit_test(test_links),          cmocka_unit_test(test_strange),
        cmocka_unit_test(test_lock_is_a_link), cmocka_unit_test(test_lock_is_lost),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
