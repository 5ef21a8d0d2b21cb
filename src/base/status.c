#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_text[2048];

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

const char *mds_fail_text(void)
{
    return last_text;
}
