/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the profile reader share.  For machine*.c alone. */
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

/* Create a machine of no facts yet; free of faults for what is missing. */
enum mds_rc mds_machine_create(const char *path, struct mds_machine **out);

/* Read a file's sections into it: those of the list (NULL at its end), or with but
 * those that are not in it; sections NULL: all. */
enum mds_rc mds_machine_read(struct mds_machine *m, const char *path,
                             const char *const *sections, int but,
                             struct mds_diag *diag);

/* The first profile, in alphabetical order, of whose patterns (the text at that offset,
 * blanks between them) one matches; *out is NULL if none does.  machine_find.c */
enum mds_rc mds_machine_match(size_t patterns, const char *name, struct mds_diag *diag,
                              struct mds_machine **out);

/* Faults for what the facts together say; machine_check.c. */
void mds_machine_check(const struct mds_machine *m, struct mds_diag *diag);

#endif
