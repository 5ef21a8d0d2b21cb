/* SPDX-License-Identifier: BSD-3-Clause */
/* NVIDIA's management library of a host with two GPUs.  FAKE_NVML says what is wrong
 * with the second: hot, ecc, or missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory {
    unsigned long long total, free, used;
};

static int is(const char *fault)
{
    const char *text = getenv("FAKE_NVML");

    return text && strcmp(text, fault) == 0;
}

/* A device is the address of one of these. */
static char devices[2];

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = is("missing") ? 1 : 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **d)
{
    if (index > 1)
        return 2;
    *d = &devices[index];
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **d)
{
    (void)bus_id;
    (void)d;
    return 6; /* not found */
}

int nvmlDeviceGetName(void *d, char *name, unsigned size)
{
    (void)d;
    snprintf(name, size, "Fake GPU");
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *d, struct memory *m)
{
    (void)d;
    *m = (struct memory){80ull << 30, 79ull << 30, 1ull << 30};
    return 0;
}

int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *mhz)
{
    *mhz = kind == 2 ? 2619 : is("hot") && d == &devices[1] ? 900 : 1980;
    return 0;
}

int nvmlDeviceGetMaxClockInfo(void *d, int kind, unsigned *mhz)
{
    (void)d;
    (void)kind;
    *mhz = 1980;
    return 0;
}

int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius)
{
    (void)sensor;
    *celsius = is("hot") && d == &devices[1] ? 91 : 40;
    return 0;
}

int nvmlDeviceGetTotalEccErrors(void *d, int kind, int since, unsigned long long *n)
{
    *n = is("ecc") && d == &devices[1] && kind == 1 && since == 0 ? 3 : 0;
    return 0;
}

/* Idle clocks and a limit of power, as ever, are no trouble. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits)
{
    *bits = is("hot") && d == &devices[1] ? 0x44 : 0x5;
    return 0;
}
