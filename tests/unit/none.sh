#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Stands for the unit tests where they cannot be built.
echo "1..0 # SKIP no cmocka (Debian: apt install libcmocka-dev)"
