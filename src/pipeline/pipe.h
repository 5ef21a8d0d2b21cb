/* SPDX-License-Identifier: BSD-3-Clause */
/* Running one stage's schedule over two callbacks that know the model.
 *
 * Messages travel while the callbacks compute: from the second run on the next input is
 * under way before the present one is worked on, and an output is waited for only when
 * its buffer is needed again.  Nothing depends on what is in the tensors, so this runs
 * dry as well. */
#ifndef MDS_PIPELINE_PIPE_H
#define MDS_PIPELINE_PIPE_H

#include "comm/comm.h"
#include "device/arena.h"
#include "pipeline/schedule.h"

struct mds_pipe;

struct mds_pipe_spec {
    const struct mds_schedule *schedule; /* borrowed, outlives the pipe */
    struct mds_comm *comm;  /* borrowed: the stages, ranks in their order; used by no
                             * other pipe while this one runs */
    int64_t boundary_bytes; /* of the tensor that passes between pieces */
};

enum mds_rc mds_pipe_create(const struct mds_pipe_spec *spec, struct mds_pipe **out);
void mds_pipe_destroy(struct mds_pipe *p);

/* Take the message buffers, at most 4 * MDS_PIPE_BUFFERS tensors (tag comm).  They hold
 * nothing between runs, so they may be taken anew for each. */
enum mds_rc mds_pipe_take(struct mds_pipe *p, struct mds_arena *arena);

/* What a stage computes.  Tensors of boundary_bytes on the device, the pipe's: they are
 * valid during the call only.
 *
 *   forward    in: the previous piece's out, NULL for the model's first piece;
 *              out: to be written, NULL for the last piece, whose result is the loss
 *   backward   d_out: the gradient of out, NULL where out is; d_in: to be written with
 *              the gradient of in, NULL where in is
 *
 * A failure ends the run. */
struct mds_pipe_stage {
    void *ctx;
    enum mds_rc (*forward)(void *ctx, int micro_batch, int chunk, const void *in,
                           void *out);
    enum mds_rc (*backward)(void *ctx, int micro_batch, int chunk, const void *d_out,
                            void *d_in); /* not called if forward_only */
};

/* One step: the whole schedule, until all messages have left.  Every stage calls it.
 * After a failure there is nothing to be done with the pipe but to destroy it: messages
 * may still be under way. */
enum mds_rc mds_pipe_run(struct mds_pipe *p, const struct mds_pipe_stage *stage);

#endif
