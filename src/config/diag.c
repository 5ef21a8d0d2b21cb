/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/diag.h"
#include "base/alloc.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 4096 };
enum { VERDICT_ROOM = MDS_FAIL_SIZE - 64 }; /* less a line for the rest */

static void append_entry(struct mds_diag *d, enum mds_log_level level,
                         const char *origin, const char *fmt, va_list ap)
{
    struct mds_str text = {0};
    char what[MAX_TEXT];

    vsnprintf(what, sizeof what, fmt, ap);
    d->faults += level == MDS_LOG_ERROR;
    mds_str_add(&text, "%s%s%s", origin ? origin : "", origin ? ": " : "", what);
    if (!text.failed && !mds_grow(&d->entries, d->count, sizeof *d->entries))
        d->entries[d->count++] = (struct mds_diag_entry){level, text.s};
    else
        mds_str_fini(&text);
}

void mds_diag_fault(struct mds_diag *d, const char *origin, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    append_entry(d, MDS_LOG_ERROR, origin, fmt, ap);
    va_end(ap);
}

void mds_diag_warn(struct mds_diag *d, const char *origin, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    append_entry(d, MDS_LOG_WARN, origin, fmt, ap);
    va_end(ap);
}

void mds_diag_note(struct mds_diag *d, const char *origin, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    append_entry(d, MDS_LOG_INFO, origin, fmt, ap);
    va_end(ap);
}

enum mds_rc mds_diag_result(const struct mds_diag *d)
{
    struct mds_str all = {0};
    size_t shown = 0;
    enum mds_rc rc;

    if (d->faults == 0)
        return MDS_OK;
    for (size_t i = 0; i < d->count; i++) {
        if (d->entries[i].level != MDS_LOG_ERROR)
            continue;
        if (shown > 0 && all.len + strlen(d->entries[i].text) > VERDICT_ROOM)
            break;
        mds_str_add(&all, "%s%s", shown ? "\n" : "", d->entries[i].text);
        shown++;
    }
    if (shown < d->faults)
        mds_str_add(&all, "%s%zu more",
                    shown ? "\nand " : "faults in the settings: ", d->faults - shown);
    rc = mds_fail(MDS_EUSER, "%s", all.s ? all.s : "faults in the settings");
    mds_str_fini(&all);
    return rc;
}

void mds_diag_log(const struct mds_diag *d)
{
    for (size_t i = 0; i < d->count; i++)
        mds_log(d->entries[i].level, "%s", d->entries[i].text);
}

void mds_diag_fini(struct mds_diag *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->entries[i].text);
    free(d->entries);
    *d = (struct mds_diag){0};
}
