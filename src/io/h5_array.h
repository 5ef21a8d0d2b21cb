/* SPDX-License-Identifier: BSD-3-Clause */
/* HDF5 arrays of checkpoints: lists whose values are written without HDF5, virtual data
 * sets over lists in other files, and small tables.  For files of
 * mds_h5_create_checked. Missing groups of a name are created. */
#ifndef MDS_IO_H5_ARRAY_H
#define MDS_IO_H5_ARRAY_H

#include "io/h5.h"

/* ---- lists at a known file offset ---- */

/* Reserve a contiguous one-dimensional list of n >= 1 elements.  After mds_h5_close the
 * caller writes its values, little-endian, into the file from byte *place on, without
 * HDF5; they are undefined until then. */
enum mds_h5_element { MDS_H5_F32, MDS_H5_U64 };
enum mds_rc mds_h5_reserve(struct mds_h5 *f, const char *name,
                           enum mds_h5_element element, int64_t n, int64_t *place);

/* Length and file offset of such a list.  MDS_EUSER if it is something else or has
 * another element type. */
enum mds_rc mds_h5_locate(struct mds_h5 *f, const char *name,
                          enum mds_h5_element element, int64_t *n, int64_t *place);

/* A number that belongs to a list (HDF5: an attribute). */
enum mds_rc mds_h5_put_list_attribute(struct mds_h5 *f, const char *list,
                                      const char *mark, int64_t value);
enum mds_rc mds_h5_get_list_attribute(struct mds_h5 *f, const char *list,
                                      const char *mark, int64_t *value);

/* ---- virtual data sets ---- */

/* One block of a virtual data set: its rows x cols elements from (row, col) on are the
 * elements from `at` on of the one-dimensional data set `set` in `file` (relative to
 * the virtual data set's file). */
struct mds_h5_source {
    const char *file, *set; /* borrowed */
    int64_t at, row, rows, col, cols;
};

/* A virtual data set, f32 [rows, cols], or [rows] if cols is 0.  HDF5 gives elements
 * whose source is missing the value NaN, and does not complain. */
enum mds_rc mds_h5_put_virtual(struct mds_h5 *f, const char *name, int64_t rows,
                               int64_t cols, const struct mds_h5_source *source,
                               int64_t n);

/* ---- tables ---- */

/* Every chunk has a Fletcher32 checksum, which HDF5 verifies when it reads. */

/* int64 [n, cols]; n and cols >= 1.  get: *values is the caller's to free; MDS_EUSER if
 * the data set does not have `cols` columns. */
enum mds_rc mds_h5_put_table(struct mds_h5 *f, const char *name, const int64_t *values,
                             int64_t n, int64_t cols);
enum mds_rc mds_h5_get_table(struct mds_h5 *f, const char *name, int64_t cols,
                             int64_t **values, int64_t *n);

/* n >= 1 texts of at most width - 1 bytes, each in a field of `width`.  get: *text is
 * the caller's to free; every field ends with a NUL. */
enum mds_rc mds_h5_put_texts(struct mds_h5 *f, const char *name, const char *text,
                             int64_t width, int64_t n);
enum mds_rc mds_h5_get_texts(struct mds_h5 *f, const char *name, char **text,
                             int64_t *width, int64_t *n);

#endif
