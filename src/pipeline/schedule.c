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
    int *saved_buffer; /* [micro_batches, chunks] */
    int saved_buffers;
    int recvs_posted[2]; /* during creation: computations whose receives are listed */
};

enum { FWD, BWD };

static const struct ops {
    enum mds_pipe_op recv, compute, send;
} ops[] = {
    [FWD] = {MDS_PIPE_RECV_FWD, MDS_PIPE_FORWARD, MDS_PIPE_SEND_FWD},
    [BWD] = {MDS_PIPE_RECV_BWD, MDS_PIPE_BACKWARD, MDS_PIPE_SEND_BWD},
};

/* ---- checks ---- */

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

static enum mds_rc check_schedule_spec(const struct mds_schedule_spec *p)
{
    if (p->stages < 1 || p->stage < 0 || p->stage >= p->stages || p->chunks < 1 ||
        p->micro_batches < 1 ||
        p->micro_batches > INT_MAX / (2 * STEPS_PER_COMPUTATION) / p->chunks)
        return mds_fail(MDS_EBUG,
                        "invalid schedule: stage %d of %d, %d micro-batches, %d chunks",
                        p->stage, p->stages, p->micro_batches, p->chunks);
    if (p->chunks > 1 && p->stages == 1)
        return mds_fail(MDS_EUSER,
                        "1 pipeline stage cannot interleave %d chunks: use 1 chunk, or "
                        "2 or more stages",
                        p->chunks);
    return check_multiple(p);
}

/* ---- neighbours ---- */

static int is_first_chunk(const struct mds_schedule_spec *p, int chunk)
{
    return p->stage == 0 && chunk == 0;
}

static int is_last_chunk(const struct mds_schedule_spec *p, int chunk)
{
    return p->stage == p->stages - 1 && chunk == p->chunks - 1;
}

static int receives_input(const struct mds_schedule_spec *p, int dir, int chunk)
{
    return dir == FWD ? !is_first_chunk(p, chunk) : !is_last_chunk(p, chunk);
}

static int sends_output(const struct mds_schedule_spec *p, int dir, int chunk)
{
    return receives_input(p, 1 - dir, chunk);
}

/* ---- the order ---- */

static int total_computations(const struct mds_schedule_spec *p)
{
    return p->micro_batches * p->chunks;
}

/* The i-th computation of a direction: `stages` micro-batches in the first chunk, the
 * same in the next, and after the last chunk the next micro-batches.  With one chunk,
 * micro-batch i. */
static struct mds_pipe_step nth_computation(const struct mds_schedule_spec *p, int dir,
                                            int i)
{
    int turn = i / p->stages, chunk = turn % p->chunks;

    return (struct mds_pipe_step){
        .op = ops[dir].compute,
        .micro_batch = turn / p->chunks * p->stages + i % p->stages,
        .chunk = dir == FWD ? chunk : p->chunks - 1 - chunk,
    };
}

/* Number of forwards before the first backward, as in Megatron.  With one chunk, the
 * number of later stages; else twice that, as a backward now passes between two
 * forwards, plus `stages` forwards for every chunk but the last. */
static int warm_up_forwards(const struct mds_schedule_spec *p)
{
    int behind = p->stages - 1 - p->stage, all = total_computations(p);
    int n = p->chunks == 1 ? behind : 2 * behind + (p->chunks - 1) * p->stages;

    return p->forward_only || n > all ? all : n;
}

/* ---- the list of steps ---- */

static void append_op(struct mds_schedule *s, struct mds_pipe_step step,
                      enum mds_pipe_op op)
{
    step.op = op;
    s->step[s->steps++] = step;
}

/* Post the next receive of a direction, if there is one. */
static void append_next_recv(struct mds_schedule *s, int dir)
{
    while (s->recvs_posted[dir] < total_computations(&s->spec)) {
        struct mds_pipe_step step =
            nth_computation(&s->spec, dir, s->recvs_posted[dir]++);

        if (receives_input(&s->spec, dir, step.chunk)) {
            append_op(s, step, ops[dir].recv);
            return;
        }
    }
}

static void append_computation(struct mds_schedule *s, int dir, int i)
{
    struct mds_pipe_step step = nth_computation(&s->spec, dir, i);

    if (receives_input(&s->spec, dir, step.chunk))
        append_next_recv(s, dir); /* for the computation after this one */
    append_op(s, step, ops[dir].compute);
    if (sends_output(&s->spec, dir, step.chunk))
        append_op(s, step, ops[dir].send);
}

static void write_steps(struct mds_schedule *s)
{
    int all = total_computations(&s->spec), ahead = warm_up_forwards(&s->spec);
    int last = ahead < all ? ahead : all - 1; /* forward before the first backward */

    append_next_recv(s, FWD);
    for (int i = 0; i < all; i++) {
        if (i == last && !s->spec.forward_only)
            append_next_recv(s, BWD);
        append_computation(s, FWD, i);
        if (i >= ahead)
            append_computation(s, BWD, i - ahead);
    }
    for (int i = all - ahead; !s->spec.forward_only && i < all; i++)
        append_computation(s, BWD, i);
}

/* ---- buffers of saved activations ---- */

static int *saved_buffer_of(const struct mds_schedule *s, int micro_batch, int chunk)
{
    return &s->saved_buffer[(size_t)micro_batch * (size_t)s->spec.chunks +
                            (size_t)chunk];
}

static enum mds_rc assign_saved_buffers(struct mds_schedule *s)
{
    int n = 0, *unused;

    if (s->spec.forward_only) {
        s->saved_buffers = 1;
        return MDS_OK;
    }
    unused = mds_zalloc((size_t)total_computations(&s->spec), sizeof *unused);
    if (!unused)
        return MDS_EMEM;
    for (int i = 0; i < s->steps; i++) {
        int *buffer = saved_buffer_of(s, s->step[i].micro_batch, s->step[i].chunk);

        if (s->step[i].op == MDS_PIPE_FORWARD)
            *buffer = n > 0 ? unused[--n] : s->saved_buffers++;
        if (s->step[i].op == MDS_PIPE_BACKWARD)
            unused[n++] = *buffer;
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

    MDS_TRY(check_schedule_spec(spec));
    n = (size_t)total_computations(spec);
    s = mds_zalloc(1, sizeof *s);
    if (!s)
        return MDS_EMEM;
    s->spec = *spec;
    s->step = mds_zalloc(n, 2 * STEPS_PER_COMPUTATION * sizeof *s->step);
    s->saved_buffer = mds_zalloc(n, sizeof *s->saved_buffer);
    if (!s->step || !s->saved_buffer)
        goto destroy;
    write_steps(s);
    rc = assign_saved_buffers(s);
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
    free(s->saved_buffer);
    free(s->step);
    free(s);
}

/* ---- queries ---- */

const struct mds_schedule_spec *mds_schedule_get_spec(const struct mds_schedule *s)
{
    return &s->spec;
}

const struct mds_pipe_step *mds_schedule_steps(const struct mds_schedule *s, int *n)
{
    *n = s->steps;
    return s->step;
}

int mds_schedule_saved_buffer(const struct mds_schedule *s, int micro_batch, int chunk)
{
    return *saved_buffer_of(s, micro_batch, chunk);
}

int mds_schedule_saved_buffers(const struct mds_schedule *s)
{
    return s->saved_buffers;
}

int mds_schedule_is_first(const struct mds_schedule *s, int chunk)
{
    return is_first_chunk(&s->spec, chunk);
}

int mds_schedule_is_last(const struct mds_schedule *s, int chunk)
{
    return is_last_chunk(&s->spec, chunk);
}
