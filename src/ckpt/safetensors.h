/* SPDX-License-Identifier: BSD-3-Clause */
/* Safetensors files: an 8-byte little-endian header size, a JSON header, then the
 * tensors' bytes, little-endian, row-major.
 * Source: https://huggingface.co/docs/safetensors (format, version 0.4). */
#ifndef MDS_CKPT_SAFETENSORS_H
#define MDS_CKPT_SAFETENSORS_H

#include "base/status.h"
#include "io/map.h"

#include <stddef.h>
#include <stdint.h>

enum { MDS_ST_MAX_DIMS = 8 };

enum mds_st_dtype {
    MDS_ST_F16,
    MDS_ST_BF16,
    MDS_ST_F32,
    MDS_ST_F64,
    MDS_ST_U8,
    MDS_ST_I32,
    MDS_ST_I64,
    MDS_ST_BOOL,
};

/* "F32"; bytes of one element. */
const char *mds_st_dtype_name(enum mds_st_dtype dtype);
size_t mds_st_dtype_size(enum mds_st_dtype dtype);

struct mds_st_tensor {
    const char *name;
    enum mds_st_dtype dtype;
    int ndim; /* 0: a scalar */
    int64_t shape[MDS_ST_MAX_DIMS];
    const void *data; /* in the mapped file; aligned to the element as mds writes it */
    size_t bytes;
};

/* ---- reading ---- */

struct mds_safetensors {
    size_t count;
    struct mds_st_tensor *tensors; /* by place in the file */
    /* the rest is private */
    struct mds_map map;
    struct mds_tree *header;
};

/* Map a file and check its whole header: names, types, shapes, and that the tensors
 * cover the data exactly, without gaps or overlaps.  MDS_EUSER if the file is damaged
 * or of another format.  Names and data live until close. */
enum mds_rc mds_safetensors_open(const char *path, struct mds_safetensors **out);
void mds_safetensors_close(struct mds_safetensors *f); /* NULL is fine */

/* The tensor of that name, or NULL. */
const struct mds_st_tensor *mds_safetensors_find(const struct mds_safetensors *f,
                                                 const char *name);

/* ---- writing: declare everything, then hand over the bytes in that order ---- */

struct mds_st_writer;

/* Nothing appears under path before finish: the bytes go to "path.partial". */
enum mds_rc mds_st_writer_create(const char *path, struct mds_st_writer **out);

/* Declare; all before the first write.  Strings and shape are copied. */
enum mds_rc mds_st_writer_metadata(struct mds_st_writer *w, const char *key,
                                   const char *value);
enum mds_rc mds_st_writer_declare(struct mds_st_writer *w, const char *name,
                                  enum mds_st_dtype dtype, int ndim,
                                  const int64_t *shape);

/* Write the next bytes of the data section; tensors in the order declared.  Calls may
 * have any size and span tensors. */
enum mds_rc mds_st_writer_write(struct mds_st_writer *w, const void *data,
                                size_t bytes);

/* Check that every declared byte came, flush to disk, and rename into place.  Frees w,
 * also on failure (then the partial file is removed). */
enum mds_rc mds_st_writer_finish(struct mds_st_writer *w);

/* Give up: remove the partial file and free w.  NULL is fine. */
void mds_st_writer_abort(struct mds_st_writer *w);

#endif
