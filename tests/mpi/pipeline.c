/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline: real messages between fake stages, on as many ranks as it is started with.
 *
 * Virtual stage k maps x to a_k x + b_k.  All numbers are small multiples of powers of
 * two, so results and gradients are exact and compared as such with the composed
 * function's. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pipeline/pipe.h"
#include "tests/mpi/ranks.h"

enum { MOST_SETS = 64, SMALL = 5, LARGE = 1 << 16 }; /* doubles: LARGE is never eager */

/* ---- the model ---- */

static double slope(int virtual_stage)
{
    static const double a[] = {1, -1, 2, 0.5, -1};

    return a[virtual_stage % 5];
}

static double offset(int virtual_stage)
{
    return virtual_stage % 7 - 3;
}

static double batch(int micro_batch, int i)
{
    return (micro_batch * 5 + i) % 17 - 8;
}

/* The gradient of the loss by the model's output. */
static double loss_gradient(int micro_batch, int i)
{
    return (micro_batch * 3 + i) % 11 - 5;
}

/* ---- a stage of it ---- */

struct stage {
    const struct mds_schedule *s;
    int micro_batches;          /* of the schedule's, that run */
    int n;                      /* numbers in a tensor */
    double *kept[MOST_SETS];    /* a virtual stage's input, for backward */
    double loss;                /* sum of loss_gradient * output */
    double *d_slope, *d_offset; /* [chunks] */
    double d_batch; /* sum of the first virtual stage's input's gradient * batch */
    uint32_t dice;  /* differs between ranks: they wait at random */
};

static int virtual_stage_of(int chunk)
{
    return chunk * world.ranks + world.rank;
}

/* Now and then this stage is late. */
static void dawdle(struct stage *st)
{
    st->dice = st->dice * 1664525u + 1013904223u;
    if (st->dice >> 29 == 0)
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
}

static enum mds_rc forward(void *ctx, int micro_batch, int chunk, const void *in,
                           void *out)
{
    struct stage *st = ctx;
    const double *x = in;
    double *y = out,
           *kept = st->kept[mds_schedule_saved_buffer(st->s, micro_batch, chunk)];
    int virtual_stage = virtual_stage_of(chunk);

    dawdle(st);
    for (int i = 0; i < st->n; i++) {
        double value;

        kept[i] = x ? x[i] : batch(micro_batch, i);
        value = slope(virtual_stage) * kept[i] + offset(virtual_stage);
        if (y)
            y[i] = value;
        else
            st->loss += loss_gradient(micro_batch, i) * value;
    }
    return MDS_OK;
}

static enum mds_rc backward(void *ctx, int micro_batch, int chunk, const void *d_out,
                            void *d_in)
{
    struct stage *st = ctx;
    const double *dy = d_out;
    double *dx = d_in,
           *kept = st->kept[mds_schedule_saved_buffer(st->s, micro_batch, chunk)];
    int virtual_stage = virtual_stage_of(chunk);

    dawdle(st);
    for (int i = 0; i < st->n; i++) {
        double d = dy ? dy[i] : loss_gradient(micro_batch, i);

        st->d_slope[chunk] += d * kept[i];
        st->d_offset[chunk] += d;
        if (dx)
            dx[i] = slope(virtual_stage) * d;
        else
            st->d_batch += slope(virtual_stage) * d * kept[i];
    }
    return MDS_OK;
}

/* ---- the same on one rank, at once ---- */

struct reference {
    double loss, d_batch;
    double d_slope[256], d_offset[256]; /* by virtual stage */
};

static void refer_one(struct reference *r, int virtual_stages, int micro_batch, int i)
{
    double x[257], d = loss_gradient(micro_batch, i);

    x[0] = batch(micro_batch, i);
    for (int k = 0; k < virtual_stages; k++)
        x[k + 1] = slope(k) * x[k] + offset(k);
    r->loss += d * x[virtual_stages];
    for (int k = virtual_stages - 1; k >= 0; k--) {
        r->d_slope[k] += d * x[k];
        r->d_offset[k] += d;
        d *= slope(k);
    }
    r->d_batch += d * x[0];
}

/* How many of this stage's results are not `steps` times the reference's. */
static int compare(const struct stage *st, int steps, int trained)
{
    const struct mds_schedule_spec *p = mds_schedule_get_spec(st->s);
    struct reference r = {0};
    int bad = 0;

    for (int m = 0; m < st->micro_batches; m++)
        for (int i = 0; i < st->n; i++)
            refer_one(&r, p->stages * p->chunks, m, i);
    if (p->stage == p->stages - 1)
        bad += st->loss != steps * r.loss;
    if (p->stage == 0)
        bad += st->d_batch != trained * steps * r.d_batch;
    for (int c = 0; c < p->chunks; c++) {
        bad += st->d_slope[c] != trained * steps * r.d_slope[virtual_stage_of(c)];
        bad += st->d_offset[c] != trained * steps * r.d_offset[virtual_stage_of(c)];
    }
    return bad;
}

/* ---- runs ---- */

static void run(const struct mds_schedule *s, struct stage *st, int steps)
{
    struct mds_pipe_stage callbacks = {st, forward, backward};
    struct mds_dev_spec cpu = {.name = "cpu", .threads = 1};
    struct mds_pipe_spec spec = {
        .schedule = s, .comm = all, .boundary_bytes = st->n * (int64_t)sizeof(double)};
    int64_t most = 4 * MDS_PIPE_BUFFERS * (spec.boundary_bytes + MDS_ARENA_ALIGN);
    struct mds_dev *dev = NULL;
    struct mds_arena arena = {0};
    struct mds_pipe *pipe = NULL;

    must(mds_dev_create(&cpu, &dev), "device");
    must(mds_pipe_create(&spec, &pipe), "pipe");
    must(mds_arena_init(&arena, dev, "pipe", most), "arena");
    must(mds_pipe_alloc(pipe, &arena), "take");
    for (int i = 0; i < steps; i++)
        must(mds_pipe_run(pipe, &callbacks, st->micro_batches), "run");
    mds_pipe_destroy(pipe);
    mds_arena_fini(&arena);
    mds_dev_destroy(dev);
}

static void test(int chunks, int micro, int n, int forward_only, int ran)
{
    enum { STEPS = 2 };
    struct mds_schedule_spec spec = {.stages = world.ranks,
                                     .stage = world.rank,
                                     .chunks = chunks,
                                     .micro_batches = micro,
                                     .forward_only = forward_only};
    struct stage st = {
        .micro_batches = ran, .n = n, .dice = (uint32_t)world.rank * 77u + 1u};
    struct mds_schedule *s = NULL;
    char name[96];

    must(mds_schedule_create(&spec, &s), "schedule");
    st.s = s;
    for (int i = 0; i < mds_schedule_saved_buffers(s); i++)
        st.kept[i] = calloc((size_t)n, sizeof(double));
    st.d_slope = calloc((size_t)chunks, sizeof(double));
    st.d_offset = calloc((size_t)chunks, sizeof(double));
    run(s, &st, STEPS);
    snprintf(name, sizeof name, "%s: %d chunks, %d of %d micro-batches, %d numbers",
             forward_only ? "evaluate" : "train", chunks, ran, micro, n);
    check(compare(&st, STEPS, !forward_only), name);
    for (int i = 0; i < mds_schedule_saved_buffers(s); i++)
        free(st.kept[i]);
    free(st.d_slope);
    free(st.d_offset);
    mds_schedule_destroy(s);
}

int main(void)
{
    ranks_init();
    for (int chunks = 1; chunks <= (world.ranks > 1 ? 3 : 1); chunks++) {
        int by = chunks > 1 ? world.ranks : 1;

        for (int micro = by; micro <= 3 * world.ranks; micro += by)
            test(chunks, micro, SMALL, 0, micro);
        test(chunks, 2 * world.ranks, LARGE, 0, 2 * world.ranks);
        for (int ran = 1; ran <= 2 * world.ranks; ran++)
            test(chunks, 2 * world.ranks, LARGE, 1, ran);
    }
    return ranks_fini();
}
