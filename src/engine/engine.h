/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's training step: connects model, pipeline, optimizer and groups of ranks.
 *
 *     backward (all micro-batches, gradients summed over ranks, read-back)  ->  update
 *
 * The only place where values come back from the device is mds_engine_backward's end
 * (and mds_engine_eval's): loss and gradient norm.  On the dry device both are 0. */
#ifndef MDS_ENGINE_ENGINE_H
#define MDS_ENGINE_ENGINE_H

#include "config/config.h"
#include "device/device.h"
#include "optim/loss_scale.h"
#include "optim/zero.h"
#include "parallel/groups.h"
#include "tensor/params.h"

struct mds_engine;

/* What an engine needs.  Its blocks of memory: state_bytes that last, step_bytes of one
 * step, both on the device, and host_bytes of one step (offloaded checkpoints). */
struct mds_engine_need {
    int64_t state_bytes, step_bytes, host_bytes;
    struct mds_zero_host zero; /* host memory and files of ZeRO's offload */
    int64_t save_bytes;        /* what this rank writes into a checkpoint */
    int64_t copy_bytes; /* host memory for a copy of that; 0: saving is not in the
                           background */
    struct mds_mem_account memory; /* on the device, by tag */
    struct mds_mem_account host;   /* host_bytes, by tag */
    int64_t whole_bytes;           /* as mds_engine_whole_bytes has it */
    int64_t attention_bytes; /* working memory of attention's kernels: on GPUs, and of
                                the plain one everywhere */
    int64_t overhead_bytes;  /* GPU memory that NCCL and attention allocate */
};

struct mds_engine_spec {
    const struct mds_config *config; /* resolved, vocabulary known; borrowed */
    struct mds_dev *dev;             /* borrowed */
    struct mds_dev *host;            /* borrowed: host memory that is accounted for */
    const struct mds_groups *groups; /* borrowed */
    const struct mds_engine_need *need;
    int threads; /* of an update on the host */
};

/* Takes all the memory the engine will ever use; MDS_EMEM if there is less, MDS_EBUG if
 * spec->need was too small.  Weights are not set. */
enum mds_rc mds_engine_create(const struct mds_engine_spec *spec,
                              struct mds_engine **out);
void mds_engine_destroy(struct mds_engine *e); /* NULL is fine */

/* This rank's parameters, and what stores them: weights are set by
 * mds_zero_init_weights or mds_zero_load.  Borrowed from the engine. */
struct mds_params *mds_engine_params(struct mds_engine *e);
struct mds_zero *mds_engine_zero(struct mds_engine *e);

struct mds_step_result {
    double loss;       /* nats per token, over the global batch */
    double grad_norm;  /* of the summed gradient, before clipping */
    double loss_scale; /* that the gradients were made with; 1 but in f16 */
    int overflow; /* f16: of the gradients alone, and the loss scale is not at its end:
                     update will leave the step out */
};

/* Forward and backward of this replica's share of one global batch.
 *
 *   step          from 1
 *   first_sample  number in the run of token's first row; the others follow it
 *   token         [accumulation * micro, S+1] on the host: inputs, and shifted by one
 *                 the targets; the same on all ranks of the replica.  A dry device
 *                 never looks: NULL will do
 *
 * Collective over the world.  All ranks get the same result, to the bit. */
enum mds_rc mds_engine_backward(struct mds_engine *e, int64_t step,
                                int64_t first_sample, const int32_t *token,
                                struct mds_step_result *out);

/* Clip the gradients that backward left, and update the weights with them; if they
 * overflowed, only lower the loss scale.  Gradients that are not finite otherwise are
 * the caller's to keep from here.  Collective over the world. */
enum mds_rc mds_engine_update(struct mds_engine *e, double lr);

/* Forward alone, of token as for backward.  Adds to *sum the loss in nats, and to
 * *count the tokens it is of, of the whole global batch.  Collective over the world. */
enum mds_rc mds_engine_eval(struct mds_engine *e, const int32_t *token, double *sum,
                            double *count);

/* Host memory for a copy of what this rank saves, and its size; borrowed.  NULL unless
 * the configuration asks for saving in the background. */
void *mds_engine_copy_memory(struct mds_engine *e, int64_t *bytes);

/* The loss scale's state.  resume: go on from that of another run; nothing changes if
 * either is fixed. */
struct mds_loss_scale mds_engine_loss_scale(const struct mds_engine *e);
void mds_engine_resume_loss_scale(struct mds_engine *e,
                                  const struct mds_loss_scale *was);

/* ---- whole tensors (gather.c) ---- */

/* The registry of the whole model, as a single rank would have it; the caller's to
 * destroy.  It lists what mds_engine_each_whole hands out, in that order. */
enum mds_rc mds_engine_whole_params(const struct mds_config *config,
                                    struct mds_params **out);

/* The registry that an engine with these groups would have.  Which slice of a unit is
 * the rank's (mds_zero_own_shard) follows from its place along mds_params_sum_axes. */
enum mds_rc mds_engine_rank_params(const struct mds_config *config,
                                   const struct mds_groups *groups,
                                   struct mds_params **out);

/* On rank 0 of the world, call `take` for every parameter of the whole model, in order,
 * with its values [rows, cols] in f32, borrowed for the call.  Collective over the
 * world. */
enum mds_rc mds_engine_each_whole(struct mds_engine *e, enum mds_zero_what what,
                                  enum mds_rc (*take)(void *ctx,
                                                      const struct mds_param *p,
                                                      const float *values),
                                  void *ctx);

/* Host memory that this takes meanwhile; 0 if the configuration never asks for it
 * (--export-weights, --trace-dir). */
enum mds_rc mds_engine_whole_bytes(const struct mds_engine *e, int64_t *bytes);

/* ---- measuring (measure.c) ---- */

/* An engine on dry devices (both borrowed), with as much memory as it asks for. */
enum mds_rc mds_engine_create_dry(const struct mds_config *config, struct mds_dev *dry,
                                  struct mds_dev *dry_host,
                                  const struct mds_groups *groups,
                                  struct mds_engine **out);

/* What a run with this configuration needs on rank `rank` of `world`, per_node of them
 * on a node: measured by one step, and one evaluation if there are any, on a dry
 * device.  dry run: the same with a dry device and dry groups of the caller's, in
 * whose ledgers the step is left; it does not set need->overhead_bytes. */
enum mds_rc mds_engine_measure(const struct mds_config *config, int world, int rank,
                               int per_node, struct mds_engine_need *need);
enum mds_rc mds_engine_dry_run(const struct mds_config *config, struct mds_dev *dry,
                               const struct mds_groups *groups,
                               struct mds_engine_need *need);

#endif
