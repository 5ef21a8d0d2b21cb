/* parallel: who holds which tokens, and which groups a rank is in. */
#include "parallel/par.h"

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

    assert_in_range(s->runs, 1, 2);
    for (int i = 0; i < s->runs; i++) {
        for (int64_t t = 0; t < s->run[i].n; t++)
            seen[s->run[i].first + t]++;
        n += s->run[i].n;
    }
    assert_int_equal(n, s->n);
}

/* Every token of the sequence is somewhere, once, for any ring x Ulysses x tensor. */
static void shares_cover_the_sequence(void **state)
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

static void known_shares(void **state)
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
        .tensor = 2, .pipeline = 2, .ulysses = 2, .ring = 3};
    struct mds_groups g = {0};

    (void)state;
    for (int rank = 0; rank < 48; rank++) {
        int sp = rank / 2 % 6;

        assert_int_equal(mds_groups_create(&c, 48, rank, NULL, &g), MDS_OK);
        assert_int_equal(mds_comm_size(g.tp), 2);
        assert_int_equal(mds_comm_rank(g.tp), rank % 2);
        assert_int_equal(mds_comm_size(g.ulysses), 2);
        assert_int_equal(mds_comm_rank(g.ulysses), sp % 2);
        assert_int_equal(mds_comm_size(g.ring), 3);
        assert_int_equal(mds_comm_rank(g.ring), sp / 2);
        assert_int_equal(mds_comm_size(g.data), 12);
        assert_int_equal(mds_comm_rank(g.data), rank / 2 % 12);
        assert_int_equal(mds_comm_size(g.pipe), 2);
        assert_int_equal(mds_comm_rank(g.pipe), rank / 24);
        assert_int_equal(mds_comm_size(g.ends), 2);
        assert_int_equal(mds_comm_rank(g.world), rank);
        assert_int_equal(mds_groups_replica(&g), rank / 12 % 2);
        mds_groups_fini(&g);
    }
    c.tensor = 5;
    assert_int_equal(mds_groups_create(&c, 48, 0, NULL, &g), MDS_EUSER);
    mds_groups_fini(&g);
}

/* A middle stage shares no embedding. */
static void only_ends_are_tied(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 1, .pipeline = 4, .ulysses = 1, .ring = 1};

    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        struct mds_groups g = {0};

        assert_int_equal(mds_groups_create(&c, 4, rank, NULL, &g), MDS_OK);
        assert_int_equal(mds_comm_size(g.ends), rank == 0 || rank == 3 ? 2 : 1);
        assert_int_equal(mds_groups_first_stage(&g), rank == 0);
        assert_int_equal(mds_groups_last_stage(&g), rank == 3);
        mds_groups_fini(&g);
    }
}

static void batches_have_rows(void **state)
{
    struct mds_parallel_config c = {
        .tensor = 2, .pipeline = 1, .ulysses = 2, .ring = 2};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_cover_the_sequence),
        cmocka_unit_test(known_shares),
        cmocka_unit_test(rings_are_balanced),
        cmocka_unit_test(groups_have_their_members),
        cmocka_unit_test(only_ends_are_tied),
        cmocka_unit_test(batches_have_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
