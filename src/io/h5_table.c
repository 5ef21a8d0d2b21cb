/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked tables of integers and of texts. */
#include "io/h5_array.h"
#include "io/h5_internal.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { CHUNK_ROWS = 4096 };

/* More bytes than any index takes: a larger size is a damaged file. */
static const int64_t bytes_max = INT64_C(1) << 40;

static enum mds_rc write_checked_dataset(struct mds_h5 *f, const char *name, hid_t type,
                                         int ndim, const hsize_t *dims,
                                         const void *values)
{
    hsize_t chunk[2] = {dims[0] < CHUNK_ROWS ? dims[0] : CHUNK_ROWS,
                        ndim > 1 ? dims[1] : 1};
    hid_t space = H5Screate_simple(ndim, dims, NULL);
    hid_t dcpl = mds_h5_checked_list(ndim, chunk);
    hid_t id = mds_h5_create_dataset(f, name, type, space, dcpl);
    enum mds_rc rc = MDS_OK;

    if (id < 0 || H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        rc = mds_h5_fail(f, "write", name);
    if (id >= 0 && H5Dclose(id) < 0 && !rc)
        rc = mds_h5_fail(f, "write", name);
    H5Pclose(dcpl);
    H5Sclose(space);
    return rc;
}

/* Dimensions of a set of the class wanted; id and type are the caller's to close. */
static enum mds_rc open_checked_dataset(struct mds_h5 *f, const char *name,
                                        H5T_class_t want, int ndim, hsize_t *dims,
                                        hid_t *id, hid_t *type)
{
    hid_t set = H5Dopen2(f->id, name, H5P_DEFAULT), space;
    int fits;

    if (set < 0)
        return mds_h5_fail(f, "open", name);
    *type = H5Dget_type(set);
    space = H5Dget_space(set);
    fits = H5Tget_class(*type) == want && H5Tis_variable_str(*type) <= 0 &&
           H5Sget_simple_extent_ndims(space) == ndim &&
           H5Sget_simple_extent_dims(space, dims, NULL) == ndim &&
           dims[0] < (hsize_t)bytes_max && H5Tget_size(*type) < (size_t)bytes_max;
    H5Sclose(space);
    *id = set;
    if (fits)
        return MDS_OK;
    H5Tclose(*type);
    H5Dclose(set);
    return mds_fail(MDS_EUSER, "%s: %s is not a table of the expected type", f->shown,
                    name);
}

static enum mds_rc read_whole_dataset(struct mds_h5 *f, const char *name, hid_t id,
                                      hid_t type, size_t n, size_t size, void **out)
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

enum mds_rc mds_h5_put_table(struct mds_h5 *f, const char *name, const int64_t *values,
                             int64_t n, int64_t cols)
{
    hsize_t dims[2] = {(hsize_t)n, (hsize_t)cols};

    return write_checked_dataset(f, name, H5T_NATIVE_INT64, 2, dims, values);
}

enum mds_rc mds_h5_get_table(struct mds_h5 *f, const char *name, int64_t cols,
                             int64_t **values, int64_t *n)
{
    hsize_t dims[2];
    hid_t id, type;
    void *got = NULL;
    enum mds_rc rc;

    MDS_TRY(open_checked_dataset(f, name, H5T_INTEGER, 2, dims, &id, &type));
    if (dims[1] != (hsize_t)cols)
        rc = mds_fail(MDS_EUSER, "%s: %s has %lld columns, not %lld", f->shown, name,
                      (long long)dims[1], (long long)cols);
    else
        rc = read_whole_dataset(f, name, id, H5T_NATIVE_INT64, dims[0] * dims[1],
                                sizeof **values, &got);
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
    enum mds_rc rc = write_checked_dataset(f, name, type, 1, &count, text);

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

    MDS_TRY(open_checked_dataset(f, name, H5T_STRING, 1, &count, &id, &type));
    size = H5Tget_size(type);
    rc = read_whole_dataset(f, name, id, type, count, size, &got);
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
