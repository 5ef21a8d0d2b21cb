/* SPDX-License-Identifier: BSD-3-Clause */
/* How every program ends. */
#ifndef MDS_PROGRAMS_FINISH_H
#define MDS_PROGRAMS_FINISH_H

#include "base/status.h"

/* What was printed has arrived, or MDS_EIO: a full disk shows here. */
enum mds_rc mds_stdout_flush(void);

/* The last failure, as errors in the log: several lines if it has several faults. */
void mds_failure_log(void);

#endif
