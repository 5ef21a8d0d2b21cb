/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of runs: collected by report.c, written by results.c. */
#ifndef MDS_LAUNCH_RESULTS_H
#define MDS_LAUNCH_RESULTS_H

#include "base/status.h"

#include <stddef.h>

struct mds_result {
    char run[128], model[64]; /* without characters special to CSV, Markdown, gnuplot */
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

/* Write report.csv and report.md (also to standard output) into folder and, if gnuplot
 * is found, two plots: longest.svg (longest sequence by ranks, a bar per model) and
 * speed.svg (TFLOP/s by sequence length, a curve per model and number of ranks; the
 * fastest run of each length).  all must be sorted by model, ranks, length. */
enum mds_rc mds_results_write(const struct mds_results *all, const char *folder);

#endif
