/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of real numbers that grow, written at any place. */
#include "io/h5.h"
#include "io/h5_internal.h"

#include "base/alloc.h"
#include "base/minmax.h"

#include <stdlib.h>

enum { CHUNK_BYTES = 1 << 18 };

struct mds_h5_rows {
    const struct mds_h5 *file; /* borrowed: outlives the table */
    char *name;
    hid_t id;
    int64_t rows, cols;
};

/* IEEE 754's, which HDF5 has a name for only since 1.14.4; close with H5Tclose. */
static hid_t half_type(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);

    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

static hid_t create_table(struct mds_h5 *f, const char *name, hid_t type, int64_t cols)
{
    int64_t row_bytes = cols * (int64_t)H5Tget_size(type);
    hsize_t none[2] = {0, (hsize_t)cols}, endless[2] = {H5S_UNLIMITED, (hsize_t)cols};
    hsize_t chunk[2] = {(hsize_t)mds_max(CHUNK_BYTES / row_bytes, 1), (hsize_t)cols};
    hid_t space = H5Screate_simple(2, none, endless);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), id;

    H5Pset_chunk(dcpl, 2, chunk);
    id = mds_h5_create_dataset(f, name, type, space, dcpl);
    if (id >= 0) { /* else the reason is still to be read */
        H5Pclose(dcpl);
        H5Sclose(space);
    }
    return id;
}

enum mds_rc mds_h5_rows_create(struct mds_h5 *f, const char *name, int64_t cols,
                               int half, struct mds_h5_rows **out)
{
    struct mds_h5_rows *r = mds_zalloc(1, sizeof *r);
    hid_t stored = half ? half_type() : H5Tcopy(H5T_IEEE_F32LE);
    enum mds_rc rc = MDS_EMEM;

    if (r) {
        *r = (struct mds_h5_rows){
            .file = f, .name = mds_strdup(name), .id = -1, .cols = cols};
        rc = r->name ? MDS_OK : MDS_EMEM;
    }
    if (!rc) {
        r->id = create_table(f, name, stored, cols);
        rc = r->id < 0 ? mds_h5_fail(f, "create", name) : MDS_OK;
    }
    H5Tclose(stored);
    if (rc)
        (void)mds_h5_rows_close(r);
    else
        *out = r;
    return rc;
}

enum mds_rc mds_h5_rows_write(struct mds_h5_rows *r, int64_t first, int64_t n,
                              const float *values)
{
    hsize_t count[2] = {(hsize_t)n, (hsize_t)r->cols}, start[2] = {(hsize_t)first, 0};
    hsize_t all[2] = {(hsize_t)mds_max(r->rows, first + n), (hsize_t)r->cols};
    enum mds_rc rc = MDS_OK;
    hid_t memory, span;

    if (n == 0)
        return MDS_OK;
    if (first + n > r->rows && H5Dset_extent(r->id, all) < 0)
        return mds_h5_fail(r->file, "extend", r->name);
    r->rows = mds_max(r->rows, first + n);
    memory = H5Screate_simple(2, count, NULL);
    span = H5Dget_space(r->id);
    H5Sselect_hyperslab(span, H5S_SELECT_SET, start, NULL, count, NULL);
    if (H5Dwrite(r->id, H5T_NATIVE_FLOAT, memory, span, H5P_DEFAULT, values) < 0)
        rc = mds_h5_fail(r->file, "write", r->name);
    H5Sclose(span);
    H5Sclose(memory);
    return rc;
}

enum mds_rc mds_h5_rows_close(struct mds_h5_rows *r)
{
    enum mds_rc rc = MDS_OK;

    if (!r)
        return MDS_OK;
    if (r->id >= 0 && H5Dclose(r->id) < 0)
        rc = mds_h5_fail(r->file, "finish", r->name);
    free(r->name);
    free(r);
    return rc;
}
