/* SPDX-License-Identifier: BSD-3-Clause */
/* Names in timelines, by NVTX: nothing is called unless a profiler is attached. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "device/profile.h"

#ifdef HAVE_NVTX3_NVTOOLSEXT_H

#include <inttypes.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

void mds_range_begin(const char *name)
{
    nvtxRangePushA(name);
}

void mds_range_begin_step(int64_t step)
{
    char name[32];

    snprintf(name, sizeof name, "step %" PRId64, step);
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

void mds_range_begin_step(int64_t step)
{
    (void)step;
}

void mds_range_end(void)
{
}

#endif
