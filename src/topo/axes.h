/* SPDX-License-Identifier: BSD-3-Clause */
/* The parallel axes (tensor, Ulysses, ring, expert, data, pipeline), as a table. */
#ifndef MDS_TOPO_AXES_H
#define MDS_TOPO_AXES_H

#include "base/str.h"

#include <stdint.h>

struct mds_axis {
    const char *name; /* for users: "tensor" */
    const char *tag;  /* of its groups in messages and ledgers: "tp" */
    const char *key;  /* option that sets its size; NULL: gets the remaining ranks */
    int rare;         /* texts leave it out where its size is 1 */
};

/* The rows of the program's table, mds_axes[], fastest first.  To add an axis: its bit,
 * its row, its size in struct mds_parallel_config, its option (HACKING.md). */
enum mds_axis_bit {
    MDS_AXIS_TENSOR = 1 << 0,   /* split every weight matrix (with sequence parallelism,
                                   also the rows between GEMMs) */
    MDS_AXIS_ULYSSES = 1 << 1,  /* split sequences by tokens, attention by heads */
    MDS_AXIS_RING = 1 << 2,     /* split sequences by tokens; ring attention sends keys
                                   and values around */
    MDS_AXIS_EXPERT = 1 << 3,   /* split the batch, and the experts of each block */
    MDS_AXIS_DATA = 1 << 4,     /* split the batch */
    MDS_AXIS_PIPELINE = 1 << 5, /* split the model into stages, in order */
};
enum { MDS_AXES = 6, MDS_AXES_MOST = 8 /* of any table */ };

/* Sets of axes: those that split the batch: the data ranks of options and logs; those
 * that split sequences by tokens; those along which ranks have different tokens; of
 * these, those along which they have the same experts; those within a pipeline stage,
 * and of these the same; all. */
#define MDS_AXES_BATCH (MDS_AXIS_EXPERT | MDS_AXIS_DATA)
#define MDS_AXES_SEQUENCE (MDS_AXIS_ULYSSES | MDS_AXIS_RING)
#define MDS_AXES_TOKENS (MDS_AXES_SEQUENCE | MDS_AXES_BATCH)
#define MDS_AXES_SAME_EXPERTS (MDS_AXES_TOKENS & ~(unsigned)MDS_AXIS_EXPERT)
#define MDS_AXES_STAGE (MDS_AXES_ALL & ~(unsigned)MDS_AXIS_PIPELINE)
#define MDS_AXES_STAGE_EXPERTS (MDS_AXES_STAGE & ~(unsigned)MDS_AXIS_EXPERT)
#define MDS_AXES_ALL ((1u << MDS_AXES_MOST) - 1)

extern const struct mds_axis mds_axes[]; /* ends with a row whose name is NULL */

/* Append "pipeline 2 x data 4 x ring 1 x Ulysses 2 x tensor 8" to out, leaving out rows
 * of size 0, and rare ones of size 1. */
void mds_axes_format(const struct mds_axis *table, const int64_t *size,
                     struct mds_str *out);

/* Ranks of which any multiple is a grid: the product of all sizes except that of the
 * row without a key (data parallelism). */
int64_t mds_axes_model_ranks(const struct mds_axis *table, const int64_t *size);

#endif
