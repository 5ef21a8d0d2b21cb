/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <stdio.h>
#include <unistd.h>

void mds_host_name(char host[MDS_HOST_SIZE])
{
    if (gethostname(host, MDS_HOST_SIZE - 1) != 0)
        snprintf(host, MDS_HOST_SIZE, "unknown-host");
    host[MDS_HOST_SIZE - 1] = '\0'; /* what is cut off need not end */
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
