/* The GPUs of this host. */
#include "launch/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Devices named in "0,1,3" or "GPU-..,GPU-..": as CUDA reads it, up to the first name
 * that is none, so that "", "-1" and "NoDevFiles" hide all. */
static int count_visible(const char *text)
{
    int n = 0;

    for (;;) {
        size_t digits = strspn(text, "0123456789"), length = strcspn(text, ",");

        if (length == 0 || (digits != length && strncmp(text, "GPU-", 4) != 0 &&
                            strncmp(text, "MIG-", 4) != 0))
            return n;
        n++;
        if (!text[length])
            return n;
        text += length + 1;
    }
}

/* Lines of `nvidia-smi -L` that name one; -1 if it cannot be run. */
static int count_listed(void)
{
    FILE *f = popen("nvidia-smi -L 2>/dev/null", "re");
    char line[512];
    int n = 0;

    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        n += strncmp(line, "GPU ", 4) == 0;
    return pclose(f) == 0 ? n : -1;
}

enum mds_rc mds_find_gpus(struct mds_placement *p)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int listed = count_listed();
    struct mds_finding *f;

    if (visible && (f = mds_placement_add(p, "CUDA_VISIBLE_DEVICES")))
        f->gpus = count_visible(visible);
    if (listed >= 0 && (f = mds_placement_add(p, "nvidia-smi -L")))
        f->gpus = listed;
    return MDS_OK;
}
