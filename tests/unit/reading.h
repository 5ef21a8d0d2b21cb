/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of config: what was said, an environment of their own, and readings of
 * mds_pretrain's configuration. */
#ifndef MDS_TESTS_UNIT_READING_H
#define MDS_TESTS_UNIT_READING_H

#include "scratch.h"

#include "config/options.h"

enum { MAX_ARGS = 64 };

/* One reading of mds_pretrain's configuration. */
struct reading {
    enum mds_rc rc;
    struct mds_config_run *run; /* NULL after a fault */
    struct mds_diag diag;
};

static inline void close_reading(struct reading *r)
{
    mds_config_run_destroy(r->run);
    mds_diag_fini(&r->diag);
}

/* args: words with one blank between. */
static inline struct reading read_config(const char *args)
{
    char *argv[MAX_ARGS] = {"mds_pretrain"}, *copy = strdup(args), *save = NULL;
    struct reading r = {0};
    int argc = 1;

    for (char *w = strtok_r(copy, " ", &save); w && argc < MAX_ARGS;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    r.rc = mds_config_read(argc, argv, &r.diag, &r.run);
    free(copy);
    return r;
}

static const char shape[] = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                            "--train-iters 10 --data-path d ";

/* Of a complete small run with more args, resolved for some ranks. */
static inline struct reading resolve(const char *args, int64_t world)
{
    char all[4096];
    struct reading r;

    snprintf(all, sizeof all, "%s%s", shape, args);
    r = read_config(all);
    if (r.rc == MDS_OK)
        r.rc = mds_config_resolve(r.run, world, &r.diag);
    return r;
}

static inline int is_said(const struct mds_diag *d, const char *what)
{
    for (size_t i = 0; i < d->count; i++)
        if (strstr(d->entries[i].text, what))
            return 1;
    return 0;
}

static inline void assert_said(const struct mds_diag *d, const char *what)
{
    if (is_said(d, what))
        return;
    print_error("not said: %s\n", what);
    for (size_t i = 0; i < d->count; i++)
        print_error("said: %s\n", d->entries[i].text);
    fail();
}

static inline void assert_fine(const struct reading *r)
{
    for (size_t i = 0; i < r->diag.count; i++)
        print_error("said: %s\n", r->diag.entries[i].text);
    assert_int_equal(r->rc, MDS_OK);
    assert_int_equal(r->diag.count, 0);
}

static inline void expect_fault(const char *args, const char *what)
{
    struct reading r = read_config(args);

    assert_int_equal(r.rc, MDS_EUSER);
    assert_null(r.run);
    assert_said(&r.diag, what);
    close_reading(&r);
}

static inline void expect_misfit(const char *args, int64_t world, const char *what)
{
    struct reading r = resolve(args, world);

    assert_int_equal(r.rc, MDS_EUSER);
    assert_said(&r.diag, what);
    close_reading(&r);
}

static inline void assert_origin(const struct reading *r, const char *key,
                                 const char *origin)
{
    assert_string_equal(mds_settings_of(&r->run->settings, key)->origin, origin);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* An environment that is empty, but for what cmocka reads. */
static inline int setup(void **state)
{
    const char *format = getenv("CMOCKA_MESSAGE_OUTPUT");
    char kept[32] = "";

    (void)state;
    if (format)
        snprintf(kept, sizeof kept, "%s", format);
    if (clearenv() != 0)
        return -1;
    return format ? setenv("CMOCKA_MESSAGE_OUTPUT", kept, 1) : 0;
}

#endif
