/* SPDX-License-Identifier: BSD-3-Clause */
/* programs: tables of options and subcommands, longer than those of the programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "programs/subcommands.h"

enum { OPTIONS = 100, SUBCOMMANDS = 30 };

static int64_t values[OPTIONS], polished;
static char flags[OPTIONS][16], names[SUBCOMMANDS][16];
static struct mds_option rows[OPTIONS + 1];
static struct mds_subcommand subcommands[SUBCOMMANDS + 1];

static enum mds_rc polish(const struct mds_invocation *c)
{
    (void)c;
    polished = values[OPTIONS - 1];
    return MDS_OK;
}

static int call(const char *subcommand, const char *flag)
{
    static const struct mds_option_set set = {.program = "toy",
                                              .version = "1",
                                              .synopsis = "VERB",
                                              .about = "toy",
                                              .options = rows,
                                              .operands = "word"};
    static const struct mds_program program = {&set, subcommands, NULL};
    char *argv[] = {(char *)"toy", (char *)subcommand, (char *)flag, (char *)"7", NULL};

    for (int i = 0; i < OPTIONS; i++) {
        snprintf(flags[i], sizeof flags[i], "--o%02d", i);
        rows[i] = (struct mds_option){.group = "polish",
                                      .flag = flags[i],
                                      .type = MDS_OPT_INT,
                                      .max = 9,
                                      .offset = (ptrdiff_t)(i * sizeof *values),
                                      .help = "a digit"};
    }
    for (int i = 0; i < SUBCOMMANDS; i++) {
        snprintf(names[i], sizeof names[i], "sub%02d", i);
        subcommands[i] = (struct mds_subcommand){
            .name = names[i], .synopsis = "", .about = "", .run = polish};
    }
    subcommands[SUBCOMMANDS - 1].name = "polish";
    return mds_program_run(&program, 4, argv, values);
}

static void finds_the_last_of_many_options(void **state)
{
    (void)state;
    assert_int_equal(call("polish", "--o99"), 0);
    assert_int_equal(polished, 7);
}

static void suggests_the_nearest_of_many_subcommands(void **state)
{
    (void)state;
    assert_int_equal(call("polsh", "--o99"), EXIT_FAILURE);
    assert_non_null(strstr(mds_fail_text(), "polish"));
}

static void lists_every_subcommand_in_full(void **state)
{
    const char *last;

    (void)state;
    assert_int_equal(call("something", "--o99"), EXIT_FAILURE);
    last = strrchr(mds_fail_text(), ' ');
    assert_non_null(last);
    assert_string_equal(last, " polish");
    assert_non_null(strstr(mds_fail_text(), "; there is sub00, sub01, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_last_of_many_options),
        cmocka_unit_test(suggests_the_nearest_of_many_subcommands),
        cmocka_unit_test(lists_every_subcommand_in_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
