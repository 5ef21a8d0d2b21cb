/* SPDX-License-Identifier: BSD-3-Clause */
/* parallel: who holds which tokens, and which groups a rank is in. */
#include "base/minmax.h"
#include "parallel/attention.h"
#include "parallel/tensor_parallel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_S = 240 };

static void mark(const struct mds_shard_tokens *s, int *seen)
{
    int64_t n = 0;

    assert_in_range(s->runs, 1, MDS_SHARD_CHUNKS + 1);
    for (int i = 0; i < s->runs; i++) {
        for (int64_t t = 0; t < s->run[i].n; t++)
            seen[s->run[i].first + t]++;
        n += s->run[i].n;
    }
    assert_int_equal(n, s->n);
}

/* Every token of the sequence is somewhere, once, for any ring x Ulysses x tensor. */
static void shards_cover_the_sequence(void **state)
{
    (void)state;
    for (int P = 1; P <= 5; P++)
        for (int U = 1; U <= 4; U++)
            for (int T = 1; T <= 3; T++) {
                int64_t S = 2 * P * U * T;
                int seen[MAX_S] = {0};

                for (int p = 0; p < P; p++)
                    for (int u = 0; u < U; u++)
                        for (int t = 0; t < T; t++) {
                            struct mds_shard_tokens ring = mds_shard_ring(S, P, p);
                            struct mds_shard_tokens uly = mds_shard_slice(&ring, U, u);
                            struct mds_shard_tokens s = mds_shard_slice(&uly, T, t);

                            assert_int_equal(s.n, 2);
                            mark(&s, seen);
                        }
                for (int64_t i = 0; i < S; i++)
                    assert_int_equal(seen[i], 1);
            }
}

/* The same for shards in chunks, each of which is a range of the rank's tokens. */
static void chunks_cover_the_sequence(void **state)
{
    (void)state;
    for (int chunks = 1; chunks <= MDS_SHARD_CHUNKS; chunks++)
        for (int P = 1; P <= 3; P++)
            for (int T = 1; T <= 4; T++) {
                int64_t S = 2 * P * T * 9;
                int seen[MAX_S] = {0};

                for (int p = 0; p < P; p++)
                    for (int t = 0; t < T; t++) {
                        struct mds_shard_tokens ring = mds_shard_ring(S, P, p);
                        struct mds_shard_tokens s =
                            mds_shard_slices(&ring, T, t, chunks);

                        assert_int_equal(s.n, ring.n / T);
                        mark(&s, seen);
                    }
                for (int64_t i = 0; i < S; i++)
                    assert_int_equal(seen[i], 1);
            }
}

static void known_chunks(void **state)
{
    struct mds_shard_tokens whole = mds_shard_whole(28), s;

    (void)state;
    s = mds_shard_slices(&whole, 4, 1, 2); /* of 0 .. 11 and of 12 .. 27 */
    assert_int_equal(s.runs, 2);
    assert_int_equal(s.run[0].first, 3);
    assert_int_equal(s.run[0].n, 3);
    assert_int_equal(s.run[1].first, 16);
    assert_int_equal(s.run[1].n, 4);
}

static void known_shards(void **state)
{
    struct mds_shard_tokens s = mds_shard_ring(80, 4, 1), half, third;

    (void)state;
    assert_int_equal(s.runs, 2);
    assert_int_equal(s.run[0].first, 10);
    assert_int_equal(s.run[1].first, 60);
    assert_int_equal(s.n, 20);
    half = mds_shard_slice(&s, 2, 1);
    assert_int_equal(half.runs, 1);
    assert_int_equal(half.run[0].first, 60);
    third = mds_shard_slice(&s, 5, 2); /* tokens 8 .. 11 of the 20: across the gap */
    assert_int_equal(third.runs, 2);
    assert_int_equal(third.run[0].first, 18);
    assert_int_equal(third.run[0].n, 2);
    assert_int_equal(third.run[1].first, 60);
    s = mds_shard_ring(80, 4, 3); /* the two chunks in the middle are one run */
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.run[0].first, 30);
    assert_int_equal(mds_shard_ring(7, 1, 0).run[0].n, 7);
}

/* Pairs of query and visible key: equal for all ranks of a ring, but for the diagonal.
 */
static void rings_are_balanced(void **state)
{
    int64_t S = 240, work[6];

    (void)state;
    for (int p = 0; p < 6; p++) {
        struct mds_shard_tokens s = mds_shard_ring(S, 6, p);

        work[p] = 0;
        for (int i = 0; i < s.runs; i++)
            for (int64_t t = 0; t < s.run[i].n; t++)
                work[p] += s.run[i].first + t + 1;
        assert_int_equal(work[p], work[0]);
    }
}

/* world 48 = PP 2 x DP 2 x SP 6 (ring 3 x Ulysses 2) x TP 2 */
static void groups_have_their_members(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 2, .pipeline = 2, .ulysses = 2, .ring = 3, .expert = 1};
    struct mds_groups g = {0};

    (void)state;
    for (int rank = 0; rank < 48; rank++) {
        int sp = rank / 2 % 6;

        assert_int_equal(mds_groups_create(&c, 48, rank, NULL, &g), MDS_OK);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_AXIS_TENSOR)), 2);
        assert_int_equal(mds_comm_rank(mds_group(&g, MDS_AXIS_TENSOR)), rank % 2);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_AXIS_ULYSSES)), 2);
        assert_int_equal(mds_comm_rank(mds_group(&g, MDS_AXIS_ULYSSES)), sp % 2);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_AXIS_RING)), 3);
        assert_int_equal(mds_comm_rank(mds_group(&g, MDS_AXIS_RING)), sp / 2);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_AXES_TOKENS)), 12);
        assert_int_equal(mds_comm_rank(mds_group(&g, MDS_AXES_TOKENS)), rank / 2 % 12);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_AXIS_PIPELINE)), 2);
        assert_int_equal(mds_comm_rank(mds_group(&g, MDS_AXIS_PIPELINE)), rank / 24);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_GROUP_ENDS)), 2);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_AXES_STAGE)), 24);
        assert_int_equal(mds_comm_rank(mds_group(&g, MDS_AXES_STAGE)), rank % 24);
        assert_int_equal(mds_comm_rank(mds_group(&g, MDS_AXES_ALL)), rank);
        assert_int_equal(mds_groups_rank(&g, MDS_AXIS_DATA), rank / 12 % 2);
        mds_groups_fini(&g);
    }
    c.tensor = 5;
    assert_int_equal(mds_groups_create(&c, 48, 0, NULL, &g), MDS_EUSER);
    mds_groups_fini(&g);
}

/* Experts of four ranks: both Ulysses ranks and a part of the data ranks; none of the
 * ring's three. */
static void experts_have_their_groups(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 2, .pipeline = 1, .ulysses = 2, .ring = 3, .expert = 4};
    struct mds_groups g = {0};

    (void)state;
    for (int rank = 0; rank < 48; rank++) {
        int ulysses = rank / 2 % 2, ring = rank / 4 % 3, data = rank / 12;
        struct mds_comm *experts, *same;

        assert_int_equal(mds_groups_create(&c, 48, rank, NULL, &g), MDS_OK);
        experts = mds_group(&g, MDS_AXIS_EXPERT);
        same = mds_group(&g, MDS_AXES_SAME_EXPERTS);
        assert_string_equal(mds_comm_tag(experts), "ep");
        assert_int_equal(mds_comm_size(experts), 4);
        assert_int_equal(mds_comm_rank(experts), ulysses + 2 * (data % 2));
        assert_int_equal(mds_comm_size(same), 6);
        assert_int_equal(mds_comm_rank(same), ring + 3 * (data / 2));
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_AXES_STAGE_EXPERTS)), 12);
        assert_int_equal(mds_groups_rank(&g, MDS_AXIS_DATA), data);
        mds_groups_fini(&g);
    }
}

/* A middle stage shares no embedding. */
static void only_ends_are_tied(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 1, .pipeline = 4, .ulysses = 1, .ring = 1, .expert = 1};

    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        struct mds_groups g = {0};

        assert_int_equal(mds_groups_create(&c, 4, rank, NULL, &g), MDS_OK);
        assert_int_equal(mds_comm_size(mds_group(&g, MDS_GROUP_ENDS)),
                         rank == 0 || rank == 3 ? 2 : 1);
        assert_int_equal(mds_groups_first_stage(&g), rank == 0);
        assert_int_equal(mds_groups_last_stage(&g), rank == 3);
        mds_groups_fini(&g);
    }
}

static void batches_have_rows(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 2, .pipeline = 1, .ulysses = 2, .ring = 2, .expert = 1};
    struct mds_groups g = {0};
    struct mds_par p = {.groups = &g, .sequence_parallel = 1};

    (void)state;
    assert_int_equal(mds_groups_create(&c, 8, 3, NULL, &g),
                     MDS_OK); /* tp 1, u 1, ring 0 */
    mds_par_set_batch(&p, 3, 64, 7);
    assert_int_equal(p.ring.n, 32);
    assert_int_equal(mds_par_rows(&p), 48);
    assert_int_equal(mds_par_slice_rows(&p), 24);
    assert_int_equal(p.slice.run[0].first, 56); /* chunk 3, upper half */
    assert_int_equal(p.first_sample, 7);
    p.sequence_parallel = 0;
    mds_par_set_batch(&p, 3, 64, 7);
    assert_int_equal(mds_par_slice_rows(&p), 48);
    mds_groups_fini(&g);
}

/* Generation: sequence ranks have parts of what they can share, else all of it; and
 * room in their caches for all of a sequence together. */
static void new_tokens_have_rows(void **state)
{
    (void)state;
    for (int rank = 0; rank < 8; rank++) {
        struct mds_parallel_config c = {
            .tensor = 2, .pipeline = 1, .ulysses = 2, .ring = 2, .expert = 1};
        struct mds_groups g = {0};
        struct mds_par p = {.groups = &g};

        assert_int_equal(mds_groups_create(&c, 8, rank, NULL, &g), MDS_OK);
        mds_par_set_new_tokens(&p, 3, 100, 12);
        assert_int_equal(mds_par_rows(&p), 9);
        assert_int_equal(p.tokens.runs, 1);
        assert_int_equal(p.tokens.run[0].first, 100 + rank / 2 * 3);
        assert_int_equal(p.slice.run[0].first, p.tokens.run[0].first);
        assert_int_equal(p.ring.n, 12);
        mds_par_set_new_tokens(&p, 3, 100, 7);
        assert_int_equal(mds_par_rows(&p), 21);
        assert_int_equal(p.tokens.run[0].first, 100);
        for (int64_t tokens = 1; tokens < 200; tokens++) {
            int64_t block = mds_kv_cache_block(&g, tokens);

            assert_true(4 * mds_kv_cache_tokens(&g, tokens) >= tokens);
            assert_true(mds_kv_cache_tokens(&g, tokens) % block == 0);
        }
        assert_int_equal(mds_kv_cache_tokens(&g, 1024), 256);
        mds_groups_fini(&g);
    }
}

/* What one of four tensor ranks sends: 3 sequences of 28 tokens, rows of 10. */
static const struct mds_comm_count *sent(const struct mds_groups *g,
                                         enum mds_comm_kind kind)
{
    return &mds_comm_stats(mds_group(g, MDS_AXIS_TENSOR))->of[kind];
}

static void travel(struct mds_par *p, const void *x, void *y, int chunks)
{
    const int64_t rows = 28 * 3;
    int cut = p->sequence_parallel;
    enum mds_comm_kind out_kind = cut ? MDS_COMM_REDUCE_SCATTER : MDS_COMM_ALL_REDUCE;
    int64_t gathers = sent(p->groups, MDS_COMM_ALL_GATHER)->calls;
    int64_t sums = sent(p->groups, out_kind)->calls, at = 0, n;
    struct mds_tp_handle in, out;
    int pieces = 0;

    p->chunks = chunks;
    mds_par_set_batch(p, 3, 28, 0);
    assert_int_equal(mds_tp_gather_start(p, x, 10, &in), MDS_OK);
    gathers = sent(p->groups, MDS_COMM_ALL_GATHER)->calls - gathers;
    assert_int_equal(gathers, cut ? chunks : 0);
    assert_int_equal(in.rows == x, !cut);
    assert_int_equal(mds_tp_reduce_open(p, y, 10, &out), MDS_OK);
    assert_int_equal(out.rows == y, !cut);
    for (; (n = mds_par_chunk_left(p, at)) > 0; at += n) {
        assert_int_equal(n % (cut ? 12 : 3), 0); /* whole tokens, of all ranks */
        assert_int_equal(mds_tp_gather_wait(p, &in, at + n), MDS_OK);
        assert_int_equal(mds_tp_reduce_start(p, &out, at + n - 1), MDS_OK);
        assert_int_equal(sent(p->groups, out_kind)->calls - sums, pieces);
        assert_int_equal(mds_tp_reduce_start(p, &out, at + n), MDS_OK);
        assert_int_equal(sent(p->groups, out_kind)->calls - sums, ++pieces);
    }
    assert_int_equal(at, rows);
    assert_int_equal(pieces, chunks);
    assert_int_equal(mds_tp_reduce_wait(&out), MDS_OK);
}

/* All rows travel once, each chunk when it is complete. */
static void rows_are_sent_in_chunks(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 4, .pipeline = 1, .ulysses = 1, .ring = 1, .expert = 1};
    const struct mds_dev_spec dry = {.name = "dry"};
    struct mds_groups g = {0};
    struct mds_arena arena = {0};
    struct mds_dev *dev = NULL;
    struct mds_par p = {.groups = &g, .arena = &arena, .dtype = MDSK_BF16};
    void *x = NULL;

    (void)state;
    assert_int_equal(mds_groups_create(&c, 4, 2, NULL, &g), MDS_OK);
    assert_int_equal(mds_dev_create(&dry, &dev), MDS_OK);
    assert_int_equal(mds_arena_init(&arena, dev, "test", 1 << 20), MDS_OK);
    assert_int_equal(mds_arena_alloc(&arena, MDS_MEM_WORK, 4096, &x), MDS_OK);
    p.dev = dev;
    for (p.sequence_parallel = 0; p.sequence_parallel < 2; p.sequence_parallel++)
        for (int chunks = 1; chunks <= 7; chunks++)
            travel(&p, x, x, chunks);
    assert_int_equal(sent(&g, MDS_COMM_ALL_GATHER)->payload_bytes, 7 * 28 * 3 * 10 * 2);
    assert_int_equal(sent(&g, MDS_COMM_REDUCE_SCATTER)->payload_bytes,
                     7 * 28 * 3 * 10 * 2);
    assert_int_equal(sent(&g, MDS_COMM_ALL_REDUCE)->payload_bytes, 7 * 28 * 3 * 10 * 2);
    mds_arena_fini(&arena);
    mds_dev_destroy(dev);
    mds_groups_fini(&g);
}

/* More chunks than tokens are as many as tokens. */
static void chunks_have_rows(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 2, .pipeline = 1, .ulysses = 1, .ring = 1, .expert = 1};
    struct mds_groups g = {0};
    struct mds_par p = {.groups = &g, .sequence_parallel = 1, .chunks = 8}, tile;

    (void)state;
    assert_int_equal(mds_groups_create(&c, 2, 1, NULL, &g), MDS_OK);
    mds_par_set_batch(&p, 5, 6, 0);
    assert_int_equal(p.chunks, 3);
    assert_int_equal(mds_par_chunk(&p, 3), 30);
    assert_int_equal(p.slice.run[2].first, 5);
    p.chunks = 0;
    mds_par_set_batch(&p, 5, 6, 0);
    assert_int_equal(p.chunks, 1);
    mds_par_set_tile(&tile, &p, 1, 2);
    assert_int_equal(mds_par_chunk_left(&tile, 0), 20);
    mds_groups_fini(&g);
}

/* ---- the ring ---- */

/* One rank of ring 4 x Ulysses 2 x tensor 1: two sequences of 64 tokens, 6 heads of 8
 * of which each key/value head serves 3, on a device that is not there. */
struct ring_rank {
    struct mds_groups g;
    struct mds_arena arena;
    struct mds_dev *dev;
    struct mds_par p;
    struct mds_attention a;
    void *rows, *heads;
};

enum { RING_R = 4, RING_U = 2, RING_B = 2, RING_S = 64, RING_BYTES = 1 << 20 };

static void ring_init(struct ring_rank *r, int rank, enum mdsk_dtype dtype)
{
    struct mds_parallel_config c = {
        .tensor = 1, .pipeline = 1, .ulysses = RING_U, .ring = RING_R, .expert = 1};
    const struct mds_dev_spec dry = {.name = "dry"};

    *r = (struct ring_rank){.a = {.A = 6, .G = 2, .D = 8, .scale = 1}};
    assert_int_equal(mds_groups_create(&c, RING_R * RING_U, rank, NULL, &r->g), MDS_OK);
    assert_int_equal(mds_dev_create(&dry, &r->dev), MDS_OK);
    assert_int_equal(mds_arena_init(&r->arena, r->dev, "test", RING_BYTES), MDS_OK);
    r->p = (struct mds_par){
        .dev = r->dev, .arena = &r->arena, .groups = &r->g, .dtype = dtype};
    mds_par_set_batch(&r->p, RING_B, RING_S, 0);
    assert_int_equal(mds_arena_alloc(&r->arena, MDS_MEM_WORK, 1 << 14, &r->rows),
                     MDS_OK);
    assert_int_equal(mds_arena_alloc(&r->arena, MDS_MEM_WORK, 1 << 14, &r->heads),
                     MDS_OK);
}

static void ring_fini(struct ring_rank *r)
{
    mds_arena_fini(&r->arena);
    mds_dev_destroy(r->dev);
    mds_groups_fini(&r->g);
}

static int64_t bytes_of(const struct ring_rank *r, enum mds_comm_kind kind)
{
    return mds_comm_stats(mds_group(&r->g, MDS_AXIS_RING))->of[kind].payload_bytes;
}

/* What the rank has sent, which is what it was sent; nothing else travels there. */
static int64_t ring_sent(const struct ring_rank *r, int64_t calls)
{
    const struct mds_comm_stats *s = mds_comm_stats(mds_group(&r->g, MDS_AXIS_RING));

    assert_int_equal(s->of[MDS_COMM_SEND].calls, calls);
    assert_int_equal(s->of[MDS_COMM_RECV].calls, calls);
    assert_int_equal(s->of[MDS_COMM_RECV].payload_bytes,
                     s->of[MDS_COMM_SEND].payload_bytes);
    assert_int_equal(s->wire_bytes, s->of[MDS_COMM_SEND].payload_bytes);
    return s->wire_bytes;
}

/* By docs/parallelism.md: keys and values R - 1 times in either direction, as wide as
 * activations; their gradients R times, in f32. */
static void a_ring_sends_what_the_formula_says(void **state)
{
    static const enum mdsk_dtype dtypes[] = {MDSK_F32, MDSK_BF16};

    (void)state;
    for (int i = 0; i < 2 * RING_R * RING_U; i++) {
        enum mdsk_dtype dtype = dtypes[i % 2];
        int64_t w = (int64_t)mdsk_dtype_size(dtype), fwd;
        int64_t kv = 2 * (RING_S * RING_B / (RING_R * RING_U)) * 8 * 2; /* 2 r D G */
        struct ring_rank r;
        void *x, *o;

        ring_init(&r, i / 2, dtype);
        x = r.rows, o = r.heads;
        assert_int_equal(mds_attention_fwd(&r.p, &r.a, x, o, x), MDS_OK);
        fwd = ring_sent(&r, RING_R - 1);
        assert_int_equal(fwd, (RING_R - 1) * w * kv);
        assert_int_equal(mds_attention_bwd(&r.p, &r.a, x, o, x, o, x), MDS_OK);
        assert_int_equal(ring_sent(&r, 3 * RING_R - 2) - fwd,
                         (RING_R - 1) * w * kv + RING_R * 4 * kv);
        ring_fini(&r);
    }
}

/* Of a windowed layer each chunk gets the window - 1 tokens before it, as far as there
 * are so many, forward and backward; back go their gradients in f32.  Chunks have 8
 * tokens; those in the middle are neighbours at one rank. */
static void a_windowed_ring_sends_what_is_seen(void **state)
{
    static const int windows[] = {1, 2, 8, 9, 10, 30, 63};

    (void)state;
    for (int i = 0; i < 7 * RING_R * RING_U; i++) {
        int64_t window = windows[i % 7], kv = RING_B * 2 * 8 / RING_U * 2;
        int64_t chunk = RING_S / RING_R / 2, up = 0, down = 0, fwd;
        struct ring_rank r;

        ring_init(&r, i / 7, MDSK_BF16);
        for (int c = 0; c < 2; c++) {
            int ring = mds_groups_rank(&r.g, MDS_AXIS_RING);
            int64_t q = c ? 2 * RING_R - 1 - ring : ring;

            up += q + 1 < 2 * RING_R && q + 1 != RING_R
                      ? mds_min((q + 1) * chunk, window - 1)
                      : 0;
            down += q != RING_R ? mds_min(q * chunk, window - 1) : 0;
        }
        r.a.window = window;
        assert_int_equal(mds_attention_fwd(&r.p, &r.a, r.rows, r.heads, r.rows),
                         MDS_OK);
        fwd = bytes_of(&r, MDS_COMM_SEND);
        assert_int_equal(fwd, up * kv * 2);
        assert_int_equal(bytes_of(&r, MDS_COMM_RECV), down * kv * 2);
        assert_int_equal(
            mds_attention_bwd(&r.p, &r.a, r.rows, r.heads, r.rows, r.heads, r.rows),
            MDS_OK);
        assert_int_equal(bytes_of(&r, MDS_COMM_SEND), 2 * fwd + down * kv * 4);
        ring_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_cover_the_sequence),
        cmocka_unit_test(chunks_cover_the_sequence),
        cmocka_unit_test(known_chunks),
        cmocka_unit_test(known_shards),
        cmocka_unit_test(rings_are_balanced),
        cmocka_unit_test(groups_have_their_members),
        cmocka_unit_test(experts_have_their_groups),
        cmocka_unit_test(only_ends_are_tied),
        cmocka_unit_test(batches_have_rows),
        cmocka_unit_test(new_tokens_have_rows),
        cmocka_unit_test(rows_are_sent_in_chunks),
        cmocka_unit_test(chunks_have_rows),
        cmocka_unit_test(a_ring_sends_what_the_formula_says),
        cmocka_unit_test(a_windowed_ring_sends_what_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
