/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/safetensors.h"

#include "base/alloc.h"
#include "config/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The limit of the reference implementation; detects a damaged size. */
enum { HEADER_MAX = 100 * 1000 * 1000 };

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [MDS_ST_F16] = {"F16", 2}, [MDS_ST_BF16] = {"BF16", 2}, [MDS_ST_F32] = {"F32", 4},
    [MDS_ST_F64] = {"F64", 8}, [MDS_ST_U8] = {"U8", 1},     [MDS_ST_I32] = {"I32", 4},
    [MDS_ST_I64] = {"I64", 8}, [MDS_ST_BOOL] = {"BOOL", 1},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *mds_st_dtype_name(enum mds_st_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t mds_st_dtype_size(enum mds_st_dtype dtype)
{
    return dtypes[dtype].size;
}

/* A JSON integer >= 0 and nothing else. */
static int parse_size(const struct mds_node *n, uint64_t *out)
{
    const char *p = n && n->kind == MDS_NODE_SCALAR ? n->text : "";
    uint64_t v = 0;

    if (!*p)
        return -1;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || v > (INT64_MAX - 9) / 10)
            return -1;
        v = 10 * v + (uint64_t)(*p - '0');
    }
    *out = v;
    return 0;
}

static int parse_dtype(const struct mds_node *n, enum mds_st_dtype *out)
{
    for (int i = 0; n && n->text && i < DTYPES; i++)
        if (strcmp(n->text, dtypes[i].name) == 0) {
            *out = (enum mds_st_dtype)i;
            return 0;
        }
    return -1;
}

/* Shape, and in bytes the product of it and the element size; -1 also if that
 * overflows. */
static int parse_shape(const struct mds_node *list, struct mds_st_tensor *t)
{
    uint64_t bytes = dtypes[t->dtype].size, dim;

    if (!list || list->kind != MDS_NODE_LIST)
        return -1;
    for (const struct mds_node *n = list->first; n; n = n->next) {
        if (t->ndim == MDS_ST_MAX_DIMS || parse_size(n, &dim) ||
            __builtin_mul_overflow(bytes, dim, &bytes))
            return -1;
        t->shape[t->ndim++] = (int64_t)dim;
    }
    t->bytes = bytes;
    return 0;
}

/* One entry of the header.  data is the file's data section, of data_bytes. */
static enum mds_rc read_tensor(const char *path, const struct mds_node *entry,
                               const uint8_t *data, uint64_t data_bytes,
                               struct mds_st_tensor *t)
{
    const struct mds_node *type = mds_node_get(entry, "dtype");
    const struct mds_node *offsets = mds_node_get(entry, "data_offsets");
    const struct mds_node *first = offsets ? offsets->first : NULL;
    uint64_t begin, end;

    t->name = entry->key;
    if (parse_dtype(type, &t->dtype))
        return mds_fail(MDS_EUSER, "%s: tensor %s: dtype '%s' is not one mds reads",
                        path, t->name, type && type->text ? type->text : "");
    if (parse_shape(mds_node_get(entry, "shape"), t))
        return mds_fail(MDS_EUSER,
                        "%s: tensor %s: shape is not a list of at most %d sizes", path,
                        t->name, MDS_ST_MAX_DIMS);
    if (!first || parse_size(first, &begin) || parse_size(first->next, &end) ||
        first->next->next)
        return mds_fail(MDS_EUSER, "%s: tensor %s: data_offsets is not [begin, end]",
                        path, t->name);
    if (begin > end || end > data_bytes)
        return mds_fail(MDS_EUSER,
                        "%s: tensor %s: bytes %" PRIu64 " to %" PRIu64
                        " lie outside the %" PRIu64 " of data; is the file cut short?",
                        path, t->name, begin, end, data_bytes);
    if (end - begin != t->bytes)
        return mds_fail(MDS_EUSER,
                        "%s: tensor %s: %" PRIu64 " bytes stored, its shape needs %zu",
                        path, t->name, end - begin, t->bytes);
    if (begin % dtypes[t->dtype].size)
        return mds_fail(MDS_ENOSUP,
                        "%s: tensor %s begins at byte %" PRIu64
                        ", not at a multiple of its element size; write the file again",
                        path, t->name, begin);
    t->data = data + begin;
    return MDS_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct mds_st_tensor *s = a, *t = b;

    if (s->data != t->data)
        return s->data < t->data ? -1 : 1;
    return (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

/* Sorted by offset, the tensors must cover the data without gaps or overlap. */
static enum mds_rc check_no_gaps(struct mds_safetensors *f, const uint8_t *data,
                                 uint64_t data_bytes)
{
    const uint8_t *at = data;

    qsort(f->tensors, f->count, sizeof *f->tensors, compare_offsets);
    for (size_t i = 0; i < f->count; i++) {
        const struct mds_st_tensor *t = &f->tensors[i];
        if ((const uint8_t *)t->data != at)
            return mds_fail(MDS_EUSER, "%s: tensor %s %s", f->map.path, t->name,
                            (const uint8_t *)t->data < at
                                ? "overlaps the one before it"
                                : "leaves a gap after the one before it");
        at += t->bytes;
    }
    if (at != data + data_bytes)
        return mds_fail(MDS_EUSER, "%s: %td bytes after the last tensor", f->map.path,
                        data + data_bytes - at);
    return MDS_OK;
}

static size_t count_children(const struct mds_node *n)
{
    size_t count = 0;

    for (const struct mds_node *c = n ? n->first : NULL; c; c = c->next)
        count++;
    return count;
}

/* Must be a map of strings; nothing of it is used. */
static enum mds_rc check_metadata(const char *path, const struct mds_node *map)
{
    for (const struct mds_node *c = map ? map->first : NULL; c; c = c->next)
        if (map->kind != MDS_NODE_MAP || c->kind != MDS_NODE_SCALAR)
            return mds_fail(MDS_EUSER, "%s: __metadata__ is not a map of strings",
                            path);
    return MDS_OK;
}

/* Where the header ends and the data begins, as an offset in the file; 0 if this cannot
 * be one. */
static uint64_t header_end(const struct mds_map *map)
{
    uint64_t bytes = 0;

    if (map->size < 10)
        return 0;
    for (int i = 0; i < 8; i++)
        bytes |= (uint64_t)map->bytes[i] << 8 * i;
    if (bytes > HEADER_MAX || bytes > (uint64_t)map->size - 8 || bytes < 2 ||
        map->bytes[8] != '{')
        return 0;
    return 8 + bytes;
}

static enum mds_rc read_header(struct mds_safetensors *f)
{
    const char *path = f->map.path;
    uint64_t begin = header_end(&f->map), data_bytes = (uint64_t)f->map.size - begin;
    const struct mds_node *root;
    const uint8_t *data;

    if (begin == 0)
        return mds_fail(MDS_EUSER, "%s: not a safetensors file, or cut short", path);
    data = f->map.bytes + begin;
    MDS_TRY(
        mds_tree_parse((const char *)f->map.bytes + 8, begin - 8, path, &f->header));
    root = f->header->root;
    if (!root || root->kind != MDS_NODE_MAP)
        return mds_fail(MDS_EUSER, "%s: the header is not a map of tensors", path);
    MDS_TRY(check_metadata(path, mds_node_get(root, "__metadata__")));
    f->tensors = mds_zalloc(count_children(root), sizeof *f->tensors);
    if (!f->tensors)
        return MDS_EMEM;
    for (const struct mds_node *n = root->first; n; n = n->next)
        if (strcmp(n->key, "__metadata__") != 0)
            MDS_TRY(read_tensor(path, n, data, data_bytes, &f->tensors[f->count++]));
    return check_no_gaps(f, data, data_bytes);
}

enum mds_rc mds_safetensors_open(const char *path, struct mds_safetensors **out)
{
    struct mds_safetensors *f = mds_zalloc(1, sizeof *f);
    enum mds_rc rc;

    if (!f)
        return MDS_EMEM;
    rc = mds_map_open(path, &f->map);
    if (rc)
        goto close;
    rc = read_header(f);
    if (rc)
        goto close;
    *out = f;
    return MDS_OK;

close:
    mds_safetensors_close(f);
    return rc;
}

void mds_safetensors_close(struct mds_safetensors *f)
{
    if (!f)
        return;
    mds_tree_destroy(f->header);
    mds_map_close(&f->map);
    free(f->tensors);
    free(f);
}

const struct mds_st_tensor *mds_safetensors_find(const struct mds_safetensors *f,
                                                 const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}
