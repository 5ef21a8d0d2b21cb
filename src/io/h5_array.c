/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists at a known file offset, and virtual data sets made of them. */
#include "io/h5_array.h"
#include "io/h5_internal.h"

#include <math.h>

hid_t mds_h5_checked_list(int ndim, const hsize_t *chunk)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    H5Pset_chunk(dcpl, ndim, chunk);
    H5Pset_fletcher32(dcpl);
    return dcpl;
}

hid_t mds_h5_create_dataset(struct mds_h5 *f, const char *name, hid_t type, hid_t space,
                            hid_t dcpl)
{
    hid_t lcpl = H5Pcreate(H5P_LINK_CREATE), id;

    H5Pset_create_intermediate_group(lcpl, 1);
    id = H5Dcreate2(f->id, name, type, space, lcpl, dcpl, H5P_DEFAULT);
    if (id >= 0) /* else the reason is still to be read */
        H5Pclose(lcpl);
    return id;
}

/* ---- lists at a known file offset ---- */

static hid_t element_type(enum mds_h5_element element)
{
    return element == MDS_H5_F32 ? H5T_IEEE_F32LE : H5T_STD_U64LE;
}

enum mds_rc mds_h5_reserve(struct mds_h5 *f, const char *name,
                           enum mds_h5_element element, int64_t n, int64_t *place)
{
    hsize_t length = (hsize_t)n;
    hid_t space = H5Screate_simple(1, &length, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), id;
    enum mds_rc rc = MDS_OK;
    haddr_t at = HADDR_UNDEF;

    H5Pset_layout(dcpl, H5D_CONTIGUOUS);
    H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    id = mds_h5_create_dataset(f, name, element_type(element), space, dcpl);
    if (id >= 0)
        at = H5Dget_offset(id);
    if (at == HADDR_UNDEF)
        rc = mds_h5_fail(f, "create", name);
    if (id >= 0 && H5Dclose(id) < 0 && !rc)
        rc = mds_h5_fail(f, "create", name);
    H5Pclose(dcpl);
    H5Sclose(space);
    *place = (int64_t)at;
    return rc;
}

static int is_list_of(hid_t id, enum mds_h5_element element, hsize_t *length)
{
    hid_t type = H5Dget_type(id), space = H5Dget_space(id);
    int yes = H5Tequal(type, element_type(element)) > 0 &&
              H5Sget_simple_extent_ndims(space) == 1 &&
              H5Sget_simple_extent_dims(space, length, NULL) == 1 &&
              *length <= INT64_MAX / 8;

    H5Sclose(space);
    H5Tclose(type);
    return yes;
}

enum mds_rc mds_h5_locate(struct mds_h5 *f, const char *name,
                          enum mds_h5_element element, int64_t *n, int64_t *place)
{
    hid_t id = H5Dopen2(f->id, name, H5P_DEFAULT);
    hsize_t length = 0;
    haddr_t at;
    int good;

    if (id < 0)
        return mds_h5_fail(f, "open", name);
    good = is_list_of(id, element, &length);
    at = H5Dget_offset(id);
    H5Dclose(id);
    if (!good || at == HADDR_UNDEF)
        return mds_fail(MDS_EUSER, "%s: %s is not a list of the expected type",
                        f->shown, name);
    *n = (int64_t)length;
    *place = (int64_t)at;
    return MDS_OK;
}

/* ---- virtual ---- */

static herr_t map_virtual_source(hid_t dcpl, hid_t whole, const struct mds_h5_source *a)
{
    hsize_t at = (hsize_t)a->at, n = (hsize_t)(a->rows * a->cols), length = at + n;
    hsize_t start[2] = {(hsize_t)a->row, (hsize_t)a->col};
    hsize_t count[2] = {(hsize_t)a->rows, (hsize_t)a->cols};
    hid_t part = H5Screate_simple(1, &length, NULL);
    herr_t err;

    H5Sselect_hyperslab(part, H5S_SELECT_SET, &at, NULL, &n, NULL);
    H5Sselect_hyperslab(whole, H5S_SELECT_SET, start, NULL, count, NULL);
    err = H5Pset_virtual(dcpl, whole, a->file, a->set, part);
    H5Sclose(part);
    return err;
}

enum mds_rc mds_h5_put_virtual(struct mds_h5 *f, const char *name, int64_t rows,
                               int64_t cols, const struct mds_h5_source *source,
                               int64_t n)
{
    hsize_t dims[2] = {(hsize_t)rows, (hsize_t)cols};
    hid_t whole = H5Screate_simple(cols ? 2 : 1, dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), id = -1;
    float missing = NAN;
    enum mds_rc rc = MDS_OK;
    herr_t err = H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, &missing);

    for (int64_t i = 0; err >= 0 && i < n; i++)
        err = map_virtual_source(dcpl, whole, &source[i]);
    if (err >= 0)
        err = H5Sselect_all(whole);
    if (err >= 0)
        id = mds_h5_create_dataset(f, name, H5T_IEEE_F32LE, whole, dcpl);
    if (id < 0 || H5Dclose(id) < 0)
        rc = mds_h5_fail(f, "create", name);
    H5Pclose(dcpl);
    H5Sclose(whole);
    return rc;
}
