/* SPDX-License-Identifier: BSD-3-Clause */
/* optim: states in a file.  The program's own pread and pwrite are linked in place of
 * libc's: they can be slow, wait, and fail. */
#include "zero_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

enum { UNITS = 6, ROOM = 5 * ZERO_STAGING_ELEMENTS };

/* Less than a piece, several, one exactly. */
static const int64_t counts[UNITS] = {
    1000, 5 * ZERO_STAGING_ELEMENTS / 2 + 7, 700000, 500, ZERO_STAGING_ELEMENTS, 10};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int64_t own, closed; /* elements from `closed` on, of `own`, wait; 0: none */
    int late;            /* transfers take a while, writing longer */
    int calls;
    int fails, write, error; /* at the fails-th call of its kind; 0: none */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

ssize_t __real_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at);

/* 0, or what errno shall be. */
static int at_disk(int write, off_t at)
{
    int error = 0, call;

    pthread_mutex_lock(&disk.lock);
    call = disk.calls++;
    while (disk.closed && at / (off_t)sizeof(float) % disk.own >= disk.closed)
        pthread_cond_wait(&disk.change, &disk.lock);
    if (disk.fails && disk.write == write && --disk.fails == 0)
        error = disk.error;
    pthread_mutex_unlock(&disk.lock);
    if (disk.late)
        usleep(write ? 2000 : (useconds_t)(call % 3 * 400));
    return error;
}

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
    errno = at_disk(0, at);
    return errno ? -1 : __real_pread(fd, buf, n, at);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    errno = at_disk(1, at);
    return errno ? -1 : __real_pwrite(fd, buf, n, at);
}

static void open_gate(void)
{
    pthread_mutex_lock(&disk.lock);
    disk.closed = 0;
    pthread_cond_broadcast(&disk.change);
    pthread_mutex_unlock(&disk.lock);
}

static void open_fixture(struct fixture *f, enum mdsk_dtype dtype,
                         enum mds_place_kind place)
{
    struct mds_zero_spec spec;
    int id;

    open_parts(f, "cpu", 1 << 26, dtype, 0, 1);
    for (int u = 0; u < UNITS; u++) {
        struct mds_param_spec s = {.rows = counts[u], .decay = u % 2};

        snprintf(s.name, sizeof s.name, "u%d", u);
        assert_int_equal(mds_params_add_unit(f->ps, "unit", &id), MDS_OK);
        assert_int_equal(mds_params_add(f->ps, &s, &id), MDS_OK);
    }
    spec = spec_of(f, 0);
    spec.optimizer = place;
    assert_int_equal(mds_zero_create(&spec, &f->arena, &f->z), MDS_OK);
    assert_int_equal(mds_zero_init_weights(f->z, 1), MDS_OK);
}

static enum mds_rc use(struct fixture *f, int unit)
{
    MDS_TRY(mds_params_acquire(f->ps, unit));
    return mds_params_release(f->ps, unit);
}

/* A step's forward and backward passes, and the update. */
static enum mds_rc step(struct fixture *f, int number)
{
    mds_zero_step_begin(f->z);
    for (int u = 0; u < UNITS; u++)
        MDS_TRY(use(f, u));
    mds_zero_pass_begin(f->z, 1);
    for (int u = UNITS - 1; u >= 0; u--) {
        float *g;

        MDS_TRY(mds_params_acquire(f->ps, u));
        MDS_TRY(mds_params_grad_begin(f->ps, u));
        g = mds_param_grad(f->ps, u);
        for (int64_t i = 0; i < counts[u]; i++)
            g[i] = (float)((i * 37 + u + number) % 11) - 5;
        MDS_TRY(mds_params_grad_ready(f->ps, u));
        MDS_TRY(mds_params_release(f->ps, u));
    }
    MDS_TRY(mds_zero_finish(f->z));
    return mds_zero_update(f->z, 0.01, 1);
}

/* Three steps; what states are afterwards, and between them one that was written last.
 */
static float *states_of(enum mdsk_dtype dtype, enum mds_place_kind place)
{
    static const enum mds_zero_what what[] = {MDS_ZERO_WEIGHT, MDS_ZERO_M, MDS_ZERO_V};
    struct fixture f;
    float *out, *at;

    out = calloc(4 * ROOM, sizeof *out);
    open_fixture(&f, dtype, place);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(step(&f, i), MDS_OK);
        if (i == 1)
            assert_int_equal(mds_zero_read(f.z, MDS_ZERO_V, UNITS - 1, out + 3 * ROOM),
                             MDS_OK);
    }
    at = out;
    for (int k = 0; k < 3; k++)
        for (int u = 0; u < UNITS; u++) {
            assert_int_equal(mds_zero_read(f.z, what[k], u, at), MDS_OK);
            at += mds_params_unit(f.ps, u)->count;
        }
    close_fixture(&f);
    return out;
}

/* However late the disk is: what states in memory become, to the bit. */
static void a_file_gives_the_same_results_as_memory(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        enum mdsk_dtype dtype = half ? MDSK_BF16 : MDSK_F32;
        float *want = states_of(dtype, MDS_PLACE_CPU), *got;

        for (disk.late = 0; disk.late < 2; disk.late++) {
            got = states_of(dtype, MDS_PLACE_NVME);
            assert_memory_equal(want, got, 4 * ROOM * sizeof *want);
            free(got);
        }
        disk.late = 0;
        free(want);
    }
}

/* Forward goes on with the units that are done while the disk is at the others. */
static void the_update_runs_in_the_background(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, MDSK_BF16, MDS_PLACE_NVME);
    assert_int_equal(step(&f, 0), MDS_OK);
    assert_int_equal(use(&f, UNITS - 1), MDS_OK);
    assert_int_equal(mds_states_wait(&f.z->states), MDS_OK);
    for (int u = UNITS - 2; u > 0; u--) {
        disk.own = f.z->parts.own;
        disk.closed = f.z->parts.shard[u].at;
        alarm(30); /* who waits for the disk waits for ever */
        assert_int_equal(step(&f, u), MDS_OK);
        for (int k = 0; k < u; k++)
            assert_int_equal(use(&f, k), MDS_OK);
        open_gate();
        assert_int_equal(use(&f, UNITS - 1), MDS_OK);
        alarm(0);
        assert_int_equal(mds_states_wait(&f.z->states), MDS_OK);
    }
    close_fixture(&f);
}

/* Whichever transfer it is, a step or the next one fails with the disk's own words, and
 * everything can be left in order. */
static void a_failing_disk_is_reported(void **state)
{
    (void)state;
    for (int write = 0; write < 2; write++)
        for (int call = 1; call < 26; call += 4) {
            enum mds_rc rc = MDS_OK;
            struct fixture f;

            open_fixture(&f, MDSK_BF16, MDS_PLACE_NVME);
            disk.write = write;
            disk.fails = call;
            disk.error = write ? ENOSPC : EIO;
            for (int i = 0; !rc && i < 3; i++)
                rc = step(&f, i);
            assert_fails(
                rc, MDS_EIO,
                write ? "No space left on device; choose a folder on a larger disk"
                      : "Input/output error");
            assert_int_equal(disk.fails, 0);
            close_fixture(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gives_the_same_results_as_memory),
        cmocka_unit_test(the_update_runs_in_the_background),
        cmocka_unit_test(a_failing_disk_is_reported),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
