/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/events.h"
#include "base/str.h"
#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { END = 3 }; /* the quote, brace and line end that close any record */

static char path[PATH_MAX];

void mds_events_open(const char *name)
{
    snprintf(path, sizeof path, "%s", name ? name : "");
}

/* ---- by hand, as printf is not async-signal-safe ---- */

/* As long as it fits; 0 or -1. */
static int append(struct mds_event *e, const char *text, int n)
{
    if (e->n + n > MDS_EVENT_SIZE - 1 - END)
        return -1;
    memcpy(e->text + e->n, text, (size_t)n);
    e->n += n;
    return 0;
}

static void append_escaped(struct mds_event *e, const char *text)
{
    char c[MDS_JSON_ESCAPED];
    int n;

    while (*text) {
        text += mds_json_escape(text, c, &n);
        if (append(e, c, n))
            return;
    }
}

static void append_number(struct mds_event *e, int64_t value)
{
    char digits[24], *p = digits + sizeof digits;
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

    do
        *--p = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (value < 0)
        *--p = '-';
    append(e, p, (int)(digits + sizeof digits - p));
}

/* 0, or -1: neither key nor a number would fit. */
static int append_key(struct mds_event *e, const char *key)
{
    int n = (int)strlen(key);

    if (e->n + n + 40 > MDS_EVENT_SIZE - 1 - END)
        return -1;
    append(e, e->n > 1 ? ",\"" : "\"", e->n > 1 ? 2 : 1);
    append(e, key, n);
    append(e, "\":", 2);
    return 0;
}

/* ---- a record ---- */

/* Seconds and milliseconds since 1970. */
static void append_time(struct mds_event *e)
{
    struct timespec t;
    char ms[4] = ".000";

    clock_gettime(CLOCK_REALTIME, &t);
    append_key(e, "time");
    append_number(e, t.tv_sec);
    for (int i = 3, left = (int)(t.tv_nsec / 1000000); i > 0; i--, left /= 10)
        ms[i] = (char)('0' + left % 10);
    append(e, ms, 4);
}

void mds_event_begin(struct mds_event *e, const char *name)
{
    e->n = 0;
    append(e, "{", 1);
    mds_event_add_int(e, "v", MDS_EVENTS_VERSION);
    append_time(e);
    mds_event_add_text(e, "event", name);
}

void mds_event_add_text(struct mds_event *e, const char *key, const char *text)
{
    if (append_key(e, key))
        return;
    if (!text) {
        append(e, "null", 4);
        return;
    }
    append(e, "\"", 1);
    append_escaped(e, text);
    e->text[e->n++] = '"'; /* END keeps room for it */
}

void mds_event_add_int(struct mds_event *e, const char *key, int64_t value)
{
    if (!append_key(e, key))
        append_number(e, value);
}

void mds_event_add_real(struct mds_event *e, const char *key, double value)
{
    char text[32] = "null";

    if (append_key(e, key))
        return;
    if (isfinite(value))
        mds_format_real(value, text, sizeof text);
    append(e, text, (int)strlen(text));
}

/* Whether the file ends within a line. */
static int is_torn(int fd)
{
    struct stat st;
    char last = '\n';

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
           pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n';
}

int mds_event_end(struct mds_event *e)
{
    int fd, torn, bad, why;
    ssize_t n;

    if (!path[0])
        return 0;
    fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0)
        return -1;
    torn = is_torn(fd);
    memmove(e->text + torn, e->text, (size_t)e->n);
    e->text[0] = torn ? '\n' : '{';
    e->n += torn;
    e->text[e->n++] = '}';
    e->text[e->n++] = '\n';
    n = write(fd, e->text, (size_t)e->n);
    why = n < 0 ? errno : ENOSPC;
    bad = n != e->n;
    if (close(fd) && !bad) {
        bad = 1;
        why = errno;
    }
    if (bad)
        errno = why;
    return bad ? -1 : 0;
}
