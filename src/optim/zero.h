/* SPDX-License-Identifier: BSD-3-Clause */
/* Who stores what of weights, gradients and optimizer states, and how they travel:
 * ZeRO.
 *
 * The ranks of a group hold the same weights (data parallelism, and sequence
 * parallelism of the Ulysses and ring kinds).  Each unit of the registry is cut into
 * one shard per rank (mds_comm_slice), and three things are sharded or whole:
 *
 *   optimizer states   from stage 1 on: sharded_states.h
 *   gradients          from stage 2 on: sharded_gradients.h
 *   weights            at stage 3: sharded_weights.h
 *
 * A group of one rank has nothing to share and is at stage 0, unless its weights rest
 * on the host.  Bytes per parameter that last, with weights of w bytes and N ranks:
 *
 *             weights   gradients   master (16-bit only)   moments
 *   stage 0   w         4           4                      8
 *   stage 1   w         4           4/N                    8/N
 *   stage 2   w         4/N         4/N                    8/N
 *   stage 3   w/N       4/N         4/N                    8/N
 *
 * Offload moves the last two columns to host memory or a file, and the update with
 * them: the host then has a master of 32-bit weights as well, and in pinned memory room
 * for gradients and for weights on their way.  Source: Rajbhandari,
 * Rasley, Ruwase, He 2019, arXiv:1910.02054; Ren et al. 2021, arXiv:2101.06840;
 * Rajbhandari et al. 2021, arXiv:2104.07857.
 *
 * Sums are made in rank order and the update goes element by element: with 32-bit
 * weights all stages and all places give the same bits, as long as a step has one pass.
 * With more, stages 0 and 1 add up a rank's passes first, 2 and 3 the ranks.
 *
 * Everything here is collective over the group, in the same order on every rank; so are
 * the hooks. */
#ifndef MDS_OPTIM_ZERO_H
#define MDS_OPTIM_ZERO_H

#include "comm/comm.h"
#include "config/config.h"
#include "device/arena.h"
#include "tensor/params.h"

struct mds_zero;

struct mds_zero_spec {
    const struct mds_optim_config *optim; /* copied */
    struct mds_params *params;            /* borrowed; complete */
    struct mds_dev *dev;                  /* borrowed */
    struct mds_comm *group;               /* borrowed: ranks with the same weights */
    int stage;                            /* 0 .. 3 */
    enum mds_place_kind optimizer;        /* where master weights and moments live */
    /* Where slices of weights are stored: DEVICE, or CPU at stage 3 with the optimizer
     * offloaded. */
    enum mds_place_kind weights;
    const char *nvme_path; /* folder for MDS_PLACE_NVME; borrowed for create */
    int64_t bucket_bytes;  /* stage 0: neighbouring units travel together up to it */
    int overlap; /* 0: stages 0, 1 reduce at the end; no gathers ahead of time */
    struct mds_dev *host; /* host memory for offload; borrowed; NULL: dev itself */
    int threads; /* of an update on the host; 0: as many as the cpu kernels have */
};

/* Takes all memory from the arena, places the units, hooks into the registry.  Weights
 * are not set yet.  On a dry device host memory and files are counted, not taken.
 * MDS_EUSER: nvme_path has no room. */
enum mds_rc mds_zero_create(const struct mds_zero_spec *spec, struct mds_arena *arena,
                            struct mds_zero **out);
void mds_zero_destroy(struct mds_zero *z); /* NULL is fine */

/* What offload takes of the host. */
struct mds_zero_host {
    int64_t memory_bytes; /* states, stored weights, buffers for copies */
    int64_t file_bytes;
    int64_t weights; /* number of weights that the host updates */
};
struct mds_zero_host mds_zero_host_bytes(const struct mds_zero *z);

/* What there is of each parameter. */
enum mds_zero_what { MDS_ZERO_WEIGHT, MDS_ZERO_GRAD, MDS_ZERO_M, MDS_ZERO_V };

/* Start values, or those that `fill` gives, in f32, of elements first .. first + n - 1
 * of a unit (gaps 0): of the weights and, if there were updates, of both moments, which
 * are 0 otherwise.  The next update is number updates + 1.  Each rank asks for its own
 * shards only.  On a dry device fill is not called.  If fill fails on a rank, its
 * failure is returned there, the weights are undefined, and all ranks may load again.
 */
typedef enum mds_rc mds_zero_fill(void *ctx, enum mds_zero_what what, int unit,
                                  int64_t first, int64_t n, float *out);
enum mds_rc mds_zero_start(struct mds_zero *z, uint64_t seed);
enum mds_rc mds_zero_load(struct mds_zero *z, mds_zero_fill *fill, void *ctx,
                          int64_t updates);

/* A step begins.  Gradients are zero from a unit's first grad_begin in it on, or blank
 * (tensor/params.h). */
enum mds_rc mds_zero_step_begin(struct mds_zero *z);

/* A backward pass begins.  A unit may report ready once in it, or not at all (that of
 * another chunk of a pipeline).  last: units that do so now will not do so again in
 * this step, so that their sums may travel. */
void mds_zero_pass_begin(struct mds_zero *z, int last);

/* Wait until each rank's gradients (stage 0: all, else its slices) are sums over the
 * group.  Every unit must have been ready in some pass. */
enum mds_rc mds_zero_finish(struct mds_zero *z);

/* Add up another group's gradients of one unit, slice by slice: the tied embedding on a
 * pipeline's first and last stage.  After finish.  The members of `group` have the same
 * rank in ZeRO groups of the same size, at the same stage. */
enum mds_rc mds_zero_sum_unit(struct mds_zero *z, int unit, struct mds_comm *group);

/* *sum (f64 on the device, written) = squares of the gradients this rank answers for;
 * duplicates are left out.  If slices are owned, the group's norm is the sum over its
 * ranks; else each rank has it already. */
enum mds_rc mds_zero_grad_squares(struct mds_zero *z, double *sum);
int mds_zero_owns_slices(const struct mds_zero *z);

/* Update with the gradients times grad_scale, and give every rank the new weights, by
 * acquire at the latest.  An update on the host only begins here, and goes on beside
 * what is called next.  Counts the updates for the bias corrections. */
enum mds_rc mds_zero_update(struct mds_zero *z, double lr, double grad_scale);

/* Wait for all of an update on the host.  If it failed no other can follow: states that
 * were to go into a file are lost, or were not read.  Not collective. */
enum mds_rc mds_zero_check_update(struct mds_zero *z);

/* A unit's master weights, gradient (between finish and step_begin) or moments in f32,
 * whole (gathered from the group), in host memory [unit's count].  For files and
 * comparisons. */
enum mds_rc mds_zero_read(struct mds_zero *z, enum mds_zero_what what, int unit,
                          float *host);

/* ---- for checkpoints ---- */

/* The elements of a unit that are this rank's to write, at every stage: first .. first
 * + n - 1; n may be 0.  Over the group, each element is one rank's. */
void mds_zero_share(const struct mds_zero *z, int unit, int64_t *first, int64_t *n);

/* Elements first .. first + n - 1 of such a share, in f32, to host memory; `what` is no
 * gradient.  Not collective. */
enum mds_rc mds_zero_read_share(struct mds_zero *z, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *host);

/* Updates made so far: what the bias corrections count. */
int64_t mds_zero_updates(const struct mds_zero *z);

#endif
