/* SPDX-License-Identifier: BSD-3-Clause */
/* What every program does before it exits. */
#ifndef MDS_PROGRAMS_FINISH_H
#define MDS_PROGRAMS_FINISH_H

#include "base/status.h"

/* Flush standard output.  MDS_EIO if that fails, for example on a full disk. */
enum mds_rc mds_stdout_flush(void);

/* Log the last failure (mds_fail_text), each of its lines as an error. */
void mds_failure_log(void);

#endif
