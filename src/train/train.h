/* SPDX-License-Identifier: BSD-3-Clause */
/* The run: batches, steps, evaluation, and an orderly end. */
#ifndef MDS_TRAIN_TRAIN_H
#define MDS_TRAIN_TRAIN_H

#include "transport/world.h"
#include "config/config.h"
#include "data/dataset.h"

struct mds_train_spec {
    const struct mds_config *config; /* resolved, vocabulary known; borrowed */
    const struct mds_world *world;   /* borrowed */
    struct mds_dataset *data;        /* borrowed */
    double began_s; /* mds_clock_s when the program set out: limits of time count so */
    const char *version;       /* of the program, for records */
    const char *configuration; /* as --show-config prints it; for checkpoints */
};

/* Train to the end that the configuration asks for: iterations, duration or signal.
 * Collective over the world.  Prints to standard output on rank 0.
 *
 * *unfinished: there are iterations left, and a checkpoint to go on from. */
enum mds_rc mds_train(const struct mds_train_spec *spec, int *unfinished);

#endif
