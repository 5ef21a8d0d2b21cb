/* SPDX-License-Identifier: BSD-3-Clause */
/* HDF5 files as mds uses them: attributes of the root, 1-D data sets that grow, string
 * lists.  The only home of hdf5.h.  HDF5's own error stack is silenced; its innermost
 * sentence is quoted in ours.  Names are absolute paths inside the file ("/tokens").
 * Not thread-safe, as serial HDF5 is not. */
#ifndef MDS_IO_H5_H
#define MDS_IO_H5_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum mds_h5_type { MDS_H5_U8, MDS_H5_U16, MDS_H5_I32, MDS_H5_I64 };

struct mds_h5;
struct mds_h5_dataset;

/* `make` completes "not an HDF5 file (or truncated: ...): make it again with ...";
 * NULL: nothing to make it with. */
enum mds_rc mds_h5_open(const char *path, const char *make, struct mds_h5 **out);
/* Create or replace; shown is the name for messages (path may be x.partial). */
enum mds_rc mds_h5_create(const char *path, const char *shown, struct mds_h5 **out);
/* The same in the format of HDF5 1.10, which carries checksums of its own structure. */
enum mds_rc mds_h5_create_checked(const char *path, const char *shown,
                                  struct mds_h5 **out);
/* Close f, sets still open included; frees f in any case.  After create, a disk that
 * filled up shows here at the latest.  NULL is fine. */
enum mds_rc mds_h5_close(struct mds_h5 *f);

/* Attributes of the root group.  get_string's *value is the caller's to free. */
enum mds_rc mds_h5_put_int(struct mds_h5 *f, const char *name, int64_t value);
enum mds_rc mds_h5_put_string(struct mds_h5 *f, const char *name, const char *value);
enum mds_rc mds_h5_get_int(struct mds_h5 *f, const char *name, int64_t *value);
enum mds_rc mds_h5_put_real(struct mds_h5 *f, const char *name, double value);
enum mds_rc mds_h5_get_real(struct mds_h5 *f, const char *name, double *value);
enum mds_rc mds_h5_get_string(struct mds_h5 *f, const char *name, char **value);
int mds_h5_has(struct mds_h5 *f, const char *name); /* an attribute of the root? */

/* A list of UTF-8 strings as a data set (an attribute would end at 64 KiB).  Groups on
 * the way to name are made.  get: free with mds_h5_free_strings. */
enum mds_rc mds_h5_put_strings(struct mds_h5 *f, const char *name,
                               const char *const *values, int64_t n);
enum mds_rc mds_h5_get_strings(struct mds_h5 *f, const char *name, char ***values,
                               int64_t *n);
void mds_h5_free_strings(char **values, int64_t n);

/* A 1-D data set of integers: created empty and appended to, or opened and read. */
enum mds_rc mds_h5_dataset_create(struct mds_h5 *f, const char *name,
                                  enum mds_h5_type type, struct mds_h5_dataset **out);
enum mds_rc mds_h5_dataset_open(struct mds_h5 *f, const char *name,
                                struct mds_h5_dataset **out);
/* Before its file; frees s in any case.  MDS_EIO if the last of what was appended could
 * not be written.  NULL is fine. */
enum mds_rc mds_h5_dataset_close(struct mds_h5_dataset *s);
int64_t mds_h5_dataset_length(const struct mds_h5_dataset *s);

/* n values of the set's own type, at the end. */
enum mds_rc mds_h5_dataset_append(struct mds_h5_dataset *s, const void *values,
                                  int64_t n);
/* count values from first, converted; a value that does not fit is clipped by HDF5.
 * MDS_EBUG outside the set. */
enum mds_rc mds_h5_dataset_read_i32(struct mds_h5_dataset *s, int64_t first,
                                    int64_t count, int32_t *values);
enum mds_rc mds_h5_dataset_read_i64(struct mds_h5_dataset *s, int64_t first,
                                    int64_t count, int64_t *values);

#endif
