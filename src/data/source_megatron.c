/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/source.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "data/megatron_index.h"
#include "io/exact.h"
#include "io/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 65536 }; /* tokens that are read at a time */

struct megatron_source {
    struct mds_source base;
    int bin; /* read, not mapped: a failing disk is then an error, not a signal */
    struct mds_map idx;
    struct mds_index index;       /* borrows idx */
    struct mds_h5 *kinds;         /* PREFIX.kinds.h5, or NULL */
    unsigned char raw[8 * BLOCK]; /* as stored */
};

/* The token at p as 64 bits. */
static int64_t widen_token(enum mds_index_type type, const unsigned char *p)
{
    uint64_t bits = 0;

    switch (type) {
    case MDS_INDEX_U8:
        return p[0];
    case MDS_INDEX_I8:
        return (signed char)p[0];
    case MDS_INDEX_U16:
        return p[0] | p[1] << 8;
    case MDS_INDEX_I16:
        return (int16_t)(p[0] | p[1] << 8);
    case MDS_INDEX_I32:
    case MDS_INDEX_I64:
        break;
    }
    for (int i = type == MDS_INDEX_I32 ? 4 : 8; i-- > 0;)
        bits = bits << 8 | p[i];
    return type == MDS_INDEX_I32 ? (int32_t)bits : (int64_t)bits;
}

static enum mds_rc megatron_read_ids(struct mds_source *s, int64_t first, int64_t count,
                                     int32_t *ids)
{
    struct megatron_source *m = (struct megatron_source *)s;
    int item = m->index.item;

    for (int64_t done = 0; done < count; done += BLOCK) {
        int64_t n = mds_min(count - done, BLOCK);
        int err = mds_read_exact(m->bin, m->index.first_byte + (first + done) * item,
                                 m->raw, n * item);

        if (err)
            return mds_fail(MDS_EIO, "%s: cannot be read: %s", s->path,
                            err == ENODATA ? "it was cut short" : strerror(err));
        for (int64_t i = 0; i < n; i++) {
            int64_t id = widen_token(m->index.type, m->raw + i * item);

            ids[done + i] = id == (int32_t)id ? (int32_t)id : -1;
        }
    }
    return MDS_OK;
}

static enum mds_rc megatron_read_stored_id(struct mds_source *s, int64_t token,
                                           int64_t *id)
{
    struct megatron_source *m = (struct megatron_source *)s;
    int32_t ids[1];

    MDS_TRY(megatron_read_ids(s, token, 1, ids));
    *id = widen_token(m->index.type, m->raw);
    return MDS_OK;
}

static enum mds_rc megatron_read_starts(struct mds_source *s, int64_t first,
                                        int64_t count, int64_t *starts)
{
    struct megatron_source *m = (struct megatron_source *)s;

    for (int64_t i = 0; i < count; i++)
        starts[i] = mds_index_start(&m->index, first + i);
    return MDS_OK;
}

static void close_megatron(struct mds_source *s)
{
    struct megatron_source *m = (struct megatron_source *)s;

    if (m->bin >= 0)
        close(m->bin);
    (void)mds_h5_close(m->kinds);
    mds_map_close(&m->idx);
}

static const struct mds_source_ops megatron_ops = {
    .name = "Megatron .bin/.idx",
    .read = megatron_read_ids,
    .stored = megatron_read_stored_id,
    .starts = megatron_read_starts,
    .provenance = NULL,
    .close = close_megatron,
};

static enum mds_rc open_bin_file(struct megatron_source *m, const char *path,
                                 int64_t *bytes)
{
    struct stat st;

    m->bin = open(path, O_RDONLY | O_CLOEXEC);
    if (m->bin < 0)
        return mds_fail_open(MDS_EUSER, path);
    if (fstat(m->bin, &st) < 0 || !S_ISREG(st.st_mode))
        return mds_fail(MDS_EUSER, "%s: not a regular file", path);
    *bytes = st.st_size;
    return MDS_OK;
}

static enum mds_rc open_idx_and_bin(struct megatron_source *m, const char *prefix)
{
    struct mds_str bin = {0}, idx = {0};
    int64_t bytes = 0;
    enum mds_rc rc = MDS_EMEM;

    mds_str_add(&bin, "%s.bin", prefix);
    mds_str_add(&idx, "%s.idx", prefix);
    m->base.path = bin.failed ? NULL : mds_strdup(bin.s);
    if (m->base.path && !idx.failed)
        rc = mds_map_open(idx.s, &m->idx);
    if (!rc)
        rc = open_bin_file(m, bin.s, &bytes);
    if (!rc)
        rc = mds_index_parse(m->idx.bytes, m->idx.size, bytes, idx.s, &m->index);
    mds_str_fini(&bin);
    mds_str_fini(&idx);
    return rc;
}

/* The kinds of the tokens, if there is a file of them. */
static enum mds_rc open_kinds(struct megatron_source *m, const char *prefix)
{
    struct mds_str path = {0};
    enum mds_rc rc = MDS_OK;

    mds_str_add(&path, "%s.kinds.h5", prefix);
    if (path.failed)
        rc = MDS_EMEM;
    else if (access(path.s, F_OK) == 0)
        rc = mds_h5_open(path.s, NULL, &m->kinds);
    if (!rc && m->kinds)
        rc = mds_kinds_open(m->kinds, path.s, m->base.tokens, &m->base.kinds);
    mds_str_fini(&path);
    return rc;
}

enum mds_rc mds_source_open_megatron(const char *prefix, struct mds_source **out)
{
    struct megatron_source *m = mds_zalloc(1, sizeof *m);
    enum mds_rc rc;

    if (!m)
        return MDS_EMEM;
    m->base.ops = &megatron_ops;
    m->base.eod = m->bin = -1;
    m->base.reading = mds_reading_read("");
    m->base.token_bases = m->base.token_stride = 1;
    rc = open_idx_and_bin(m, prefix);
    m->base.tokens = m->index.tokens;
    m->base.documents = m->index.documents;
    m->base.vocab_seen = 1;
    m->base.vocab = MDS_VOCAB_MAX;
    if (!rc)
        rc = open_kinds(m, prefix);
    if (rc) {
        mds_source_close(&m->base);
        return rc;
    }
    *out = &m->base;
    return MDS_OK;
}
