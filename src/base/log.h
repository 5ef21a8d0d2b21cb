/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines for people, on standard error (progress and results: standard output).
 *
 * Rank 0 speaks for info and below; any rank speaks for warn and error, with a
 * "[rank 37 x1004c0s2]" prefix when there is more than one rank. */
#ifndef MDS_BASE_LOG_H
#define MDS_BASE_LOG_H

enum mds_log_level {
    MDS_LOG_ERROR,
    MDS_LOG_WARN,
    MDS_LOG_INFO,
    MDS_LOG_DEBUG,
    MDS_LOG_TRACE,
};

/* Until called: rank 0 of 1, level info.  host is copied. */
void mds_log_init(int rank, int ranks, const char *host, enum mds_log_level level);

/* 0 and *level set, or -1 if name is none of error, warn, info, debug, trace. */
int mds_log_level_parse(const char *name, enum mds_log_level *level);

void mds_log(enum mds_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Print the first few warnings of this rank once more; for the end of a run, where
 * people look. */
void mds_log_repeat_warnings(void);

#define mds_error(...) mds_log(MDS_LOG_ERROR, __VA_ARGS__)
#define mds_warn(...) mds_log(MDS_LOG_WARN, __VA_ARGS__)
#define mds_info(...) mds_log(MDS_LOG_INFO, __VA_ARGS__)
#define mds_debug(...) mds_log(MDS_LOG_DEBUG, __VA_ARGS__)

#endif
