/* SPDX-License-Identifier: BSD-3-Clause */
/* A scratch folder per test program, files in it, and failures with their sentence. */
#ifndef MDS_TESTS_UNIT_SCRATCH_H
#define MDS_TESTS_UNIT_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/status.h"

/* The call fails with rc, and its sentence holds text. */
#define assert_fails(call, rc, text)                                                   \
    do {                                                                               \
        assert_int_equal(call, rc);                                                    \
        if (!strstr(mds_fail_text(), text))                                            \
            fail_msg("'%s' lacks '%s'", mds_fail_text(), text);                        \
    } while (0)

static char scratch[] = "/tmp/mds-unit-XXXXXX";

/* Group set-up and tear-down. */
static int go_to_scratch(void **state)
{
    (void)state;
    return !mkdtemp(scratch) || chdir(scratch);
}

static int leave_scratch(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return chdir("/") || system(command);
}

__attribute__((unused)) static void write_file(const char *path, const void *bytes,
                                               size_t n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* At most size - 1 bytes, and a NUL behind them; how many. */
__attribute__((unused)) static size_t read_file(const char *path, char *buf,
                                                size_t size)
{
    FILE *f = fopen(path, "r");
    size_t n;

    assert_non_null(f);
    n = fread(buf, 1, size - 1, f);
    buf[n] = '\0';
    fclose(f);
    return n;
}

#endif
