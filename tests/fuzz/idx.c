/* SPDX-License-Identifier: BSD-3-Clause */
/* Megatron's .idx, after four bytes that say how long the .bin is: an index that is
 * accepted has all its tokens inside the .bin and its documents in order. */
#include "base/status.h"
#include "data/megatron_index.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mds_index x;
    int64_t bin_bytes, before = 0;

    if (size < 4)
        return 0;
    bin_bytes = data[0] | data[1] << 8 | data[2] << 16 | (int64_t)data[3] << 24;
    if (mds_index_parse(data + 4, (int64_t)size - 4, bin_bytes, "fuzz.idx", &x)) {
        FUZZ_CHECK(*mds_fail_text());
        return 0;
    }
    FUZZ_CHECK(x.tokens >= 0 && x.first_byte >= 0 && x.first_byte <= bin_bytes);
    FUZZ_CHECK(x.tokens <= (bin_bytes - x.first_byte) / x.item);
    for (int64_t i = 0; i <= x.documents; i++) {
        int64_t start = mds_index_start(&x, i);

        FUZZ_CHECK(start >= before && start <= x.tokens);
        before = start;
    }
    FUZZ_CHECK(before == x.tokens);
    return 0;
}
