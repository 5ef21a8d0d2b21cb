/* SPDX-License-Identifier: BSD-3-Clause */
/* data: splits, permutations, mixes, and the windows of a data set. */
#include "scratch.h"

#include <math.h>

#include "config/options.h"
#include "data/complement.h"
#include "data/dataset_impl.h"
#include "data/make.h"
#include "data/mix.h"
#include "data/paths.h"
#include "data/permute.h"
#include "data/split.h"

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

/* ---- splits, permutations, mixes ------------------------------------------------- */

static void test_splits_tile_the_source(void **state)
{
    static const char *const texts[] = {"949,50,1", "1,1,1", "98,2,0",
                                        "0,0,1",    "1",     "0,1"};
    double v[MDS_SPLITS];
    int64_t b[MDS_SPLITS + 1];

    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        assert_true(mds_split_shares(texts[t], v));
        for (int64_t tokens = 0; tokens < 5000; tokens += 1 + tokens / 7) {
            mds_split_bounds(v, tokens, b);
            assert_int_equal(b[0], 0);
            assert_int_equal(b[MDS_SPLITS], tokens);
            for (int s = 0; s < MDS_SPLITS; s++) {
                assert_true(b[s] <= b[s + 1]);
                assert_true(fabs((double)(b[s + 1] - b[s]) - v[s] * (double)tokens) <=
                            1);
                if (v[s] == 0)
                    assert_int_equal(b[s], b[s + 1]);
            }
        }
    }
    assert_true(mds_split_shares("949,50,1", v));
    mds_split_bounds(v, INT64_C(3000000000000), b);
    assert_int_equal(b[1], INT64_C(2847000000000));
}

static void test_permutation_is_a_bijection(void **state)
{
    static const int sizes[] = {1,  2,  3,  4,  5,    7,    15,   16,
                                17, 63, 64, 65, 1000, 4097, 65537};
    static unsigned char seen[65537];

    (void)state;
    for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++)
        for (uint64_t key = 0; key < 3; key++) {
            int n = sizes[t], in_place = 0;

            memset(seen, 0, sizeof seen);
            for (int i = 0; i < n; i++) {
                int64_t to = mds_permute(key, n, i);

                assert_in_range(to, 0, n - 1);
                assert_int_equal(seen[to]++, 0);
                in_place += to == i;
            }
            if (n >= 1000) /* about 1 of a random permutation */
                assert_in_range(in_place, 0, 10);
        }
    /* Large n, where only samples can be looked at. */
    for (int i = 0; i < 1000; i++)
        assert_in_range(mds_permute(5, INT64_C(1) << 40, i), 0, (INT64_C(1) << 40) - 1);
}

/* Every key gives another order, and neighbours do not stay neighbours. */
static void test_permutation_mixes(void **state)
{
    enum { N = 6, KEYS = 7200 };
    int first[N] = {0}, adjacent = 0;

    (void)state;
    for (uint64_t key = 0; key < KEYS; key++)
        first[mds_permute(key, N, 0)]++;
    for (int i = 0; i < N; i++)
        assert_in_range(first[i], 1000, 1400); /* 1200 expected, sigma 32 */
    for (int i = 0; i + 1 < 10000; i++)
        adjacent += llabs(mds_permute(1, 10000, i) - mds_permute(1, 10000, i + 1)) == 1;
    assert_in_range(adjacent, 0, 12); /* 2 expected */
}

static void test_mix_keeps_its_shares(void **state)
{
    static const double weights[] = {0.7, 0.2, 0.1, 1e-9};
    int64_t had[4] = {0}, within;
    struct mds_mix *m;
    int k;

    (void)state;
    assert_int_equal(mds_mix_create(weights, 4, &m), MDS_OK);
    for (int64_t i = 0; i < 3 * MDS_MIX_PERIOD; i++) {
        mds_mix_pick(m, i, &k, &within);
        assert_int_equal(within, had[k]); /* each sample of a source once, in order */
        had[k]++;
        for (int j = 0; j < 3; j++) /* never further than 2 samples from its share */
            assert_true(fabs((double)had[j] - weights[j] * (double)(i + 1)) <
                        2 + (double)i * 2 / MDS_MIX_PERIOD);
    }
    assert_int_equal(had[3], 3); /* a slot in each period, however small the weight */
    mds_mix_destroy(m);
    assert_fails(mds_mix_create((double[]){1, 0}, 2, &m), MDS_EUSER,
                 "weight 0 of source 2");
}

static void test_paths(void **state)
{
    struct mds_paths p;

    (void)state;
    assert_int_equal(mds_paths_parse("--data-path", "a.h5", &p), MDS_OK);
    assert_int_equal(p.n, 1);
    assert_string_equal(p.path[0], "a.h5");
    mds_paths_fini(&p);
    assert_int_equal(mds_paths_parse("--data-path", " 0.3 a.h5\t7 dir/b ", &p), MDS_OK);
    assert_int_equal(p.n, 2);
    assert_string_equal(p.path[1], "dir/b");
    assert_true(p.weight[0] == 0.3 && p.weight[1] == 7);
    mds_paths_fini(&p);
    write_text("with blank.h5", "");
    assert_int_equal(mds_paths_parse("--data-path", "with blank.h5", &p), MDS_OK);
    assert_int_equal(p.n, 1);
    mds_paths_fini(&p);
    write_text("as Megatron has it.idx", "");
    assert_int_equal(mds_paths_parse("--data-path", "as Megatron has it", &p), MDS_OK);
    assert_int_equal(p.n, 1);
    mds_paths_fini(&p);
    assert_int_equal(mds_paths_parse("--data-path",
                                     "0.3 with blank.h5 1 as Megatron has it 2 gone.h5",
                                     &p),
                     MDS_OK);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.path[0], "with blank.h5");
    assert_string_equal(p.path[1], "as Megatron has it");
    assert_string_equal(p.path[2], "gone.h5");
    assert_true(p.weight[0] == 0.3 && p.weight[1] == 1 && p.weight[2] == 2);
    mds_paths_fini(&p);
    assert_int_equal(mds_paths_parse("--data-path", "1 as Megatron has it", &p),
                     MDS_OK);
    assert_string_equal(p.path[0], "as Megatron has it");
    mds_paths_fini(&p);
    assert_fails(mds_paths_parse("--data-path", "1 no blank.h5 2 a.h5", &p), MDS_EUSER,
                 "'blank.h5' is not a weight");
    assert_fails(mds_paths_parse("--data-path", "a.h5 b.h5", &p), MDS_EUSER,
                 "'a.h5' is not a weight");
    assert_fails(mds_paths_parse("--data-path", "1 a.h5 2", &p), MDS_EUSER,
                 "no path after weight 2");
    assert_fails(mds_paths_parse("--data-path", "-1 a.h5", &p), MDS_EUSER,
                 "'-1' is not a weight");
    assert_fails(mds_paths_parse("--data-path", " ", &p), MDS_EUSER,
                 "no data: give --data-path");
    assert_fails(mds_paths_parse("--data-path", NULL, &p), MDS_EUSER, "no data");
}

/* ---- data sets ------------------------------------------------------------------- */

static unsigned char *put(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

/* Token t of the file is t, so that windows tell where they came from. */
static void make_counting(const char *prefix, int tokens)
{
    unsigned char idx[128], *p = idx, *bin = malloc((size_t)tokens * 4);
    char name[64];

    memcpy(p, "MMIDIDX\0\0", 9);
    p = put(put(put(put(p + 9, 1, 8), 4, 1), 1, 8), 2, 8);
    p = put(put(put(put(p, (uint64_t)tokens, 4), 0, 8), 0, 8), 1, 8);
    for (int i = 0; i < tokens; i++)
        put(bin + 4 * i, (uint64_t)i, 4);
    snprintf(name, sizeof name, "%s.idx", prefix);
    write_file(name, idx, (size_t)(p - idx));
    snprintf(name, sizeof name, "%s.bin", prefix);
    write_file(name, bin, (size_t)tokens * 4);
    free(bin);
}

/* As two ranks would. */
static enum mds_rc open_settled(const struct mds_data_config *c, int64_t seq_length,
                                uint64_t seed, struct mds_dataset **d)
{
    int64_t largest[2];
    enum mds_rc rc;

    MDS_TRY(mds_dataset_open(c, seq_length, seed, d));
    rc = mds_dataset_require(*d, MDS_SPLIT_TRAIN);
    if (rc) {
        mds_dataset_close(*d);
        return rc;
    }
    for (int part = 0; part < 2; part++)
        assert_int_equal(mds_dataset_largest_id(*d, part, 2, &largest[part]), MDS_OK);
    rc = mds_dataset_set_vocab(*d, largest[largest[1] > largest[0]]);
    if (rc)
        mds_dataset_close(*d);
    return rc;
}

static struct mds_dataset *open_data(char *paths, char *split, int64_t seq_length,
                                     uint64_t seed)
{
    struct mds_data_config c = {.paths = paths, .split = split};
    struct mds_dataset *d;

    assert_int_equal(open_settled(&c, seq_length, seed, &d), MDS_OK);
    return d;
}

static void test_epochs_cover_tokens_once(void **state)
{
    enum { TOKENS = 1000, S = 7, FIRST = 800 };
    int32_t window[S + 1];
    struct mds_dataset *d;
    int64_t n, orders_differ = 0, shifts_differ = 0, previous[200] = {0};

    (void)state;
    make_counting("c", TOKENS);
    d = open_data("c", "8,1,1", S, 1234);
    n = mds_dataset_samples(d, MDS_SPLIT_TRAIN);
    assert_int_equal(n, (FIRST - 1) / S);
    assert_int_equal(mds_dataset_tokens(d, MDS_SPLIT_TRAIN), FIRST);
    assert_int_equal(mds_dataset_vocab(d), TOKENS);
    for (int epoch = 0; epoch < 20; epoch++) {
        char target[TOKENS] = {0};
        int32_t lowest = TOKENS;

        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(
                mds_dataset_sample(d, MDS_SPLIT_TRAIN, epoch * n + i,
                                   &(struct mds_sample){window, NULL, NULL}),
                MDS_OK);
            for (int j = 1; j <= S; j++) {
                assert_int_equal(window[j], window[0] + j);
                assert_in_range(window[j], 1, FIRST - 1);
                assert_int_equal(target[window[j]]++, 0);
            }
            orders_differ += epoch > 0 && window[0] / S != previous[i] / S;
            previous[i] = window[0];
            lowest = window[0] < lowest ? window[0] : lowest;
        }
        assert_in_range(lowest, 0, (FIRST - 1) % S);
        shifts_differ += lowest != 0;
    }
    assert_true(orders_differ > 19 * n * 9 / 10);
    assert_true(shifts_differ > 0);
    mds_dataset_close(d);
}

static void test_held_out_windows_are_in_file_order(void **state)
{
    enum { S = 16 };
    struct mds_dataset *d;
    int32_t a[S + 1];
    int64_t n;

    (void)state;
    make_counting("c", 1000);
    d = open_data("c", "8,1,1", S, 1);
    n = mds_dataset_samples(d, MDS_SPLIT_VALID);
    assert_int_equal(n, 99 / S);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_VALID, i,
                                            &(struct mds_sample){a, NULL, NULL}),
                         MDS_OK);
        assert_int_equal(a[0], 800 + i * S);
        assert_in_range(a[S], 800, 899);
    }
    assert_fails(
        mds_dataset_sample(d, MDS_SPLIT_VALID, n, &(struct mds_sample){a, NULL, NULL}),
        MDS_EBUG, "sample 6");
    assert_int_equal(
        mds_dataset_sample(d, MDS_SPLIT_TEST, 0, &(struct mds_sample){a, NULL, NULL}),
        MDS_OK);
    assert_int_equal(a[0], 900);
    mds_dataset_close(d);
}

/* Each once, whatever the weights. */
static void test_held_out_windows_of_a_mix(void **state)
{
    enum { S = 16 };
    struct mds_data_config c = {.paths = "0.9 c 0.1 long 3 c", .split = "8,1,1"};
    struct mds_dataset *d;
    int32_t a[S + 1];
    int64_t n = 0;

    (void)state;
    make_counting("c", 1000);
    make_counting("long", 5000);
    assert_int_equal(open_settled(&c, S, 1, &d), MDS_OK);
    assert_int_equal(mds_dataset_files(d, MDS_SPLIT_VALID), 3);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_VALID), 6 + 31 + 6);
    for (int k = 0; k < 3; k++) {
        int64_t all = mds_dataset_file_samples(d, MDS_SPLIT_VALID, k);

        assert_string_equal(mds_dataset_file(d, MDS_SPLIT_VALID, k),
                            k == 1 ? "long.bin" : "c.bin");
        assert_int_equal(all, k == 1 ? 31 : 6);
        for (int64_t i = 0; i < all; i++, n++) {
            assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_VALID, n,
                                                &(struct mds_sample){a, NULL, NULL}),
                             MDS_OK);
            assert_int_equal(a[0], (k == 1 ? 4000 : 800) + i * S);
        }
    }
    mds_dataset_close(d);
}

static void test_order_depends_on_seed_alone(void **state)
{
    enum { S = 16 };
    int32_t a[S + 1], b[S + 1];
    struct mds_dataset *one, *same, *other;
    int differ = 0;

    (void)state;
    make_counting("c", 10000);
    one = open_data("c", "1", S, 1);
    same = open_data("c.bin", "1", S, 1);
    other = open_data("c", "1", S, 2);
    for (int64_t i = 2000; i-- > 0;) { /* backwards: no hidden state */
        assert_int_equal(mds_dataset_sample(one, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){a, NULL, NULL}),
                         MDS_OK);
        assert_int_equal(mds_dataset_sample(same, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){b, NULL, NULL}),
                         MDS_OK);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(mds_dataset_sample(other, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){b, NULL, NULL}),
                         MDS_OK);
        differ += memcmp(a, b, sizeof a) != 0;
    }
    assert_true(differ > 1900);
    mds_dataset_close(one);
    mds_dataset_close(same);
    mds_dataset_close(other);
}

/* A checkpoint holds how many samples were seen, not which: whoever resumes with a
 * later version counts on the same order, over epochs and mixes. */
static void test_order_is_as_ever(void **state)
{
    enum { S = 10 };
    int32_t window[S + 1];
    uint64_t hash = UINT64_C(14695981039346656037);
    struct mds_dataset *d;

    (void)state;
    make_counting("small", 106);
    make_counting("large", 10009);
    d = open_data("1 small 3 large 2.5 large", "8,1,1", S, 0x123456789abc);
    for (int64_t i = 0; i < 3 * MDS_MIX_PERIOD; i += 1 + i / 97) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){window, NULL, NULL}),
                         MDS_OK);
        hash = (hash ^ (uint64_t)window[0]) * UINT64_C(1099511628211);
    }
    assert_true(hash == UINT64_C(0x916f2312f5386ca0));
    mds_dataset_close(d);
}

/* What the line says is enough, is. */
static void test_the_share_that_is_told_is_enough(void **state)
{
    struct mds_data_config c = {.paths = "many", .split = "1,1,1"};
    struct mds_dataset *d;

    (void)state;
    make_counting("many", 10000);
    assert_fails(
        open_settled(&c, 3333, 1, &d), MDS_EUSER,
        "leaves 3333 tokens for training, but a window takes 3334 "
        "(--seq-length 3333 and its target): use --seq-length 3332 or less, or "
        "give training at least 33.34 %");
    c.split = "33.34,66.66";
    assert_int_equal(open_settled(&c, 3333, 1, &d), MDS_OK);
    mds_dataset_close(d);
}

static void test_short_splits_are_named(void **state)
{
    struct mds_data_config c = {.paths = "c", .split = "90,9,1"};
    struct mds_dataset *d;
    int32_t window[21];

    (void)state;
    make_counting("c", 1000);
    assert_fails(
        open_settled(&c, 1000, 1, &d), MDS_EUSER,
        "c.bin: 1000 tokens in all, but a window takes 1001 (--seq-length 1000 "
        "and its target): use --seq-length 899 or less");
    assert_fails(
        open_settled(&c, 950, 1, &d), MDS_EUSER,
        "c.bin: --split 90,9,1 leaves 900 tokens for training, but a window takes "
        "951 (--seq-length 950 and its target): use --seq-length 899 or less, or "
        "give training at least 95.1 %");
    c.split = "90,9,1";
    assert_int_equal(open_settled(&c, 600, 1, &d), MDS_OK);
    assert_fails(mds_dataset_require(d, MDS_SPLIT_VALID), MDS_EUSER,
                 "use --seq-length 89 or less, or --eval-iters 0");
    mds_dataset_close(d);
    c.split = "1,999,0";
    assert_fails(open_settled(&c, 1000, 1, &d), MDS_EUSER,
                 "use --seq-length 999 or less with --split 1,0,0");
    make_counting("none", 0);
    c.paths = "none";
    assert_fails(open_settled(&c, 1000, 1, &d), MDS_EUSER,
                 "none.bin: has no tokens, too few for a window");
    make_counting("none", 1);
    assert_fails(open_settled(&c, 1000, 1, &d), MDS_EUSER,
                 "none.bin: has one token, too few for a window");
    c = (struct mds_data_config){.paths = "c", .split = "90,9,1"};
    assert_int_equal(open_settled(&c, 20, 1, &d), MDS_OK);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_TEST), 0);
    assert_fails(mds_dataset_require(d, MDS_SPLIT_TEST), MDS_EUSER,
                 "leaves 10 tokens for test");
    assert_fails(mds_dataset_sample(d, MDS_SPLIT_TEST, 0,
                                    &(struct mds_sample){window, NULL, NULL}),
                 MDS_EUSER, "use --seq-length 9 or less");
    assert_int_equal(mds_dataset_require(d, MDS_SPLIT_VALID), MDS_OK);
    mds_dataset_close(d);
    c.split = "1";
    assert_int_equal(open_settled(&c, 999, 1, &d), MDS_OK);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_TRAIN), 1);
    assert_fails(
        mds_dataset_require(d, MDS_SPLIT_VALID), MDS_EUSER,
        "--split 1 leaves 0 tokens for validation, but a window takes 1000: give "
        "validation at least 100 %, or --eval-iters 0");
    mds_dataset_close(d);
}

static enum mds_rc make(enum mds_tokenizer t, const char *input, const char *output)
{
    struct mds_make_stats stats;
    struct mds_make m = {.overwrite = 1,
                         .vocabulary = mds_tokenizer_vocabulary(t),
                         .reading = {1, MDS_STRAND_FORWARD},
                         .output = output,
                         .inputs = &input,
                         .n_inputs = 1,
                         .lowercase_weight = -1,
                         .command = "test"};

    return mds_make_tokens(&m, &stats);
}

static void test_files_of_their_own(void **state)
{
    enum { S = 10 };
    struct mds_data_config c = {
        .train_paths = "1 small 1 large", .valid_paths = "mid", .split = "949,50,1"};
    int32_t window[S + 1];
    struct mds_dataset *d;

    (void)state;
    make_counting("small", 101);
    make_counting("mid", 201);
    make_counting("large", 10001);
    assert_int_equal(open_settled(&c, S, 5, &d), MDS_OK);
    assert_int_equal(mds_dataset_tokens(d, MDS_SPLIT_TRAIN), 10102);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_TRAIN), 1010);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_VALID), 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_VALID, i,
                                            &(struct mds_sample){window, NULL, NULL}),
                         MDS_OK);
        assert_int_equal(window[0], i * S);
    }
    assert_string_equal(d->describe.s,
                        "1 small.bin + 1 large.bin, validation mid.bin: Megatron ids, "
                        "10.30 k tokens, 10001 words");
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_TEST), 0);
    assert_fails(mds_dataset_require(d, MDS_SPLIT_TEST), MDS_EUSER,
                 "no test data: give --test-data-path");
    assert_fails(mds_dataset_sample(d, MDS_SPLIT_TEST, 0,
                                    &(struct mds_sample){window, NULL, NULL}),
                 MDS_EUSER, "no test data");
    mds_dataset_close(d);
    c.valid_paths = "1 mid small";
    assert_fails(open_settled(&c, S, 5, &d), MDS_EUSER,
                 "--valid-data-path: 'small' is not a weight");
}

static void test_mixed_data(void **state)
{
    enum { S = 10 };
    struct mds_data_config c = {.paths = "1 a.h5 1 b.h5", .split = "1"};
    int32_t window[S + 1];
    struct mds_dataset *d;
    int from_small = 0;

    (void)state;
    make_counting("small", 101);
    make_counting("large", 10001);
    d = open_data("1 small 3 large", "1", S, 5);
    assert_int_equal(mds_dataset_samples(d, MDS_SPLIT_TRAIN), 1010);
    assert_string_equal(d->describe.s, "1 small.bin + 3 large.bin: Megatron ids,"
                                       " 10.10 k tokens, 10001 words");
    for (int i = 0; i < 4000; i++) {
        assert_int_equal(mds_dataset_sample(d, MDS_SPLIT_TRAIN, i,
                                            &(struct mds_sample){window, NULL, NULL}),
                         MDS_OK);
        from_small += window[S] <= 100;
    }
    assert_in_range(from_small, 1000, 1060); /* a few windows of large look alike */
    mds_dataset_close(d);

    write_text("n.fa", ">r\nACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGT\n");
    assert_int_equal(make(MDS_TOKENIZER_CODON, "n.fa", "a.h5"), MDS_OK);
    assert_int_equal(make(MDS_TOKENIZER_NUCLEOTIDE, "n.fa", "b.h5"), MDS_OK);
    assert_fails(open_settled(&c, S, 1, &d), MDS_EUSER,
                 "a.h5 (codon, 66 words) and b.h5 (nucleotide, 6 words) differ");
    c.paths = "1 a.h5 1 small";
    assert_fails(
        open_settled(&c, S, 1, &d), MDS_EUSER,
        "a.h5: vocabulary of 66 words, but another file has token ids up to 100");
}

static void test_entropy(void **state)
{
    struct mds_dataset *d;
    double nats;

    (void)state;
    write_text("h.fa", ">r\nAACC\n");
    assert_int_equal(make(MDS_TOKENIZER_NUCLEOTIDE, "h.fa", "h.h5"), MDS_OK);
    d = open_data("h.h5", "1", 2, 1);
    assert_string_equal(d->describe.s, "h.h5: nucleotide, 5 tokens, 6 words");
    assert_int_equal(mds_dataset_entropy(d, MDS_SPLIT_TRAIN, &nats), MDS_OK);
    assert_true(fabs(nats - (0.8 * log(2.5) + 0.2 * log(5.0))) < 1e-12);
    mds_dataset_close(d);
    /* Half of 0 1 2 3, half of 0 1: 3/8 3/8 1/8 1/8. */
    make_counting("four", 4);
    make_counting("two", 2);
    d = open_data("1 four 1 two", "1", 1, 1);
    assert_int_equal(mds_dataset_entropy(d, MDS_SPLIT_TRAIN, &nats), MDS_OK);
    assert_true(fabs(nats - (0.75 * log(8.0 / 3) + 0.25 * log(8))) < 1e-12);
    mds_dataset_close(d);
}

/* The words of a row of a data set, joined. */
static void read_row(struct mds_dataset *d, enum mds_split split, int64_t i, int S,
                     char *got)
{
    int32_t window[64];

    assert_int_equal(
        mds_dataset_sample(d, split, i, &(struct mds_sample){window, NULL, NULL}),
        MDS_OK);
    for (int j = 0; j <= S; j++)
        got += sprintf(got, "%s", d->sources[0]->words[window[j]]);
}

static void reverse_text(const char *from, char *to)
{
    size_t n = strlen(from);

    for (size_t i = 0; i < n; i++) {
        const char *at = strchr("ACGTN", from[n - 1 - i]);

        assert_non_null(at);
        to[i] = "TGCAN"[at - "ACGTN"];
    }
    to[n] = '\0';
}

static void test_samples_are_reversed_by_seed(void **state)
{
    static const char bases[] = "ACGTN";
    static const enum mds_tokenizer tokenizers[] = {
        MDS_TOKENIZER_CODON, MDS_TOKENIZER_NUCLEOTIDE, MDS_TOKENIZER_DNA,
        MDS_TOKENIZER_6MER};
    enum { S = 7, SAMPLES = 100 };
    struct mds_data_config c = {.paths = "r.h5", .split = "9,1,0"};
    char plain[128], want[128], got[128], text[7010];
    struct mds_dataset *none;

    (void)state;
    memcpy(text, ">r\n", 3);
    for (int i = 0; i < 7000; i++) {
        uint64_t r = mds_hash(1, (uint64_t)i) % 101;

        text[3 + i] = bases[r < 100 ? r % 4 : 4];
    }
    strcpy(text + 7003, "\n");
    write_text("r.fa", text);
    for (size_t t = 0; t < sizeof tokenizers / sizeof *tokenizers; t++) {
        struct mds_dataset *d[2], *again;
        int reversed = 0, compared = 0;

        assert_int_equal(make(tokenizers[t], "r.fa", "r.h5"), MDS_OK);
        for (int i = 0; i < 2; i++) {
            c.random_reverse_complement = i;
            assert_int_equal(open_settled(&c, S, 5, &d[i]), MDS_OK);
        }
        assert_int_equal(open_settled(&c, S, 5, &again), MDS_OK);
        for (int i = SAMPLES - 1; i >= 0; i--) {
            read_row(d[1], MDS_SPLIT_TRAIN, i, S, got);
            read_row(again, MDS_SPLIT_TRAIN, SAMPLES - 1 - i, S, plain);
            read_row(again, MDS_SPLIT_TRAIN, i, S, want);
            assert_string_equal(got, want); /* in any order of reading */
            read_row(d[0], MDS_SPLIT_VALID, i % 10, S, plain);
            read_row(d[1], MDS_SPLIT_VALID, i % 10, S, want);
            assert_string_equal(plain, want);
            read_row(d[0], MDS_SPLIT_TRAIN, i, S, plain);
            if (strstr(plain, "<unk>") || strstr(plain, "<eod>"))
                continue;
            reverse_text(plain, want);
            compared++;
            reversed += strcmp(got, want) == 0;
            assert_true(strcmp(got, plain) == 0 || strcmp(got, want) == 0);
        }
        assert_in_range(compared, SAMPLES / 2, SAMPLES);
        assert_in_range(reversed, compared / 3, compared * 2 / 3);
        mds_dataset_close(d[0]);
        mds_dataset_close(d[1]);
        mds_dataset_close(again);
    }
    make_counting("text", 100);
    c.paths = "text";
    assert_fails(open_settled(&c, S, 5, &none), MDS_EUSER, "is not made from FASTA");
}

/* Tags, ends and padding stay; bases are reversed around them, within documents, and
 * take their kinds with them. */
static void test_reversing_around_other_tokens(void **state)
{
    int32_t token[] = {'|', 'e', '|', 'A', 'C', '|', 'N',
                       'T', 256, 'G', 'G', 'A', 256, 256};
    int32_t start[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 11, 11, 13};
    unsigned char kind[] = {9, 9, 9, 1, 2, 9, 3, 4, 5, 6, 7, 8, 0, 0};
    static const int32_t want[] = {'|', 'e', '|', 'A', 'N', '|', 'G',
                                   'T', 256, 'C', 'C', 'T', 256, 256};
    static const unsigned char kinds[] = {9, 9, 9, 4, 3, 9, 2, 1, 5, 7, 6, 8, 0, 0};

    (void)state;
    mds_sample_reverse_complement(MDS_TOKENIZER_DNA,
                                  &(struct mds_sample){token, start, kind}, 14);
    assert_memory_equal(token, want, sizeof want);
    assert_memory_equal(kind, kinds, sizeof kinds);
    mds_sample_reverse_complement(MDS_TOKENIZER_BYTES,
                                  &(struct mds_sample){token, NULL, NULL}, 14);
    assert_memory_equal(token, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits_tile_the_source),
        cmocka_unit_test(test_permutation_is_a_bijection),
        cmocka_unit_test(test_permutation_mixes),
        cmocka_unit_test(test_mix_keeps_its_shares),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_epochs_cover_tokens_once),
        cmocka_unit_test(test_held_out_windows_are_in_file_order),
        cmocka_unit_test(test_held_out_windows_of_a_mix),
        cmocka_unit_test(test_order_depends_on_seed_alone),
        cmocka_unit_test(test_order_is_as_ever),
        cmocka_unit_test(test_the_share_that_is_told_is_enough),
        cmocka_unit_test(test_short_splits_are_named),
        cmocka_unit_test(test_files_of_their_own),
        cmocka_unit_test(test_mixed_data),
        cmocka_unit_test(test_entropy),
        cmocka_unit_test(test_samples_are_reversed_by_seed),
        cmocka_unit_test(test_reversing_around_other_tokens),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
