/* SPDX-License-Identifier: BSD-3-Clause */
/* io: HDF5 files, maps, JSON lines, readers, outputs, SHA-256. */
#include "scratch.h"

#include <math.h>
#include <sys/stat.h>

#include "io/folder.h"
#include "io/h5.h"
#include "io/jsonl.h"
#include "io/map.h"
#include "io/output.h"
#include "io/reader.h"
#include "io/seal.h"
#include "io/sha256.h"
#include "io/xxh64.h"

/* ---- a checksum of a whole file -------------------------------------------------- */

static void test_seal(void **state)
{
    char text[64];

    (void)state;
    write_file("sealed", "some bytes\n", 11);
    assert_int_equal(mds_seal_check("sealed"), MDS_OK); /* has none */
    assert_int_equal(mds_seal_file("sealed"), MDS_OK);
    read_file("sealed", text, sizeof text);
    assert_string_equal(text, "some bytes\nmds xxh64 0ddc8dd3509b59b3\n");
    assert_int_equal(mds_seal_check("sealed"), MDS_OK);
    for (size_t i = 0; i < 11; i++) {
        char damaged[64];

        memcpy(damaged, text, sizeof text);
        damaged[i] ^= 4;
        write_file("sealed", damaged, strlen(text));
        assert_fails(mds_seal_check("sealed"), MDS_EUSER, "sealed: is damaged");
    }
    assert_fails(mds_seal_check("none"), MDS_EIO, "none");
    write_file("empty", "", 0);
    assert_int_equal(mds_seal_file("empty"), MDS_OK);
    assert_int_equal(mds_seal_check("empty"), MDS_OK);
}

/* ---- HDF5 ------------------------------------------------------------------------ */

static void make_h5(const char *path, int values)
{
    static const char *const words[] = {"AAA", "<eod>", "ü"};
    struct mds_h5_dataset *set;
    struct mds_h5 *f;

    assert_int_equal(mds_h5_create(path, path, &f), MDS_OK);
    assert_int_equal(mds_h5_put_int(f, "format", 1), MDS_OK);
    assert_int_equal(mds_h5_put_string(f, "tokenizer", "codon"), MDS_OK);
    assert_int_equal(mds_h5_put_strings(f, "/list/words", words, 3), MDS_OK);
    assert_int_equal(mds_h5_dataset_create(f, "/tokens", MDS_H5_U16, &set), MDS_OK);
    for (int i = 0; i < values; i++) {
        uint16_t pair[2] = {(uint16_t)(2 * i), (uint16_t)(2 * i + 1)};
        assert_int_equal(mds_h5_dataset_append(set, pair, 2), MDS_OK);
    }
    mds_h5_dataset_close(set);
    assert_int_equal(mds_h5_close(f), MDS_OK);
}

static void test_h5_keeps_what_it_was_given(void **state)
{
    struct mds_h5_dataset *set;
    struct mds_h5 *f;
    char *text, **words;
    int32_t narrow[4];
    int64_t n, wide[2];

    (void)state;
    make_h5("a.h5", 1000);
    assert_int_equal(mds_h5_open("a.h5", "x", &f), MDS_OK);
    assert_int_equal(mds_h5_get_int(f, "format", &n), MDS_OK);
    assert_int_equal(n, 1);
    assert_int_equal(mds_h5_get_string(f, "tokenizer", &text), MDS_OK);
    assert_string_equal(text, "codon");
    free(text);
    assert_int_equal(mds_h5_get_strings(f, "/list/words", &words, &n), MDS_OK);
    assert_int_equal(n, 3);
    assert_string_equal(words[2], "ü");
    mds_h5_free_strings(words, n);
    assert_int_equal(mds_h5_dataset_open(f, "/tokens", &set), MDS_OK);
    assert_int_equal(mds_h5_dataset_length(set), 2000);
    assert_int_equal(mds_h5_dataset_read_i32(set, 1996, 4, narrow), MDS_OK);
    assert_int_equal(narrow[0], 1996);
    assert_int_equal(narrow[3], 1999);
    assert_int_equal(mds_h5_dataset_read_i64(set, 0, 2, wide), MDS_OK);
    assert_int_equal(wide[1], 1);
    assert_fails(mds_h5_dataset_read_i32(set, 1997, 4, narrow), MDS_EBUG,
                 "4 values at 1997");
    mds_h5_dataset_close(set);
    assert_int_equal(mds_h5_close(f), MDS_OK);
}

static void test_h5_says_what_is_missing(void **state)
{
    struct mds_h5_dataset *set;
    struct mds_h5 *f;
    char *text, **words;
    int64_t n;

    (void)state;
    make_h5("m.h5", 1);
    assert_int_equal(mds_h5_open("m.h5", "x", &f), MDS_OK);
    assert_fails(mds_h5_get_int(f, "vocab", &n), MDS_EUSER,
                 "m.h5: has no attribute 'vocab'");
    assert_fails(mds_h5_get_int(f, "tokenizer", &n), MDS_EUSER, "is not one integer");
    assert_fails(mds_h5_get_string(f, "format", &text), MDS_EUSER, "is not one string");
    assert_fails(mds_h5_dataset_open(f, "/documents", &set), MDS_EUSER,
                 "no data set /documents");
    assert_fails(mds_h5_dataset_open(f, "/list/words", &set), MDS_EUSER,
                 "list of integers");
    assert_fails(mds_h5_get_strings(f, "/tokens", &words, &n), MDS_EUSER,
                 "list of strings");
    assert_fails(mds_h5_dataset_open(f, "/list", &set), MDS_EUSER,
                 "m.h5: cannot open /list");
    mds_h5_close(f);
}

static void test_h5_refuses_foreign_and_truncated(void **state)
{
    static char bytes[1 << 20];
    struct mds_h5 *f;
    size_t n;

    (void)state;
    assert_fails(mds_h5_open("gone.h5", "mds_data", &f), MDS_EUSER,
                 "gone.h5: No such file");
    write_file("text.h5", "hello", 5);
    assert_fails(mds_h5_open("text.h5", "mds_data", &f), MDS_EUSER,
                 "text.h5: not an HDF5 file (or truncated: ");
    assert_non_null(strstr(mds_fail_text(), "make it again with mds_data"));
    write_file("empty.h5", "", 0);
    assert_fails(mds_h5_open("empty.h5", "mds_data", &f), MDS_EUSER,
                 "not an HDF5 file");
    make_h5("whole.h5", 40000);
    n = read_file("whole.h5", bytes, sizeof bytes);
    assert_true(n > 2000);
    for (size_t keep = 8; keep < n; keep = keep * 3 / 2) {
        write_file("cut.h5", bytes, keep);
        assert_fails(mds_h5_open("cut.h5", "mds_data", &f), MDS_EUSER, "truncated: ");
    }
}

static void test_h5_unwritable(void **state)
{
    struct mds_h5 *f;

    (void)state;
    assert_fails(mds_h5_create("no/such/dir.h5", "shown.h5", &f), MDS_EIO,
                 "shown.h5: cannot create");
}

/* ---- maps ------------------------------------------------------------------------ */

static void test_map(void **state)
{
    struct mds_map m;

    (void)state;
    write_file("m.bin", "0123456789", 10);
    assert_int_equal(mds_map_open("m.bin", &m), MDS_OK);
    assert_int_equal(m.size, 10);
    assert_memory_equal(m.bytes, "0123456789", 10);
    mds_map_close(&m);
    mds_map_close(&m);
    assert_fails(mds_map_open("gone.bin", &m), MDS_EUSER, "gone.bin: No such file");
    assert_fails(mds_map_open(".", &m), MDS_EUSER, "not a regular file");
    write_file("empty.bin", "", 0);
    assert_int_equal(mds_map_open("empty.bin", &m), MDS_OK);
    assert_int_equal(m.size, 0);
    mds_map_close(&m);
}

/* ---- JSON lines ------------------------------------------------------------------ */

static void test_jsonl_is_cut(void **state)
{
    static const char before[] = "{\"first_iteration\":9}\n{\"iteration\":1,\"x\":2}\n"
                                 "{\"iteration\":2}\n{\"iteration\":3}\n"
                                 "{\"iteration\":10}\n{\"itera";
    static const char after[] = "{\"first_iteration\":9}\n{\"iteration\":1,\"x\":2}\n"
                                "{\"iteration\":2}\n";
    char text[256] = {0};
    FILE *f;

    (void)state;
    assert_int_equal(mds_jsonl_truncate("none.jsonl", "iteration", 2), MDS_OK);
    assert_int_equal(mds_jsonl_truncate("/dev/null", "iteration", 2), MDS_OK);
    write_file("c.jsonl", before, strlen(before));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mds_jsonl_truncate("c.jsonl", "iteration", 2), MDS_OK);
        f = fopen("c.jsonl", "r");
        assert_non_null(f);
        assert_int_equal(fread(text, 1, sizeof text - 1, f), strlen(after));
        assert_string_equal(text, after);
        fclose(f);
    }
    assert_int_equal(access("c.jsonl.partial", F_OK), -1);
}

static void test_jsonl_is_json(void **state)
{
    struct mds_jsonl *j;
    char got[512];

    (void)state;
    assert_int_equal(mds_jsonl_open("l.jsonl", 0, &j), MDS_OK);
    mds_jsonl_begin(j);
    mds_jsonl_add_string(j, "a\"b", "tab\t back\\ \xc3\xbc bad\xff cut\xc3");
    mds_jsonl_add_string(j, "none", NULL);
    assert_int_equal(mds_jsonl_end(j), MDS_OK);
    mds_jsonl_begin(j);
    mds_jsonl_add_int(j, "i", INT64_MIN);
    mds_jsonl_add_real(j, "third", 1.0 / 3);
    mds_jsonl_add_real(j, "tenth", 0.1);
    mds_jsonl_add_real(j, "nan", NAN);
    mds_jsonl_add_real(j, "inf", -INFINITY);
    mds_jsonl_add_reals(j, "some", (const double[]){0.5, NAN, 2}, 3);
    mds_jsonl_add_reals(j, "none", NULL, 0);
    assert_int_equal(mds_jsonl_end(j), MDS_OK);
    read_file("l.jsonl", got, sizeof got); /* there before close: lines are flushed */
    assert_string_equal(got, "{\"a\\\"b\":\"tab\\u0009 back\\\\ \xc3\xbc bad\\ufffd "
                             "cut\\ufffd\",\"none\":null}\n"
                             "{\"i\":-9223372036854775808,\"third\":0.3333333333333333,"
                             "\"tenth\":0.1,\"nan\":null,\"inf\":null,"
                             "\"some\":[0.5,null,2],\"none\":[]}\n");
    assert_int_equal(mds_jsonl_close(j), MDS_OK);
    assert_int_equal(mds_jsonl_open("l.jsonl", 1, &j), MDS_OK);
    mds_jsonl_begin(j);
    assert_int_equal(mds_jsonl_end(j), MDS_OK);
    mds_jsonl_close(j);
    read_file("l.jsonl", got, sizeof got);
    assert_non_null(strstr(got, "[]}\n{}\n"));
}

static void test_jsonl_reports_a_full_disk(void **state)
{
    struct mds_jsonl *j;

    (void)state;
    assert_fails(mds_jsonl_open("no/dir.jsonl", 0, &j), MDS_EIO,
                 "no/dir.jsonl: cannot be");
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(mds_jsonl_open("/dev/full", 0, &j), MDS_OK);
    mds_jsonl_begin(j);
    assert_fails(mds_jsonl_end(j), MDS_EIO, "/dev/full: cannot be written: No space");
    mds_jsonl_close(j);
}

/* ---- outputs --------------------------------------------------------------------- */

static void test_output_appears_when_complete(void **state)
{
    struct mds_output o;
    char got[16];

    (void)state;
    assert_int_equal(mds_output_open("o.txt", &o), MDS_OK);
    fputs("done", o.file);
    assert_int_not_equal(access("o.txt", F_OK), 0);
    assert_int_equal(mds_output_commit(&o), MDS_OK);
    read_file("o.txt", got, sizeof got);
    assert_string_equal(got, "done");
    assert_int_not_equal(access("o.txt.partial", F_OK), 0);

    assert_int_equal(mds_output_open("o.txt", &o), MDS_OK);
    fputs("worse", o.file);
    mds_output_abandon(&o);
    mds_output_abandon(&o);
    read_file("o.txt", got, sizeof got);
    assert_string_equal(got, "done");
    assert_int_not_equal(access("o.txt.partial", F_OK), 0);
}

/* Two of one process stand for two processes. */
static void test_outputs_do_not_mix(void **state)
{
    struct mds_output first, last;
    char got[16];

    (void)state;
    assert_int_equal(mds_output_open("o.txt", &first), MDS_OK);
    fputs("first, and longer", first.file);
    assert_int_equal(mds_output_open("o.txt", &last), MDS_OK);
    fputs("last", last.file);
    assert_fails(mds_output_commit(&first), MDS_EIO,
                 "o.txt: another process has started");
    assert_int_equal(mds_output_commit(&last), MDS_OK);
    read_file("o.txt", got, sizeof got);
    assert_string_equal(got, "last");
    assert_int_equal(mds_output_open("o.txt", &first), MDS_OK);
    assert_int_equal(mds_output_open("o.txt", &last), MDS_OK);
    mds_output_abandon(&first); /* not the other's */
    assert_int_equal(mds_output_commit(&last), MDS_OK);
}

static void test_output_whose_folder_is_gone(void **state)
{
    struct mds_output o;

    (void)state;
    assert_int_equal(mkdir("gone", 0777), 0);
    assert_int_equal(mds_output_open("gone/o", &o), MDS_OK);
    assert_int_equal(rename("gone", "elsewhere"), 0);
    write_file("gone", "", 0);
    assert_fails(mds_output_commit(&o), MDS_EIO,
                 "gone/o: cannot be written: Not a directory");
}

static void test_output_refuses_early(void **state)
{
    struct mds_output o;

    (void)state;
    assert_fails(mds_output_open("no/such/o", &o), MDS_EIO,
                 "no/such/o: cannot be written: No such file or directory; make its");
    assert_fails(mds_output_open(".", &o), MDS_EIO, ".: cannot be written: a folder");
    assert_fails(mds_output_open("/dev/null", &o), MDS_EIO, "not a regular file");
}

static void test_folders_are_made(void **state)
{
    (void)state;
    assert_int_equal(mds_folder_ensure("a/b//c/"), MDS_OK);
    assert_int_equal(mds_folder_ensure("a/b/c"), MDS_OK);
    assert_int_equal(access("a/b/c/", F_OK), 0);
    write_file("a/f", "", 0);
    assert_fails(mds_folder_ensure("a/f"), MDS_EIO, "a/f: a file; it must be a folder");
    assert_fails(mds_folder_ensure("a/f/g"), MDS_EIO,
                 "a/f/g: cannot create this folder: Not a directory");
}

static void test_path_join(void **state)
{
    static char longest[MDS_PATH_SIZE - 2], path[MDS_PATH_SIZE];

    (void)state;
    memset(longest, 'd', sizeof longest - 1);
    assert_int_equal(mds_path_join(longest, "f", path), MDS_OK);
    assert_int_equal(strlen(path), MDS_PATH_SIZE - 1);
    assert_fails(mds_path_join(longest, "ff", path), MDS_EUSER,
                 "the path is longer than 4095 bytes: dd");
}

/* ---- reader ---------------------------------------------------------------------- */

/* Everything the reader gives, or its failure. */
static enum mds_rc slurp(struct mds_reader *r, char *buf, size_t size, size_t *len)
{
    const unsigned char *block;
    enum mds_rc rc;
    size_t n;

    *len = 0;
    while (!(rc = mds_reader_next(r, &block, &n)) && n > 0) {
        assert_true(*len + n < size);
        memcpy(buf + *len, block, n);
        *len += n;
    }
    buf[*len] = '\0';
    return rc;
}

/* gzip -9 of "ACGT\n", made with gzip 1.12 */
static const unsigned char acgt_gz[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x73, 0x74, 0x76,
    0x0f, 0xe1, 0x02, 0x00, 0x3c, 0x9b, 0xc7, 0x61, 0x05, 0x00, 0x00, 0x00};

static void test_reader_plain(void **state)
{
    struct mds_reader *r;
    char got[64], hex[65];
    size_t n;

    (void)state;
    write_file("p.txt", "abc", 3);
    assert_int_equal(mds_reader_open("p.txt", &r), MDS_OK);
    assert_int_equal(slurp(r, got, sizeof got, &n), MDS_OK);
    assert_string_equal(got, "abc");
    mds_reader_sha256(r, hex);
    assert_string_equal(
        hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(mds_reader_raw_bytes(r), 3);
    mds_reader_close(r);
    assert_int_equal(mds_reader_open(".", &r), MDS_OK);
    assert_fails(slurp(r, got, sizeof got, &n), MDS_EUSER, "Is a directory");
    mds_reader_close(r);
    assert_fails(mds_reader_open("gone.fa", &r), MDS_EUSER, "gone.fa: No such file");
}

static void test_reader_other_compressions(void **state)
{
    struct mds_reader *r;
    char got[64];
    size_t n;

    (void)state;
    assert_int_equal(mds_reader_memory("\xfd"
                                       "7zXZ\0\0\0",
                                       8, "a.fa.xz", &r),
                     MDS_OK);
    assert_fails(slurp(r, got, sizeof got, &n), MDS_EUSER,
                 "a.fa.xz: compressed with xz");
    mds_reader_close(r);
    assert_int_equal(mds_reader_memory("BZh91AY", 7, "a.bz2", &r), MDS_OK);
    assert_fails(slurp(r, got, sizeof got, &n), MDS_EUSER, "with bzip2");
    mds_reader_close(r);
}

/* Two members, zeros between and after, fed from memory cut at every length. */
static void test_reader_gzip(void **state)
{
    unsigned char two[2 * sizeof acgt_gz + 7] = {0};
    struct mds_reader *r;
    char got[64];
    size_t n;

    (void)state;
    memcpy(two, acgt_gz, sizeof acgt_gz);
    memcpy(two + sizeof acgt_gz + 3, acgt_gz, sizeof acgt_gz);
    for (size_t keep = 2; keep <= sizeof two; keep++) {
        int whole = (keep >= sizeof acgt_gz && keep <= sizeof acgt_gz + 3) ||
                    keep >= 2 * sizeof acgt_gz + 3;

        assert_int_equal(mds_reader_memory(two, keep, "two.gz", &r), MDS_OK);
        if (whole)
            assert_int_equal(slurp(r, got, sizeof got, &n), MDS_OK);
        else
            assert_fails(slurp(r, got, sizeof got, &n), MDS_EUSER,
                         "two.gz: the gzip data ends too early");
        mds_reader_close(r);
    }
    assert_string_equal(got, "ACGT\nACGT\n");
}

/* More text than a block from less input than a block: nothing of it may be lost when
 * the input is used up before the output. */
static void test_reader_long_gzip(void **state)
{
    const unsigned char *block;
    struct mds_reader *r;
    size_t total = 0, n;

    (void)state;
    if (system("head -c 3000001 /dev/zero | gzip > zeros.gz") != 0)
        skip();
    assert_int_equal(mds_reader_open("zeros.gz", &r), MDS_OK);
    do {
        assert_int_equal(mds_reader_next(r, &block, &n), MDS_OK);
        total += n;
    } while (n > 0);
    assert_int_equal(total, 3000001);
    mds_reader_close(r);
}

int __real_inflate(void *z, int flush);
int __wrap_inflate(void *z, int flush);

static int no_memory;

int __wrap_inflate(void *z, int flush)
{
    return no_memory ? -4 /* Z_MEM_ERROR */ : __real_inflate(z, flush);
}

/* zlib takes the memory of its window when it comes to need one. */
static void test_reader_gzip_without_memory(void **state)
{
    struct mds_reader *r;
    char got[64];
    size_t n;

    (void)state;
    assert_int_equal(mds_reader_memory(acgt_gz, sizeof acgt_gz, "a.gz", &r), MDS_OK);
    no_memory = 1;
    assert_fails(slurp(r, got, sizeof got, &n), MDS_EMEM, "a.gz: zlib has no memory");
    no_memory = 0;
    mds_reader_close(r);
}

static void test_reader_damaged_gzip(void **state)
{
    unsigned char bad[sizeof acgt_gz + 1];
    struct mds_reader *r;
    char got[64];
    size_t n;

    (void)state;
    memcpy(bad, acgt_gz, sizeof acgt_gz);
    bad[17] ^= 1; /* the checksum */
    assert_int_equal(mds_reader_memory(bad, sizeof acgt_gz, "bad.gz", &r), MDS_OK);
    assert_fails(slurp(r, got, sizeof got, &n), MDS_EUSER, "bad.gz: damaged gzip data");
    mds_reader_close(r);
    bad[17] ^= 1;
    bad[sizeof acgt_gz] = 'x';
    assert_int_equal(mds_reader_memory(bad, sizeof bad, "tail.gz", &r), MDS_OK);
    assert_fails(slurp(r, got, sizeof got, &n), MDS_EUSER, "data that is not gzip");
    mds_reader_close(r);
}

/* From the algorithm's own test vectors: shorter than a stripe, and longer. */
static void test_xxh64(void **state)
{
    static const struct {
        const char *text;
        uint64_t sum;
    } known[] = {{"", 0xef46db3751d8e999},
                 {"a", 0xd24ec4f1a98c6e5b},
                 {"abc", 0x44bc2cf5ad770999},
                 {"Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(mds_xxh64(known[i].text, strlen(known[i].text)), known[i].sum);
}

static void init_sha256(struct mds_sha256 *s, int portable)
{
    mds_sha256_init(s);
    s->has_instructions &= !portable;
}

/* FIPS 180-4 examples: NIST, "SHA-256 example values"; one million 'a' */
static void check_sha256(int portable)
{
    struct mds_sha256 s;
    char hex[65];

    init_sha256(&s, portable);
    mds_sha256_hex(&s, hex);
    assert_string_equal(
        hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    init_sha256(&s, portable);
    for (int i = 0; i < 1000000; i += 125) {
        char piece[125];
        memset(piece, 'a', sizeof piece);
        mds_sha256_add(&s, piece, sizeof piece);
    }
    mds_sha256_hex(&s, hex);
    assert_string_equal(
        hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    init_sha256(&s, portable);
    mds_sha256_add(&s, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56);
    mds_sha256_hex(&s, hex);
    assert_string_equal(
        hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* By the CPU's own instructions, if it has them, and without. */
static void test_sha256(void **state)
{
    (void)state;
    for (int portable = 0; portable < 2; portable++)
        check_sha256(portable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seal),
        cmocka_unit_test(test_h5_keeps_what_it_was_given),
        cmocka_unit_test(test_h5_says_what_is_missing),
        cmocka_unit_test(test_h5_refuses_foreign_and_truncated),
        cmocka_unit_test(test_h5_unwritable),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_jsonl_is_cut),
        cmocka_unit_test(test_jsonl_is_json),
        cmocka_unit_test(test_jsonl_reports_a_full_disk),
        cmocka_unit_test(test_output_appears_when_complete),
        cmocka_unit_test(test_outputs_do_not_mix),
        cmocka_unit_test(test_output_whose_folder_is_gone),
        cmocka_unit_test(test_output_refuses_early),
        cmocka_unit_test(test_folders_are_made),
        cmocka_unit_test(test_path_join),
        cmocka_unit_test(test_reader_plain),
        cmocka_unit_test(test_reader_other_compressions),
        cmocka_unit_test(test_reader_gzip),
        cmocka_unit_test(test_reader_long_gzip),
        cmocka_unit_test(test_reader_gzip_without_memory),
        cmocka_unit_test(test_reader_damaged_gzip),
        cmocka_unit_test(test_xxh64),
        cmocka_unit_test(test_sha256),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
