/* SPDX-License-Identifier: BSD-3-Clause */
/* --preflight: are all nodes fit for the run, and alike? */
#ifndef MDS_TRAIN_PREFLIGHT_H
#define MDS_TRAIN_PREFLIGHT_H

#include "base/str.h"
#include "comm/comm.h"
#include "config/options.h"
#include "device/device.h"
#include "metrics/preflight.h"
#include "parallel/groups.h"
#include "transport/world.h"

/* Measure every node in parallel, over the groups of the run's layout, compare, and
 * print a table on rank 0.  MDS_EUSER if there are faults.  No wait is longer than half
 * a minute: a rank that hangs is an error that names it.  Collective over `start`, the
 * group of all ranks. */
enum mds_rc mds_preflight(const struct mds_world *w, const struct mds_config_run *run,
                          struct mds_comm *start, const char *version);

/* ---- software.c ---- */

/* Append a line "NAME build ID" for this program and each library it has loaded. */
void mds_software_lines(struct mds_str *out);

/* ---- preflight_measure.c ---- */

/* Of this rank alone: GEMMs and copies on dev, then the state of its GPU; memory;
 * writing a file to --save (first rank of a node) and to --nvme-path.  What fails goes
 * to out->fault. */
void mds_preflight_measure_rank(const struct mds_world *w, const struct mds_config *c,
                                struct mds_dev *dev, struct mds_preflight_record *out);

/* Collectives over the groups.  Collective over all ranks. */
enum mds_rc mds_preflight_measure_groups(const struct mds_groups *g,
                                         struct mds_dev *dev,
                                         struct mds_preflight_record *out);

#endif
