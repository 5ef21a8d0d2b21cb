/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH64, a checksum that runs at memory speed.  It detects damage, not tampering.
 * `xxhsum -H64` and Python's xxhash give the same value.  Source: Collet, xxHash fast
 * digest algorithm, version 0.2.0. */
#ifndef MDS_IO_XXH64_H
#define MDS_IO_XXH64_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of n bytes, with seed 0. */
uint64_t mds_xxh64(const void *bytes, size_t n);

#endif
