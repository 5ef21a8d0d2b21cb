/* SPDX-License-Identifier: BSD-3-Clause */
/* Which layers have something: a list of 0 and 1 in Python's notation, as Megatron has
 * it: "[1,1,0]*4", "([0]*1+[1]*11)", "([1]*3+[0])*2". */
#ifndef MDS_CONFIG_LAYER_LIST_H
#define MDS_CONFIG_LAYER_LIST_H

#include <stdint.h>

/* How many layers the list describes, -1 if it is none.  *item = that of layer 0, 1,
 * ..., if it describes so many; item may be NULL. */
int64_t mds_layer_list(const char *text, int64_t layer, int *item);

#endif
