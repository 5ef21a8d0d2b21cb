#include "base/host.h"

#include <stdio.h>
#include <unistd.h>

void mds_host_name(char host[MDS_HOST_SIZE])
{
    if (gethostname(host, MDS_HOST_SIZE - 1) != 0)
        snprintf(host, MDS_HOST_SIZE, "unknown-host");
    host[MDS_HOST_SIZE - 1] = '\0'; /* what is cut off need not end */
}
