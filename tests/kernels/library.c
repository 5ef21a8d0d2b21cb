/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels: libraries that are opened at need.  NULL is the program with all that it is
 * linked with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/library.h"

#define CALLS(X) X(strlen) X(strchr)

struct calls {
    CALLS(MDSK_LIBRARY_CALL)
};

static void calls_are_found_by_name(void **state)
{
    static const char *const names[] = {CALLS(MDSK_LIBRARY_NAME) NULL};
    struct calls calls = {NULL, NULL};

    (void)state;
    assert_int_equal(mdsk_library_open(NULL, names, &calls), 0);
    assert_int_equal(calls.strlen("four"), 4);
    assert_string_equal(calls.strchr("four", 'u'), "ur");
}

static void refused(const char *file, const char *const names[], const char *word)
{
    struct calls calls = {NULL, NULL};

    assert_true(mdsk_library_open(file, names, &calls) < 0);
    assert_null(calls.strlen);
    if (!strstr(mdsk_library_error_text(), word))
        fail_msg("%s: does not say %s", mdsk_library_error_text(), word);
}

static void what_is_missing_is_named(void **state)
{
    static const char *const names[] = {"strlen", "no_such_call", NULL};

    (void)state;
    refused("libno-such-library.so.1", names, "libno-such-library.so.1");
    refused(NULL, names, "no_such_call");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_found_by_name),
        cmocka_unit_test(what_is_missing_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
