/* Checked arrays of floats, and wholes made of them. */
#include "io/h5_array.h"
#include "io/h5_internal.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

/* Chunks that a partial read can afford, and room for the two it may touch at once. */
enum { CHUNK = 1 << 17, CACHE_BYTES = 4 << 20, CACHE_SLOTS = 31 };

struct mds_h5_floats {
    const struct mds_h5 *file; /* borrowed: outlives the set */
    char *name;
    hid_t id;
    int64_t length;
};

hid_t mds_h5_checked_list(int ndim, const hsize_t *chunk)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    H5Pset_chunk(dcpl, ndim, chunk);
    H5Pset_fletcher32(dcpl);
    return dcpl;
}

hid_t mds_h5_new_set(struct mds_h5 *f, const char *name, hid_t type, hid_t space,
                     hid_t dcpl)
{
    hid_t lcpl = H5Pcreate(H5P_LINK_CREATE), id;

    H5Pset_create_intermediate_group(lcpl, 1);
    id = H5Dcreate2(f->id, name, type, space, lcpl, dcpl, H5P_DEFAULT);
    if (id >= 0) /* else the reason is still to be read */
        H5Pclose(lcpl);
    return id;
}

static enum mds_rc new_floats(const struct mds_h5 *f, const char *name,
                              struct mds_h5_floats **out)
{
    struct mds_h5_floats *s = mds_zalloc(1, sizeof *s);

    if (!s)
        return MDS_EMEM;
    s->file = f;
    s->id = -1;
    s->name = mds_strdup(name);
    if (!s->name) {
        free(s);
        return MDS_EMEM;
    }
    *out = s;
    return MDS_OK;
}

enum mds_rc mds_h5_floats_close(struct mds_h5_floats *s)
{
    enum mds_rc rc = MDS_OK;

    if (!s)
        return MDS_OK;
    if (s->id >= 0 && H5Dclose(s->id) < 0)
        rc = mds_h5_trouble(s->file, "finish", s->name);
    free(s->name);
    free(s);
    return rc;
}

int64_t mds_h5_floats_length(const struct mds_h5_floats *s)
{
    return s->length;
}

enum mds_rc mds_h5_floats_create(struct mds_h5 *f, const char *name, int64_t length,
                                 struct mds_h5_floats **out)
{
    hsize_t n = (hsize_t)length, chunk = n < CHUNK ? n : CHUNK;
    struct mds_h5_floats *s;
    enum mds_rc rc = MDS_OK;
    hid_t space, dcpl;

    MDS_TRY(new_floats(f, name, &s));
    space = H5Screate_simple(1, &n, NULL);
    dcpl = mds_h5_checked_list(1, &chunk);
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    s->id = mds_h5_new_set(f, name, H5T_IEEE_F32LE, space, dcpl);
    if (s->id < 0)
        rc = mds_h5_trouble(f, "create", name);
    H5Pclose(dcpl);
    H5Sclose(space);
    s->length = length;
    if (rc)
        (void)mds_h5_floats_close(s);
    else
        *out = s;
    return rc;
}

static enum mds_rc check_shape(struct mds_h5_floats *s)
{
    hid_t type = H5Dget_type(s->id), space = H5Dget_space(s->id);
    hsize_t length = 0;
    int fits =
        H5Tget_class(type) == H5T_FLOAT && H5Sget_simple_extent_ndims(space) == 1;

    if (fits)
        H5Sget_simple_extent_dims(space, &length, NULL);
    H5Sclose(space);
    H5Tclose(type);
    if (!fits)
        return mds_fail(MDS_EUSER, "%s: %s is not a list of numbers", s->file->shown,
                        s->name);
    s->length = (int64_t)length;
    return MDS_OK;
}

enum mds_rc mds_h5_floats_open(struct mds_h5 *f, const char *name,
                               struct mds_h5_floats **out)
{
    struct mds_h5_floats *s;
    enum mds_rc rc;
    hid_t dapl;

    MDS_TRY(new_floats(f, name, &s));
    dapl = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(dapl, CACHE_SLOTS, CACHE_BYTES, H5D_CHUNK_CACHE_W0_DEFAULT);
    s->id = H5Dopen2(f->id, name, dapl);
    rc = s->id < 0 ? mds_h5_trouble(f, "open", name) : check_shape(s);
    H5Pclose(dapl);
    if (rc)
        (void)mds_h5_floats_close(s);
    else
        *out = s;
    return rc;
}

enum mds_rc mds_h5_floats_write(struct mds_h5_floats *s, int64_t first, int64_t n,
                                const float *values)
{
    hsize_t start = (hsize_t)first, count = (hsize_t)n;
    hid_t memory = H5Screate_simple(1, &count, NULL);
    hid_t span = H5Dget_space(s->id);
    enum mds_rc rc = MDS_OK;

    H5Sselect_hyperslab(span, H5S_SELECT_SET, &start, NULL, &count, NULL);
    if (H5Dwrite(s->id, H5T_NATIVE_FLOAT, memory, span, H5P_DEFAULT, values) < 0)
        rc = mds_h5_trouble(s->file, "write", s->name);
    H5Sclose(span);
    H5Sclose(memory);
    return rc;
}

static int64_t end_of(const struct mds_h5_runs *r)
{
    return r->first + (r->runs - 1) * r->step + r->n;
}

static hid_t select_runs(hid_t space, const struct mds_h5_runs *r)
{
    hsize_t start = (hsize_t)r->first, step = (hsize_t)r->step;
    hsize_t runs = (hsize_t)r->runs, n = (hsize_t)r->n;

    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &step, &runs, &n);
    return space;
}

enum mds_rc mds_h5_floats_read(struct mds_h5_floats *s, const struct mds_h5_runs *from,
                               float *out, const struct mds_h5_runs *to)
{
    hsize_t length = (hsize_t)end_of(to);
    enum mds_rc rc = MDS_OK;
    hid_t memory, span;

    if (from->first < 0 || end_of(from) > s->length)
        return mds_fail(MDS_EUSER, "%s: %s has %lld numbers, %lld are wanted",
                        s->file->shown, s->name, (long long)s->length,
                        (long long)end_of(from));
    memory = select_runs(H5Screate_simple(1, &length, NULL), to);
    span = select_runs(H5Dget_space(s->id), from);
    if (H5Dread(s->id, H5T_NATIVE_FLOAT, memory, span, H5P_DEFAULT, out) < 0)
        rc = mds_h5_trouble(s->file, "read", s->name);
    H5Sclose(span);
    H5Sclose(memory);
    return rc;
}

/* ---- virtual ---- */

static herr_t map_source(hid_t dcpl, hid_t whole, const struct mds_h5_source *a)
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
        err = map_source(dcpl, whole, &source[i]);
    if (err >= 0)
        err = H5Sselect_all(whole);
    if (err >= 0)
        id = mds_h5_new_set(f, name, H5T_IEEE_F32LE, whole, dcpl);
    if (id < 0 || H5Dclose(id) < 0)
        rc = mds_h5_trouble(f, "create", name);
    H5Pclose(dcpl);
    H5Sclose(whole);
    return rc;
}
