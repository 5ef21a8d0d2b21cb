/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether two token files were made from the same input. */
#ifndef MDS_DATA_OVERLAP_H
#define MDS_DATA_OVERLAP_H

#include "data/source.h"

/* Find two sources that share an input (by SHA-256) although apart(context, a, b) says
 * that they must not.  *a < *b are their numbers, *input is the input's path, the
 * caller's to free; *input is NULL if there is no such pair.  Files without recorded
 * inputs never match. */
enum mds_rc mds_sources_overlap(struct mds_source **sources, int n,
                                int (*apart)(const void *context, int a, int b),
                                const void *context, int *a, int *b, char **input);

#endif
