/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/h5.h"
#include "io/h5_internal.h"

#include "base/alloc.h"

#include <stdlib.h>

/* More strings than any vocabulary has: a larger count is a damaged file. */
enum { STRINGS_MAX = 1 << 24 };

enum mds_rc mds_h5_put_strings(struct mds_h5 *f, const char *name,
                               const char *const *values, int64_t n)
{
    hsize_t count = (hsize_t)n;
    hid_t type = mds_h5_string_type();
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t set = mds_h5_create_dataset(f, name, type, space, H5P_DEFAULT);
    enum mds_rc rc = MDS_OK;

    if (set < 0 ||
        (n > 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0))
        rc = mds_h5_fail(f, "write", name);
    if (set >= 0)
        H5Dclose(set);
    H5Sclose(space);
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
    hid_t set, type, space;
    hssize_t count;
    enum mds_rc rc;

    set = H5Dopen2(f->id, name, H5P_DEFAULT);
    if (set < 0)
        return mds_h5_fail(f, "open", name);
    type = H5Dget_type(set);
    space = H5Dget_space(set);
    count = H5Sget_simple_extent_npoints(space);
    if (H5Tis_variable_str(type) <= 0 || count < 0 || count > STRINGS_MAX)
        rc = mds_fail(MDS_EUSER, "%s: %s is not a list of strings", f->shown, name);
    else
        rc = mds_h5_check_storage(f, set, name);
    if (!rc)
        rc = read_strings(f, name, set, count, values);
    if (!rc)
        *n = count;
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(set);
    return rc;
}
