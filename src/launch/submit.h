/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs around jobs. */
#ifndef MDS_LAUNCH_SUBMIT_H
#define MDS_LAUNCH_SUBMIT_H

#include "launch/options.h"

#include "base/status.h"

/* submit [QUEUE [NODES [WALLTIME [PROJECT]]]]: what stands there goes before the
 * options.  Makes the run's folder, writes script and record there, submits; with
 * options->print only prints the script.  argv: mds_pretrain's arguments. */
enum mds_rc mds_submit(struct mds_launch_options *options, char *const *operands,
                       size_t operand_count, int argc, char *const *argv);

/* Submit one run for each cell of a table: a YAML map from variables to lists of
 * values.  All cells are planned and written first; those that do not fit, or are
 * refused, are counted and left out.  argv: this program's arguments, without the verb
 * sweep and the table. */
enum mds_rc mds_sweep(const struct mds_launch_options *options, const char *path,
                      int argc, char *const *argv);

/* Collect folder/x/metrics.jsonl: report.csv, report.md and plots in folder. */
enum mds_rc mds_report(const char *folder);

#endif
