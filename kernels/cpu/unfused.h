/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MDSK_CPU_UNFUSED_H
#define MDSK_CPU_UNFUSED_H

#include "kernels/unfused/attention.h"

extern const struct mdsk_unfused_steps mdsk_unfused_steps_cpu;

#endif
