/* SPDX-License-Identifier: BSD-3-Clause */
/* Binds a rank to the cores near its GPU, as Linux lists them. */
#include "base/log.h"
#include "device/backend.h"

#include <stdio.h>

enum { PATH_SIZE = 4096 };

/* The CPUs in a file such as "0-7,32-39"; none if it is not there. */
static void read_cpus(const char *path, cpu_set_t *out)
{
    FILE *f = fopen(path, "re");
    int first, last, n;

    CPU_ZERO(out);
    if (!f)
        return;
    do {
        n = fscanf(f, "%d-%d", &first, &last);
        for (int i = first; n > 0 && i <= (n > 1 ? last : first) && i < CPU_SETSIZE;
             i++)
            CPU_SET(i, out);
    } while (n > 0 && fgetc(f) == ',');
    fclose(f);
}

static void find_near(const char *root, const char *bus_id, cpu_set_t *out)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/local_cpulist", root,
             bus_id);
    read_cpus(path, out);
}

/* Whether a CPU is the first of its core's; the CPUs of that. */
static int begins_core(const char *root, int cpu, cpu_set_t *core)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof path,
             "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
             cpu);
    read_cpus(path, core);
    CPU_SET(cpu, core);
    for (int i = 0; i < cpu; i++)
        if (CPU_ISSET(i, core))
            return 0;
    return 1;
}

void mds_host_cores_near(const char *root, mds_bus_id *gpu, int ranks, int rank,
                         cpu_set_t *out)
{
    int sharers = 0, before = 0, cores = 0, n = 0;
    cpu_set_t near, other, core;

    CPU_ZERO(out);
    find_near(root, gpu[rank], &near);
    for (int i = 0; i < ranks; i++) {
        int same;

        find_near(root, gpu[i], &other);
        same = CPU_EQUAL(&near, &other);
        sharers += same;
        before += same && i < rank;
    }
    for (int i = 0; i < CPU_SETSIZE; i++)
        cores += CPU_ISSET(i, &near) && begins_core(root, i, &core);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &near) && begins_core(root, i, &core)) {
            if (n >= cores * before / sharers && n < cores * (before + 1) / sharers)
                CPU_OR(out, out, &core);
            n++;
        }
}

void mds_host_bind_near(mds_bus_id *gpu, int ranks, int rank)
{
    cpu_set_t now, own, both;
    int all = mds_host_cores(); /* counted before */

    mds_host_cores_near("", gpu, ranks, rank, &own);
    if (sched_getaffinity(0, sizeof now, &now))
        return;
    CPU_AND(&both, &now, &own);
    if (!CPU_EQUAL(&both, &own) || CPU_COUNT(&own) < all / ranks ||
        sched_setaffinity(0, sizeof own, &own))
        return;
    mds_debug("bound to %d of %d CPUs, near GPU %s", CPU_COUNT(&own), all, gpu[rank]);
}
