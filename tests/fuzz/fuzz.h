/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzz target needs. */
#ifndef MDS_TESTS_FUZZ_FUZZ_H
#define MDS_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_CHECK(what)                                                               \
    do {                                                                               \
        if (!(what)) {                                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                 \
            abort();                                                                   \
        }                                                                              \
    } while (0)

/* Entry point of libFuzzer, and of replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
