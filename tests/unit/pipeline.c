/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline: schedules of all small shapes, played by all stages at once.
 * The executor has tests/unit/pipe.c and tests/mpi/pipeline.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pipeline/schedule.h"

enum { STAGES = 8, MICRO = 16, CHUNKS = 4, VIRTUAL_STAGES = STAGES * CHUNKS };

/* The call fails with rc and this sentence. */
#define assert_fails(call, rc, text)                                                   \
    do {                                                                               \
        assert_int_equal(call, rc);                                                    \
        assert_string_equal(mds_fail_text(), text);                                    \
    } while (0)

/* ---- a pipeline: the schedules of all its stages ---- */

struct pipeline {
    int stages, chunks, micro;
    struct mds_schedule *s[STAGES];
};

static void open_pipeline(struct pipeline *p, int stages, int chunks, int micro,
                          int forward_only)
{
    *p = (struct pipeline){.stages = stages, .chunks = chunks, .micro = micro};
    for (int i = 0; i < stages; i++) {
        struct mds_schedule_spec spec = {.stages = stages,
                                         .stage = i,
                                         .chunks = chunks,
                                         .micro_batches = micro,
                                         .forward_only = forward_only};

        assert_int_equal(mds_schedule_create(&spec, &p->s[i]), MDS_OK);
    }
}

static void close_pipeline(struct pipeline *p)
{
    for (int i = 0; i < p->stages; i++)
        mds_schedule_destroy(p->s[i]);
}

static int is_fwd(enum mds_pipe_op op)
{
    return op <= MDS_PIPE_SEND_FWD;
}

static int virtual_stage(const struct pipeline *p, int stage,
                         const struct mds_pipe_step *s)
{
    return s->chunk * p->stages + stage;
}

/* Do `f` for every pipeline that there may be, for training and for evaluation. */
static void for_all(void (*f)(const struct pipeline *p))
{
    for (int stages = 1; stages <= STAGES; stages++)
        for (int chunks = 1; chunks <= (stages > 1 ? CHUNKS : 1); chunks++)
            for (int micro = 1; micro <= MICRO; micro++)
                for (int eval = 0; eval <= 1; eval++) {
                    struct pipeline p;

                    if (chunks > 1 && micro % stages != 0)
                        continue;
                    open_pipeline(&p, stages, chunks, micro, eval);
                    f(&p);
                    close_pipeline(&p);
                }
}

static int trains(const struct pipeline *p)
{
    return !mds_schedule_get_spec(p->s[0])->forward_only;
}

/* ---- what one list must be ---- */

/* Each chunk's micro-batches in order, each once, no backward before its forward. */
static void check_computations(const struct pipeline *p, int stage)
{
    const struct mds_pipe_step *step;
    int forwards[CHUNKS] = {0}, backwards[CHUNKS] = {0}, n;

    step = mds_schedule_steps(p->s[stage], &n);
    for (int i = 0; i < n; i++) {
        int c = step[i].chunk;

        assert_in_range(c, 0, p->chunks - 1);
        if (step[i].op == MDS_PIPE_FORWARD)
            assert_int_equal(step[i].micro_batch, forwards[c]++);
        if (step[i].op == MDS_PIPE_BACKWARD) {
            assert_int_equal(step[i].micro_batch, backwards[c]++);
            assert_true(backwards[c] <= forwards[c]);
        }
    }
    for (int c = 0; c < p->chunks; c++) {
        assert_int_equal(forwards[c], p->micro);
        assert_int_equal(backwards[c], trains(p) ? p->micro : 0);
    }
}

/* In a direction: every input but the model's is asked for, in the order of use and
 * early enough, one ahead at most; every output but the model's is sent at once. */
static void check_messages(const struct pipeline *p, int stage, int fwd)
{
    const struct mds_pipe_step *step, *asked[MICRO * CHUNKS];
    int n, begun = 0, used = 0, last = fwd ? p->stages * p->chunks - 1 : 0;
    int first = fwd ? 0 : p->stages * p->chunks - 1;

    step = mds_schedule_steps(p->s[stage], &n);
    for (int i = 0; i < n; i++) {
        const struct mds_pipe_step *s = &step[i];

        if (is_fwd(s->op) != fwd)
            continue;
        if (s->op == MDS_PIPE_RECV_FWD || s->op == MDS_PIPE_RECV_BWD) {
            asked[begun++] = s;
            assert_true(begun - used <= MDS_PIPE_BUFFERS);
        }
        if (s->op != MDS_PIPE_FORWARD && s->op != MDS_PIPE_BACKWARD)
            continue;
        if (virtual_stage(p, stage, s) != first) {
            assert_true(used < begun);
            assert_int_equal(asked[used]->micro_batch, s->micro_batch);
            assert_int_equal(asked[used++]->chunk, s->chunk);
        }
        if (virtual_stage(p, stage, s) != last) {
            assert_true(i + 1 < n);
            assert_int_equal(s[1].op, s->op + 1); /* the send */
            assert_int_equal(s[1].micro_batch, s->micro_batch);
            assert_int_equal(s[1].chunk, s->chunk);
        }
    }
    assert_int_equal(begun, used);
}

/* The first gradient is asked for no earlier than a forward before it is used: while a
 * GPU waits for a message it has less to compute with. */
static void check_first_gradient(const struct pipeline *p, int stage)
{
    const struct mds_pipe_step *step;
    int n, forwards = 0, asked = 0;

    step = mds_schedule_steps(p->s[stage], &n);
    for (int i = 0; i < n && step[i].op != MDS_PIPE_BACKWARD; i++) {
        asked |= step[i].op == MDS_PIPE_RECV_BWD;
        forwards += asked && step[i].op == MDS_PIPE_FORWARD;
    }
    assert_in_range(forwards, 0, 1);
}

static int count(const struct pipeline *p, int stage, enum mds_pipe_op op)
{
    const struct mds_pipe_step *step;
    int n, found = 0;

    step = mds_schedule_steps(p->s[stage], &n);
    for (int i = 0; i < n; i++)
        found += step[i].op == op;
    return found;
}

static void check_lists(const struct pipeline *p)
{
    for (int i = 0; i < p->stages; i++) {
        int messages = p->micro * (p->chunks - (i == p->stages - 1));

        check_computations(p, i);
        check_messages(p, i, 1);
        check_messages(p, i, 0);
        check_first_gradient(p, i);
        assert_int_equal(count(p, i, MDS_PIPE_SEND_FWD), messages);
        assert_int_equal(count(p, i, MDS_PIPE_RECV_BWD), trains(p) ? messages : 0);
    }
}

static void test_every_computation_and_message_once(void **state)
{
    (void)state;
    for_all(check_lists);
}

/* ---- what two lists must agree on ---- */

/* The chunks and micro-batches that `stage` sends or receives, in order. */
static int transcript(const struct pipeline *p, int stage, enum mds_pipe_op op,
                      int out[MICRO * CHUNKS])
{
    const struct mds_pipe_step *step;
    int n, found = 0,
           next = op == MDS_PIPE_SEND_FWD   ? 1
                  : op == MDS_PIPE_SEND_BWD ? -1
                                            : 0;

    step = mds_schedule_steps(p->s[stage], &n);
    for (int i = 0; i < n; i++)
        if (step[i].op == op)
            out[found++] = (virtual_stage(p, stage, &step[i]) + next) * MICRO +
                           step[i].micro_batch;
    return found;
}

static void check_pairs(const struct pipeline *p)
{
    int sent[MICRO * CHUNKS], received[MICRO * CHUNKS];

    for (int i = 0; i < p->stages; i++) {
        int next = (i + 1) % p->stages;
        int n = transcript(p, i, MDS_PIPE_SEND_FWD, sent);

        assert_int_equal(transcript(p, next, MDS_PIPE_RECV_FWD, received), n);
        assert_memory_equal(sent, received, (size_t)n * sizeof *sent);
        n = transcript(p, next, MDS_PIPE_SEND_BWD, sent);
        assert_int_equal(transcript(p, i, MDS_PIPE_RECV_BWD, received), n);
        assert_memory_equal(sent, received, (size_t)n * sizeof *sent);
    }
}

/* ---- steps of fewer micro-batches ---- */

enum { RECEIVES = 1 << MDS_PIPE_RECV_FWD | 1 << MDS_PIPE_RECV_BWD };

/* What of these kinds (bits) a stage does for its first `micro` micro-batches, in
 * order. */
static int order_of(const struct pipeline *p, int stage, int micro, unsigned kinds,
                    struct mds_pipe_step out[6 * MICRO * CHUNKS])
{
    const struct mds_pipe_step *step;
    int n, found = 0;

    step = mds_schedule_steps(p->s[stage], &n);
    for (int i = 0; i < n; i++)
        if (step[i].micro_batch < micro && (1u << step[i].op & kinds))
            out[found++] = step[i];
    return found;
}

/* Receives may be posted at another time, but in the same order. */
static void check_fewer(const struct pipeline *p)
{
    static struct mds_pipe_step a[6 * MICRO * CHUNKS], b[6 * MICRO * CHUNKS];
    static const unsigned kinds[] = {~(unsigned)RECEIVES, 1u << MDS_PIPE_RECV_FWD,
                                     1u << MDS_PIPE_RECV_BWD};
    int unit = p->chunks > 1 ? p->stages : 1;

    for (int micro = unit; micro < p->micro; micro += unit) {
        struct pipeline fewer;

        open_pipeline(&fewer, p->stages, p->chunks, micro, !trains(p));
        for (int i = 0; i < p->stages; i++)
            for (int k = 0; k < 3; k++) {
                int n = order_of(&fewer, i, micro, kinds[k], a);

                assert_int_equal(order_of(p, i, micro, kinds[k], b), n);
                for (int j = 0; j < n; j++) {
                    assert_int_equal(a[j].op, b[j].op);
                    assert_int_equal(a[j].chunk, b[j].chunk);
                    assert_int_equal(a[j].micro_batch, b[j].micro_batch);
                }
            }
        close_pipeline(&fewer);
    }
}

static void test_fewer_micro_batches_are_a_schedule_of_as_many(void **state)
{
    (void)state;
    for_all(check_fewer);
}

static void test_sends_and_receives_meet_in_order(void **state)
{
    (void)state;
    for_all(check_pairs);
}

/* ---- all stages at work, on a clock ---- */

enum { FWD_TIME = 1, BWD_TIME = 2, NEVER = -1 };

struct message {
    int sent, asked; /* when, or NEVER */
};

struct play {
    const struct pipeline *p;
    int buffers; /* to send from; 0: a send keeps its stage until it is asked for */
    int at[STAGES], now[STAGES];
    struct message message[2][VIRTUAL_STAGES]
                          [MICRO]; /* by the virtual stage that consumes it */
    const struct message *sent[2][STAGES][MICRO * CHUNKS];
    int sends[2][STAGES];
    void (*on_compute)(void *ctx, int stage, const struct mds_pipe_step *s, int start);
    void *ctx;
};

static int later(int a, int b)
{
    return a > b ? a : b;
}

/* When the message is at its receiver, or NEVER. */
static int arrival(const struct message *m)
{
    return m->sent < 0 || m->asked < 0 ? NEVER : later(m->sent, m->asked);
}

/* When the buffer that the next send will use is free: its last message is with the
 * receiver, for nothing is stored on the way.  NEVER: not yet. */
static int buffer_free(const struct play *play, int fwd, int stage)
{
    int n = play->sends[fwd][stage];

    return play->buffers == 0 || n < play->buffers
               ? 0
               : arrival(play->sent[fwd][stage][n - play->buffers]);
}

static int compute(struct play *play, int stage, const struct mds_pipe_step *s)
{
    int fwd = is_fwd(s->op), k = virtual_stage(play->p, stage, s);
    int end = play->p->stages * play->p->chunks - 1;
    int first = fwd ? k == 0 : k == end, last = fwd ? k == end : k == 0;
    int input = first ? 0 : arrival(&play->message[fwd][k][s->micro_batch]);
    int output = last ? 0 : buffer_free(play, fwd, stage);

    if (input < 0 || output < 0)
        return 0;
    play->now[stage] = later(play->now[stage], later(input, output));
    if (play->on_compute)
        play->on_compute(play->ctx, stage, s, play->now[stage]);
    play->now[stage] += fwd ? FWD_TIME : BWD_TIME;
    return 1;
}

static int send(struct play *play, int stage, const struct mds_pipe_step *s)
{
    int fwd = is_fwd(s->op), k = virtual_stage(play->p, stage, s) + (fwd ? 1 : -1);
    struct message *m = &play->message[fwd][k][s->micro_batch];

    if (play->buffers == 0 && m->asked < 0)
        return 0;
    if (play->buffers == 0)
        play->now[stage] = later(play->now[stage], m->asked);
    m->sent = play->now[stage];
    play->sent[fwd][stage][play->sends[fwd][stage]++] = m;
    return 1;
}

/* Whether the stage's next step can be done yet; if so it is. */
static int do_step(struct play *play, int stage, const struct mds_pipe_step *s)
{
    switch (s->op) {
    case MDS_PIPE_FORWARD:
    case MDS_PIPE_BACKWARD:
        return compute(play, stage, s);
    case MDS_PIPE_SEND_FWD:
    case MDS_PIPE_SEND_BWD:
        return send(play, stage, s);
    default:
        play->message[is_fwd(s->op)][virtual_stage(play->p, stage, s)][s->micro_batch]
            .asked = play->now[stage];
        return 1;
    }
}

/* Returns when the last stage ends; fails if the stages wait for each other. */
static int run_play(struct play *play)
{
    int moved, end = 0;

    memset(play->message, NEVER, sizeof play->message);
    do {
        moved = 0;
        for (int i = 0; i < play->p->stages; i++) {
            const struct mds_pipe_step *step;
            int n;

            step = mds_schedule_steps(play->p->s[i], &n);
            while (play->at[i] < n && do_step(play, i, &step[play->at[i]])) {
                play->at[i]++;
                moved = 1;
            }
        }
    } while (moved);
    for (int i = 0; i < play->p->stages; i++) {
        int n;

        mds_schedule_steps(play->p->s[i], &n);
        if (play->at[i] < n)
            fail_msg("%d stages, %d chunks, %d micro-batches, %d buffers: stage %d "
                     "waits at step %d of %d",
                     play->p->stages, play->p->chunks, play->p->micro, play->buffers, i,
                     play->at[i], n);
        end = later(end, play->now[i]);
    }
    return end;
}

/* The bubble of the paper: stages - 1 forwards and backwards of a virtual stage. */
static void check_time(const struct pipeline *p)
{
    int piece_time = FWD_TIME + (trains(p) ? BWD_TIME : 0);
    int ideal = (p->micro * p->chunks + p->stages - 1) * piece_time;

    for (int buffers = 0; buffers <= MDS_PIPE_BUFFERS; buffers++) {
        struct play *play = calloc(1, sizeof *play);
        int end;

        play->p = p;
        play->buffers = buffers;
        end = run_play(play);
        free(play);
        assert_int_equal(end, ideal);
    }
}

static void test_no_deadlock_and_no_other_bubble(void **state)
{
    (void)state;
    for_all(check_time);
}

/* ---- pictures ---- */

enum { WIDE = 96 };

struct picture {
    int chunks, unit; /* characters per unit of time */
    char row[STAGES * CHUNKS][WIDE];
};

/* A forward is a micro-batch's number, a backward its letter. */
static void draw(void *ctx, int stage, const struct mds_pipe_step *s, int start)
{
    struct picture *pic = ctx;
    char *row = pic->row[stage * pic->chunks + s->chunk];
    int fwd = is_fwd(s->op), n = pic->unit * (fwd ? FWD_TIME : BWD_TIME);

    memset(row + start * pic->unit, (fwd ? '0' : 'a') + s->micro_batch, (size_t)n);
}

/* Those of schedule.h. */
static const char *const plain_picture[] = {
    "00112233............aaaa44bbbb55cccc66dddd77eeee..ffff..gggg..hhhh",
    "..001122........aaaa33bbbb44cccc55dddd66eeee77ffff..gggg..hhhh....",
    "....0011....aaaa22bbbb33cccc44dddd55eeee66ffff77gggg..hhhh........",
    "......00aaaa11bbbb22cccc33dddd44eeee55ffff66gggg77hhhh............",
};

static const char *const interleaved_picture[] = {
    "0123....456.....7..........aa.bbcc.dd............eeffgghh",
    "....0123......aa.bb.4cc5dd6..7........ee.ff.gg.hh........",
    ".0123....4....5..6..7...aa.bb.cc.dd............eeffgghh..",
    ".....0123...aa.bb.cc.dd4..5..6..7...ee.ff.gg.hh..........",
    "..0123.........4..5..6aa7bb.cc.dd............eeffgghh....",
    "......012.aa3bb.cc.dd......4..5..6ee7ff.gg.hh............",
    "...0123............4aa5bb6cc7dd............eeffgghh......",
    ".......0aa1bb2cc3dd............4ee5ff6gg7hh..............",
};

static void check_picture(int chunks, int unit, const char *const *want)
{
    struct pipeline p;
    struct picture pic = {.chunks = chunks, .unit = unit};
    struct play play = {.p = &p, .on_compute = draw, .ctx = &pic};
    int end;

    open_pipeline(&p, 4, chunks, 8, 0);
    memset(pic.row, '.', sizeof pic.row);
    end = run_play(&play) * unit;
    for (int i = 0; i < 4 * chunks; i++) {
        pic.row[i][end] = '\0';
        assert_string_equal(pic.row[i], want[i]);
    }
    close_pipeline(&p);
}

static void test_the_diagrams_of_the_header(void **state)
{
    (void)state;
    check_picture(1, 2, plain_picture);
    check_picture(2, 1, interleaved_picture);
}

/* ---- what a stage keeps ---- */

/* Sets are used by one at a time, and all of them at once at some time. */
static void check_sets(const struct pipeline *p, int stage)
{
    const struct mds_schedule *s = p->s[stage];
    const struct mds_pipe_step *step;
    int used[MICRO * CHUNKS] = {0};
    int n, now = 0, most = 0;

    step = mds_schedule_steps(s, &n);
    for (int i = 0; i < n; i++) {
        int c = step[i].chunk,
            set = mds_schedule_saved_buffer(s, step[i].micro_batch, c);

        if (step[i].op == MDS_PIPE_FORWARD) {
            assert_in_range(set, 0, mds_schedule_saved_buffers(s) - 1);
            assert_int_equal(used[set]++, 0);
            most = later(most, ++now);
        }
        if (step[i].op == MDS_PIPE_BACKWARD ||
            (step[i].op == MDS_PIPE_FORWARD && !trains(p))) {
            used[set]--;
            now--;
        }
    }
    assert_int_equal(mds_schedule_saved_buffers(s), most);
}

/* What the paper says a stage keeps: with one chunk a micro-batch for each stage from
 * here on; with more, 1 + (stages - 1) / (stages chunks) times that on stage 0. */
static void check_kept(const struct pipeline *p)
{
    for (int i = 0; i < p->stages; i++) {
        int all = p->micro * p->chunks, behind = p->stages - 1 - i;
        int want =
            p->chunks == 1 ? behind + 1 : 2 * behind + (p->chunks - 1) * p->stages + 1;

        check_sets(p, i);
        if (!trains(p))
            want = 1;
        assert_int_equal(mds_schedule_saved_buffers(p->s[i]), want < all ? want : all);
    }
}

static void test_saved_activations_match_theory(void **state)
{
    (void)state;
    for_all(check_kept);
}

static void test_ends_of_the_model(void **state)
{
    struct pipeline p;

    (void)state;
    open_pipeline(&p, 3, 2, 3, 0);
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 2; c++) {
            assert_int_equal(mds_schedule_is_first(p.s[i], c), i == 0 && c == 0);
            assert_int_equal(mds_schedule_is_last(p.s[i], c), i == 2 && c == 1);
        }
    close_pipeline(&p);
}

static enum mds_rc refuse(int stages, int chunks, int micro)
{
    struct mds_schedule_spec spec = {
        .stages = stages, .chunks = chunks, .micro_batches = micro};
    struct mds_schedule *s = NULL;
    enum mds_rc rc = mds_schedule_create(&spec, &s);

    assert_null(s);
    return rc;
}

static void test_schedules_refused(void **state)
{
    (void)state;
    assert_fails(refuse(4, 2, 14), MDS_EUSER,
                 "14 micro-batches cannot be interleaved on 4 pipeline stages with 2 "
                 "chunks each: use 12 or 16 micro-batches, or 1 chunk");
    assert_fails(refuse(4, 3, 2), MDS_EUSER,
                 "2 micro-batches cannot be interleaved on 4 pipeline stages with 3 "
                 "chunks each: use 4 micro-batches, or 1 chunk");
    assert_fails(refuse(1, 2, 4), MDS_EUSER,
                 "1 pipeline stage cannot interleave 2 chunks: use 1 chunk, or 2 or "
                 "more stages");
    assert_fails(refuse(4, 1, 0), MDS_EBUG,
                 "invalid schedule: stage 0 of 4, 0 micro-batches, 1 chunks");
    assert_int_equal(refuse(0, 1, 1), MDS_EBUG);
    assert_int_equal(refuse(2, 1 << 16, 1 << 16), MDS_EBUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_computation_and_message_once),
        cmocka_unit_test(test_sends_and_receives_meet_in_order),
        cmocka_unit_test(test_fewer_micro_batches_are_a_schedule_of_as_many),
        cmocka_unit_test(test_no_deadlock_and_no_other_bubble),
        cmocka_unit_test(test_the_diagrams_of_the_header),
        cmocka_unit_test(test_saved_activations_match_theory),
        cmocka_unit_test(test_ends_of_the_model),
        cmocka_unit_test(test_schedules_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
