/* SPDX-License-Identifier: BSD-3-Clause */
/* Which layers of the model a piece of the pipeline holds. */
#ifndef MDS_PIPELINE_SPLIT_H
#define MDS_PIPELINE_SPLIT_H

#include "base/status.h"

/* Layers *first to *first + *n - 1 are those of `chunk` of `stage`: of piece chunk *
 * stages + stage, out of stages * chunks pieces in the model's order.
 *
 * Any number of layers: what is left after an even split goes, one layer each, to the
 * last pieces but one.  The very last has the head and the loss to do; and the later a
 * piece, the fewer micro-batches its stage keeps activations of.
 *
 *   30 layers on 4 stages              7  8  8  7
 *   13 layers on 2 stages x 2 chunks   3  3  4  3   stage 0: 7, stage 1: 6
 *
 * MDS_EUSER, naming how many there may be, if there are more pieces than layers. */
enum mds_rc mds_pipe_layers(int layers, int stages, int chunks, int stage, int chunk,
                            int *first, int *n);

#endif
