/* One rank's training step: model, pipeline, optimizer and the groups of ranks,
 * introduced to each other.
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

/* Sizes of an engine's blocks of memory: what lasts, what lasts one step, and what
 * waits on the host during one (offloaded checkpoints; ZeRO's host memory is in zero).
 */
struct mds_engine_need {
    int64_t state_bytes, step_bytes, host_bytes;
    struct mds_zero_host zero;
    int64_t save_bytes; /* what this rank writes into a checkpoint */
    int64_t copy_bytes; /* of host memory for a copy of that; 0: none is asked for */
    struct mds_mem_account memory; /* by tag, as a real step would leave it */
    struct mds_mem_account host;   /* of host_bytes */
    int64_t beside_bytes; /* of a GPU, by NCCL and attention; by mds_engine_measure */
};

struct mds_engine_spec {
    const struct mds_config *config; /* resolved, vocabulary known; borrowed */
    struct mds_dev *dev;             /* borrowed */
    struct mds_dev *host;            /* borrowed: host memory that is accounted for */
    const struct mds_groups *groups; /* borrowed */
    const struct mds_engine_need *need;
    int threads; /* of the host's optimizer */
};

/* Takes all the memory the engine will ever use.  Weights are not set. */
enum mds_rc mds_engine_create(const struct mds_engine_spec *spec,
                              struct mds_engine **out);
void mds_engine_destroy(struct mds_engine *e); /* NULL is fine */

/* Start values; or those of a safetensors-like source, as mds_zero_load. */
struct mds_params *mds_engine_params(struct mds_engine *e);
struct mds_zero *mds_engine_zero(struct mds_engine *e);

struct mds_step_result {
    double loss;      /* nats per token, over the global batch */
    double grad_norm; /* of the summed gradient, before clipping */
    double loss_scale;
    int overflow; /* f16: gradients are not finite, update will leave the step out */
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

/* Clip and apply the gradients that backward left, unless they overflowed. */
enum mds_rc mds_engine_update(struct mds_engine *e, double lr);

/* Loss over the same number of rows, and how many tokens, summed over the world. */
enum mds_rc mds_engine_eval(struct mds_engine *e, const int32_t *token, double *sum,
                            double *count);

/* Memory for a copy of what this rank saves, on the host: NULL unless the configuration
 * asks for saving in the background. */
void *mds_engine_copy_memory(struct mds_engine *e, int64_t *bytes);

/* What the loss scale has come to; and the same, from a run that had come to that: no
 * change if this run's is fixed, or that one's was. */
struct mds_loss_scale mds_engine_loss_scale(const struct mds_engine *e);
void mds_engine_resume_loss_scale(struct mds_engine *e,
                                  const struct mds_loss_scale *was);

/* ---- whole tensors (gather.c) ---- */

/* The whole model's registry, as one rank alone would have it: names and shapes of what
 * mds_engine_each_whole hands out, in that order. */
enum mds_rc mds_engine_whole_params(const struct mds_config *config,
                                    struct mds_params **out);

/* The registry of the rank that groups are of, without the rest of an engine.  Which
 * slice of a unit is that rank's (mds_zero_share) follows from groups->data. */
enum mds_rc mds_engine_rank_params(const struct mds_config *config,
                                   const struct mds_groups *groups,
                                   struct mds_params **out);

/* Call `take` for every parameter of the whole model, in order, with its values in f32
 * [rows, cols]: on the world's first rank alone; the others help.  Collective. */
enum mds_rc mds_engine_each_whole(struct mds_engine *e, enum mds_zero_what what,
                                  enum mds_rc (*take)(void *ctx,
                                                      const struct mds_param *p,
                                                      const float *values),
                                  void *ctx);

/* ---- measuring (measure.c) ---- */

/* What a run with this configuration needs on rank `rank` of `world`, per_node of them
 * on a node: measured by one step and one evaluation on a dry device.  dev (dry) and
 * groups, if given, are left with the ledgers of that. */
enum mds_rc mds_engine_measure(const struct mds_config *config, int world, int rank,
                               int per_node, struct mds_engine_need *need);
enum mds_rc mds_engine_rehearse(const struct mds_config *config, struct mds_dev *dry,
                                const struct mds_groups *groups,
                                struct mds_engine_need *need);

#endif
