/* SPDX-License-Identifier: BSD-3-Clause */
/* Feed files to a fuzz target, each whole and cut short at every length (up to a
 * limit), for compilers without libFuzzer. */
#include "fuzz.h"

#include <string.h>

enum { CUTS = 2048 };

/* In memory of just that size, so that reading past the end is seen. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int replay(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t size;

    if (!f) {
        perror(path);
        return 1;
    }
    size = fread(data, 1, sizeof data, f);
    fclose(f);
    feed(data, size);
    for (size_t n = 0; n < size && n < CUTS; n++)
        feed(data, n);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (replay(argv[i]) != 0)
            return 1;
    printf("%d inputs\n", argc - 1);
    return argc == 1;
}
