/* SPDX-License-Identifier: BSD-3-Clause */
/* data: what packed rows cost, and the kinds of their tokens. */
#include "documents.h"

#include "data/balance.h"
#include "data/kinds.h"
#include "data/token_file.h"
#include "data/permute.h"

/* ---- balance ---- */

/* The most expensive of so many equal parts of a batch, over the mean. */
static double most_over_mean(const double *cost, const int64_t *order, int n, int parts)
{
    double all = 0, most = 0;

    for (int k = 0; k < parts; k++) {
        double sum = 0;

        for (int i = k * n / parts; i < (k + 1) * n / parts; i++)
            sum += cost[order ? order[i] : i];
        all += sum;
        most = sum > most ? sum : most;
    }
    return most / (all / parts);
}

/* Global batches of packed documents of heavy-tailed lengths: half of them are shorter
 * than a sixtieth of a row, some longer than a row. */
static void test_ranks_get_like_work(void **state)
{
    enum { DOCUMENTS = 20000, S = 8192, BATCH = 64, BATCHES = 20 };
    static int length[DOCUMENTS];
    const struct mds_data_config c = {
        .paths = "d", .split = "1", .pack_documents = MDS_PACK_ON};
    struct mds_dataset *d;
    struct mds_balance *b;
    double *cost;

    (void)state;
    for (int i = 0; i < DOCUMENTS; i++)
        length[i] =
            2 +
            (int)(128 / (1e-2 + (double)(mds_hash(5, (uint64_t)i) % 4096) / 4096 * 2));
    write_documents("d", length, DOCUMENTS);
    d = open_documents(&c, S);
    assert_int_equal(mds_balance_create(BATCH, &b), MDS_OK);
    cost = mds_balance_costs(b);
    for (int ranks = 2; ranks <= 16; ranks *= 2) {
        double before = 0, after = 0;

        for (int i = 0; i < BATCHES; i++) {
            for (int row = 0; row < BATCH; row++)
                assert_int_equal(
                    mds_dataset_pairs(d, MDS_SPLIT_TRAIN, i * BATCH + row, &cost[row]),
                    MDS_OK);
            before += most_over_mean(cost, NULL, BATCH, ranks) / BATCHES;
            after += most_over_mean(cost, mds_balance_order(b, BATCH), BATCH, ranks) /
                     BATCHES;
        }
        print_message("%d ranks: attention of the busiest over the mean %.3f, in order "
                      "of samples %.3f\n",
                      ranks, after, before);
        assert_true(after < 1.15 && before > 1.1 && after < before);
    }
    mds_balance_destroy(b);
    mds_dataset_close(d);
}

/* Every row once, for any number of them; in their old order if all cost the same. */
static void test_balance_keeps_rows(void **state)
{
    (void)state;
    for (int n = 1; n < 60; n++)
        for (int equal = 0; equal < 2; equal++) {
            char seen[60] = {0};
            const int64_t *order;
            struct mds_balance *b;

            assert_int_equal(mds_balance_create(n, &b), MDS_OK);
            for (int i = 0; i < n; i++)
                mds_balance_costs(b)[i] = equal ? 5 : (double)(i * i % 7);
            order = mds_balance_order(b, n);
            for (int i = 0; i < n; i++) {
                assert_in_range(order[i], 0, n - 1);
                assert_false(seen[order[i]]++);
                assert_true(!equal || order[i] == i);
            }
            mds_balance_destroy(b);
        }
}

/* The pairs of a packed row are those that its starts let attention compute. */
static void test_pairs_are_of_the_row(void **state)
{
    static const int length[] = {5, 1, 40, 2, 2, 9, 1, 30, 7};
    enum { S = 11, N = sizeof length / sizeof *length };
    const struct mds_data_config c = {
        .paths = "d", .split = "1", .pack_documents = MDS_PACK_ON};
    int32_t token[S + 1], start[S + 1];
    struct mds_dataset *d;

    (void)state;
    write_documents("d", length, N);
    d = open_documents(&c, S);
    for (int64_t i = 0; i < mds_dataset_samples(d, MDS_SPLIT_TRAIN); i++) {
        double pairs, want = 0;

        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){token, start, NULL}),
                         MDS_OK);
        assert_int_equal(mds_dataset_pairs(d, MDS_SPLIT_TRAIN, i, &pairs), MDS_OK);
        for (int k = 0; k < S; k++) /* padding has a start each */
            if (start[k] < k || start[k + 1] == k)
                want += k - start[k] + 1;
        assert_true(pairs == want);
    }
    mds_dataset_close(d);
}

/* ---- kinds ---- */

static const struct mds_kind three_kinds[] = {
    {"text", 1}, {"repeat", 0.25}, {"tag", 0}};

/* Beside the pair `prefix` of so many tokens: token t is of kind t % 3. */
static void write_kinds(const char *prefix, int64_t tokens,
                        const struct mds_kind kinds[3])
{
    unsigned char *of_token = malloc((size_t)tokens);
    struct mds_h5_dataset *set;
    struct mds_h5 *f;
    char path[64];

    snprintf(path, sizeof path, "%s.kinds.h5", prefix);
    for (int64_t t = 0; t < tokens; t++)
        of_token[t] = (unsigned char)(t % 3);
    assert_int_equal(mds_h5_create(path, path, &f), MDS_OK);
    assert_int_equal(mds_kinds_write(f, path, kinds, 3), MDS_OK);
    assert_int_equal(mds_h5_dataset_create(f, "/kinds/of_token", MDS_H5_U8, &set),
                     MDS_OK);
    assert_int_equal(mds_h5_dataset_append(set, of_token, tokens), MDS_OK);
    assert_int_equal(mds_h5_dataset_close(set), MDS_OK);
    assert_int_equal(mds_h5_close(f), MDS_OK);
    free(of_token);
}

/* In windows and in packed rows, each token has its kind; padding has the first. */
static void test_tokens_keep_their_kinds(void **state)
{
    static const int length[] = {5, 1, 0, 40, 2, 2, 9, 0, 0, 1, 30, 7};
    enum { S = 11, N = sizeof length / sizeof *length };
    int32_t token[S + 1], start[S + 1];
    unsigned char kind[S + 1];

    (void)state;
    write_kinds("k", write_documents("k", length, N), three_kinds);
    for (int on = 0; on < 2; on++) {
        const struct mds_data_config c = {.paths = "k",
                                          .split = "1",
                                          .pack_documents =
                                              on ? MDS_PACK_ON : MDS_PACK_OFF};
        struct mds_dataset *d = open_documents(&c, S);
        int64_t n = mds_dataset_samples(d, MDS_SPLIT_TRAIN);

        assert_int_equal(mds_dataset_kinds(d).n, 3);
        assert_string_equal(mds_dataset_kinds(d).kind[1].name, "repeat");
        for (int64_t i = 0; i < 2 * n; i++) {
            assert_int_equal(
                mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                   &(struct mds_sample){token, start, kind}),
                MDS_OK);
            for (int k = 0; k <= S; k++)
                assert_int_equal(kind[k], token[k] % 3); /* token 0 pads */
        }
        mds_dataset_close(d);
    }
}

/* Kinds of several files are one table, by name. */
static void test_kinds_of_a_mix(void **state)
{
    static const struct mds_kind others[] = {{"tag", 0}, {"code", 2}, {"text", 1}};
    static const struct mds_kind unlike[] = {{"tag", 0}, {"code", 2}, {"text", 3}};
    static const unsigned char want[3][3] = {{0, 1, 2}, {2, 3, 0}, {4, 4, 4}};
    const struct mds_data_config c = {.paths = "1 k0 1 k1 1 k2", .split = "1"};
    const int length = 40;
    enum { S = 7 };
    unsigned char kind[S + 1];
    struct mds_dataset *d;
    int32_t token[S + 1];

    (void)state;
    write_kinds("k0", write_documents("k0", &length, 1), three_kinds);
    write_kinds("k1", write_documents("k1", &length, 1), others);
    write_documents("k2", &length, 1);
    d = open_documents(&c, S);
    assert_int_equal(mds_dataset_kinds(d).n, 5);
    assert_string_equal(mds_dataset_kinds(d).kind[3].name, "code");
    assert_string_equal(mds_dataset_kinds(d).kind[4].name, "other");
    for (int64_t i = 0; i < 30; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){token, NULL, kind}),
                         MDS_OK);
        for (int k = 0; k <= S; k++)
            assert_int_equal(kind[k], want[i % 3][token[k] % 3]);
    }
    mds_dataset_close(d);
    write_kinds("k1", length, unlike);
    assert_fails(mds_dataset_open(&c, S, 7, &d), MDS_EUSER,
                 "tokens of kind 'text' weigh 3, but 1 in another file");
}

/* ---- Megatron pairs ---- */

/* The same documents as a token file, with kinds as in write_kinds. */
static void write_token_file(const char *path, const int *length, int n)
{
    struct mds_vocabulary v = {MDS_TOKENIZER_IDS, 1000, 0}; /* pads with 0, too */
    struct mds_token_file *f;
    int32_t id = 0;

    assert_int_equal(mds_token_file_create(path, &v, &f), MDS_OK);
    assert_int_equal(mds_token_file_set_kinds(f, three_kinds, 3), MDS_OK);
    for (int i = 0; i < n; i++) {
        for (int32_t end = id + length[i]; id < end; id++) {
            unsigned char kind = (unsigned char)(id % 3);

            assert_int_equal(mds_token_file_add_kinds(f, &id, &kind, 1), MDS_OK);
        }
        assert_int_equal(mds_token_file_ended_document(f), MDS_OK);
    }
    assert_int_equal(mds_token_file_finish(f, "", "test"), MDS_OK);
}

/* Samples of both data sets have the same tokens, starts and kinds. */
static void check_same_samples(const struct mds_data_config *a,
                               const struct mds_data_config *b, enum mds_split split)
{
    enum { S = 11 };
    struct mds_dataset *d[] = {open_documents(a, S), open_documents(b, S)};

    int64_t n = split == MDS_SPLIT_TRAIN ? 60 : mds_dataset_samples(d[0], split);

    for (int64_t i = 0; i < n; i++) {
        int32_t token[2][S + 1], start[2][S + 1];
        unsigned char kind[2][S + 1];

        for (int k = 0; k < 2; k++)
            if (mds_dataset_sample(d[k], split, i,
                                   &(struct mds_sample){token[k], start[k], kind[k]}))
                fail_msg("%s", mds_fail_text());
        assert_memory_equal(token[0], token[1], sizeof token[0]);
        assert_memory_equal(start[0], start[1], sizeof start[0]);
        assert_memory_equal(kind[0], kind[1], sizeof kind[0]);
    }
    mds_dataset_close(d[0]);
    mds_dataset_close(d[1]);
}

/* Alone, in a mix, and with files for each split: packed, with overlapping windows, and
 * not packed. */
static void test_megatron_pairs_are_read_as_token_files(void **state)
{
    static const int one[] = {5, 1, 40, 2, 2, 9, 1, 30, 7},
                     two[] = {60, 8, 3, 40, 2, 35, 9, 30};
    static const struct {
        enum mds_pack pack;
        int64_t stride;
    } ways[] = {{MDS_PACK_OFF, 0}, {MDS_PACK_ON, 0}, {MDS_PACK_ON, 4}};

    (void)state;
    write_kinds("one", write_documents("one", one, 9), three_kinds);
    write_kinds("two", write_documents("two", two, 8), three_kinds);
    write_token_file("one.h5", one, 9);
    write_token_file("two.h5", two, 8);
    for (int i = 0; i < 3; i++) {
        struct mds_data_config a = {.paths = "0.7 one 0.3 two",
                                    .split = "2,1,1",
                                    .pack_documents = ways[i].pack,
                                    .window_stride = ways[i].stride};
        struct mds_data_config b = a;

        b.paths = "0.7 one.h5 0.3 two.h5";
        for (enum mds_split s = MDS_SPLIT_TRAIN; s < MDS_SPLITS; s++)
            check_same_samples(&a, &b, s);
        a.paths = b.paths = NULL;
        a.train_paths = a.test_paths = "one";
        b.train_paths = b.test_paths = "one.h5";
        a.valid_paths = "1 two 2 one";
        b.valid_paths = "1 two.h5 2 one.h5";
        for (enum mds_split s = MDS_SPLIT_TRAIN; s < MDS_SPLITS; s++)
            check_same_samples(&a, &b, s);
    }
}

/* ---- overlapping windows ---- */

/* Each token but its document's first is a target once; and in a document that is cut
 * it sees as many tokens before it as the overlap has. */
static void check_stride(const int *length, int n, int64_t S, int64_t stride)
{
    const struct mds_data_config c = {.paths = "d",
                                      .split = "1",
                                      .pack_documents = MDS_PACK_ON,
                                      .window_stride = stride};
    int32_t *token = calloc((size_t)S + 1, sizeof *token);
    int32_t *start = calloc((size_t)S + 1, sizeof *start);
    unsigned char *kind = calloc((size_t)S + 1, 1);
    int64_t tokens = write_documents("d", length, n), at = 0;
    int *targets = calloc((size_t)tokens, sizeof *targets);
    int64_t *least = calloc((size_t)tokens, sizeof *least);
    struct mds_dataset *d = open_documents(&c, S);
    int64_t rows = mds_dataset_samples(d, MDS_SPLIT_TRAIN);

    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){token, start, kind}),
                         MDS_OK);
        for (int64_t k = 1; k <= S; k++)
            if (start[k] < k && kind[k] != MDS_KIND_MASKED) {
                targets[token[k]]++;
                least[token[k]] = k - start[k];
            }
    }
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < length[i]; k++, at++) {
            assert_int_equal(targets[at], k > 0);
            assert_true(least[at] >= (k < S - stride + 1 ? k : S - stride + 1));
        }
    mds_dataset_close(d);
    free(token);
    free(start);
    free(kind);
    free(targets);
    free(least);
}

static void test_windows_overlap(void **state)
{
    static const int some[] = {5, 1, 40, 0, 2, 17, 18, 2, 9, 1, 30, 7, 33, 34, 16};
    enum { N = sizeof some / sizeof *some };

    (void)state;
    for (int64_t S = 1; S <= 40; S++)
        for (int64_t stride = 1; stride <= S; stride += 1 + S / 7)
            check_stride(some, N, S, stride);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_get_like_work),
        cmocka_unit_test(test_balance_keeps_rows),
        cmocka_unit_test(test_pairs_are_of_the_row),
        cmocka_unit_test(test_tokens_keep_their_kinds),
        cmocka_unit_test(test_kinds_of_a_mix),
        cmocka_unit_test(test_megatron_pairs_are_read_as_token_files),
        cmocka_unit_test(test_windows_overlap),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
