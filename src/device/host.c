/* SPDX-License-Identifier: BSD-3-Clause */
/* The host: its cores, and its memory. */
#include "base/minmax.h"
#include "device/backend.h"

#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

int mds_host_cores(void)
{
    static int cores;
    cpu_set_t set;

    if (cores == 0 && sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    if (cores == 0)
        cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return cores;
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

/* The number after `name`, at the start of a line of the file; -1 if there is none. */
static int64_t find_number(const char *path, const char *name)
{
    FILE *f = fopen(path, "re");
    char line[512];
    int64_t n = -1;
    int found = 0;

    while (f && !found && fgets(line, sizeof line, f))
        found = strncmp(line, name, strlen(name)) == 0 &&
                sscanf(line + strlen(name), "%" SCNd64, &n) == 1;
    if (f)
        fclose(f);
    return found ? n : -1;
}

/* ---- control groups ---- */

/* Control groups of version 2, or the memory controller's of version 1. */
static const struct version {
    const char *controllers; /* in /proc/self/cgroup: 4:memory:/slurm/uid_7/job_5 */
    const char *mount, *limit, *used;
    const char *cached[2]; /* in memory.stat: cached files, part of used, reclaimable */
} versions[] = {
    {":",
     "/sys/fs/cgroup",
     "memory.max",
     "memory.current",
     {"inactive_file ", "active_file "}},
    {"memory:",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

static int64_t read_cgroup_number(const char *folder, const char *file,
                                  const char *name)
{
    char path[PATH_SIZE + 64];

    snprintf(path, sizeof path, "%s/%s", folder, file);
    return find_number(path, name);
}

/* Memory left in one group; INT64_MAX if it has no limit. */
static int64_t left_in_group(const struct version *v, const char *folder)
{
    int64_t limit = read_cgroup_number(folder, v->limit, "");
    int64_t used = read_cgroup_number(folder, v->used, "");

    if (limit < 0 || used < 0)
        return INT64_MAX;
    for (int i = 0; i < 2; i++) {
        int64_t cached = read_cgroup_number(folder, "memory.stat", v->cached[i]);

        used -= cached > 0 ? cached : 0;
    }
    if (used < 0)
        used = 0;
    return limit > used ? limit - used : 0;
}

/* The least memory left in a group and its ancestors.  Groups that a container hides
 * are skipped. */
static int64_t left_in_group_and_parents(const struct version *v, const char *root,
                                         const char *path)
{
    char folder[PATH_SIZE];
    int top = snprintf(folder, sizeof folder, "%s%s", root, v->mount);
    int n = snprintf(folder, sizeof folder, "%s%s%s", root, v->mount, path);
    int64_t least = INT64_MAX;

    if (n >= PATH_SIZE)
        return least;
    for (;;) {
        int64_t left = left_in_group(v, folder);
        char *slash = strrchr(folder, '/');

        least = left < least ? left : least;
        if (!slash || slash - folder < top)
            return least;
        *slash = '\0';
    }
}

/* Memory that the control groups of this process leave it. */
static int64_t left_in_own_groups(const char *root)
{
    char line[PATH_SIZE];
    int64_t least = INT64_MAX;
    FILE *f;

    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    f = fopen(line, "re");
    while (f && fgets(line, sizeof line, f)) {
        const char *controllers = strchr(line, ':'), *path = strchr(line, '/');

        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; controllers && path && i < 2; i++) {
            const struct version *v = &versions[i];
            size_t n = strlen(v->controllers);
            int64_t left;

            if (strncmp(controllers + 1, v->controllers, n) != 0)
                continue;
            left = left_in_group_and_parents(v, root, path);
            least = left < least ? left : least;
        }
    }
    if (f)
        fclose(f);
    return least;
}

/* ---- memory of GPUs ---- */

/* Free memory of NUMA node n if it has no cores, else 0. */
static int64_t free_memory_without_cores(const char *nodes, int n)
{
    char path[PATH_SIZE + 64], name[64];
    int64_t kib;

    snprintf(path, sizeof path, "%s/node%d/cpulist", nodes, n);
    if (find_number(path, "") >= 0)
        return 0;
    snprintf(path, sizeof path, "%s/node%d/meminfo", nodes, n);
    snprintf(name, sizeof name, "Node %d MemFree:", n);
    kib = find_number(path, name);
    return kib > 0 ? kib * 1024 : 0;
}

/* On a Grace Hopper, GPU memory is NUMA nodes without cores, and the kernel counts it
 * as host memory.  On other machines (Xeon Max) nodes without cores are host memory. */
static int64_t free_gpu_memory(const char *root)
{
    char nodes[PATH_SIZE], path[PATH_SIZE];
    const struct dirent *e;
    int64_t bytes = 0;
    DIR *d;
    int n;

    snprintf(path, sizeof path, "%s/proc/driver/nvidia", root);
    if (access(path, F_OK) != 0)
        return 0;
    snprintf(nodes, sizeof nodes, "%s/sys/devices/system/node", root);
    d = opendir(nodes);
    while (d && (e = readdir(d)))
        if (sscanf(e->d_name, "node%d", &n) == 1)
            bytes += free_memory_without_cores(nodes, n);
    if (d)
        closedir(d);
    return bytes;
}

/* ---- memory ---- */

int64_t mds_host_memory_below(const char *root)
{
    char path[PATH_SIZE];
    int64_t kib, bytes, left = left_in_own_groups(root);

    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    kib = find_number(path, "MemAvailable:");
    bytes = kib >= 0 ? kib * 1024
                     : (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    bytes = mds_max(bytes - free_gpu_memory(root), 0);
    return left < bytes ? left : bytes;
}

int64_t mds_host_memory_available(void)
{
    return mds_host_memory_below("");
}

void mds_host_memory_used(int64_t *now, int64_t *peak)
{
    int64_t now_kib = find_number("/proc/self/status", "VmRSS:");
    int64_t peak_kib = find_number("/proc/self/status", "VmHWM:");

    *now = now_kib > 0 ? now_kib * 1024 : 0;
    *peak = peak_kib > 0 ? peak_kib * 1024 : 0;
}
