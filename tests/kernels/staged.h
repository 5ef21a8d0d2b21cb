/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_KERNELS_STAGED_H
#define TESTS_KERNELS_STAGED_H

#include "kernels/table.h"

/* The cuda backend for arguments in host memory: the current test fails where a call
 * does, where it writes beyond an array, or to an input. */
const struct mdsk_table *staged_cuda(void);

#endif
