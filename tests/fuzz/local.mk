# SPDX-License-Identifier: BSD-3-Clause
TESTS += tests/fuzz/replay.sh
dist_check_SCRIPTS += tests/fuzz/replay.sh tests/fuzz/run
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/fasta.c tests/fuzz/fuzz.h tests/fuzz/idx.c \
  tests/fuzz/replay.c tests/fuzz/safetensors.c tests/fuzz/tree.c
