/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MDS_BLOCK_SHOW_H
#define MDS_BLOCK_SHOW_H

#include "block/program.h"

#include <stdio.h>

/* A line for each step: its number, operation and layer; what it makes (in brackets:
 * saved) < what it reads; working memory in use; and which results of messages it waits
 * for. */
void mds_block_show(const struct mds_step_list *p, FILE *f);

#endif
