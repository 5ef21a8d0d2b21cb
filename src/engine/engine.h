/* One rank's training step: model, optimizer and gradient sum, introduced to each
 * other.
 *
 *     backward (all micro-batches, gradients summed over ranks, read-back)  ->  update
 *
 * The only place where values come back from the device is mds_engine_backward's end
 * (and mds_engine_eval's): loss and gradient norm.  On the dry device both are 0. */
#ifndef MDS_ENGINE_ENGINE_H
#define MDS_ENGINE_ENGINE_H

#include "comm/comm.h"
#include "config/config.h"
#include "device/device.h"
#include "tensor/params.h"

struct mds_engine;

/* Sizes of an engine's two blocks of memory: what lasts, and what lasts one step. */
struct mds_engine_need {
    int64_t state_bytes, step_bytes;
    struct mds_mem_account memory; /* by tag, as a real step would leave it */
};

/* What a run with this configuration needs on each of `data_parallel` ranks: measured
 * by one step and one evaluation on a dry device. */
enum mds_rc mds_engine_measure(const struct mds_config *config, int data_parallel,
                               struct mds_engine_need *need);

struct mds_engine_spec {
    const struct mds_config *config; /* resolved, vocabulary known; borrowed */
    struct mds_dev *dev;             /* borrowed */
    struct mds_comm *data_parallel;  /* ranks with the same weights; borrowed */
    const struct mds_engine_need *need;
};

/* Takes all the memory the engine will ever use.  Weights have their start values. */
enum mds_rc mds_engine_create(const struct mds_engine_spec *spec,
                              struct mds_engine **out);
void mds_engine_destroy(struct mds_engine *e);

struct mds_params *mds_engine_params(struct mds_engine *e);

struct mds_step_result {
    double loss;      /* nats per token, over the global batch */
    double grad_norm; /* of the summed gradient, before clipping */
};

/* Forward and backward of this rank's share of one global batch.
 *
 *   token         [accumulation * micro, S+1] on the host: inputs, and shifted by one
 * the targets step          from 1 first_sample  number in the run of token's first
 * row; the others follow it
 *
 * Collective over data_parallel.  All ranks get the same result, to the bit. */
enum mds_rc mds_engine_backward(struct mds_engine *e, int64_t step,
                                int64_t first_sample, const int32_t *token,
                                struct mds_step_result *out);

/* Clip and apply the gradients that backward left. */
enum mds_rc mds_engine_update(struct mds_engine *e, double lr);

/* Add the loss of `micro` rows of tokens to *sum and their number to *count, both over
 * this rank alone. */
enum mds_rc mds_engine_eval(struct mds_engine *e, const int32_t *token, double *sum,
                            double *count);

#endif
