/* SPDX-License-Identifier: BSD-3-Clause */
/* The dry device: addresses without memory.  Accessing one is a segmentation fault. */
#include "device/arena.h"
#include "base/minmax.h"
#include "device/backend.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bit 55 is set, so that no process can have memory here.  On x86-64 such addresses are
 * not canonical (4-level page tables) or belong to the kernel (5-level), as they do on
 * aarch64, whatever the top byte is.  A PROT_NONE mapping would fault as well, but is
 * limited to 2^47 bytes; models of some trillion parameters need more. */
#define FIRST_ADDRESS UINT64_C(0xFF80000000000000)
#define SPAN_BYTES (INT64_C(1) << 54)

static enum mds_rc dry_open(struct mds_dev *dev, const struct mds_dev_spec *spec)
{
    (void)spec;
    if (dev->memory_bytes <= 0 || dev->memory_bytes > SPAN_BYTES)
        dev->memory_bytes = SPAN_BYTES;
    snprintf(dev->description, sizeof dev->description, "dry");
    return MDS_OK;
}

/* Addresses are never reused. */
static void *dry_alloc(struct mds_dev *dev, int64_t bytes)
{
    int64_t n = mds_round_up(bytes, MDS_ARENA_ALIGN);
    uint64_t at = FIRST_ADDRESS + (uint64_t)dev->given_bytes;

    if (n > SPAN_BYTES - dev->given_bytes)
        return NULL;
    dev->given_bytes += n;
    return (void *)(uintptr_t)at;
}

static void dry_do_nothing(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev, (void)p, (void)bytes;
}

static void dry_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    (void)dev, (void)to, (void)from, (void)bytes;
}

static enum mds_rc dry_copy_out(struct mds_dev *dev, void *to, const void *from,
                                int64_t bytes)
{
    (void)dev, (void)from;
    memset(to, 0, (size_t)bytes);
    return MDS_OK;
}

const struct mds_dev_ops mds_dev_dry = {
    .name = "dry",
    .open = dry_open,
    .alloc = dry_alloc,
    .free = dry_do_nothing,
    .zero = dry_do_nothing,
    .copy = dry_copy,
    .copy_in = dry_copy,
    .copy_out = dry_copy_out,
};
