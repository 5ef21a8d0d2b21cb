/* SPDX-License-Identifier: BSD-3-Clause */
/* An output file that appears under its name only when complete: it is written as
 * path.partial, synced and renamed. */
#ifndef MDS_IO_OUTPUT_H
#define MDS_IO_OUTPUT_H

#include "base/status.h"

#include <stdio.h>
#include <sys/stat.h>

struct mds_output {
    char *path;    /* the final name */
    char *partial; /* path.partial, for libraries that open by name */
    FILE *file;    /* path.partial, open for writing and reading */
};

/* MDS_EUSER if there is a file already that is not empty, unless overwrite is set, as
 * by the option --overwrite. */
enum mds_rc mds_output_check_new(const char *path, int overwrite);

/* MDS_EUSER if it is one of n files, as stat(2) has them. */
enum mds_rc mds_output_check_apart(const char *path, const struct stat *inputs,
                                   size_t n);

/* Create path.partial, so that an unwritable folder is reported before any long work.
 * If several processes write the same file, the last to open it wins and the others
 * fail at commit. */
enum mds_rc mds_output_open(const char *path, struct mds_output *out);

/* Flush, sync, close and rename; on failure the partial file is removed.  Either way o
 * is closed. */
enum mds_rc mds_output_commit(struct mds_output *o);

/* Close and remove the partial file; a closed or zeroed one is fine. */
void mds_output_abandon(struct mds_output *o);

#endif
