/* SPDX-License-Identifier: BSD-3-Clause */
/* FASTA, plain or gzip: any bytes give the same records whatever the reading room, and
 * bases that every tokenizer can take. */
#include "base/status.h"
#include "data/fasta.h"
#include "data/tokenizer.h"

#include "fuzz.h"

#include <string.h>

enum { ROOM = 999 };

static void check_encoding(enum mds_tokenizer t, const unsigned char *bases, size_t n)
{
    int32_t ids[ROOM];
    size_t made;

    if (mds_tokenizer_bases(t) == 0)
        return;
    made = mds_tokenizer_encode(t, bases, n, ids);
    FUZZ_CHECK(made <= n);
    for (size_t i = 0; i < made; i++)
        FUZZ_CHECK(ids[i] >= 0 && ids[i] < mds_tokenizer_vocabulary(t).size);
}

/* A sum over names and bases of all records; *rc is how it ended. */
static uint64_t digest(const uint8_t *data, size_t size, size_t room, enum mds_rc *rc)
{
    unsigned char bases[ROOM];
    struct mds_reader *r;
    struct mds_fasta *f;
    uint64_t sum = 0;
    int found;
    size_t n;

    *rc = mds_reader_memory(data, size, "fuzz.fa", &r);
    FUZZ_CHECK(*rc == MDS_OK);
    *rc = mds_fasta_create(r, &f);
    FUZZ_CHECK(*rc == MDS_OK);
    while (!(*rc = mds_fasta_next(f, &found)) && found) {
        sum = sum * 31 + strlen(mds_fasta_name(f));
        while (!(*rc = mds_fasta_read(f, bases, room, &n)) && n > 0) {
            for (size_t i = 0; i < n; i++) {
                FUZZ_CHECK(bases[i] % MDS_BASE_LOWER <= MDS_BASE_N);
                sum = sum * 31 + bases[i] + 1;
                bases[i] %= MDS_BASE_LOWER;
            }
            for (int t = 0; t < MDS_TOKENIZERS; t++)
                check_encoding((enum mds_tokenizer)t, bases, n);
            mds_bases_reverse(bases, n);
        }
        if (*rc)
            break;
    }
    mds_fasta_destroy(f);
    mds_reader_close(r);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum mds_rc wide, narrow;
    uint64_t a = digest(data, size, ROOM, &wide);
    uint64_t b = digest(data, size, 1, &narrow);

    FUZZ_CHECK(wide == narrow);
    FUZZ_CHECK(wide || a == b);
    FUZZ_CHECK(!wide || *mds_fail_text());
    return 0;
}
