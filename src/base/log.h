/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages for people, on standard error.  (Progress and results go to standard
 * output.)
 *
 * Levels info, debug and trace are printed by rank 0 only, warn and error by every
 * rank, with the prefix "[rank 37 x1004c0s2]" if there is more than one rank. */
#ifndef MDS_BASE_LOG_H
#define MDS_BASE_LOG_H

enum mds_log_level {
    MDS_LOG_ERROR,
    MDS_LOG_WARN,
    MDS_LOG_INFO,
    MDS_LOG_DEBUG,
    MDS_LOG_TRACE,
};

/* Defaults before this call: rank 0 of 1, level info.  host is copied. */
void mds_log_init(int rank, int ranks, const char *host, enum mds_log_level level);

/* Returns 0 and sets *level, or -1 if name is not one of the five levels. */
int mds_log_level_parse(const char *name, enum mds_log_level *level);

void mds_log(enum mds_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Print the first few warnings of this rank again: for the end of a run. */
void mds_log_repeat_warnings(void);

#define mds_error(...) mds_log(MDS_LOG_ERROR, __VA_ARGS__)
#define mds_warn(...) mds_log(MDS_LOG_WARN, __VA_ARGS__)
#define mds_info(...) mds_log(MDS_LOG_INFO, __VA_ARGS__)
#define mds_debug(...) mds_log(MDS_LOG_DEBUG, __VA_ARGS__)

#endif
