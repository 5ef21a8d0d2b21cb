/* SPDX-License-Identifier: BSD-3-Clause */
/* The value of --data-path and its like: "file" or "weight file weight file ...". */
#ifndef MDS_DATA_PATHS_H
#define MDS_DATA_PATHS_H

#include "base/status.h"

struct mds_paths {
    char **path;    /* [n] */
    double *weight; /* [n] as given; 1 for a single path */
    int n;
};

/* Words are separated by blanks.  A text that as a whole names an existing source is
 * one path, and so are several words after a weight that together name one: paths may
 * contain blanks.  option is for messages. */
enum mds_rc mds_paths_parse(const char *option, const char *text,
                            struct mds_paths *out);
void mds_paths_fini(struct mds_paths *p);

#endif
