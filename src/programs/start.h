/* SPDX-License-Identifier: BSD-3-Clause */
/* How every program begins. */
#ifndef MDS_PROGRAMS_START_H
#define MDS_PROGRAMS_START_H

/* First of all: descriptors 0 to 2 are taken, so that no file that is opened later gets
 * a number to which messages go; and a file that grows beyond a limit (ulimit -f) is an
 * error of that file, not a signal. */
void mds_program_start(void);

#endif
