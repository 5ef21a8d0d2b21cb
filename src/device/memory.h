/* SPDX-License-Identifier: BSD-3-Clause */
/* What device memory is used for.  Every allocation has one of these tags, which are
 * the rows of the memory tables. */
#ifndef MDS_DEVICE_MEMORY_H
#define MDS_DEVICE_MEMORY_H

#include <stdint.h>

enum mds_mem_tag {
    MDS_MEM_PARAM,
    MDS_MEM_GRAD,
    MDS_MEM_OPTIM,
    MDS_MEM_ACT,  /* activations saved for backward, and activation gradients */
    MDS_MEM_CKPT, /* activation checkpoints: saved to recompute the rest from */
    MDS_MEM_WORK, /* scratch of one operation or layer */
    MDS_MEM_COMM,
    MDS_MEM_SAVE, /* copies being written to a checkpoint in the background */
    MDS_MEM_TAGS,
};

const char *mds_mem_tag_name(enum mds_mem_tag tag);

/* Bytes allocated now; the peak of each tag by itself; and each tag at the time when
 * the total was at its peak. */
struct mds_mem_account {
    int64_t now[MDS_MEM_TAGS];
    int64_t peak[MDS_MEM_TAGS];
    int64_t at_total_peak[MDS_MEM_TAGS];
    int64_t total_now, total_peak;
};

struct mds_str;

/* Append a line for each tag that was ever used and one for all, with aligned columns:
 * purpose, now, peak, share of the peak of all. */
void mds_mem_table(const struct mds_mem_account *m, struct mds_str *out);

#endif
