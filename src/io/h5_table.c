/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole sets: lists of real numbers and of strings, and checked tables. */
#include "io/h5_array.h"
#include "io/h5_internal.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { CHUNK_ROWS = 4096, STRINGS_MAX = 1 << 24 }; /* more than any vocabulary has */

/* More bytes than any index takes: a larger size is a damaged file. */
static const int64_t bytes_max = INT64_C(1) << 40;

static enum mds_rc write_set(struct mds_h5 *f, const char *name, hid_t type, int ndim,
                             const hsize_t *dims, hid_t dcpl, const void *values)
{
    hid_t space = H5Screate_simple(ndim, dims, NULL);
    hid_t id = mds_h5_create_dataset(f, name, type, space, dcpl);
    enum mds_rc rc = MDS_OK;

    if (id < 0 ||
        (dims[0] > 0 && H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0))
        rc = mds_h5_fail(f, "write", name);
    if (id >= 0 && H5Dclose(id) < 0 && !rc)
        rc = mds_h5_fail(f, "write", name);
    H5Sclose(space);
    return rc;
}

static enum mds_rc write_checked_set(struct mds_h5 *f, const char *name, hid_t type,
                                     int ndim, const hsize_t *dims, const void *values)
{
    hsize_t chunk[2] = {dims[0] < CHUNK_ROWS ? dims[0] : CHUNK_ROWS,
                        ndim > 1 ? dims[1] : 1};
    hid_t dcpl = mds_h5_checked_list(ndim, chunk);
    enum mds_rc rc = write_set(f, name, type, ndim, dims, dcpl, values);

    H5Pclose(dcpl);
    return rc;
}

/* Dimensions of a set of the class wanted, which messages call `what`; id and type are
 * the caller's to close.  variable: strings of any length. */
static enum mds_rc open_set(struct mds_h5 *f, const char *name, H5T_class_t want,
                            int variable, const char *what, int ndim, hsize_t *dims,
                            hid_t *id, hid_t *type)
{
    hid_t set = H5Dopen2(f->id, name, H5P_DEFAULT), space;
    int fits;

    if (set < 0)
        return mds_h5_fail(f, "open", name);
    *type = H5Dget_type(set);
    space = H5Dget_space(set);
    fits = H5Tget_class(*type) == want && (H5Tis_variable_str(*type) > 0) == variable &&
           H5Sget_simple_extent_ndims(space) == ndim &&
           H5Sget_simple_extent_dims(space, dims, NULL) == ndim &&
           dims[0] < (hsize_t)bytes_max && H5Tget_size(*type) < (size_t)bytes_max;
    H5Sclose(space);
    *id = set;
    if (fits)
        return MDS_OK;
    H5Tclose(*type);
    H5Dclose(set);
    return mds_fail(MDS_EUSER, "%s: %s is not %s", f->shown, name, what);
}

static enum mds_rc read_set(struct mds_h5 *f, const char *name, hid_t id, hid_t type,
                            size_t n, size_t size, void **out)
{
    void *values = mds_zalloc(n, size);

    if (!values)
        return MDS_EMEM;
    if (H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) {
        free(values);
        return mds_h5_fail(f, "read", name);
    }
    *out = values;
    return MDS_OK;
}

/* ---- checked tables ---- */

static const char table[] = "a table of the expected type";

enum mds_rc mds_h5_put_table(struct mds_h5 *f, const char *name, const int64_t *values,
                             int64_t n, int64_t cols)
{
    hsize_t dims[2] = {(hsize_t)n, (hsize_t)cols};

    return write_checked_set(f, name, H5T_NATIVE_INT64, 2, dims, values);
}

enum mds_rc mds_h5_get_table(struct mds_h5 *f, const char *name, int64_t cols,
                             int64_t **values, int64_t *n)
{
    hsize_t dims[2];
    hid_t id, type;
    void *got = NULL;
    enum mds_rc rc;

    MDS_TRY(open_set(f, name, H5T_INTEGER, 0, table, 2, dims, &id, &type));
    if (dims[1] != (hsize_t)cols)
        rc = mds_fail(MDS_EUSER, "%s: %s has %lld columns, not %lld", f->shown, name,
                      (long long)dims[1], (long long)cols);
    else
        rc = read_set(f, name, id, H5T_NATIVE_INT64, dims[0] * dims[1], sizeof **values,
                      &got);
    H5Tclose(type);
    H5Dclose(id);
    if (!rc) {
        *values = got;
        *n = (int64_t)dims[0];
    }
    return rc;
}

static hid_t text_type(int64_t width)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, (size_t)width);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

enum mds_rc mds_h5_put_texts(struct mds_h5 *f, const char *name, const char *text,
                             int64_t width, int64_t n)
{
    hsize_t count = (hsize_t)n;
    hid_t type = text_type(width);
    enum mds_rc rc = write_checked_set(f, name, type, 1, &count, text);

    H5Tclose(type);
    return rc;
}

enum mds_rc mds_h5_get_texts(struct mds_h5 *f, const char *name, char **text,
                             int64_t *width, int64_t *n)
{
    hsize_t count;
    hid_t id, type;
    size_t size;
    void *got = NULL;
    enum mds_rc rc;

    MDS_TRY(open_set(f, name, H5T_STRING, 0, table, 1, &count, &id, &type));
    size = H5Tget_size(type);
    rc = read_set(f, name, id, type, count, size, &got);
    H5Tclose(type);
    H5Dclose(id);
    if (rc)
        return rc;
    *text = got;
    *width = (int64_t)size;
    *n = (int64_t)count;
    for (hsize_t i = 0; i < count; i++)
        (*text)[i * size + size - 1] = '\0';
    return MDS_OK;
}

/* ---- lists ---- */

enum mds_rc mds_h5_put_reals(struct mds_h5 *f, const char *name, const double *values,
                             int64_t n)
{
    hsize_t count = (hsize_t)n;

    return write_set(f, name, H5T_NATIVE_DOUBLE, 1, &count, H5P_DEFAULT, values);
}

enum mds_rc mds_h5_get_reals(struct mds_h5 *f, const char *name, double *values,
                             int64_t n)
{
    hsize_t count;
    hid_t id, type;
    char what[64];
    enum mds_rc rc;

    snprintf(what, sizeof what, "a list of %lld real numbers", (long long)n);
    MDS_TRY(open_set(f, name, H5T_FLOAT, 0, what, 1, &count, &id, &type));
    rc = count == (hsize_t)n
             ? mds_h5_check_storage(f, id, name)
             : mds_fail(MDS_EUSER, "%s: %s is not %s", f->shown, name, what);
    if (!rc &&
        H5Dread(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        rc = mds_h5_fail(f, "read", name);
    H5Tclose(type);
    H5Dclose(id);
    return rc;
}

enum mds_rc mds_h5_put_strings(struct mds_h5 *f, const char *name,
                               const char *const *values, int64_t n)
{
    hsize_t count = (hsize_t)n;
    hid_t type = mds_h5_string_type();
    enum mds_rc rc = write_set(f, name, type, 1, &count, H5P_DEFAULT, values);

    H5Tclose(type);
    return rc;
}

void mds_h5_free_strings(char **values, int64_t n)
{
    for (int64_t i = 0; values && i < n; i++)
        free(values[i]);
    free(values);
}

/* HDF5 allocates each string itself; ours are plain malloc, so that callers free them
 * as any other. */
static enum mds_rc copy_strings(char **theirs, int64_t n, char ***out)
{
    char **ours = mds_zalloc((size_t)n, sizeof *ours);

    if (!ours)
        return MDS_EMEM;
    for (int64_t i = 0; i < n; i++) {
        ours[i] = mds_strdup(theirs[i] ? theirs[i] : "");
        if (!ours[i]) {
            mds_h5_free_strings(ours, n);
            return MDS_EMEM;
        }
    }
    *out = ours;
    return MDS_OK;
}

static enum mds_rc read_strings(struct mds_h5 *f, const char *name, hid_t set,
                                int64_t n, char ***out)
{
    hid_t type = mds_h5_string_type();
    char **theirs = mds_zalloc((size_t)n, sizeof *theirs);
    enum mds_rc rc = MDS_EMEM;

    if (!theirs)
        goto close_type;
    if (n > 0 && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, theirs) < 0) {
        rc = mds_h5_fail(f, "read", name);
        goto free_theirs;
    }
    rc = copy_strings(theirs, n, out);
    for (int64_t i = 0; i < n; i++)
        H5free_memory(theirs[i]);
free_theirs:
    free(theirs);
close_type:
    H5Tclose(type);
    return rc;
}

enum mds_rc mds_h5_get_strings(struct mds_h5 *f, const char *name, char ***values,
                               int64_t *n)
{
    hsize_t count;
    hid_t id, type;
    enum mds_rc rc;

    MDS_TRY(
        open_set(f, name, H5T_STRING, 1, "a list of strings", 1, &count, &id, &type));
    rc = count > STRINGS_MAX
             ? mds_fail(MDS_EUSER, "%s: %s is not a list of strings", f->shown, name)
             : mds_h5_check_storage(f, id, name);
    if (!rc)
        rc = read_strings(f, name, id, (int64_t)count, values);
    if (!rc)
        *n = (int64_t)count;
    H5Tclose(type);
    H5Dclose(id);
    return rc;
}
