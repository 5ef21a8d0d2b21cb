/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/h5_array.h"
#include "io/h5_internal.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first entry seen from the inside out is where the cause was known. */
static herr_t record_innermost_error(unsigned n, const H5E_error2_t *entry, void *data)
{
    const char **text = data;

    if (n == 0 && entry->desc)
        *text = entry->desc;
    return 0;
}

/* About files HDF5 says much, over several lines; the system's own words are among it.
 */
static void shorten_hdf5_message(char *text)
{
    static const char mark[] = "error message = '";
    char *words = strstr(text, mark);

    if (words) {
        words += strlen(mark);
        memmove(text, words, strlen(words) + 1);
        text[strcspn(text, "'")] = '\0';
    }
    text[strcspn(text, "\n")] = '\0';
}

enum { CAUSE_SIZE = 1024 };

/* HDF5's innermost sentence about the failure that just happened; returns cause. */
static const char *cause_of_failure(char cause[CAUSE_SIZE])
{
    const char *text = NULL;

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, record_innermost_error, &text);
    snprintf(cause, CAUSE_SIZE, "%s", text && *text ? text : "no reason given");
    shorten_hdf5_message(cause);
    H5Eclear2(H5E_DEFAULT);
    return cause;
}

enum mds_rc mds_h5_fail(const struct mds_h5 *f, const char *what, const char *name)
{
    char cause[CAUSE_SIZE];

    return mds_fail(f->writing ? MDS_EIO : MDS_EUSER, "%s: cannot %s %s (HDF5: %s)",
                    f->shown, what, name, cause_of_failure(cause));
}

static enum mds_rc alloc_file(const char *shown, int writing, struct mds_h5 **out)
{
    struct mds_h5 *f = mds_zalloc(1, sizeof *f);

    if (!f)
        return MDS_EMEM;
    f->shown = mds_strdup(shown);
    if (!f->shown) {
        free(f);
        return MDS_EMEM;
    }
    f->writing = writing;
    f->id = -1;
    f->fd = -1;
    H5dont_atexit(); /* which would trip over a file that a full disk left unfinished */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    *out = f;
    return MDS_OK;
}

/* Token files are complete when they get their name and never change after, so locks
 * only add failures: many ranks read one file, and Lustre is often mounted without
 * flock. */
static hid_t file_access_list(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);

    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
    H5Pset_file_locking(fapl, 0, 1);
#endif
    return fapl;
}

/* Remember the size that the file has. */
static enum mds_rc open_to_watch(const char *path, struct mds_h5 *f)
{
    struct stat st;

    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &st))
        return mds_fail_open(MDS_EUSER, path);
    f->size = st.st_size;
    return MDS_OK;
}

enum mds_rc mds_h5_check_size(const struct mds_h5 *f)
{
    struct stat st;

    if (fstat(f->fd, &st))
        return mds_fail(MDS_EIO, "%s: cannot be read: %s", f->shown, strerror(errno));
    if (st.st_size != f->size)
        return mds_fail(
            MDS_EIO,
            "%s: changed while it was being read: it had %lld bytes and now has %lld",
            f->shown, (long long)f->size, (long long)st.st_size);
    return MDS_OK;
}

enum mds_rc mds_h5_open(const char *path, const char *make, struct mds_h5 **out)
{
    struct mds_h5 *f;
    char cause[CAUSE_SIZE];
    enum mds_rc rc;
    hid_t fapl;

    MDS_TRY(alloc_file(path, 0, &f));
    rc = open_to_watch(path, f);
    if (rc) {
        mds_h5_close(f);
        return rc;
    }
    fapl = file_access_list();
    f->id = H5Fopen(path, H5F_ACC_RDONLY, fapl);
    cause_of_failure(cause); /* before any other call */
    H5Pclose(fapl);
    if (f->id < 0) {
        if (make)
            mds_fail(MDS_EUSER,
                     "%s: not an HDF5 file (or truncated: %s); make it again with %s",
                     path, cause, make);
        else
            mds_fail(MDS_EUSER, "%s: damaged, or not an HDF5 file (%s)", path, cause);
        mds_h5_close(f);
        return MDS_EUSER;
    }
    *out = f;
    return MDS_OK;
}

/* Large lists start at multiples of the file systems' own large units: Lustre's usual
 * stripes, the page cache's large pages. */
enum { LARGE = 8 << 20, STRIPE = 1 << 20 };

static enum mds_rc create_h5_file(const char *path, const char *shown, int checked,
                                  struct mds_h5 **out)
{
    struct mds_h5 *f;
    enum mds_rc rc = MDS_OK;
    hid_t fapl;

    MDS_TRY(alloc_file(shown, 1, &f));
    fapl = file_access_list();
    if (checked) {
        H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110);
        H5Pset_alignment(fapl, LARGE, STRIPE);
    }
    f->id = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    if (f->id < 0)
        rc = mds_h5_fail(f, "create", "the file");
    H5Pclose(fapl);
    if (rc)
        mds_h5_close(f);
    else
        *out = f;
    return rc;
}

enum mds_rc mds_h5_create(const char *path, const char *shown, struct mds_h5 **out)
{
    return create_h5_file(path, shown, 0, out);
}

enum mds_rc mds_h5_create_checked(const char *path, const char *shown,
                                  struct mds_h5 **out)
{
    return create_h5_file(path, shown, 1, out);
}

enum mds_rc mds_h5_close(struct mds_h5 *f)
{
    enum mds_rc rc = MDS_OK;

    if (!f)
        return MDS_OK;
    if (f->id >= 0 && H5Fclose(f->id) < 0)
        rc = mds_h5_fail(f, "finish", "the file");
    if (f->fd >= 0)
        close(f->fd);
    free(f->shown);
    free(f);
    return rc;
}

/* ---- attributes: of the root, or of a list ---- */

int mds_h5_has(struct mds_h5 *f, const char *name)
{
    return H5Aexists(f->id, name) != 0; /* negative: who reads it hears why not */
}

int mds_h5_has_set(struct mds_h5 *f, const char *name)
{
    return H5Lexists(f->id, name, H5P_DEFAULT) != 0; /* negative: likewise */
}

static const char root[] = "/";

static enum mds_rc put_attribute(struct mds_h5 *f, const char *object, const char *name,
                                 hid_t type, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attr = H5Acreate_by_name(f->id, object, name, type, space, H5P_DEFAULT,
                                   H5P_DEFAULT, H5P_DEFAULT);
    herr_t err = attr < 0 ? -1 : H5Awrite(attr, type, value);

    if (err < 0)
        mds_h5_fail(f, "write attribute", name);
    if (attr >= 0)
        H5Aclose(attr);
    H5Sclose(space);
    return err < 0 ? MDS_EIO : MDS_OK;
}

enum mds_rc mds_h5_put_int(struct mds_h5 *f, const char *name, int64_t value)
{
    return put_attribute(f, root, name, H5T_NATIVE_INT64, &value);
}

enum mds_rc mds_h5_put_list_attribute(struct mds_h5 *f, const char *list,
                                      const char *mark, int64_t value)
{
    return put_attribute(f, list, mark, H5T_NATIVE_INT64, &value);
}

enum mds_rc mds_h5_put_real(struct mds_h5 *f, const char *name, double value)
{
    return put_attribute(f, root, name, H5T_NATIVE_DOUBLE, &value);
}

hid_t mds_h5_string_type(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

enum mds_rc mds_h5_put_string(struct mds_h5 *f, const char *name, const char *value)
{
    hid_t type = mds_h5_string_type();
    enum mds_rc rc = put_attribute(f, root, name, type, &value);

    H5Tclose(type);
    return rc;
}

/* Opens an attribute that holds one value of the class wanted. */
static enum mds_rc open_attribute(struct mds_h5 *f, const char *object,
                                  const char *name, H5T_class_t want, hid_t *out,
                                  hid_t *out_type)
{
    hid_t attr, type, space;
    int fits;

    if (H5Aexists_by_name(f->id, object, name, H5P_DEFAULT) == 0)
        return mds_fail(MDS_EUSER, "%s: has no attribute '%s'", f->shown, name);
    attr = H5Aopen_by_name(f->id, object, name, H5P_DEFAULT, H5P_DEFAULT);
    if (attr < 0)
        return mds_h5_fail(f, "open attribute", name);
    type = H5Aget_type(attr);
    space = H5Aget_space(attr);
    fits = H5Tget_class(type) == want && H5Sget_simple_extent_npoints(space) == 1;
    H5Sclose(space);
    if (!fits) {
        H5Tclose(type);
        H5Aclose(attr);
        return mds_fail(MDS_EUSER, "%s: attribute '%s' is not one %s", f->shown, name,
                        want == H5T_STRING  ? "string"
                        : want == H5T_FLOAT ? "real number"
                                            : "integer");
    }
    *out = attr;
    *out_type = type;
    return MDS_OK;
}

static enum mds_rc read_scalar_attribute(struct mds_h5 *f, const char *object,
                                         const char *name, H5T_class_t want,
                                         hid_t memory, void *value)
{
    enum mds_rc rc = MDS_OK;
    hid_t attr, type;

    MDS_TRY(open_attribute(f, object, name, want, &attr, &type));
    if (H5Aread(attr, memory, value) < 0)
        rc = mds_h5_fail(f, "read attribute", name);
    H5Tclose(type);
    H5Aclose(attr);
    return rc;
}

enum mds_rc mds_h5_get_int(struct mds_h5 *f, const char *name, int64_t *value)
{
    return read_scalar_attribute(f, root, name, H5T_INTEGER, H5T_NATIVE_INT64, value);
}

enum mds_rc mds_h5_get_list_attribute(struct mds_h5 *f, const char *list,
                                      const char *mark, int64_t *value)
{
    return read_scalar_attribute(f, list, mark, H5T_INTEGER, H5T_NATIVE_INT64, value);
}

enum mds_rc mds_h5_get_real(struct mds_h5 *f, const char *name, double *value)
{
    return read_scalar_attribute(f, root, name, H5T_FLOAT, H5T_NATIVE_DOUBLE, value);
}

/* Python's h5py writes variable-length strings, other tools fixed-length ones. */
static enum mds_rc read_string(struct mds_h5 *f, const char *name, hid_t attr,
                               hid_t type, char **value)
{
    char *text = NULL;
    size_t size = H5Tget_size(type);

    if (H5Tis_variable_str(type) > 0) {
        if (H5Aread(attr, type, &text) < 0)
            return mds_h5_fail(f, "read attribute", name);
        *value = mds_strdup(text ? text : "");
        H5free_memory(text);
        return *value ? MDS_OK : MDS_EMEM;
    }
    text = mds_zalloc(size + 1, 1);
    if (!text)
        return MDS_EMEM;
    if (H5Aread(attr, type, text) < 0) {
        free(text);
        return mds_h5_fail(f, "read attribute", name);
    }
    *value = text;
    return MDS_OK;
}

enum mds_rc mds_h5_get_string(struct mds_h5 *f, const char *name, char **value)
{
    enum mds_rc rc;
    hid_t attr, type;

    MDS_TRY(open_attribute(f, root, name, H5T_STRING, &attr, &type));
    rc = read_string(f, name, attr, type, value);
    H5Tclose(type);
    H5Aclose(attr);
    return rc;
}
