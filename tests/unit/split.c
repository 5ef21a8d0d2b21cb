/* SPDX-License-Identifier: BSD-3-Clause */
/* data: splits of text, and of files that hold several strands or frames of the same
 * bases. */
#include "scratch.h"

#include <math.h>
#include <stdlib.h>

#include "config/options.h"
#include "data/dataset.h"
#include "data/make.h"
#include "data/split.h"
#include "data/token_file.h"

static enum mds_rc make_reading(enum mds_tokenizer t, struct mds_reading reading,
                                const char *input, const char *output)
{
    struct mds_make_stats stats;
    struct mds_make m = {.overwrite = 1,
                         .vocabulary = mds_tokenizer_vocabulary(t),
                         .reading = reading,
                         .output = output,
                         .inputs = &input,
                         .n_inputs = 1,
                         .lowercase_weight = -1,
                         .command = "test"};

    return mds_make_tokens(&m, &stats);
}

enum { RECORDS_MAX = 40, BASES_MAX = 700 };

/* Lengths of records, from five bases on. */
struct genome {
    const char *name;
    int records, bases[RECORDS_MAX];
};

static void write_genome(const struct genome *g)
{
    FILE *f = fopen("g.fa", "w");

    assert_non_null(f);
    for (int r = 0; r < g->records; r++) {
        fprintf(f, ">%d\n", r);
        for (int i = 0; i < g->bases[r]; i++)
            putc("ACGT"[(i * 7 + r + i / 5) % 4], f);
        putc('\n', f);
    }
    fclose(f);
}

/* Who has each base of each record, by what a token is made of. */
struct owners {
    signed char split[RECORDS_MAX][BASES_MAX];
    int held[MDS_SPLITS], lost;
};

static void own_token(const struct genome *g, const struct mds_source *s,
                      struct owners *o, int64_t document, int64_t token, int split)
{
    int each = mds_reading_documents(&s->reading), frame, reverse;
    int record = (int)(document / each), bases = g->bases[record];

    mds_reading_document(&s->reading, (int)(document % each), &frame, &reverse);
    for (int i = 0; i < s->token_bases; i++) {
        int at = frame + (int)token * s->token_stride + i;
        signed char *owner = &o->split[record][reverse ? bases - 1 - at : at];

        assert_in_range(at, 0, bases - 1);
        if (split < 0)
            continue;
        assert_true(*owner < 0 || *owner == split); /* on no other strand elsewhere */
        o->held[split] += *owner < 0;
        *owner = (signed char)split;
    }
}

static int split_of(const struct mds_part parts[MDS_SPLITS], int64_t token)
{
    int found = -1;

    for (int s = 0; s < MDS_SPLITS; s++)
        for (int i = 0; i < parts[s].spans; i++)
            if (token >= parts[s].span[i].first &&
                token < parts[s].span[i].first + parts[s].span[i].tokens) {
                assert_int_equal(found, -1);
                found = s;
            }
    return found;
}

static void own_all(const struct genome *g, struct mds_source *s,
                    const struct mds_part parts[MDS_SPLITS], struct owners *o)
{
    int64_t starts[2];

    memset(o, 0, sizeof *o);
    memset(o->split, -1, sizeof o->split);
    for (int64_t d = 0; d < s->documents; d++) {
        assert_int_equal(mds_source_starts(s, d, 2, starts), MDS_OK);
        for (int64_t t = starts[0]; t < starts[1]; t++) {
            int split = split_of(parts, t);

            o->lost += split < 0;
            if (t < starts[1] - 1) /* not <eod> */
                own_token(g, s, o, d, t - starts[0], split);
        }
    }
}

static void check_split(const struct genome *g, struct mds_source *s, const char *text)
{
    static struct owners o;
    double shares[MDS_SPLITS];
    struct mds_part parts[MDS_SPLITS];
    int each = mds_reading_documents(&s->reading);
    int64_t longest = 0, sum = 0;

    for (int r = 0; r < g->records; r++)
        longest = g->bases[r] > longest ? g->bases[r] : longest;
    assert_true(mds_split_shares(text, shares));
    assert_int_equal(mds_split_cut(s, shares, MDS_SPLIT_AT_AUTO, parts), MDS_OK);
    own_all(g, s, parts, &o);
    for (int i = 0; i < MDS_SPLITS; i++) {
        double want = shares[i] * (double)s->tokens;

        assert_true(fabs((double)parts[i].tokens - want) <=
                    6 + each * s->token_bases * (s->token_bases / s->token_stride));
        sum += parts[i].tokens;
    }
    assert_int_equal(sum + o.lost, s->tokens);
    /* Those astride of two cuts; others overlap themselves. */
    if (s->token_stride == s->token_bases)
        assert_in_range(o.lost, 0, each > 1 ? 4 * each : 0);
    else
        assert_in_range(o.lost, 0, 2 * (s->token_bases - 1) * each);
}

static void test_no_base_is_in_two_splits(void **state)
{
    static const struct genome genomes[] = {
        {"one", 1, {700}},
        {"short", 3, {5, 6, 7}},
        {"even", 4, {60, 60, 60, 60}},
        {"uneven", 6, {5, 301, 8, 99, 250, 13}},
        {"many", 40, {5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18,
                      19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
                      33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44}}};
    static const char *const texts[] = {"949,50,1", "8,1,1", "1,1,1", "1",
                                        "98,2,0",   "0,1,1", "3,0,1"};
    static const unsigned frames[] = {1, 2, 4, 7};

    (void)state;
    for (size_t i = 0; i < 5 * 4 * 3 * MDS_TOKENIZERS; i++) {
        const struct genome *g = &genomes[i % 5];
        struct mds_reading r = {frames[i / 5 % 4], (unsigned)(1 + i / 20 % 3)};
        enum mds_tokenizer tokenizer = (enum mds_tokenizer)(i / 60);
        struct mds_source *s;

        if (mds_tokenizer_bases(tokenizer) == 0 ||
            (tokenizer != MDS_TOKENIZER_CODON && r.frames > 1) ||
            g->bases[0] < mds_tokenizer_bases(tokenizer))
            continue;
        write_genome(g);
        assert_int_equal(make_reading(tokenizer, r, "g.fa", "g.h5"), MDS_OK);
        assert_int_equal(mds_source_open("g.h5", &s), MDS_OK);
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            check_split(g, s, texts[t]);
        mds_source_close(s);
    }
}

/* Spans of both strands, one after the other, and no window across. */
static void test_windows_stay_in_their_spans(void **state)
{
    enum { S = 16 };
    static const struct genome g = {"one", 1, {700}};
    struct mds_data_config c = {.paths = "g.h5", .split = "8,1,1"};
    double shares[MDS_SPLITS];
    struct mds_part parts[MDS_SPLITS];
    struct mds_dataset *d;
    struct mds_source *s;
    int32_t got[S + 1], want[S + 1];
    int64_t n = 0;

    (void)state;
    write_genome(&g);
    assert_int_equal(make_reading(MDS_TOKENIZER_NUCLEOTIDE, (struct mds_reading){1, 3},
                                  "g.fa", "g.h5"),
                     MDS_OK);
    assert_int_equal(mds_dataset_open(&c, S, 3, &d), MDS_OK);
    assert_int_equal(mds_dataset_set_vocab(d, -1), MDS_OK);
    assert_int_equal(mds_source_open("g.h5", &s), MDS_OK);
    assert_true(mds_split_shares("8,1,1", shares));
    assert_int_equal(mds_split_cut(s, shares, MDS_SPLIT_AT_AUTO, parts), MDS_OK);
    assert_int_equal(parts[MDS_SPLIT_VALID].spans, 2);
    for (int i = 0; i < 2; i++) {
        const struct mds_span *span = &parts[MDS_SPLIT_VALID].span[i];

        for (int64_t at = 0; at + S < span->tokens; at += S) {
            assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_VALID, n++,
                                                &(struct mds_sample){got, NULL, NULL}),
                             MDS_OK);
            assert_int_equal(mds_source_read(s, span->first + at, S + 1, want), MDS_OK);
            assert_memory_equal(got, want, sizeof got);
        }
    }
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_VALID), n);
    mds_dataset_close(d);
    mds_source_close(s);
}

/* What the line says is enough for a window on each strand, is. */
static void test_the_share_that_is_told_is_enough(void **state)
{
    static const struct genome g = {"one", 1, {700}};
    struct mds_data_config c = {.paths = "g.h5", .split = "98,1,1"};
    struct mds_dataset *d;

    (void)state;
    write_genome(&g);
    assert_int_equal(make_reading(MDS_TOKENIZER_NUCLEOTIDE, (struct mds_reading){1, 3},
                                  "g.fa", "g.h5"),
                     MDS_OK);
    assert_int_equal(mds_dataset_open(&c, 100, 3, &d), MDS_OK);
    assert_fails(
        mds_dataset_require(d, MDS_SPLIT_VALID), MDS_EUSER,
        "leaves 7 tokens in its longest range for validation, but a window takes 101 "
        "(--seq-length 100 and its target): use --seq-length 6 or less, or "
        "give validation at least 14.41 %, or --eval-iters 0");
    mds_dataset_close(d);
    c.split = "84.59,14.41,1";
    assert_int_equal(mds_dataset_open(&c, 100, 3, &d), MDS_OK);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_VALID), 2);
    mds_dataset_close(d);
}

/* ---- text ------------------------------------------------------------------------ */

static void write_documents(const char *path, const int *lengths, int n)
{
    struct mds_vocabulary v = {MDS_TOKENIZER_IDS, 100, 99};
    struct mds_token_file *f;
    char sum[65] = {0};
    int32_t id = 5;

    assert_int_equal(mds_token_file_create(path, &v, &f), MDS_OK);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < lengths[i]; j++)
            assert_int_equal(mds_token_file_add(f, &id, 1), MDS_OK);
        assert_int_equal(mds_token_file_add(f, &v.eod, 1), MDS_OK);
        assert_int_equal(mds_token_file_ended_document(f), MDS_OK);
    }
    memset(sum, '0', 64);
    assert_int_equal(mds_token_file_input(f, "x", 1, sum), MDS_OK);
    assert_int_equal(mds_token_file_finish(f, "", ""), MDS_OK);
}

static void check_cut(struct mds_source *s, const char *text, enum mds_split_at at,
                      int keeps, int64_t longest)
{
    double shares[MDS_SPLITS];
    struct mds_part parts[MDS_SPLITS];
    int64_t end = 0, document, start, want[MDS_SPLITS + 1];

    assert_true(mds_split_shares(text, shares));
    mds_split_bounds(shares, s->tokens, want);
    assert_int_equal(mds_split_cut(s, shares, at, parts), MDS_OK);
    for (int i = 0; i < MDS_SPLITS; i++) {
        assert_int_equal(parts[i].keeps_documents, keeps);
        assert_int_equal(parts[i].spans, parts[i].tokens > 0);
        if (shares[i] == 0)
            assert_int_equal(parts[i].tokens, 0);
        if (parts[i].spans == 0)
            continue;
        assert_int_equal(parts[i].span[0].first, end);
        assert_int_equal(mds_source_document_at(s, end, &document), MDS_OK);
        assert_int_equal(mds_source_starts(s, document, 1, &start), MDS_OK);
        if (keeps)
            assert_int_equal(start, end);
        assert_true(llabs(end - want[i]) <= (keeps ? MDS_SPLITS * longest : 0));
        end += parts[i].tokens;
    }
    assert_int_equal(end, s->tokens);
    for (int i = 0; i < MDS_SPLITS && keeps && at == MDS_SPLIT_AT_AUTO; i++)
        assert_int_equal(parts[i].tokens > 0, shares[i] > 0);
}

static void test_documents_of_text_stay_whole(void **state)
{
    static const char *const texts[] = {"949,50,1", "8,1,1",  "1,1,1", "1",
                                        "98,2,0",   "0,1,99", "3,0,1", "0,0,1"};
    static const int splits[] = {3, 3, 3, 1, 2, 2, 2, 1};
    int lengths[40];

    (void)state;
    for (int i = 0; i < 40; i++)
        lengths[i] = 1 + i * i * 7 % 53;
    for (int n = 1; n <= 40; n += 1 + n / 7) {
        struct mds_source *s;

        write_documents("t.h5", lengths, n);
        assert_int_equal(mds_source_open("t.h5", &s), MDS_OK);
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
            check_cut(s, texts[t], MDS_SPLIT_AT_AUTO, n > 1 && n >= splits[t], 54);
            check_cut(s, texts[t], MDS_SPLIT_AT_DOCUMENTS, 1, 54);
            check_cut(s, texts[t], MDS_SPLIT_AT_TOKENS, 0, 0);
        }
        mds_source_close(s);
    }
}

/* A chromosome is too much to give to one split, unless somebody says so. */
static void test_records_of_genomes_stay_whole_if_asked(void **state)
{
    static const struct genome g = {"three", 3, {100, 300, 300}};
    struct mds_part parts[MDS_SPLITS];
    double shares[MDS_SPLITS];
    struct mds_source *s;

    (void)state;
    write_genome(&g);
    assert_int_equal(make_reading(MDS_TOKENIZER_NUCLEOTIDE, (struct mds_reading){1, 3},
                                  "g.fa", "g.h5"),
                     MDS_OK);
    assert_int_equal(mds_source_open("g.h5", &s), MDS_OK);
    assert_true(mds_split_shares("8,2", shares));
    assert_int_equal(mds_split_cut(s, shares, MDS_SPLIT_AT_DOCUMENTS, parts), MDS_OK);
    assert_int_equal(parts[MDS_SPLIT_TRAIN].tokens, 2 * (101 + 301));
    assert_int_equal(parts[MDS_SPLIT_VALID].tokens, 2 * 301);
    assert_int_equal(parts[MDS_SPLIT_VALID].spans, 1);
    assert_int_equal(mds_split_cut(s, shares, MDS_SPLIT_AT_AUTO, parts), MDS_OK);
    assert_false(parts[0].keeps_documents);
    mds_source_close(s);
}

static void test_too_short_documents_are_told(void **state)
{
    static const int lengths[] = {500, 300, 20};
    struct mds_data_config c = {.paths = "t.h5", .split = "8,2"};
    struct mds_dataset *d;

    (void)state;
    write_documents("t.h5", lengths, 3);
    assert_int_equal(mds_dataset_open(&c, 100, 3, &d), MDS_OK);
    assert_fails(mds_dataset_require(d, MDS_SPLIT_VALID), MDS_EUSER,
                 "leaves 21 tokens for validation, but a window takes 101 "
                 "(--seq-length 100 and its target): use --seq-length 20 or less, or "
                 "give validation more than 12.28 % (documents stay whole), or "
                 "--split-at tokens, or --eval-iters 0");
    mds_dataset_close(d);
    c.split_at = MDS_SPLIT_AT_TOKENS;
    assert_int_equal(mds_dataset_open(&c, 100, 3, &d), MDS_OK);
    assert_int_equal(mds_dataset_tokens(d, MDS_SPLIT_VALID), 165);
    mds_dataset_close(d);
}

/* They wrote as many documents of a record of four bases as it has whole frames. */
static void test_records_of_earlier_versions(void **state)
{
    static const int lengths[] = {30, 29, 29, 1, 1, 28, 28, 28, 30, 29, 29, 1};
    struct mds_vocabulary v = mds_tokenizer_vocabulary(MDS_TOKENIZER_CODON);
    struct mds_data_config c = {.paths = "old.h5", .split = "8,1,1"};
    struct mds_token_file *f;
    struct mds_dataset *d;
    int32_t id = 5;
    char sum[65] = {0};

    (void)state;
    assert_int_equal(mds_token_file_create("old.h5", &v, &f), MDS_OK);
    for (int i = 0; i < 12; i++) {
        for (int j = 0; j < lengths[i]; j++)
            assert_int_equal(mds_token_file_add(f, &id, 1), MDS_OK);
        assert_int_equal(mds_token_file_add(f, &v.eod, 1), MDS_OK);
        assert_int_equal(mds_token_file_ended_document(f), MDS_OK);
    }
    memset(sum, '0', 64);
    assert_int_equal(mds_token_file_input(f, "x", 1, sum), MDS_OK);
    assert_int_equal(mds_token_file_finish(f, "frame all, strand forward", ""), MDS_OK);
    assert_fails(mds_dataset_open(&c, 8, 1, &d), MDS_EUSER,
                 "old.h5: documents 4 to 6 are not 3 strands and frames of one record");
    c.split = "1,0,0"; /* nothing to cut */
    assert_int_equal(mds_dataset_open(&c, 8, 1, &d), MDS_OK);
    mds_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_base_is_in_two_splits),
        cmocka_unit_test(test_windows_stay_in_their_spans),
        cmocka_unit_test(test_the_share_that_is_told_is_enough),
        cmocka_unit_test(test_documents_of_text_stay_whole),
        cmocka_unit_test(test_records_of_genomes_stay_whole_if_asked),
        cmocka_unit_test(test_too_short_documents_are_told),
        cmocka_unit_test(test_records_of_earlier_versions),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
