/* SPDX-License-Identifier: BSD-3-Clause */
/* Names in timelines, by NVTX: nothing is called unless a profiler is attached. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "device/profile.h"

#ifdef HAVE_CUDA

#include <nvtx3/nvToolsExt.h>

void mds_range_begin(const char *name)
{
    nvtxRangePushA(name);
}

void mds_range_end(void)
{
    nvtxRangePop();
}

#else

void mds_range_begin(const char *name)
{
    (void)name;
}

void mds_range_end(void)
{
}

#endif
