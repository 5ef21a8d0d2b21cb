/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipeline schedules as data: what one stage does in a step, as a list.
 *
 * The model is cut into stages x chunks model chunks.  Stage s holds `chunks` of them;
 * its chunk c is number c * stages + s of the model.  A micro-batch passes through all
 * stages once per chunk.
 *
 *   chunks 1  one forward, one backward (1F1B): stage s saves the activations of at
 *             most stages - s micro-batches, however many a step has
 *   chunks v  interleaved 1F1B: model chunks are v times shorter, so the last stage
 *             starts sooner and the first ends sooner.  This costs v times as many
 *             messages, and stage 0 saves 1 + (stages - 1) / (stages v) times as much
 *
 * Four stages, micro-batches 0 to 7.  A digit is a forward, its letter the backward,
 * which is drawn twice as long; two characters are a stage's forward through all of its
 * chunks:
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
 * The bubble: a stage computes micro_batches x chunks forwards and backwards of a model
 * chunk, and idles for the time of stages - 1 more.  There is no GPipe schedule: its
 * bubble is that of 1F1B, and it saves the activations of every micro-batch.
 *
 * Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2 and figure 4. */
#ifndef MDS_PIPELINE_SCHEDULE_H
#define MDS_PIPELINE_SCHEDULE_H

#include "base/status.h"

/* Messages are named after what they carry: FWD the boundary activations to the next
 * model chunk, BWD their gradient back.  RECV and SEND start a message and do not wait
 * for it. FORWARD and BACKWARD wait for the message they consume, and for the earlier
 * message that was sent from the buffer they write.
 *
 * The next receive is posted before the current message is processed, so each direction
 * has at most MDS_PIPE_BUFFERS received tensors: one in use, one in flight.  With that
 * the stages cannot deadlock, even if every SEND blocks until its receive is posted. */
enum mds_pipe_op {
    MDS_PIPE_RECV_FWD, /* micro_batch, chunk: those of the FORWARD that consumes it */
    MDS_PIPE_FORWARD,
    MDS_PIPE_SEND_FWD, /* those of the FORWARD that produced it */
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
    int chunks;        /* model chunks per stage */
    int micro_batches; /* per step: their gradients are summed */
    int forward_only;  /* evaluation: no BACKWARD, and no saved activations */
};

struct mds_schedule;

/* MDS_EUSER, with numbers that would work, if chunks > 1 and either stages is 1 or
 * micro_batches is not a multiple of stages (as in Megatron: a stage switches chunks
 * every `stages` micro-batches).  With one chunk any micro_batches >= 1 works. */
enum mds_rc mds_schedule_create(const struct mds_schedule_spec *spec,
                                struct mds_schedule **out);
void mds_schedule_destroy(struct mds_schedule *s);

const struct mds_schedule_spec *mds_schedule_get_spec(const struct mds_schedule *s);

/* The list of steps and its length; borrowed.  Each chunk processes micro-batches in
 * the order 0, 1, 2 ... in both directions, so its gradients are complete after the
 * last. */
const struct mds_pipe_step *mds_schedule_steps(const struct mds_schedule *s, int *n);

/* Index of the buffer for saved activations that a micro-batch of a chunk uses from the
 * start of its forward to the end of its backward, and the number of such buffers.  All
 * chunks share them; there are as many as are ever in use at once, 1 if
 * forward_only. */
int mds_schedule_saved_buffer(const struct mds_schedule *s, int micro_batch, int chunk);
int mds_schedule_saved_buffers(const struct mds_schedule *s);

/* Whether a chunk of this stage is the first of the model (it has the embedding, and
 * its input is the batch) or the last (it has the head, and its output is the loss). */
int mds_schedule_is_first(const struct mds_schedule *s, int chunk);
int mds_schedule_is_last(const struct mds_schedule *s, int chunk);

#endif
