/* SPDX-License-Identifier: BSD-3-Clause */
/* config: trees, lists of faults, and the options engine with a table of its own. */
#include "reading.h"

static void test_tree_keeps_lines(void **state)
{
    static const char text[] = "a: 1\nb:\n  c: [x, 'y z']\n  d: {}\ne:\n";
    struct mds_tree *t = NULL;
    const struct mds_node *b, *c;

    (void)state;
    assert_int_equal(mds_tree_parse(text, strlen(text), "t", &t), MDS_OK);
    assert_string_equal(mds_node_get(t->root, "a")->text, "1");
    b = mds_node_get(t->root, "b");
    assert_int_equal(b->kind, MDS_NODE_MAP);
    c = mds_node_get(b, "c");
    assert_int_equal(c->kind, MDS_NODE_LIST);
    assert_int_equal(c->line, 3);
    assert_string_equal(c->first->next->text, "y z");
    assert_null(c->first->next->next);
    assert_null(mds_node_get(b, "d")->first);
    assert_string_equal(mds_node_get(t->root, "e")->text, "");
    assert_int_equal(mds_node_get(t->root, "e")->line, 5);
    assert_null(mds_node_get(t->root, "f"));
    assert_null(mds_node_get(NULL, "a"));
    assert_null(mds_node_get(c, "a"));
    mds_tree_destroy(t);
    mds_tree_destroy(NULL);
}

static void test_tree_reads_json(void **state)
{
    static const char text[] =
        "{\n\t\"fp16\": {\"enabled\": true},\n\t\"list\": [1, 2.5]\n}\n";
    struct mds_tree *t = NULL;

    (void)state;
    assert_int_equal(mds_tree_parse(text, strlen(text), "t", &t), MDS_OK);
    assert_string_equal(mds_node_get(mds_node_get(t->root, "fp16"), "enabled")->text,
                        "true");
    mds_tree_destroy(t);
    t = NULL;
    assert_int_equal(mds_tree_parse("# nothing\n", 10, "t", &t), MDS_OK);
    assert_null(t->root);
    mds_tree_destroy(t);
}

static void test_tree_refuses(void **state)
{
    static const struct {
        const char *text, *says;
        size_t len; /* 0: strlen */
    } bad[] = {
        {"a: 1\nb: 2\na: 3\n", "t:3: key 'a' is given twice (first in line 1)", 0},
        {"a: &x 1\nb: *x\n", "t:1: anchors", 0},
        {"a: 1\nb: &x {c: *x}\n", "t:2: anchors", 0},
        {"a: *x\n", "t:1: ", 0},
        {"<<: {a: 1}\nb: *q\n", "t:2: ", 0},
        {"a: 1\n---\nb: 1\n", "t:2: a second document", 0},
        {"a: [1, 2\n", "t:2: ", 0},
        {"a: 1\n b: 2\n", "t:2: ", 0},
        {"{[a]: 1}\n", "t:1: a key must be a plain word", 0},
        {"a: \"x\\0y\"\n", "t:1: a NUL character", 0},
        {"a: x\0y\n", "t:1: ", 7},
        {"a: \xff\xfe\n", "t:1: ", 0},
    };
    char deep[200];
    struct mds_tree *t = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t len = bad[i].len ? bad[i].len : strlen(bad[i].text);

        assert_int_equal(mds_tree_parse(bad[i].text, len, "t", &t), MDS_EUSER);
        assert_ptr_equal(strstr(mds_fail_text(), bad[i].says), mds_fail_text());
    }
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    assert_int_equal(mds_tree_parse(deep, 200, "t", &t), MDS_EUSER);
    assert_string_equal(mds_fail_text(), "t:1: nested more than 32 deep");
    assert_int_equal(mds_tree_parse(deep + 68, 64, "t", &t), MDS_OK);
    mds_tree_destroy(t);
}

static void test_tree_load_names_the_file(void **state)
{
    struct mds_tree *t = NULL;

    (void)state;
    assert_int_equal(mds_tree_load("gone.yaml", &t), MDS_EIO);
    assert_non_null(
        strstr(mds_fail_text(), "gone.yaml: No such file or directory (relative to /"));
    assert_int_equal(mds_tree_load(".", &t), MDS_EIO);
}

struct demo {
    int64_t count, bytes;
    double real, minutes;
    int flag, calm, kind, set;
    char *name, *words;
};

#define DEMO(field) ((ptrdiff_t)offsetof(struct demo, field))
static const char *const kinds[] = {"plain", "Fancy", NULL};
static const struct mds_option demo_rows[] = {
    {"G", NULL, "--help", NULL, MDS_OPT_ACTION, NULL, 0, 0, NULL, MDS_OPT_UNSTORED,
     NULL, "help", .action = 7},
    {"G", "a.count", "--count", "D_COUNT", MDS_OPT_COUNT, "4", 1, 1e6, NULL,
     DEMO(count), "n", .help = "h"},
    {"G", "a.bytes", "--bytes", NULL, MDS_OPT_BYTES, "1KiB", 0, MDS_OPT_NO_MAX, NULL,
     DEMO(bytes), "bytes", .help = "h"},
    {"G", "real", "--real", NULL, MDS_OPT_REAL, "0.5", -1, 1, NULL, DEMO(real), "x",
     .help = "h"},
    {"G", "minutes", "--minutes", NULL, MDS_OPT_MINUTES, "0", 0, 1e9, NULL,
     DEMO(minutes), "m", .help = "h"},
    {"G", "a.flag", "--flag", "D_FLAG", MDS_OPT_FLAG, "0", 0, 0, NULL, DEMO(flag), NULL,
     .help = "h"},
    {"G", "a.calm", "--wild", NULL, MDS_OPT_FLAG, "1", 0, 0, NULL, DEMO(calm), NULL,
     "h", .inverted = 1},
    {"G", "a.kind", "--kind", "D_KIND", MDS_OPT_ENUM, "plain", 0, 0, kinds, DEMO(kind),
     NULL, .help = "h"},
    {"G", "name", "--name", NULL, MDS_OPT_STRING, NULL, 0, 0, NULL, DEMO(name), "s",
     .help = "h"},
    {"G", "words", "--words", NULL, MDS_OPT_WORDS, NULL, 0, 0, NULL, DEMO(words), "s",
     .help = "h"},
    {"G", "set", "--set", "D_SET", MDS_OPT_SET, NULL, 0, 0, kinds, DEMO(set), NULL,
     .help = "h"},
    {.help = NULL},
};
static const struct mds_option_alias demo_aliases[] = {
    {"--fancy", "--kind", "fancy", "plain"},
    {"D_OLD", "--count", NULL, NULL},
    {.name = NULL},
};
static const struct mds_option_set demo_set = {
    .program = "demo",
    .version = "1",
    .synopsis = "[option]... file",
    .about = "One.\nTwo.",
    .operands = "file",
    .options = demo_rows,
    .aliases = demo_aliases,
};

struct demo_run {
    struct demo v;
    struct mds_settings s;
    struct mds_diag diag;
    enum mds_rc rc;
};

static void demo(struct demo_run *d, const char *const *argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    *d = (struct demo_run){0};
    assert_int_equal(mds_settings_init(&d->s, &demo_set, &d->v), MDS_OK);
    mds_settings_read_args(&d->s, argc, (char *const *)(uintptr_t)argv, &d->diag);
    if (!d->s.action) {
        mds_settings_read_env(&d->s, &d->diag);
    }
    d->rc = mds_diag_result(&d->diag);
}

static void demo_end(struct demo_run *d)
{
    mds_settings_fini(&d->s);
    mds_diag_fini(&d->diag);
    assert_null(d->v.name);
}

static void test_engine_types(void **state)
{
    static const char *const argv[] = {
        "demo",  "--count=128k", "--bytes", "2MiB",   "in",     "--real",
        "-0.25", "--minutes",    "1.5",     "--flag", "--wild", "--kind",
        "FANCY", "--name=",      "--words", "0.3",    "a b",    "--name",
        "n",     "--",           "--out",   NULL};
    struct demo_run d;

    (void)state;
    demo(&d, argv);
    assert_int_equal(d.rc, MDS_OK);
    assert_int_equal(d.v.count, 128000);
    assert_int_equal(d.v.bytes, 2097152);
    assert_true(d.v.real == -0.25);
    assert_true(d.v.minutes == 90);
    assert_int_equal(d.v.flag, 1);
    assert_int_equal(d.v.calm, 0);
    assert_int_equal(d.v.kind, 1);
    assert_string_equal(d.v.name, "n");
    assert_string_equal(d.v.words, "0.3 a b");
    assert_int_equal(d.s.operand_count, 2);
    assert_string_equal(d.s.operands[0], "in");
    assert_string_equal(d.s.operands[1], "--out");
    assert_string_equal(mds_settings_of(&d.s, "a.kind")->origin, "command line");
    assert_string_equal(mds_settings_of(&d.s, "a.kind")->spelled, "--kind");
    demo_end(&d);
}

/* What the table does not have is an operand, with what follows it. */
static void test_engine_hands_on(void **state)
{
    static char *const argv[] = {"demo", "in",      "--other",  "5", "--count",
                                 "7",    "--no-it", "--more=2", NULL};
    static const char *const want[] = {"in", "--other", "5", "--no-it", "--more=2"};
    struct mds_option_set set = demo_set;
    struct mds_diag diag = {0};
    struct mds_settings s;
    struct demo v = {0};

    (void)state;
    set.passes_unknown = 1;
    assert_int_equal(mds_settings_init(&s, &set, &v), MDS_OK);
    mds_settings_read_args(&s, 8, argv, &diag);
    assert_int_equal(diag.count, 0);
    assert_int_equal(v.count, 7);
    assert_int_equal(s.operand_count, sizeof want / sizeof *want);
    for (size_t i = 0; i < s.operand_count; i++)
        assert_string_equal(s.operands[i], want[i]);
    mds_settings_fini(&s);
    mds_diag_fini(&diag);
}

/* What `set` is after one word of a command line, or -1. */
static int set_of(const char *word, const char *says)
{
    const char *argv[] = {"demo", word, NULL};
    struct demo_run d;
    int set;

    demo(&d, argv);
    set = d.rc ? -1 : d.v.set;
    if (says)
        assert_said(&d.diag, says);
    demo_end(&d);
    return set;
}

static void test_engine_sets(void **state)
{
    static const char *const argv[] = {"demo",  "--set",  "fancy",
                                       "plain", "--flag", NULL};
    static const char yaml[] = "set: [Fancy]\n";
    struct mds_tree *t = NULL;
    char *shown = NULL;
    struct demo_run d;
    size_t size = 0;
    FILE *f;

    (void)state;
    demo(&d, argv);
    assert_int_equal(d.rc, MDS_OK);
    assert_int_equal(d.v.set, 3);
    f = open_memstream(&shown, &size);
    mds_settings_show(&d.s, f);
    fclose(f);
    assert_non_null(strstr(shown, "set: plain,Fancy "));
    free(shown);
    demo_end(&d);
    assert_int_equal(set_of("--set=plain", NULL), 1);
    assert_int_equal(set_of("--set=fancy, plain", NULL), 3);
    assert_int_equal(set_of("--set=~", NULL), 0);
    assert_int_equal(set_of("--set=plain,fanzy", "did you mean Fancy?"), -1);
    assert_int_equal(set_of("--set", "--set needs a value"), -1);
    setenv("D_SET", "plain fancy", 1);
    demo(&d, (const char *[]){"demo", NULL});
    assert_int_equal(d.v.set, 3);
    mds_settings_fini(&d.s);
    unsetenv("D_SET");
    assert_int_equal(mds_settings_init(&d.s, &demo_set, &d.v), MDS_OK);
    assert_int_equal(mds_tree_parse(yaml, strlen(yaml), "t", &t), MDS_OK);
    mds_settings_read_tree(&d.s, MDS_LEVEL_FILE, t, &d.diag);
    assert_int_equal(d.v.set, 2);
    mds_tree_destroy(t);
    demo_end(&d);
}

/* What is shown of a text, and where it is from, is YAML whatever the text. */
static void test_engine_texts_are_read_back(void **state)
{
    static const struct {
        const char *given, *back;
    } texts[] = {
        {"1 a\n1 b\n", "1 a\n1 b\n"},
        {"\tx  # y\\", "\tx  # y\\"},
        {"it's: #1 \"x\"", "it's: #1 \"x\""},
        {"r\xc3\xa9sum\xc3\xa9", "r\xc3\xa9sum\xc3\xa9"},
        {"r\xe9sum\xe9", "r\xef\xbf\xbdsum\xef\xbf\xbd"},
        {"true", "true"},
        {"- a", "- a"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mds_tree *t = NULL;
        struct demo_run d;
        char *shown;

        demo(&d, (const char *[]){"demo", NULL});
        mds_settings_put(&d.s, mds_settings_row(&d.s, "name"), texts[i].given,
                         MDS_LEVEL_FILE, texts[i].given, "name", &d.diag);
        shown = mds_settings_text(&d.s);
        demo_end(&d);
        assert_non_null(shown);
        assert_int_equal(mds_tree_parse(shown, strlen(shown), "t", &t), MDS_OK);
        assert_string_equal(mds_node_get(t->root, "name")->text, texts[i].back);
        assert_non_null(mds_node_get(t->root, "words"));
        mds_tree_destroy(t);
        free(shown);
    }
}

static void test_engine_defaults_and_actions(void **state)
{
    static const char *const argv[] = {"demo", "--help", "--count", "zero", NULL};
    static const char *const last[] = {"demo", "--flag",    "--no-flag", "--count",
                                       "5",    "--count=6", NULL};
    struct demo_run d;

    (void)state;
    demo(&d, argv);
    assert_int_equal(d.s.action, 7);
    assert_int_equal(d.v.count, 4);
    assert_int_equal(d.v.bytes, 1024);
    assert_int_equal(d.v.calm, 1);
    assert_string_equal(mds_settings_of(&d.s, "a.count")->origin, "default");
    demo_end(&d);
    demo(&d, last);
    assert_int_equal(d.rc, MDS_OK);
    assert_int_equal(d.v.flag, 0);
    assert_int_equal(d.v.count, 6);
    demo_end(&d);
}

static void test_engine_reports_every_fault(void **state)
{
    static const char *const argv[] = {
        "demo",  "--count",   "0",  "--bytes=-1",     "--real",
        "much",  "--minutes", "1q", "--flag=perhaps", "--kind",
        "fanci", "--cout",    "3",  "--words",        "--name",
        NULL};
    static const char *const says[] = {
        "command line: --count '0': must be between 1 and 1000000",
        "--bytes '-1': must be at least 0",
        "--real 'much': must be a number",
        "--minutes '1q': must be minutes",
        "--flag 'perhaps': must be 0 or 1",
        "--kind 'fanci': must be one of plain, Fancy; did you mean Fancy?",
        "unknown option --cout; did you mean --count?",
        "--words needs a value",
        "--name needs a value",
    };
    struct demo_run d;

    (void)state;
    demo(&d, argv);
    assert_int_equal(d.rc, MDS_EUSER);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        assert_said(&d.diag, says[i]);
        assert_non_null(strstr(mds_fail_text(), says[i]));
    }
    assert_int_equal(d.diag.faults, sizeof says / sizeof *says);
    demo_end(&d);
}

static void test_engine_two_spellings(void **state)
{
    static const char *const same[] = {"demo", "--fancy", "--kind=fancy", NULL};
    static const char *const two[] = {"demo", "--fancy", "--kind=plain", NULL};
    static const char *const none[] = {"demo", NULL};
    struct demo_run d;

    (void)state;
    demo(&d, same);
    assert_int_equal(d.rc, MDS_OK);
    demo_end(&d);
    demo(&d, two);
    assert_said(&d.diag, "--kind 'plain' disagrees with --fancy 'fancy'");
    demo_end(&d);
    setenv("D_COUNT", "8", 1);
    setenv("D_OLD", "9", 1);
    demo(&d, none);
    assert_said(&d.diag, "environment: D_OLD '9' disagrees with D_COUNT '8'");
    demo_end(&d);
    setenv("D_OLD", "8", 1);
    setenv("D_FLAG", "yes", 1);
    setenv("D_KIND", "", 1);
    demo(&d, none);
    assert_int_equal(d.rc, MDS_OK);
    assert_int_equal(d.v.count, 8);
    assert_int_equal(d.v.flag, 1);
    assert_string_equal(mds_settings_of(&d.s, "a.count")->origin, "environment D_OLD");
    assert_string_equal(mds_settings_of(&d.s, "a.kind")->origin, "default");
    demo_end(&d);
}

static void test_diag_result_stays_whole(void **state)
{
    struct mds_diag d = {0};
    const char *text;

    (void)state;
    assert_int_equal(mds_diag_result(&d), MDS_OK);
    mds_diag_warn(&d, NULL, "only a warning");
    assert_int_equal(mds_diag_result(&d), MDS_OK);
    for (int i = 1; i <= 1000; i++) {
        mds_diag_fault(&d, "here", "fault %d of a thousand, with some words to fill it",
                       i);
        assert_int_equal(mds_diag_result(&d), MDS_EUSER);
        text = mds_fail_text();
        assert_non_null(strstr(text, "here: fault 1 "));
        assert_null(strstr(text, "warning"));
        if (i <= 100) /* as many as a command line may have are all there */
            assert_null(strstr(text, " more"));
    }
    assert_non_null(strstr(text, " more"));
    mds_diag_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_keeps_lines),
        cmocka_unit_test(test_tree_reads_json),
        cmocka_unit_test(test_tree_refuses),
        cmocka_unit_test(test_tree_load_names_the_file),
        cmocka_unit_test_setup(test_engine_hands_on, setup),
        cmocka_unit_test_setup(test_engine_types, setup),
        cmocka_unit_test_setup(test_engine_sets, setup),
        cmocka_unit_test_setup(test_engine_texts_are_read_back, setup),
        cmocka_unit_test_setup(test_engine_defaults_and_actions, setup),
        cmocka_unit_test_setup(test_engine_reports_every_fault, setup),
        cmocka_unit_test_setup(test_engine_two_spellings, setup),
        cmocka_unit_test(test_diag_result_stays_whole),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
