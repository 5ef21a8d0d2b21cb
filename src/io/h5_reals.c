/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/h5.h"
#include "io/h5_internal.h"

enum mds_rc mds_h5_put_reals(struct mds_h5 *f, const char *name, const double *values,
                             int64_t n)
{
    hsize_t count = (hsize_t)n;
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t set = mds_h5_create_dataset(f, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT);
    enum mds_rc rc = MDS_OK;

    if (set < 0 ||
        H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        rc = mds_h5_fail(f, "write", name);
    if (set >= 0)
        H5Dclose(set);
    H5Sclose(space);
    return rc;
}

static int is_list_of_reals(hid_t set, int64_t n)
{
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    int is = H5Tget_class(type) == H5T_FLOAT &&
             H5Sget_simple_extent_ndims(space) == 1 &&
             H5Sget_simple_extent_npoints(space) == n;

    H5Sclose(space);
    H5Tclose(type);
    return is;
}

enum mds_rc mds_h5_get_reals(struct mds_h5 *f, const char *name, double *values,
                             int64_t n)
{
    hid_t set = H5Dopen2(f->id, name, H5P_DEFAULT);
    enum mds_rc rc;

    if (set < 0)
        return mds_h5_fail(f, "open", name);
    rc = is_list_of_reals(set, n) ? mds_h5_check_storage(f, set, name)
                                  : mds_fail(MDS_EUSER,
                                             "%s: %s is not a list of %lld real "
                                             "numbers",
                                             f->shown, name, (long long)n);
    if (!rc &&
        H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        rc = mds_h5_fail(f, "read", name);
    H5Dclose(set);
    return rc;
}
