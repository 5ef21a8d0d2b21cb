/* SPDX-License-Identifier: BSD-3-Clause */
/* What every program does first. */
#ifndef MDS_PROGRAMS_START_H
#define MDS_PROGRAMS_START_H

/* Call it first in main.  It opens closed descriptors among 0 to 2, so that no file
 * opened later can receive messages meant for standard output or error; and it ignores
 * SIGXFSZ, so that a file beyond ulimit -f is an error of that file. */
void mds_program_start(void);

#endif
