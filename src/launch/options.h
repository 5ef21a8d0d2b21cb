/* mds_launch's own options; what follows -- is mds_pretrain's. */
#ifndef MDS_LAUNCH_OPTIONS_H
#define MDS_LAUNCH_OPTIONS_H

#include "config/optset.h"

#include <stdint.h>
#include <stdio.h>

enum mds_launch_action {
    MDS_LAUNCH_GO,
    MDS_LAUNCH_HELP,
    MDS_LAUNCH_VERSION,
    MDS_LAUNCH_MAN,
};

enum mds_layout_choice { MDS_LAYOUT_AUTO, MDS_LAYOUT_PLAN, MDS_LAYOUT_GIVEN };

struct mds_launch_options {
    char *machine, *hostfile;
    int64_t nodes, ranks_per_node, ranks; /* 0: as found */
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
    int requeue, write, array;
    int64_t nodes_asked, chain;
};

extern const struct mds_option_set mds_launch_options;

/* --help of a verb; 0 if there is none of that name. */
int mds_launch_help(const char *verb, FILE *f);

#endif
