/* SPDX-License-Identifier: BSD-3-Clause */
/* device: the cuda device without a GPU, on a runtime that does all as late as it may.
 */
#include "base/status.h"
#include "device/arena.h"
#include "device/device.h"
#include "device/profile.h"
#include "kernels/cuda/cuda.h"
#include "kernels/library.h"
#include "tests/unit/fake_cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- what cuda.c takes from kernels/cuda ---- */

static int repeatable, open_fails;
static double hot_after_s;

int mdsk_cuda_open(void)
{
    static const char *const names[] = {"no_such_call", NULL};

    return open_fails ? mdsk_library_open(NULL, names, NULL) : 0;
}

const struct mdsk_table *mdsk_cuda(void)
{
    return mdsk_cpu();
}

int mdsk_cuda_has_kernels(void)
{
    return fake_cuda.has_kernels;
}

const char *mdsk_cuda_error_text(void)
{
    return "";
}

void mdsk_cuda_set_repeatable(int on)
{
    repeatable = on;
}

void mdsk_cuda_set_hot_after(double seconds)
{
    hot_after_s = seconds;
}

/* ---- opening ---- */

static int start(void **state)
{
    (void)state;
    fake_cuda_start();
    unsetenv("CUDA_VISIBLE_DEVICES");
    return 0;
}

static struct mds_dev *open_gpu(int local_rank)
{
    struct mds_dev_spec spec = {.name = "cuda", .local_rank = local_rank};
    struct mds_dev *dev = NULL;

    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    return dev;
}

/* All that it took is given back. */
static void close_gpu(struct mds_dev *dev)
{
    mds_dev_destroy(dev);
    assert_int_equal(fake_cuda.streams + fake_cuda.events + fake_cuda.graphs, 0);
    assert_int_equal(fake_cuda.allocated + fake_cuda.pinned, 0);
}

static void refused(int local_rank, enum mds_rc rc, const char *words)
{
    struct mds_dev_spec spec = {.name = "cuda", .local_rank = local_rank};
    struct mds_dev *dev = NULL;

    assert_int_equal(mds_dev_create(&spec, &dev), rc);
    if (!strstr(mds_fail_text(), words))
        fail_msg("%s: does not say %s", mds_fail_text(), words);
    assert_null(dev);
    assert_int_equal(fake_cuda.streams + fake_cuda.events + fake_cuda.pinned, 0);
}

static void ranks_take_gpus_in_order(void **state)
{
    (void)state;
    fake_cuda.gpus = 4;
    for (int rank = 0; rank < 4; rank++) {
        close_gpu(open_gpu(rank));
        assert_int_equal(fake_cuda.device, rank);
    }
    refused(4, MDS_EUSER, "rank 4 of this node has no GPU: 4 found (GPU 0, GPU 1, GPU");
    /* a launcher that shows each rank its own; without that one GPU is one too few */
    fake_cuda.gpus = 1;
    refused(1, MDS_EUSER, "start one rank for each GPU");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    close_gpu(open_gpu(1));
    assert_int_equal(fake_cuda.device, 0);
}

static void unsupported_gpus_are_refused(void **state)
{
    (void)state;
    fake_cuda.gpus = 0;
    refused(0, MDS_EDEVICE, "no GPU found; use --device cpu");
    fake_cuda.count_code = cudaErrorInsufficientDriver;
    refused(0, MDS_EDEVICE, "no GPU found: the driver is too old; use --device cpu");
    assert_int_equal(mds_cuda_count(), 0);
    assert_string_equal(mds_dev_resolve("auto"), "cpu");
    fake_cuda_start();
    assert_string_equal(mds_dev_resolve("auto"), "cuda");
    fake_cuda.capability = 61;
    refused(0, MDS_EDEVICE, "GPU 0 has compute capability 6.1; 7.0 is needed");
    fake_cuda.capability = 70;
    fake_cuda.has_kernels = 0;
    refused(0, MDS_EDEVICE, "no kernels for GPU 0: configure it with CUDA_ARCHS=70");
}

static void old_gpus_have_no_fp8(void **state)
{
    struct mds_dev *dev;

    (void)state;
    fake_cuda.capability = 89;
    dev = open_gpu(0);
    assert_int_equal(mds_dev_check_fp8(dev), MDS_OK);
    close_gpu(dev);
    fake_cuda.capability = 80;
    dev = open_gpu(0);
    assert_int_equal(mds_dev_check_fp8(dev), MDS_EDEVICE);
    assert_non_null(strstr(mds_fail_text(), "capability 8.9, and this one has 8.0;"));
    close_gpu(dev);
}

/* What others have taken, and a margin for libraries, is not ours. */
static void a_library_that_does_not_open_is_named(void **state)
{
    (void)state;
    open_fails = 1;
    refused(0, MDS_EDEVICE, "no_such_call; load the CUDA module, or add");
    open_fails = 0;
    close_gpu(open_gpu(0));
}

static void memory_is_what_is_free(void **state)
{
    const int64_t gib = INT64_C(1) << 30;
    struct mds_dev_spec spec = {.name = "cuda", .memory_bytes = gib};
    struct mds_dev *dev;
    void *p = NULL;

    (void)state;
    fake_cuda.memory_left = (size_t)(3 * gib);
    dev = open_gpu(0);
    assert_int_equal(mds_dev_memory_bytes(dev), 2 * gib);
    assert_int_equal(mds_dev_alloc(dev, 2 * gib + 1, &p), MDS_EMEM);
    close_gpu(dev);
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_int_equal(mds_dev_memory_bytes(dev), gib);
    close_gpu(dev);
    fake_cuda.memory_left = (size_t)gib / 2;
    dev = open_gpu(0);
    assert_int_equal(mds_dev_memory_bytes(dev), 0);
    close_gpu(dev);
}

static void what_concerns_kernels_is_passed_on(void **state)
{
    struct mds_dev_spec spec = {.name = "cuda", .repeatable = 1, .hot_after_s = 60};
    struct mds_dev *dev = NULL;

    (void)state;
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_int_equal(repeatable, 1);
    assert_true(hot_after_s == 60);
    close_gpu(dev);
    close_gpu(open_gpu(0));
    assert_int_equal(repeatable, 0);
}

/* ---- copies ---- */

static char *take(struct mds_dev *dev, int64_t bytes)
{
    void *p = NULL;

    assert_int_equal(mds_dev_alloc(dev, bytes, &p), MDS_OK);
    return p;
}

/* Bytes that tell where they came from. */
static void fill(char *p, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++)
        p[i] = (char)(i / 251 + i + seed);
}

/* The caller may use its memory again at once, pieces of copies or not. */
static void copies_in_and_out_are_equal(void **state)
{
    enum { N = (9 << 20) + 77 };
    struct mds_dev *dev = open_gpu(0);
    char *there = take(dev, N + 4), *here = malloc(N), *back = malloc(N + 4);
    char want[] = {0, 0, 1, 2};

    (void)state;
    fill(here, N, 5);
    mds_dev_copy_in(dev, there, here, N);
    memset(here, 0, N);
    for (char i = 0; i < 4; i++)
        mds_dev_copy_in(dev, there + N + i, &i, 1);
    mds_dev_zero(dev, there + N, 1);
    mds_dev_copy(dev, there + N + 1, there + N, 1);
    want[2] = 2;
    want[3] = 3;
    assert_int_equal(mds_dev_copy_out(dev, back, there, N + 4), MDS_OK);
    fill(here, N, 5);
    assert_memory_equal(back, here, N);
    assert_memory_equal(back + N, want, 4);
    assert_true(mds_dev_owns(dev, there + 1));
    assert_false(mds_dev_owns(dev, back));
    free(here);
    free(back);
    mds_dev_free(dev, there, N + 4);
    close_gpu(dev);
}

/* Memory is zeroed before anything that is queued later. */
static void memory_is_zeroed(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    char *p = take(dev, 64), back[64], zeros[64] = {0};

    (void)state;
    assert_int_equal(mds_dev_copy_out(dev, back, p, 64), MDS_OK);
    assert_memory_equal(back, zeros, 64);
    mds_dev_free(dev, p, 64);
    close_gpu(dev);
}

/* A copy beside the queue begins behind what is queued, and what is queued behind a
 * meeting begins behind the copy; also of many more copies than there are events. */
static void asynchronous_copies_keep_their_order(void **state)
{
    enum { N = 64, TIMES = 100 };
    struct mds_dev *dev = open_gpu(0);
    char *a = take(dev, N), *b = take(dev, N), host[TIMES][N], want[N], back[N];
    struct mds_dev_async_copy save[TIMES], last;

    (void)state;
    for (int i = 0; i < TIMES; i++) {
        fill(want, N, i);
        mds_dev_copy_in(dev, a, want, N);
        save[i] = mds_dev_offload_start(dev, host[i], a, N);
        mds_dev_wait_copy(dev, save[i]); /* a will be written again */
    }
    mds_dev_wait_copy(dev, save[3]); /* long over: no harm */
    while (!mds_dev_copy_done(dev, save[TIMES - 1]))
        ;
    for (int i = 0; i < TIMES; i++) {
        fill(want, N, i);
        assert_memory_equal(host[i], want, N);
        assert_true(mds_dev_copy_done(dev, save[i]));
    }
    last = mds_dev_reload_start(dev, b, host[7], N);
    assert_false(mds_dev_copy_done(dev, last));
    mds_dev_wait_copy(dev, last);
    assert_int_equal(mds_dev_copy_out(dev, back, b, N), MDS_OK);
    fill(want, N, 7);
    assert_memory_equal(back, want, N);
    assert_true(mds_dev_copy_done(dev, (struct mds_dev_async_copy){0}));
    mds_dev_free(dev, a, N);
    mds_dev_free(dev, b, N);
    close_gpu(dev);
}

/* ---- failures ---- */

static int looks;

static enum mds_rc watch(void)
{
    return ++looks < 2 ? MDS_OK : mds_fail(MDS_ECOMM, "a peer is gone");
}

/* What went wrong first is said, at the next wait and ever after. */
static void the_first_failure_is_reported(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    char *p = take(dev, 8), back[8] = {0};

    (void)state;
    mds_dev_copy_in(dev, p, "7654321", 8);
    assert_int_equal(mds_dev_wait(dev), MDS_OK);
    fake_cuda.fault = cudaErrorIllegalAddress;
    mds_dev_copy_in(dev, p, "7654321", 8);
    assert_int_equal(mds_dev_copy_out(dev, back, p, 8), MDS_EDEVICE);
    assert_non_null(strstr(mds_fail_text(), "an earlier operation: a fault"));
    mds_dev_free(dev, back, 8); /* nor is that the device's */
    assert_int_equal(mds_dev_wait(dev), MDS_EDEVICE);
    assert_non_null(strstr(mds_fail_text(), "an earlier operation: a fault"));
    fake_cuda.fault = cudaSuccess;
    mds_dev_free(dev, p, 8);
    close_gpu(dev);
}

static void later_failures_are_not(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    char *p = take(dev, 8), none[8];

    (void)state;
    mds_dev_free(dev, none, 8);
    fake_cuda.fault = cudaErrorIllegalAddress;
    mds_dev_copy_in(dev, p, "7654321", 8);
    assert_int_equal(mds_dev_wait(dev), MDS_EDEVICE);
    assert_non_null(strstr(mds_fail_text(), "cudaFree: a fault"));
    mds_dev_free(dev, p, 8);
    close_gpu(dev);
}

/* Who waits for the device hears of a peer that is gone. */
static void a_wait_is_watched(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    char *p = take(dev, 8), back[8];

    (void)state;
    mds_dev_set_watch(dev, watch);
    mds_dev_zero(dev, p, 8);
    fake_cuda.stuck = 1;
    looks = 0;
    assert_int_equal(mds_dev_wait(dev), MDS_ECOMM);
    assert_int_equal(looks, 2);
    assert_non_null(strstr(mds_fail_text(), "a peer is gone"));
    looks = 0;
    assert_int_equal(mds_dev_copy_out(dev, back, p, 8), MDS_ECOMM);
    assert_int_equal(looks, 2);
    fake_cuda.stuck = 0;
    mds_dev_set_watch(dev, NULL);
    assert_int_equal(mds_dev_wait(dev), MDS_ECOMM);
    assert_non_null(strstr(mds_fail_text(), "a peer is gone"));
    mds_dev_free(dev, p, 8);
    close_gpu(dev);
}

/* So does who waits for its turn to copy; those behind do not wait again, and the next
 * wait says why. */
static void a_copy_in_is_watched(void **state)
{
    enum { MORE_THAN_TURNS = 16 };
    struct mds_dev *dev = open_gpu(0);
    char *p = take(dev, 8), back[8];

    (void)state;
    mds_dev_set_watch(dev, watch);
    mds_dev_copy_in(dev, p, "in time", 8);
    fake_cuda.stuck = 1;
    looks = 0;
    for (int i = 0; i < MORE_THAN_TURNS; i++)
        mds_dev_copy_in(dev, p, "in time", 8);
    assert_int_equal(looks, 2);
    mds_dev_set_watch(dev, NULL);
    fake_cuda.stuck = 0;
    mds_dev_copy_in(dev, p, "no more", 8);
    assert_int_equal(mds_dev_wait(dev), MDS_ECOMM);
    assert_non_null(strstr(mds_fail_text(), "a peer is gone"));
    assert_int_equal(mds_dev_copy_out(dev, back, p, 8), MDS_ECOMM);
    mds_dev_free(dev, p, 8);
    close_gpu(dev);
}

/* So does who queues more than CUDA takes, which would keep it there. */
static void a_long_queue_is_watched(void **state)
{
    enum { FEW = 250, MANY = 400 };
    struct mds_dev *dev = open_gpu(0);
    char *p = take(dev, 8);

    (void)state;
    assert_int_equal(mds_dev_wait(dev), MDS_OK);
    mds_dev_set_watch(dev, watch);
    fake_cuda.stuck = 1;
    looks = 0;
    for (int i = 0; i < FEW; i++)
        mds_dev_zero(dev, p, 8);
    assert_int_equal(looks, 0);
    for (int i = FEW; i < MANY; i++)
        mds_dev_zero(dev, p, 8);
    assert_int_equal(looks, 2);
    mds_dev_set_watch(dev, NULL);
    fake_cuda.stuck = 0;
    assert_int_equal(mds_dev_wait(dev), MDS_ECOMM);
    assert_non_null(strstr(mds_fail_text(), "a peer is gone"));
    mds_dev_free(dev, p, 8);
    close_gpu(dev);
}

/* ---- the profile, and memory beside ---- */

static void a_profile_is_of_events(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    struct mds_profile *p = NULL;
    char *x = take(dev, 64);

    (void)state;
    assert_int_equal(mds_profile_start(dev, 1), MDS_OK);
    for (int i = 0; i < 3; i++)
        mds_dev_zero(dev, x, 64);
    mds_profile_step(dev);
    assert_int_equal(mds_profile_stop(dev, &p), MDS_OK);
    assert_int_equal(p->rows, 1);
    assert_int_equal(p->row[0].calls, 3);
    assert_float_equal(p->row[0].s, 3e-3, 1e-9);
    mds_profile_destroy(p);
    mds_dev_free(dev, x, 64);
    close_gpu(dev);
}

static enum mds_rc let_go(void)
{
    fake_cuda.stuck = 0;
    return MDS_OK;
}

/* As those for the end of all that is queued; so has it those of a long queue. */
static void a_profile_has_waits_for_a_turn(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    struct mds_profile *p = NULL;
    char *x = take(dev, 64);

    (void)state;
    mds_dev_set_watch(dev, let_go);
    assert_int_equal(mds_profile_start(dev, 1), MDS_OK);
    fake_cuda.stuck = 1;
    for (int i = 0; i < 8; i++)
        mds_dev_copy_in(dev, x, "in time", 8);
    assert_int_equal(fake_cuda.stuck, 0);
    mds_profile_step(dev);
    assert_int_equal(mds_profile_stop(dev, &p), MDS_OK);
    assert_true(p->step[0].host_s > 0.09); /* a watch is called each 0.1 s */
    mds_profile_destroy(p);
    mds_dev_free(dev, x, 64);
    close_gpu(dev);
}

/* What is recorded does not run until it is replayed, and then each time; a long one,
 * too, whose queue is not asked how far it is. */
static void a_recording_is_replayed(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    char *x = take(dev, 16), *y = take(dev, 16), back[16] = "";
    void *recording = NULL;

    (void)state;
    assert_true(mds_dev_can_record(dev));
    mds_dev_copy_in(dev, x, "one", 4);
    mds_dev_copy_in(dev, y, "none", 5);
    assert_int_equal(mds_dev_record(dev), MDS_OK);
    mds_dev_copy(dev, y, x, 16);
    for (int i = 0; i < 300; i++)
        mds_dev_zero(dev, x + 15, 1);
    assert_int_equal(mds_dev_recorded(dev, &recording), MDS_OK);
    assert_int_equal(mds_dev_copy_out(dev, back, y, 16), MDS_OK);
    assert_string_equal(back, "none");
    mds_dev_replay(dev, recording);
    assert_int_equal(mds_dev_copy_out(dev, back, y, 16), MDS_OK);
    assert_string_equal(back, "one");
    mds_dev_copy_in(dev, x, "two", 4);
    mds_dev_replay(dev, recording);
    assert_int_equal(mds_dev_copy_out(dev, back, y, 16), MDS_OK);
    assert_string_equal(back, "two");
    mds_dev_free_recording(dev, recording);
    mds_dev_free(dev, x, 16);
    mds_dev_free(dev, y, 16);
    close_gpu(dev);
}

/* Whoever profiles wants to see the operations. */
static void a_profile_is_of_no_recording(void **state)
{
    struct mds_dev *dev = open_gpu(0);
    struct mds_profile *p = NULL;

    (void)state;
    assert_int_equal(mds_profile_start(dev, 1), MDS_OK);
    assert_false(mds_dev_can_record(dev));
    mds_profile_step(dev);
    assert_int_equal(mds_profile_stop(dev, &p), MDS_OK);
    assert_true(mds_dev_can_record(dev));
    mds_profile_destroy(p);
    close_gpu(dev);
}

static void pinned_memory_is_host_memory(void **state)
{
    struct mds_dev_spec spec = {.name = "cuda", .host_side = 1};
    struct mds_dev *dev = NULL;
    char *p, back[4];

    (void)state;
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_string_equal(mds_dev_name(dev), "pinned");
    p = take(dev, 4);
    assert_int_equal(fake_cuda.pinned, 1);
    assert_int_equal(p[3], 0);
    mds_dev_copy_in(dev, p, "abc", 4);
    assert_int_equal(mds_dev_copy_out(dev, back, p, 4), MDS_OK);
    assert_string_equal(back, "abc");
    mds_dev_free(dev, p, 4);
    close_gpu(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranks_take_gpus_in_order, start),
        cmocka_unit_test_setup(unsupported_gpus_are_refused, start),
        cmocka_unit_test_setup(old_gpus_have_no_fp8, start),
        cmocka_unit_test_setup(a_library_that_does_not_open_is_named, start),
        cmocka_unit_test_setup(memory_is_what_is_free, start),
        cmocka_unit_test_setup(what_concerns_kernels_is_passed_on, start),
        cmocka_unit_test_setup(copies_in_and_out_are_equal, start),
        cmocka_unit_test_setup(memory_is_zeroed, start),
        cmocka_unit_test_setup(asynchronous_copies_keep_their_order, start),
        cmocka_unit_test_setup(the_first_failure_is_reported, start),
        cmocka_unit_test_setup(later_failures_are_not, start),
        cmocka_unit_test_setup(a_wait_is_watched, start),
        cmocka_unit_test_setup(a_copy_in_is_watched, start),
        cmocka_unit_test_setup(a_long_queue_is_watched, start),
        cmocka_unit_test_setup(a_profile_is_of_events, start),
        cmocka_unit_test_setup(a_profile_has_waits_for_a_turn, start),
        cmocka_unit_test_setup(a_recording_is_replayed, start),
        cmocka_unit_test_setup(a_profile_is_of_no_recording, start),
        cmocka_unit_test_setup(pinned_memory_is_host_memory, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
