/* SPDX-License-Identifier: BSD-3-Clause */
/* A record of what this rank is doing, for the error line when it ends.
 *
 * A signal handler, or the monitor process of a killed rank, may read the record while
 * it is being written.  A line may then mix two calls, but strings are always
 * terminated and pointers point to literals. */
#include "monitor/monitor.h"

#include "base/clock.h"
#include "kernels/types.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

static struct mds_watch own = {.rank = -1}, *w = &own;

static const char *const kind_names[MDS_COMM_KINDS] = {
    [MDS_COMM_ALL_REDUCE] = "all_reduce",
    [MDS_COMM_REDUCE_SCATTER] = "reduce_scatter",
    [MDS_COMM_ALL_GATHER] = "all_gather",
    [MDS_COMM_ALL_TO_ALL] = "all_to_all",
    [MDS_COMM_EXCHANGE] = "exchange",
    [MDS_COMM_BROADCAST] = "broadcast",
    [MDS_COMM_BARRIER] = "barrier",
    [MDS_COMM_F64] = "all_reduce_f64",
    [MDS_COMM_SEND] = "send",
    [MDS_COMM_RECV] = "recv",
};

const char *mds_comm_kind_name(enum mds_comm_kind kind)
{
    return kind_names[kind];
}

struct mds_watch *mds_watch_use(struct mds_watch *place)
{
    if (place) {
        *place = *w;
        w = place;
    }
    return w;
}

/* The last byte stays 0. */
static void copy_record(struct mds_watch_record *to, const char *group,
                        const struct mds_comm_call *call)
{
    memccpy(to->group, group, '\0', sizeof to->group - 1);
    to->call = *call;
}

void mds_watch_entered(const char *group, const struct mds_comm_call *call)
{
    copy_record(&w->entered, group, call);
}

void mds_watch_begin(const char *group, const struct mds_comm_call *call)
{
    copy_record(&w->now, group, call);
    w->since = mds_clock_s();
    w->waited_for = -1;
    w->waits = 1;
}

void mds_watch_awaited(int rank)
{
    w->waited_for = rank;
}

void mds_watch_end(void)
{
    w->waits = 0;
}

void mds_watch_done(const char *group, const struct mds_comm_call *call)
{
    copy_record(&w->last, group, call);
}

/* A text cut to `size` bytes.  Not by printf, which is not async-signal-safe. */
struct text {
    char *to;
    int used, size;
};

static void append_text(struct text *t, const char *s)
{
    while (*s && t->used < t->size - 1)
        t->to[t->used++] = *s++;
    t->to[t->used] = '\0';
}

static void append_number(struct text *t, int64_t n)
{
    char digits[24], *p = digits + sizeof digits - 1;

    *p = '\0';
    do
        *--p = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    append_text(t, p);
}

static void append_labelled_number(struct text *t, const char *before, int64_t n)
{
    append_text(t, before);
    append_number(t, n);
}

/* The path from src/ on, whatever directory the compiler ran in. */
static const char *strip_to_src(const char *file)
{
    const char *src = strstr(file, "src/");

    return src ? src : file;
}

static void append_call(struct text *t, const struct mds_comm_call *call)
{
    static const char *const units[] = {
        [MDSK_F32] = " f32", [MDSK_BF16] = " bf16", [MDSK_F16] = " f16",
        [MDSK_I32] = " i32", [MDSK_F64] = " f64",
    };

    append_text(t, mds_comm_kind_name(call->kind));
    if (call->number > 0)
        append_labelled_number(t, " #", call->number);
    if (call->kind != MDS_COMM_BARRIER) {
        append_labelled_number(t, " of ", call->count);
        append_text(t, call->dtype < 0 ? " bytes" : units[call->dtype]);
    }
    if (call->op == MDS_COMM_MAX)
        append_text(t, " (max)");
    if (call->peer >= 0) {
        append_labelled_number(
            t, call->kind == MDS_COMM_SEND ? " to its rank " : " from its rank ",
            call->peer);
        if (call->kind != MDS_COMM_BROADCAST)
            append_labelled_number(t, " tag ", call->tag);
    }
    append_text(t, " at ");
    append_text(t, strip_to_src(call->file));
    append_labelled_number(t, ":", call->line);
}

static void append_record(struct text *t, const struct mds_watch_record *r)
{
    if (!r->call.file) {
        append_text(t, "nothing");
        return;
    }
    append_text(t, r->group);
    append_text(t, " ");
    append_call(t, &r->call);
}

int mds_watch_record_text(const struct mds_watch_record *r, char *text, int size)
{
    struct text t = {text, 0, size};

    append_record(&t, r);
    return t.used;
}

int mds_watch_call_text(const struct mds_comm_call *call, char *text, int size)
{
    struct text t = {text, 0, size};

    append_call(&t, call);
    return t.used;
}

static void append_wait_line(struct text *t)
{
    append_labelled_number(t, "rank ", w->rank);
    if (w->waits) {
        append_labelled_number(t, " has waited ", (int64_t)(mds_clock_s() - w->since));
        append_text(t, " s in ");
        append_record(t, &w->now);
        if (w->waited_for >= 0)
            append_labelled_number(t, " for rank ", w->waited_for);
    }
    append_text(t, ", last completed: ");
    append_record(t, &w->last);
}

int mds_watch_line(char *line, int size)
{
    struct text t = {line, 0, size};

    append_wait_line(&t);
    return t.used;
}

ssize_t mds_watch_write(const char *text)
{
    struct pollfd reader = {.fd = STDERR_FILENO, .events = POLLOUT};
    char line[1024];
    struct text t = {line, 0, sizeof line - 1};

    append_text(&t, text);
    if (w->rank >= 0) {
        append_text(&t, ": ");
        append_wait_line(&t);
    }
    line[t.used++] = '\n';
    if (poll(&reader, 1, 1000) == 0)
        return 0; /* it may have stopped for good */
    return write(STDERR_FILENO, line, (size_t)t.used);
}
