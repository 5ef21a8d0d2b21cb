/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void mds_host_name(char host[MDS_HOST_SIZE])
{
    if (gethostname(host, MDS_HOST_SIZE - 1) != 0)
        snprintf(host, MDS_HOST_SIZE, "unknown-host");
    host[MDS_HOST_SIZE - 1] = '\0'; /* what is cut off need not end */
}

int mds_program_folder(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    char *slash;

    path[n > 0 ? n : 0] = '\0';
    slash = strrchr(path, '/');
    if (!slash)
        return -1;
    *slash = '\0';
    return 0;
}

int mds_slurm_list_entry(const char *list, int node)
{
    while (list && *list && node >= 0) {
        int tasks, times = 1, used = 0;

        if (sscanf(list, "%d%n", &tasks, &used) != 1)
            return -1;
        list += used;
        if (sscanf(list, "(x%d)%n", &times, &used) == 1)
            list += used;
        if (node < times)
            return tasks;
        node -= times;
        list += *list == ',';
    }
    return -1;
}
