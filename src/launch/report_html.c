/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/report_html.h"
#include "io/folder.h"
#include "launch/result_table.h"

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void print_escaped(const char *text, FILE *f)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
}

static void print_head(const char *folder, FILE *f)
{
    time_t now = time(NULL);
    char when[64];
    struct tm tm;

    strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &tm));
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n"
          "<head><meta charset=\"utf-8\"/><title>Runs in ",
          f);
    print_escaped(folder, f);
    fputs(
        "</title>\n<style>\n"
        "body { font-family: sans-serif; margin: 2em; color: #222; background: #fff }\n"
        "table { border-collapse: collapse } th, td { padding: 0.3em 0.8em; "
        "border-bottom: 1px solid #ccc; text-align: right }\n"
        "th { background: #eee } th:nth-child(-n+2), td:nth-child(-n+2) "
        "{ text-align: left }\n"
        "svg { max-width: 100%; height: auto }\n"
        "</style></head>\n<body>\n<h1>Runs in ",
        f);
    print_escaped(folder, f);
    fprintf(f, "</h1>\n<p>mds %s, %s; losses in nats per token</p>\n", PACKAGE_VERSION,
            when);
}

static void print_table(const struct mds_result_table *t, FILE *f)
{
    fputs("<table>\n", f);
    for (size_t i = 0; i < t->cells.n; i++) {
        const char *cell = i < t->columns ? "th" : "td";

        fprintf(f, "%s<%s>", i % t->columns ? "" : "<tr>", cell);
        print_escaped(t->cells.v[i], f);
        fprintf(f, "</%s>%s", cell, (i + 1) % t->columns ? "" : "</tr>\n");
    }
    fputs("</table>\n", f);
    for (size_t i = 0; i < t->notes.n; i++) {
        fputs("<p>", f);
        print_escaped(t->notes.v[i], f);
        fputs("</p>\n", f);
    }
}

/* Names in a drawing are those of this drawing: all are in one page. */
static void print_svg(const char *text, int number, FILE *f)
{
    static const char *const before[] = {"id='",     "id=\"", "href='#",
                                         "href=\"#", "url(#", NULL};

    while (*text) {
        const char *const *p = before;

        while (*p && strncmp(text, *p, strlen(*p)) != 0)
            p++;
        if (*p) {
            fprintf(f, "%sp%d-", *p, number);
            text += strlen(*p);
        } else {
            fputc(*text++, f);
        }
    }
}

/* Nothing where gnuplot has made no such plot. */
static enum mds_rc print_plot(const char *folder, const char *name, const char *caption,
                              int number, FILE *f)
{
    char *text = NULL, path[MDS_PATH_SIZE];
    size_t size = 0;
    FILE *in;

    MDS_TRY(mds_path_join(folder, name, path));
    in = fopen(path, "re");
    if (!in)
        return MDS_OK;
    if (getdelim(&text, &size, '\0', in) > 0 && strstr(text, "<svg")) {
        fprintf(f, "<h2>%s</h2>\n", caption);
        print_svg(strstr(text, "<svg"), number, f);
    }
    free(text);
    fclose(in);
    return MDS_OK;
}

static enum mds_rc print_plots(const char *folder, FILE *f)
{
    static const char *const plots[][2] = {
        {"losses.svg", "Losses"},
        {"speed.svg", "Speed by sequence length"},
        {"longest.svg", "Longest sequence by ranks"},
        {"stragglers.svg", "How far the slowest rank is above the median"},
    };

    for (int i = 0; i < (int)(sizeof plots / sizeof *plots); i++)
        MDS_TRY(print_plot(folder, plots[i][0], plots[i][1], i, f));
    return MDS_OK;
}

enum mds_rc mds_report_write_html(const struct mds_results *all, const char *folder,
                                  const char *path)
{
    struct mds_result_table t;
    FILE *f = fopen(path, "we");
    enum mds_rc rc;
    int bad;

    if (!f)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    rc = mds_result_table_make(all, 0, &t);
    if (!rc) {
        print_head(folder, f);
        print_table(&t, f);
        rc = print_plots(folder, f);
        fputs("</body>\n</html>\n", f);
        mds_result_table_fini(&t);
    }
    bad = ferror(f);
    bad |= fclose(f) != 0;
    return rc || !bad ? rc : mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
}
