/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of the profile reader.  Private to machine*.c. */
#ifndef MDS_PLAN_MACHINE_IMPL_H
#define MDS_PLAN_MACHINE_IMPL_H

#include "config/tree.h"
#include "plan/machine.h"

/* Keys "section.fact"; machine_facts.c. */
extern const struct mds_option_set mds_machine_facts;

/* The rows of section `attention`, faults to diag; machine_attention.c. */
enum mds_rc mds_machine_read_attention(const struct mds_tree *t,
                                       const struct mds_node *section,
                                       struct mds_machine *m, struct mds_diag *diag);

/* Create a machine without facts; missing facts are not reported yet. */
enum mds_rc mds_machine_create(const char *path, struct mds_machine **out);

/* Read sections of a file into it: those in the list, which ends with NULL, or if `but`
 * is set all others; sections NULL: all. */
enum mds_rc mds_machine_read(struct mds_machine *m, const char *path,
                             const char *const *sections, int but,
                             struct mds_diag *diag);

/* The first profile, in alphabetical order, of whose patterns (the text at that offset,
 * blanks between them) one matches; *out is NULL if none does.  machine_find.c */
enum mds_rc mds_machine_find_matching(size_t patterns, const char *name,
                                      struct mds_diag *diag, struct mds_machine **out);

/* Report facts that contradict each other; machine_check.c. */
void mds_machine_check(const struct mds_machine *m, struct mds_diag *diag);

#endif
