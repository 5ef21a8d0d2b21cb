/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes the schedule of one pipeline stage through two callbacks, forward and
 * backward.
 *
 * Messages overlap with computation: from the second mds_pipe_run on, the next receive
 * is posted before the current input is processed, and a send is waited for only when
 * its buffer is needed again.  Control flow never depends on the contents of tensors,
 * so this works in dry runs too. */
#ifndef MDS_PIPELINE_PIPE_H
#define MDS_PIPELINE_PIPE_H

#include "comm/comm.h"
#include "device/arena.h"
#include "pipeline/schedule.h"

struct mds_pipe;

struct mds_pipe_spec {
    const struct mds_schedule *schedule; /* borrowed, outlives the pipe */
    struct mds_comm *comm;  /* borrowed; rank = stage.  No other pipe may use it while
                             * this one runs */
    int64_t boundary_bytes; /* of the tensor passed between model chunks */
};

enum mds_rc mds_pipe_create(const struct mds_pipe_spec *spec, struct mds_pipe **out);
void mds_pipe_destroy(struct mds_pipe *p);

/* Allocate the message buffers, at most 4 * MDS_PIPE_BUFFERS tensors (tag comm).  They
 * are empty between calls of mds_pipe_run, so they may be allocated anew for each. */
enum mds_rc mds_pipe_alloc(struct mds_pipe *p, struct mds_arena *arena);

/* What a stage computes.  Tensors have boundary_bytes, are on the device, belong to the
 * pipe and are valid only during the call.
 *
 *   forward    in: the output of the previous model chunk, NULL for the first;
 *              out: to be written, NULL for the last, whose result is the loss
 *   backward   d_out: gradient of out, NULL for the last model chunk;
 *              d_in: gradient of in, to be written, NULL for the first
 *
 * A failure ends mds_pipe_run. */
struct mds_pipe_stage {
    void *ctx;
    enum mds_rc (*forward)(void *ctx, int micro_batch, int chunk, const void *in,
                           void *out);
    enum mds_rc (*backward)(void *ctx, int micro_batch, int chunk, const void *d_out,
                            void *d_in); /* not called if forward_only */
};

/* Execute once what the schedule says of its first `micro_batches` micro-batches, and
 * wait for all messages: the order is that of a schedule of as many, a multiple of the
 * stages if interleaved in training.  Collective over the stages.  After a failure
 * messages may still be in flight: the pipe can only be destroyed. */
enum mds_rc mds_pipe_run(struct mds_pipe *p, const struct mds_pipe_stage *stage,
                         int micro_batches);

#endif
