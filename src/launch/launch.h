/* SPDX-License-Identifier: BSD-3-Clause */
/* From the user's options to the launcher command that starts the ranks. */
#ifndef MDS_LAUNCH_LAUNCH_H
#define MDS_LAUNCH_LAUNCH_H

#include "config/options.h"
#include "data/scan.h"
#include "launch/events.h"
#include "launch/options.h"
#include "launch/placement.h"
#include "launch/argv.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "plan/predict.h"

#include <stdint.h>

/* What is left of a run, by the data and the checkpoint that are here. */
struct mds_outlook {
    int64_t steps, trained;   /* steps, and the samples that they train on */
    int64_t evaluations;      /* between steps and at the end */
    int64_t samples, batches; /* of all of them; the last batch of each may not be full
                               */
    double train_s, batch_s;  /* as predicted: of all steps, and of a batch evaluated */
};

/* The state of one mds_launch. */
struct mds_launch {
    const struct mds_launch_options *options; /* borrowed */
    struct mds_machine *machine;
    struct mds_placement placement;
    int64_t nodes, per_node, ranks;
    struct mds_argv asked;  /* mds_pretrain's words as the user gave them, after argv[0]
                               and --machine */
    struct mds_pairs seen;  /* from mds_launch_read_data on: mds_config.data.seen */
    int for_later;          /* the run is planned or submitted, not started here */
    struct mds_scan scan;   /* from mds_launch_read_data on, of a run for later */
    struct mds_extent done; /* from mds_launch_look_ahead on: by the checkpoint */
    struct mds_outlook outlook; /* from mds_launch_choose_layout on */
};

/* Find the machine profile and the nodes.  argv: mds_pretrain's arguments, borrowed for
 * the call.  job: the nodes to request from a batch system, not those of this job, for
 * a run that starts later. */
enum mds_rc mds_launch_open(const struct mds_launch_options *options, int job, int argc,
                            char *const *argv, struct mds_launch *out);
void mds_launch_close(struct mds_launch *l);

/* Read mds_pretrain's configuration from the user's arguments followed by `extra` (may
 * be NULL), without resolving it.  Warnings are logged if log is 1. */
enum mds_rc mds_launch_config(const struct mds_launch *l, const struct mds_argv *extra,
                              int log, struct mds_config_run **out);

/* MDS_EUSER if the nodes have too few GPUs for the ranks, or none for its type of
 * numbers. */
enum mds_rc mds_launch_check_device(const struct mds_launch *l,
                                    const struct mds_config_run *run);

/* Before predictions: read from data that are here how much of attention packed
 * documents leave and, for a later run, the vocabulary of Megatron's files, for `run`
 * and for all configurations read later.  It may take a while. */
void mds_launch_read_data(struct mds_launch *l, struct mds_config_run *run);

/* The words of Megatron's files; 0 if these were not read to the end. */
int64_t mds_launch_scanned_words(const struct mds_launch *l);

/* Warn of data that are not here; MDS_EUSER for a name that no command line passes on.
 */
enum mds_rc mds_launch_check_paths(const struct mds_data_config *d);

/* Refuse a resolved run that the job would refuse, and in its words, as far as data and
 * checkpoint are here: windows of each split, vocabulary and tokenizer, options that
 * the checkpoint does not fit, files that are not those it was trained on.  Log the
 * splits and epochs; set l->done and what l->outlook counts. */
enum mds_rc mds_launch_look_ahead(struct mds_launch *l, struct mds_config_run *run);

/* Set the times in l->outlook, whose step is predicted by *e. */
enum mds_rc mds_launch_predict_times(struct mds_launch *l, const struct mds_config *c,
                                     const struct mds_estimate *e);

/* "1000 steps and 3 evaluations (96 samples, 8 min) = 5 h 18 min = 10.6 node-hours, 6
 * jobs of 1:00:00": append what l->outlook takes; nothing if that is nothing.  job_s:
 * time for it in a job, which the walltime's text `job` says; 0: no jobs.
 * (length.c) */
void mds_launch_length(const struct mds_launch *l, double job_s, const char *job,
                       struct mds_str *out);

/* Append " = 5 h 18 min = 10.6 node-hours, 6 jobs of 1:00:00" for s seconds; as
 * mds_launch_length. */
void mds_launch_hours(const struct mds_launch *l, double s, double job_s,
                      const char *job, struct mds_str *out);

/* For the best layout of a plan of what was asked: refuse what the job would refuse;
 * print what the run takes in all, and log what its checkpoints take. */
enum mds_rc mds_launch_print_outlook(struct mds_launch *l,
                                     const struct mds_config_run *asked,
                                     const struct mds_plan *p, FILE *f);

/* Fill in a plan request for this configuration on these nodes; both are borrowed.
 * MDS_EUSER if the configuration has no model. */
enum mds_rc mds_launch_request(const struct mds_launch *l,
                               const struct mds_config_run *run,
                               struct mds_plan_request *out);

/* Whether a value is neither a default nor derived. */
static inline int mds_is_set_by_user(const struct mds_config_run *run, const char *key)
{
    return mds_settings_of(&run->settings, key)->level > MDS_LEVEL_DERIVED;
}

/* Append the options for every value of a resolved configuration that was set or
 * chosen. Defaults are left out, so that a variable set later for the ranks still
 * counts. */
enum mds_rc mds_launch_arguments(const struct mds_launch *l,
                                 const struct mds_config_run *run,
                                 struct mds_argv *out);

/* Append the command that starts the ranks: launcher, binding, environment, program and
 * `arguments`. */
enum mds_rc mds_launch_command(const struct mds_launch *l,
                               const struct mds_argv *arguments, struct mds_argv *out);

/* Print a command on a line of standard output. */
enum mds_rc mds_launch_print_command(const struct mds_argv *command);

/* Add the nodes of the run that do not answer; none if that is all of them. (answer.c)
 */
enum mds_rc mds_launch_find_silent(const struct mds_launch *l, struct mds_losses *lost);

/* Start the ranks and wait for them.  If they lose a node, start them again on a spare
 * one (restart.c).  *status: the exit status for this program. */
enum mds_rc mds_launch_run(const struct mds_launch_options *options, int argc,
                           char *const *argv, int *status);

/* Start the ranks with --preflight-only and wait for them.  If that fails on GPUs of
 * several nodes, try once more with NCCL's plain network, to tell whether the network
 * is to blame.  (check.c) */
enum mds_rc mds_launch_check(const struct mds_launch_options *options, int argc,
                             char *const *argv);

/* Choose the layout (by a plan, if it is left open), check that it fits in memory, and
 * append mds_pretrain's arguments.  *out is the prediction for a step. */
enum mds_rc mds_launch_choose_layout(struct mds_launch *l, struct mds_argv *arguments,
                                     struct mds_estimate *out);

#endif
