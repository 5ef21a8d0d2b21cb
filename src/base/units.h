/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as people write them: 2GiB, 30min, 1.5e9, 128k. */
#ifndef MDS_BASE_UNITS_H
#define MDS_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* Each returns 0 and sets *out, or -1 if text is anything but such a number.
 *
 *   count    an integer, also with k, M, G, T (powers of 1000), or 1e9 if that is whole
 *   bytes    as count, also with KiB MiB GiB TiB (powers of 1024) and kB MB GB TB;
 *            0.3TiB is truncated to whole bytes
 *   seconds  a number with s, min, h or d; or H:MM:SS; without a unit, seconds */
int mds_parse_count(const char *text, int64_t *out);
int mds_parse_bytes(const char *text, int64_t *out);
int mds_parse_seconds(const char *text, double *out);

/* A finite decimal number such as 1.5 or 1e-3, without a unit. */
int mds_parse_real(const char *text, double *out);

/* "1.50 GiB", "950 B"; "1.32 G", "17"; "1 h 02 min", "48 s".  Returns buf. */
const char *mds_format_bytes(double bytes, char *buf, size_t size);
const char *mds_format_count(double count, char *buf, size_t size);
const char *mds_format_seconds(double s, char *buf, size_t size);

/* The time of a step, with three digits: "38.8 s", "1.37 ms"; from 1000 s on as
 * mds_format_seconds. */
const char *mds_format_step(double s, char *buf, size_t size);

/* The shortest of 15 to 17 digits that reads back as exactly v.  Returns buf. */
const char *mds_format_real(double v, char *buf, size_t size);

/* The ending of a noun after the number n: "" for 1, else "s". */
const char *mds_plural(int64_t n);

#endif
