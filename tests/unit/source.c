/* SPDX-License-Identifier: BSD-3-Clause */
/* data: HDF5 token files that another program made, wrongly; and progress. */
#include "scratch.h"

#include <hdf5.h>
#include <math.h>

#include "base/clock.h"
#include "data/source.h"
#include "data/token_file.h"
#include "io/h5.h"

/* ---- a token file with one thing wrong ------------------------------------------- */

enum { TOKENS = 1000 };

/* What is 0 here is as it should be. */
struct wrong {
    int64_t eod, length; /* of /tokens; nothing is written if this is set */
    int64_t documents[4];
    hsize_t chunk; /* of /tokens */
    int packed, external, virtual;
    int64_t token; /* the third one, in a list of int64 */
};

static void put_attributes(struct mds_h5 *f, const struct wrong *w)
{
    static const char *const words[] = {"a", "b", "<eod>"};

    mds_h5_put_string(f, "format", "mds-tokens");
    mds_h5_put_int(f, "format_version", 1);
    mds_h5_put_string(f, "tokenizer", "letters");
    mds_h5_put_int(f, "vocab_size", 3);
    mds_h5_put_int(f, "eod", w->eod ? w->eod : 2);
    assert_int_equal(mds_h5_put_strings(f, "/vocab", words, 3), MDS_OK);
}

static void put_documents(struct mds_h5 *f, const struct wrong *w)
{
    static const int64_t sound[4] = {0, 10, 500, TOKENS};
    struct mds_h5_dataset *set;

    assert_int_equal(mds_h5_dataset_create(f, "/documents", MDS_H5_I64, &set), MDS_OK);
    mds_h5_dataset_append(set, w->documents[3] ? w->documents : sound, 4);
    mds_h5_dataset_close(set);
}

static hid_t layout(const struct wrong *w, hid_t space)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    if (w->chunk)
        H5Pset_chunk(dcpl, 1, &w->chunk);
    if (w->packed)
        H5Pset_deflate(dcpl, 1);
    if (w->external)
        H5Pset_external(dcpl, "gone.raw", 0, H5F_UNLIMITED);
    if (w->virtual)
        H5Pset_virtual(dcpl, space, "gone.h5", "/tokens", space);
    return dcpl;
}

static void put_tokens(const char *path, const struct wrong *w)
{
    static int64_t tokens[TOKENS];
    hsize_t length = (hsize_t)(w->length ? w->length : TOKENS);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, &length, NULL), dcpl = layout(w, space);
    hid_t set = H5Dcreate2(file, "/tokens", w->token ? H5T_STD_I64LE : H5T_STD_U8LE,
                           space, H5P_DEFAULT, dcpl, H5P_DEFAULT);

    assert_true(set >= 0);
    tokens[2] = w->token;
    if (!w->length && !w->external && !w->virtual)
        assert_true(H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                             tokens) >= 0);
    H5Dclose(set);
    H5Pclose(dcpl);
    H5Sclose(space);
    assert_true(H5Fclose(file) >= 0);
}

static enum mds_rc open_wrong(struct wrong w, struct mds_source **s)
{
    struct mds_h5 *f;

    assert_int_equal(mds_h5_create("w.h5", "w.h5", &f), MDS_OK);
    put_attributes(f, &w);
    put_documents(f, &w);
    assert_int_equal(mds_h5_close(f), MDS_OK);
    put_tokens("w.h5", &w);
    return mds_source_open("w.h5", s);
}

static void test_a_sound_one(void **state)
{
    struct mds_source *s;
    int32_t ids[4];

    (void)state;
    assert_int_equal(open_wrong((struct wrong){.chunk = 100, .packed = 1}, &s), MDS_OK);
    assert_int_equal(s->documents, 3);
    assert_int_equal(mds_source_read(s, 0, 4, ids), MDS_OK);
    mds_source_close(s);
}

static void test_values_elsewhere(void **state)
{
    struct mds_source *s;

    (void)state;
    assert_fails(open_wrong((struct wrong){.virtual = 1}, &s), MDS_EUSER,
                 "w.h5: /tokens keeps its values in other files (a virtual data set)");
    assert_fails(open_wrong((struct wrong){.virtual = 1}, &s), MDS_EUSER,
                 "h5repack -l tokens:CHUNK=65536 w.h5 NEW.h5");
    assert_fails(open_wrong((struct wrong){.external = 1}, &s), MDS_EUSER,
                 "w.h5: /tokens keeps its values in other files (external storage)");
    assert_fails(open_wrong((struct wrong){.length = INT64_C(1) << 50}, &s), MDS_EUSER,
                 "w.h5: /tokens should have 1125899906842624 bytes, but the file has");
    assert_fails(
        open_wrong((struct wrong){.length = INT64_C(1) << 50, .chunk = 1 << 20}, &s),
        MDS_EUSER, "it was not written completely");
    assert_fails(
        open_wrong(
            (struct wrong){.length = INT64_C(1) << 50, .chunk = 1 << 20, .packed = 1},
            &s),
        MDS_EUSER, "should have 1125899906842624 bytes unpacked, but the file");
}

static void put_large(const char *path, hsize_t length)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, &length, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY);
    H5Dclose(H5Dcreate2(file, "/tokens", H5T_STD_U8LE, space, H5P_DEFAULT, dcpl,
                        H5P_DEFAULT));
    H5Pclose(dcpl);
    H5Sclose(space);
    assert_true(H5Fclose(file) >= 0);
}

/* They are larger than the file that names them. */
static void test_tokens_behind_a_link(void **state)
{
    static const struct wrong w = {.documents = {0, 10, 500, 1 << 20}};
    struct mds_source *s;
    int32_t ids[4];
    struct mds_h5 *f;
    hid_t file;

    (void)state;
    put_large("large.h5", 1 << 20);
    assert_int_equal(mds_h5_create("w.h5", "w.h5", &f), MDS_OK);
    put_attributes(f, &w);
    put_documents(f, &w);
    assert_int_equal(mds_h5_close(f), MDS_OK);
    file = H5Fopen("w.h5", H5F_ACC_RDWR, H5P_DEFAULT);
    H5Lcreate_external("large.h5", "/tokens", file, "/tokens", H5P_DEFAULT,
                       H5P_DEFAULT);
    assert_true(H5Fclose(file) >= 0);
    assert_int_equal(mds_source_open("w.h5", &s), MDS_OK);
    assert_int_equal(mds_source_read(s, (1 << 20) - 4, 4, ids), MDS_OK);
    mds_source_close(s);
    unlink("large.h5");
    assert_fails(mds_source_open("w.h5", &s), MDS_EUSER, "w.h5: cannot open /tokens");
}

static void test_absurd_chunks(void **state)
{
    struct mds_source *s;

    (void)state;
    assert_fails(open_wrong((struct wrong){.length = INT64_C(1) << 40,
                                           .chunk = (hsize_t)1 << 31,
                                           .packed = 1},
                            &s),
                 MDS_EUSER,
                 "w.h5: /tokens is in chunks of 2147483648 bytes, which takes too much "
                 "memory or time: h5repack -l tokens:CHUNK=65536");
    assert_fails(
        open_wrong((struct wrong){.length = 1 << 21, .chunk = 1, .packed = 1}, &s),
        MDS_EUSER, "w.h5: /tokens is in chunks of 1 bytes");
    assert_int_equal(open_wrong((struct wrong){.chunk = 1}, &s), MDS_OK); /* short */
    mds_source_close(s);
}

static void test_documents(void **state)
{
    struct mds_source *s;

    (void)state;
    assert_fails(
        open_wrong((struct wrong){.documents = {0, 500, 10, TOKENS}}, &s), MDS_EUSER,
        "w.h5: /documents is not increasing: entry 2 is 10, the one before it 500");
    assert_fails(open_wrong((struct wrong){.documents = {0, 10, 10, TOKENS}}, &s),
                 MDS_EUSER, "entry 2 is 10, the one before it 10");
    assert_fails(open_wrong((struct wrong){.documents = {0, 10, 5000, TOKENS}}, &s),
                 MDS_EUSER, "entry 3 is 1000, the one before it 5000");
    assert_fails(open_wrong((struct wrong){.documents = {0, -10, 500, TOKENS}}, &s),
                 MDS_EUSER, "entry 1 is -10");
    assert_fails(open_wrong((struct wrong){.documents = {7, 10, 500, TOKENS}}, &s),
                 MDS_EUSER, "w.h5: /documents begins with 7, not with 0");
    assert_fails(open_wrong((struct wrong){.documents = {0, 10, 500, 900}}, &s),
                 MDS_EUSER, "/documents ends at 900, but /tokens has 1000");
}

static void test_eod(void **state)
{
    struct mds_source *s;

    (void)state;
    assert_fails(open_wrong((struct wrong){.eod = 3}, &s), MDS_EUSER,
                 "w.h5: eod is 3, outside the vocabulary of 3 words");
    assert_fails(open_wrong((struct wrong){.eod = -1}, &s), MDS_EUSER, "eod is -1");
}

static void test_the_id_that_is_told_is_that_of_the_file(void **state)
{
    static const struct {
        int64_t id;
        const char *says;
    } cases[] = {{INT64_MIN, "token 2 has id -9223372036854775808, outside"},
                 {INT64_C(1) << 32, "token 2 has id 4294967296, outside"},
                 {-1, "token 2 has id -1, outside"}};
    struct mds_source *s;
    int32_t ids[4];

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_wrong((struct wrong){.token = cases[i].id}, &s), MDS_OK);
        assert_fails(mds_source_read(s, 0, 4, ids), MDS_EUSER, cases[i].says);
        mds_source_close(s);
    }
}

/* ---- progress -------------------------------------------------------------------- */

static double hour_s; /* that each look at the clock takes; 0: as it is */
double __real_mds_clock_s(void);
double __wrap_mds_clock_s(void);

double __wrap_mds_clock_s(void)
{
    static double now_s;

    now_s += hour_s;
    return hour_s > 0 ? now_s : __real_mds_clock_s();
}

/* What reading all of it logs. */
static void count_all(struct mds_source *s, char *log, size_t size)
{
    int64_t counts[3];
    int kept = dup(STDERR_FILENO);

    assert_non_null(freopen("log", "w", stderr));
    assert_int_equal(mds_source_count(s, 0, s->tokens, counts), MDS_OK);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    read_file("log", log, size);
}

static void test_a_long_count_says_how_far_it_is(void **state)
{
    struct mds_source *s;
    char log[256];

    (void)state;
    assert_int_equal(open_wrong((struct wrong){0}, &s), MDS_OK);
    count_all(s, log, sizeof log);
    assert_string_equal(log, "");
    hour_s = 3600;
    count_all(s, log, sizeof log);
    hour_s = 0;
    assert_string_equal(log, "mds: info: w.h5: 0 of 1.00 k tokens read\n");
    mds_source_close(s);
}

/* ---- kinds ---------------------------------------------------------------------- */

static const struct mds_kind two_kinds[] = {{"text", 1}, {"repeat", 0.1}};

/* More tokens than a buffer: number i is of kind i % 3 == 1, but for each <eod>. */
static void write_kinds(const char *path)
{
    enum { PART = 50000, PARTS = 3 };
    struct mds_vocabulary v = {MDS_TOKENIZER_IDS, 300, 299};
    static int32_t ids[PART];
    static unsigned char kinds[PART];
    struct mds_token_file *f;
    char sum[65] = {0};

    memset(sum, '0', 64);
    assert_int_equal(mds_token_file_create(path, &v, &f), MDS_OK);
    assert_int_equal(mds_token_file_set_kinds(f, two_kinds, 2), MDS_OK);
    for (int part = 0; part < PARTS; part++) {
        int64_t first = mds_token_file_tokens(f);

        for (int i = 0; i < PART; i++) {
            ids[i] = (int32_t)((first + i) % 299);
            kinds[i] = (first + i) % 3 == 1;
        }
        assert_int_equal(mds_token_file_add_kinds(f, ids, kinds, PART), MDS_OK);
        assert_int_equal(mds_token_file_add(f, &v.eod, 1), MDS_OK);
        assert_int_equal(mds_token_file_ended_document(f), MDS_OK);
    }
    kinds[7] = 2;
    assert_fails(mds_token_file_add_kinds(f, ids, kinds, 8), MDS_EBUG,
                 "a token of kind 2 of 2");
    assert_fails(mds_token_file_set_kinds(f, two_kinds, 2), MDS_EBUG,
                 "kinds of tokens twice");
    assert_int_equal(mds_token_file_input(f, "x", 1, sum), MDS_OK);
    assert_int_equal(mds_token_file_finish(f, "", ""), MDS_OK);
}

static void test_kinds_come_back(void **state)
{
    unsigned char kinds[1000];
    int64_t counts[MDS_KINDS_MAX] = {0};
    struct mds_source *s;

    (void)state;
    write_kinds("k.h5");
    assert_int_equal(mds_source_open("k.h5", &s), MDS_OK);
    assert_int_equal(s->kinds->n, 2);
    assert_string_equal(s->kinds->kind[1].name, "repeat");
    assert_true(s->kinds->kind[1].weight == 0.1);
    for (int64_t first = 0; first < s->tokens - 1000; first += 777) {
        assert_int_equal(mds_source_read_kinds(s, first, 1000, kinds), MDS_OK);
        for (int64_t i = first; i < first + 1000; i++)
            assert_int_equal(kinds[i - first], i % 50001 < 50000 && i % 3 == 1);
    }
    assert_int_equal(mds_source_count_kinds(s, counts), MDS_OK);
    assert_int_equal(counts[0] + counts[1], s->tokens);
    assert_int_equal(counts[1], 3 * 16667);
    assert_int_equal(truncate("k.h5", 200000), 0);
    assert_fails(mds_source_read_kinds(s, 0, 1, kinds), MDS_EIO,
                 "k.h5: changed while it was being read");
    mds_source_close(s);
}

static unsigned char *put(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

/* A pair of one document of n bytes. */
static void write_megatron(const unsigned char *bin, size_t n)
{
    unsigned char idx[62], *p = idx;

    memcpy(p, "MMIDIDX\0\0", 9);
    p = put(put(put(put(p + 9, 1, 8), 1, 1), 1, 8), 2, 8);
    p = put(put(put(put(p, n, 4), 0, 8), 0, 8), 1, 8);
    write_file("m.idx", idx, (size_t)(p - idx));
    write_file("m.bin", bin, n);
}

/* The lists of kinds beside a Megatron pair of TOKENS tokens of one document. */
static enum mds_rc open_kinds(int n, const char *name, double weight, int64_t length,
                              unsigned char last, struct mds_source **s)
{
    const char *names[] = {"text", name, "third"};
    double weights[] = {1, weight, 0};
    static unsigned char of_token[TOKENS + 1], bin[TOKENS];
    struct mds_h5_dataset *set;
    struct mds_h5 *f;

    write_megatron(bin, TOKENS);
    assert_int_equal(mds_h5_create("m.kinds.h5", "m.kinds.h5", &f), MDS_OK);
    assert_int_equal(mds_h5_put_strings(f, "/kinds/name", names, n), MDS_OK);
    assert_int_equal(mds_h5_put_reals(f, "/kinds/weight", weights, 2), MDS_OK);
    assert_int_equal(mds_h5_dataset_create(f, "/kinds/of_token", MDS_H5_U8, &set),
                     MDS_OK);
    of_token[TOKENS - 1] = last;
    assert_int_equal(mds_h5_dataset_append(set, of_token, length), MDS_OK);
    assert_int_equal(mds_h5_dataset_close(set), MDS_OK);
    assert_int_equal(mds_h5_close(f), MDS_OK);
    return mds_source_open("m", s);
}

static void test_kinds_beside_megatron(void **state)
{
    unsigned char kinds[2];
    struct mds_source *s;

    (void)state;
    assert_int_equal(open_kinds(2, "tag", 0, TOKENS, 1, &s), MDS_OK);
    assert_string_equal(s->kinds->kind[1].name, "tag");
    assert_int_equal(mds_source_read_kinds(s, TOKENS - 2, 2, kinds), MDS_OK);
    assert_true(kinds[0] == 0 && kinds[1] == 1);
    mds_source_close(s);
    assert_int_equal(open_kinds(2, "tag", 0, TOKENS, 2, &s), MDS_OK);
    assert_fails(mds_source_read_kinds(s, TOKENS - 2, 2, kinds), MDS_EUSER,
                 "token 999 is of kind 2, but kinds end with 1");
    mds_source_close(s);
    assert_fails(open_kinds(2, "tag", 0, TOKENS + 1, 1, &s), MDS_EUSER,
                 "m.kinds.h5: /kinds/of_token has 1001 values for 1000 tokens");
    assert_fails(open_kinds(2, "tag", -1, TOKENS, 1, &s), MDS_EUSER,
                 "m.kinds.h5: kind 'tag' has weight -1: must be 0 or more");
    assert_fails(open_kinds(2, "tag", (double)NAN, TOKENS, 1, &s), MDS_EUSER,
                 "kind 'tag' has weight nan");
    assert_fails(open_kinds(2, "text", 0, TOKENS, 1, &s), MDS_EUSER,
                 "two kinds are named 'text'");
    assert_fails(open_kinds(2, "a tag", 0, TOKENS, 1, &s), MDS_EUSER,
                 "kind 1 is named 'a tag': must be 1 to 31 printable");
    assert_fails(open_kinds(0, "tag", 0, TOKENS, 1, &s), MDS_EUSER,
                 "0 kinds of tokens: must be 1 to 64");
    assert_fails(open_kinds(3, "tag", 0, TOKENS, 1, &s), MDS_EUSER,
                 "/kinds/weight is not a list of 3 real numbers");
    assert_int_equal(unlink("m.kinds.h5"), 0);
    assert_int_equal(mds_source_open("m", &s), MDS_OK);
    assert_null(s->kinds);
    mds_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_one),
        cmocka_unit_test(test_values_elsewhere),
        cmocka_unit_test(test_tokens_behind_a_link),
        cmocka_unit_test(test_absurd_chunks),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_eod),
        cmocka_unit_test(test_the_id_that_is_told_is_that_of_the_file),
        cmocka_unit_test(test_a_long_count_says_how_far_it_is),
        cmocka_unit_test(test_kinds_come_back),
        cmocka_unit_test(test_kinds_beside_megatron),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
