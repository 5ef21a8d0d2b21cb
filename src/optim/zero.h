/* SPDX-License-Identifier: BSD-3-Clause */
/* ZeRO: which rank stores which weights, gradients and optimizer states, and the
 * collectives between them.
 *
 * The ranks of a group hold the same weights (data parallelism, and sequence
 * parallelism of the Ulysses and ring kinds).  Each unit of the registry is cut into
 * one shard per rank (mds_comm_shard).  Each of these is either sharded or whole:
 *
 *   optimizer states   from stage 1 on: sharded_states.h
 *   gradients          from stage 2 on: sharded_gradients.h
 *   weights            at stage 3: sharded_weights.h
 *
 * A group of one rank uses stage 0, unless its weights are stored on the host.  Bytes
 * per parameter that are allocated for the whole run, with weights of w bytes and N
 * ranks:
 *
 *             weights   gradients   master (16-bit only)   moments
 *   stage 0   w         4           4                      8
 *   stage 1   w         4           4/N                    8/N
 *   stage 2   w         4/N         4/N                    8/N
 *   stage 3   w/N       4/N         4/N                    8/N
 *
 * For evaluation there are only weights.
 *
 * Offload moves the last two columns to host memory or a file, and the update to the
 * host.  The host then has a master copy of 32-bit weights as well, and pinned buffers
 * for gradients and weights in transit.  With Muon the device updates, and states come
 * and go piece by piece.  Source: Rajbhandari, Rasley, Ruwase, He 2019,
 * arXiv:1910.02054; Ren et al. 2021, arXiv:2101.06840; Rajbhandari et al. 2021,
 * arXiv:2104.07857.
 *
 * Sums over ranks are made in rank order, and the update is element by element or, with
 * Muon, of whole matrices on one rank: with 32-bit weights all stages and all places
 * give the same bits if a step has one pass.  With several passes stages 0 and 1 sum
 * over passes first, stages 2 and 3 over ranks.
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
    struct mds_comm *const *unit_group;   /* [units]: the same of each unit, groups
                                             borrowed; NULL: group for all */
    struct mds_comm *stage_group; /* borrowed: `group` and its tensor ranks, which come
                                     first; for Muon; NULL: no tensor ranks */
    struct mds_comm *stage_part;  /* the same of the units of another group */
    int stage;                    /* 0 .. 3 */
    int evaluation; /* no gradients, masters or moments: weights can be loaded, but no
                       step made, and nothing read back */
    enum mds_place_kind optimizer; /* where master weights and moments live */
    /* Where shards of weights are stored: DEVICE, or CPU at stage 3 with the optimizer
     * offloaded. */
    enum mds_place_kind weights;
    const char *nvme_path; /* folder for MDS_PLACE_NVME; borrowed for create */
    int64_t bucket_bytes;  /* stage 0: size of the buckets that are reduced together */
    int overlap; /* 0: stages 0 and 1 reduce at the end, and nothing is prefetched */
    struct mds_dev *host; /* host memory for offload; borrowed; NULL: dev itself */
    int threads; /* of the update on the host; 0: all threads of the cpu kernels */
};

/* Allocates all memory from the arena, sets the addresses of units and installs the
 * registry's hooks.  Weights are still undefined.  On a dry device host memory and
 * files are counted but not allocated.  MDS_EUSER if the file system of nvme_path is
 * full. */
enum mds_rc mds_zero_create(const struct mds_zero_spec *spec, struct mds_arena *arena,
                            struct mds_zero **out);
void mds_zero_destroy(struct mds_zero *z); /* NULL is fine */

/* What offload uses of the host. */
struct mds_zero_host {
    int64_t memory_bytes; /* states, stored weights, buffers for copies */
    int64_t file_bytes;
};
struct mds_zero_host mds_zero_host_bytes(const struct mds_zero *z);

/* What is stored for each parameter. */
enum mds_zero_what { MDS_ZERO_WEIGHT, MDS_ZERO_GRAD, MDS_ZERO_M, MDS_ZERO_V };

/* Set weights and moments.  mds_zero_init_weights: random initial weights, zero
 * moments. mds_zero_load: weights from `fill` and, if updates > 0, both moments from it
 * too; the next update is number updates + 1.  fill writes elements first .. first + n
 * - 1 of a unit in f32, gaps as 0.  Each rank asks for its own shards only.  On a dry
 * device fill is not called.  If fill fails on a rank, the call returns its error
 * there, the weights are undefined, and all ranks may load again. */
typedef enum mds_rc mds_zero_fill_fn(void *ctx, enum mds_zero_what what, int unit,
                                     int64_t first, int64_t n, float *out);
enum mds_rc mds_zero_init_weights(struct mds_zero *z, uint64_t seed);
enum mds_rc mds_zero_load(struct mds_zero *z, mds_zero_fill_fn *fill, void *ctx,
                          int64_t updates);

/* A step begins.  Its first grad_begin of a unit makes the gradient zero or
 * uninitialised (tensor/params.h says which parameters). */
void mds_zero_step_begin(struct mds_zero *z);

/* A backward pass begins.  In a pass each unit calls grad_ready once, or never if it
 * belongs to another model chunk of the pipeline.  last: units that call it in this
 * pass will not call it again in this step, so that their reduction may start. */
void mds_zero_pass_begin(struct mds_zero *z, int last);

/* Wait until the gradients of this rank (stage 0: all, else its shards) are summed over
 * the group.  Every unit must have called grad_ready in some pass. */
enum mds_rc mds_zero_finish(struct mds_zero *z);

/* Sum the gradient of one unit over another group too, shard by shard: for the tied
 * embedding on the first and last pipeline stage.  Call it after mds_zero_finish.  The
 * members of `group` have the same rank in ZeRO groups of the same size and stage. */
enum mds_rc mds_zero_sum_unit(struct mds_zero *z, int unit, struct mds_comm *group);

/* *sum (f64 on the device, written) = sum of squares of the gradients that this rank
 * counts: its shards, or whole units if it is the first rank that has them; without
 * duplicates.  Add the sums of all ranks. */
enum mds_rc mds_zero_grad_squares(struct mds_zero *z, double *sum);
int mds_zero_is_sharded(const struct mds_zero *z);

/* The next update also multiplies the weights of each head by its factor, [heads that
 * parameters number]; borrowed until the step after; NULL: it does not. */
void mds_zero_scale_heads(struct mds_zero *z, const float *factor);

/* Update the weights with the gradients times grad_scale.  Every rank has the new
 * weights of a unit when it acquires it.  An update on the host only starts here and
 * continues in the background.  Counts the updates for the bias corrections. */
enum mds_rc mds_zero_update(struct mds_zero *z, double lr, double grad_scale);

/* Wait for the end of an update on the host.  If it failed, states could not be written
 * to their file or read from it, and every later update fails.  Not collective. */
enum mds_rc mds_zero_check_update(struct mds_zero *z);

/* Gather a unit's whole master weights, gradient (valid from mds_zero_finish to
 * mds_zero_step_begin) or moment in f32 to host memory: host[count of the unit]. */
enum mds_rc mds_zero_read(struct mds_zero *z, enum mds_zero_what what, int unit,
                          float *host);

/* ---- for checkpoints ---- */

/* The elements of a unit that this rank writes to a checkpoint: first .. first + n - 1;
 * n may be 0.  The same at every stage; each element belongs to one rank of the
 * group. */
void mds_zero_own_shard(const struct mds_zero *z, int unit, int64_t *first, int64_t *n);

/* Copy elements first .. first + n - 1, all within that shard, to host memory in f32.
 * `what` is not MDS_ZERO_GRAD.  Not collective. */
enum mds_rc mds_zero_read_shard(struct mds_zero *z, enum mds_zero_what what, int unit,
                                int64_t first, int64_t n, float *host);

/* Updates made so far, as counted for the bias corrections. */
int64_t mds_zero_updates(const struct mds_zero *z);

#endif
