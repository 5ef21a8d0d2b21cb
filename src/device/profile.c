/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/profile.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "device/backend.h"

#include <stdlib.h>

/* Marks in memory.  When all are used they are read, which waits for the device. */
enum { MARKS = 8192 };

struct mark {
    enum mds_profile_kind kind;
    int member, step;
    struct mdsk_cost cost;
    struct mds_timestamp begin, end;
};

struct mds_recorder {
    struct mds_profile seen; /* first: mds_profile_destroy frees it all */
    struct mds_dev *dev;     /* borrowed */
    int most;                /* steps */
    int waits_only;
    struct mds_timestamp *bound; /* [most + 1] */
    struct mark *mark;           /* [MARKS] */
    int marks;
    struct mark *open[MDS_PROFILE_KINDS];
};

/* ---- time stamps ---- */

static void record_time(struct mds_dev *dev, struct mds_timestamp *t, void *stream)
{
    if (dev->ops->record_time)
        dev->ops->record_time(dev, t, stream);
    else
        t->host_s = mds_clock_s();
}

static double elapsed_between(struct mds_dev *dev, const struct mds_timestamp *a,
                              const struct mds_timestamp *b)
{
    if (dev->ops->elapsed)
        return dev->ops->elapsed(dev, a, b);
    return b->host_s - a->host_s;
}

static void free_time(struct mds_dev *dev, struct mds_timestamp *t)
{
    if (dev->ops->free_time)
        dev->ops->free_time(dev, t);
}

/* Wait until the device has reached all marks.  mds_dev_wait would count this as time
 * that the step waits. */
static enum mds_rc wait_for_marks(struct mds_dev *dev)
{
    return dev->ops->wait ? dev->ops->wait(dev) : MDS_OK;
}

/* ---- sums ---- */

static void add_to_step(struct mds_profile_step *step, const struct mark *m, double s)
{
    if (m->kind == MDS_PROFILE_WAIT)
        step->wait_s += s;
    else if (m->kind == MDS_PROFILE_MOVE)
        step->move_s += s;
    else if (m->kind == MDS_PROFILE_HOST)
        return;
    else if (m->member == MDS_OP_COPY_IN || m->member == MDS_OP_COPY_OUT)
        step->copy_s += s;
    else
        step->compute_s += s;
}

/* The row for m: same operation and, while there are enough rows, same FLOPs. */
static struct mds_profile_row *find_row(struct mds_profile *p, const struct mark *m)
{
    struct mds_profile_row *same = NULL;

    for (int i = 0; i < p->rows; i++) {
        struct mds_profile_row *row = &p->row[i];

        if (row->kind != m->kind || row->member != m->member)
            continue;
        same = row;
        if (row->cost.flops == m->cost.flops * (double)row->calls)
            return row;
    }
    if (same && p->rows >= MDS_PROFILE_ROWS / 2)
        return same;
    same = &p->row[p->rows++];
    same->kind = m->kind;
    same->member = m->member;
    return same;
}

static void add_call(struct mds_profile *p, const struct mark *m, double s)
{
    struct mds_profile_row *row = find_row(p, m);

    row->calls++;
    row->s += s;
    row->cost.flops += m->cost.flops;
    row->cost.bytes += m->cost.bytes;
    add_to_step(&p->step[m->step], m, s);
}

/* Read and remove all marks except open ones. */
static void read_marks(struct mds_recorder *r)
{
    int kept = 0;

    wait_for_marks(r->dev); /* the next copy_out reports a failure again */
    for (int i = 0; i < r->marks; i++) {
        struct mark *m = &r->mark[i];

        if (r->open[m->kind] == m) {
            struct mark swap = r->mark[kept];

            r->mark[kept] = *m;
            *m = swap;
            r->open[r->mark[kept].kind] = &r->mark[kept];
            kept++;
            continue;
        }
        add_call(&r->seen, m, elapsed_between(r->dev, &m->begin, &m->end));
    }
    r->marks = kept;
}

static void finish_steps(struct mds_recorder *r)
{
    for (int i = 0; i < r->seen.steps; i++) {
        struct mds_profile_step *s = &r->seen.step[i];

        s->total_s = elapsed_between(r->dev, &r->bound[i], &r->bound[i + 1]);
        s->idle_s = s->total_s - s->compute_s - s->copy_s - s->wait_s;
    }
}

/* ---- marks ---- */

void mds_profile_begin(struct mds_dev *dev, enum mds_profile_kind kind, int member,
                       struct mdsk_cost cost, void *stream)
{
    struct mds_recorder *r = dev ? dev->recorder : NULL;
    struct mark *m;

    if (!r || r->seen.steps == r->most || r->open[kind] ||
        (r->waits_only && kind != MDS_PROFILE_WAIT))
        return;
    if (r->marks == MARKS)
        read_marks(r);
    m = &r->mark[r->marks++];
    m->kind = kind;
    m->member = member;
    m->step = r->seen.steps;
    m->cost = cost;
    r->open[kind] = m;
    record_time(dev, &m->begin, stream);
}

void mds_profile_end(struct mds_dev *dev, enum mds_profile_kind kind, void *stream)
{
    struct mds_recorder *r = dev ? dev->recorder : NULL;

    if (!r || !r->open[kind])
        return;
    record_time(dev, &r->open[kind]->end, stream);
    r->open[kind] = NULL;
}

void mds_profile_add(struct mds_dev *dev, enum mds_profile_kind kind, int member,
                     struct mdsk_cost cost, double s)
{
    struct mds_recorder *r = dev->recorder;

    if (r && !r->waits_only && r->seen.steps < r->most)
        add_call(
            &r->seen,
            &(struct mark){
                .kind = kind, .member = member, .step = r->seen.steps, .cost = cost},
            s);
}

void mds_profile_host_wait(struct mds_dev *dev, double s)
{
    struct mds_recorder *r = dev->recorder;

    if (r && r->seen.steps < r->most)
        r->seen.step[r->seen.steps].host_s += s;
}

/* ---- start and stop ---- */

static void destroy_recorder(struct mds_recorder *r)
{
    for (int i = 0; r->mark && i < MARKS; i++) {
        free_time(r->dev, &r->mark[i].begin);
        free_time(r->dev, &r->mark[i].end);
    }
    for (int i = 0; r->bound && i <= r->most; i++)
        free_time(r->dev, &r->bound[i]);
    free(r->mark);
    free(r->bound);
    r->mark = NULL;
    r->bound = NULL;
}

static enum mds_rc start_recorder(struct mds_dev *dev, int most, int waits_only)
{
    struct mds_recorder *r;

    if (dev->recorder || most < 1 || !dev->kern)
        return mds_fail(
            MDS_EBUG,
            "profile of %d steps on %s: already started, or nothing to profile", most,
            dev->ops->name);
    r = mds_zalloc(1, sizeof *r);
    if (!r)
        return MDS_EMEM;
    r->dev = dev;
    r->most = most;
    r->waits_only = waits_only;
    r->bound = mds_zalloc((size_t)most + 1, sizeof *r->bound);
    r->mark = mds_zalloc(MARKS, sizeof *r->mark);
    r->seen.step = mds_zalloc((size_t)most, sizeof *r->seen.step);
    if (!r->bound || !r->mark || !r->seen.step) {
        destroy_recorder(r);
        mds_profile_destroy(&r->seen);
        return MDS_EMEM;
    }
    dev->recorder = r;
    if (dev->ops->capture && !waits_only)
        dev->ops->capture(dev, 1);
    record_time(dev, &r->bound[0], NULL);
    return MDS_OK;
}

enum mds_rc mds_profile_start(struct mds_dev *dev, int most)
{
    return start_recorder(dev, most, 0);
}

enum mds_rc mds_profile_start_waits(struct mds_dev *dev, int most)
{
    return start_recorder(dev, most, 1);
}

void mds_profile_step(struct mds_dev *dev)
{
    struct mds_recorder *r = dev->recorder;

    if (r && r->seen.steps < r->most)
        record_time(dev, &r->bound[++r->seen.steps], NULL);
}

enum mds_rc mds_profile_stop(struct mds_dev *dev, struct mds_profile **out)
{
    struct mds_recorder *r = dev->recorder;
    enum mds_rc rc;

    if (!r)
        return mds_fail(MDS_EBUG, "profile on %s: not started", dev->ops->name);
    dev->recorder = NULL;
    rc = wait_for_marks(dev);
    if (!rc) {
        read_marks(r);
        finish_steps(r);
    }
    if (dev->ops->capture && !r->waits_only)
        dev->ops->capture(dev, 0);
    destroy_recorder(r);
    if (rc)
        mds_profile_destroy(&r->seen);
    else
        *out = &r->seen;
    return rc;
}

void mds_profile_destroy(struct mds_profile *p)
{
    if (!p)
        return;
    free(p->step);
    free(p);
}
