/* SPDX-License-Identifier: BSD-3-Clause */
/* src/infer without a model: tables, values per token, inputs. */
#include "scratch.h"

#include <math.h>

#include "data/best_fit.h"
#include "infer/batch.h"
#include "infer/per_token.h"
#include "infer/records.h"
#include "infer/sample.h"
#include "infer/table.h"
#include "infer/track.h"
#include "infer/window.h"
#include "infer/marginals.h"
#include "infer/words.h"
#include "infer/written.h"
#include "io/h5.h"

static void test_numbers_are_read_back_the_same(void **state)
{
    static const double some[] = {0, -1.5, 0.1, 1.0 / 3, -3.9403207176531776, 1e300};
    struct mds_str text = {0};

    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        text.len = 0;
        mds_infer_add_real(&text, some[i]);
        assert_true(strtod(text.s, NULL) == some[i]);
    }
    assert_string_equal(text.s, "1e+300");
    text.len = 0;
    mds_infer_add_real(&text, -NAN);
    assert_string_equal(text.s, "nan");
    mds_str_fini(&text);
}

static void test_tables_have_whole_lines(void **state)
{
    struct mds_infer_table t;
    char line[64];
    FILE *f;

    (void)state;
    assert_int_equal(mds_infer_table_open(&t, "t", 0, "a\tb"), MDS_OK);
    mds_str_add(&t.text, "1\t2\n");
    t.lines = 1;
    assert_int_equal(mds_infer_table_flush(&t), MDS_OK);
    assert_int_equal(t.written, 1);
    assert_int_equal(mds_infer_table_close(&t), MDS_OK);
    f = fopen("t", "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "a\tb\n");
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "1\t2\n");
    fclose(f);
    assert_int_equal(mds_infer_table_open(&t, "t", 0, "a"), MDS_EUSER);
    assert_int_equal(mds_infer_table_open(&t, "t", 1, "a"), MDS_OK);
    assert_int_equal(mds_infer_table_close(&t), MDS_OK);
}

/* Tokens 1 and 2 of seven bases, of each tokenizer, as digits by base. */
static void test_tracks_have_what_a_token_adds(void **state)
{
    static const struct {
        enum mds_tokenizer t;
        int reverse;
        const char *want;
    } cases[] = {
        {MDS_TOKENIZER_NUCLEOTIDE, 0, ".12...."},
        {MDS_TOKENIZER_NUCLEOTIDE, 1, "....21."},
        {MDS_TOKENIZER_CODON, 0, "...1112"},
        {MDS_TOKENIZER_CODON, 1, "2111..."},
        {MDS_TOKENIZER_6MER, 0, "......1"},
        {MDS_TOKENIZER_6MER_OVERLAPPING, 0, "......1"},
    };
    struct mds_infer_track k = {0};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_int_equal(mds_infer_track_begin(&k, 7), MDS_OK);
        for (int i = 1; i < 3; i++) {
            const double of[] = {i, i, i, i, i, i};

            mds_infer_track_add(&k, cases[c].t, cases[c].reverse, i, of);
        }
        for (int i = 0; i < 7; i++) {
            int want = cases[c].want[i] == '.' ? 0 : cases[c].want[i] - '0';

            assert_int_equal(k.strands[i], want > 0);
            assert_true(k.sum[i] == want);
        }
    }
    mds_infer_track_fini(&k);
}

static void test_values_per_token(void **state)
{
    const double first[] = {7, -1, -2}, second[] = {9, -4};
    struct mds_infer_per_token *p;
    struct mds_h5 *f;
    struct mds_h5_dataset *set;
    int64_t start[4], n;
    double all[5];
    char **names;

    (void)state;
    assert_int_equal(mds_infer_per_token_create("p.h5", 0, &p), MDS_OK);
    assert_int_equal(mds_infer_per_token_add(p, "one", first, 3), MDS_OK);
    assert_int_equal(mds_infer_per_token_add(p, "none", NULL, 0), MDS_OK);
    assert_int_equal(mds_infer_per_token_add(p, "two", second, 2), MDS_OK);
    assert_int_equal(mds_infer_per_token_finish(p), MDS_OK);
    assert_int_equal(mds_h5_open("p.h5", NULL, &f), MDS_OK);
    assert_int_equal(mds_h5_get_reals(f, "/loglik", all, 5), MDS_OK);
    assert_true(isnan(all[0]) && all[1] == -1 && all[2] == -2 && isnan(all[3]) &&
                all[4] == -4);
    assert_int_equal(mds_h5_dataset_open(f, "/start", &set), MDS_OK);
    assert_int_equal(mds_h5_dataset_read_i64(set, 0, 4, start), MDS_OK);
    assert_true(start[0] == 0 && start[1] == 3 && start[2] == 3 && start[3] == 5);
    assert_int_equal(mds_h5_dataset_close(set), MDS_OK);
    assert_int_equal(mds_h5_get_strings(f, "/name", &names, &n), MDS_OK);
    assert_int_equal(n, 3);
    assert_string_equal(names[1], "none");
    mds_h5_free_strings(names, n);
    assert_int_equal(mds_h5_close(f), MDS_OK);
}

static enum mds_rc open_records(const char *path, const struct mds_vocabulary *v,
                                struct mds_infer_records **out)
{
    char name[16], *const paths[] = {name};
    const struct mds_infer_inputs inputs = {.path = paths, .n = 1};

    snprintf(name, sizeof name, "%s", path);
    return mds_infer_records_open(&inputs, 0, v, out);
}

/* The next record has this name and these n ids. */
static void expect(struct mds_infer_records *r, const char *name, int64_t length,
                   const int32_t *ids, int64_t n)
{
    struct mds_infer_record is;
    int found;

    assert_int_equal(mds_infer_records_next(r, &is, &found), MDS_OK);
    assert_true(found);
    assert_string_equal(is.name, name);
    assert_int_equal(is.length, length);
    assert_int_equal(is.n, n);
    assert_memory_equal(is.ids, ids, (size_t)n * sizeof *ids);
}

static void test_both_strands_of_fasta(void **state)
{
    const struct mds_vocabulary v = mds_tokenizer_vocabulary(MDS_TOKENIZER_NUCLEOTIDE);
    static const char fasta[] = ">x y\nAC\ngtn\n>\nA\n";
    static const int32_t bases[] = {0, 1, 2, 3, 4}, reverse[] = {4, 0, 1, 2, 3};
    struct mds_infer_records *r;
    struct mds_infer_record is;
    int found;

    (void)state;
    write_file("a.fa", fasta, strlen(fasta));
    assert_int_equal(open_records("a.fa", &v, &r), MDS_OK);
    expect(r, "x", 5, bases, 5);
    assert_int_equal(mds_infer_records_reverse(r, &is), MDS_OK);
    assert_int_equal(is.n, 5);
    assert_memory_equal(is.ids, reverse, sizeof reverse);
    expect(r, "2", 1, bases, 1);
    assert_int_equal(mds_infer_records_next(r, &is, &found), MDS_OK);
    assert_false(found);
    mds_infer_records_close(r);
}

static void test_lines_of_json(void **state)
{
    const struct mds_vocabulary v = mds_tokenizer_vocabulary(MDS_TOKENIZER_BYTES);
    static const char lines[] = "{\"text\": \"hi\\n\"}\n\n"
                                "{\"id\": \"b\", \"text\": \"\\u00e9\"}";
    static const int32_t hi[] = {'h', 'i', '\n'}, e[] = {0xc3, 0xa9};
    struct mds_infer_records *r;
    struct mds_infer_record is;
    int found;

    (void)state;
    write_file("a.jsonl", lines, strlen(lines));
    assert_int_equal(open_records("a.jsonl", &v, &r), MDS_OK);
    expect(r, "1", 3, hi, 3);
    assert_int_equal(mds_infer_records_reverse(r, &is), MDS_EUSER);
    expect(r, "b", 2, e, 2);
    assert_int_equal(mds_infer_records_next(r, &is, &found), MDS_OK);
    assert_false(found);
    mds_infer_records_close(r);
}

/* Both versions of a window, of a chromosome whose base i is i % 4. */
static void check_window(const struct mds_infer_allele *a, enum mds_infer_place place,
                         int64_t bases, int unit)
{
    unsigned char chromosome[64], other[80], alt[16], got[64];
    struct mds_infer_window w;
    int64_t n = a->chromosome + a->alt - a->ref;

    for (int64_t i = 0; i < a->chromosome; i++)
        chromosome[i] = (unsigned char)(i % 4);
    for (int64_t i = 0; i < a->alt; i++)
        alt[i] = (unsigned char)(10 + i);
    for (int64_t i = 0; i < n; i++)
        other[i] = i < a->pos            ? chromosome[i]
                   : i < a->pos + a->alt ? alt[i - a->pos]
                                         : chromosome[i - a->alt + a->ref];
    if (!mds_infer_window_place(a, place, bases, unit, &w))
        return;
    assert_true(w.n <= bases && w.n % unit == 0 && w.first % unit == 0);
    assert_true(w.first >= 0 && w.first + w.n <= n);
    assert_true(w.first + w.n <= a->chromosome && w.first + w.read <= a->chromosome);
    assert_true(w.first <= a->pos && a->pos + a->ref <= w.first + w.n &&
                a->pos + a->alt <= w.first + w.n);
    mds_infer_window_apply(a, &w, chromosome + w.first, alt, got);
    assert_memory_equal(got, other + w.first, (size_t)w.n);
}

/* Everywhere on a short chromosome, with any allele. */
static void test_windows_are_equally_long(void **state)
{
    struct mds_infer_allele a = {.chromosome = 50};

    (void)state;
    for (a.pos = 0; a.pos < 50; a.pos++)
        for (a.ref = 1; a.ref < 12 && a.pos + a.ref <= 50; a.ref += 2)
            for (a.alt = 1; a.alt < 12; a.alt++)
                for (int unit = 1; unit < 7; unit += 2)
                    for (int place = 0; place < 3; place++) {
                        check_window(&a, place, 20, unit);
                        check_window(&a, place, 60, unit);
                    }
}

static void test_windows_are_centred_and_moved_inwards(void **state)
{
    struct mds_infer_allele a = {.chromosome = 1000, .pos = 500, .ref = 1, .alt = 1};
    struct mds_infer_window w;

    (void)state;
    assert_true(mds_infer_window_place(&a, MDS_INFER_MIDDLE, 100, 1, &w));
    assert_true(w.first == 451 && w.n == 100 && w.read == 100);
    assert_true(mds_infer_window_place(&a, MDS_INFER_MIDDLE, 100, 3, &w));
    assert_true(w.first == 450 && w.n == 99);
    a.pos = 0;
    assert_true(mds_infer_window_place(&a, MDS_INFER_MIDDLE, 100, 1, &w) &&
                w.first == 0);
    a.pos = 999;
    assert_true(mds_infer_window_place(&a, MDS_INFER_MIDDLE, 100, 1, &w) &&
                w.first == 900);
    assert_false(mds_infer_window_place(&a, MDS_INFER_MIDDLE, 99, 3,
                                        &w)); /* base 1000 is in no codon */
    a = (struct mds_infer_allele){.chromosome = 1000, .pos = 500, .ref = 1, .alt = 101};
    assert_false(mds_infer_window_place(&a, MDS_INFER_MIDDLE, 100, 1, &w));
    a = (struct mds_infer_allele){.chromosome = 40, .pos = 9, .ref = 5, .alt = 1};
    assert_true(mds_infer_window_place(&a, MDS_INFER_MIDDLE, 100, 1, &w));
    assert_true(w.first == 0 && w.n == 36 && w.read == 40);
}

static void test_windows_end_with_the_allele(void **state)
{
    struct mds_infer_allele a = {.chromosome = 1000, .pos = 500, .ref = 1, .alt = 3};
    struct mds_infer_window w;

    (void)state;
    assert_true(mds_infer_window_place(&a, MDS_INFER_RIGHT, 100, 1, &w));
    assert_true(w.first == 403 && w.n == 100);
    assert_true(mds_infer_window_place(&a, MDS_INFER_RIGHT, 100, 6, &w));
    assert_true(w.first + w.n == 504 && w.n == 96); /* 503 is not the end of a 6-mer */
    assert_true(mds_infer_window_place(&a, MDS_INFER_LEFT, 100, 1, &w));
    assert_true(w.first == 500 && w.n == 100);
    assert_true(mds_infer_window_place(&a, MDS_INFER_LEFT, 100, 3, &w));
    assert_true(w.first == 498 && w.n == 99);
    a.pos = 50; /* too near to the beginning, and to the end */
    assert_true(mds_infer_window_place(&a, MDS_INFER_RIGHT, 100, 1, &w));
    assert_true(w.first == 0 && w.n == 100);
    a.pos = 950;
    assert_true(mds_infer_window_place(&a, MDS_INFER_LEFT, 100, 1, &w));
    assert_true(w.first == 900 && w.n == 100);
}

enum { MANY = 1000 }; /* words */

/* Each token that 1000 u spread over [0, 1) select, as a string of digits. */
static const char *chosen(const struct mds_infer_sampling *s, const float *logits,
                          int64_t n)
{
    static char text[16];
    struct mds_infer_candidate work[10];
    char *end = text;

    for (int i = 0; i < 1000; i++) {
        int32_t id = mds_infer_sample(s, logits, n, i / 1000.0, work);

        assert_in_range(id, 0, n - 1);
        if (end == text || end[-1] != (char)('0' + id))
            *end++ = (char)('0' + id);
    }
    *end = '\0';
    return text;
}

/* Rows that sequences of shortest .. longest tokens fill when the batch has enough, of
 * four steps of two rows of 1001 tokens. */
static int64_t rows_of_full_batch(int32_t shortest, int32_t longest)
{
    struct mds_config_run run = {.config = {.model.seq_length = 1000,
                                            .train.token_losses = 1,
                                            .batch = {.micro = 2, .accumulation = 1}}};
    struct mds_infer_model m = {.run = &run};
    static int32_t ids[1001], length[1024];
    struct mds_infer_batch *b;
    int64_t bin[1024], rows, item = 0;
    uint32_t seed = 1;

    assert_int_equal(mds_infer_batch_create(&m, &b), MDS_OK);
    while (!mds_infer_batch_is_full(b)) {
        seed = seed * 1664525u + 1013904223u;
        length[item] = shortest + (int32_t)(seed >> 8) % (longest - shortest + 1);
        assert_true(item < 1023);
        assert_int_equal(mds_infer_batch_add(b, ids, length[item], &item), MDS_OK);
        item++;
    }
    mds_infer_batch_destroy(b);
    assert_int_equal(mds_best_fit(length, item, 1001, bin, &rows), MDS_OK);
    return rows;
}

/* A sequence more would evaluate a row alone, beside an empty one. */
static void test_batches_fill_whole_steps(void **state)
{
    (void)state;
    assert_int_equal(rows_of_full_batch(1001, 1001), 8);
    assert_int_equal(rows_of_full_batch(1000, 1000), 8);
    assert_int_equal(rows_of_full_batch(600, 1000), 8);
    assert_int_equal(rows_of_full_batch(20, 200), 8);
    assert_int_equal(rows_of_full_batch(20, 1001), 8);
}

/* Logits come from two ranks; those of N and <eod> do not count. */
static void test_divergence_of_bases(void **state)
{
    static const float says[][6] = {{80, 0, 0, 0, 99, 0},
                                    {0, 80, 0, 0, 0, 0},
                                    {1, 1, 1, 1, 5, 7},
                                    {2, 2, 2, 2, 0, 0},
                                    {80, 80, 0, 0, 0, 0}};
    struct mds_infer_words w = {0};

    (void)state;
    assert_int_equal(mds_infer_words_init(&w, MDS_TOKENIZER_NUCLEOTIDE), MDS_OK);
    assert_int_equal(mds_infer_words_resize(&w, 5), MDS_OK);
    for (int t = 0; t < 5; t++) {
        mds_infer_words_put(&w, t, 0, 3, says[t]);
        mds_infer_words_put(&w, t, 3, 3, says[t] + 3);
    }
    assert_true(fabs(mds_infer_words_divergence(&w, 0, 1) - log(2)) < 1e-12);
    assert_true(fabs(mds_infer_words_divergence(&w, 2, 3)) < 1e-15);
    assert_true(fabs(mds_infer_words_divergence(&w, 0, 4) - log(4 / 3.0) * 3 / 4) <
                1e-12);
    mds_infer_words_fini(&w);
}

/* The bases of a 6-mer's id, 0 .. 3. */
static int base_of(int id, int place)
{
    return id >> 2 * (5 - place) & 3;
}

/* Against a sum over all words, for each place and base; logits of two ranks, with
 * padding, large ones in the second, and said twice. */
static void test_marginals_of_bases(void **state)
{
    enum { WORDS = 4098, PADDED = 4224, CUT = 2112 };
    static float logit[PADDED];
    const struct mds_vocabulary v = mds_tokenizer_vocabulary(MDS_TOKENIZER_6MER);
    struct mds_infer_marginals m = {0};
    double all = 0, base[6];

    (void)state;
    assert_int_equal(v.size, WORDS);
    for (int i = 0; i < PADDED; i++)
        logit[i] =
            i < WORDS ? 4 * sinf((float)(i * i % 9973)) + (i > CUT ? 90 : 88) : 999;
    for (int i = 0; i < WORDS; i++)
        all += exp((double)logit[i] - 90);
    assert_int_equal(mds_infer_marginals_init(&m, &v), MDS_OK);
    assert_int_equal(mds_infer_marginals_resize(&m, 3), MDS_OK);
    mds_infer_marginals_put(&m, 2, 0, CUT, logit + 7);
    for (int first = 0; first < PADDED; first += CUT)
        mds_infer_marginals_put(&m, 2, first, CUT, logit + first);
    for (int next = 0; next < 4096; next += 13) {
        assert_true(mds_infer_marginals_of(&m, 2, next, base));
        for (int j = 0; j < 6; j++) {
            double sum = 0;

            for (int i = 0; i < 4096; i++)
                if (base_of(i, j) == base_of(next, j))
                    sum += exp((double)logit[i] - 90);
            assert_true(fabs(base[j] - log(sum / all)) < 1e-12);
        }
    }
    assert_false(mds_infer_marginals_of(&m, 2, 4096, base)); /* <eod>, <unk> */
    assert_false(mds_infer_marginals_of(&m, 2, 4097, base));
    mds_infer_marginals_fini(&m);
}

static void test_sampling_takes_the_likeliest(void **state)
{
    static const float logits[] = {1, 3, 2, 3, -1}, equal[] = {2, 2, 2, 2};
    const struct mds_infer_sampling greedy = {.top_p = 1};

    (void)state;
    assert_string_equal(chosen(&greedy, logits, 5), "1");
    for (int64_t k = 0; k < 7; k++) {
        static const char *const by_k[] = {"01234", "13",    "13",   "123",
                                           "0123",  "01234", "01234"};
        static const char *const of_equal[] = {"0", "01", "012", "0123"};
        struct mds_infer_sampling s = {.temperature = 2, .top_k = k, .top_p = 1};

        assert_string_equal(chosen(&s, logits, 5), by_k[k]);
        assert_string_equal(chosen(&s, equal, 4), "0123"); /* ties of the last */
        if (k < 4) {
            s.top_k = 0;
            s.top_p = 0.2 + 0.25 * (double)k; /* of these the smallest ids */
            assert_string_equal(chosen(&s, equal, 4), of_equal[k]);
        }
    }
}

/* The rule as it is told: all words sorted, and those left by the order of ids. */
static int32_t sample_by_sorting(const struct mds_infer_sampling *s,
                                 const float *logits, int n, double u)
{
    double weight[MANY], all = 0, sum = 0;
    int order[MANY], kept = n, id = -1;

    for (int i = 0; i < n; i++) { /* insertion */
        int k = i;

        for (; k > 0 && logits[i] > logits[order[k - 1]]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    if (s->top_k > 0 && s->top_k < n)
        for (kept = (int)s->top_k;
             kept < n && logits[order[kept]] == logits[order[kept - 1]];)
            kept++;
    for (int i = 0; i < kept; i++)
        all += exp((double)(logits[order[i]] - logits[order[0]]) / s->temperature);
    for (int i = 0; i < kept && s->top_p < 1; i++) {
        sum += exp((double)(logits[order[i]] - logits[order[0]]) / s->temperature);
        if (sum >= s->top_p * all)
            kept = i + 1;
    }
    memset(weight, 0, sizeof weight);
    for (int i = 0; i < kept; i++)
        weight[order[i]] =
            exp((double)(logits[order[i]] - logits[order[0]]) / s->temperature);
    all = sum = 0;
    for (int i = 0; i < n; i++)
        all += weight[i];
    for (int i = 0; i < n && (id < 0 || sum <= u * all); i++)
        if (weight[i] > 0) {
            sum += weight[i];
            id = i;
        }
    return id;
}

/* Of many words, some of which are equally likely. */
static void test_sampling_of_many(void **state)
{
    static const int64_t top_k[] = {0, 1, 2, 50, 700, MANY};
    static const double top_p[] = {1, 0.01, 0.3, 0.9, 0.9999};
    static struct mds_infer_candidate work[MANY];
    static float logits[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++)
        logits[i] = (float)((i * 7919 + i * i % 31) % 997) / 100;
    for (int t = 0; t < 6 * 5 * 20; t++) {
        struct mds_infer_sampling s = {.temperature = t % 2 ? 1 : 0.6,
                                       .top_k = top_k[t / 20 % 6],
                                       .top_p = top_p[t / 120]};
        double u = (t % 20 + 0.37) / 20;

        assert_int_equal(mds_infer_sample(&s, logits, MANY, u, work),
                         sample_by_sorting(&s, logits, MANY, u));
    }
}

/* Probabilities 1/2, 1/4, 1/8, 1/8. */
static void test_sampling_by_probability(void **state)
{
    static const double top_p[] = {1e-9, 0.49, 0.5, 0.51, 0.75, 0.76, 0.87, 0.9, 1};
    static const char *const by_p[] = {"2",   "2",   "2",    "12",  "12",
                                       "012", "012", "0123", "0123"};
    struct mds_infer_candidate work[4];
    float logits[] = {-2, -1, 0, -2};
    int64_t counts[4] = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        logits[i] *= logf(2);
    for (int i = 0; i < 9; i++) {
        struct mds_infer_sampling s = {.temperature = 1, .top_p = top_p[i]};

        assert_string_equal(chosen(&s, logits, 4), by_p[i]);
        s.top_k = 2; /* 2/3, 1/3 */
        assert_string_equal(chosen(&s, logits, 4), i < 4 ? "2" : "12");
        s.top_k = 9;
        assert_string_equal(chosen(&s, logits, 4), by_p[i]);
    }
    for (int i = 0; i < 8000; i++) {
        struct mds_infer_sampling s = {.temperature = 0.5, .top_p = 1};

        /* 16 : 4 : 1 : 1 of 22 */
        counts[mds_infer_sample(&s, logits, 4, i / 8000.0, work)]++;
    }
    assert_in_range(counts[0], 363, 364);
    assert_in_range(counts[1], 1454, 1455);
    assert_in_range(counts[2], 5818, 5819);
    assert_in_range(counts[3], 363, 364);
}

static void test_sampling_of_what_is_no_number(void **state)
{
    const float bad[][3] = {
        {1, NAN, 2}, {NAN, 1, 1}, {INFINITY, 0, 1}, {-INFINITY, -INFINITY, -INFINITY}};
    const float one[] = {-INFINITY, -INFINITY, 3}, far[] = {3e38F, -3e38F};
    struct mds_infer_candidate work[3];

    (void)state;
    for (int t = 0; t < 2; t++) {
        struct mds_infer_sampling s = {.temperature = t, .top_k = 2, .top_p = 0.9};

        for (int i = 0; i < 4; i++)
            assert_int_equal(mds_infer_sample(&s, bad[i], 3, 0.5, work), -1);
        assert_int_equal(mds_infer_sample(&s, one, 3, 0, work), 2);
        assert_int_equal(mds_infer_sample(&s, one, 3, 0.999999, work), 2);
        s.temperature *= 1e-3;
        assert_int_equal(mds_infer_sample(&s, far, 2, 0.999999, work), 0);
    }
}

static void test_random_numbers(void **state)
{
    double sum = 0, least = 1, most = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        double u = mds_infer_uniform(7, i / 100, i % 10, i / 10 % 10);

        sum += u / 10000;
        least = fmin(least, u);
        most = fmax(most, u);
    }
    assert_true(least >= 0 && least < 0.001 && most < 1 && most > 0.999);
    assert_true(fabs(sum - 0.5) < 0.01);
    assert_true(mds_infer_uniform(1, 2, 3, 4) == mds_infer_uniform(1, 2, 3, 4));
    assert_true(mds_infer_uniform(1, 2, 3, 4) != mds_infer_uniform(2, 2, 3, 4));
    assert_true(mds_infer_uniform(1, 2, 3, 4) != mds_infer_uniform(1, 3, 2, 4));
    assert_true(mds_infer_uniform(1, 2, 3, 4) != mds_infer_uniform(1, 2, 4, 3));
}

static void test_tokens_as_text(void **state)
{
    static const int32_t codons[] = {0, 63, 64, 65, 27},
                         bytes[] = {'"', 10, 0, 256, 'a'};
    struct mds_str s = {0};

    (void)state;
    mds_infer_add_bases(&s, MDS_TOKENIZER_CODON, codons, 5);
    assert_string_equal(s.s, "AAATTTNNNNNNCGT");
    s.len = 0;
    mds_infer_add_bases(&s, MDS_TOKENIZER_6MER_OVERLAPPING, codons, 2);
    assert_string_equal(s.s, "AT");
    s.len = 0;
    mds_infer_add_bases(&s, MDS_TOKENIZER_DNA, bytes, 5);
    assert_string_equal(s.s, "NNNNN");
    s.len = 0;
    mds_infer_add_json(&s, MDS_TOKENIZER_BYTES, bytes, 5);
    assert_string_equal(s.s, "\"text\": \"\\\"\\u000a\xef\xbf\xbd\xef\xbf\xbd"
                             "a\"");
    s.len = 0;
    mds_infer_add_json(&s, MDS_TOKENIZER_IDS, codons, 0);
    assert_string_equal(s.s, "\"ids\": []");
    s.len = 0;
    mds_infer_add_fasta(&s, "x", "y z", "");
    assert_string_equal(s.s, ">x y z\n");
    mds_str_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_fill_whole_steps),
        cmocka_unit_test(test_divergence_of_bases),
        cmocka_unit_test(test_marginals_of_bases),
        cmocka_unit_test(test_sampling_takes_the_likeliest),
        cmocka_unit_test(test_sampling_of_many),
        cmocka_unit_test(test_sampling_by_probability),
        cmocka_unit_test(test_sampling_of_what_is_no_number),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_tokens_as_text),
        cmocka_unit_test(test_numbers_are_read_back_the_same),
        cmocka_unit_test(test_tables_have_whole_lines),
        cmocka_unit_test(test_tracks_have_what_a_token_adds),
        cmocka_unit_test(test_values_per_token),
        cmocka_unit_test(test_both_strands_of_fasta),
        cmocka_unit_test(test_lines_of_json),
        cmocka_unit_test(test_windows_are_equally_long),
        cmocka_unit_test(test_windows_are_centred_and_moved_inwards),
        cmocka_unit_test(test_windows_end_with_the_allele),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
