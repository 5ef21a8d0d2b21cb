/* SPDX-License-Identifier: BSD-3-Clause */
/* ckpt: safetensors written, read back, and refused when damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/status.h"
#include "ckpt/safetensors.h"

static char dir[] = "/tmp/mds-ckpt-XXXXXX";
static char path[64];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/t.safetensors", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir); /* fails if a test left a file behind */
}

static int partial_exists(void)
{
    char partial[80];

    snprintf(partial, sizeof partial, "%s.partial", path);
    return access(partial, F_OK) == 0;
}

static struct mds_st_writer *begin(void)
{
    static const int64_t matrix[] = {2, 3}, none[] = {0, 4}, three[] = {3};
    struct mds_st_writer *w;

    assert_int_equal(mds_st_writer_create(path, &w), MDS_OK);
    assert_int_equal(mds_st_writer_metadata(w, "format", "mds \"1\"\n\\"), MDS_OK);
    assert_int_equal(mds_st_writer_metadata(w, "iteration", "100"), MDS_OK);
    assert_int_equal(mds_st_writer_declare(w, "count", MDS_ST_I64, 0, NULL), MDS_OK);
    assert_int_equal(mds_st_writer_declare(w, "a.weight", MDS_ST_F32, 2, matrix),
                     MDS_OK);
    assert_int_equal(mds_st_writer_declare(w, "empty", MDS_ST_F32, 2, none), MDS_OK);
    assert_int_equal(mds_st_writer_declare(w, "tokens", MDS_ST_I32, 1, three), MDS_OK);
    return w;
}

static const int64_t count = -7;
static const float weight[6] = {1, 2, 3, 4, 5, 6.5f};
static const int32_t tokens[3] = {-1, 0, 70};

/* As begin() gives it: quoted, and before the tensors. */
static const char metadata[] = "{\"__metadata__\":{\"format\":"
                               "\"mds \\\"1\\\"\\u000a\\\\\",\"iteration\":\"100\"},";

static void test_round_trip(void **state)
{
    struct mds_st_writer *w = begin();
    struct mds_safetensors *f;
    const struct mds_st_tensor *t;

    (void)state;
    assert_int_equal(mds_st_writer_write(w, &count, sizeof count), MDS_OK);
    assert_int_equal(mds_st_writer_write(w, weight, 8), MDS_OK); /* in pieces */
    assert_int_equal(mds_st_writer_write(w, weight + 2, 16), MDS_OK);
    assert_int_equal(mds_st_writer_write(w, tokens, sizeof tokens), MDS_OK);
    assert_int_not_equal(access(path, F_OK), 0); /* not before finish */
    assert_int_equal(mds_st_writer_finish(w), MDS_OK);
    assert_false(partial_exists());

    assert_int_equal(mds_safetensors_open(path, &f), MDS_OK);
    assert_int_equal(f->count, 4);
    assert_memory_equal(f->map.bytes + 8, metadata, sizeof metadata - 1);
    t = mds_safetensors_find(f, "a.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, MDS_ST_F32);
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[0] * 10 + t->shape[1], 23);
    assert_int_equal(t->bytes, sizeof weight);
    assert_memory_equal(t->data, weight, sizeof weight);
    assert_memory_equal(mds_safetensors_find(f, "count")->data, &count, sizeof count);
    assert_int_equal(mds_safetensors_find(f, "count")->ndim, 0);
    assert_memory_equal(mds_safetensors_find(f, "tokens")->data, tokens, sizeof tokens);
    assert_int_equal(mds_safetensors_find(f, "empty")->bytes, 0);
    assert_null(mds_safetensors_find(f, "a"));
    mds_safetensors_close(f);
}

static void test_no_tensors(void **state)
{
    struct mds_st_writer *w;
    struct mds_safetensors *f;

    (void)state;
    assert_int_equal(mds_st_writer_create(path, &w), MDS_OK);
    assert_int_equal(mds_st_writer_finish(w), MDS_OK);
    assert_int_equal(mds_safetensors_open(path, &f), MDS_OK);
    assert_int_equal(f->count, 0);
    mds_safetensors_close(f);
}

static void test_writer_contract(void **state)
{
    struct mds_st_writer *w = begin();
    const int64_t one[] = {1};

    (void)state;
    unlink(path);
    assert_int_equal(mds_st_writer_write(w, &count, sizeof count), MDS_OK);
    assert_int_equal(mds_st_writer_declare(w, "late", MDS_ST_F32, 1, one), MDS_EBUG);
    assert_int_equal(mds_st_writer_metadata(w, "late", "x"), MDS_EBUG);
    assert_int_equal(mds_st_writer_write(w, weight, 1000), MDS_EBUG);
    assert_int_equal(mds_st_writer_finish(w), MDS_EBUG); /* 8 of 44 bytes */
    assert_non_null(strstr(mds_fail_text(), "8 of 44 bytes"));
    assert_false(partial_exists());
    assert_int_not_equal(access(path, F_OK), 0);

    w = begin(); /* ends at byte 44: no place for 8-byte elements */
    assert_int_equal(mds_st_writer_declare(w, "odd", MDS_ST_F64, 1, one), MDS_EBUG);
    mds_st_writer_abort(w);
    assert_false(partial_exists());
    assert_int_not_equal(mds_st_writer_create("/nowhere/x.safetensors", &w), MDS_OK);
    assert_non_null(strstr(mds_fail_text(), "/nowhere/x.safetensors"));
}

/* A file with this header (its true size in front, unless told) and n bytes of data. */
static void put_file(const char *header, int64_t claimed, size_t n)
{
    uint64_t size = claimed >= 0 ? (uint64_t)claimed : strlen(header);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    for (int i = 0; i < 8; i++)
        fputc((int)(size >> 8 * i & 255), f);
    fputs(header, f);
    while (n--)
        fputc(0, f);
    fclose(f);
}

#define TENSOR(name, type, shape, offsets)                                             \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape                           \
    "],\"data_offsets\":[" offsets "]}"

static const struct {
    const char *header;
    int64_t claimed;
    size_t data;
    const char *complaint;
} damaged[] = {
    {"{}", 3, 0, "not a safetensors file"},
    {"{}", 1, 0, "not a safetensors file"},
    {"{}", INT64_MAX, 0, "not a safetensors file"},
    {"[]", -1, 0, "not a safetensors file"},
    {"{}", -1, 5, "5 bytes after the last tensor"},
    {"{\"a\":", -1, 0, "t.safetensors:"},
    {"{\"a\":3}", -1, 0, "a: dtype '' is not"},
    {"{" TENSOR("a", "F31", "2", "0,8") "}", -1, 8, "a: dtype 'F31' is not"},
    {"{" TENSOR("a", "F32", "-2", "0,8") "}", -1, 8, "a: shape is not"},
    {"{" TENSOR("a", "F32", "2.5", "0,8") "}", -1, 8, "a: shape is not"},
    {"{" TENSOR("a", "F32", "[2]", "0,8") "}", -1, 8, "a: shape is not"},
    {"{" TENSOR("a", "F32", "1,1,1,1,1,1,1,1,2", "0,8") "}", -1, 8, "a: shape is not"},
    {"{" TENSOR("a", "F32", "4294967296,4294967296", "0,8") "}", -1, 8,
     "a: shape is not"},
    {"{" TENSOR("a", "F32", "99999999999999999999", "0,8") "}", -1, 8,
     "a: shape is not"},
    {"{" TENSOR("a", "F32", "2", "0") "}", -1, 8, "a: data_offsets is not"},
    {"{" TENSOR("a", "F32", "2", "0,8,9") "}", -1, 8, "a: data_offsets is not"},
    {"{" TENSOR("a", "F32", "2", "0,x") "}", -1, 8, "a: data_offsets is not"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", -1, 8, "a: data_offsets is not"},
    {"{" TENSOR("a", "F32", "2", "0,8") "}", -1, 7, "is the file cut short?"},
    {"{" TENSOR("a", "F32", "2", "8,0") "}", -1, 8, "lie outside"},
    {"{" TENSOR("a", "F32", "2", "0,4") "}", -1, 4,
     "4 bytes stored, its shape needs 8"},
    {"{" TENSOR("a", "F32", "2", "0,8") "," TENSOR("b", "I32", "1", "4,8") "}", -1, 8,
     "b overlaps the one before it"},
    {"{" TENSOR("b", "F32", "2", "12,20") "," TENSOR("a", "F32", "2", "0,8") "}", -1,
     20, "b leaves a gap"},
    {"{" TENSOR("a", "U8", "1", "0,1") "," TENSOR("b", "F32", "1", "1,5") "}", -1, 5,
     "b begins at byte 1"},
    {"{" TENSOR("a", "U8", "1", "0,1") "," TENSOR("a", "U8", "1", "1,2") "}", -1, 2,
     "a"},
    {"{\"__metadata__\":{\"k\":[1]}}", -1, 0, "__metadata__ is not a map of strings"},
    {"{\"__metadata__\":[1]}", -1, 0, "__metadata__ is not a map of strings"},
};

static void test_damaged_headers(void **state)
{
    struct mds_safetensors *f = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        put_file(damaged[i].header, damaged[i].claimed, damaged[i].data);
        if (mds_safetensors_open(path, &f) == MDS_OK)
            fail_msg("accepted: %s", damaged[i].header);
        if (!strstr(mds_fail_text(), damaged[i].complaint) ||
            !strstr(mds_fail_text(), path) || strchr(mds_fail_text(), '\n'))
            fail_msg("%s: said '%s'", damaged[i].header, mds_fail_text());
        assert_null(f);
    }
}

/* Every cut of a good file is refused, none is believed or crashes. */
static void test_truncated(void **state)
{
    struct mds_safetensors *f;
    struct mds_st_writer *w = begin();
    long size;
    FILE *file;

    (void)state;
    assert_int_equal(mds_st_writer_write(w, &count, sizeof count), MDS_OK);
    assert_int_equal(mds_st_writer_write(w, weight, sizeof weight), MDS_OK);
    assert_int_equal(mds_st_writer_write(w, tokens, sizeof tokens), MDS_OK);
    assert_int_equal(mds_st_writer_finish(w), MDS_OK);
    file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    fclose(file);
    while (size-- > 0) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(mds_safetensors_open(path, &f), MDS_EUSER);
    }
    unlink(path);
    assert_int_not_equal(mds_safetensors_open(path, &f), MDS_OK);
    assert_non_null(strstr(mds_fail_text(), path));
}

/* Any order in the header, blanks, foreign dtypes of Python's writer. */
static void test_foreign_but_fine(void **state)
{
    struct mds_safetensors *f;

    (void)state;
    put_file(
        "{ \"b\" : {\"shape\": [1, 2], \"dtype\": \"BF16\", \"data_offsets\": [4, 8]}"
        ",\"__metadata__\":{\"format\":\"pt\"}," TENSOR(
            "a", "I32", "1", "0,4") "," TENSOR("mask", "BOOL", "1,1,2,2",
                                               "8,12") "}   ",
        -1, 12);
    assert_int_equal(mds_safetensors_open(path, &f), MDS_OK);
    assert_int_equal(f->count, 3);
    assert_string_equal(f->tensors[0].name, "a"); /* by place */
    assert_int_equal(f->tensors[1].dtype, MDS_ST_BF16);
    mds_safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_writer_contract), cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_truncated),       cmocka_unit_test(test_foreign_but_fine),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
