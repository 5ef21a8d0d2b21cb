/* SPDX-License-Identifier: BSD-3-Clause */
/* What device memory is for.  Every byte is taken under one of these names; the same
 * words head the memory table of a run and of a plan. */
#ifndef MDS_DEVICE_MEMORY_H
#define MDS_DEVICE_MEMORY_H

#include <stdint.h>

enum mds_mem_tag {
    MDS_MEM_PARAM,
    MDS_MEM_GRAD,
    MDS_MEM_OPTIM,
    MDS_MEM_ACT,  /* what backward needs of forward, and gradients of activations */
    MDS_MEM_CKPT, /* kept so that the rest can be recomputed: layer inputs, attention */
    MDS_MEM_WORK, /* scratch that one operation or layer leaves to the next */
    MDS_MEM_COMM,
    MDS_MEM_SAVE, /* copies that are on their way to a checkpoint */
    MDS_MEM_TAGS,
};

const char *mds_mem_tag_name(enum mds_mem_tag tag);

/* Bytes taken now; the most so far of each tag by itself; and all tags at the moment
 * when their sum was largest. */
struct mds_mem_account {
    int64_t now[MDS_MEM_TAGS];
    int64_t peak[MDS_MEM_TAGS];
    int64_t at_total_peak[MDS_MEM_TAGS];
    int64_t total_now, total_peak;
};

#endif
