/* SPDX-License-Identifier: BSD-3-Clause */
/* What zero.c and zero_io.c share. */
#ifndef MDS_OPTIM_INTERNAL_H
#define MDS_OPTIM_INTERNAL_H

#include "optim/host_update.h"
#include "optim/muon.h"
#include "optim/zero.h"

struct mds_zero {
    struct zero_partition parts;
    struct zero_storage storage;
    struct zero_weights weights;
    int evaluation; /* the rest is not there */
    struct zero_gradients gradients;
    struct zero_states states;
    struct zero_host_update *host_update; /* NULL: the update is on the device */
    struct zero_muon muon[2]; /* of units of the one group, and of the other; zeroed:
                                 not used */
};

/* Wait for the update and gathers, so that weights and states may be changed. */
enum mds_rc mds_zero_quiesce(struct mds_zero *z);

#endif
