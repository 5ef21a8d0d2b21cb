/* SPDX-License-Identifier: BSD-3-Clause */
/* comm: collectives against plain loops, on as many ranks as it is started with. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/ranks.h"

enum { MOST = 5000, BUCKETS = 20 };

static int all_reduce_count(int64_t n)
{
    float *buf = calloc((size_t)n + 1, sizeof *buf);
    float *work = calloc((size_t)mds_comm_all_reduce_work(all, n, MDSK_F32) + 1, 1);
    int bad;

    fill(buf, world.rank, n);
    buf[n] = 77;
    must(mds_comm_all_reduce(all, buf, n, MDSK_F32, work), "all_reduce");
    bad = wrong(buf, 0, n) + (buf[n] != 77);
    free(work);
    free(buf);
    return bad;
}

static void test_all_reduce(const char *name)
{
    static const int64_t counts[] = {0, 1, 2, 3, 5, 64, 127, 1000, MOST};
    int bad = 0;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        bad += all_reduce_count(counts[i]);
    check(bad, name);
}

static void test_nan_is_the_maximum(void)
{
    int last = world.ranks - 1, bad;
    double x[4] = {world.rank == 0 ? (double)NAN : 1,
                   world.rank == last ? (double)NAN : 1, 1, world.rank};

    must(mds_comm_all_reduce_f64(all, x, 4, MDS_COMM_MAX), "max f64");
    bad = !isnan(x[0]) + !isnan(x[1]) + (x[2] != 1) + (x[3] != last);
    check(bad, "a maximum is NaN if any value is");
}

static void test_all_reduce_f64(void)
{
    double x[37];
    int bad = 0;

    for (int i = 0; i < 37; i++)
        x[i] = (double)number(world.rank, i) / 3;
    must(mds_comm_all_reduce_f64(all, x, 37, MDS_COMM_SUM), "all_reduce_f64");
    for (int i = 0; i < 37; i++) {
        double want = (double)number(0, i) / 3;

        for (int r = 1; r < world.ranks; r++)
            want += (double)number(r, i) / 3;
        bad += memcmp(&want, &x[i], sizeof want) != 0;
    }
    hash_bytes(x, sizeof x);
    check(bad, "all_reduce_f64, more numbers than travel together");
}

/* Longer than travels at a time, and no multiple of 8. */
static void test_gather_records(void)
{
    enum { BYTES = 300 };
    unsigned char in[BYTES], *out = malloc((size_t)world.ranks * BYTES);
    int bad = 0;

    for (int i = 0; i < BYTES; i++)
        in[i] = (unsigned char)(7 * world.rank + i);
    must(mds_comm_gather_records(all, in, BYTES, out), "gather_records");
    for (int r = 0; r < world.ranks; r++)
        for (int i = 0; i < BYTES; i++)
            bad += out[r * BYTES + i] != (unsigned char)(7 * r + i);
    free(out);
    check(bad, "records of all ranks, in rank order");
}

static void test_broadcast(void)
{
    static float buf[MOST];
    int bad = 0;

    for (int root = 0; root < world.ranks; root++)
        for (int64_t n = 1; n <= MOST; n = n * 3 + 1) {
            fill(buf, world.rank, n);
            must(mds_comm_broadcast(all, buf, n * (int64_t)sizeof *buf, root),
                 "broadcast");
            for (int64_t i = 0; i < n; i++)
                bad += buf[i] != number(root, i);
        }
    check(bad, "broadcast from every rank");
}

static void test_all_gather(void)
{
    static float in[MOST], out[64 * MOST];
    int bad = 0;

    for (int64_t n = 0; n <= MOST / 2; n = n * 3 + 1)
        for (int inside = 0; inside < 2; inside++) {
            float *from = inside ? out + world.rank * n : in;

            memset(out, 0, sizeof *out * (size_t)(n * world.ranks));
            fill(from, world.rank, n);
            must(mds_comm_all_gather(all, from, out, n * (int64_t)sizeof *in),
                 "all_gather");
            for (int64_t i = 0; i < n * world.ranks; i++)
                bad += out[i] != number((int)(i / n), i % n);
        }
    check(bad, "all_gather, from outside and in place");
}

static void test_reduce_scatter(void)
{
    static float in[64 * 500], out[500];
    void *work =
        calloc((size_t)mds_comm_reduce_scatter_work(all, 500, MDSK_F32) + 1, 1);
    int bad = 0;

    for (int64_t n = 0; n <= 500; n = n * 3 + 1)
        for (int inside = 0; inside < 2; inside++) {
            float *to = inside ? in + world.rank * n : out;

            fill(in, world.rank, n * world.ranks);
            reduce_scatter(all, in, to, n, MDSK_F32, work);
            bad += wrong(to, world.rank * n, n);
        }
    free(work);
    check(bad, "reduce_scatter, to outside and in place");
}

/* Rank a sends (a + 2 b) % 5 * step numbers to rank b, from number b of its own on, and
 * as a second block two numbers behind these: blocks overlap, and some are empty.  Of
 * itself it receives nothing. */
static int exchange(int64_t step)
{
    static float in[MOST], out[64 * MOST];
    struct mds_comm_block send[2 * 64], recv[2 * 64];
    int bad = 0;

    fill(in, world.rank, MOST);
    for (int p = 0; p < world.ranks; p++) {
        int64_t to = (world.rank + 2 * p) % 5 * step,
                from = (p + 2 * world.rank) % 5 * step, at = (int64_t)p * MOST;

        send[p] = (struct mds_comm_block){4 * p, 4 * to};
        recv[p] = (struct mds_comm_block){4 * at, 4 * from};
        send[world.ranks + p] = (struct mds_comm_block){4 * (p + to), 8};
        recv[world.ranks + p] = (struct mds_comm_block){4 * (at + from), 8};
        out[at] = out[at + from + 2] = 77;
    }
    must(mds_comm_exchange(all, 2, in, send, out, recv), "exchange");
    for (int p = 0; p < world.ranks; p++) {
        int64_t n = p == world.rank ? 0 : recv[p].bytes / 4 + 2;

        for (int64_t i = 0; i < n; i++)
            bad += out[p * (int64_t)MOST + i] != number(p, world.rank + i);
        bad += out[p * (int64_t)MOST + n] != 77;
    }
    return bad;
}

static void test_exchange(void)
{
    check(exchange(0) + exchange(1) + exchange(1001), "blocks of unlike lengths");
}

static int64_t bucket_count(int b)
{
    return (b * 619 + 3) % 1500;
}

static void start_bucket(struct mds_comm *c, int b, float *buf,
                         struct mds_comm_req *req)
{
    int64_t n = bucket_count(b);

    fill(buf, world.rank, n);
    must(mds_comm_all_reduce_start(c, buf, n, MDSK_F32, buf + MOST, req), "start");
}

/* Like gradients in a backward pass: more buckets than move at once, ranks that are
 * late at different ones, numbers exchanged in between, finished in another order. */
static void test_overlap(const char *name)
{
    static float buf[BUCKETS][2 * MOST];
    static struct mds_comm_req reqs[BUCKETS];
    int bad = 0;

    for (int round = 0; round < 3; round++) {
        for (int b = 0; b < BUCKETS; b++) {
            double one = 1;

            if (b % world.ranks == world.rank)
                nap(2);
            start_bucket(all, b, buf[b], &reqs[b]);
            must(mds_comm_poll(&reqs[b / 2]), "poll");
            if (b % 7 == 6)
                must(mds_comm_all_reduce_f64(all, &one, 1, MDS_COMM_SUM), "f64");
            bad += b % 7 == 6 && one != world.ranks;
        }
        for (int i = 0; i < BUCKETS; i++) {
            int b = (i * 7 + world.rank) % BUCKETS;

            must(mds_comm_wait(&reqs[b]), "wait");
            bad += !mds_comm_done(&reqs[b]);
        }
        for (int b = 0; b < BUCKETS; b++)
            bad += wrong(buf[b], 0, bucket_count(b));
    }
    check(bad, name);
}

static void test_poll_alone_finishes(void)
{
    static float buf[2 * MOST];
    struct mds_comm_req req = {0};

    start_bucket(all, 1, buf, &req);
    while (!mds_comm_done(&req))
        must(mds_comm_poll(&req), "poll");
    check(wrong(buf, 0, bucket_count(1)), "polling alone finishes");
}

static void test_subgroups(void)
{
    int members[64], n = 0, bad = 0;
    struct mds_comm *c;
    double sum = world.rank, want = 0;

    for (int r = world.ranks - 1; r >= 0; r--) /* the group's order is the caller's */
        if (r % 2 == world.rank % 2) {
            members[n++] = r;
            want += r;
        }
    must(mds_comm_create_mpi(members, n, "parity", &c), "create");
    bad += mds_comm_size(c) != n || members[mds_comm_rank(c)] != world.rank;
    must(mds_comm_all_reduce_f64(c, &sum, 1, MDS_COMM_SUM), "sum in a subgroup");
    must(mds_comm_barrier(c), "barrier");
    bad += sum != want;
    mds_comm_destroy(c);
    check(bad, "two groups at once, in reverse order");
}

static struct mds_comm *pair(int a, int b)
{
    int members[] = {a, b};
    struct mds_comm *c = NULL;

    if (world.rank == a || world.rank == b)
        must(mds_comm_create_mpi(members, 2, "pair", &c), "create a pair");
    return c;
}

/* Rank 2 needs rank 0 to move the big group, rank 1 needs rank 2, rank 0 waits for
 * rank 1 in a pair. */
static void test_waiting_moves_other_groups(void)
{
    static float buf[2 * MOST];
    struct mds_comm_req req = {0};
    struct mds_comm *p = pair(0, 1), *q = pair(1, 2);

    start_bucket(all, 2, buf, &req);
    if (world.rank >= 2)
        must(mds_comm_wait(&req), "wait in rank 2");
    if (q)
        must(mds_comm_barrier(q), "barrier of 1 and 2");
    if (p)
        must(mds_comm_barrier(p), "barrier of 0 and 1");
    must(mds_comm_wait(&req), "wait");
    mds_comm_destroy(p);
    mds_comm_destroy(q);
    check(wrong(buf, 0, bucket_count(2)), "waiting moves other groups");
}

static void use_all(struct mds_comm *c, float *buf, float *work)
{
    double d[3] = {0};
    struct mds_comm_req req = {0};

    must(mds_comm_all_reduce(c, buf, 1001, MDSK_F32, work), "all_reduce");
    must(mds_comm_all_reduce_start(c, buf, 0, MDSK_F32, work, &req), "start");
    must(mds_comm_wait(&req), "wait");
    must(mds_comm_all_reduce_f64(c, d, 3, MDS_COMM_MAX), "all_reduce_f64");
    must(mds_comm_broadcast(c, buf, 999, 0), "broadcast");
    must(mds_comm_all_gather(c, buf, buf, 12), "all_gather");
    reduce_scatter(c, buf, buf, 10, MDSK_F32, work);
    must(mds_comm_barrier(c), "barrier");
}

static void test_dry_counts_the_same(void)
{
    static float buf[MOST], work[MOST];
    struct mds_comm_stats a, b = *mds_comm_stats(all);
    struct mds_comm *dry;
    int bad;

    use_all(all, buf, work);
    a = *mds_comm_stats(all);
    must(mds_comm_create_dry(world.rank, world.ranks, "dry", &dry), "create dry");
    /* addresses that fault when touched */
    use_all(dry, (float *)16, (float *)16);
    bad = a.calls - b.calls != mds_comm_stats(dry)->calls;
    bad += a.wire_bytes - b.wire_bytes != mds_comm_stats(dry)->wire_bytes;
    bad += (mds_comm_stats(dry)->calls > 0) != (world.ranks > 1);
    mds_comm_destroy(dry);
    check(bad, "dry counts the same and touches nothing");
}

static void test_wrong_arguments(void)
{
    struct mds_comm_req busy = {.comm = all};
    struct mds_comm *none = NULL;
    int self[] = {-1}, bad = 0;
    float x = 0;

    bad += mds_comm_all_reduce(all, &x, -1, MDSK_F32, &x) != MDS_EBUG;
    bad += mds_comm_all_reduce(all, NULL, 1, MDSK_F32, &x) != MDS_EBUG;
    bad += mds_comm_all_reduce_start(all, &x, 1, MDSK_F32, &x, &busy) != MDS_EBUG;
    bad += mds_comm_broadcast(all, &x, 4, world.ranks) != MDS_EBUG;
    bad += mds_comm_create_mpi(self, 1, "none", &none) != MDS_EBUG || none;
    bad += mds_comm_create_dry(3, 3, "none", &none) != MDS_EBUG || none;
    mds_comm_destroy(NULL);
    check(bad, "wrong arguments are refused");
}

static void run_checks(void)
{
    test_all_reduce("all_reduce");
    mds_comm_set_segment(64);
    test_all_reduce("all_reduce in segments of 64");
    test_nan_is_the_maximum();
    test_all_reduce_f64();
    test_gather_records();
    test_broadcast();
    test_all_gather();
    test_reduce_scatter();
    test_exchange();
    test_overlap("20 all-reduces in flight, in many segments");
    mds_comm_set_segment(1 << 20);
    test_overlap("20 all-reduces in flight, in one segment each");
    test_poll_alone_finishes();
    test_subgroups();
    if (world.ranks > 2)
        test_waiting_moves_other_groups();
    test_dry_counts_the_same();
    test_wrong_arguments();
}

int main(void)
{
    ranks_init();
    run_checks();
    return ranks_fini();
}
