/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of data: Megatron pairs of documents of given lengths. */
#ifndef MDS_TESTS_UNIT_DOCUMENTS_H
#define MDS_TESTS_UNIT_DOCUMENTS_H

#include "scratch.h"

#include "data/dataset.h"

static inline unsigned char *put(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

static inline void write_prefixed(const char *prefix, const char *extension,
                                  const void *bytes, size_t n)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", prefix, extension);
    write_file(name, bytes, n);
}

/* A Megatron pair of n documents of these lengths; token t is t.  Returns their sum. */
static inline int64_t write_documents(const char *prefix, const int *length, int n)
{
    unsigned char *idx = calloc(1, (size_t)(34 + 20 * n + 8)), *p = idx, *bin;
    int64_t tokens = 0;

    memcpy(p, "MMIDIDX\0\0", 9);
    p = put(put(put(put(p + 9, 1, 8), 4, 1), (uint64_t)n, 8), (uint64_t)n + 1, 8);
    for (int i = 0; i < n; i++)
        p = put(p, (uint64_t)length[i], 4);
    for (int i = 0; i < n; i++) {
        p = put(p, (uint64_t)tokens * 4, 8);
        tokens += length[i];
    }
    for (int i = 0; i <= n; i++)
        p = put(p, (uint64_t)i, 8);
    write_prefixed(prefix, ".idx", idx, (size_t)(p - idx));
    bin = calloc(1, (size_t)tokens * 4 + 1);
    for (int64_t t = 0; t < tokens; t++)
        put(bin + 4 * t, (uint64_t)t, 4);
    write_prefixed(prefix, ".bin", bin, (size_t)tokens * 4);
    free(idx);
    free(bin);
    return tokens;
}

static inline struct mds_dataset *open_documents(const struct mds_data_config *c,
                                                 int64_t S)
{
    struct mds_dataset *d;
    int64_t largest;

    if (mds_dataset_open(c, S, 7, &d) || mds_dataset_largest_id(d, 0, 1, &largest) ||
        mds_dataset_set_vocab(d, largest))
        fail_msg("%s", mds_fail_text());
    return d;
}

#endif
