/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 by the instructions that some x86-64 CPUs have for it.  For sha256.c. */
#ifndef MDS_IO_SHA256_X86_H
#define MDS_IO_SHA256_X86_H

#include <stdint.h>

/* Whether this CPU has them, and this build may choose. */
int mds_sha256_x86_works(void);

/* Continue the digest h with a block of 64 bytes; constant: those of the 64 rounds. */
void mds_sha256_x86(uint32_t h[8], const unsigned char *block,
                    const uint32_t constant[64]);

#endif
