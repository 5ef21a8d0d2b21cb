/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a data set has its values: what a reader should not trust. */
#include "io/h5_internal.h"

/* A chunk is read, and unpacked, as a whole: one of gigabytes takes as much memory,
 * and a list of chunks of a few bytes takes a look-up for each. */
static const int64_t chunk_max = 64 << 20, chunk_min = 1024, short_list = 1 << 20;

static enum mds_rc refuse_external_storage(const struct mds_h5 *f, const char *name,
                                           const char *kind)
{
    return mds_fail(MDS_EUSER,
                    "%s: %s keeps its values in other files (%s), and what is missing "
                    "there would read as zeros: see that all of them are there, and "
                    "copy them into one file by h5repack -l %s:CHUNK=65536 %s NEW.h5",
                    f->shown, name, kind, name + 1, f->shown);
}

static enum mds_rc check_chunk(const struct mds_h5 *f, hid_t dcpl, const char *name,
                               double bytes, double item)
{
    hsize_t dims[H5S_MAX_RANK];
    int ndim = H5Pget_chunk(dcpl, H5S_MAX_RANK, dims);
    double chunk = item;

    for (int i = 0; i < ndim; i++)
        chunk *= (double)dims[i];
    if (chunk > (double)chunk_max ||
        (chunk < (double)chunk_min && bytes > (double)short_list))
        return mds_fail(
            MDS_EUSER,
            "%s: %s is in chunks of %.0f bytes, which takes too much memory "
            "or time: h5repack -l %s:CHUNK=65536 writes it in better ones",
            f->shown, name, chunk, name + 1);
    return MDS_OK;
}

/* Deflate packs zeros to a thousandth; nothing packs tokens to less than this. */
static const double packed_least = 1.0 / 4096;

static enum mds_rc check_stored_size(const struct mds_h5 *f, hid_t set,
                                     const char *name, double bytes, int packed)
{
    hid_t file = H5Iget_file_id(set); /* another one behind an external link */
    hsize_t size = 0;
    herr_t err = file < 0 ? -1 : H5Fget_filesize(file, &size);

    if (err < 0)
        mds_h5_fail(f, "find the size of", "the file");
    if (file >= 0)
        H5Fclose(file);
    if (err < 0)
        return MDS_EUSER;
    if (bytes * (packed ? packed_least : 1) > (double)size)
        return mds_fail(MDS_EUSER,
                        "%s: %s should have %.0f bytes%s, but the file has %llu: it "
                        "was not written completely",
                        f->shown, name, bytes, packed ? " unpacked" : "",
                        (unsigned long long)size);
    return MDS_OK;
}

static enum mds_rc check_layout(const struct mds_h5 *f, hid_t set, hid_t dcpl,
                                const char *name, double bytes, double item)
{
    H5D_layout_t layout = H5Pget_layout(dcpl);

    if (layout == H5D_VIRTUAL)
        return refuse_external_storage(f, name, "a virtual data set");
    if (H5Pget_external_count(dcpl) > 0)
        return refuse_external_storage(f, name, "external storage");
    if (layout == H5D_CHUNKED)
        MDS_TRY(check_chunk(f, dcpl, name, bytes, item));
    return check_stored_size(f, set, name, bytes, H5Pget_nfilters(dcpl) > 0);
}

enum mds_rc mds_h5_check_storage(const struct mds_h5 *f, hid_t set, const char *name)
{
    hid_t dcpl = H5Dget_create_plist(set), space = H5Dget_space(set);
    hid_t type = H5Dget_type(set);
    double item = (double)H5Tget_size(type);
    double bytes = item * (double)H5Sget_simple_extent_npoints(space);
    enum mds_rc rc = check_layout(f, set, dcpl, name, bytes, item);

    H5Tclose(type);
    H5Sclose(space);
    H5Pclose(dcpl);
    return rc;
}
