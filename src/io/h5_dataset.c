/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/h5.h"
#include "io/h5_internal.h"

#include "base/alloc.h"
#include "base/minmax.h"

#include <stdlib.h>

/* Chunks small enough that a random window drags in little more than itself, large
 * enough that the chunk index of a human genome (1e9 codons) stays below a megabyte. */
enum {
    CHUNK_BYTES = 65536,
    ROWS_CHUNK_BYTES = 1 << 18,
    CACHE_BYTES = 16 << 20,
    CACHE_SLOTS = 2053
};

struct mds_h5_dataset {
    const struct mds_h5 *file; /* borrowed: outlives the set */
    char *name;
    hid_t id, type; /* type: of values in memory */
    int is_text;    /* type is the set's own */
    int64_t length;
    int64_t cols; /* 0: one-dimensional */
};

static hid_t native_type(enum mds_h5_type type)
{
    switch (type) {
    case MDS_H5_U8:
        return H5T_NATIVE_UINT8;
    case MDS_H5_U16:
        return H5T_NATIVE_UINT16;
    case MDS_H5_I32:
        return H5T_NATIVE_INT32;
    case MDS_H5_F64:
        return H5T_NATIVE_DOUBLE;
    case MDS_H5_TEXT:
        return mds_h5_string_type();
    default:
        break;
    }
    return H5T_NATIVE_INT64;
}

static enum mds_rc alloc_dataset(const struct mds_h5 *f, const char *name,
                                 struct mds_h5_dataset **out)
{
    struct mds_h5_dataset *s = mds_zalloc(1, sizeof *s);

    if (!s)
        return MDS_EMEM;
    s->name = mds_strdup(name);
    if (!s->name) {
        free(s);
        return MDS_EMEM;
    }
    s->file = f;
    s->id = -1;
    *out = s;
    return MDS_OK;
}

enum mds_rc mds_h5_dataset_close(struct mds_h5_dataset *s)
{
    enum mds_rc rc = MDS_OK;

    if (!s)
        return MDS_OK;
    if (s->id >= 0 && H5Dclose(s->id) < 0)
        rc = mds_h5_fail(s->file, "finish", s->name);
    if (s->is_text)
        H5Tclose(s->type);
    free(s->name);
    free(s);
    return rc;
}

int64_t mds_h5_dataset_length(const struct mds_h5_dataset *s)
{
    return s->length;
}

static enum mds_rc create_set(struct mds_h5 *f, struct mds_h5_dataset *s, hid_t stored)
{
    hsize_t cols = (hsize_t)s->cols, none[2] = {0, cols},
            endless[2] = {H5S_UNLIMITED, cols};
    size_t row = H5Tget_size(stored) * (cols ? cols : 1);
    hsize_t chunk[2] = {(cols ? ROWS_CHUNK_BYTES : CHUNK_BYTES) / row, cols};
    hid_t space = H5Screate_simple(cols ? 2 : 1, none, endless);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    enum mds_rc rc = MDS_OK;

    chunk[0] = chunk[0] ? chunk[0] : 1;
    H5Pset_chunk(dcpl, cols ? 2 : 1, chunk);
    s->id = mds_h5_create_dataset(f, s->name, stored, space, dcpl);
    if (s->id < 0)
        rc = mds_h5_fail(f, "create", s->name);
    H5Pclose(dcpl);
    H5Sclose(space);
    return rc;
}

enum mds_rc mds_h5_dataset_create(struct mds_h5 *f, const char *name,
                                  enum mds_h5_type type, struct mds_h5_dataset **out)
{
    struct mds_h5_dataset *s;
    enum mds_rc rc;

    MDS_TRY(alloc_dataset(f, name, &s));
    s->type = native_type(type);
    s->is_text = type == MDS_H5_TEXT;
    rc = create_set(f, s, s->type);
    if (rc)
        (void)mds_h5_dataset_close(s);
    else
        *out = s;
    return rc;
}

/* IEEE 754's, which HDF5 has a name for only since 1.14.4; close with H5Tclose. */
static hid_t half_type(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);

    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

enum mds_rc mds_h5_rows_create(struct mds_h5 *f, const char *name, int64_t cols,
                               int half, struct mds_h5_dataset **out)
{
    struct mds_h5_dataset *s;
    enum mds_rc rc;
    hid_t stored;

    MDS_TRY(alloc_dataset(f, name, &s));
    stored = half ? half_type() : H5Tcopy(H5T_IEEE_F32LE);
    s->type = H5T_NATIVE_FLOAT;
    s->cols = cols;
    rc = create_set(f, s, stored);
    H5Tclose(stored);
    if (rc)
        (void)mds_h5_dataset_close(s);
    else
        *out = s;
    return rc;
}

/* A 1-D set of integers of at most 64 bits, or the reason why not. */
static enum mds_rc check_is_1d_integers(struct mds_h5_dataset *s)
{
    hid_t type = H5Dget_type(s->id), space = H5Dget_space(s->id);
    hsize_t length = 0;
    int fits = H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) <= 8 &&
               H5Sget_simple_extent_ndims(space) == 1;

    if (fits)
        H5Sget_simple_extent_dims(space, &length, NULL);
    H5Sclose(space);
    H5Tclose(type);
    if (!fits || length > INT64_MAX)
        return mds_fail(MDS_EUSER, "%s: %s is not a one-dimensional list of integers",
                        s->file->shown, s->name);
    s->length = (int64_t)length;
    return MDS_OK;
}

/* Open s->id.  bytes: of chunks that stay in memory. */
static enum mds_rc open_cached(struct mds_h5 *f, struct mds_h5_dataset *s, size_t bytes)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);
    enum mds_rc rc = MDS_OK;

    H5Pset_chunk_cache(dapl, CACHE_SLOTS, bytes, H5D_CHUNK_CACHE_W0_DEFAULT);
    s->id = H5Dopen2(f->id, s->name, dapl);
    if (s->id < 0)
        rc = mds_h5_fail(f, "open", s->name);
    H5Pclose(dapl);
    return rc;
}

/* Without a cache HDF5 reads what it is asked for, and the operating system keeps the
 * file's pages.  But it unpacks a compressed chunk as a whole: those stay. */
static enum mds_rc cache_compressed_chunks(struct mds_h5 *f, struct mds_h5_dataset *s)
{
    hid_t dcpl = H5Dget_create_plist(s->id);
    int filters = H5Pget_nfilters(dcpl);

    H5Pclose(dcpl);
    if (filters <= 0)
        return MDS_OK;
    H5Dclose(s->id);
    return open_cached(f, s, CACHE_BYTES);
}

enum mds_rc mds_h5_dataset_open(struct mds_h5 *f, const char *name,
                                struct mds_h5_dataset **out)
{
    struct mds_h5_dataset *s;
    enum mds_rc rc;

    if (H5Lexists(f->id, name, H5P_DEFAULT) == 0) /* negative: H5Dopen2 says why */
        return mds_fail(MDS_EUSER, "%s: has no data set %s", f->shown, name);
    MDS_TRY(alloc_dataset(f, name, &s));
    rc = open_cached(f, s, 0);
    if (!rc)
        rc = check_is_1d_integers(s);
    if (!rc)
        rc = mds_h5_check_storage(f, s->id, name);
    if (!rc)
        rc = cache_compressed_chunks(f, s);
    if (rc)
        (void)mds_h5_dataset_close(s);
    else
        *out = s;
    return rc;
}

/* The part of the file that holds count values, or rows, from first; close with
 * H5Sclose. */
static hid_t select_span(const struct mds_h5_dataset *s, int64_t first, int64_t count)
{
    hsize_t start[2] = {(hsize_t)first, 0}, n[2] = {(hsize_t)count, (hsize_t)s->cols};
    hid_t space = H5Dget_space(s->id);

    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, n, NULL);
    return space;
}

enum mds_rc mds_h5_dataset_write(struct mds_h5_dataset *s, int64_t first, int64_t n,
                                 const void *values)
{
    int64_t length = mds_max(s->length, first + n);
    hsize_t all[2] = {(hsize_t)length, (hsize_t)s->cols};
    hsize_t count[2] = {(hsize_t)n, (hsize_t)s->cols};
    enum mds_rc rc = MDS_OK;
    hid_t memory, span;

    if (n == 0)
        return MDS_OK;
    if (length > s->length && H5Dset_extent(s->id, all) < 0)
        return mds_h5_fail(s->file, "extend", s->name);
    s->length = length;
    memory = H5Screate_simple(s->cols ? 2 : 1, count, NULL);
    span = select_span(s, first, n);
    if (H5Dwrite(s->id, s->type, memory, span, H5P_DEFAULT, values) < 0)
        rc = mds_h5_fail(s->file, "write", s->name);
    H5Sclose(span);
    H5Sclose(memory);
    return rc;
}

enum mds_rc mds_h5_dataset_append(struct mds_h5_dataset *s, const void *values,
                                  int64_t n)
{
    return mds_h5_dataset_write(s, s->length, n, values);
}

static enum mds_rc read_span(struct mds_h5_dataset *s, hid_t type, int64_t first,
                             int64_t count, void *values)
{
    hsize_t n = (hsize_t)count;
    enum mds_rc rc = MDS_OK;
    hid_t memory, span;

    if (first < 0 || count < 0 || first > s->length - count)
        return mds_fail(MDS_EBUG, "%s: %s: asked for %lld values at %lld of %lld",
                        s->file->shown, s->name, (long long)count, (long long)first,
                        (long long)s->length);
    if (count == 0)
        return MDS_OK;
    memory = H5Screate_simple(1, &n, NULL);
    span = select_span(s, first, count);
    if (H5Dread(s->id, type, memory, span, H5P_DEFAULT, values) < 0)
        rc = mds_h5_fail(s->file, "read", s->name);
    H5Sclose(span);
    H5Sclose(memory);
    return rc;
}

enum mds_rc mds_h5_dataset_read_u8(struct mds_h5_dataset *s, int64_t first,
                                   int64_t count, unsigned char *values)
{
    return read_span(s, H5T_NATIVE_UINT8, first, count, values);
}

enum mds_rc mds_h5_dataset_read_i32(struct mds_h5_dataset *s, int64_t first,
                                    int64_t count, int32_t *values)
{
    return read_span(s, H5T_NATIVE_INT32, first, count, values);
}

enum mds_rc mds_h5_dataset_read_i64(struct mds_h5_dataset *s, int64_t first,
                                    int64_t count, int64_t *values)
{
    return read_span(s, H5T_NATIVE_INT64, first, count, values);
}
