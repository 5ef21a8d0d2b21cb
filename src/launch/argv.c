/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/argv.h"
#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* word is taken over. */
static void append_owned(struct mds_argv *w, char *word)
{
    if (!word || mds_resize(&w->v, w->n + 2, sizeof *w->v)) {
        free(word);
        w->failed = 1;
        return;
    }
    w->v[w->n++] = word;
    w->v[w->n] = NULL;
}

static void add_formatted(struct mds_argv *w, const char *fmt, va_list ap)
{
    char *word = NULL;

    append_owned(w, vasprintf(&word, fmt, ap) < 0 ? NULL : word);
}

void mds_argv_add(struct mds_argv *w, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_formatted(w, fmt, ap);
    va_end(ap);
}

void mds_argv_add_words(struct mds_argv *w, size_t n, char *const *words)
{
    for (size_t i = 0; i < n; i++)
        append_owned(w, strdup(words[i]));
}

void mds_argv_add_option(struct mds_argv *w, const char *flag, const char *fmt, ...)
{
    va_list ap;

    append_owned(w, strdup(flag));
    va_start(ap, fmt);
    add_formatted(w, fmt, ap);
    va_end(ap);
}

static const char blanks[] = " \t\n"; /* as --data-path has them */

void mds_argv_add_split(struct mds_argv *w, const char *text)
{
    while (text && *(text += strspn(text, blanks))) {
        size_t n = strcspn(text, blanks);

        append_owned(w, strndup(text, n));
        text += n;
    }
}

void mds_argv_fini(struct mds_argv *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->v[i]);
    free(w->v);
    *w = (struct mds_argv){0};
}

int mds_shell_is_plain(const char *text)
{
    return *text &&
           !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789_./-,+:=@%")];
}

void mds_shell_quote(const char *text, struct mds_str *out)
{
    if (mds_shell_is_plain(text)) {
        mds_str_add(out, "%s", text);
        return;
    }
    mds_str_add(out, "'");
    for (; *text; text++)
        mds_str_add(out, *text == '\'' ? "'\\''" : "%c", *text);
    mds_str_add(out, "'");
}

void mds_argv_format(const struct mds_argv *w, const char *fold, struct mds_str *out)
{
    for (size_t i = 0; i < w->n; i++) {
        if (i > 0)
            mds_str_add(out, "%s", fold && strncmp(w->v[i], "--", 2) == 0 ? fold : " ");
        mds_shell_quote(w->v[i], out);
    }
}
