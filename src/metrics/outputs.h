/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether outputs of a run would replace what another run has written; a job checks it
 * when it starts, the host that submits it before it waits. */
#ifndef MDS_METRICS_OUTPUTS_H
#define MDS_METRICS_OUTPUTS_H

#include "base/status.h"
#include "config/config.h"

#include <stdint.h>

/* MDS_EUSER if the JSON lines in path are of a run that saved elsewhere than in `save`
 * and, if this one resumes (`done` iterations from 1), `load`.  save, load: as given,
 * or NULL. */
enum mds_rc mds_metrics_check_own(const char *path, const char *save, const char *load,
                                  int64_t done, int overwrite);

/* MDS_EUSER if --export-weights or --trace-dir are there already: for a run that does
 * not go on from a checkpoint of its own. */
enum mds_rc mds_outputs_check_new(const struct mds_output_config *o);

#endif
