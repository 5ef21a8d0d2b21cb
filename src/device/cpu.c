/* The cpu device: host memory and kernels/cpu. */
#include "base/status.h"
#include "device/backend.h"
#include "kernels/table.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int mds_host_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static int64_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    long long v = -1;

    if (!f)
        return -1;
    if (fscanf(f, "%lld", &v) != 1)
        v = -1;
    fclose(f);
    return v;
}

static int64_t meminfo_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[256];
    long long kib = -1;

    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
            break;
    fclose(f);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

int64_t mds_host_memory_available(void)
{
    int64_t bytes = meminfo_available();
    int64_t max = read_number("/sys/fs/cgroup/memory.max");
    int64_t now = read_number("/sys/fs/cgroup/memory.current");

    if (bytes < 0)
        bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (max >= 0 && now >= 0 && max - now < bytes)
        bytes = max > now ? max - now : 0;
    return bytes;
}

void mds_host_memory_used(int64_t *now, int64_t *peak)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long long kib;

    *now = *peak = 0;
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmRSS: %lld kB", &kib) == 1)
            *now = kib * 1024;
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            *peak = kib * 1024;
    }
    fclose(f);
}

static enum mds_rc cpu_open(struct mds_dev *dev, const struct mds_dev_spec *spec)
{
    int threads = spec->threads > 0 ? spec->threads : mds_host_cores();

    mdsk_cpu_set_threads(threads);
    dev->kern = mdsk_cpu();
    if (dev->memory_bytes <= 0)
        dev->memory_bytes = mds_host_memory_available();
    snprintf(dev->description, sizeof dev->description, "cpu: %s", mdsk_cpu_describe());
    return MDS_OK;
}

void *mds_host_map(int64_t bytes)
{
    size_t n = bytes > 0 ? (size_t)bytes : 1;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, n, MADV_HUGEPAGE);
    return p;
}

void mds_host_unmap(void *p, int64_t bytes)
{
    if (p)
        munmap(p, bytes > 0 ? (size_t)bytes : 1);
}

static void *cpu_alloc(struct mds_dev *dev, int64_t bytes)
{
    (void)dev;
    return mds_host_map(bytes);
}

static void cpu_free(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev;
    mds_host_unmap(p, bytes);
}

static void cpu_zero(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev;
    mdsk_cpu_zero(p, bytes);
}

static void cpu_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    (void)dev;
    memcpy(to, from, (size_t)bytes);
}

static enum mds_rc cpu_copy_out(struct mds_dev *dev, void *to, const void *from,
                                int64_t bytes)
{
    (void)dev;
    memcpy(to, from, (size_t)bytes);
    return MDS_OK;
}

const struct mds_dev_ops mds_dev_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .zero = cpu_zero,
    .copy = cpu_copy,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy_out,
};
