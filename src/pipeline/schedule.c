/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/schedule.h"

#include "base/alloc.h"

#include <limits.h>
#include <stdlib.h>

enum { STEPS_PER_COMPUTATION = 3 }; /* receive, compute, send */

struct mds_schedule {
    struct mds_schedule_spec spec;
    struct mds_pipe_step *step;
    int steps;
    int *set; /* [micro_batches, chunks] */
    int sets;
    int asked[2]; /* while it is written: computations looked at for their receives */
};

enum { FWD, BWD };

static const struct ops {
    enum mds_pipe_op recv, compute, send;
} ops[] = {
    [FWD] = {MDS_PIPE_RECV_FWD, MDS_PIPE_FORWARD, MDS_PIPE_SEND_FWD},
    [BWD] = {MDS_PIPE_RECV_BWD, MDS_PIPE_BACKWARD, MDS_PIPE_SEND_BWD},
};

/* ---- what may be asked for ---- */

static enum mds_rc check_multiple(const struct mds_schedule_spec *p)
{
    int rest = p->micro_batches % p->stages, below = p->micro_batches - rest;

    if (p->chunks == 1 || rest == 0)
        return MDS_OK;
    if (below == 0)
        return mds_fail(MDS_EUSER,
                        "%d micro-batches cannot be interleaved on %d pipeline stages "
                        "with %d chunks each: use %d micro-batches, or 1 chunk",
                        p->micro_batches, p->stages, p->chunks, p->stages);
    return mds_fail(MDS_EUSER,
                    "%d micro-batches cannot be interleaved on %d pipeline stages with "
                    "%d chunks each: use %d or %d micro-batches, or 1 chunk",
                    p->micro_batches, p->stages, p->chunks, below, below + p->stages);
}

static enum mds_rc check(const struct mds_schedule_spec *p)
{
    if (p->stages < 1 || p->stage < 0 || p->stage >= p->stages || p->chunks < 1 ||
        p->micro_batches < 1 ||
        p->micro_batches > INT_MAX / (2 * STEPS_PER_COMPUTATION) / p->chunks)
        return mds_fail(MDS_EBUG,
                        "schedule of stage %d of %d: %d micro-batches, %d chunks",
                        p->stage, p->stages, p->micro_batches, p->chunks);
    if (p->chunks > 1 && p->stages == 1)
        return mds_fail(MDS_EUSER,
                        "1 pipeline stage cannot interleave %d chunks: use 1 chunk, or "
                        "2 or more stages",
                        p->chunks);
    return check_multiple(p);
}

/* ---- who gets what from whom ---- */

static int is_first(const struct mds_schedule_spec *p, int chunk)
{
    return p->stage == 0 && chunk == 0;
}

static int is_last(const struct mds_schedule_spec *p, int chunk)
{
    return p->stage == p->stages - 1 && chunk == p->chunks - 1;
}

static int receives(const struct mds_schedule_spec *p, int dir, int chunk)
{
    return dir == FWD ? !is_first(p, chunk) : !is_last(p, chunk);
}

static int sends(const struct mds_schedule_spec *p, int dir, int chunk)
{
    return receives(p, 1 - dir, chunk);
}

/* ---- the order ---- */

static int computations(const struct mds_schedule_spec *p)
{
    return p->micro_batches * p->chunks;
}

/* The i-th computation of a direction: `stages` micro-batches in the first chunk, the
 * same in the next, and after the last chunk the next micro-batches.  With one chunk,
 * micro-batch i. */
static struct mds_pipe_step computation(const struct mds_schedule_spec *p, int dir,
                                        int i)
{
    int turn = i / p->stages, chunk = turn % p->chunks;

    return (struct mds_pipe_step){
        .op = ops[dir].compute,
        .micro_batch = turn / p->chunks * p->stages + i % p->stages,
        .chunk = dir == FWD ? chunk : p->chunks - 1 - chunk,
    };
}

/* Forwards before the first backward.  With one chunk, as many as there are stages
 * behind this one; else what Megatron does: twice as many, for between two forwards a
 * backward now passes, and all turns but the last of the first group. */
static int warm_up(const struct mds_schedule_spec *p)
{
    int behind = p->stages - 1 - p->stage, all = computations(p);
    int n = p->chunks == 1 ? behind : 2 * behind + (p->chunks - 1) * p->stages;

    return p->forward_only || n > all ? all : n;
}

/* ---- writing it down ---- */

static void add(struct mds_schedule *s, struct mds_pipe_step step, enum mds_pipe_op op)
{
    step.op = op;
    s->step[s->steps++] = step;
}

/* Ask for the next message of a direction, if there is another one. */
static void add_recv(struct mds_schedule *s, int dir)
{
    while (s->asked[dir] < computations(&s->spec)) {
        struct mds_pipe_step step = computation(&s->spec, dir, s->asked[dir]++);

        if (receives(&s->spec, dir, step.chunk)) {
            add(s, step, ops[dir].recv);
            return;
        }
    }
}

static void add_computation(struct mds_schedule *s, int dir, int i)
{
    struct mds_pipe_step step = computation(&s->spec, dir, i);

    if (receives(&s->spec, dir, step.chunk))
        add_recv(s, dir); /* the one after its own */
    add(s, step, ops[dir].compute);
    if (sends(&s->spec, dir, step.chunk))
        add(s, step, ops[dir].send);
}

static void write_steps(struct mds_schedule *s)
{
    int all = computations(&s->spec), ahead = warm_up(&s->spec);
    int last = ahead < all ? ahead : all - 1; /* forward before the first backward */

    add_recv(s, FWD);
    for (int i = 0; i < all; i++) {
        if (i == last && !s->spec.forward_only)
            add_recv(s, BWD);
        add_computation(s, FWD, i);
        if (i >= ahead)
            add_computation(s, BWD, i - ahead);
    }
    for (int i = all - ahead; !s->spec.forward_only && i < all; i++)
        add_computation(s, BWD, i);
}

/* ---- where a micro-batch's activations live ---- */

static int *set_of(const struct mds_schedule *s, int micro_batch, int chunk)
{
    return &s->set[(size_t)micro_batch * (size_t)s->spec.chunks + (size_t)chunk];
}

static enum mds_rc assign_sets(struct mds_schedule *s)
{
    int n = 0, *unused;

    if (s->spec.forward_only) {
        s->sets = 1;
        return MDS_OK;
    }
    unused = mds_zalloc((size_t)computations(&s->spec), sizeof *unused);
    if (!unused)
        return MDS_EMEM;
    for (int i = 0; i < s->steps; i++) {
        int *set = set_of(s, s->step[i].micro_batch, s->step[i].chunk);

        if (s->step[i].op == MDS_PIPE_FORWARD)
            *set = n > 0 ? unused[--n] : s->sets++;
        if (s->step[i].op == MDS_PIPE_BACKWARD)
            unused[n++] = *set;
    }
    free(unused);
    return MDS_OK;
}

enum mds_rc mds_schedule_create(const struct mds_schedule_spec *spec,
                                struct mds_schedule **out)
{
    struct mds_schedule *s;
    enum mds_rc rc = MDS_EMEM;
    size_t n;

    MDS_TRY(check(spec));
    n = (size_t)computations(spec);
    s = mds_zalloc(1, sizeof *s);
    if (!s)
        return MDS_EMEM;
    s->spec = *spec;
    s->step = mds_zalloc(n, 2 * STEPS_PER_COMPUTATION * sizeof *s->step);
    s->set = mds_zalloc(n, sizeof *s->set);
    if (!s->step || !s->set)
        goto destroy;
    write_steps(s);
    rc = assign_sets(s);
    if (rc)
        goto destroy;
    *out = s;
    return MDS_OK;

destroy:
    mds_schedule_destroy(s);
    return rc;
}

void mds_schedule_destroy(struct mds_schedule *s)
{
    if (!s)
        return;
    free(s->set);
    free(s->step);
    free(s);
}

/* ---- reading it ---- */

const struct mds_schedule_spec *mds_schedule_get_spec(const struct mds_schedule *s)
{
    return &s->spec;
}

const struct mds_pipe_step *mds_schedule_steps(const struct mds_schedule *s, int *n)
{
    *n = s->steps;
    return s->step;
}

int mds_schedule_set(const struct mds_schedule *s, int micro_batch, int chunk)
{
    return *set_of(s, micro_batch, chunk);
}

int mds_schedule_sets(const struct mds_schedule *s)
{
    return s->sets;
}

int mds_schedule_is_first(const struct mds_schedule *s, int chunk)
{
    return is_first(&s->spec, chunk);
}

int mds_schedule_is_last(const struct mds_schedule *s, int chunk)
{
    return is_last(&s->spec, chunk);
}
