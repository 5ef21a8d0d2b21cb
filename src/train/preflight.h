/* SPDX-License-Identifier: BSD-3-Clause */
/* --preflight: check that all nodes work and that none is slower than the others. */
#ifndef MDS_TRAIN_PREFLIGHT_H
#define MDS_TRAIN_PREFLIGHT_H

#include "base/str.h"
#include "comm/comm.h"
#include "config/options.h"
#include "device/device.h"
#include "metrics/preflight.h"
#include "parallel/groups.h"
#include "transport/world.h"

/* Measure all nodes at the same time, and collectives over the groups of the run's
 * layout; compare; print a table on rank 0.  MDS_EUSER if there are faults.  If a rank
 * does not answer within 30 s, an error names it.  Collective over `start`, the group
 * of all ranks. */
enum mds_rc mds_preflight(const struct mds_world *w, const struct mds_config_run *run,
                          struct mds_comm *start, const char *version);

/* ---- software.c ---- */

/* Append a line "NAME build ID" for this program and each library it has loaded. */
void mds_software_lines(struct mds_str *out);

/* ---- preflight_measure.c ---- */

/* Measure this rank alone: GEMMs and copies on dev; the state of its GPU; free memory;
 * and, on the first rank of a node, how fast a file is written to --save and to
 * --nvme-path.  If something fails, out->fault says what. */
void mds_preflight_measure_rank(const struct mds_world *w, const struct mds_config *c,
                                struct mds_dev *dev, struct mds_preflight_record *out);

/* Time collectives over the groups g.  Collective over all ranks. */
enum mds_rc mds_preflight_measure_groups(const struct mds_groups *g,
                                         struct mds_dev *dev,
                                         struct mds_preflight_record *out);

#endif
