/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/nvml.h"

#include "kernels/library.h"

#include <stdio.h>
#include <stddef.h>

/* What is used of nvml.h, which not every machine with a driver has.  Source: NVML API
 * reference, versions 11 to 13: the binary interface of these calls is stable. */
typedef struct nvml_device *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
enum { NVML_CLOCK_SM = 1, NVML_UNCORRECTED = 1 };

int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *d);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvml_device *d);
int nvmlDeviceGetName(nvml_device d, char *name, unsigned size);
int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *m);
int nvmlDeviceGetClockInfo(nvml_device d, int kind, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(nvml_device d, int kind, unsigned *mhz);
int nvmlDeviceGetTemperature(nvml_device d, int sensor, unsigned *celsius);
int nvmlDeviceGetTotalEccErrors(nvml_device d, int kind, int since,
                                unsigned long long *n);
int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device d, unsigned long long *bits);

#define NVML_CALLS(X)                                                                  \
    X(nvmlInit_v2)                                                                     \
    X(nvmlDeviceGetCount_v2)                                                           \
    X(nvmlDeviceGetHandleByIndex_v2)                                                   \
    X(nvmlDeviceGetHandleByPciBusId_v2)                                                \
    X(nvmlDeviceGetName)                                                               \
    X(nvmlDeviceGetMemoryInfo)                                                         \
    X(nvmlDeviceGetClockInfo)                                                          \
    X(nvmlDeviceGetMaxClockInfo)                                                       \
    X(nvmlDeviceGetTemperature)                                                        \
    X(nvmlDeviceGetTotalEccErrors)                                                     \
    X(nvmlDeviceGetCurrentClocksThrottleReasons)

struct nvml {
    NVML_CALLS(MDSK_LIBRARY_CALL)
};

static const struct nvml *open_nvml(void)
{
    static const char *const names[] = {NVML_CALLS(MDSK_LIBRARY_NAME) NULL};
    static struct nvml calls;
    static int state; /* 0: not tried yet */

    if (state == 0)
        state = mdsk_library_open("libnvidia-ml.so.1", names, &calls) == 0 &&
                        calls.nvmlInit_v2() == 0
                    ? 1
                    : -1;
    return state == 1 ? &calls : NULL;
}

int mds_gpu_count(void)
{
    const struct nvml *nvml = open_nvml();
    unsigned n = 0;

    return nvml && nvml->nvmlDeviceGetCount_v2(&n) == 0 ? (int)n : 0;
}

static void read_clocks(const struct nvml *nvml, nvml_device d,
                        struct mds_gpu_state *out)
{
    unsigned n;

    if (nvml->nvmlDeviceGetClockInfo(d, NVML_CLOCK_SM, &n) == 0)
        out->sm_mhz = (int)n;
    if (nvml->nvmlDeviceGetMaxClockInfo(d, NVML_CLOCK_SM, &n) == 0)
        out->most_sm_mhz = (int)n;
    if (nvml->nvmlDeviceGetTemperature(d, 0, &n) == 0)
        out->celsius = (int)n;
}

int mds_gpu_state(const char *bus_id, int index, struct mds_gpu_state *out)
{
    const struct nvml *nvml = open_nvml();
    struct nvml_memory memory;
    unsigned long long n;
    nvml_device d;

    *out = (struct mds_gpu_state){.ecc_errors = -1};
    if (!nvml || index < 0 ||
        (*bus_id ? nvml->nvmlDeviceGetHandleByPciBusId_v2(bus_id, &d)
                 : nvml->nvmlDeviceGetHandleByIndex_v2((unsigned)index, &d)) != 0)
        return -1;
    if (nvml->nvmlDeviceGetName(d, out->name, sizeof out->name) != 0)
        snprintf(out->name, sizeof out->name, "unnamed GPU");
    if (nvml->nvmlDeviceGetMemoryInfo(d, &memory) == 0) {
        out->memory_bytes = (int64_t)memory.total;
        out->free_bytes = (int64_t)memory.free;
    }
    read_clocks(nvml, d, out);
    if (nvml->nvmlDeviceGetTotalEccErrors(d, NVML_UNCORRECTED, 0, &n) == 0)
        out->ecc_errors = (int64_t)n;
    if (nvml->nvmlDeviceGetCurrentClocksThrottleReasons(d, &n) == 0)
        out->throttle = n;
    return 0;
}

const char *mds_gpu_throttle_text(uint64_t throttle)
{
    static const struct {
        uint64_t bit;
        const char *text;
    } reasons[] = {
        {0x40, "too hot (hardware)"},
        {0x20, "too hot (software)"},
        {0x80, "power brake"},
        {0x8, "hardware slowdown"},
    };

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (throttle & reasons[i].bit)
            return reasons[i].text;
    return "";
}
