/* SPDX-License-Identifier: BSD-3-Clause */
/* HDF5 files as mds uses them: attributes of the root, 1-D data sets that grow, string
 * lists.  Only this directory includes hdf5.h.  HDF5's error stack is not printed; its
 * innermost message is quoted in ours.  Names are absolute paths in the file
 * ("/tokens"). Not thread-safe, as serial HDF5 is not. */
#ifndef MDS_IO_H5_H
#define MDS_IO_H5_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum mds_h5_type {
    MDS_H5_U8,
    MDS_H5_U16,
    MDS_H5_I32,
    MDS_H5_I64,
    MDS_H5_F64,
    MDS_H5_TEXT /* UTF-8; values are const char * */
};

struct mds_h5;
struct mds_h5_dataset;

/* Open for reading.  `make` completes the error "not an HDF5 file (or truncated: ...):
 * make it again with ..."; NULL if there is no such program. */
enum mds_rc mds_h5_open(const char *path, const char *make, struct mds_h5 **out);
/* MDS_EIO if the file, open for reading, has another size than it had when it was
 * opened: HDF5 reads zeros where a file was cut short. */
enum mds_rc mds_h5_check_size(const struct mds_h5 *f);
/* Create or replace; shown is the name for messages (path may be x.partial). */
enum mds_rc mds_h5_create(const char *path, const char *shown, struct mds_h5 **out);
/* The same in the format of HDF5 1.10, which carries checksums of its own structure. */
enum mds_rc mds_h5_create_checked(const char *path, const char *shown,
                                  struct mds_h5 **out);
/* Close the file and data sets that are still open; frees f in any case.  A full disk
 * is reported here at the latest.  NULL is fine. */
enum mds_rc mds_h5_close(struct mds_h5 *f);

/* Attributes of the root group.  get_string's *value is the caller's to free. */
enum mds_rc mds_h5_put_int(struct mds_h5 *f, const char *name, int64_t value);
enum mds_rc mds_h5_put_string(struct mds_h5 *f, const char *name, const char *value);
enum mds_rc mds_h5_get_int(struct mds_h5 *f, const char *name, int64_t *value);
enum mds_rc mds_h5_put_real(struct mds_h5 *f, const char *name, double value);
enum mds_rc mds_h5_get_real(struct mds_h5 *f, const char *name, double *value);
enum mds_rc mds_h5_get_string(struct mds_h5 *f, const char *name, char **value);
int mds_h5_has(struct mds_h5 *f, const char *name);     /* an attribute of the root? */
int mds_h5_has_set(struct mds_h5 *f, const char *name); /* a data set below the root? */

/* A list of UTF-8 strings as a data set (an attribute would end at 64 KiB).  Groups on
 * the way to name are made.  get: free with mds_h5_free_strings. */
enum mds_rc mds_h5_put_strings(struct mds_h5 *f, const char *name,
                               const char *const *values, int64_t n);
enum mds_rc mds_h5_get_strings(struct mds_h5 *f, const char *name, char ***values,
                               int64_t *n);
void mds_h5_free_strings(char **values, int64_t n);

/* A short list of real numbers as a data set.  get: into values[n]; MDS_EUSER if the
 * data set is not a list of exactly n real numbers. */
enum mds_rc mds_h5_put_reals(struct mds_h5 *f, const char *name, const double *values,
                             int64_t n);
enum mds_rc mds_h5_get_reals(struct mds_h5 *f, const char *name, double *values,
                             int64_t n);

/* A 1-D data set: created empty and appended to; or, of integers, opened and
 * read. */
enum mds_rc mds_h5_dataset_create(struct mds_h5 *f, const char *name,
                                  enum mds_h5_type type, struct mds_h5_dataset **out);
enum mds_rc mds_h5_dataset_open(struct mds_h5 *f, const char *name,
                                struct mds_h5_dataset **out);
/* Close it before its file; frees s in any case.  MDS_EIO if the last values could not
 * be written.  NULL is fine. */
enum mds_rc mds_h5_dataset_close(struct mds_h5_dataset *s);
int64_t mds_h5_dataset_length(const struct mds_h5_dataset *s);

/* Append n values of the data set's type. */
enum mds_rc mds_h5_dataset_append(struct mds_h5_dataset *s, const void *values,
                                  int64_t n);
/* Read `count` values from `first` on, converted; HDF5 clips values that do not fit.
 * MDS_EBUG outside the data set. */
enum mds_rc mds_h5_dataset_read_u8(struct mds_h5_dataset *s, int64_t first,
                                   int64_t count, unsigned char *values);
enum mds_rc mds_h5_dataset_read_i32(struct mds_h5_dataset *s, int64_t first,
                                    int64_t count, int32_t *values);
enum mds_rc mds_h5_dataset_read_i64(struct mds_h5_dataset *s, int64_t first,
                                    int64_t count, int64_t *values);

/* A table of real numbers of so many columns, stored as f32 or, half, as f16, that
 * grows. */
enum mds_rc mds_h5_rows_create(struct mds_h5 *f, const char *name, int64_t cols,
                               int half, struct mds_h5_dataset **out);
/* Write rows first .. first + n - 1, values [n, cols]; rows before them that were not
 * written are 0.  What f16 cannot hold becomes infinite. */
enum mds_rc mds_h5_dataset_write(struct mds_h5_dataset *s, int64_t first, int64_t n,
                                 const void *values);

#endif
