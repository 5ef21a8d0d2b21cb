/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/safetensors.h"

#include "base/alloc.h"
#include "base/str.h"
#include "io/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mds_st_writer {
    struct mds_output out;
    struct mds_str metadata, tensors; /* entries of the JSON header, comma-separated */
    uint64_t declared, written;       /* bytes of data */
    int started;                      /* the header is written */
};

static enum mds_rc write_bytes(struct mds_st_writer *w, const void *data, size_t bytes)
{
    if (bytes && fwrite(data, bytes, 1, w->out.file) != 1)
        return mds_fail(MDS_EIO, "%s: %s", w->out.partial, strerror(errno));
    return MDS_OK;
}

static void destroy_writer(struct mds_st_writer *w)
{
    mds_str_fini(&w->metadata);
    mds_str_fini(&w->tensors);
    free(w);
}

enum mds_rc mds_st_writer_create(const char *path, struct mds_st_writer **out)
{
    struct mds_st_writer *w = mds_zalloc(1, sizeof *w);
    enum mds_rc rc;

    if (!w)
        return MDS_EMEM;
    rc = mds_output_open(path, &w->out);
    if (rc) {
        destroy_writer(w);
        return rc;
    }
    *out = w;
    return MDS_OK;
}

enum mds_rc mds_st_writer_metadata(struct mds_st_writer *w, const char *key,
                                   const char *value)
{
    if (w->started)
        return mds_fail(MDS_EBUG, "%s: metadata %s after the first data", w->out.path,
                        key);
    if (w->metadata.len)
        mds_str_add(&w->metadata, ",");
    mds_json_quote(key, &w->metadata);
    mds_str_add(&w->metadata, ":");
    mds_json_quote(value, &w->metadata);
    return w->metadata.failed ? MDS_EMEM : MDS_OK;
}

enum mds_rc mds_st_writer_declare(struct mds_st_writer *w, const char *name,
                                  enum mds_st_dtype dtype, int ndim,
                                  const int64_t *shape)
{
    uint64_t bytes = mds_st_dtype_size(dtype), end;

    if (w->started || ndim < 0 || ndim > MDS_ST_MAX_DIMS)
        return mds_fail(MDS_EBUG, "%s: tensor %s of %d dimensions declared %s",
                        w->out.path, name, ndim,
                        w->started ? "after the first data" : "");
    mds_str_add(&w->tensors, ",");
    mds_json_quote(name, &w->tensors);
    mds_str_add(&w->tensors, ":{\"dtype\":\"%s\",\"shape\":[",
                mds_st_dtype_name(dtype));
    for (int i = 0; i < ndim; i++) {
        mds_str_add(&w->tensors, "%s%" PRId64, i ? "," : "", shape[i]);
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes))
            return mds_fail(MDS_EBUG, "%s: tensor %s: size %" PRId64, w->out.path, name,
                            shape[i]);
    }
    if (w->declared % mds_st_dtype_size(dtype) ||
        __builtin_add_overflow(w->declared, bytes, &end))
        return mds_fail(MDS_EBUG,
                        "%s: tensor %s would begin at byte %" PRIu64
                        "; declare larger elements first",
                        w->out.path, name, w->declared);
    mds_str_add(&w->tensors, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                w->declared, end);
    w->declared = end;
    return w->tensors.failed ? MDS_EMEM : MDS_OK;
}

/* The size, the header, and blanks so that the data begins at a multiple of 8. */
static enum mds_rc write_header(struct mds_st_writer *w)
{
    struct mds_str h = {0};
    uint8_t size[8];
    enum mds_rc rc = MDS_OK;
    const char *tensors = w->tensors.s ? w->tensors.s + 1 : ""; /* past the comma */

    mds_str_add(&h, "{");
    if (w->metadata.len)
        mds_str_add(&h, "\"__metadata__\":{%s}%s", w->metadata.s, *tensors ? "," : "");
    mds_str_add(&h, "%s}", tensors);
    mds_str_add(&h, "%*s", (int)(-h.len & 7), "");
    if (h.failed) {
        rc = MDS_EMEM;
        goto fini;
    }
    for (int i = 0; i < 8; i++)
        size[i] = (uint8_t)((uint64_t)h.len >> 8 * i);
    rc = write_bytes(w, size, sizeof size);
    if (rc == MDS_OK)
        rc = write_bytes(w, h.s, h.len);
    w->started = 1;

fini:
    mds_str_fini(&h);
    return rc;
}

enum mds_rc mds_st_writer_write(struct mds_st_writer *w, const void *data, size_t bytes)
{
    if (!w->started)
        MDS_TRY(write_header(w));
    if (bytes > w->declared - w->written)
        return mds_fail(MDS_EBUG,
                        "%s: %zu bytes after %" PRIu64 " of %" PRIu64 " declared",
                        w->out.path, bytes, w->written, w->declared);
    MDS_TRY(write_bytes(w, data, bytes));
    w->written += bytes;
    return MDS_OK;
}

enum mds_rc mds_st_writer_finish(struct mds_st_writer *w)
{
    enum mds_rc rc = w->started ? MDS_OK : write_header(w);

    if (rc == MDS_OK && w->written != w->declared)
        rc = mds_fail(MDS_EBUG, "%s: %" PRIu64 " of %" PRIu64 " bytes written",
                      w->out.path, w->written, w->declared);
    if (rc == MDS_OK)
        rc = mds_output_commit(&w->out);
    else
        mds_output_abandon(&w->out);
    destroy_writer(w);
    return rc;
}

void mds_st_writer_abort(struct mds_st_writer *w)
{
    if (!w)
        return;
    mds_output_abandon(&w->out);
    destroy_writer(w);
}
