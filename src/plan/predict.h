/* SPDX-License-Identifier: BSD-3-Clause */
/* Predicts memory and time of a training step on a machine: memory from a dry run of
 * the real engine, time from a clock that this run advances. */
#ifndef MDS_PLAN_PREDICT_H
#define MDS_PLAN_PREDICT_H

#include "config/config.h"
#include "device/memory.h"
#include "plan/machine.h"

#include <stdint.h>

/* GPU memory that the ledger does not see, in bytes. */
struct mds_untracked {
    int64_t libraries; /* their code and the context's: the machine's overhead */
    int64_t messages;  /* NCCL's code and buffers (comm/buffers.c) */
    int64_t attention; /* scratch memory of its kernels */
};

/* Memory of the rank that needs most, and times of the slowest rank. */
struct mds_estimate {
    struct mds_mem_account memory; /* by tag, as the ledger sees it */
    struct mds_untracked untracked;
    int64_t device_bytes;             /* memory.total_peak and all that is beside it */
    int64_t host_bytes;               /* of one rank, on the host */
    int64_t host_need;                /* that and, without GPUs, device_bytes */
    int64_t device_limit, host_limit; /* memory that a rank may take of each */
    int fits;
    int extrapolated; /* extrapolated from fewer blocks and micro-batches */

    /* The sum of the following.  Of generation: for one more token of each of a
     * replica's sequences, in the mean; and to read their prompts before. */
    double step_s, prompt_s;
    double compute_s, tensor_s, sequence_s, data_s, pipeline_s, host_s, idle_s;
    double tokens_s;    /* tokens per second and rank */
    double parameters;  /* of the whole model, those of matrices */
    double model_flops; /* per second and rank, mds_flops_causal */
};

/* Ranks whose steps are run dry, of those that differ: returns how many. */
enum { MDS_PREDICT_RANKS = 3 };
int mds_predict_ranks(const struct mds_config *c, int world,
                      int rank[MDS_PREDICT_RANKS]);

/* The fraction that a rank needs of its GPU's memory, or of its share of host memory,
 * whichever is larger.  Above 1 it does not fit. */
double mds_estimate_memory_fraction(const struct mds_estimate *e);

/* What a rank needs of what it has: of the device, or of the host if that alone is
 * short. */
void mds_estimate_memory_text(const struct mds_estimate *e, char need[32],
                              char have[32]);

/* c is resolved for `world` ranks, and its vocabulary is known.  Ranks are placed
 * per_node to a node, in order.
 *
 * The time is that of a clock (rates.h); stages that idle are a formula. */
enum mds_rc mds_predict(const struct mds_config *c, int world, int per_node,
                        const struct mds_machine *m, struct mds_estimate *out);

/* If the level of activation memory in *c is auto, set it to the first level that fits,
 * or the last one, and *e to its estimate.  *level = that level; -1 if it was not
 * auto. */
enum mds_rc mds_predict_level(struct mds_config *c, int world, int per_node,
                              const struct mds_machine *m, struct mds_estimate *e,
                              int *level);

/* Which part of a step the dry run executes. */
enum mds_predict_how {
    MDS_PREDICT_FULL,         /* everything */
    MDS_PREDICT_EXTRAPOLATED, /* a few blocks and micro-batches, extrapolated to all */
    MDS_PREDICT_LOWER_BOUND,  /* a lower bound of memory on the device, quicker */
};
enum mds_rc mds_predict_as(enum mds_predict_how how, const struct mds_config *c,
                           int world, int per_node, const struct mds_machine *m,
                           struct mds_estimate *out);

#endif
