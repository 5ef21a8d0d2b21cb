/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_launch's own options; those after -- are mds_pretrain's. */
#ifndef MDS_LAUNCH_OPTIONS_H
#define MDS_LAUNCH_OPTIONS_H

#include "config/optset.h"

#include <stdint.h>

enum mds_layout_choice { MDS_LAYOUT_AUTO, MDS_LAYOUT_PLAN, MDS_LAYOUT_GIVEN };

struct mds_launch_options {
    char *machine, *hostfile, *exclude, *exclude_file;
    int64_t nodes, ranks_per_node, ranks; /* 0: as found */
    int64_t max_restarts;
    int print;
    int check_memory;
    int layout; /* enum mds_layout_choice */
    char *program;
    char *command; /* instead of the profile's launcher command */

    int max_seq;
    int64_t rows; /* of the plan's table */
    double plan_s;

    char *queue, *project, *name, *tag, *folder, *walltime;
    double margin_s; /* 0: by prediction */
    int requeue, write, watch;
    int64_t nodes_asked, spare_nodes, chain, array;
    char *html;
};

extern const struct mds_option_set mds_launch_options;

#endif
