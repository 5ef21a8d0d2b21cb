/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of a dry group's calls. */
#include "comm/internal.h"
#include "device/clock.h"

#include <math.h>

void mds_comm_set_rates(struct mds_comm *c, const struct mds_comm_rates *rates)
{
    c->rates = c->peers.size > 1 ? rates : NULL;
}

double mds_comm_exposed_s(const struct mds_comm *c)
{
    return c->exposed_s;
}

/* Peers of a ring send when this rank does, so a message arrives as it would leave. */
static double seconds(const struct mds_comm *c, const struct mds_comm_call *call)
{
    int arrives = call->kind == MDS_COMM_RECV && !c->rates->in_turn;
    int64_t bytes = arrives ? call->count : call->wire_bytes;

    return c->rates->of[call->kind].call_s +
           c->rates->of[call->kind].byte_s * (double)bytes;
}

void mds_comm_clock_start(struct mds_comm *c, const struct mds_comm_call *call,
                          struct mds_comm_flight *f)
{
    struct mds_dev_clock *clock = mds_dev_clock(c->rates->dev);
    double *link = &clock->line_s[c->rates->network ? MDS_LINE_NETWORK : MDS_LINE_NODE];
    double *line = &c->line_s[call->kind == MDS_COMM_SEND   ? 1
                              : call->kind == MDS_COMM_RECV ? 2
                                                            : 0];
    double begin = fmax(clock->now_s, *line), others = fmax(*link - begin, 0);

    f->s = seconds(c, call);
    f->compute_s = clock->compute_s;
    f->end_s = *line =
        begin + f->s + c->rates->of[call->kind].shared * fmin(f->s, others);
    if (call->kind != MDS_COMM_RECV)
        *link = fmax(*link, begin) + f->s;
    if (c->rates->in_turn)
        c->exposed_s += mds_dev_clock_wait(c->rates->dev, f->end_s);
}

void mds_comm_clock_wait(struct mds_comm *c, const struct mds_comm_flight *f)
{
    struct mds_dev_clock *clock;
    double s;

    if (!c->rates)
        return;
    clock = mds_dev_clock(c->rates->dev);
    s = mds_dev_clock_wait(c->rates->dev, f->end_s);
    c->exposed_s += s;
    if (c->rates->in_turn)
        return;
    s = fmin(fmax(f->s - s, 0), clock->compute_s - f->compute_s) * c->rates->beside;
    clock->now_s += s;
    c->exposed_s += s;
}

int mds_comm_clock_passed(const struct mds_comm *c, const struct mds_comm_flight *f)
{
    return !c->rates || f->end_s <= mds_dev_clock(c->rates->dev)->now_s;
}
