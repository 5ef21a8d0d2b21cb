/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/stream.h"
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST = 256 << 10 };

/* Not by O_NONBLOCK, which all processes that share the open file would get.  A pipe
 * that can be written takes PIPE_BUF bytes at once. */
static int is_writable(int fd, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, wait_ms) > 0;
}

/* Returns how many bytes were written, 0 if none can be, or -1. */
static ssize_t write_some(int fd, const char *text, size_t n, int wait_ms)
{
    ssize_t done;

    if (!is_writable(fd, wait_ms))
        return 0;
    done = write(fd, text, n < PIPE_BUF ? n : PIPE_BUF);
    if (done < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return done;
}

/* Of text, into *done; stops where the descriptor takes no more. */
static int write_now(int fd, const char *text, size_t n, size_t *done)
{
    *done = 0;
    while (*done < n) {
        ssize_t some = write_some(fd, text + *done, n - *done, 0);

        if (some < 0)
            return -1;
        if (some == 0)
            return 0;
        *done += (size_t)some;
    }
    return 0;
}

static int write_kept(struct mds_stream *s)
{
    size_t done;
    int bad = write_now(s->fd, s->kept + s->from, s->n, &done);

    s->from += done;
    s->n -= done;
    return bad;
}

static long lines_of(const char *text, size_t n)
{
    long lines = 0;

    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Leave out the older half of what is kept, and say so there; but not the line of which
 * a part may be written. */
static void leave_out_half(struct mds_stream *s)
{
    char *first = memchr(s->kept, '\n', s->n), *rest = NULL;
    char note[128];
    size_t n;

    if (s->n > MOST / 2)
        rest = memchr(s->kept + MOST / 2, '\n', s->n - MOST / 2);
    if (!first || !rest || first == rest)
        return;
    s->left_out += lines_of(first + 1, (size_t)(rest - first)) - s->says_so;
    s->says_so = 1;
    n = (size_t)snprintf(note, sizeof note,
                         "mds: warn: %ld lines were left out up to here: nobody read "
                         "them\n",
                         s->left_out);
    memmove(first + 1 + n, rest + 1, s->n - (size_t)(rest + 1 - s->kept));
    memcpy(first + 1, note, n);
    s->n = s->n - (size_t)(rest - first) + n;
}

static void keep(struct mds_stream *s, const char *text, size_t n)
{
    if (!s->kept)
        s->kept = malloc(MOST);
    if (!s->kept)
        return;
    if (s->n == 0)
        s->says_so = 0;
    memmove(s->kept, s->kept + s->from, s->n);
    s->from = 0;
    if (n > MOST - s->n)
        leave_out_half(s);
    if (n > MOST - s->n) {
        s->left_out += lines_of(text, n);
        return;
    }
    memcpy(s->kept + s->n, text, n);
    s->n += n;
}

int mds_stream_write(struct mds_stream *s, const char *text, size_t n)
{
    size_t done = 0;
    int bad = write_kept(s);

    if (!bad && s->n == 0)
        bad = write_now(s->fd, text, n, &done);
    if (!bad && done < n)
        keep(s, text + done, n - done);
    return bad;
}

int mds_stream_drain(struct mds_stream *s, double limit_s)
{
    double end_s = mds_clock_s() + limit_s;

    while (s->n > 0) {
        ssize_t some = write_some(s->fd, s->kept + s->from, s->n, 50);

        if (some < 0)
            return -1;
        s->from += (size_t)some;
        s->n -= (size_t)some;
        if (some == 0 && mds_clock_s() > end_s)
            return 0;
    }
    return 0;
}

/* ---- standard output and the log ---- */

static struct mds_stream out = {.fd = STDOUT_FILENO}, err = {.fd = STDERR_FILENO};
static int never_wait;

static ssize_t write_stdout(void *stream, const char *text, size_t n)
{
    return mds_stream_write(stream, text, n) ? 0 : (ssize_t)n;
}

void mds_streams_never_wait(void)
{
    FILE *f = fopencookie(&out, "w", (cookie_io_functions_t){.write = write_stdout});

    if (f)
        stdout = f;
    never_wait = 1;
}

int mds_stream_log(const char *text, size_t n)
{
    if (never_wait)
        return mds_stream_write(&err, text, n);
    return write(STDERR_FILENO, text, n) < 0 ? -1 : 0;
}

int mds_streams_drain(void)
{
    const double limit_s = 5;
    int bad = never_wait && mds_stream_drain(&out, limit_s);

    if (never_wait)
        (void)mds_stream_drain(&err, limit_s);
    return bad ? -1 : 0;
}
