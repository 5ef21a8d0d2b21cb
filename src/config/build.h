/* SPDX-License-Identifier: BSD-3-Clause */
/* What this program was built of. */
#ifndef MDS_CONFIG_BUILD_H
#define MDS_CONFIG_BUILD_H

/* The git commit, "unknown" if neither git nor the tarball names one; with "-dirty"
 * behind it if files of the tree differed from it.  commit.sh writes it. */
extern const char mds_build_commit[];

#endif
