/* SPDX-License-Identifier: BSD-3-Clause */
/* Which program wrote a checkpoint, when and where: lines of "name: value". */
#ifndef MDS_CKPT_PROVENANCE_H
#define MDS_CKPT_PROVENANCE_H

#include "base/str.h"
#include "config/config.h"

/* Appends program and version, the time, host and layout of that many ranks. */
void mds_ckpt_provenance(const char *program, const char *version, const char *host,
                         int64_t ranks, const struct mds_parallel_config *p,
                         struct mds_str *out);

#endif
