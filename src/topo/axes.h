/* SPDX-License-Identifier: BSD-3-Clause */
/* The parallel axes (tensor, Ulysses, ring, data, pipeline), as a table. */
#ifndef MDS_TOPO_AXES_H
#define MDS_TOPO_AXES_H

#include "base/str.h"

#include <stdint.h>

struct mds_axis {
    const char *name; /* for users: "tensor" */
    const char *tag;  /* of its groups in messages and ledgers: "tp" */
    const char *key;  /* option that sets its size; NULL: gets the remaining ranks */
};

/* The rows of the program's table, mds_axes[], fastest first.  To add an axis: its bit,
 * its row, its size in struct mds_parallel_config, its option (HACKING.md). */
enum mds_axis_bit {
    MDS_AXIS_TENSOR = 1 << 0,   /* split every weight matrix (with sequence parallelism,
                                   also the rows between GEMMs) */
    MDS_AXIS_ULYSSES = 1 << 1,  /* split sequences by tokens, attention by heads */
    MDS_AXIS_RING = 1 << 2,     /* split sequences by tokens; ring attention sends keys
                                   and values around */
    MDS_AXIS_DATA = 1 << 3,     /* split the batch */
    MDS_AXIS_PIPELINE = 1 << 4, /* split the model into stages, in order */
};
enum { MDS_AXES = 5, MDS_AXES_MOST = 8 /* of any table */ };

/* Sets of axes: those along which ranks have different tokens; those within a pipeline
 * stage; all. */
#define MDS_AXES_TOKENS (MDS_AXIS_ULYSSES | MDS_AXIS_RING | MDS_AXIS_DATA)
#define MDS_AXES_STAGE (MDS_AXES_ALL & ~(unsigned)MDS_AXIS_PIPELINE)
#define MDS_AXES_ALL ((1u << MDS_AXES_MOST) - 1)

extern const struct mds_axis mds_axes[]; /* ends with a row whose name is NULL */

/* Append "pipeline 2 x data 4 x ring 1 x Ulysses 2 x tensor 8" to out, leaving out rows
 * of size 0. */
void mds_axes_format(const struct mds_axis *table, const int64_t *size,
                     struct mds_str *out);

/* Ranks of one replica of the model: the product of all sizes except that of the row
 * without a key (data parallelism). */
int64_t mds_axes_model_ranks(const struct mds_axis *table, const int64_t *size);

#endif
