/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MDSK_CPU_PLAIN_H
#define MDSK_CPU_PLAIN_H

#include "kernels/plain/attention.h"

extern const struct mdsk_plain_steps mdsk_plain_steps_cpu;

#endif
