/* SPDX-License-Identifier: BSD-3-Clause */
/* The vocabulary of Megatron's files, which only reading them tells. */
#ifndef MDS_DATA_SCAN_H
#define MDS_DATA_SCAN_H

#include "config/config.h"

struct mds_scan {
    int64_t largest; /* id among the tokens read; -1 if there is none */
    double share;    /* of the tokens that was read: 1 if all, or no file is Megatron's
                      */
};

/* Read all of Megatron's files that the data name, each a part at a time, for
 * budget_s seconds at most. */
enum mds_rc mds_data_scan(const struct mds_data_config *c, double budget_s,
                          struct mds_scan *out);

#endif
