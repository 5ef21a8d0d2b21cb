/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of all faults, warnings and notes of a configuration, so one run reports them
 * all. */
#ifndef MDS_CONFIG_DIAG_H
#define MDS_CONFIG_DIAG_H

#include "base/log.h"
#include "base/status.h"

#include <stddef.h>

struct mds_diag_entry {
    enum mds_log_level level; /* of a fault MDS_LOG_ERROR, of a note MDS_LOG_INFO */
    char *text;               /* "origin: what, and what to do" */
};

/* Zero-initialise. */
struct mds_diag {
    struct mds_diag_entry *entries;
    size_t count;
    size_t faults; /* faults in entries, and those there was no memory to add */
};

/* Add a fault, a warning or a note.  origin says where: "command line", "run.yaml:12",
 * "environment SEQ_LEN"; NULL where there is no single place. */
void mds_diag_fault(struct mds_diag *d, const char *origin, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void mds_diag_warn(struct mds_diag *d, const char *origin, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void mds_diag_note(struct mds_diag *d, const char *origin, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* MDS_OK if there are no faults; else MDS_EUSER, and mds_fail_text() holds the faults,
 * one per line (as many as fit, then how many more). */
enum mds_rc mds_diag_result(const struct mds_diag *d);

/* Log every entry at its level (base/log.h), in the order added. */
void mds_diag_log(const struct mds_diag *d);

void mds_diag_fini(struct mds_diag *d);

#endif
