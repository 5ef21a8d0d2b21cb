/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands submit, sweep, lr-find, report, status, continue, cancel and
 * models. */
#ifndef MDS_LAUNCH_SUBMIT_H
#define MDS_LAUNCH_SUBMIT_H

#include "launch/options.h"

#include "base/status.h"

/* submit [QUEUE [NODES [WALLTIME [PROJECT]]]]: operands override the options of the
 * same meaning.  Creates the run's folder, writes job.sh and run.yaml there and submits
 * it; with options->print it only prints the script.  argv: mds_pretrain's
 * arguments. */
enum mds_rc mds_submit(struct mds_launch_options *options, char *const *operands,
                       size_t operand_count, int argc, char *const *argv);

/* This program's arguments without the subcommand and its own operands: a line of
 * `submit` or `run`, with those of them that are its operands. */
struct mds_submit_line {
    int argc;
    char *const *argv;
    size_t operand_count;
    char *const *operands;
};

/* Submit one run per combination of the values in the table at path, a YAML map from
 * variables to lists of values.  Those that do not fit are skipped and counted.
 * command: executes this program's command line, `submit`, as if it had been started
 * anew in the environment of now; returns its exit status. */
typedef int mds_sweep_command(int argc, char **argv);
enum mds_rc mds_sweep(const struct mds_launch_options *options, const char *path,
                      const struct mds_submit_line *line, mds_sweep_command *command);

/* A script does what these say in this program's place, and they return only if it
 * cannot start.  (scripts.c)
 *
 * Read what every run in folder has written (metrics.jsonl, events.jsonl, run.yaml),
 * and write report.csv, report.md and plots there, and the page options->html. */
enum mds_rc mds_report(const struct mds_launch_options *options, const char *folder);

/* Print a line for each run in folder (NULL: --runs), or for the run that it is; with
 * --watch again and again, until the program is interrupted. */
enum mds_rc mds_status(const struct mds_launch_options *options, const char *folder);

/* The next job of the run NAME in --runs, or of that folder.  Without a batch system
 * this program becomes the run. */
enum mds_rc mds_continue(const struct mds_launch_options *options, const char *name);

/* Let its ranks save and leave, and cancel its jobs that wait. */
enum mds_rc mds_cancel(const struct mds_launch_options *options, const char *name);

/* Run with that line for a few steps in which the learning rate rises, print the
 * highest rate at which the loss is still low, and draw both. */
enum mds_rc mds_lr_find(const char *plot, const char *steps,
                        const struct mds_submit_line *line);

/* Print the shapes of the model table, with their parameters and whether they fit on
 * the nodes that a plan would be for.  argv: mds_pretrain's arguments. */
enum mds_rc mds_models(const struct mds_launch_options *options, int argc,
                       char *const *argv);

#endif
