/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipeline schedules as data: what one stage does in a step, as a list.
 *
 * The model is cut into stages x chunks pieces.  Stage s holds `chunks` of them, its
 * chunk c being piece c * stages + s: a micro-batch passes all stages once per chunk.
 *
 *   chunks 1  one forward, one backward (1F1B): stage s keeps the activations of
 *             stages - s micro-batches at most, however many there are in a step
 *   chunks v  interleaved 1F1B: pieces are v times shorter, so the last stage starts
 *             sooner and the first ends sooner.  In return v times as many messages,
 *             and stage 0 keeps 1 + (stages - 1) / (stages v) times as much
 *
 * Four stages, micro-batches 0 to 7.  A digit is a forward, its letter the backward,
 * here taken to last twice as long; two characters are a stage's forward through all
 * its chunks:
 *
 *   stage 0  00112233............aaaa44bbbb55cccc66dddd77eeee..ffff..gggg..hhhh
 *   stage 1  ..001122........aaaa33bbbb44cccc55dddd66eeee77ffff..gggg..hhhh....
 *   stage 2  ....0011....aaaa22bbbb33cccc44dddd55eeee66ffff77gggg..hhhh........
 *   stage 3  ......00aaaa11bbbb22cccc33dddd44eeee55ffff66gggg77hhhh............
 *
 *   stage 0, chunk 0  0123....456.....7..........aa.bbcc.dd............eeffgghh
 *   stage 0, chunk 1  ....0123......aa.bb.4cc5dd6..7........ee.ff.gg.hh........
 *   stage 1, chunk 0  .0123....4....5..6..7...aa.bb.cc.dd............eeffgghh..
 *   stage 1, chunk 1  .....0123...aa.bb.cc.dd4..5..6..7...ee.ff.gg.hh..........
 *   stage 2, chunk 0  ..0123.........4..5..6aa7bb.cc.dd............eeffgghh....
 *   stage 2, chunk 1  ......012.aa3bb.cc.dd......4..5..6ee7ff.gg.hh............
 *   stage 3, chunk 0  ...0123............4aa5bb6cc7dd............eeffgghh......
 *   stage 3, chunk 1  .......0aa1bb2cc3dd............4ee5ff6gg7hh..............
 *
 * The bubble: beside the micro_batches x chunks forwards and backwards of a piece that
 * a stage computes, it idles for stages - 1 of them.  There is no GPipe schedule: it
 * idles as long as 1F1B does, and keeps every micro-batch.
 *
 * Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2 and figure 4. */
#ifndef MDS_PIPELINE_SCHEDULE_H
#define MDS_PIPELINE_SCHEDULE_H

#include "base/status.h"

/* A message is named after what it carries: FWD the boundary activations on their way
 * to the next piece, BWD their gradient on its way back.  RECV and SEND begin a message
 * and do not wait for it; FORWARD and BACKWARD wait for the message they consume, and
 * for the earlier one that still reads from the buffer they write.
 *
 * The next receive begins before the present message is worked on, so a direction has
 * at most MDS_PIPE_BUFFERS received tensors: one in use, one under way.  That is enough
 * for the stages never to wait for each other in a circle, not even if every SEND kept
 * its stage until the receive has begun. */
enum mds_pipe_op {
    MDS_PIPE_RECV_FWD, /* micro_batch, chunk: of the FORWARD that consumes it */
    MDS_PIPE_FORWARD,
    MDS_PIPE_SEND_FWD, /* of the FORWARD that made it */
    MDS_PIPE_RECV_BWD,
    MDS_PIPE_BACKWARD,
    MDS_PIPE_SEND_BWD,
};

enum { MDS_PIPE_BUFFERS = 2 };

struct mds_pipe_step {
    enum mds_pipe_op op;
    int micro_batch, chunk;
};

struct mds_schedule_spec {
    int stages, stage;
    int chunks;        /* pieces per stage */
    int micro_batches; /* of a step: the gradients that are summed */
    int forward_only;  /* evaluation: no BACKWARD, and nothing to keep */
};

struct mds_schedule;

/* MDS_EUSER, naming numbers that would do, if chunks > 1 and there is but one stage, or
 * micro_batches is no multiple of stages (Megatron's rule: chunks take turns every
 * `stages` micro-batches).  With one chunk any micro_batches >= 1 will do. */
enum mds_rc mds_schedule_create(const struct mds_schedule_spec *spec,
                                struct mds_schedule **out);
void mds_schedule_destroy(struct mds_schedule *s);

const struct mds_schedule_spec *mds_schedule_get_spec(const struct mds_schedule *s);

/* The list and its length; borrowed.  A chunk meets its micro-batches in the order 0,
 * 1, 2 ... in both directions, so its gradients are complete after the last one. */
const struct mds_pipe_step *mds_schedule_steps(const struct mds_schedule *s, int *n);

/* The set of saved activations that a micro-batch of a chunk has from the start of its
 * forward to the end of its backward: a number below mds_schedule_sets.  One pool
 * serves all chunks, with no more sets than are in use at once; 1 set if forward_only.
 */
int mds_schedule_set(const struct mds_schedule *s, int micro_batch, int chunk);
int mds_schedule_sets(const struct mds_schedule *s);

/* Whether a chunk of this stage is the model's first piece (no input but the batch, the
 * embedding's home), or its last (no output but the loss, the head's home). */
int mds_schedule_is_first(const struct mds_schedule *s, int chunk);
int mds_schedule_is_last(const struct mds_schedule *s, int chunk);

#endif
