/* HDF5 data sets that notice damage: every chunk carries a checksum (Fletcher's, of 32
 * bits), which whoever reads it with HDF5 has checked.  For files of
 * mds_h5_create_checked.  Groups on the way to a name are made. */
#ifndef MDS_IO_H5_ARRAY_H
#define MDS_IO_H5_ARRAY_H

#include "io/h5.h"

/* ---- f32, one-dimensional, of a length known beforehand ---- */

struct mds_h5_floats;

enum mds_rc mds_h5_floats_create(struct mds_h5 *f, const char *name, int64_t length,
                                 struct mds_h5_floats **out);
enum mds_rc mds_h5_floats_open(struct mds_h5 *f, const char *name,
                               struct mds_h5_floats **out);
/* Before its file; NULL is fine.  What was written may fail to reach the file here. */
enum mds_rc mds_h5_floats_close(struct mds_h5_floats *s);
int64_t mds_h5_floats_length(const struct mds_h5_floats *s);

enum mds_rc mds_h5_floats_write(struct mds_h5_floats *s, int64_t first, int64_t n,
                                const float *values);

/* `runs` runs of n elements, each beginning `step` >= n elements after the one before.
 */
struct mds_h5_runs {
    int64_t first, n, step, runs;
};

/* out's elements `to` become the set's elements `from`; as many runs of as many. */
enum mds_rc mds_h5_floats_read(struct mds_h5_floats *s, const struct mds_h5_runs *from,
                               float *out, const struct mds_h5_runs *to);

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
