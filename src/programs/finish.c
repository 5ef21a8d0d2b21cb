/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/finish.h"
#include "base/log.h"
#include "base/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum mds_rc mds_stdout_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout) && !mds_streams_drain())
        return MDS_OK;
    return mds_fail(MDS_EIO, "standard output: %s", strerror(errno));
}

void mds_failure_log(void)
{
    const char *line = mds_fail_text();

    while (*line) {
        size_t n = strcspn(line, "\n");

        mds_error("%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}
