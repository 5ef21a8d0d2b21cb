/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of runs: collected by report.c, written by results.c. */
#ifndef MDS_LAUNCH_RESULTS_H
#define MDS_LAUNCH_RESULTS_H

#include "launch/history.h"

#include "base/status.h"

#include <stddef.h>

/* The rank that the others waited for in a measured step. */
struct mds_slow_rank {
    long step;
    int rank;
    char host[64];
    double excess; /* its own time above the median, as a fraction */
};

struct mds_result {
    char run[128], model[64]; /* without characters special to CSV, Markdown, gnuplot */
    long seq, steps;          /* steps done */
    int ranks;
    double global;              /* sequences of a step */
    double flops;               /* of a step by Megatron's formula, the mean */
    double elapsed_s;           /* of a step, the median */
    double loss;                /* of the last */
    int has_loss;               /* that of some step is finite */
    double valid_loss;          /* the newest; NAN: none */
    struct mds_slow_rank *slow; /* [slows]; owned */
    size_t slows;
    struct mds_history history; /* owned */
};

struct mds_results {
    struct mds_result *v;
    size_t n;
};

/* Write report.csv and report.md (also to standard output) into folder and, if gnuplot
 * is found, plots: losses.svg (of all runs, by mds_plot), longest.svg (longest sequence
 * by ranks, a bar per model), speed.svg (TFLOP/s by sequence length, a curve per model
 * and number of ranks; the fastest run of each length) and, of runs on several ranks,
 * stragglers.svg (how far the slowest rank is above the median, by iteration, a curve
 * per run).  all must be sorted by model, ranks, length. */
enum mds_rc mds_results_write(const struct mds_results *all, const char *folder);

void mds_result_fini(struct mds_result *r);
void mds_results_fini(struct mds_results *all);

#endif
