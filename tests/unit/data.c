/* SPDX-License-Identifier: BSD-3-Clause */
/* data: FASTA, tokenizers, token files, Megatron files. */
#include "scratch.h"

#include "data/fasta.h"
#include "data/make.h"
#include "data/megatron_index.h"
#include "data/permute.h"
#include "data/source.h"
#include "data/token_file.h"
#include "io/h5.h"
#include "io/reader.h"

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

/* ---- FASTA ----------------------------------------------------------------------- */

/* All records of a text as "name:ACGTN..;", read with room for `room` bases a time. */
static enum mds_rc read_fasta(const char *text, size_t room, char *got)
{
    struct mds_reader *r;
    struct mds_fasta *f;
    unsigned char bases[64];
    enum mds_rc rc;
    size_t n;
    int found;

    assert_true(room <= sizeof bases);
    assert_int_equal(mds_reader_memory(text, strlen(text), "x.fa", &r), MDS_OK);
    assert_int_equal(mds_fasta_create(r, &f), MDS_OK);
    *got = '\0';
    while (!(rc = mds_fasta_next(f, &found)) && found) {
        got += sprintf(got, "%s:", mds_fasta_name(f));
        while (!(rc = mds_fasta_read(f, bases, room, &n)) && n > 0)
            for (size_t i = 0; i < n; i++)
                got += sprintf(got, "%c", "ACGTN   acgtn"[bases[i]]);
        if (rc)
            break;
        got += sprintf(got, ";");
    }
    mds_fasta_destroy(f);
    mds_reader_close(r);
    return rc;
}

static void test_fasta_reads_all_shapes(void **state)
{
    static const char text[] =
        "\n;an old comment\r\n>one first record\r\nACGT\r\nac gt\n"
        "\n>two\n;inside\nURYSWKMBDHVNn-.u\n>empty\n>\nA";
    static const size_t rooms[] = {1, 2, 3, 7, 64};
    char got[256];

    (void)state;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        assert_int_equal(read_fasta(text, rooms[i], got), MDS_OK);
        assert_string_equal(got, "one:ACGTacgt;two:TNNNNNNNNNNNnNNt;empty:;:A;");
    }
}

static void test_fasta_of_other_systems(void **state)
{
    char got[256];

    (void)state;
    for (size_t room = 1; room < 4; room++) {
        assert_int_equal(read_fasta("\r>a b\rAC\rGT\r;c\r>d\rA", room, got), MDS_OK);
        assert_string_equal(got, "a:ACGT;d:A;");
        assert_int_equal(read_fasta("\xef\xbb\xbf>a\r\nAC\r\n>b\r\n", room, got),
                         MDS_OK);
        assert_string_equal(got, "a:AC;b:;");
    }
    assert_fails(read_fasta(">r\r\nAC\r\nEF\r\n", 64, got), MDS_EUSER, "x.fa:3: ");
}

static void test_fasta_says_what_is_wrong(void **state)
{
    char got[256];

    (void)state;
    assert_fails(read_fasta(">p1 kinase\nACGT\nMKV\nLLA\n", 64, got), MDS_EUSER,
                 "x.fa:4: record 'p1': 'L' is a protein letter: give the genome");
    for (const char *p = "EFILPQXZJO*efil"; *p; p++) {
        char text[] = ">r\nACG?\n";
        text[6] = *p;
        assert_fails(read_fasta(text, 2, got), MDS_EUSER, "x.fa:2: record 'r'");
    }
    assert_fails(read_fasta(">r\nAC>GT\n", 64, got), MDS_EUSER,
                 "byte 0x3e is no nucleo");
    assert_fails(read_fasta(">r\nAC\001\n", 64, got), MDS_EUSER, "byte 0x01");
    assert_fails(read_fasta("ACGT\n", 64, got), MDS_EUSER,
                 "x.fa:1: no '>' line before");
    assert_fails(read_fasta("\n@r\nACGT\n+\n", 64, got), MDS_EUSER,
                 "x.fa:2: no '>' line");
    assert_non_null(strstr(mds_fail_text(), "FASTQ"));
}

/* ---- make and HDF5 sources ------------------------------------------------------- */

static enum mds_rc make(enum mds_tokenizer t, unsigned frames, unsigned strands,
                        const char *input, const char *output)
{
    struct mds_make_stats stats;
    struct mds_make m = {.overwrite = 1,
                         .vocabulary = mds_tokenizer_vocabulary(t),
                         .reading = {frames, strands},
                         .output = output,
                         .inputs = &input,
                         .n_inputs = 1,
                         .lowercase_weight = -1,
                         .command = "test"};

    return mds_make_tokens(&m, &stats);
}

/* All words of a source, separated by blanks. */
static void read_words(const char *path, char *got)
{
    struct mds_source *s;
    int32_t ids[256];

    assert_int_equal(mds_source_open(path, &s), MDS_OK);
    assert_true(s->tokens <= 256);
    assert_int_equal(mds_source_read(s, 0, s->tokens, ids), MDS_OK);
    for (int64_t i = 0; i < s->tokens; i++)
        got += sprintf(got, "%s%s", i > 0 ? " " : "", s->words[ids[i]]);
    mds_source_close(s);
}

static void test_make_frames_and_strands(void **state)
{
    char got[512];

    (void)state;
    write_text("r.fa", ">a\nAACCGNTT\n>short\nAC\n>b\nTTTGGG\n");
    assert_int_equal(make(MDS_TOKENIZER_CODON, 1, 1, "r.fa", "r.h5"), MDS_OK);
    read_words("r.h5", got);
    assert_string_equal(got, "AAC <unk> <eod> TTT GGG <eod>");
    assert_int_equal(make(MDS_TOKENIZER_CODON, 7, 3, "r.fa", "r.h5"), MDS_OK);
    read_words("r.h5", got);
    /* forward 0 1 2, then the reverse complement AANCGGTT in frames 0 1 2 */
    assert_string_equal(got, "AAC <unk> <eod> ACC <unk> <eod> CCG <unk> <eod> "
                             "<unk> CGG <eod> <unk> GGT <eod> <unk> GTT <eod> "
                             "TTT GGG <eod> TTG <eod> TGG <eod> "
                             "CCC AAA <eod> CCA <eod> CAA <eod>");
    assert_int_equal(make(MDS_TOKENIZER_NUCLEOTIDE, 1, 2, "r.fa", "r.h5"), MDS_OK);
    read_words("r.h5", got);
    assert_string_equal(got, "A A N C G G T T <eod> G T <eod> C C C A A A <eod>");
    assert_int_not_equal(access("r.h5.partial", F_OK), 0);
    assert_int_not_equal(access("r.h5.bases", F_OK), 0);
}

static void test_make_of_other_tokens(void **state)
{
    char got[512];

    (void)state;
    write_text("r.fa", ">a\nAACCGttnA\n>b\nGATTACAGATTACA\n");
    assert_int_equal(make(MDS_TOKENIZER_DNA, 1, 3, "r.fa", "r.h5"), MDS_OK);
    read_words("r.h5", got);
    assert_string_equal(got, "A A C C G T T N A <eod> T N A A C G G T T <eod> "
                             "G A T T A C A G A T T A C A <eod> "
                             "T G T A A T C T G T A A T C <eod>");
    assert_int_equal(make(MDS_TOKENIZER_6MER, 1, 3, "r.fa", "r.h5"), MDS_OK);
    read_words("r.h5", got);
    assert_string_equal(got, "AACCGT <eod> <unk> <eod> GATTAC AGATTA <eod> "
                             "TGTAAT CTGTAA <eod>");
    assert_int_equal(make(MDS_TOKENIZER_6MER_OVERLAPPING, 1, 1, "r.fa", "r.h5"),
                     MDS_OK);
    read_words("r.h5", got);
    assert_string_equal(got,
                        "AACCGT ACCGTT <unk> <unk> <eod> GATTAC ATTACA TTACAG TACAGA "
                        "ACAGAT CAGATT AGATTA GATTAC ATTACA <eod>");
}

/* The tokens of a file, and the name of each one's kind. */
static void check_kinds(const char *path, const char *const *want, int n)
{
    unsigned char kinds[64];
    struct mds_source *s;
    int32_t ids[64];

    assert_int_equal(mds_source_open(path, &s), MDS_OK);
    assert_int_equal(s->tokens, n);
    assert_non_null(s->kinds);
    assert_int_equal(mds_source_read(s, 0, n, ids), MDS_OK);
    assert_int_equal(mds_source_read_kinds(s, 0, n, kinds), MDS_OK);
    for (int i = 0; i < n; i++) {
        char got[64];

        snprintf(got, sizeof got, "%s %s %g", s->words[ids[i]],
                 s->kinds->kind[kinds[i]].name, s->kinds->kind[kinds[i]].weight);
        assert_string_equal(got, want[i]);
    }
    mds_source_close(s);
}

static void test_make_kinds(void **state)
{
    static const char *const repeats[] = {
        "AAC ecoli 1", "<unk> ambiguous 0", "GTA ecoli 1",        "<eod> ecoli 1",
        "AAC ecoli 1", "<eod> ecoli 1",     "TTT ecoli:repeat 0", "<eod> ecoli 1",
        "GTT ecoli 1", "<eod> ecoli 1"};
    struct mds_make_stats stats;
    const char *input = "k.fa";
    struct mds_make m = {.overwrite = 1,
                         .reading = {1, 1},
                         .output = "k.h5",
                         .inputs = &input,
                         .n_inputs = 1,
                         .lowercase_weight = -1,
                         .command = "test"};
    struct mds_source *s;

    (void)state;
    m.vocabulary = mds_tokenizer_vocabulary(MDS_TOKENIZER_CODON);
    write_text("k.fa", ">a\nAACccc\n");
    assert_int_equal(mds_make_tokens(&m, &stats), MDS_OK);
    assert_int_equal(mds_source_open("k.h5", &s), MDS_OK);
    assert_null(s->kinds); /* nothing to tell apart */
    mds_source_close(s);
    write_text("k.fa", ">a\nAACnccGTa\n>b\nAAC\n>c\nttt\n>d\ngtT\n");
    m.kind = "ecoli";
    m.lowercase_weight = 0;
    assert_int_equal(mds_make_tokens(&m, &stats), MDS_OK);
    check_kinds("k.h5", repeats, 10);
}

static void test_make_tags(void **state)
{
    static const char *const want[] = {
        "| tag 0",       "r tag 0",      "1 tag 0",          "| tag 0",
        "A sequence 1",  "C sequence 1", "G repeat 0.5",     "| tag 0",
        "r tag 0",       "1 tag 0",      "| tag 0",          "T repeat 0.5",
        "N ambiguous 0", "A sequence 1", "<eod> sequence 1", "| tag 0",
        "x tag 0",       "| tag 0",      "T sequence 1",     "<eod> sequence 1"};
    const char *input = "k.fa";
    struct mds_make m = {.overwrite = 1,
                         .reading = {1, 1},
                         .output = "k.h5",
                         .inputs = &input,
                         .n_inputs = 1,
                         .lowercase_weight = 0.5,
                         .tag = "|{record}|",
                         .tag_every = 3,
                         .command = "test"};
    struct mds_make_stats stats;

    (void)state;
    m.vocabulary = mds_tokenizer_vocabulary(MDS_TOKENIZER_DNA);
    write_text("k.fa", ">R1 of it\nACg\ntnA\n>X\nT\n");
    assert_int_equal(mds_make_tokens(&m, &stats), MDS_OK);
    check_kinds("k.h5", want, 20);
}

enum { INPUTS = 23 };

/* Make many.h5 of the inputs by so many threads. */
static enum mds_rc make_many(enum mds_tokenizer t, int threads,
                             struct mds_make_stats *stats)
{
    static char names[INPUTS][16];
    const char *inputs[INPUTS];
    struct mds_make m = {.overwrite = 1,
                         .vocabulary = mds_tokenizer_vocabulary(t),
                         .reading = {1, 1},
                         .output = "many.h5",
                         .inputs = inputs,
                         .n_inputs = INPUTS,
                         .lowercase_weight = -1,
                         .threads = threads,
                         .command = "test"};

    if (t == MDS_TOKENIZER_IDS)
        m.vocabulary = (struct mds_vocabulary){t, 100000, 99999};
    for (int i = 0; i < INPUTS; i++) {
        snprintf(names[i], sizeof names[i], "many%d", i);
        inputs[i] = names[i];
    }
    return mds_make_tokens(&m, stats);
}

static uint64_t digest_source(const char *path)
{
    struct mds_source *s;
    uint64_t sum = 0;

    assert_int_equal(mds_source_open(path, &s), MDS_OK);
    sum = mds_hash((uint64_t)s->tokens, (uint64_t)s->documents);
    for (int64_t i = 0; i < s->tokens; i += 50) {
        int64_t n = s->tokens - i < 50 ? s->tokens - i : 50;
        unsigned char kinds[50] = {0};
        int32_t ids[50];

        assert_int_equal(mds_source_read(s, i, n, ids), MDS_OK);
        if (s->kinds)
            assert_int_equal(mds_source_read_kinds(s, i, n, kinds), MDS_OK);
        for (int64_t j = 0; j < n; j++)
            sum = mds_hash(sum, (uint64_t)ids[j] << 8 | kinds[j]);
    }
    mds_source_close(s);
    return sum;
}

/* Input 0 is much longer than the others, so that they have to wait. */
static void write_many(enum mds_tokenizer t)
{
    for (int i = 0; i < INPUTS; i++) {
        char name[16];
        FILE *f;

        snprintf(name, sizeof name, "many%d", i);
        f = fopen(name, "w");
        assert_non_null(f);
        if (t != MDS_TOKENIZER_IDS)
            fprintf(f, ">r%d\n", i);
        for (int j = 0; j < (i ? 40 * i : 300000); j++)
            if (t == MDS_TOKENIZER_IDS)
                fprintf(f, j % 9 == 8 ? "\n" : "%d ", 9000 * (j % 9) + i);
            else
                fputc("ACGTACGTN"[mds_hash((uint64_t)i, (uint64_t)j) % (i ? 9 : 8)], f);
        fclose(f);
    }
}

static void test_threads_make_the_same_file(void **state)
{
    static const enum mds_tokenizer tokenizers[] = {
        MDS_TOKENIZER_CODON, MDS_TOKENIZER_DNA, MDS_TOKENIZER_BYTES, MDS_TOKENIZER_IDS};
    struct mds_make_stats one, many;

    (void)state;
    for (size_t t = 0; t < sizeof tokenizers / sizeof *tokenizers; t++) {
        uint64_t want;

        write_many(tokenizers[t]);
        assert_int_equal(make_many(tokenizers[t], 1, &one), MDS_OK);
        want = digest_source("many.h5");
        for (int threads = 2; threads < 10; threads += 3) {
            assert_int_equal(make_many(tokenizers[t], threads, &many), MDS_OK);
            assert_int_equal(digest_source("many.h5"), want);
            assert_memory_equal(&one, &many, sizeof one);
        }
    }
    write_many(MDS_TOKENIZER_CODON);
    write_text("many9", ">r9\nEFL\n");
    write_text("many7", ">r7\nEFL\n");
    write_text("many22", "no FASTA");
    for (int threads = 1; threads < 8; threads += 3)
        assert_fails(make_many(MDS_TOKENIZER_CODON, threads, &many), MDS_EUSER,
                     "many7:2: record 'r7': 'E' is a protein");
    assert_int_not_equal(access("many.h5.partial", F_OK), 0);
}

static char complement(char base)
{
    return base == 'A' ? 'T' : base == 'C' ? 'G' : base == 'G' ? 'C' : 'A';
}

/* Longer than every buffer on the way: blocks, chunks, backwards reading. */
static void test_make_long_records(void **state)
{
    enum { BASES = 1000003 };
    char *text = malloc(BASES + 4);
    int64_t counts[MDS_KINDS_MAX] = {0};
    struct mds_source *s;
    int32_t id;

    (void)state;
    memcpy(text, ">l\n", 3);
    for (int i = 0; i < BASES; i++)
        text[3 + i] = "ACGT"[mds_hash(7, (uint64_t)i) % 4];
    text[BASES + 3] = '\n';
    write_file("long.fa", text, BASES + 4);
    assert_int_equal(make(MDS_TOKENIZER_CODON, 2, 3, "long.fa", "long.h5"), MDS_OK);
    assert_int_equal(mds_source_open("long.h5", &s), MDS_OK);
    assert_int_equal(s->documents, 2);
    assert_int_equal(s->tokens, 2 * ((BASES - 1) / 3 + 1));
    for (int i = 0; i < (BASES - 1) / 3; i += 997) {
        const char *f = text + 3 + 1 + 3 * i, *r = text + 3 + BASES - 2 - 3 * i;
        char reverse[4] = "";

        for (int j = 0; j < 3; j++)
            reverse[j] = complement(*(r - j));
        assert_int_equal(mds_source_read(s, i, 1, &id), MDS_OK);
        assert_memory_equal(s->words[id], f, 3);
        assert_int_equal(mds_source_read(s, s->tokens / 2 + i, 1, &id), MDS_OK);
        assert_string_equal(s->words[id], reverse);
    }
    mds_source_close(s);
    assert_int_equal(make(MDS_TOKENIZER_6MER_OVERLAPPING, 1, 1, "long.fa", "long.h5"),
                     MDS_OK);
    assert_int_equal(mds_source_open("long.h5", &s), MDS_OK);
    assert_int_equal(s->tokens, BASES - 5 + 1);
    for (int i = 0; i < BASES - 5; i += 7) {
        assert_int_equal(mds_source_read(s, i, 1, &id), MDS_OK);
        assert_memory_equal(s->words[id], text + 3 + i, 6);
    }
    mds_source_close(s);
    text[3 + BASES - 2] = 'N'; /* all tokens before it are of kind 0 */
    write_file("long.fa", text, BASES + 4);
    assert_int_equal(make(MDS_TOKENIZER_NUCLEOTIDE, 1, 1, "long.fa", "long.h5"),
                     MDS_OK);
    assert_int_equal(mds_source_open("long.h5", &s), MDS_OK);
    assert_int_equal(mds_source_count_kinds(s, counts), MDS_OK);
    assert_int_equal(counts[0], BASES);
    assert_int_equal(counts[1], 1);
    mds_source_close(s);
    free(text);
}

static void test_make_bytes(void **state)
{
    struct mds_str provenance = {0};
    struct mds_source *s;
    int64_t starts[2];
    char got[64];

    (void)state;
    write_text("b.txt", "hi\n");
    assert_int_equal(make(MDS_TOKENIZER_BYTES, 1, 1, "b.txt", "b.h5"), MDS_OK);
    read_words("b.h5", got);
    assert_string_equal(got, "h i <0a> <eod>");
    assert_int_equal(mds_source_open("b.h5", &s), MDS_OK);
    assert_int_equal(s->vocab, 257);
    assert_int_equal(s->eod, 256);
    assert_string_equal(s->tokenizer, "bytes");
    assert_int_equal(mds_source_starts(s, 0, 2, starts), MDS_OK);
    assert_int_equal(starts[0], 0);
    assert_int_equal(starts[1], 4);
    assert_fails(mds_source_starts(s, 1, 2, starts), MDS_EBUG,
                 "2 documents requested at 1 of 1");
    assert_int_equal(mds_source_provenance(s, &provenance), MDS_OK);
    assert_non_null(strstr(provenance.s,
                           "input        b.txt (3 bytes, sha256 98ea6e4f21"
                           "6f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb"
                           "1107be4)"));
    assert_non_null(strstr(provenance.s, "program      mds "));
    mds_str_fini(&provenance);
    mds_source_close(s);
}

static void test_make_refuses(void **state)
{
    (void)state;
    write_text("empty.fa", "");
    write_text("tiny.fa", ">a\nAC\n");
    write_text("protein.faa", ">p\nMKLV\n");
    assert_fails(make(MDS_TOKENIZER_CODON, 1, 1, "gone.fa", "o.h5"), MDS_EUSER,
                 "gone.fa: No such file");
    assert_fails(make(MDS_TOKENIZER_CODON, 1, 1, "empty.fa", "o.h5"), MDS_EUSER,
                 "empty.fa: no '>' line in it");
    assert_fails(make(MDS_TOKENIZER_CODON, 1, 1, "tiny.fa", "o.h5"), MDS_EUSER,
                 "o.h5: nothing to write");
    assert_fails(make(MDS_TOKENIZER_BYTES, 1, 1, "empty.fa", "o.h5"), MDS_EUSER,
                 "o.h5: nothing to write");
    assert_fails(make(MDS_TOKENIZER_CODON, 1, 1, "protein.faa", "o.h5"), MDS_EUSER,
                 "protein.faa:2: record 'p': 'L'");
    assert_fails(make(MDS_TOKENIZER_CODON, 1, 1, "tiny.fa", "no/dir.h5"), MDS_EIO,
                 "no/dir.h5: cannot be written");
    assert_int_not_equal(access("o.h5", F_OK), 0);
    assert_int_not_equal(access("o.h5.partial", F_OK), 0);
}

/* A token file made by hand, with what the test wants wrong in it. */
struct forgery {
    const char *format;
    int64_t version, vocab, last_document;
    uint8_t token;
};

static void forge(const char *path, const struct forgery *w)
{
    static const char *const words[] = {"a", "b", "<eod>"};
    int64_t documents[2] = {0, w->last_document};
    uint8_t tokens[4] = {0, 1, w->token, 2};
    struct mds_h5_dataset *set;
    struct mds_h5 *f;

    assert_int_equal(mds_h5_create(path, path, &f), MDS_OK);
    mds_h5_put_string(f, "format", w->format);
    mds_h5_put_int(f, "format_version", w->version);
    mds_h5_put_string(f, "tokenizer", "letters");
    mds_h5_put_int(f, "vocab_size", w->vocab);
    mds_h5_put_int(f, "eod", 2);
    mds_h5_put_strings(f, "/vocab", words, 3);
    mds_h5_dataset_create(f, "/tokens", MDS_H5_U8, &set);
    mds_h5_dataset_append(set, tokens, 4);
    mds_h5_dataset_close(set);
    mds_h5_dataset_create(f, "/documents", MDS_H5_I64, &set);
    mds_h5_dataset_append(set, documents, 2);
    mds_h5_dataset_close(set);
    assert_int_equal(mds_h5_close(f), MDS_OK);
}

static void test_hdf5_source_refuses(void **state)
{
    struct mds_source *s;
    struct mds_h5 *f;
    int32_t ids[4];

    (void)state;
    forge("f.h5", &(struct forgery){"other", 1, 3, 4, 0});
    assert_fails(mds_source_open("f.h5", &s), MDS_EUSER, "f.h5: not a token file");
    forge("f.h5", &(struct forgery){"mds-tokens", 9, 3, 4, 0});
    assert_fails(mds_source_open("f.h5", &s), MDS_EUSER,
                 "version 9, this program reads");
    forge("f.h5", &(struct forgery){"mds-tokens", 1, 66, 4, 0});
    assert_fails(mds_source_open("f.h5", &s), MDS_EUSER,
                 "vocab_size is 66, but /vocab");
    forge("f.h5", &(struct forgery){"mds-tokens", 1, -1, 4, 0});
    assert_fails(mds_source_open("f.h5", &s), MDS_EUSER, "invalid vocab_size -1");
    forge("f.h5", &(struct forgery){"mds-tokens", 1, 3, 5, 0});
    assert_fails(mds_source_open("f.h5", &s), MDS_EUSER,
                 "ends at 5, but /tokens has 4");
    forge("f.h5", &(struct forgery){"mds-tokens", 1, 3, 4, 3});
    assert_int_equal(mds_source_open("f.h5", &s), MDS_OK);
    assert_fails(mds_source_read(s, 1, 3, ids), MDS_EUSER,
                 "f.h5: token 2 has id 3, outside the vocabulary of 3 words");
    mds_source_close(s);
    assert_int_equal(mds_h5_create("none.h5", "none.h5", &f), MDS_OK);
    assert_int_equal(mds_h5_close(f), MDS_OK);
    assert_fails(mds_source_open("none.h5", &s), MDS_EUSER,
                 "HDF5, but not a token file");
    write_text("x.fna", ">a\nACGT\n");
    assert_fails(mds_source_open("x.fna", &s), MDS_EUSER,
                 "x.fna: not a token file: make");
    write_text("x.txt", "hello");
    assert_fails(mds_source_open("x.txt", &s), MDS_EUSER, "x.txt: not an HDF5 file");
    assert_fails(mds_source_open("gone", &s), MDS_EUSER, "gone: No such file");
}

/* ---- Megatron -------------------------------------------------------------------- */

static unsigned char *put(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

/* Three sequences of 2, 0 and 3 tokens in two documents; returns the size. */
static size_t make_idx(unsigned char *b, int code, int item)
{
    static const int sizes[] = {2, 0, 3}, starts[] = {0, 2, 2};
    unsigned char *p = b;

    memcpy(p, "MMIDIDX\0\0", 9);
    p = put(p + 9, 1, 8);
    p = put(p, (uint64_t)code, 1);
    p = put(p, 3, 8);
    p = put(p, 3, 8);
    for (int i = 0; i < 3; i++)
        p = put(p, (uint64_t)sizes[i], 4);
    for (int i = 0; i < 3; i++)
        p = put(p, (uint64_t)(starts[i] * item), 8);
    p = put(p, 0, 8);
    p = put(p, 1, 8);
    p = put(p, 3, 8);
    return (size_t)(p - b);
}

static void test_megatron_all_widths(void **state)
{
    static const struct {
        int code, item;
        int32_t top; /* the last token, each byte of it another */
    } types[] = {{1, 1, 0xfe},     {2, 1, 0x7e},     {3, 2, 0x7efd},
                 {4, 4, 0xfedcba}, {5, 8, 0xfedcba}, {8, 2, 0xfedc}};
    static const char *const names[] = {"m", "m.bin", "m.idx"};
    unsigned char idx[256], bin[64], *p;
    struct mds_source *s;
    int32_t ids[5];
    int64_t starts[3], largest;

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        write_file("m.idx", idx, make_idx(idx, types[t].code, types[t].item));
        p = bin;
        for (int i = 0; i < 5; i++)
            p = put(p, (uint64_t)(i < 4 ? 10 + i : types[t].top), types[t].item);
        write_file("m.bin", bin, (size_t)(p - bin));
        assert_int_equal(mds_source_open(names[t % 3], &s), MDS_OK);
        assert_int_equal(s->tokens, 5);
        assert_int_equal(s->documents, 2);
        assert_true(s->vocab_seen);
        assert_int_equal(s->vocab, MDS_VOCAB_MAX);
        largest = 12;
        assert_int_equal(mds_source_largest_id(s, 0, 4, &largest), MDS_OK);
        assert_int_equal(largest, 13);
        assert_int_equal(mds_source_largest_id(s, 4, 1, &largest), MDS_OK);
        assert_int_equal(largest, types[t].top);
        assert_int_equal(mds_source_read(s, 0, 5, ids), MDS_OK);
        for (int i = 0; i < 4; i++)
            assert_int_equal(ids[i], 10 + i);
        assert_int_equal(ids[4], types[t].top);
        assert_int_equal(mds_source_starts(s, 0, 3, starts), MDS_OK);
        assert_int_equal(starts[1], 2);
        assert_int_equal(starts[2], 5);
        assert_fails(mds_source_read(s, 1, 5, ids), MDS_EBUG,
                     "5 tokens requested at 1 of 5");
        mds_source_close(s);
    }
    assert_int_equal(mds_source_open("m", &s), MDS_OK);
    assert_int_equal(truncate("m.bin", 7), 0);
    assert_int_equal(mds_source_read(s, 0, 3, ids), MDS_OK);
    assert_fails(mds_source_read(s, 0, 5, ids), MDS_EIO,
                 "m.bin: cannot be read: it was");
    mds_source_close(s);
    write_file("m.idx", idx, make_idx(idx, 5, 8));
    for (int byte = 4; byte < 8; byte++) {
        char says[64];

        snprintf(says, sizeof says, "m.bin: token 1 has id %lld, outside",
                 (long long)INT64_C(1) << 8 * byte);
        put(put(bin, 1, 8), UINT64_C(1) << 8 * byte, 8);
        write_file("m.bin", bin, 40);
        assert_int_equal(mds_source_open("m", &s), MDS_OK);
        assert_fails(mds_source_read(s, 0, 5, ids), MDS_EUSER, says);
        mds_source_close(s);
    }
    put(bin, UINT64_C(0xfffe), 2);
    write_file("m.bin", bin, 10);
    write_file("m.idx", idx, make_idx(idx, 3, 2));
    assert_int_equal(mds_source_open("m", &s), MDS_OK);
    assert_fails(mds_source_read(s, 0, 1, ids), MDS_EUSER,
                 "m.bin: token 0 has id -2, outside");
    mds_source_close(s);
    put(bin, UINT64_C(1) << 63, 8);
    write_file("m.bin", bin, sizeof bin);
    write_file("m.idx", idx, make_idx(idx, 5, 8));
    assert_int_equal(mds_source_open("m", &s), MDS_OK);
    assert_fails(mds_source_read(s, 0, 1, ids), MDS_EUSER,
                 "m.bin: token 0 has id -9223372036854775808, outside");
    mds_source_close(s);
    unlink("m.bin");
    assert_fails(mds_source_open("m", &s), MDS_EUSER, "m.bin: No such file");
}

/* One field of a sound index overwritten. */
static void test_megatron_hostile_indexes(void **state)
{
    static const struct {
        int at, bytes;
        uint64_t value;
        const char *says;
    } cases[] = {
        {0, 1, 'X', "not a Megatron index"},
        {9, 8, 2, "index version 2"},
        {17, 1, 0, "unknown data type 0"},
        {17, 1, 9, "unknown data type 9"},
        {17, 1, 7, "holds real numbers"},
        {18, 8, 4, "too short for its counts"},
        {18, 8, 2, "12 bytes more than its 2 sequences"},
        {18, 8, UINT64_MAX, "too short for its counts"},
        {18, 8, UINT64_C(0x1555555555555556), "too short for its counts"},
        {26, 8, UINT64_C(1) << 61, "too short for its counts"},
        {26, 8, 2, "8 bytes more"},
        {34, 4, 0xffffffff, "negative size of sequence 0"},
        {34, 4, 0x7fffffff, "beyond the end of the .bin: sequence 0"},
        {42, 4, 4, "beyond the end of the .bin: sequence 2"},
        {46, 8, 1, "gap or overlap before sequence 1"},
        {46, 8, UINT64_MAX, "starts at byte"},
        {62, 8, 6, "gap or overlap before sequence 2"},
        {70, 8, 1, "wrong boundary of document 0"},
        {78, 8, 4, "wrong boundary of document 1"},
        {86, 8, 2, "documents end at sequence 2"},
        {86, 8, UINT64_MAX, "wrong boundary of document 2"},
    };
    unsigned char idx[256];
    struct mds_index x;
    size_t n;

    (void)state;
    n = make_idx(idx, 8, 2);
    assert_int_equal(mds_index_parse(idx, (int64_t)n, 10, "x.idx", &x), MDS_OK);
    assert_int_equal(x.tokens, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_idx(idx, 8, 2);
        put(idx + cases[i].at, cases[i].value, cases[i].bytes);
        assert_fails(mds_index_parse(idx, (int64_t)n, 10, "x.idx", &x), MDS_EUSER,
                     cases[i].says);
        assert_memory_equal(mds_fail_text(), "x.idx: ", 7);
    }
    make_idx(idx, 8, 2);
    for (size_t keep = 0; keep < n; keep++) /* copied, so that ASan sees the end */
        if (keep > 0) {
            unsigned char *cut = malloc(keep);
            memcpy(cut, idx, keep);
            assert_int_equal(mds_index_parse(cut, (int64_t)keep, 10, "x.idx", &x),
                             MDS_EUSER);
            free(cut);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fasta_reads_all_shapes),
        cmocka_unit_test(test_fasta_of_other_systems),
        cmocka_unit_test(test_fasta_says_what_is_wrong),
        cmocka_unit_test(test_make_frames_and_strands),
        cmocka_unit_test(test_make_of_other_tokens),
        cmocka_unit_test(test_make_kinds),
        cmocka_unit_test(test_make_tags),
        cmocka_unit_test(test_threads_make_the_same_file),
        cmocka_unit_test(test_make_long_records),
        cmocka_unit_test(test_make_bytes),
        cmocka_unit_test(test_make_refuses),
        cmocka_unit_test(test_hdf5_source_refuses),
        cmocka_unit_test(test_megatron_all_widths),
        cmocka_unit_test(test_megatron_hostile_indexes),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
