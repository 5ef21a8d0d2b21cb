/* SPDX-License-Identifier: BSD-3-Clause */
/* The parallel axes (tensor, Ulysses, ring, data, pipeline, expert), as a table. */
#ifndef MDS_TOPO_AXES_H
#define MDS_TOPO_AXES_H

#include "base/str.h"

#include <stdint.h>

struct mds_axis {
    const char *name; /* for users: "tensor" */
    const char *tag;  /* of its groups in messages and ledgers: "tp" */
    const char *key;  /* option that sets its size; NULL: gets the remaining ranks */
    /* Axes that it lies within: its groups are neighbours among their ranks, and its
     * size divides the product of theirs.  0: its size is a factor of the number of
     * ranks.  At most one row has it, the last. */
    unsigned within;
};

/* The rows of the program's table, mds_axes[], fastest first.  To add an axis: its
 * bits, its row, its size in struct mds_parallel_config, its option (HACKING.md). */
enum mds_axis_bits {
    MDS_AXIS_TENSOR = 3 << 0,   /* split every weight matrix (with sequence parallelism,
                                   also the rows between GEMMs) */
    MDS_AXIS_ULYSSES = 3 << 2,  /* split sequences by tokens, attention by heads */
    MDS_AXIS_RING = 3 << 4,     /* split sequences by tokens; ring attention sends keys
                                   and values around */
    MDS_AXIS_DATA = 3 << 6,     /* split the batch */
    MDS_AXIS_PIPELINE = 3 << 8, /* split the model into stages, in order */
};
enum { MDS_AXES = 6, MDS_AXES_MOST = 8 /* of any table */ };

/* A rank has two coordinates along an axis: its place in the axis within (the lower
 * bit), and which of such groups it belongs to (the upper one).  Any set of bits has
 * groups of ranks. */
#define MDS_AXES_ALL ((1u << 2 * MDS_AXES_MOST) - 1)
#define MDS_AXES_INNER (MDS_AXES_ALL / 3)

/* Sets of axes: those that split sequences by tokens; those along which ranks have
 * different tokens; of these, what splits the experts of each block, and the rest,
 * along which they have the same experts; those within a pipeline stage, and of these
 * the same; all. */
#define MDS_AXES_SEQUENCE (MDS_AXIS_ULYSSES | MDS_AXIS_RING)
#define MDS_AXES_TOKENS (MDS_AXES_SEQUENCE | MDS_AXIS_DATA)
#define MDS_AXIS_EXPERT (MDS_AXES_TOKENS & MDS_AXES_INNER)
#define MDS_AXES_SAME_EXPERTS (MDS_AXES_TOKENS & ~MDS_AXIS_EXPERT)
#define MDS_AXES_STAGE (MDS_AXES_ALL & ~(unsigned)MDS_AXIS_PIPELINE)
#define MDS_AXES_STAGE_EXPERTS (MDS_AXES_STAGE & ~MDS_AXIS_EXPERT)

extern const struct mds_axis mds_axes[]; /* ends with a row whose name is NULL */

/* The bits of a row. */
static inline unsigned mds_axis_bits(const struct mds_axis *table, int row)
{
    unsigned within = table[row].within;

    return within ? within & MDS_AXES_INNER : 3u << 2 * row;
}

/* Append "pipeline 2 x data 4 x ring 1 x Ulysses 2 x tensor 8 (expert 4)" to out,
 * leaving out rows of size 0, and one within others that has one rank. */
void mds_axes_format(const struct mds_axis *table, const int64_t *size,
                     struct mds_str *out);

/* Ranks of which any multiple is a grid: the product of all sizes except that of the
 * row without a key (data parallelism), times what an axis within others needs of it.
 */
int64_t mds_axes_model_ranks(const struct mds_axis *table, const int64_t *size);

#endif
