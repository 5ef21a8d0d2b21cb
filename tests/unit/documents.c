/* SPDX-License-Identifier: BSD-3-Clause */
/* data: where documents begin in samples. */
#include "scratch.h"

#include "data/dataset.h"

static unsigned char *put(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

static void write_prefixed(const char *prefix, const char *extension, const void *bytes,
                           size_t n)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", prefix, extension);
    write_file(name, bytes, n);
}

/* A Megatron pair of n documents of these lengths; token t is t.  Returns their sum. */
static int64_t write_documents(const char *prefix, const int *length, int n)
{
    unsigned char *idx = calloc(1, (size_t)(34 + 20 * n + 8)), *p = idx, *bin;
    int64_t tokens = 0;

    memcpy(p, "MMIDIDX\0\0", 9);
    p = put(put(put(put(p + 9, 1, 8), 4, 1), (uint64_t)n, 8), (uint64_t)n + 1, 8);
    for (int i = 0; i < n; i++)
        p = put(p, (uint64_t)length[i], 4);
    for (int i = 0; i < n; i++) {
        p = put(p, (uint64_t)tokens * 4, 8);
        tokens += length[i];
    }
    for (int i = 0; i <= n; i++)
        p = put(p, (uint64_t)i, 8);
    write_prefixed(prefix, ".idx", idx, (size_t)(p - idx));
    bin = calloc(1, (size_t)tokens * 4 + 1);
    for (int64_t t = 0; t < tokens; t++)
        put(bin + 4 * t, (uint64_t)t, 4);
    write_prefixed(prefix, ".bin", bin, (size_t)tokens * 4);
    free(idx);
    free(bin);
    return tokens;
}

static struct mds_dataset *open_documents(const struct mds_data_config *c, int64_t S)
{
    struct mds_dataset *d;
    int64_t largest;

    if (mds_dataset_open(c, S, 7, &d) || mds_dataset_largest_id(d, 0, 1, &largest) ||
        mds_dataset_set_vocab(d, largest))
        fail_msg("%s", mds_fail_text());
    return d;
}

/* The documents' starts[n + 1], from their lengths. */
static void sum_lengths(const int *length, int n, int64_t *start)
{
    start[0] = 0;
    for (int i = 0; i < n; i++)
        start[i + 1] = start[i] + length[i];
}

static int64_t start_of(const int64_t *start, int64_t token)
{
    int i = 0;

    while (start[i + 1] <= token) /* empty documents hold no token */
        i++;
    return start[i];
}

/* Windows that cross documents, some empty and some longer than a window. */
static void test_windows_know_documents(void **state)
{
    static const int length[] = {5, 1, 0, 40, 2, 2, 9, 0, 0, 1, 30, 7};
    enum { S = 11, N = sizeof length / sizeof *length };
    const struct mds_data_config c = {.paths = "d", .split = "1"};
    int32_t token[S + 1], start[S + 1];
    int64_t all[N + 1], n;
    struct mds_dataset *d;

    (void)state;
    write_documents("d", length, N);
    sum_lengths(length, N, all);
    d = open_documents(&c, S);
    n = mds_dataset_samples(d, MDS_SPLIT_TRAIN);
    for (int64_t i = 0; i < 5 * n; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i, token, start),
                         MDS_OK);
        for (int k = 0; k <= S; k++) {
            int64_t begin = start_of(all, token[k]) - token[0];

            assert_int_equal(start[k], begin > 0 ? begin : 0);
        }
    }
    mds_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_know_documents),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
