/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of this host. */
#include "launch/capture.h"
#include "launch/placement.h"

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

/* One GPU's line: "NVIDIA H200, 143771"; some have "[N/A]" for MiB.  The first names
 * the kind, the smallest the memory. */
static int parse_gpu_line(char *line, struct mds_gpus *g)
{
    char *comma = strrchr(line, ',');
    long long mib = 0;

    if (!comma)
        return 0;
    *comma = '\0';
    if (sscanf(comma + 1, "%lld", &mib) != 1)
        mib = 0;
    if (g->count == 0)
        snprintf(g->name, sizeof g->name, "%.*s", (int)sizeof g->name - 1, line);
    if (g->count == 0 || (int64_t)mib << 20 < g->memory)
        g->memory = (int64_t)mib << 20;
    return 1;
}

int mds_gpus_detect(struct mds_gpus *g)
{
    static const char *const command[] = {"nvidia-smi", "--query-gpu=name,memory.total",
                                          "--format=csv,noheader,nounits", NULL};
    struct mds_str answer = {0};
    char *rest;

    *g = (struct mds_gpus){.count = 0};
    if (mds_capture_output(command, MDS_NVIDIA_SMI_S, &answer))
        return 0;
    for (char *line = answer.s ? strtok_r(answer.s, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        g->count += parse_gpu_line(line, g);
    mds_str_fini(&answer);
    return 1;
}

int mds_gpus_count_visible(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    return visible ? count_visible(visible) : -1;
}

void mds_find_gpus(struct mds_placement *p, const struct mds_gpus *here)
{
    struct mds_finding *f;

    if (mds_gpus_count_visible() >= 0 &&
        (f = mds_placement_add(p, "CUDA_VISIBLE_DEVICES")))
        f->gpus = mds_gpus_count_visible();
    if (here && (f = mds_placement_add(p, "nvidia-smi"))) {
        f->gpus = here->count;
        snprintf(f->about, sizeof f->about, "%s", here->name);
    }
}
