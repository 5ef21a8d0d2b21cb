/* SPDX-License-Identifier: BSD-3-Clause */
/* Muon: a matrix moves along its momentum, made orthogonal.
 *
 * A matrix may be cut twice: by tensor ranks, into blocks of rows or columns, and each
 * of these by ZeRO's shards.  Momentum and master weights are updated where they lie,
 * piece by piece; only the step's direction is brought together:
 *
 *   round k   matrices k N .. k N + N - 1, one for each of N ranks, their owners
 *     each rank   updates the momentum of its pieces, and sends their directions, in
 *                 f32, to the owners (an exchange)
 *     owner       orthogonalises its matrix, as one rank alone does
 *     each rank   receives its pieces of the results, and moves its weights
 *
 * With 1/N of the weights on each rank, a rank sends and receives about 4 bytes of
 * direction and 2 of result (4 with 32-bit weights) for each of them.  Where every rank
 * has all of its blocks (ZeRO 0), directions come from the owner's tensor ranks alone,
 * and each result is broadcast.
 *
 * A rank has one whole matrix at a time, beside its pieces of a round (round_bytes).
 * Rounds go through the units in windows (mds_muon_window); within a window matrices
 * are ordered by size, so that the ranks of a round are busy for equally long.  Rounds
 * whose matrices all have one shape, a small one, are a batch: an owner keeps its
 * directions, and orthogonalises them together, as GPUs are slow at small products.
 *
 * Sources: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; scale and
 * decoupled decay: Liu et al. 2025, arXiv:2502.16982. */
#ifndef MDS_OPTIM_MUON_H
#define MDS_OPTIM_MUON_H

#include "base/minmax.h"
#include "optim/newton_schulz.h"
#include "optim/sharded_states.h"

struct zero_matrix; /* muon.c */

struct zero_muon {
    struct zero_states *states;         /* borrowed, as are the next three */
    const struct zero_array *gradients; /* summed, on the device */
    const struct zero_partition *parts;
    struct mds_comm *units; /* the group of its units */
    struct mds_comm *group; /* rank = tensor ranks x rank in `units` + tensor rank */
    int rank, size, tensor; /* tensor: ranks that the blocks of a matrix are on */
    struct zero_matrix *list;
    int n, done;                        /* matrices; updated in this step */
    struct mds_comm_block *send, *recv; /* [size] */
    struct newton_schulz work;
    char *parcel; /* pieces for the owners, later those of their results */
};

/* Whether a parameter is one of Muon's. */
static inline int mds_muon_takes(const struct mds_param_spec *spec)
{
    return spec->in_block;
}

/* Units whose matrices are dealt to so many ranks together. */
static inline int64_t mds_muon_window(int64_t ranks)
{
    const int64_t least = 4;

    return mds_round_up(least, ranks);
}

/* For the matrices of the units whose group is `units`.  group: these ranks and their
 * tensor ranks, which come first; the same group without tensor parallelism. */
enum mds_rc mds_muon_init(struct zero_muon *mu, struct zero_states *states,
                          const struct zero_array *gradients, struct mds_comm *units,
                          struct mds_comm *group, struct mds_arena *arena);
void mds_muon_fini(struct zero_muon *mu); /* a zeroed struct is fine */

/* Update the matrices of a unit, and perhaps of later ones.  Call it for all units in
 * order, after mds_states_begin.  Collective over the group. */
enum mds_rc mds_muon_update_unit(struct zero_muon *mu, int unit);

#endif
