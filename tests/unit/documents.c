/* SPDX-License-Identifier: BSD-3-Clause */
/* data: where documents begin in samples. */
#include "documents.h"

#include <math.h>

#include "data/best_fit.h"
#include "data/dataset.h"
#include "data/packing.h"
#include "data/permute.h"
#include "data/split.h"
#include "data/window.h"

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
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){token, start, NULL}),
                         MDS_OK);
        for (int k = 0; k <= S; k++) {
            int64_t begin = start_of(all, token[k]) - token[0];

            assert_int_equal(start[k], begin > 0 ? begin : 0);
        }
    }
    mds_dataset_close(d);
}

/* ---- packing ---- */

/* The definition: each piece, longest first, into the fullest bin that has space. */
static void naive_best_fit(const int32_t *length, int n, int size, int64_t *bin)
{
    int space[300], newest[300] = {0}, bins = 0, turn = 0;

    for (int want = size; want > 0; want--)
        for (int i = 0; i < n; i++) {
            int best = -1;

            if (length[i] != want)
                continue;
            for (int b = 0; b < bins; b++)
                if (space[b] >= want &&
                    (best < 0 || space[b] < space[best] ||
                     (space[b] == space[best] && newest[b] > newest[best])))
                    best = b;
            if (best < 0)
                space[best = bins++] = size;
            space[best] -= want;
            newest[best] = ++turn;
            bin[i] = best;
        }
}

static void test_best_fit(void **state)
{
    enum { MOST = 300 };
    static const int sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 100000};
    int32_t length[MOST];
    int64_t got[MOST], want[MOST], bins;

    (void)state;
    for (int t = 0; t < 200; t++) {
        int size = sizes[t % 10], n = 1 + t * 37 % MOST;

        for (int i = 0; i < n; i++) /* some long, most short */
            length[i] = 1 + (int)(mds_hash((uint64_t)t, (uint64_t)i) % (uint64_t)size) /
                                (1 + (i + t) % 7);
        assert_int_equal(mds_best_fit(length, n, size, got, &bins), MDS_OK);
        naive_best_fit(length, n, size, want);
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
        for (int i = 0; i < n; i++)
            assert_in_range(got[i], 0, bins - 1);
    }
}

/* What a data set of documents has to be; targets[token]: how often it was one. */
struct packed {
    const struct mds_dataset *d;
    int64_t *all; /* starts of documents */
    int S, documents;
    int32_t *token, *start, *targets;
};

static int64_t document_length(const struct packed *p, int64_t token)
{
    int i = 0;

    while (p->all[i + 1] <= token)
        i++;
    return p->all[i + 1] - p->all[i];
}

/* A row: documents side by side, whole if they are not longer than it, then padding. */
static void check_row(struct packed *p)
{
    int row = p->S + 1, at = 0;

    while (at < row) {
        int n = 1, first = p->token[at];

        assert_int_equal(p->start[at], at);
        while (at + n < row && p->start[at + n] == at) {
            assert_int_equal(p->token[at + n], first + n);
            p->targets[first + n]++;
            n++;
        }
        if (n > 1) {
            assert_int_equal(start_of(p->all, first), start_of(p->all, first + n - 1));
            if (document_length(p, first) <= row)
                assert_int_equal(document_length(p, first), n);
        }
        at += n;
    }
}

static void check_targets(const struct packed *p)
{
    for (int64_t t = 0; t < p->all[p->documents]; t++)
        assert_int_equal(p->targets[t], t != start_of(p->all, t));
}

static const struct mds_data_config packs = {
    .paths = "d", .split = "1", .pack_documents = MDS_PACK_ON};

static void check_packing(const int *length, int n, int S)
{
    int64_t tokens = write_documents("d", length, n), rows;
    struct packed p = {.S = S, .documents = n};
    struct mds_dataset *d = open_documents(&packs, S);

    p.all = calloc((size_t)n + 1, sizeof *p.all);
    p.token = calloc((size_t)S + 1, sizeof *p.token);
    p.start = calloc((size_t)S + 1, sizeof *p.start);
    p.targets = calloc((size_t)tokens + 1, sizeof *p.targets);
    sum_lengths(length, n, p.all);
    rows = mds_dataset_samples(d, MDS_SPLIT_TRAIN);
    for (int epoch = 0; epoch < 3; epoch++) {
        memset(p.targets, 0, (size_t)tokens * sizeof *p.targets);
        for (int64_t i = 0; i < rows; i++) {
            assert_int_equal(
                mds_dataset_sample(d, MDS_SPLIT_TRAIN, epoch * rows + i,
                                   &(struct mds_sample){p.token, p.start, NULL}),
                MDS_OK);
            check_row(&p);
        }
        check_targets(&p);
    }
    mds_dataset_close(d);
    free(p.all);
    free(p.token);
    free(p.start);
    free(p.targets);
}

static void test_every_token_is_a_target_once(void **state)
{
    static const int some[] = {5,  1,  0,  40, 2,  2,  9,  0, 0,  1,  30, 7, 16,
                               17, 18, 32, 33, 34, 35, 49, 3, 14, 15, 16, 2};
    static const int one[] = {100}, pair[] = {2}, fits[] = {17};
    int many[3000];

    (void)state;
    check_packing(some, sizeof some / sizeof *some, 16);
    check_packing(some, sizeof some / sizeof *some, 1);
    check_packing(some, sizeof some / sizeof *some, 1000);
    check_packing(one, 1, 16);
    check_packing(pair, 1, 16);
    check_packing(fits, 1, 16);
    for (int i = 0; i < 3000; i++) /* heavy-tailed */
        many[i] =
            (int)(20.0 / (1e-3 + (double)(mds_hash(9, (uint64_t)i) % 1000) / 1e3));
    check_packing(many, 3000, 2048);
}

static void test_packing_is_tight(void **state)
{
    int length[3000];
    struct mds_source *s;
    struct mds_packing *p;
    struct mds_part part = {.spans = 1};
    int64_t sum = 0;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        length[i] = 2 + (int)(mds_hash(3, (uint64_t)i) % 700);
        sum += length[i];
    }
    write_documents("d", length, 3000);
    assert_int_equal(mds_source_open("d", &s), MDS_OK);
    part.span[0] = (struct mds_span){0, s->tokens};
    assert_int_equal(mds_packing_create(s, &part, 2047, 0, &p), MDS_OK);
    assert_int_equal(mds_packing_stats(p)->tokens, sum);
    assert_int_equal(mds_packing_stats(p)->rows, (sum + 2047) / 2048);
    assert_true(mds_packing_padding(p) < 0.002);
    mds_packing_destroy(p);
    mds_source_close(s);
}

static void test_nothing_to_pack(void **state)
{
    static const int ones[] = {1, 1, 0, 1}, ends[] = {9, 9, 1}, some[] = {3, 40, 1};
    const struct mds_data_config half = {
        .paths = "d", .split = "9,1", .pack_documents = MDS_PACK_ON};
    struct mds_dataset *d;
    struct mds_packing *p;
    struct mds_source *s;
    struct mds_part part = {.spans = 1, .span = {{0, 44}}};

    (void)state;
    write_documents("d", ones, 4);
    assert_int_equal(mds_dataset_open(&packs, 16, 1, &d), MDS_OK);
    assert_fails(
        mds_dataset_require(d, MDS_SPLIT_TRAIN), MDS_EUSER,
        "d.bin: all of its documents have one token, so that there is nothing");
    mds_dataset_close(d);
    write_documents("d", ends, 3);
    assert_int_equal(mds_dataset_open(&half, 16, 1, &d), MDS_OK);
    assert_fails(
        mds_dataset_require(d, MDS_SPLIT_VALID), MDS_EUSER,
        "d.bin: --split 9,1 leaves 1 tokens for validation, but no document of two "
        "tokens or more");
    mds_dataset_close(d);
    write_documents("d", some, 3);
    assert_int_equal(mds_source_open("d", &s), MDS_OK);
    assert_fails(mds_packing_create(s, &part, INT64_C(1) << 31, 0, &p), MDS_EUSER,
                 "packed into rows of at most 2147483645 tokens");
    assert_int_equal(mds_packing_create(s, &part, 16, 0, &p), MDS_OK);
    assert_int_equal(mds_packing_stats(p)->cut, 1);
    assert_int_equal(mds_packing_stats(p)->left_out, 1);
    assert_int_equal(mds_packing_stats(p)->documents, 2);
    assert_true(mds_packing_all_pairs(p, 0).global == 2 * 136 + 8 * 9 / 2 + 6 + 5);
    assert_fails(mds_packing_read(p, s, 3, 0, &(struct mds_sample){NULL, NULL, NULL}),
                 MDS_EBUG, "row 3 of 3");
    mds_packing_destroy(p);
    mds_source_close(s);
}

/* ---- more documents than 32 bits can count ---- */

enum { EACH = 3 }; /* tokens of every document */
static const int64_t endless = INT64_C(3) << 30;

static enum mds_rc endless_read(struct mds_source *s, int64_t first, int64_t count,
                                int32_t *ids)
{
    (void)s;
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)((first + i) % 1000);
    return MDS_OK;
}

static enum mds_rc endless_starts(struct mds_source *s, int64_t first, int64_t count,
                                  int64_t *starts)
{
    (void)s;
    for (int64_t i = 0; i < count; i++)
        starts[i] = EACH * (first + i);
    return MDS_OK;
}

static void test_more_documents_than_32_bits_count(void **state)
{
    enum { S = 8, LAST = 30 };
    static const struct mds_source_ops ops = {.read = endless_read,
                                              .starts = endless_starts};
    static const double shares[MDS_SPLITS] = {98, 1, 1};
    struct mds_source s = {.ops = &ops,
                           .path = "endless",
                           .tokens = EACH * endless,
                           .documents = endless,
                           .vocab = 1000,
                           .token_bases = 1,
                           .reading = mds_reading_read("")};
    struct mds_part parts[MDS_SPLITS];
    struct mds_part last = {.spans = 1, .span = {{s.tokens - LAST, LAST}}};
    int32_t token[S + 1], start[S + 1];
    struct mds_packing *p;
    int64_t document;

    (void)state;
    assert_int_equal(mds_source_document_at(&s, s.tokens - 1, &document), MDS_OK);
    assert_int_equal(document, endless - 1);
    assert_int_equal(mds_split_cut(&s, shares, MDS_SPLIT_AT_DOCUMENTS, parts), MDS_OK);
    for (int k = 0; k < MDS_SPLITS; k++)
        assert_int_equal(parts[k].span[0].first % EACH, 0);
    assert_int_equal(parts[0].tokens + parts[1].tokens + parts[2].tokens, s.tokens);
    assert_int_equal(mds_window_starts(&s, s.tokens - S, S, start), MDS_OK);
    assert_int_equal(start[S - 1], S - EACH);
    assert_int_equal(mds_packing_create(&s, &last, S, 0, &p), MDS_OK);
    assert_int_equal(mds_packing_stats(p)->documents, LAST / EACH);
    assert_int_equal(mds_packing_stats(p)->rows, 4);
    assert_int_equal(
        mds_packing_read(p, &s, 0, 0, &(struct mds_sample){token, start, NULL}),
        MDS_OK);
    for (int i = 0; i <= S; i++)
        assert_int_equal(start[i], i / EACH * EACH);
    assert_int_equal(token[0], last.span[0].first % 1000);
    mds_packing_destroy(p);
}

/* Each source of a mix has rows of its own, as many as its weight says. */
static void test_packed_mix(void **state)
{
    static const int longs[] = {100, 300}, shorts[] = {5, 5, 5, 5, 5, 5, 5};
    struct mds_data_config c = packs;
    int32_t token[17], start[17];
    struct mds_dataset *d;
    int from_long = 0;

    (void)state;
    write_documents("long", longs, 2);
    write_documents("short", shorts, 7);
    c.paths = "3 long 1 short";
    d = open_documents(&c, 16);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_TRAIN), 24 + 1 + 3);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){token, start, NULL}),
                         MDS_OK);
        from_long += start[5] != 5; /* short documents have 5 tokens */
    }
    assert_int_equal(from_long, 300);
    mds_dataset_close(d);
}

static double seen_globally(const struct mds_data_config *c, int64_t seq_length)
{
    return mds_data_seen(c, seq_length, 0).global;
}

/* For plans: what attention computes, of all rows of all sources. */
static void test_share_of_pairs_seen(void **state)
{
    static const int longs[] = {160, 17, 17}, shorts[] = {8, 8, 8, 8, 8, 8};
    struct mds_data_config c = packs;
    double row = 16 * 17 / 2.0, of_shorts = 2 * (8 * 9 / 2) / row;

    (void)state;
    write_documents("long", longs, 3);
    write_documents("short", shorts, 6);
    c.paths = "long"; /* 9 windows and a rest of 16, and two rows of one document */
    assert_true(fabs(seen_globally(&c, 16) - 1) < 1e-9);
    c.paths = "short";
    assert_true(fabs(seen_globally(&c, 16) - of_shorts) < 1e-9);
    c.paths = "3 long 1 short";
    assert_true(fabs(seen_globally(&c, 16) - (3 + of_shorts) / 4) < 1e-9);
    c.paths = "3 long 1 gone";
    assert_true(seen_globally(&c, 16) == 0);
    c.paths = "short";
    c.pack_documents = MDS_PACK_OFF;
    assert_true(seen_globally(&c, 16) == 0);
    c.reset_attention_mask = 1; /* two windows of 20: 8 + 8 + 4, 4 + 8 + 8 */
    assert_true(fabs(seen_globally(&c, 20) - (36 + 36 + 10) / 210.0) < 1e-9);
    c.paths = "long"; /* a window of the first document; too few tokens for another */
    assert_true(fabs(seen_globally(&c, 160) - 1) < 1e-9);
}

/* Shares of pairs in an epoch's samples of S tokens, each pair counted by itself. */
static struct mds_pairs count_pairs(const struct mds_data_config *c, int S, int window)
{
    int32_t token[12], start[12]; /* S <= 11 */
    struct mds_dataset *d = open_documents(c, S);
    int64_t n = mds_dataset_samples(d, MDS_SPLIT_TRAIN);
    double all = (double)n * S * (S + 1) / 2;
    struct mds_pairs pairs = {0, 0};

    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){token, start, NULL}),
                         MDS_OK);
        for (int q = 0; q < S; q++)
            for (int k = start[q]; k <= q; k++) {
                pairs.global++;
                pairs.local += window == 0 || k > q - window;
            }
    }
    mds_dataset_close(d);
    return (struct mds_pairs){pairs.global / all, pairs.local / all};
}

static void test_share_of_pairs_in_windows(void **state)
{
    static const int length[] = {5, 1, 40, 2, 2, 9, 13, 1, 30, 7, 14, 27, 4};
    enum { N = sizeof length / sizeof *length };

    (void)state;
    write_documents("d", length,
                    N); /* 155 tokens: 14 or 22 samples in a row, no shift */
    for (int packed = 0; packed < 2; packed++)
        for (int S = 7; S <= 11; S += packed ? 1 : 4)
            for (int window = 0; window <= S; window++) {
                struct mds_data_config c = {.paths = "d",
                                            .split = "1",
                                            .pack_documents =
                                                packed ? MDS_PACK_ON : MDS_PACK_OFF,
                                            .reset_attention_mask = 1};
                struct mds_pairs got = mds_data_seen(&c, S, window),
                                 want = count_pairs(&c, S, window);

                assert_true(fabs(got.global - want.global) < 1e-12);
                assert_true(fabs(got.local - want.local) < 1e-12);
            }
}

/* The first rows to be evaluated are not all windows of the longest document. */
static void test_evaluation_order(void **state)
{
    static const int length[] = {2000, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    struct mds_data_config c = packs;
    int32_t token[17], start[17];
    struct mds_dataset *d;
    int packed = 0;

    (void)state;
    write_documents("d", length, 17);
    c.split = "0,1,0";
    d = open_documents(&c, 16);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_VALID), 124 + 1 + 16);
    for (int i = 0; i < 70; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_VALID, i,
                                            &(struct mds_sample){token, start, NULL}),
                         MDS_OK);
        packed += token[0] >= 2000;
    }
    assert_in_range(packed, 2, 14);
    mds_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_know_documents),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_every_token_is_a_target_once),
        cmocka_unit_test(test_packing_is_tight),
        cmocka_unit_test(test_nothing_to_pack),
        cmocka_unit_test(test_more_documents_than_32_bits_count),
        cmocka_unit_test(test_packed_mix),
        cmocka_unit_test(test_share_of_pairs_seen),
        cmocka_unit_test(test_share_of_pairs_in_windows),
        cmocka_unit_test(test_evaluation_order),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
