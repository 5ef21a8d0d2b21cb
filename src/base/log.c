/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "base/stream.h"
#include "base/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { KEPT_WARNINGS = 16, TEXT_SIZE = 2048 };

static struct {
    int rank, ranks;
    char host[256];
    enum mds_log_level level;
    int warnings; /* how many were logged; the first KEPT_WARNINGS are kept */
    char kept[KEPT_WARNINGS][512];
} state = {.ranks = 1, .level = MDS_LOG_INFO};

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

void mds_log_init(int rank, int ranks, const char *host, enum mds_log_level level)
{
    state.rank = rank;
    state.ranks = ranks;
    state.level = level;
    snprintf(state.host, sizeof state.host, "%s", host);
}

int mds_log_level_parse(const char *name, enum mds_log_level *level)
{
    for (int i = 0; i <= MDS_LOG_TRACE; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum mds_log_level)i;
            return 0;
        }
    return -1;
}

/* One write(2) per line, so that lines of several ranks do not mix: fprintf writes long
 * ones in parts, since glibc 2.37 of 128 bytes. */
static void print_line(enum mds_log_level level, const char *text)
{
    char who[320] = "", line[TEXT_SIZE + sizeof who + 32];
    int n;

    if (state.ranks > 1 && level <= MDS_LOG_WARN)
        snprintf(who, sizeof who, "[rank %d %s] ", state.rank, state.host);
    n = snprintf(line, sizeof line, "mds: %s%s: %s\n", who, level_names[level], text);
    (void)mds_stream_log(line, (size_t)n); /* there is no other place to say it */
}

void mds_log(enum mds_log_level level, const char *fmt, ...)
{
    char text[TEXT_SIZE];
    va_list ap;

    if (level > state.level || (level >= MDS_LOG_INFO && state.rank != 0))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (level == MDS_LOG_WARN && state.warnings++ < KEPT_WARNINGS)
        snprintf(state.kept[state.warnings - 1], sizeof state.kept[0], "%.511s", text);
    print_line(level, text);
}

void mds_log_repeat_warnings(void)
{
    int n = state.warnings < KEPT_WARNINGS ? state.warnings : KEPT_WARNINGS, n_text;
    char text[64];

    if (n == 0)
        return;
    n_text = snprintf(text, sizeof text, "mds: %d warning%s in this run:\n",
                      state.warnings, mds_plural(state.warnings));
    (void)mds_stream_log(text, (size_t)n_text);
    for (int i = 0; i < n; i++)
        print_line(MDS_LOG_WARN, state.kept[i]);
}
