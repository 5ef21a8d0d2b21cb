/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of runs as a table: a row for each run; columns for what was measured,
 * and for each option that the runs do not have in common. */
#ifndef MDS_LAUNCH_RESULT_TABLE_H
#define MDS_LAUNCH_RESULT_TABLE_H

#include "launch/results.h"

#include <stdio.h>

struct mds_result_table {
    size_t columns;
    struct mds_argv cells; /* by rows, the first of which are the headings; owned */
    struct mds_argv notes; /* sentences: ranks that were slow, nodes lost; owned */
};

/* Per rank and second; 0 before the first step. */
double mds_result_flops_per_s(const struct mds_result *r);
double mds_result_tokens_per_s(const struct mds_result *r);

/* exact: for programs, with headings for them.  The caller frees *out by
 * mds_result_table_fini. */
enum mds_rc mds_result_table_make(const struct mds_results *all, int exact,
                                  struct mds_result_table *out);
void mds_result_table_fini(struct mds_result_table *t);

void mds_result_table_print_csv(const struct mds_result_table *t, FILE *f);
void mds_result_table_print_markdown(const struct mds_result_table *t, FILE *f);

#endif
