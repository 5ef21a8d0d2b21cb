/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a GPU as NVIDIA's management library (NVML) reports it.  The library is
 * opened at the first call; hosts without it have no GPUs to report. */
#ifndef MDS_DEVICE_NVML_H
#define MDS_DEVICE_NVML_H

#include <stdint.h>

struct mds_gpu_state {
    char name[64];
    int64_t memory_bytes, free_bytes;
    int sm_mhz, most_sm_mhz; /* 0: not reported */
    int celsius;             /* 0: not reported */
    int64_t ecc_errors;      /* uncorrected, since the driver was loaded; -1: no ECC */
    uint64_t throttle;       /* reasons why clocks are lowered, NVML's bits */
};

/* GPUs of this host; 0 without NVML. */
int mds_gpu_count(void);

/* The state of the GPU with this PCI bus id ("0000:c1:00.0"), or if that is "" with
 * this index.  Returns -1 if NVML does not know it. */
int mds_gpu_state(const char *bus_id, int index, struct mds_gpu_state *out);

/* The reasons among `throttle` that mean trouble, in words: heat, power brake,
 * hardware.  "" if there are none: limits of power and idle clocks are normal. */
const char *mds_gpu_throttle_text(uint64_t throttle);

#endif
