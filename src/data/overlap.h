/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether two token files were made from the same input. */
#ifndef MDS_DATA_OVERLAP_H
#define MDS_DATA_OVERLAP_H

#include "data/source.h"

/* apart(context, a, b): whether sources a and b are to have nothing in common.  Of
 * those that are, and have an input in common, *a < *b are two, and *input is its path,
 * the caller's to free; NULL if there are none.  Files that do not say what they were
 * made from count as made from nothing. */
enum mds_rc mds_sources_overlap(struct mds_source **sources, int n,
                                int (*apart)(const void *context, int a, int b),
                                const void *context, int *a, int *b, char **input);

#endif
