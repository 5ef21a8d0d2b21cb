/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/reader.h"
#include "base/alloc.h"
#include "base/status.h"
#include "io/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
    BLOCK = 256 * 1024,
    GZIP_ONLY = 15 + 16 /* largest window, gzip header: zlib.h, inflateInit2 */
};

struct mds_reader {
    char *name;
    int fd;                      /* -1: reads from memory */
    const unsigned char *memory; /* borrowed */
    size_t memory_left;
    unsigned char *raw, *text; /* [BLOCK] as stored; as decompressed (gzip only) */
    size_t raw_pos, raw_len;
    int64_t raw_bytes;
    struct mds_sha256 sha;
    z_stream z;
    int is_gzip, in_member;
    int started, at_end; /* at_end: nothing more to read into raw */
};

static enum mds_rc alloc_reader(const char *name, struct mds_reader **out)
{
    struct mds_reader *r = mds_zalloc(1, sizeof *r);

    if (!r)
        return MDS_EMEM;
    r->fd = -1;
    r->name = mds_strdup(name);
    r->raw = mds_zalloc(BLOCK, 1);
    if (!r->name || !r->raw) {
        mds_reader_close(r);
        return MDS_EMEM;
    }
    mds_sha256_init(&r->sha);
    *out = r;
    return MDS_OK;
}

enum mds_rc mds_reader_open(const char *path, struct mds_reader **out)
{
    int std = strcmp(path, "-") == 0;
    struct mds_reader *r;

    MDS_TRY(alloc_reader(std ? "standard input" : path, &r));
    r->fd = std ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0) {
        mds_fail_open(MDS_EUSER, r->name);
        mds_reader_close(r);
        return MDS_EUSER;
    }
    *out = r;
    return MDS_OK;
}

enum mds_rc mds_reader_memory(const void *bytes, size_t n, const char *name,
                              struct mds_reader **out)
{
    MDS_TRY(alloc_reader(name, out));
    (*out)->memory = bytes;
    (*out)->memory_left = n;
    return MDS_OK;
}

void mds_reader_close(struct mds_reader *r)
{
    if (!r)
        return;
    if (r->is_gzip)
        inflateEnd(&r->z);
    if (r->fd >= 0)
        close(r->fd);
    free(r->name);
    free(r->raw);
    free(r->text);
    free(r);
}

static ssize_t read_some(struct mds_reader *r, unsigned char *to, size_t n)
{
    ssize_t got;

    if (r->fd < 0) {
        n = n < r->memory_left ? n : r->memory_left;
        if (n > 0) {
            memcpy(to, r->memory, n);
            r->memory += n;
            r->memory_left -= n;
        }
        return (ssize_t)n;
    }
    do
        got = read(r->fd, to, n);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Fill raw anew, wholly unless the input ends (pipes give little at a time). */
static enum mds_rc refill_raw(struct mds_reader *r)
{
    r->raw_pos = r->raw_len = 0;
    while (!r->at_end && r->raw_len < BLOCK) {
        ssize_t got = read_some(r, r->raw + r->raw_len, BLOCK - r->raw_len);

        if (got < 0)
            return mds_fail(MDS_EUSER, "%s: %s%s", r->name, strerror(errno),
                            errno == EISDIR ? "; name the files in it" : "");
        r->raw_len += (size_t)got;
        r->at_end = got == 0;
    }
    r->raw_bytes += (int64_t)r->raw_len;
    mds_sha256_add(&r->sha, r->raw, r->raw_len);
    return MDS_OK;
}

/* Would be read as garbage otherwise. */
static const struct {
    unsigned char magic[4], length;
    const char *name;
} refused[] = {
    {{'B', 'Z', 'h'}, 3, "bzip2"},
    {{0xfd, '7', 'z', 'X'}, 4, "xz"},
    {{0x28, 0xb5, 0x2f, 0xfd}, 4, "zstd"},
    {{'P', 'K', 3, 4}, 4, "zip"},
};

/* Read the first block and tell by its first bytes what it is. */
static enum mds_rc detect_compression(struct mds_reader *r)
{
    MDS_TRY(refill_raw(r));
    r->started = 1;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (r->raw_len >= 4 && memcmp(r->raw, refused[i].magic, refused[i].length) == 0)
            return mds_fail(MDS_EUSER,
                            "%s: compressed with %s: decompress it, or compress it "
                            "with gzip instead",
                            r->name, refused[i].name);
    if (r->raw_len < 2 || r->raw[0] != 0x1f || r->raw[1] != 0x8b)
        return MDS_OK;
    r->text = mds_zalloc(BLOCK, 1);
    if (!r->text)
        return MDS_EMEM;
    if (inflateInit2(&r->z, GZIP_ONLY) != Z_OK)
        return mds_fail(MDS_EMEM, "%s: zlib has no memory", r->name);
    r->is_gzip = r->in_member = 1;
    return MDS_OK;
}

/* Members may follow each other, as bgzip and `cat a.gz b.gz` make them, and zeros, as
 * padding. */
static enum mds_rc skip_between_members(struct mds_reader *r)
{
    while (r->raw_pos < r->raw_len && r->raw[r->raw_pos] == 0)
        r->raw_pos++;
    if (r->raw_pos == r->raw_len)
        return MDS_OK;
    if (r->raw[r->raw_pos] != 0x1f)
        return mds_fail(MDS_EUSER, "%s: data that is not gzip follows the gzip data",
                        r->name);
    inflateReset(&r->z);
    r->in_member = 1;
    return MDS_OK;
}

/* Some of raw, behind text[have]. */
static enum mds_rc inflate_some(struct mds_reader *r, size_t have, size_t *made)
{
    int status;

    r->z.next_in = r->raw + r->raw_pos;
    r->z.avail_in = (uInt)(r->raw_len - r->raw_pos);
    r->z.next_out = r->text + have;
    r->z.avail_out = (uInt)(BLOCK - have);
    status = inflate(&r->z, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR)
        return mds_fail(MDS_EMEM, "%s: zlib has no memory", r->name);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return mds_fail(MDS_EUSER, "%s: damaged gzip data (%s); fetch the file again",
                        r->name, r->z.msg ? r->z.msg : "zlib gave no reason");
    r->in_member = status != Z_STREAM_END;
    r->raw_pos = r->raw_len - r->z.avail_in;
    *made = BLOCK - have - r->z.avail_out;
    return MDS_OK;
}

static enum mds_rc next_inflated(struct mds_reader *r, size_t *n)
{
    size_t have = 0;

    while (have < BLOCK) {
        size_t made = 0;

        if (r->raw_pos == r->raw_len)
            MDS_TRY(refill_raw(r));
        /* Without input too: zlib may hold back what did not fit the last time. */
        MDS_TRY(r->in_member ? inflate_some(r, have, &made) : skip_between_members(r));
        have += made;
        if (r->raw_len == 0 && made == 0)
            break;
    }
    if (have < BLOCK && r->in_member)
        return mds_fail(
            MDS_EUSER,
            "%s: the gzip data ends too early: the file is truncated, fetch "
            "it again",
            r->name);
    *n = have;
    return MDS_OK;
}

enum mds_rc mds_reader_next(struct mds_reader *r, const unsigned char **block,
                            size_t *n)
{
    if (!r->started)
        MDS_TRY(detect_compression(r));
    else if (!r->is_gzip)
        MDS_TRY(refill_raw(r));
    if (r->is_gzip) {
        MDS_TRY(next_inflated(r, n));
        *block = r->text;
        return MDS_OK;
    }
    *block = r->raw;
    *n = r->raw_len;
    return MDS_OK;
}

const char *mds_reader_name(const struct mds_reader *r)
{
    return r->name;
}

int64_t mds_reader_raw_bytes(const struct mds_reader *r)
{
    return r->raw_bytes;
}

void mds_reader_sha256(const struct mds_reader *r, char hex[65])
{
    mds_sha256_hex(&r->sha, hex);
}
