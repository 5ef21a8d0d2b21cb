/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MDS_LAUNCH_REPORT_HTML_H
#define MDS_LAUNCH_REPORT_HTML_H

#include "launch/results.h"

/* Write the report of the runs in folder as one page at path, in HTML 5 that is XML as
 * well: the table, and the plots that are in folder.  It refers to no other file. */
enum mds_rc mds_report_write_html(const struct mds_results *all, const char *folder,
                                  const char *path);

#endif
