/* SPDX-License-Identifier: BSD-3-Clause */
/* programs: tables of options and verbs, longer than those of the programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "programs/verbs.h"

enum { OPTIONS = 100, VERBS = 30 };

static int64_t values[OPTIONS], polished;
static char flags[OPTIONS][16], names[VERBS][16];
static struct mds_option rows[OPTIONS + 1];
static struct mds_verb verbs[VERBS + 1];

static enum mds_rc polish(const struct mds_call *c)
{
    (void)c;
    polished = values[OPTIONS - 1];
    return MDS_OK;
}

static int call(const char *verb, const char *flag)
{
    static const struct mds_option_set set = {.program = "toy",
                                              .version = "1",
                                              .synopsis = "VERB",
                                              .about = "toy",
                                              .options = rows,
                                              .operands = "word"};
    static const struct mds_program program = {&set, verbs, NULL};
    char *argv[] = {(char *)"toy", (char *)verb, (char *)flag, (char *)"7", NULL};

    for (int i = 0; i < OPTIONS; i++) {
        snprintf(flags[i], sizeof flags[i], "--o%02d", i);
        rows[i] = (struct mds_option){.group = "polish",
                                      .flag = flags[i],
                                      .type = MDS_OPT_INT,
                                      .max = 9,
                                      .offset = (ptrdiff_t)(i * sizeof *values),
                                      .help = "a digit"};
    }
    for (int i = 0; i < VERBS; i++) {
        snprintf(names[i], sizeof names[i], "verb%02d", i);
        verbs[i] = (struct mds_verb){
            .name = names[i], .synopsis = "", .about = "", .run = polish};
    }
    verbs[VERBS - 1].name = "polish";
    return mds_program_run(&program, 4, argv, values);
}

static void the_last_row_of_a_long_table_counts(void **state)
{
    (void)state;
    assert_int_equal(call("polish", "--o99"), 0);
    assert_int_equal(polished, 7);
}

static void the_last_of_many_verbs_is_near(void **state)
{
    (void)state;
    assert_int_equal(call("polsh", "--o99"), EXIT_FAILURE);
    assert_non_null(strstr(mds_fail_text(), "polish"));
}

static void all_verbs_are_listed_in_whole_words(void **state)
{
    const char *last;

    (void)state;
    assert_int_equal(call("something", "--o99"), EXIT_FAILURE);
    last = strrchr(mds_fail_text(), ' ');
    assert_non_null(last);
    assert_string_equal(last, " polish");
    assert_non_null(strstr(mds_fail_text(), "; there is verb00, verb01, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_row_of_a_long_table_counts),
        cmocka_unit_test(the_last_of_many_verbs_is_near),
        cmocka_unit_test(all_verbs_are_listed_in_whole_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
