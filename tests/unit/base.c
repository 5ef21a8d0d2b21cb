/* SPDX-License-Identifier: BSD-3-Clause */
/* base: status, log levels, strings, units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/str.h"
#include "base/stream.h"
#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

static enum mds_rc passes_on(enum mds_rc rc)
{
    MDS_TRY(rc);
    return MDS_OK;
}

static void test_fail_keeps_the_sentence(void **state)
{
    (void)state;
    assert_int_equal(mds_fail(MDS_EIO, "%s: gone", "a.h5"), MDS_EIO);
    assert_string_equal(mds_fail_text(), "a.h5: gone");
    mds_fail(MDS_EUSER, "wrapped: %s", mds_fail_text());
    assert_string_equal(mds_fail_text(), "wrapped: a.h5: gone");
    assert_int_equal(passes_on(MDS_ECOMM), MDS_ECOMM);
    assert_int_equal(passes_on(MDS_OK), MDS_OK);
}

static void test_alloc_refuses_the_impossible(void **state)
{
    void *none = NULL;
    int64_t room = 0;

    (void)state;
    assert_null(mds_zalloc(SIZE_MAX / 2, 4));
    assert_non_null(strstr(mds_fail_text(), "host memory"));
    assert_null(mds_realloc(NULL, SIZE_MAX / 2, 4));
    assert_int_equal(mds_grow(&none, (SIZE_MAX >> 1) + 1, 4), MDS_EMEM);
    assert_int_equal(mds_reserve(&none, &room, INT64_MAX, 4), MDS_EMEM);
    assert_null(none);
    assert_int_equal(room, 0);
}

static void test_arrays_grow(void **state)
{
    int *list = NULL;

    (void)state;
    for (int n = 0; n < 1000; n++) {
        assert_int_equal(mds_grow(&list, (size_t)n, sizeof *list), MDS_OK);
        list[n] = n;
    }
    for (int n = 0; n < 1000; n++)
        assert_int_equal(list[n], n);
    for (int64_t room = 1000, n = 1; n < 5000; n += 999) {
        assert_int_equal(mds_reserve(&list, &room, n, sizeof *list), MDS_OK);
        assert_in_range(room, n, 8000);
        list[n - 1] = 0;
    }
    free(list);
}

static void test_str_grows(void **state)
{
    struct mds_str b = {0};

    (void)state;
    for (int i = 0; i < 1000; i++)
        mds_str_add(&b, "%d,", i % 10);
    assert_int_equal(b.len, 2000);
    assert_int_equal(strlen(b.s), 2000);
    assert_int_equal(b.failed, 0);
    mds_str_fini(&b);
    assert_null(b.s);
}

static void test_nearest(void **state)
{
    static const char *const names[] = {"--seq-length", "--hidden-size", "--lr",
                                        "SEQ_LEN"};
    static const char *const digits[] = {"0", "all"};
    char hint[MDS_HINT_SIZE];

    (void)state;
    assert_string_equal(mds_str_nearest("--seq_lenght", names, 4), "--seq-length");
    assert_string_equal(mds_str_nearest("seq_len", names, 4), "SEQ_LEN");
    assert_string_equal(mds_str_nearest("--l", names, 4), "--lr");
    assert_null(mds_str_nearest("--quantum-flux", names, 4));
    assert_null(mds_str_nearest("", names, 4));
    assert_null(mds_str_nearest("3", digits, 2));
    assert_string_equal(mds_str_nearest("al", digits, 2), "all");
    assert_string_equal(mds_str_hint("--lr", "see --help", hint), "did you mean --lr?");
    assert_string_equal(mds_str_hint(NULL, "see --help", hint), "see --help");
}

static void test_units(void **state)
{
    int64_t n;
    double s;
    char buf[32];

    (void)state;
    assert_int_equal(mds_parse_count("128k", &n), 0);
    assert_int_equal(n, 128000);
    assert_int_equal(mds_parse_count("9007199254740993", &n), 0);
    assert_int_equal(n, 9007199254740993);
    assert_int_equal(mds_parse_count("-3", &n), 0);
    assert_int_equal(n, -3);
    assert_int_equal(mds_parse_bytes("2GiB", &n), 0);
    assert_int_equal(n, 2147483648);
    assert_int_equal(mds_parse_bytes("1.5 MB", &n), 0);
    assert_int_equal(n, 1500000);
    assert_int_equal(mds_parse_seconds("30min", &s), 0);
    assert_true(s == 1800);
    assert_int_equal(mds_parse_seconds("1:02:03", &s), 0);
    assert_true(s == 3723);
    /* 1.001 times a million is 1000999.9999999999 */
    assert_int_equal(mds_parse_count("1.001M", &n), 0);
    assert_int_equal(n, 1001000);
    assert_int_equal(mds_parse_count("1.0015k", &n), -1);
    assert_int_equal(mds_parse_bytes("0.3TiB", &n), 0);
    assert_int_equal(n, 329853488332);
    assert_int_equal(mds_parse_bytes("1.5", &n), -1);
    assert_int_equal(mds_parse_seconds("4294967297:00:00", &s), -1);
    static const char *const bad[] = {"",    "k",   "1.5", "12q", "0x10",
                                      "nan", "inf", "--3", "1 2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mds_parse_count(bad[i], &n), -1);
    assert_int_equal(mds_parse_seconds("1:99:00", &s), -1);
    assert_string_equal(mds_format_bytes(1.5 * 1073741824, buf, sizeof buf),
                        "1.50 GiB");
    assert_string_equal(mds_format_count(17, buf, sizeof buf), "17");
    assert_string_equal(mds_format_count(12.85e9, buf, sizeof buf), "12.85 G");
    assert_string_equal(mds_format_real(0.1, buf, sizeof buf), "0.1");
    assert_string_equal(mds_format_real(1e9, buf, sizeof buf), "1000000000");
    assert_string_equal(mds_format_real(0.1 + 0.2, buf, sizeof buf),
                        "0.30000000000000004");
    assert_string_equal(mds_format_step(1370, buf, sizeof buf), "22 min 50 s");
    assert_string_equal(mds_format_step(999.4, buf, sizeof buf), "999 s");
    assert_string_equal(mds_format_step(38.84, buf, sizeof buf), "38.8 s");
    assert_string_equal(mds_format_step(0.01234, buf, sizeof buf), "0.0123 s");
    assert_string_equal(mds_format_step(2.5e-5, buf, sizeof buf), "0.025 ms");
    assert_string_equal(mds_format_seconds(3723, buf, sizeof buf), "1 h 02 min");
}

static void test_log_levels(void **state)
{
    enum mds_log_level level = MDS_LOG_INFO;

    (void)state;
    assert_int_equal(mds_log_level_parse("debug", &level), 0);
    assert_int_equal(level, MDS_LOG_DEBUG);
    assert_int_equal(mds_log_level_parse("loud", &level), -1);
}

/* A socket keeps writes apart, as other ranks' lines would. */
static void test_a_log_line_is_one_write(void **state)
{
    char text[1501] = "", want[1600], got[4096];
    int ends[2], err = dup(STDERR_FILENO);
    ssize_t n;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    snprintf(want, sizeof want, "mds: [rank 3 n1] warn: %s\n", text);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    dup2(ends[1], STDERR_FILENO);
    mds_log_init(3, 4, "n1", MDS_LOG_INFO);
    mds_warn("%s", text);
    mds_log_init(0, 1, "", MDS_LOG_INFO);
    dup2(err, STDERR_FILENO);
    n = recv(ends[0], got, sizeof got - 1, MSG_DONTWAIT);
    assert_true(n >= 0);
    got[n] = '\0';
    assert_string_equal(got, want);
    close(ends[0]);
    close(ends[1]);
    close(err);
}

static void test_host_name(void **state)
{
    char host[MDS_HOST_SIZE];
    struct utsname here;

    (void)state;
    memset(host, 'x', sizeof host);
    mds_host_name(host);
    assert_int_equal(uname(&here), 0);
    assert_string_equal(host, here.nodename);
}

/* Nobody reads while 10000 lines are written, which neither the pipe nor the stream can
 * hold.  What comes out is whole lines in order, with one for those left out. */
static void test_a_stream_does_not_wait(void **state)
{
    enum { LINES = 10000 };
    struct mds_stream s = {.fd = -1};
    char text[128];
    long line, next = 0, left_out = 0;
    int ends[2];
    FILE *in;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    s.fd = ends[1];
    in = fdopen(ends[0], "r");
    for (int i = 0; i < LINES; i++) {
        int n =
            snprintf(text, sizeof text, "line %d of some letters more or less\n", i);

        assert_int_equal(mds_stream_write(&s, text, (size_t)n), 0);
    }
    assert_true(s.n > 0 && s.left_out > 0);
    while (next < LINES) {
        assert_int_equal(mds_stream_write(&s, NULL, 0), 0);
        assert_non_null(fgets(text, sizeof text, in));
        if (sscanf(text, "mds: warn: %ld lines were left out", &left_out) == 1) {
            next += left_out;
        } else {
            assert_int_equal(sscanf(text, "line %ld of some letters", &line), 1);
            assert_int_equal(line, next++);
        }
    }
    assert_int_equal(left_out, s.left_out);
    assert_int_equal(mds_stream_drain(&s, 1), 0);
    close(ends[1]);
    assert_null(fgets(text, sizeof text, in));
    fclose(in);
    assert_int_equal(mds_stream_write(&s, "x", 1), -1);
    free(s.kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_keeps_the_sentence),
        cmocka_unit_test(test_alloc_refuses_the_impossible),
        cmocka_unit_test(test_arrays_grow),
        cmocka_unit_test(test_str_grows),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_log_levels),
        cmocka_unit_test(test_a_log_line_is_one_write),
        cmocka_unit_test(test_host_name),
        cmocka_unit_test(test_a_stream_does_not_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
