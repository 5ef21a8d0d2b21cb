/* SPDX-License-Identifier: BSD-3-Clause */
/* From what a user asked for to the words of a launcher's command. */
#ifndef MDS_LAUNCH_LAUNCH_H
#define MDS_LAUNCH_LAUNCH_H

#include "config/options.h"
#include "launch/options.h"
#include "launch/placement.h"
#include "launch/words.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "plan/predict.h"

#include <stdint.h>

/* What one start of mds_launch is about. */
struct mds_launch {
    const struct mds_launch_options *options; /* borrowed */
    struct mds_machine *machine;
    struct mds_placement placement;
    int64_t nodes, per_node, ranks;
    struct mds_words asked; /* mds_pretrain's words as the user gave them, after argv[0]
                               and --machine */
};

/* Find machine and nodes.  asked: mds_pretrain's arguments, borrowed for the call.
 * job: the nodes are those to ask a batch system for, not those of this job. */
enum mds_rc mds_launch_open(const struct mds_launch_options *options, int job, int argc,
                            char *const *argv, struct mds_launch *out);
void mds_launch_close(struct mds_launch *l);

/* mds_pretrain's configuration with `extra` words (may be NULL) behind the user's, read
 * but not resolved.  Warnings are logged if say. */
enum mds_rc mds_launch_config(const struct mds_launch *l, const struct mds_words *extra,
                              int say, struct mds_config_run **out);

/* Without a vocabulary of its own the configuration gets that of its data, where they
 * can be read and say it. */
void mds_launch_vocab(struct mds_config_run *run, int say);

/* A search for layouts of a configuration on these nodes; both are borrowed.
 * MDS_EUSER: there is no model to search for. */
enum mds_rc mds_launch_request(const struct mds_launch *l,
                               const struct mds_config_run *run,
                               struct mds_plan_request *out);

/* The options that give all that was set or chosen, for a resolved configuration.  What
 * was neither is left to defaults: a variable set later, for the ranks, counts. */
enum mds_rc mds_launch_arguments(const struct mds_launch *l,
                                 const struct mds_config_run *run,
                                 struct mds_words *out);

/* The command that starts the ranks: launcher, binding, environment, program, and
 * `arguments`. */
enum mds_rc mds_launch_command(const struct mds_launch *l,
                               const struct mds_words *arguments,
                               struct mds_words *out);

/* Choose the layout (by planning, if that is asked for), check that it fits, and append
 * the arguments.  What a step of it takes goes to *out. */
enum mds_rc mds_launch_choose(const struct mds_launch *l, struct mds_words *arguments,
                              struct mds_estimate *out);

#endif
