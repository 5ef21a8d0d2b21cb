/* SPDX-License-Identifier: BSD-3-Clause */
/* Which layers each model chunk of the pipeline holds. */
#ifndef MDS_PIPELINE_SPLIT_H
#define MDS_PIPELINE_SPLIT_H

#include "base/status.h"

/* Chunk `chunk` of stage `stage` holds layers *first .. *first + *n - 1.  It is number
 * chunk * stages + stage of the stages * chunks model chunks.
 *
 * Layers need not divide evenly.  The remaining layers go, one each, to the last model
 * chunks except the very last: that one also computes the head and the loss, and later
 * stages save the activations of fewer micro-batches.
 *
 *   30 layers on 4 stages              7  8  8  7
 *   13 layers on 2 stages x 2 chunks   3  3  4  3   stage 0: 7, stage 1: 6
 *
 * MDS_EUSER, with the largest number that works, if there are fewer layers than model
 * chunks. */
enum mds_rc mds_pipe_layers(int layers, int stages, int chunks, int stage, int chunk,
                            int *first, int *n);

#endif
