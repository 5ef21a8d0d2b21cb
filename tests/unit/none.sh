#!/bin/sh
# Stands for the unit tests where they cannot be built.
echo "1..0 # SKIP no cmocka (Debian: apt install libcmocka-dev)"
