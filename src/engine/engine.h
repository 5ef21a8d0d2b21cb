/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's training step: connects model, pipeline, optimizer and groups of ranks.
 *
 *     backward (all micro-batches, gradients summed over ranks, read-back)  ->  update
 *
 * Values (loss and gradient norm) are read back from the device only at the end of
 * mds_engine_backward and of mds_engine_eval.  On the dry device both are 0. */
#ifndef MDS_ENGINE_ENGINE_H
#define MDS_ENGINE_ENGINE_H

#include "config/config.h"
#include "device/device.h"
#include "optim/loss_scale.h"
#include "optim/zero.h"
#include "parallel/groups.h"
#include "tensor/params.h"

#include <stdio.h>

struct mds_engine;

/* What an engine needs.  Device memory: state_bytes for the whole run, step_bytes for
 * one step.  Host memory: host_bytes for one step (offloaded activations). */
struct mds_engine_need {
    int64_t state_bytes, step_bytes, host_bytes;
    struct mds_zero_host zero; /* host memory and files of ZeRO's offload */
    int64_t save_bytes;        /* what this rank writes into a checkpoint */
    int64_t copy_bytes; /* host memory for a copy of that; 0: no background saving */
    struct mds_mem_account memory; /* on the device, by tag */
    struct mds_mem_account host;   /* host_bytes, by tag */
    int64_t whole_bytes;           /* mds_engine_whole_bytes */
    int64_t attention_bytes;       /* scratch of the attention kernels: on GPUs, and of
                                unfused attention everywhere */
    int64_t overhead_bytes;        /* GPU memory that NCCL and attention allocate */
};

struct mds_world;

/* The device of a rank, with its threads and the memory that it may take. */
struct mds_dev_spec mds_engine_device(const struct mds_config *c,
                                      const struct mds_world *w);

struct mds_engine_spec {
    const struct mds_config *config; /* resolved, vocabulary known; borrowed */
    struct mds_dev *dev;             /* borrowed */
    struct mds_dev *host;            /* borrowed: its account counts host memory */
    const struct mds_groups *groups; /* borrowed */
    const struct mds_engine_need *need;
    int threads; /* for optimizer updates on the host */
};

/* Allocates all memory the engine will ever use; with train.skip_train that is for
 * evaluation only, and mds_engine_backward fails.  MDS_EMEM if there is not enough,
 * MDS_EBUG if spec->need is too small.  Weights are not set. */
enum mds_rc mds_engine_create(const struct mds_engine_spec *spec,
                              struct mds_engine **out);
void mds_engine_destroy(struct mds_engine *e); /* NULL is fine */

/* This rank's parameters, and what stores them: weights are set by
 * mds_zero_init_weights or mds_zero_load.  Borrowed from the engine. */
struct mds_params *mds_engine_params(struct mds_engine *e);
struct mds_zero *mds_engine_zero(struct mds_engine *e);

struct mds_step_result {
    double loss;                    /* nats per target, over the global batch */
    double targets;                 /* that count: the sum of their weights */
    struct mds_kind_losses by_kind; /* over the global batch */
    struct mds_pairs seen;          /* shares, over the global batch */
    double grad_norm;               /* of the summed gradient, before clipping */
    double loss_scale;              /* that backward used; 1 unless f16 */
    const double *expert_load; /* [layers, experts] tokens that each computed, until the
                                  next step; NULL without experts */
    const double *router_losses; /* likewise [layers, 2]: balance, 1 if even, and the
                                    mean square of logits' log-sum-exp, before
                                    coefficients; NULL: not logged */
    const double *logit_bound; /* [layers] what attention's logits are below, until the
                                  next step; NULL: they are not looked at */
    int64_t clipped_heads;     /* above --qk-clip-threshold */
    int overflow; /* f16: the gradients overflowed, the loss did not, and the loss scale
                     can still be lowered: update will skip the step */
};

/* How far a step is, from 0; layer: in the whole model. */
struct mds_step_position {
    int micro_batch, backward, layer;
    int training; /* not an evaluation */
};

/* From now on, steps and evaluations call `report` each time that they have queued a
 * block on the device.  On CPUs it has been computed then; a GPU may be some blocks
 * behind. */
void mds_engine_report_to(struct mds_engine *e,
                          void (*report)(void *ctx, const struct mds_step_position *at),
                          void *ctx);

/* This replica's rows of a global batch, [accumulation * micro, S+1] each, on the host;
 * the same on all ranks of the replica.  Borrowed for the call.
 *
 *   token  the inputs, and shifted by one the targets; -1: neither, which is all there
 *          is in a row that only fills its micro-batch
 *   start  index, in the row, of the first token of each token's document; read only if
 *          the configuration has documents apart (mds_data_has_starts)
 *   position  with train.shared_prefixes: the index whose position would be 0, which is
 *          start unless the document goes on behind the first start - position tokens
 *          of the last one of the row that does not; else not read
 *   kind   of each token, or MDS_KIND_MASKED: no target; may be NULL if the
 *          configuration has no kinds */
struct mds_engine_rows {
    const int32_t *token, *start, *position;
    const unsigned char *kind;
};

/* Forward and backward of this replica's part of one global batch.
 *
 *   step          from 1
 *   first_sample  number, in the run, of the first row; the other rows follow
 *   micro_batches how many of them the step has: at most the configuration's
 *                 accumulation, and as many on all ranks
 *   rows          may be NULL on a dry device
 *
 * The loss is the mean over all targets of the global batch that count, weighted by
 * their kinds, however they are spread over ranks and micro-batches; 0 if there are
 * none.
 *
 * Collective over the world.  All ranks get bitwise the same result. */
enum mds_rc mds_engine_backward(struct mds_engine *e, int64_t step,
                                int64_t first_sample, int64_t micro_batches,
                                const struct mds_engine_rows *rows,
                                struct mds_step_result *out);

/* Clip the gradients of the last backward and update the weights.  If the result had
 * `overflow` set, only lower the loss scale.  The caller must not call this if the loss
 * or the gradients are not finite for any other reason.  Collective over the world. */
enum mds_rc mds_engine_update(struct mds_engine *e, double lr);

/* Forward only, of the first `micro_batches` of the rows: as many on all ranks.  Sets
 * losses[i] to what this rank adds to the losses of its replica's micro-batch i.
 * Collective over a replica, and with ZeRO 3 over the world. */
enum mds_rc mds_engine_eval(struct mds_engine *e, const struct mds_engine_rows *rows,
                            int64_t micro_batches, struct mds_kind_losses *losses);

/* The loss of each target in the last evaluation's micro-batches, of a configuration
 * with train.token_losses: out[replicas, micro_batches, micro, S], in nats, on all
 * ranks; what is no target has 0.  Collective over the world. */
enum mds_rc mds_engine_token_losses(const struct mds_engine *e, int64_t micro_batches,
                                    double *out);

/* Hidden states, or logits, of consecutive tokens of one row. */
struct mds_engine_hidden {
    int64_t replica, micro_batch, row; /* row: of the micro-batch */
    int64_t first, n;                  /* tokens of the row */
    int64_t column, columns; /* which of a token's: all H, or of logits some words */
    const float *values;     /* [n, columns], during the call only */
};

/* On rank 0 of the world, call `visit` with all that the last evaluation has kept, by
 * train.hidden, of its micro-batches' tokens, part by part in any order.  Host
 * memory: some MiB, and what one token of a micro-batch takes.
 * Collective over the world. */
enum mds_rc mds_engine_each_hidden(
    const struct mds_engine *e, int64_t micro_batches,
    enum mds_rc (*visit)(void *ctx, const struct mds_engine_hidden *part), void *ctx);

/* Some consecutive tokens of B sequences, on the host; the same on all ranks of the
 * replica. */
struct mds_engine_tokens {
    int64_t B;     /* up to the micro-batch */
    int64_t batch; /* whose keys and values these are, below batch.accumulation */
    int64_t first, n;
    const int32_t *token; /* [n, B]: those of each place side by side */
};

/* Generation, of a configuration with train.prefill: let the model read tokens first ..
 * first + n - 1 of some sequences, after it has read those before, of the same B.
 * Their keys and values are kept; first 0 begins other sequences.  n is 1, or up to
 * train.prefill; first + n is up to model.seq_length.
 *
 * logits, unless NULL: out, [B, model.vocab], what follows each last token; on all
 * ranks of the last stage, others leave it as it is.  Collective over the replica; a
 * stage does not wait for those behind it until _end. */
enum mds_rc mds_engine_decode(struct mds_engine *e, const struct mds_engine_tokens *t,
                              float *logits);
enum mds_rc mds_engine_decode_end(struct mds_engine *e);

/* The likeliest tokens, chosen on the device, which waits for the host once for up to
 * _ahead of them; 0: it cannot.  t is as for _decode, of one token of each sequence,
 * and is followed by those that are likeliest in turn, of which the model reads the
 * first n - 1.  out: [n, B]; -1, and anything behind it, where logits are no finite
 * numbers. */
int64_t mds_engine_tokens_ahead(const struct mds_engine *e);
enum mds_rc mds_engine_decode_ahead(struct mds_engine *e,
                                    const struct mds_engine_tokens *t, int64_t n,
                                    int32_t *out);

/* On a dry device: the calls that take the most memory, each at the end of a sequence:
 * a piece of a prompt, a few tokens and one. */
enum mds_rc mds_engine_decode_dry(struct mds_engine *e);

/* Replace losses[n] by their sums over all ranks.  Collective over the world. */
enum mds_rc mds_engine_sum_losses(const struct mds_engine *e,
                                  struct mds_kind_losses *losses, int n);

/* The host buffer for a copy of what this rank saves, and its size in bytes; borrowed
 * from the engine.  NULL unless checkpoints are saved in the background. */
void *mds_engine_copy_memory(struct mds_engine *e, int64_t *bytes);

/* The loss scale's state.  resume: continue from the state of an earlier run; does
 * nothing if either loss scale is fixed. */
struct mds_loss_scale mds_engine_loss_scale(const struct mds_engine *e);
void mds_engine_resume_loss_scale(struct mds_engine *e,
                                  const struct mds_loss_scale *was);

/* The biases of experts, [layers, experts], by which they are balanced: the same on all
 * ranks.  Borrowed; NULL, and *n 0, in a model without.  set: to the first of bias[n];
 * n 0: to 0; does nothing in a model without. */
const double *mds_engine_expert_bias(const struct mds_engine *e, int64_t *n);
enum mds_rc mds_engine_set_expert_bias(struct mds_engine *e, const double *bias,
                                       int64_t n);

/* ---- whole tensors (gather.c) ---- */

/* The registry of the whole model, as a single rank would have it.  The caller destroys
 * it.  mds_engine_each_whole visits its parameters in this order. */
enum mds_rc mds_engine_whole_params(const struct mds_config *config,
                                    struct mds_params **out);

/* The registry that an engine with these groups would have; the caller destroys it.
 * The rank along mds_params_sum_axes decides which slice of each unit this rank owns
 * (mds_zero_own_shard). */
enum mds_rc mds_engine_rank_params(const struct mds_config *config,
                                   const struct mds_groups *groups,
                                   struct mds_params **out);

/* On rank 0 of the world, call `visit` for every parameter of the whole model, in
 * order, with its values [rows, cols] in f32, which are valid during the call only;
 * gradients are those of the mean loss, without the loss scale.
 * Collective over the world. */
enum mds_rc mds_engine_each_whole(struct mds_engine *e, enum mds_zero_what what,
                                  enum mds_rc (*visit)(void *ctx,
                                                       const struct mds_param *p,
                                                       const float *values),
                                  void *ctx);

/* Host memory that mds_engine_each_whole needs; 0 if the configuration never calls for
 * it (--export-weights, --trace-dir). */
enum mds_rc mds_engine_whole_bytes(const struct mds_engine *e, int64_t *bytes);

/* ---- measuring (measure.c) ---- */

/* An engine on dry devices (both borrowed), which has all the memory it needs. */
enum mds_rc mds_engine_create_dry(const struct mds_config *config, struct mds_dev *dry,
                                  struct mds_dev *dry_host,
                                  const struct mds_groups *groups,
                                  struct mds_engine **out);

/* measure: what a run with this configuration needs on rank `rank` of `world` ranks,
 * per_node on each node.  It runs one step, and one evaluation if the run has any, on a
 * dry device.  dry_run: the same with the caller's dry device and dry groups, whose
 * ledgers then hold the counts of the step; it does not set need->overhead_bytes. */
enum mds_rc mds_engine_measure(const struct mds_config *config, int world, int rank,
                               int per_node, struct mds_engine_need *need);
enum mds_rc mds_engine_dry_run(const struct mds_config *config, struct mds_dev *dry,
                               const struct mds_groups *groups,
                               struct mds_engine_need *need);

/* Print what a block computes in such a run; groups: dry. */
enum mds_rc mds_engine_show_step(const struct mds_config *config,
                                 const struct mds_groups *groups, FILE *f);

#endif
