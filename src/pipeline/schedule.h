/* Pipeline schedules as data: what one stage does in a step, as a list.
 *
 * The model is cut into stages x chunks pieces.  Stage s holds `chunks` of them, its
 * chunk c being piece c * stages + s: a micro-batch passes all stages once per chunk.
 *
 *   chunks 1   one forward, one backward (1F1B): a stage keeps at most stages - stage
 *              micro-batches, however many there are
 *   chunks v   interleaved 1F1B: pieces are v times shorter, so stages start and end
 *              their work sooner; more messages, more activations kept
 *
 * Stages idle for stages - 1 forwards and backwards of a piece, out of micro_batches x
 * chunks.  There is no GPipe: it idles as long as 1F1B, and keeps every micro-batch.
 * Source: Narayanan et al. 2021, arXiv:2104.04473, sections 2.2 and 3, figure 4. */
#ifndef MDS_PIPELINE_SCHEDULE_H
#define MDS_PIPELINE_SCHEDULE_H

#include "base/status.h"

/* A message is named after what it carries: FWD the boundary activations on their way
 * to the next piece, BWD their gradient on its way back.  RECV and SEND begin a message
 * and do not wait for it; FORWARD and BACKWARD wait for the message they consume, and
 * for the earlier one that still reads from the buffer they write.
 *
 * A receive begins one computation ahead of the one that needs it, so in each direction
 * at most MDS_PIPE_BUFFERS received tensors exist: one in use, one under way.  The
 * lists of all stages complete even where a send ends only when its receive has begun,
 * with any number of send buffers from 1. */
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

/* The most micro-batches of a chunk between the start of their forward and the end of
 * their backward, 1 if forward_only: the sets of saved activations that the chunk
 * needs. Micro-batch m may live in set m % in_flight. */
int mds_schedule_in_flight(const struct mds_schedule *s, int chunk);

/* Whether a chunk of this stage is the model's first piece (no input but the batch, the
 * embedding's home), or its last (no output but the loss, the head's home). */
int mds_schedule_is_first(const struct mds_schedule *s, int chunk);
int mds_schedule_is_last(const struct mds_schedule *s, int chunk);

#endif
