/* SPDX-License-Identifier: BSD-3-Clause */
/* HDF5 arrays of checkpoints: lists that others fill, wholes made of lists in other
 * files, and small tables.  For files of mds_h5_create_checked.  Groups on the way to a
 * name are made. */
#ifndef MDS_IO_H5_ARRAY_H
#define MDS_IO_H5_ARRAY_H

#include "io/h5.h"

/* ---- lists with a place ---- */

/* A one-dimensional list of n >= 1 elements in one piece, undefined until the caller
 * writes it to the file, little-endian, from byte *place on: after mds_h5_close,
 * without HDF5. */
enum mds_h5_element { MDS_H5_F32, MDS_H5_U64 };
enum mds_rc mds_h5_reserve(struct mds_h5 *f, const char *name,
                           enum mds_h5_element element, int64_t n, int64_t *place);

/* Where such a list is.  MDS_EUSER if it is none, or of other elements. */
enum mds_rc mds_h5_locate(struct mds_h5 *f, const char *name,
                          enum mds_h5_element element, int64_t *n, int64_t *place);

/* A number that belongs to a list (HDF5: an attribute). */
enum mds_rc mds_h5_put_list_attribute(struct mds_h5 *f, const char *list,
                                      const char *mark, int64_t value);
enum mds_rc mds_h5_get_list_attribute(struct mds_h5 *f, const char *list,
                                      const char *mark, int64_t *value);

/* ---- one whole made of parts in other files ---- */

/* Elements at .. of the one-dimensional set `set` of `file` (a name relative to the
 * virtual set's own file) are the rows x cols elements from (row, col) on of the whole.
 */
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

/* Checked: every chunk carries Fletcher's sum, which whoever reads it with HDF5 has
 * compared. */

/* int64 [n, cols]; n and cols >= 1.  get: *values is the caller's to free; MDS_EUSER if
 * the set has not `cols` columns. */
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
