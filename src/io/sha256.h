/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256, by which token files identify the inputs they were made from. */
#ifndef MDS_IO_SHA256_H
#define MDS_IO_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* Source: FIPS 180-4, sections 4.1.2, 5.3.3 and 6.2. */
struct mds_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
    int has_instructions; /* of the CPU, for this */
};

void mds_sha256_init(struct mds_sha256 *s);
void mds_sha256_add(struct mds_sha256 *s, const void *bytes, size_t n);
/* The digest of the bytes added so far, as 64 hex digits and a NUL; s is unchanged. */
void mds_sha256_hex(const struct mds_sha256 *s, char hex[65]);

#endif
