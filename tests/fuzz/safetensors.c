/* SPDX-License-Identifier: BSD-3-Clause */
/* Safetensors files: one that is accepted has every tensor wholly inside it, one behind
 * the other, and names that are found. */
#include "base/status.h"
#include "ckpt/safetensors.h"

#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void walk(const struct mds_safetensors *f, size_t size)
{
    const unsigned char *end = NULL;
    size_t bytes = 0;
    unsigned sum = 0;

    for (size_t i = 0; i < f->count; i++) {
        const struct mds_st_tensor *t = &f->tensors[i];
        const unsigned char *data = t->data;
        size_t n = mds_st_dtype_size(t->dtype);

        FUZZ_CHECK(!end || data == end);
        FUZZ_CHECK(t->ndim >= 0 && t->ndim <= MDS_ST_MAX_DIMS);
        for (int d = 0; d < t->ndim; d++)
            n *= (size_t)t->shape[d];
        FUZZ_CHECK(n == t->bytes);
        FUZZ_CHECK(mds_safetensors_find(f, t->name) != NULL);
        for (size_t k = 0; k < n; k++)
            sum += data[k];
        end = data + n;
        bytes += n;
    }
    FUZZ_CHECK(bytes + 8 <= size && sum <= 255u * bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mds_safetensors *f;
    int fd = memfd_create("fuzz", 0);
    char path[32];

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (mds_safetensors_open(path, &f)) {
        FUZZ_CHECK(*mds_fail_text());
    } else {
        walk(f, size);
        mds_safetensors_close(f);
    }
    close(fd);
    return 0;
}
