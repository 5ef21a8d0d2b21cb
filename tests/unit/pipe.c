/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline: the executor where nothing moves: on dry, and on one stage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pipeline/pipe.h"

/* The call fails with rc and this sentence. */
#define assert_fails(call, rc, text)                                                   \
    do {                                                                               \
        assert_int_equal(call, rc);                                                    \
        assert_string_equal(mds_fail_text(), text);                                    \
    } while (0)

static struct mds_schedule *make_schedule(int stages, int stage, int chunks, int micro,
                                          int forward_only)
{
    struct mds_schedule_spec spec = {.stages = stages,
                                     .stage = stage,
                                     .chunks = chunks,
                                     .micro_batches = micro,
                                     .forward_only = forward_only};
    struct mds_schedule *s = NULL;

    assert_int_equal(mds_schedule_create(&spec, &s), MDS_OK);
    return s;
}

/* ---- callbacks that check what they are called for ---- */

struct diary {
    const struct mds_schedule *s;
    int at;      /* steps of the list that are behind us */
    int done;    /* computations */
    int fail_at; /* the one that fails, or -1 */
    const struct mds_comm *comm;
    int inputs; /* messages worked on, */
    int early;  /* and the most that were asked for beyond them */
};

static void note_asked(struct diary *d, int input)
{
    int asked;

    if (!d->comm)
        return;
    d->inputs += input;
    asked = (int)mds_comm_stats(d->comm)->of[MDS_COMM_RECV].calls - d->inputs;
    d->early = asked > d->early ? asked : d->early;
}

/* The next computation of the list is `now`, with tensors where a chunk precedes or
 * follows. */
static enum mds_rc note(struct diary *d, struct mds_pipe_step now, const void *before,
                        const void *after)
{
    const struct mds_pipe_step *step;
    int n;

    step = mds_schedule_steps(d->s, &n);
    while (d->at < n && step[d->at].op != MDS_PIPE_FORWARD &&
           step[d->at].op != MDS_PIPE_BACKWARD)
        d->at++;
    assert_true(d->at < n);
    assert_memory_equal(&step[d->at++], &now, sizeof now);
    assert_int_equal(!before, mds_schedule_is_first(d->s, now.chunk));
    assert_int_equal(!after, mds_schedule_is_last(d->s, now.chunk));
    if (before && after)
        assert_ptr_not_equal(before, after);
    note_asked(d, now.op == MDS_PIPE_FORWARD ? before != NULL : after != NULL);
    if (d->done++ == d->fail_at)
        return mds_fail(MDS_EDEVICE, "a chunk failed");
    return MDS_OK;
}

static enum mds_rc note_forward(void *ctx, int micro_batch, int chunk, const void *in,
                                void *out)
{
    struct mds_pipe_step now = {MDS_PIPE_FORWARD, micro_batch, chunk};

    return note(ctx, now, in, out);
}

static enum mds_rc note_backward(void *ctx, int micro_batch, int chunk,
                                 const void *d_out, void *d_in)
{
    struct mds_pipe_step now = {MDS_PIPE_BACKWARD, micro_batch, chunk};

    return note(ctx, now, d_in, d_out);
}

/* ---- a stage of any pipeline, alone ---- */

struct dry_pipe {
    struct mds_dev *dev;
    struct mds_comm *comm;
    struct mds_arena arena;
    struct mds_pipe *pipe;
};

static void open_dry(struct dry_pipe *d, const struct mds_schedule *s, int64_t bytes)
{
    const struct mds_schedule_spec *shape = mds_schedule_get_spec(s);
    struct mds_dev_spec dev = {.name = "dry"};
    struct mds_pipe_spec spec = {.schedule = s, .boundary_bytes = bytes};
    int64_t most = 4 * MDS_PIPE_BUFFERS * (bytes + MDS_ARENA_ALIGN);

    *d = (struct dry_pipe){0};
    assert_int_equal(mds_dev_create(&dev, &d->dev), MDS_OK);
    assert_int_equal(mds_comm_create_dry(shape->stage, shape->stages, "pipe", &d->comm),
                     MDS_OK);
    spec.comm = d->comm;
    assert_int_equal(mds_pipe_create(&spec, &d->pipe), MDS_OK);
    assert_int_equal(mds_arena_init(&d->arena, d->dev, "state", most), MDS_OK);
    assert_int_equal(mds_pipe_alloc(d->pipe, &d->arena), MDS_OK);
    assert_int_equal(d->arena.now.by_tag[MDS_MEM_COMM], d->arena.now.used);
}

static void close_dry(struct dry_pipe *d)
{
    mds_pipe_destroy(d->pipe);
    mds_arena_fini(&d->arena);
    mds_comm_destroy(d->comm);
    mds_dev_destroy(d->dev);
}

static int gets_several(const struct mds_schedule *s)
{
    const struct mds_pipe_step *step;
    int n, fwd = 0, bwd = 0;

    step = mds_schedule_steps(s, &n);
    for (int i = 0; i < n; i++) {
        fwd += step[i].op == MDS_PIPE_RECV_FWD;
        bwd += step[i].op == MDS_PIPE_RECV_BWD;
    }
    return fwd > 1 || bwd > 1;
}

/* What is computed and sent, twice, by tensors that nobody may touch. */
static void check_dry(const struct mds_schedule *s)
{
    const struct mds_schedule_spec *p = mds_schedule_get_spec(s);
    const int64_t bytes = (1 << 30) - 1;
    struct diary diary = {.s = s, .fail_at = -1};
    struct mds_pipe_stage stage = {&diary, note_forward, note_backward};
    int passes = p->forward_only ? 1 : 2, last = p->stage == p->stages - 1;
    int sends = p->micro_batches * (p->chunks - last);
    struct dry_pipe d;

    if (!p->forward_only)
        sends += p->micro_batches * (p->chunks - (p->stage == 0));
    open_dry(&d, s, bytes);
    diary.comm = d.comm;
    for (int step = 1; step <= 2; step++) {
        diary.at = diary.done = diary.early = 0;
        assert_int_equal(mds_pipe_run(d.pipe, &stage, p->micro_batches), MDS_OK);
        assert_int_equal(diary.done, p->micro_batches * p->chunks * passes);
        /* nothing is under way while a stage does what it never did before */
        assert_true(step > 1 || diary.early == 0);
        assert_true(step == 1 || diary.early > 0 || !gets_several(s));
        assert_int_equal(mds_comm_stats(d.comm)->wire_bytes, step * sends * bytes);
    }
    close_dry(&d);
}

static void test_runs_dry(void **state)
{
    (void)state;
    for (int stages = 1; stages <= 4; stages++)
        for (int chunks = 1; chunks <= (stages > 1 ? 3 : 1); chunks++)
            for (int micro = 1; micro <= 9; micro++)
                for (int i = 0; i < 2 * stages; i++) {
                    struct mds_schedule *s;

                    if (chunks > 1 && micro % stages != 0)
                        continue;
                    s = make_schedule(stages, i / 2, chunks, micro, i % 2);
                    check_dry(s);
                    mds_schedule_destroy(s);
                }
}

static void test_buffers_are_few(void **state)
{
    static const struct {
        int stage, micro, forward_only, buffers;
    } cases[] = {
        {0, 9, 0, 4}, /* sends forward, receives backward */
        {1, 9, 0, 8}, {2, 9, 0, 4}, {1, 1, 0, 4}, {1, 9, 1, 4}, {0, 1, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mds_schedule *s =
            make_schedule(3, cases[i].stage, 1, cases[i].micro, cases[i].forward_only);
        struct dry_pipe d;

        open_dry(&d, s, 1);
        assert_int_equal(d.arena.now.used, cases[i].buffers * MDS_ARENA_ALIGN);
        close_dry(&d);
        mds_schedule_destroy(s);
    }
}

/* ---- failures ---- */

static void test_a_failing_chunk_ends_the_run(void **state)
{
    struct mds_schedule *s = make_schedule(1, 0, 1, 3, 0);

    (void)state;
    for (int fail_at = 0; fail_at < 6; fail_at++) {
        struct diary diary = {.s = s, .fail_at = fail_at};
        struct mds_pipe_stage stage = {&diary, note_forward, note_backward};
        struct dry_pipe d;

        open_dry(&d, s, 8);
        assert_int_equal(d.arena.now.used, 0);
        assert_fails(mds_pipe_run(d.pipe, &stage, 3), MDS_EDEVICE, "a chunk failed");
        assert_int_equal(diary.done, fail_at + 1);
        close_dry(&d);
    }
    mds_schedule_destroy(s);
}

static void test_pipes_refused(void **state)
{
    struct mds_pipe_stage stage = {NULL, note_forward, note_backward};
    struct mds_schedule *s = make_schedule(2, 0, 1, 3, 0);
    struct mds_pipe_spec spec = {.schedule = s, .boundary_bytes = 64};
    struct mds_comm *wrong = NULL, *right = NULL;
    struct mds_pipe *pipe = NULL;

    (void)state;
    assert_int_equal(mds_comm_create_dry(1, 2, "wrong", &wrong), MDS_OK);
    assert_int_equal(mds_comm_create_dry(0, 2, "right", &right), MDS_OK);
    spec.comm = wrong;
    assert_fails(mds_pipe_create(&spec, &pipe), MDS_EBUG,
                 "pipe: stage 0 of 2 on rank 1 of 2, tensors of 64 bytes");
    spec.comm = right;
    assert_int_equal(mds_pipe_create(&spec, &pipe), MDS_OK);
    assert_fails(mds_pipe_run(pipe, &stage, 3), MDS_EBUG,
                 "pipe: run before mds_pipe_alloc");
    mds_pipe_destroy(pipe);
    mds_comm_destroy(wrong);
    mds_comm_destroy(right);
    mds_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_dry),
        cmocka_unit_test(test_buffers_are_few),
        cmocka_unit_test(test_a_failing_chunk_ends_the_run),
        cmocka_unit_test(test_pipes_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
