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

/* Faults for what the facts together say; machine_check.c. */
void mds_machine_check(const struct mds_machine *m, struct mds_diag *diag);

#endif
