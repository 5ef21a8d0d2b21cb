/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/status.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Thread_local char last_text[MDS_FAIL_SIZE];

enum mds_rc mds_fail(enum mds_rc rc, const char *fmt, ...)
{
    char text[sizeof last_text]; /* an argument may be mds_fail_text() itself */
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(last_text, sizeof last_text, "%s", text);
    return rc;
}

enum mds_rc mds_fail_open(enum mds_rc rc, const char *name)
{
    const char *why = strerror(errno);
    int elsewhere = errno == ENOENT && name[0] != '/';
    char here[PATH_MAX];

    if (!elsewhere || !getcwd(here, sizeof here))
        return mds_fail(rc, "%s: %s", name, why);
    return mds_fail(rc, "%s: %s (relative to %s)", name, why, here);
}

enum mds_rc mds_fail_write(const char *name)
{
    const char *remedy = errno == ENOENT ? "; make its folder first" : "";

    return mds_fail(MDS_EIO, "%s: cannot be written: %s%s", name, strerror(errno),
                    remedy);
}

const char *mds_fail_text(void)
{
    return last_text;
}
