/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the infer*.c files of this folder. */
#ifndef MDS_LAUNCH_INFER_IMPL_H
#define MDS_LAUNCH_INFER_IMPL_H

#include "launch/infer.h"

/* Try layouts for a job of so many tokens (0: unknown), and add the best one's options
 * to p->passed.  asked: the configuration that the user gave. */
enum mds_rc mds_infer_layout_choose(const struct mds_launch *l,
                                    const struct mds_infer_command *c, double tokens,
                                    const struct mds_config_run *asked,
                                    struct mds_infer_plan *p);

/* What needs least memory of the layouts that are possible, or NULL. */
struct mds_infer_layout *mds_infer_layout_smallest(struct mds_infer_plan *p);

/* Seconds for the work, or if that is unknown for a row: to compare layouts by. */
double mds_infer_layout_cost(const struct mds_infer_layout *y);

#endif
