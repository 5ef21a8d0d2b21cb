/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs reached.  For report.c and results.c. */
#ifndef MDS_LAUNCH_RESULTS_H
#define MDS_LAUNCH_RESULTS_H

#include "base/status.h"

#include <stddef.h>

struct mds_result {
    char run[128], model[64]; /* nothing in them that tables or plots read as theirs */
    long seq, steps;          /* steps done */
    int ranks;
    double global, flops; /* sequences, and FLOPs by Megatron's formula, of a step */
    double elapsed_s;     /* of a step, the median */
    double loss;          /* of the last */
};

struct mds_results {
    struct mds_result *v;
    size_t n;
};

/* report.csv and report.md (also on standard output), and, where gnuplot is found,
 * longest.svg (longest sequence by ranks, a bar for each model) and speed.svg (TFLOP/s
 * by sequence length, a line for each model on as many ranks; of runs of one length the
 * fastest), in folder.  all: sorted by model, ranks, length. */
enum mds_rc mds_results_write(const struct mds_results *all, const char *folder);

#endif
