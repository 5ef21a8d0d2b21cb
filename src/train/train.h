/* SPDX-License-Identifier: BSD-3-Clause */
/* The training loop: batches, steps, evaluation, checkpoints, and an orderly end. */
#ifndef MDS_TRAIN_TRAIN_H
#define MDS_TRAIN_TRAIN_H

#include "base/host.h"
#include "transport/world.h"
#include "config/config.h"
#include "data/dataset.h"

struct mds_train_spec {
    const struct mds_config *config;    /* resolved, vocabulary known; borrowed */
    const struct mds_world *world;      /* borrowed */
    struct mds_dataset *data;           /* borrowed */
    const char (*hosts)[MDS_HOST_SIZE]; /* of each rank; borrowed */
    double began_s;      /* mds_clock_s at program start; time limits count from here */
    const char *version; /* of the program, for logs and checkpoints */
    const char *configuration; /* as --show-config prints it; goes into checkpoints */
};

/* Train until the iterations, the time limit or a signal ends the run.  Collective over
 * the world.  Rank 0 prints to standard output.
 *
 * *status: what to exit with (base/exit_status.h).  MDS_EXIT_DONE if the run has
 * reached its target, with its last evaluation.  Else, if there is a checkpoint to
 * resume from, MDS_EXIT_UNFINISHED or MDS_EXIT_TERMINATED; without one MDS_EXIT_SIGNAL
 * plus the signal that ended it, or MDS_EXIT_REPEATS: it would end there again. */
enum mds_rc mds_train(const struct mds_train_spec *spec, int *status);

#endif
