/* The dry device: addresses without memory.  Whoever touches one dies at once. */
#include "device/backend.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static enum mds_rc dry_open(struct mds_dev *dev, const struct mds_dev_spec *spec)
{
    (void)spec;
    if (dev->memory_bytes <= 0)
        dev->memory_bytes = INT64_C(1) << 46;
    snprintf(dev->description, sizeof dev->description, "dry");
    return MDS_OK;
}

static void *dry_alloc(struct mds_dev *dev, int64_t bytes)
{
    void *p = mmap(NULL, bytes > 0 ? (size_t)bytes : 1, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)dev;
    return p == MAP_FAILED ? NULL : p;
}

static void dry_free(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev;
    munmap(p, bytes > 0 ? (size_t)bytes : 1);
}

static void dry_zero(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev, (void)p, (void)bytes;
}

static void dry_copy_in(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    (void)dev, (void)to, (void)from, (void)bytes;
}

static void dry_copy_out(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    (void)dev, (void)from;
    memset(to, 0, (size_t)bytes);
}

const struct mds_dev_ops mds_dev_dry = {
    .name = "dry",
    .open = dry_open,
    .alloc = dry_alloc,
    .free = dry_free,
    .zero = dry_zero,
    .copy_in = dry_copy_in,
    .copy_out = dry_copy_out,
};
