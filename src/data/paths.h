/* SPDX-License-Identifier: BSD-3-Clause */
/* --data-path and its like: "file" or "weight file weight file ...". */
#ifndef MDS_DATA_PATHS_H
#define MDS_DATA_PATHS_H

#include "base/status.h"

struct mds_paths {
    char **path;    /* [n] */
    double *weight; /* [n] as given; 1 for a single path */
    int n;
};

/* Blanks separate; a text without blanks, or one that names an existing source, is one
 * path.  So are, behind a weight, words that together name one.  The option is for
 * messages. */
enum mds_rc mds_paths_parse(const char *option, const char *text,
                            struct mds_paths *out);
void mds_paths_fini(struct mds_paths *p);

#endif
