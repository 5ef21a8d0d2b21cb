/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the program that this one stands in for. */
#include "config/optset_impl.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char *const cli = "command line";

const char *mds_foreign_why(const struct mds_option_foreign *list, const char *name)
{
    for (; list && list->name; list++) {
        size_t prefix = strcspn(list->name, "*");

        if (list->name[prefix] ? strncmp(list->name, name, prefix) == 0
                               : strcmp(list->name, name) == 0)
            return list->why;
    }
    return NULL;
}

static int is_kept(const struct mds_settings *s, const char *name)
{
    for (size_t i = 0; i < s->foreign_count; i++)
        if (strcmp(s->foreign[i].name, name) == 0)
            return 1;
    return 0;
}

int mds_foreign_keep(struct mds_settings *s, const char *name, struct mds_diag *diag)
{
    const char *accepted = mds_foreign_why(s->set->accepted, name);
    const char *unsupported = mds_foreign_why(s->set->unsupported, name);
    char *copy;

    if ((!accepted && !unsupported) || is_kept(s, name))
        return accepted || unsupported;
    copy = mds_grow(&s->foreign, s->foreign_count, sizeof *s->foreign)
               ? NULL
               : mds_strdup(name);
    if (copy)
        s->foreign[s->foreign_count++] = (struct mds_foreign_flag){
            copy, accepted ? accepted : unsupported, !accepted};
    else
        mds_diag_fault(diag, cli, "%s", mds_fail_text());
    return 1;
}

static int is_like(const struct mds_foreign_flag *a, const struct mds_foreign_flag *b)
{
    return a->lacking == b->lacking && (!a->lacking || strcmp(a->why, b->why) == 0);
}

/* Report flag number `at` with those behind it that are like it, unless one before it
 * was. */
static void report_like(const struct mds_settings *s, size_t first, size_t at,
                        struct mds_diag *diag)
{
    const struct mds_foreign_flag *f = s->foreign;
    struct mds_str names = {0};
    size_t n = 0;

    for (size_t i = first; i < at; i++)
        if (is_like(&f[i], &f[at]))
            return;
    for (size_t i = at; i < s->foreign_count; i++)
        if (is_like(&f[i], &f[at]))
            mds_str_add(&names, "%s%s", n++ ? ", " : "", f[i].name);
    if (names.failed)
        mds_diag_fault(diag, cli, "%s", mds_fail_text());
    else if (f[at].lacking)
        mds_diag_fault(diag, cli, "option%s %s %s not supported here: there is no %s",
                       n > 1 ? "s" : "", names.s, n > 1 ? "are" : "is", f[at].why);
    else
        mds_diag_note(diag, NULL, "accepted without effect: %s", names.s);
    mds_str_fini(&names);
}

void mds_foreign_report(const struct mds_settings *s, size_t first,
                        struct mds_diag *diag)
{
    for (size_t at = first; at < s->foreign_count; at++)
        report_like(s, first, at, diag);
}

int mds_settings_accepted(const struct mds_settings *s, const char *name)
{
    for (size_t i = 0; i < s->foreign_count; i++)
        if (!s->foreign[i].lacking && strcmp(s->foreign[i].name, name) == 0)
            return 1;
    return 0;
}
