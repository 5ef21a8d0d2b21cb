/* SPDX-License-Identifier: BSD-3-Clause */
/* Megatron's .idx: where the sequences of a .bin lie.  All numbers little-endian:
 *
 *   0   "MMIDIDX\0\0"    9 bytes
 *   9   version          u64, 1
 *   17  dtype code       u8: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 and 7 real, 8 u16
 *   18  n, sequences     u64
 *   26  m, boundaries    u64, documents + 1
 *   34  sizes            i32[n], tokens of each sequence
 *       pointers         i64[n], byte of the .bin where it starts
 *       boundaries       i64[m], sequence at which each document starts, then n
 *
 * Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py. */
#ifndef MDS_DATA_MEGATRON_INDEX_H
#define MDS_DATA_MEGATRON_INDEX_H

#include "base/status.h"

#include <stdint.h>

enum mds_index_type {
    MDS_INDEX_U8 = 1,
    MDS_INDEX_I8 = 2,
    MDS_INDEX_I16 = 3,
    MDS_INDEX_I32 = 4,
    MDS_INDEX_I64 = 5,
    MDS_INDEX_U16 = 8
};

struct mds_index {
    enum mds_index_type type;
    int item; /* bytes per token */
    int64_t sequences, documents, tokens;
    int64_t first_byte;                         /* of the .bin, where token 0 is */
    const unsigned char *pointers, *boundaries; /* borrowed from the bytes parsed */
};

/* Parse and check the whole index bytes[size] against a .bin of bin_bytes.  On success
 * every token lies inside the .bin and sequences follow each other without gaps, so
 * token t is at byte first_byte + t * item.  name is for messages. */
enum mds_rc mds_index_parse(const unsigned char *bytes, int64_t size, int64_t bin_bytes,
                            const char *name, struct mds_index *out);

/* Token at which document i starts, 0 <= i <= documents. */
int64_t mds_index_start(const struct mds_index *x, int64_t i);

#endif
