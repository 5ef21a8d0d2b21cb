/* SPDX-License-Identifier: BSD-3-Clause */
/* io: helper threads and scratch files. */
#include "scratch.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "io/scratch_file.h"
#include "io/worker.h"

/* ---- workers ---- */

struct count {
    struct mds_task job;
    atomic_int *next;
    int turn; /* when it ran */
    int signals;
};

static void note_turn(struct mds_task *job)
{
    struct count *c = (struct count *)job;
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    c->signals = !sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGUSR1);
    c->turn = atomic_fetch_add(c->next, 1);
}

static void one_thread_keeps_the_order(void **state)
{
    enum { JOBS = 200 };
    static struct count c[JOBS];
    struct mds_worker *w = NULL;
    struct mds_task idle = {0};
    sigset_t mine;
    atomic_int next = 0;

    (void)state;
    assert_int_equal(mds_worker_create(1, &w), MDS_OK);
    mds_worker_wait(w, &idle);
    for (int i = 0; i < JOBS; i++) {
        c[i] = (struct count){.job.run = note_turn, .next = &next, .turn = -1};
        mds_worker_start(w, &c[i].job);
    }
    mds_worker_wait(w, &c[JOBS - 1].job);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(c[i].turn, i);
        assert_false(c[i].signals);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGTERM));
    mds_worker_destroy(w);
}

static void destroy_does_what_was_started(void **state)
{
    enum { JOBS = 50 };
    struct count c[JOBS];
    struct mds_worker *w = NULL;
    atomic_int next = 0;

    (void)state;
    assert_int_equal(mds_worker_create(3, &w), MDS_OK);
    for (int i = 0; i < JOBS; i++) {
        c[i] = (struct count){.job.run = note_turn, .next = &next};
        mds_worker_start(w, &c[i].job);
    }
    mds_worker_destroy(w);
    assert_int_equal(next, JOBS);
    mds_worker_destroy(NULL);
}

/* ---- scratch files ---- */

static int files_here(void)
{
    DIR *d = opendir(".");
    int n = 0;

    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void what_is_written_is_read(void **state)
{
    enum { BLOCKS = 40, BLOCK = 70001 };
    static unsigned char out[BLOCKS][BLOCK], in[BLOCKS][BLOCK];
    static struct mds_scratch_request req[BLOCKS];
    struct mds_scratch_file *s = NULL;

    (void)state;
    assert_int_equal(mds_scratch_file_create(".", BLOCKS * BLOCK, &s), MDS_OK);
    assert_int_equal(files_here(), 0);
    memset(in, 1, sizeof in);
    mds_scratch_read_start(s, 0, in, sizeof in, &req[0]);
    assert_int_equal(mds_scratch_wait(&req[0]), MDS_OK);
    for (size_t i = 0; i < sizeof in; i++)
        assert_int_equal(((unsigned char *)in)[i], 0);
    for (int b = 0; b < BLOCKS; b++) {
        memset(out[b], b + 1, BLOCK);
        mds_scratch_write_start(s, (int64_t)b * BLOCK, out[b], BLOCK, &req[b]);
    }
    for (int b = 0; b < BLOCKS; b++)
        assert_int_equal(mds_scratch_wait(&req[b]), MDS_OK);
    for (int b = BLOCKS - 1; b >= 0; b--)
        mds_scratch_read_start(s, (int64_t)b * BLOCK, in[b], BLOCK, &req[b]);
    for (int b = 0; b < BLOCKS; b++)
        assert_int_equal(mds_scratch_wait(&req[b]), MDS_OK);
    assert_memory_equal(in, out, sizeof in);
    mds_scratch_file_destroy(s);
}

static void transfers_that_fail_say_so_once(void **state)
{
    struct mds_scratch_request req = {0};
    struct mds_scratch_file *s = NULL;
    char buf[64];

    (void)state;
    assert_int_equal(mds_scratch_wait(&req), MDS_OK);
    assert_int_equal(mds_scratch_file_create(".", 32, &s), MDS_OK);
    mds_scratch_read_start(s, 0, buf, 64, &req);
    assert_fails(mds_scratch_wait(&req), MDS_EIO, ".: reading of 64 bytes at 0");
    assert_int_equal(mds_scratch_wait(&req), MDS_OK);
    mds_scratch_write_start(s, -5, buf, 64, &req);
    assert_fails(mds_scratch_wait(&req), MDS_EIO, ".: writing of 64 bytes at -5");
    mds_scratch_file_destroy(s);
    mds_scratch_file_destroy(NULL);
}

static void folders_that_will_not_do(void **state)
{
    struct mds_scratch_file *s = NULL;

    (void)state;
    assert_fails(mds_scratch_file_create("./nowhere", 1, &s), MDS_EUSER,
                 "./nowhere: cannot create a file there: No such file");
    write_file("file", "x", 1);
    assert_fails(mds_scratch_file_create("file", 1, &s), MDS_EUSER,
                 "file: cannot create a file");
    unlink("file");
    assert_fails(mds_scratch_file_create(".", INT64_C(1) << 58, &s), MDS_EUSER,
                 ".: not enough space for");
    assert_null(s);
    assert_int_equal(files_here(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_keeps_the_order),
        cmocka_unit_test(destroy_does_what_was_started),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(transfers_that_fail_say_so_once),
        cmocka_unit_test(folders_that_will_not_do),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
