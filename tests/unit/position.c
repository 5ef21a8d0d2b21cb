/* SPDX-License-Identifier: BSD-3-Clause */
/* data: where a run goes on in its files, whose mix may have changed. */
#include "scratch.h"

#include "data/dataset_impl.h"

enum { S = 10, A = 401, B = 201, C = 301 }; /* 40, 20 and 30 windows */

static unsigned char *put(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

/* Megatron's files, of one document: token t is first + t. */
static void make_file(const char *prefix, int tokens, int first)
{
    unsigned char idx[128], *p = idx, *bin = malloc((size_t)tokens * 4);
    char name[64];

    memcpy(p, "MMIDIDX\0\0", 9);
    p = put(put(put(put(p + 9, 1, 8), 4, 1), 1, 8), 2, 8);
    p = put(put(put(put(p, (uint64_t)tokens, 4), 0, 8), 0, 8), 1, 8);
    for (int i = 0; i < tokens; i++)
        put(bin + 4 * i, (uint64_t)(first + i), 4);
    snprintf(name, sizeof name, "%s.idx", prefix);
    write_file(name, idx, (size_t)(p - idx));
    snprintf(name, sizeof name, "%s.bin", prefix);
    write_file(name, bin, (size_t)tokens * 4);
    free(bin);
}

static int make_files(void **state)
{
    make_file("a", A, 0);
    make_file("b", B, 1000);
    make_file("c", C, 2000);
    return 0 * !state;
}

static struct mds_dataset *open_data(const char *paths, int64_t seq_length)
{
    struct mds_data_config c = {.paths = (char *)paths, .split = (char *)"1,0,0"};
    struct mds_dataset *d;
    int64_t largest;

    assert_int_equal(mds_dataset_open(&c, seq_length, 1234, &d), MDS_OK);
    assert_int_equal(mds_dataset_largest_id(d, 0, 1, &largest), MDS_OK);
    assert_int_equal(mds_dataset_set_vocab(d, largest), MDS_OK);
    return d;
}

/* A number for a window that is another one for every window of every file. */
static int window(struct mds_dataset *d, int64_t sample)
{
    int32_t token[4 * S + 1];

    assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, sample,
                                        &(struct mds_sample){token, NULL, NULL}),
                     MDS_OK);
    return token[0];
}

static char *saved(struct mds_dataset *d)
{
    struct mds_str text = {0};

    assert_int_equal(mds_dataset_describe(d), MDS_OK);
    mds_dataset_position(d, &text);
    assert_int_equal(text.failed, 0);
    return text.s;
}

/* Go on from what saved() gave. */
static enum mds_rc resume(struct mds_dataset *d, const char *text, int64_t sample)
{
    return mds_dataset_resume(d, text, "ck", sample);
}

/* The data set of a job that goes on before `sample`; the job before is closed. */
static struct mds_dataset *next_job(struct mds_dataset *before, const char *paths,
                                    int64_t seq_length, int64_t sample)
{
    struct mds_dataset *d = open_data(paths, seq_length), *other;
    char *text = saved(before);
    int64_t bytes;
    void *order, *copy;

    assert_int_equal(resume(d, text, sample), MDS_OK);
    free(text);
    mds_dataset_close(before);
    /* another rank, which gets the order from this one */
    other = open_data(paths, seq_length);
    order = mds_dataset_order(d, &bytes);
    copy = mds_dataset_order(other, &bytes);
    memcpy(copy, order, (size_t)bytes);
    for (int64_t i = sample; i < sample + 50; i++)
        assert_int_equal(window(d, i), window(other, i));
    mds_dataset_close(other);
    return d;
}

static void test_the_same_mix_goes_on(void **state)
{
    struct mds_dataset *whole = open_data("3 a 1 b", S), *d = open_data("3 a 1 b", S);

    (void)state;
    for (int64_t at = 7; at < 300; at += 71) {
        d = next_job(d, at % 2 ? "3 a 1 b" : "0.75 a 0.25 b", S, at);
        for (int64_t i = at; i < 2 * at; i++)
            assert_int_equal(window(d, i), window(whole, i));
    }
    mds_dataset_close(d);
    mds_dataset_close(whole);
}

/* How often each window of a file was read, by its first token (with the shift of its
 * epoch taken off). */
static void count(struct mds_dataset *d, int64_t from, int64_t to, int counts[3][64])
{
    for (int64_t i = from; i < to; i++) {
        int token = window(d, i);

        counts[token / 1000][token % 1000 / S]++;
    }
}

static void all_are(const int *counts, int n, int want)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(counts[i], want);
}

static int sum(const int *counts)
{
    int all = 0;

    for (int i = 0; i < 64; i++)
        all += counts[i];
    return all;
}

/* 16 of a; then b beside it; then c in its place; then all, in another order.  No file
 * is read again before all of it was read. */
static void test_files_come_and_go(void **state)
{
    struct mds_dataset *d = open_data("a", S);
    int n[3][64] = {{0}}, before;

    (void)state;
    count(d, 0, 16, n);
    d = next_job(d, "1 a 1 b", S, 16);
    count(d, 16, 48, n);
    assert_int_equal(sum(n[0]), 32);
    assert_int_equal(sum(n[1]), 16);
    d = next_job(d, "1 c 1 b", S, 48);
    count(d, 48, 56, n); /* four of each: all of b */
    all_are(n[1], 20, 1);
    assert_int_equal(sum(n[2]), 4);
    d = next_job(d, "1 b 2 c 1 a", S, 56);
    count(d, 56, 88, n); /* 8, 16 and 8: all of a, which stood at 32 of 40 */
    all_are(n[0], 40, 1);
    before = sum(n[2]);
    assert_int_equal(before, 20);
    d = next_job(d, "c", S, 88);
    count(d, 88, 98, n);
    all_are(n[2], 30, 1);
    assert_int_equal(sum(n[1]), 28);
    mds_dataset_close(d);
}

static void test_renamed_and_remade_files(void **state)
{
    struct mds_dataset *whole = open_data("1 a 1 b", S), *d = open_data("1 a 1 b", S);
    char *text = saved(d);

    (void)state;
    make_file("moved", B, 1000);
    d = next_job(d, "1 a 1 moved", S, 30);
    for (int64_t i = 30; i < 90; i++)
        assert_int_equal(window(d, i), window(whole, i));
    mds_dataset_close(d);
    make_file("b", B, 1001); /* as long as it was */
    d = open_data("1 a 1 b", S);
    assert_fails(
        resume(d, text, 30), MDS_EUSER,
        "b.bin: is not the file that ck was trained on: that had 201 tokens in 1 "
        "document, written ");
    mds_dataset_close(d);
    make_file("b", B + S, 1000);
    d = open_data("b", S);
    assert_fails(resume(d, text, 30), MDS_EUSER, "this has 211 tokens");
    mds_dataset_close(d);
    make_file("b", B, 1000);
    d = open_data("1 b 1 a", S);
    assert_int_equal(resume(d, text, 30), MDS_OK);
    mds_dataset_close(d);
    free(text);
    mds_dataset_close(whole);
}

/* Twice as long, so half as many: as far in the epoch as before. */
static void test_longer_samples(void **state)
{
    struct mds_dataset *d = open_data("a", S);
    int n[3][64] = {{0}};

    (void)state;
    d = next_job(d, "a", 2 * S, 60); /* in the middle of the second epoch */
    assert_int_equal(d->order->file[0].start, 30);
    count(d, 60, 70, n);
    for (int i = 0; i < 64; i++)
        assert_in_range(n[0][i], 0, 1);
    mds_dataset_close(d);
}

static void test_texts_that_were_not_written(void **state)
{
    static const char *const bad[] = {
        "",
        "began: 1\n",
        "files: []\n",
        "began: -1\nfiles: []\n",
        "began: 10\nfiles:\n- {path: a, share: 65536, key: 0, start: 0, samples: 1, "
        "tokens: 2, documents: 1, hash: 0, modified: 0}\n",
        "began: 0\nfiles:\n- {path: a, share: 65535, key: 0, start: 0, samples: 1, "
        "tokens: 2, documents: 1, hash: 0, modified: 0}\n",
        "began: 0\nfiles:\n- {path: a, share: 65536, key: 0, start: 0, samples: 0, "
        "tokens: 2, documents: 1, hash: 0, modified: 0}\n",
        "began: 0\nfiles:\n- {path: a, share: 65536, key: 0, start: 1x, samples: 1, "
        "tokens: 2, documents: 1, hash: 0, modified: 0}\n",
    };
    struct mds_position p;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mds_position_parse(bad[i], "ck", 9, &p), MDS_EUSER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_same_mix_goes_on, make_files),
        cmocka_unit_test_setup(test_files_come_and_go, make_files),
        cmocka_unit_test_setup(test_renamed_and_remade_files, make_files),
        cmocka_unit_test_setup(test_longer_samples, make_files),
        cmocka_unit_test(test_texts_that_were_not_written),
    };

    return cmocka_run_group_tests_name("position", tests, go_to_scratch, leave_scratch);
}
