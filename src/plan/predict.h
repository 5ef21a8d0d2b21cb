/* SPDX-License-Identifier: BSD-3-Clause */
/* What a step of a configuration takes on a machine, without making one: memory from a
 * dry run of the real engine, time by a roofline over that run's ledger. */
#ifndef MDS_PLAN_PREDICT_H
#define MDS_PLAN_PREDICT_H

#include "config/config.h"
#include "device/memory.h"
#include "plan/machine.h"

#include <stdint.h>

/* What a GPU holds beside what the ledger sees. */
struct mds_beside {
    int64_t libraries; /* their code and the context's: the machine's overhead */
    int64_t messages;  /* NCCL's code and buffers (comm/buffers.c) */
    int64_t attention; /* working memory of its kernels */
};

/* Of the rank that needs most, and of the slowest. */
struct mds_estimate {
    struct mds_mem_account memory; /* by tag, as the ledger sees it */
    struct mds_beside beside;
    int64_t device_bytes;             /* memory.total_peak and all that is beside it */
    int64_t host_bytes;               /* of one rank, on the host */
    int64_t host_need;                /* that and, without GPUs, device_bytes */
    int64_t device_limit, host_limit; /* memory that a rank may take of each */
    int fits;
    int brief; /* not by a run of all blocks and micro-batches */

    double step_s; /* the sum of the following */
    double compute_s, tensor_s, sequence_s, data_s, pipeline_s, host_s, idle_s;
    double tokens_s;    /* tokens per second and rank */
    double parameters;  /* of the whole model, those of matrices */
    double model_flops; /* per second and rank, Megatron's convention */
};

/* Ranks whose steps are run dry, of those that differ: returns how many. */
enum { MDS_PREDICT_RANKS = 3 };
int mds_predict_ranks(const struct mds_config *c, int world,
                      int rank[MDS_PREDICT_RANKS]);

/* How much of what there is a rank needs, of its GPU's memory or its share of the
 * host's, whichever is the larger part: above 1 it does not fit. */
double mds_estimate_part(const struct mds_estimate *e);

/* c is resolved for `world` ranks, and its vocabulary is known.  Ranks are placed
 * per_node to a node, in order.
 *
 * Limits of the time: operations do not overlap; of what travels behind computing a
 * part shows (time.c); links are shared fairly. */
enum mds_rc mds_predict(const struct mds_config *c, int world, int per_node,
                        const struct mds_machine *m, struct mds_estimate *out);

/* Whose level of activation memory is auto, in *c, gets the first level that fits, or
 * the last one; *e is the estimate then.  Returns through *level which, -1 where the
 * level was not open. */
enum mds_rc mds_predict_level(struct mds_config *c, int world, int per_node,
                              const struct mds_machine *m, struct mds_estimate *e,
                              int *level);

/* How a step is run dry. */
enum mds_predict_how {
    MDS_PREDICT_WHOLE, /* as it is */
    MDS_PREDICT_BRIEF, /* a few blocks and micro-batches, and what more of them add */
    MDS_PREDICT_PART,  /* those few alone: for the least memory that it can need */
};
enum mds_rc mds_predict_as(enum mds_predict_how how, const struct mds_config *c,
                           int world, int per_node, const struct mds_machine *m,
                           struct mds_estimate *out);

#endif
