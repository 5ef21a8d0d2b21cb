/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/megatron_index.h"

#include <string.h>

enum { HEADER = 34, MAGIC = 9 };

static uint64_t read_le64(const unsigned char *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static int32_t read_le32(const unsigned char *p)
{
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

static enum mds_rc fail_damaged(const char *name, const char *what, int64_t at)
{
    return mds_fail(
        MDS_EUSER,
        "%s: %s %lld: the index is damaged or belongs to another .bin: make both "
        "again with Megatron's preprocess_data.py",
        name, what, (long long)at);
}

static enum mds_rc set_index_type(struct mds_index *x, int code, const char *name)
{
    static const int items[9] = {0, 1, 1, 2, 4, 8, 0, 0, 2};

    if (code == 6 || code == 7)
        return mds_fail(MDS_EUSER, "%s: holds real numbers, not tokens", name);
    if (code < 1 || code > 8)
        return fail_damaged(name, "unknown data type", code);
    x->type = (enum mds_index_type)code;
    x->item = items[code];
    return MDS_OK;
}

static enum mds_rc parse_header(const unsigned char *b, int64_t size, const char *name,
                                struct mds_index *x)
{
    uint64_t n, m, payload;

    if (size < MAGIC || memcmp(b, "MMIDIDX\0\0", MAGIC) != 0)
        return mds_fail(
            MDS_EUSER,
            "%s: not a Megatron index (it does not begin with MMIDIDX); mds "
            "does not read --data-impl lazy and cached",
            name);
    if (size < HEADER)
        return fail_damaged(name, "cut short at byte", size);
    if (read_le64(b + 9) != 1)
        return mds_fail(MDS_EUSER, "%s: index version %llu; mds reads version 1", name,
                        (unsigned long long)read_le64(b + 9));
    MDS_TRY(set_index_type(x, b[17], name));
    n = read_le64(b + 18);
    m = read_le64(b + 26);
    payload = (uint64_t)size - HEADER;
    /* 12 and 8 bytes each; division first, because the products may overflow */
    if (n > payload / 12 || m > payload / 8 || 12 * n + 8 * m > payload)
        return fail_damaged(name, "too short for its counts, bytes", size);
    if (12 * n + 8 * m < payload)
        return mds_fail(
            MDS_EUSER,
            "%s: %llu bytes more than its %llu sequences need; mds does not "
            "read multimodal indexes",
            name, (unsigned long long)(payload - 12 * n - 8 * m),
            (unsigned long long)n);
    x->sequences = (int64_t)n;
    x->documents = (int64_t)m - 1;
    x->pointers = b + HEADER + 4 * n;
    x->boundaries = b + HEADER + 12 * n;
    return MDS_OK;
}

/* Sequences must follow each other without gaps, and lie inside the .bin. */
static enum mds_rc check_sequences(struct mds_index *x, const unsigned char *sizes,
                                   int64_t bin_bytes, const char *name)
{
    uint64_t next = x->sequences > 0 ? read_le64(x->pointers) : 0;

    if (next > (uint64_t)bin_bytes)
        return fail_damaged(name, "sequence 0 starts at byte", (int64_t)next);
    x->first_byte = (int64_t)next;
    for (int64_t i = 0; i < x->sequences; i++) {
        int32_t size = read_le32(sizes + 4 * i);

        if (size < 0)
            return fail_damaged(name, "negative size of sequence", i);
        if (read_le64(x->pointers + 8 * i) != next)
            return fail_damaged(name, "gap or overlap before sequence", i);
        next += (uint64_t)size * (unsigned)x->item;
        if (next > (uint64_t)bin_bytes)
            return fail_damaged(name, "beyond the end of the .bin: sequence", i);
        x->tokens += size;
    }
    return MDS_OK;
}

static enum mds_rc check_boundaries(const struct mds_index *x, const char *name)
{
    uint64_t before = 0;

    if (x->documents < 0)
        return fail_damaged(name, "document boundaries:", 0);
    for (int64_t i = 0; i <= x->documents; i++) {
        uint64_t at = read_le64(x->boundaries + 8 * i);

        if (at < before || at > (uint64_t)x->sequences || (i == 0 && at != 0))
            return fail_damaged(name, "wrong boundary of document", i);
        before = at;
    }
    if (before != (uint64_t)x->sequences)
        return fail_damaged(name, "documents end at sequence", (int64_t)before);
    return MDS_OK;
}

enum mds_rc mds_index_parse(const unsigned char *bytes, int64_t size, int64_t bin_bytes,
                            const char *name, struct mds_index *out)
{
    struct mds_index x = {0};

    MDS_TRY(parse_header(bytes, size, name, &x));
    MDS_TRY(check_sequences(&x, bytes + HEADER, bin_bytes, name));
    MDS_TRY(check_boundaries(&x, name));
    *out = x;
    return MDS_OK;
}

int64_t mds_index_start(const struct mds_index *x, int64_t i)
{
    int64_t sequence = (int64_t)read_le64(x->boundaries + 8 * i);

    if (sequence == x->sequences)
        return x->tokens;
    return ((int64_t)read_le64(x->pointers + 8 * sequence) - x->first_byte) / x->item;
}
