/* Who stores what of weights, gradients and optimizer states, and how they travel: ZeRO.
 *
 * The ranks of a group hold the same weights (data parallelism, and sequence parallelism of
 * the Ulysses and ring kinds).  Each unit of the registry is cut into one slice per rank
 * (mds_comm_slice), and a rank owns its slice of every unit:
 *
 *   stage 0  everything is everywhere; gradients are all-reduced
 *   stage 1  master weights and moments of the own slices only: gradients are reduced to
 *            their owners, who update, and gather the new weights
 *   stage 2  gradients, too, of the own slices only: a unit's gradient lives from
 *            grad_begin to the end of its reduction
 *   stage 3  weights, too: a unit is gathered at acquire (the next one ahead of time) and
 *            dropped at release
 *
 * Offload moves what a rank owns to host memory or files, and the update with it.
 * Source: Rajbhandari, Rasley, Ruwase, He 2019, arXiv:1910.02054; Ren et al. 2021,
 * arXiv:2101.06840; Rajbhandari et al. 2021, arXiv:2104.07857.
 *
 * Everything here is collective over the group, in the same order on every rank. */
#ifndef MDS_OPTIM_ZERO_H
#define MDS_OPTIM_ZERO_H

#include "comm/comm.h"
#include "config/config.h"
#include "device/arena.h"
#include "tensor/params.h"

struct mds_zero;

enum mds_offload { MDS_OFFLOAD_NONE, MDS_OFFLOAD_CPU, MDS_OFFLOAD_NVME };

struct mds_zero_spec {
    const struct mds_optim_config *optim; /* copied */
    struct mds_params *params;            /* borrowed */
    struct mds_dev *dev;                  /* borrowed */
    struct mds_comm *group;               /* borrowed: ranks with the same weights */
    int stage;                            /* 0 .. 3 */
    enum mds_offload optimizer;           /* where master weights and moments live */
    enum mds_offload weights;             /* stage 3: where slices rest; NONE or CPU */
    const char *nvme_path;                /* folder for MDS_OFFLOAD_NVME; borrowed */
    int64_t bucket_bytes;                 /* neighbouring units travel together up to it */
    int overlap;                          /* 0: reduce at the end, gather when needed */
    int threads;                          /* of the host's update */
};

/* Takes all memory from the arena, places the units, hooks into the registry.  Weights are
 * not set yet. */
enum mds_rc mds_zero_create(const struct mds_zero_spec *spec, struct mds_arena *arena,
                            struct mds_zero **out);
void mds_zero_destroy(struct mds_zero *z); /* NULL is fine */

/* Start values, or those that `fill` gives, in f32, of elements first .. first + n - 1 of a
 * unit (gaps 0). */
enum mds_rc mds_zero_start(struct mds_zero *z, uint64_t seed);
enum mds_rc mds_zero_load(struct mds_zero *z,
                          enum mds_rc (*fill)(void *ctx, int unit, int64_t first,
                                              int64_t n, float *out),
                          void *ctx);

/* Gradients are zero: a step begins. */
enum mds_rc mds_zero_step_begin(struct mds_zero *z);

/* A backward pass begins; `last` of its step.  (Passes of a pipeline's chunks count as
 * one per micro-batch and chunk: units report ready once in each.) */
void mds_zero_pass_begin(struct mds_zero *z, int last);

/* Block until each rank's gradients (stage 0: all, else its slices) are sums. */
enum mds_rc mds_zero_finish(struct mds_zero *z);

/* Add up another group's gradients of one unit, slice by slice: the tied embedding on a
 * pipeline's first and last stage.  After finish. */
enum mds_rc mds_zero_sum_unit(struct mds_zero *z, int unit, struct mds_comm *group);

/* *sum (f64 on the device) = squares of the gradients this rank answers for; duplicates are
 * left out.  divide_by: ranks of the group that answer for the same (1 for the caller
 * to sum over the group): 1 if slices are owned, else the group's size. */
enum mds_rc mds_zero_grad_squares(struct mds_zero *z, double *sum);
int mds_zero_owns_slices(const struct mds_zero *z);

/* Update with the gradients times grad_scale, and give every rank the new weights.  Counts
 * the steps for the bias corrections. */
enum mds_rc mds_zero_update(struct mds_zero *z, double lr, double grad_scale);

/* A unit's master weights, gradient or moments in f32, whole (gathered from the group), in
 * host memory [unit's count].  For files and comparisons. */
enum mds_zero_what { MDS_ZERO_WEIGHT, MDS_ZERO_GRAD, MDS_ZERO_M, MDS_ZERO_V };
enum mds_rc mds_zero_read(struct mds_zero *z, enum mds_zero_what what, int unit,
                          float *host);

#endif
